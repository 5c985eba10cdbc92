"""What events cost on a GPU: one table per device, each figure with its source.

"Sweep" is the table of 351 BF16 main loops of CUTLASS on one multiprocessor of a B200, taken at a locked 1.3 GHz, and "interval" the
table of MMA latencies and initiation intervals (SemiAnalysisAI/microbench-blackwell, commit 9a068d8; docs/reference/hardware.md 10).
"Fitted" figures were adjusted to all BF16 rows of the sweep, by hand and once; no script repeats the fit.
"""

from collections.abc import Callable, Mapping

from pipec.record import record
from pipec.tune.model import MACHINES, Machine


@record
class Device:
    """Costs in cycles of the multiprocessor's clock unless named otherwise.

    `machine` has what a whole launch needs: multiprocessors, memory, power. `unknown`: what no table says, told with each prediction.
    """

    name: str
    arch: str
    machine: Machine
    interval: Callable[[int, int, int, bool], float]  # (rows, columns, CTAs, A in registers or tensor memory) of 32 bytes of K
    latency: Callable[[int, int, int], float]  # from a full stage to its first product, (rows, columns, CTAs)
    row: float  # of a box, up to 128 bytes, in the engine that walks it
    issue: float  # of one TMA instruction in the thread that issues it
    load: (
        float  # from issue to data, and from the last product to the stage's being seen as free; data in the L2, one block alone
    )
    load_row: float  # and for each row beyond what the engine takes
    load_line: float  # and for each 128 bytes
    far: float  # and for data that does not stay in the near half of the L2
    near_bytes: float  # how much stays there
    far_row: float  # how many times longer a row takes when data comes from farther away
    loaded: float  # further cycles until data has come from memory when all multiprocessors load
    loaded_rate: float  # bytes a cycle that each of them then gets from the L2
    launch: float  # seconds from one kernel to the next
    arrive: float  # from an arrival of threads to who waits for it
    transcendental: float  # one instruction of a warp: exponential, reciprocal, ...
    unknown: tuple[str, ...]

    @property
    def clock(self) -> float:
        """Hz; kernels that use much power run below it."""
        return self.machine.clock


_START = 0.55  # interval: CyclesPerMMA minus the fitted slope, the same in all rows
_NARROWEST = 27.0  # sweep: 64 x 16 x 128; the interval table ends at N = 64


def _tcgen05(rows: int, columns: int, group: int, in_tensor_memory: bool) -> float:
    """Interval table, column a: bound by arithmetic (N / 2), or by reading both operands from shared memory."""
    if group == 2:
        arithmetic = columns / 4 if rows <= 64 else columns / 2
        return (arithmetic if in_tensor_memory else max(arithmetic, 25.7 if rows <= 64 else 43.0)) + _START
    if in_tensor_memory:
        return max(columns / 2, _NARROWEST) + _START
    return (max(columns / 2, _NARROWEST) if rows <= 64 else max(columns / 2, 32 + columns / 4)) + _START


def _tcgen05_latency(rows: int, columns: int, group: int) -> float:
    """Interval table, column b: of shared operands; a pair about 30 more."""
    return (148.0 if rows == 128 and columns >= 128 else 132.0) + (30.0 if group == 2 else 0.0)


def _wgmma(rows: int, columns: int, group: int, in_registers: bool) -> float:
    """4,096 FLOP and 128 bytes of shared memory a cycle; an instruction has 64 rows, each rereading B."""
    one = columns / 2 if in_registers else max(columns / 2, 16 + columns / 4)
    return -(-rows // 64) * one * MACHINES["sm_90a"].product


def _wgmma_latency(rows: int, columns: int, group: int) -> float:
    return 128.0


DEVICES: Mapping[str, Device] = {
    "b200": Device(
        name="B200",
        arch="sm_100a",
        machine=MACHINES["sm_100a"],
        interval=_tcgen05,
        latency=_tcgen05_latency,
        row=1.0,  # sweep: 64 x 64 x 16 and x 32 with 8 stages take one cycle a row
        issue=56.9,  # fitted; 64 x 16 x 128 issues four boxes in 222.6 cycles
        load=381.0,  # fitted; only the sum of both ways shows
        load_row=0.07,  # fitted
        load_line=0.125,  # fitted
        far=444.0,  # fitted to rows whose data takes 64 MiB or more
        near_bytes=64 * 2**20,
        far_row=1.06,  # sweep: row-bound tiles whose data takes 80 MiB or more
        loaded=1000.0,  # the H200's
        loaded_rate=70.0,  # the H200's
        launch=2.2e-6,  # the H200's
        arrive=29.0,  # FlashGPU-Sim's figure for a B200's mbarrier.arrive
        transcendental=8.0,  # four units for the 32 lanes of a warp (CUDA programming guide, arithmetic throughput)
        unknown=(
            "what all multiprocessors together get from the L2 was published by nobody: a figure of the H200 stands in for it",
            "how far the clock falls under load: --clock states it",
        ),
    ),
    "h200": Device(
        name="H200",
        arch="sm_90a",
        machine=MACHINES["sm_90a"],
        interval=_wgmma,
        latency=_wgmma_latency,
        row=1.0,
        issue=56.0,
        load=381.0,
        load_row=0.07,
        load_line=0.125,
        far=444.0,
        near_bytes=30e6,
        far_row=1.06,
        loaded=1000.0,  # fitted to a ninth of the tiles of benchmarks/results/h200.json, like the next two
        loaded_rate=70.0,
        launch=2.2e-6,
        arrive=29.0,
        transcendental=8.0,
        unknown=("launches that overlap: kernels of a few microseconds take up to twice what is said",),
    ),
}
