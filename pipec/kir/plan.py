"""Everything the compiler derives from a kernel: warp numbers, barrier counts, bytes, memory layout, tensor maps.

`plan(kernel, target)` is pure and never fails: a plan that exceeds a limit is still a plan, and `pipec.check.resources`
says what is wrong with it. Lowering follows the plan and derives nothing again.
"""

from dataclasses import dataclass

from pipec.interface import KernelInterface
from pipec.isa.targets import Target
from pipec.kir.ir import Kernel, Role
from pipec.sema.tree import Buffer, Pipeline, Store, TmaLoad, TmaStore


@dataclass(frozen=True, slots=True)
class RolePlan:
    """`single_thread`: a one-warp role in which every operation is a one-thread operation; its body runs in one elected thread.

    `named_barrier` is the hardware barrier that synchronises the role's threads; None for one-warp roles (bar.warp.sync).
    """

    role: Role
    first_warp: int
    single_thread: bool
    named_barrier: int | None
    registers: int | None

    @property
    def threads(self) -> int:
        return self.role.warps * 32


@dataclass(frozen=True, slots=True)
class SideSignals:
    """How one side of a pipeline signals: `how` per role ("tma" bytes, "commit" of MMAs, "threads" arriving, "read" = one
    arrival after the bulk stores have read the stage), the arrival count of the barrier, and the bytes expected per stage.
    """

    how: dict[str, str]
    count: int
    transaction_bytes: int


@dataclass(frozen=True, slots=True)
class TileLayout:
    """A tile in shared memory: rows of `span_bytes` (one swizzle span), panels side by side along the inner dimension.

    Element (r, c) stands in panel c * bytes // span_bytes at row r; the panel is `rows * span_bytes` long; the address bits are
    then swizzled (PTX ISA 5.5.7). `swizzle` is a name of TensorMapParameter.
    """

    swizzle: str
    span_bytes: int
    panels: int
    rows: int

    @property
    def panel_bytes(self) -> int:
        return self.rows * self.span_bytes

    @property
    def bytes(self) -> int:
        return self.panels * self.panel_bytes


@dataclass(frozen=True, slots=True)
class Staging:
    """Shared memory through which a role's TMA stores pass: `buffers` panels of one layout, used in turn."""

    layout: TileLayout
    buffers: int
    offset: int


@dataclass(frozen=True, slots=True)
class SharedItem:
    """One stretch of dynamic shared memory, for the report and the resource messages."""

    name: str
    offset: int
    bytes: int


@dataclass(frozen=True, slots=True)
class Plan:
    kernel: Kernel
    target: Target
    roles: tuple[RolePlan, ...]
    threads: int
    signals: dict[tuple[Pipeline, str], SideSignals]  # side: "producer" completes full, "consumer" completes empty
    layouts: dict[Buffer, TileLayout]  # of shared-memory buffers
    buffer_offsets: dict[Buffer, int]  # byte offset of stage 0 in dynamic shared memory
    barrier_offsets: dict[tuple[Pipeline, str], int]  # "producer" -> full barriers, "consumer" -> empty barriers
    staging: dict[int, Staging]  # id(Store) -> staging, for path "tma"
    shared_items: tuple[SharedItem, ...]
    shared_bytes: int
    columns: dict[Buffer, int]  # first tensor-memory column of stage 0
    column_stride: dict[Buffer, int]  # columns from one stage to the next
    allocated_columns: int  # a power of two from 32, or 0
    tensor_address_offset: int | None  # where tcgen05.alloc writes the address
    tensor_map_of: dict[int, str]  # id(TmaLoad | TmaStore | Store) -> parameter symbol
    interface: KernelInterface


__all__ = ["Plan", "RolePlan", "SharedItem", "SideSignals", "Staging", "Store", "TileLayout", "TmaLoad", "TmaStore"]
