"""The targets, one row each: their names for LLVM and ptxas, and the limits of a kernel."""

from pipec.record import record

WARP = 32  # threads
WARPGROUP_WARPS = 4
WARPGROUP_THREADS = WARPGROUP_WARPS * WARP
REGISTER_STEP = 8  # registers of a thread are allocated in multiples of this
MOST_REGISTERS = 255  # of a thread: addressable by an instruction
REGISTER_RANGE = (24, 256)  # what setmaxnreg takes (hardware.md 7)
MOST_THREADS = 1024  # of a block

# Of a multiprocessor, the same for all targets (CUDA C++ programming guide, technical specifications per compute capability).
MULTIPROCESSOR_BLOCKS = 32
MULTIPROCESSOR_THREADS = 2048
MULTIPROCESSOR_SHARED_BYTES = 228 * 1024
MULTIPROCESSOR_REGISTERS = 65_536
TENSOR_COLUMNS = 512  # of those that have tensor memory

# Bytes of a multiprocessor's shared memory that each block takes besides its own (CUDA C++ programming guide, compute capabilities).
RESERVED_SHARED_BYTES = 1024


@record
class Target:
    """A GPU architecture. Sizes in bytes unless named otherwise; sources: CUDA C++ programming guide, compute capabilities."""

    name: str
    ptx_version: str  # the `.version` directive
    features: str  # LLVM feature string that selects it
    shared_bytes: int  # dynamic shared memory one CTA may opt in to
    tensor_columns: int  # tensor-memory columns per CTA; 0 where there is none
    max_threads: int  # per CTA
    registers: int  # 32-bit registers per CTA
    multiprocessors: int  # of the largest part
    launch_control: bool  # whether a running cluster can take over the work of one that has not started (hardware.md 6)
    products: tuple[str, ...]  # words in the names of its GPUs
    max_named_barriers: int = 16

    def registers_per_thread(self, threads: int) -> int:
        """Registers per thread of a CTA with this many threads, respecting the allocation granularity.

        A CTA gets registers for whole groups of 4 warps, one warp for each quarter of a multiprocessor, so a 13th warp costs as much as
        4 (CUDA C++ best practices, register pressure; it is also what ptxas allows a kernel with that many threads).
        """
        padded = -(-threads // WARPGROUP_THREADS) * WARPGROUP_THREADS
        return min(MOST_REGISTERS, self.registers // padded // REGISTER_STEP * REGISTER_STEP)

    def is_of(self, device: str) -> bool:
        """Whether a GPU with this name runs the target's code."""
        return not {*self.products}.isdisjoint(device.replace("-", " ").split())

    @property
    def capability(self) -> int:
        """Major and minor number of the compute capability as one, 100 for 10.0."""
        return int(self.name.removeprefix("sm_").removesuffix("a"))

    @property
    def properties(self) -> dict[str, str | int | bool]:
        """The properties available at compile time: `target.tensor_memory` and so on."""
        return {"name": self.name, "tensor_memory": self.tensor_columns > 0, "shared_bytes": self.shared_bytes}


# LLVM does not support PTX 8.9, and aborts for sm_100a at 8.5 or below; 8.8 is the first version with the sm_100 family.
_ROWS = (
    Target(
        "sm_100a",
        "8.8",
        "+ptx88",
        232_448,
        TENSOR_COLUMNS,
        MOST_THREADS,
        MULTIPROCESSOR_REGISTERS,
        148,
        True,
        ("B100", "B200", "GB200"),
    ),
    Target(
        "sm_90a",
        "8.8",
        "+ptx88",
        232_448,
        0,
        MOST_THREADS,
        MULTIPROCESSOR_REGISTERS,
        132,
        False,
        ("H20", "H100", "H200", "H800", "GH200"),
    ),
)

MOST_CLUSTER_CTAS = 8  # supported by every part with clusters (CUDA C++ programming guide, portable cluster size)

TARGETS: dict[str, Target] = {row.name: row for row in _ROWS}
DEFAULT_TARGET = "sm_100a"
