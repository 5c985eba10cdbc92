"""What events cost on a GPU: one table per device, each figure with its source.

"Sweep" is the table of 351 BF16 main loops of CUTLASS on one multiprocessor of a B200, taken at a locked 1.3 GHz, and "interval" the
table of MMA latencies and initiation intervals (SemiAnalysisAI/microbench-blackwell, commit 9a068d8; docs/reference/hardware.md 10).
"Fitted" figures of the B200 come from the BF16 rows of the sweep whose data stays in the near half of its L2 (`benchmarks/fit_main_loop.py`
prints them anew), those about data that does not from the others; rows of other types were not at hand.
"""

from collections.abc import Callable, Mapping
from math import inf

from pipec.record import record, replace


@record
class Sustained:
    """What a launch takes of the power limit at the nominal clock: `idle`, whatever it does, and `products` and `memory` for the part of
    its time in which tensor cores and memory are busy. As far as it is more than the limit, the clock falls, by the power `exponent`."""

    idle: float
    products: float
    memory: float
    exponent: float

    def clock(self, demand: float) -> float:
        """Of the nominal one, the part at which a launch runs whose energy takes the limit so many times as long as it does."""
        part: float = (self.idle + (1 - self.idle) * demand) ** -self.exponent
        return min(1.0, part)


@record
class Machine:
    """What bounds a launch as a whole. Rates per multiprocessor and cycle unless named otherwise.

    `groups`: how many multiprocessors lie together, group by group: a cluster runs inside one of them.
    """

    groups: tuple[int, ...]
    clock: float  # Hz
    product_flops: int  # of 16-bit operands, dense: the tensor cores
    operand_bytes: int  # that the tensor cores read from shared memory
    l2_capacity: float  # bytes of inputs that stay in the L2 from one use to the next
    dram: float  # bytes per second
    few: float  # the power of the part of the multiprocessors that have a block, by which that is less
    flops: float  # per second at the power limit, 16-bit operands, where nothing is known of how the clock falls
    sustained: Sustained | None  # how it falls

    @property
    def multiprocessors(self) -> int:
        return sum(self.groups)

    @property
    def peak(self) -> float:
        """16-bit operations of all tensor cores per second, at the nominal clock."""
        return self.multiprocessors * self.product_flops * self.clock

    def resized(self, multiprocessors: int) -> "Machine":
        """One of the same kind with so many, in as many groups."""
        if multiprocessors == self.multiprocessors:
            return self
        each, more = divmod(multiprocessors, len(self.groups))
        return replace(self, groups=tuple(each + (place < more) for place in range(len(self.groups))))

    def at_a_time(self, cluster: int) -> int:
        """Multiprocessors that clusters of so many CTAs fill, each CTA on one of its own."""
        return cluster * sum(group // cluster for group in self.groups) or cluster


@record
class Unknown:
    """What figures of a `Device` may be that nobody has published."""

    loaded_rate: float
    loaded: float
    flops: float


@record
class Device:
    """Costs in cycles of the multiprocessor's clock unless named otherwise.

    `machine` has what a whole launch needs: multiprocessors, memory, power. `unknown`: what no table says, told with each prediction.
    """

    name: str
    arch: str
    machine: Machine
    interval: Callable[[int, int, int, bool], float]  # (rows, columns, CTAs, A in registers or tensor memory) of 32 bytes of K
    product: float  # how many times longer they follow each other in a kernel
    narrow: float  # how much shorter that is for elements of 8 bits and fewer
    latency: Callable[[int, int, int, bool], float]  # from a full stage to its first product, like `interval`
    row: float  # of a box, up to 128 bytes, in the engine that walks it
    issue: float  # of one TMA instruction in the thread that issues it
    issue_row: float  # and for each row of its box
    turn: float  # of that thread for each stage: waiting for it, announcing its bytes, counting on
    load: (
        float  # from issue to data, and from the last product to the stage's being seen as free; data in the L2, one block alone
    )
    load_row: float  # and for each row beyond what the engine takes
    load_line: float  # and for each 128 bytes
    alone: float  # the part of the multiprocessors up to which data is found in the L2, launches of others not being known
    far: float  # and for data that then does not stay in the near half of the L2
    near_bytes: float  # how much stays there
    far_row: float  # how many times longer a row takes when data comes from farther away
    memory: float  # further cycles until data has come from memory
    loaded: float  # and when all multiprocessors load
    loaded_rate: float  # bytes a cycle that each of them then gets from the L2
    served_rate: float  # bytes a cycle that the L2 gives out, for each of them: what several ask for at once counts once
    multicast_rate: float  # bytes a cycle that a CTA gets by multicasts, its own included
    meet: float  # until the CTAs of a cluster know of each other that they have started
    outside: float  # for a row of a box outside its tensor, when all multiprocessors load
    split: float  # times as long for a row that starts within a line of the cache
    launch: float  # seconds from one kernel to the next
    overlap: float  # and how many of them fewer where it may start before the other has ended
    tile: float  # of the threads that store a tile, however small
    element: float  # and for each of its elements
    arrive: float  # from an arrival of threads to who waits for it
    turn_over: float  # from the last store of a block to the next one's turn, by a counter in global memory
    transcendental: float  # one instruction of a warp: exponential, reciprocal, ...
    compare: float  # one that finds the larger of two f32 numbers
    pair: float  # one f32 addition, multiplication, ... of a warp: half where two elements are computed by one instruction
    spread: tuple[
        tuple[float, float], ...
    ]  # up to so many seconds, the part by which nine of ten kernels on record are off at most
    extremes: tuple[Unknown, ...]  # what is not known may be as good and as bad as this, where all multiprocessors work
    dependent: (
        float  # how many times longer than it issues a warp computes that multiplies in registers: it waits for its own results
    )
    unknown: tuple[str, ...]

    @property
    def clock(self) -> float:
        """Hz; kernels that use much power run below it."""
        return self.machine.clock

    def at(self, clock: float) -> "Device":
        """The same at another clock: the way to memory takes its time, however fast a multiprocessor counts."""
        part = clock / self.clock
        return self if part == 1.0 else replace(self, memory=self.memory * part, loaded=self.loaded * part)


_START = 0.55  # interval: CyclesPerMMA minus the fitted slope, the same in all rows
_NARROWEST = {64: 25.0, 128: 38.6}  # fitted: the interval table ends at N = 64


def _tcgen05(rows: int, columns: int, group: int, in_tensor_memory: bool) -> float:
    """Interval table, column a: bound by arithmetic (N / 2), or by reading the operands from shared memory. `rows` of one CTA."""
    short = rows <= 64
    if group == 2:
        arithmetic = columns / 4 if short else columns / 2
        if in_tensor_memory:
            return max(arithmetic, 18.0 if short else 0.0) + _START
        read = min(17.0 + columns / 8, 30.2) if short else min(33.5 + columns / 6, 49.5)
        return max(arithmetic, read) + _START
    if in_tensor_memory:
        return max(columns / 2, _NARROWEST[64]) + _START
    read = _NARROWEST[64] if short else max(32 + columns / 4, _NARROWEST[128])
    return max(columns / 2, read) + _START


def _tcgen05_latency(rows: int, columns: int, group: int, in_tensor_memory: bool) -> float:
    """Interval table, column b. Below N = 64, where it ends, it falls on as it does above (the sweep's narrow tiles agree)."""
    short, wide = rows <= 64, min(columns, 128) / 4
    if group == 2:
        if in_tensor_memory:
            return 158.0 if short else 150.0
        return (145.0 if short else 153.0) + wide
    if in_tensor_memory:
        return 116.0
    return 116.0 + (min(columns, 64) / 4 if short else wide)


def _wgmma(rows: int, columns: int, group: int, in_registers: bool) -> float:
    """4,096 FLOP and 128 bytes of shared memory a cycle; an instruction has 64 rows, each rereading B."""
    return -(-rows // 64) * (columns / 2 if in_registers else max(columns / 2, 16 + columns / 4))


def _wgmma_latency(rows: int, columns: int, group: int, in_registers: bool) -> float:
    return 128.0


DEVICES: Mapping[str, Device] = {
    "b200": Device(
        name="B200",
        arch="sm_100a",
        machine=Machine(
            groups=(18,) * 6 + (20,) * 2,  # 148 in eight; how many in which is not published
            clock=1.85e9,
            product_flops=8192,
            operand_bytes=128,
            l2_capacity=60e6,
            few=0.0,  # not known
            dram=7.2e12,  # tma_throughput.csv, 64 KiB in flight (docs/reference/hardware.md 10)
            flops=1700e12,  # below what two of the published GEMMs reach at their best
            sustained=None,
        ),
        interval=_tcgen05,
        latency=_tcgen05_latency,
        product=1.0,  # sweep: rows bound by products keep to the interval
        row=1.0,  # sweep: 64 x 64 x 16 and x 32 with 8 stages take one cycle a row
        narrow=0.27,  # interval: CyclesPerMMA of E4M3, S8 and F4 beside BF16
        issue=50.5,  # fitted, like the next two; 64 x 16 x 128 issues four boxes in 222.6 cycles
        issue_row=0.07,
        turn=11.5,
        load=372.0,  # fitted; only the sum of both ways shows
        load_row=0.03,  # fitted
        load_line=0.19,  # fitted
        alone=0.05,  # sweep: one of 148 finds its data there
        far=444.0,  # fitted to rows whose data takes 64 MiB or more
        near_bytes=64 * 2**20,
        far_row=1.06,  # sweep: row-bound tiles whose data takes 80 MiB or more
        memory=528.0,  # tma_throughput.csv: all multiprocessors load one box of 512 bytes at a time in 900 cycles
        loaded=281.0,  # the H200's as they were fitted without a model of its clock, like the next five
        loaded_rate=69.5,
        served_rate=inf,  # neither this nor the next two are known
        multicast_rate=inf,
        meet=0.0,
        outside=7.52,
        split=2.53,
        tile=441.0,
        element=0.109,
        overlap=0.0,  # not known
        launch=7.1e-6,  # fitted: launches timed one at a time, at 1.3 GHz
        arrive=29.0,  # FlashGPU-Sim's figure for a B200's mbarrier.arrive
        spread=((inf, 0.03),),  # benchmarks/predict.py, of one multiprocessor
        # As one alone has it (sweep) and the tensor cores' own limit; at least so much was seen (tma_multicast.csv, b200_published.csv).
        extremes=(Unknown(loaded_rate=122.0, loaded=0.0, flops=2.2e15), Unknown(loaded_rate=46.0, loaded=2000.0, flops=1.25e15)),
        dependent=1.4,  # the H200's, likewise
        turn_over=3000.0,  # the H200's
        transcendental=8.0,  # four units for the 32 lanes of a warp (CUDA programming guide, arithmetic throughput)
        compare=0.5,  # of three values one instruction finds the largest
        pair=0.5,  # add.f32x2 and the like
        unknown=(
            "the L2 bandwidth that all multiprocessors share (no published figure; that of the H200 stands in for it)",
            "how far the clock falls under load: --clock states it",
        ),
    ),
    "h200": Device(
        name="H200",
        arch="sm_90a",
        machine=Machine(
            # 132; of clusters of four more than 28 and less than 32 run at a time (h200.json).
            groups=(18,) * 4 + (16,) * 2 + (14,) * 2,
            clock=1.98e9,
            product_flops=4096,
            operand_bytes=128,
            l2_capacity=36e6,
            dram=4.28e12,  # fitted
            few=0.05,  # the tiles of gemm_sm90_narrow at the fitted shapes of benchmarks/results/h200_overlap.json
            flops=inf,
            sustained=Sustained(idle=0.218, products=1.4, memory=0.457, exponent=0.704),  # fitted, to clocks on record as well
        ),
        interval=_wgmma,
        latency=_wgmma_latency,
        # Fitted, like all below that do not say otherwise: to the tiles of seventeen of the shapes of h200_gemm.json.
        product=1.159,
        narrow=0.0,
        row=1.0,  # as on a B200
        issue=56.0,  # as on a B200, where it is 57 with its rows
        issue_row=0.0,
        turn=0.0,
        load=381.0,  # as on a B200, whose sweep says 372 to 381; not to be told from `memory` here
        load_row=0.07,
        load_line=0.125,
        alone=0.0,  # all launches on record begin with their inputs in memory
        far=0.0,
        near_bytes=inf,
        far_row=1.0,
        memory=1180.0,
        loaded=16.5,
        loaded_rate=70.5,
        served_rate=38.8,  # 5,120 for all, as NVIDIA's whitepaper states for the A100's L2; fitted here it is the same
        multicast_rate=75.0,  # fitted with the others as they are, like the next one
        meet=400.0,
        outside=11.0,
        split=2.69,
        tile=31.0,
        element=0.0885,
        launch=2.55e-6,
        overlap=0.8e-6,  # the median of what it gained at the fitted shapes of h200_overlap.json, up to 60 us
        arrive=29.0,  # as on a B200
        spread=((30e-6, 0.12), (inf, 0.1)),  # benchmarks/predict.py, tiles within 1.3 of the best
        extremes=(),
        dependent=2.0,  # fitted to the lengths 1,024 and 8,192 of benchmarks/results/h200_attention.json
        turn_over=3000.0,  # fitted to every third time of gemm_sm90_split_k in benchmarks/results/h200.json
        transcendental=8.0,
        compare=2.0,  # 64 a cycle of a multiprocessor, half as many as additions (CUDA programming guide, arithmetic throughput)
        pair=1.0,
        unknown=("what kernels of a few microseconds gain where launches overlap, beyond what they do in the median",),
    ),
}
BY_ARCH: Mapping[str, Device] = {device.arch: device for device in DEVICES.values()}
