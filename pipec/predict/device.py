"""What events cost on a GPU: one table per device, each figure with its source.

"Sweep" is the table of 351 BF16 main loops of CUTLASS on one multiprocessor of a B200, at a locked 1.3 GHz, and "interval" the table of
MMA latencies and initiation intervals (SemiAnalysisAI/microbench-blackwell, commit 9a068d8; docs/reference/hardware.md 10). "Fitted"
figures of the B200 come from the BF16 rows of the sweep whose data stays in the near half of its L2
(`benchmarks/prediction/fit_main_loop.py` prints them anew), those about other data from the remaining rows; rows of other types were not
available.
"""

from collections.abc import Callable, Mapping
from math import inf

from pipec.record import record, replace


@record
class Sustained:
    """The share of the power limit that a launch takes at the nominal clock: `idle`, always, plus `products`, `memory` and `arithmetic` for
    the fraction of its time in which tensor cores, memory and the f32 units of all threads are busy. Tensor cores take `narrow` times as
    much with operands of 8 bits, and `near` times as much where the first operand comes from registers. Beyond the limit the clock falls,
    by the power `exponent`."""

    idle: float
    products: float
    narrow: float
    near: float
    memory: float
    arithmetic: float
    exponent: float

    def clock(self, demand: float) -> float:
        """The fraction of the nominal clock at which a launch runs whose energy is `demand` times the limit over its duration."""
        part: float = (self.idle + (1 - self.idle) * demand) ** -self.exponent
        return min(1.0, part)


@record
class Machine:
    """What bounds a launch as a whole. Rates per multiprocessor and cycle unless named otherwise.

    `groups`: the sizes of the groups of multiprocessors: a cluster runs inside one of them.
    """

    groups: tuple[int, ...]
    clock: float  # Hz
    product_flops: int  # of 16-bit operands, dense: the tensor cores
    operand_bytes: int  # read by the tensor cores from shared memory
    l2_capacity: float  # bytes of inputs that stay in the L2 between uses
    dram: float  # bytes per second
    streamed: float  # factor on it where some data is loaded with `evict_first`, and leaves the other data in the L2
    long_rows: float  # factor on it where the rows of all operands' tiles are two cache lines or longer
    few: float  # exponent on the fraction of multiprocessors with a block, by which the rate decreases
    crowded: float  # by how much the rate of a block falls that has another one beside it on its TPC
    flops: float  # per second at the power limit, 16-bit operands, if the power model is unknown
    sustained: Sustained | None  # how the clock falls with power

    @property
    def multiprocessors(self) -> int:
        return sum(self.groups)

    @property
    def peak(self) -> float:
        """16-bit operations of all tensor cores per second, at the nominal clock."""
        return self.multiprocessors * self.product_flops * self.clock

    def resized(self, multiprocessors: int) -> "Machine":
        """A machine of the same kind with this many, in as many groups."""
        if multiprocessors == self.multiprocessors:
            return self
        each, more = divmod(multiprocessors, len(self.groups))
        return replace(self, groups=tuple(each + (place < more) for place in range(len(self.groups))))

    def at_a_time(self, cluster: int) -> int:
        """Multiprocessors that clusters of this many CTAs fill, with one CTA each."""
        return cluster * sum(group // cluster for group in self.groups) or cluster


@record
class Unknown:
    """Extreme values of figures of a `Device` that nobody has published."""

    loaded_rate: float
    loaded: float
    flops: float


@record
class Device:
    """Costs in cycles of the multiprocessor's clock unless named otherwise.

    `machine` has what a whole launch needs: multiprocessors, memory, power. `unknown`: figures that no table provides, reported with
    each prediction.
    """

    name: str
    arch: str
    machine: Machine
    interval: Callable[[int, int, int, bool], float]  # (rows, columns, CTAs, A in registers or tensor memory) of 32 bytes of K
    product: float  # factor on the interval in a kernel
    narrow: float  # reduction of the interval for elements of 8 bits and fewer
    latency: Callable[[int, int, int, bool], float]  # from a full stage to its first product, like `interval`
    row: float  # of a box, up to 128 bytes, in the copy engine
    issue: float  # of one TMA instruction in the thread that issues it
    issue_row: float  # and for each row of its box
    turn: float  # of that thread for each stage: waiting for it, announcing its bytes, advancing its cursor
    load: float  # from issue to data, and from the last product to the free stage; data in the L2, one block alone
    load_row: float  # and for each row in addition to the engine's time
    load_line: float  # and for each 128 bytes
    alone: float  # the fraction of multiprocessors up to which data is found in the L2, with unknown earlier launches
    far: float  # and for data that does not stay in the near half of the L2 then
    near_bytes: float  # capacity of that half
    far_row: float  # slow-down of a row for data from farther away
    memory: float  # further cycles for data from memory
    loaded: float  # and when all multiprocessors load
    loaded_rate: float  # bytes per cycle that each of them then gets from the L2
    served_rate: float  # bytes per cycle that the L2 serves, for each of them: merged requests count once
    astray: float  # the part of what neighbours request together that is not merged, of blocks that load without interruption
    multicast_rate: float  # bytes per cycle that a CTA gets in all, if some of them come by multicasts
    stalling: float  # sharpness of the maximum of products and what the L2 serves: where both are nearly as busy, both are slower
    jamming: float  # and of products and what the copy engine walks, which both take shared memory
    l2_follows: float  # exponent by which the L2's clock falls with that of the multiprocessors
    meet: float  # until the CTAs of a cluster know that all have started
    remote: float  # for each four bytes that threads read from the shared memory of other CTAs
    exchange: float  # and until the CTAs know of each other's that they may read
    order: float  # until a persistent block has worked out its first tile
    outside: float  # for a row of a box outside its tensor, when all multiprocessors load
    outside_most: float  # and for such a row of a multicast in all CTAs together, at most so many times that
    split: float  # requests for a row that starts within a cache line
    sector: float  # and how many more if it starts within a sector, of which it then touches one more
    launch: float  # seconds from one kernel to the next
    overlap: float  # and how much less if it may start before the previous one has ended
    tile: float  # of the threads that store a tile, of any size
    element: float  # and for each of its elements
    added_element: float  # or that is added to what is there
    arrive: float  # from an arrival of threads to the waiting threads
    turn_over: float  # from the last store of a block to the next one's turn, through a counter in global memory
    transcendental: float  # one instruction of a warp: exponential, reciprocal, ...
    compare: float  # one instruction of a warp for the maximum of two f32 numbers
    pair: float  # one f32 addition, multiplication, ... of a warp: half if one instruction computes two elements
    spread: tuple[tuple[float, float], ...]  # up to this many seconds, the relative error of nine of ten recorded kernels
    extremes: tuple[Unknown, ...]  # best and worst case of the unknown figures, if all multiprocessors work
    dependent: float  # ratio of computing to issue time for a warp that multiplies in registers: it waits for its own results
    unknown: tuple[str, ...]

    @property
    def with_article(self) -> str:
        """Its name in a sentence: the letter H begins with a vowel when it is read."""
        return f"{'an' if self.name.startswith('H') else 'a'} {self.name}"

    @property
    def clock(self) -> float:
        """Hz; kernels that use much power run below it."""
        return self.machine.clock

    def at(self, clock: float) -> "Device":
        """The same at another clock of the multiprocessors: the latency of memory is constant in time, not in cycles, and the L2, whose own
        clock falls less, gives more in each of their cycles."""
        part = clock / self.clock
        if part == 1.0:
            return self
        more = part ** (self.l2_follows - 1)
        return replace(
            self,
            memory=self.memory * part,
            loaded=self.loaded * part,
            loaded_rate=self.loaded_rate * more,
            served_rate=self.served_rate * more,
            multicast_rate=self.multicast_rate * more,
            added_element=self.added_element / more,
        )


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
    """Between what a warpgroup waits for and its first product, in addition to the interval: with `dependent`, as cycles of attention over
    8,192 keys and of products with scales by blocks at 8192 x 8192 x 8192 have it (h200_clocks.json)."""
    return 64.0


DEVICES: Mapping[str, Device] = {
    "b200": Device(
        name="B200",
        arch="sm_100a",
        machine=Machine(
            groups=(18,) * 6 + (20,) * 2,  # 148 in eight; the sizes are not published
            clock=1.85e9,
            product_flops=8192,
            operand_bytes=128,
            l2_capacity=60e6,
            streamed=1.0,  # unknown, like the next three
            long_rows=1.0,
            few=0.0,
            crowded=0.0,
            dram=7.2e12,  # tma_throughput.csv, 64 KiB in flight (docs/reference/hardware.md 10)
            flops=1700e12,  # below what two of the published GEMMs reach at best
            sustained=None,
        ),
        interval=_tcgen05,
        latency=_tcgen05_latency,
        product=1.0,  # sweep: rows bound by products match the interval
        row=1.0,  # sweep: 64 x 64 x 16 and x 32 with 8 stages take one cycle per row
        narrow=0.27,  # interval: CyclesPerMMA of E4M3, S8 and F4 relative to BF16
        issue=50.5,  # fitted, like the next two; 64 x 16 x 128 issues four boxes in 222.6 cycles
        issue_row=0.07,
        turn=11.5,
        load=372.0,  # fitted; only the sum of both latencies is observable
        load_row=0.03,  # fitted
        load_line=0.19,  # fitted
        alone=0.05,  # sweep: one of 148 finds its data there
        far=444.0,  # fitted to rows whose data takes 64 MiB or more
        near_bytes=64 * 2**20,
        far_row=1.06,  # sweep: row-bound tiles whose data takes 80 MiB or more
        memory=528.0,  # tma_throughput.csv: all multiprocessors load one box of 512 bytes at a time in 900 cycles
        loaded=281.0,  # the H200's, fitted without a model of its clock, like the next five
        loaded_rate=69.5,
        served_rate=inf,  # unknown, like the next two and `meet`
        astray=0.0,
        multicast_rate=inf,
        stalling=7.1,  # the H200's, like the next one
        jamming=16.0,
        l2_follows=1.0,
        meet=0.0,
        remote=0.91,  # the H200's
        exchange=0.0,
        order=0.0,  # not known, like the next but one
        outside=7.52,
        outside_most=inf,
        split=1.9,  # the H200's, measured, like the next one
        sector=1.38,
        tile=441.0,
        element=0.109,
        added_element=0.109,
        overlap=0.0,  # unknown
        launch=7.1e-6,  # fitted: launches timed one at a time, at 1.3 GHz
        arrive=29.0,  # FlashGPU-Sim's figure for a B200's mbarrier.arrive
        spread=((inf, 0.03),),  # benchmarks/prediction/predict.py, of one multiprocessor
        # That of one alone (sweep) and the tensor cores' own limit; at least this much was observed (tma_multicast.csv,
        # b200_published.csv).
        extremes=(Unknown(loaded_rate=122.0, loaded=0.0, flops=2.2e15), Unknown(loaded_rate=46.0, loaded=2000.0, flops=1.25e15)),
        dependent=1.4,  # the H200's, likewise
        turn_over=2740.0,  # the H200's
        transcendental=8.0,  # four units for the 32 lanes of a warp (CUDA programming guide, arithmetic throughput)
        compare=0.5,  # one instruction computes the maximum of three values
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
            # What the multiprocessors note where power does not limit them (1.79 to 1.83 in h200_cycles.json); the driver then says 1.98.
            clock=1.81e9,
            product_flops=4096,
            operand_bytes=128,
            l2_capacity=36e6,
            # The next two: tiles that memory bounds at the fitted shapes of h200_gemm.json, h200_choice.json and h200_overlap.json, in
            # launches that do not overlap. With one rate (4.28) those with `evict_first` take 2.1 % less than predicted, others 1.2 % more.
            dram=4.23e12,
            streamed=1.033,
            # Tiles of 256-byte rows that memory bounds, beside those of 128, in the records from h200_choice.json on: predicted 1.3 to 5 %
            # longer without it, for up to 64 rows of A.
            long_rows=1.03,
            few=0.05,  # the tiles of gemm_sm90_narrow at the fitted shapes of benchmarks/results/h200_overlap.json
            crowded=0.7,  # the fitted shapes of h200_overlap.json beside the same tiles in h200_choice.json, where nothing overlaps
            flops=inf,
            # Fitted to tiles as below, but for three. `narrow`: 8192 x 8192 x 8192 in e4m3 in the same records. `near` and `arithmetic`:
            # the clocks of attention over 8,192 keys and of products with scales by blocks at 8192 x 8192 x 8192, which are their cycles in
            # h200_clocks.json over their times on record.
            sustained=Sustained(idle=0.283, products=1.56, narrow=1.1, near=0.4, memory=0.595, arithmetic=1.5, exponent=0.48),
        ),
        interval=_wgmma,
        latency=_wgmma_latency,
        # Fitted, unless stated otherwise below: to the tiles of seventeen shapes in h200_gemm.json, h200_choice.json and h200_overlap.json,
        # and to their cycles in h200_cycles.json at four of these shapes.
        product=1.015,  # h200_cycles.json: 8192 x 8192 x 512 and 4096 x 4096 x 14336
        narrow=0.0,
        row=1.0,  # as on a B200
        issue=56.0,  # as on a B200, where it is 57 with its rows
        issue_row=0.0,
        turn=0.0,
        load=381.0,  # as on a B200, whose sweep says 372 to 381; not distinguishable from `memory` here
        load_row=0.07,
        load_line=0.125,
        alone=0.0,  # all recorded launches start with their inputs in memory
        far=0.0,
        near_bytes=inf,
        far_row=1.0,
        memory=1033.0,
        loaded=15.0,
        loaded_rate=77.4,
        served_rate=52.7,
        astray=0.8,  # ping-pong without clusters, at the fitted shapes of h200_choice.json and h200_overlap.json
        multicast_rate=84.5,
        stalling=7.1,
        # Tiles of 64 x 192 beside 128 x 96 at 256 x 6144 x 4096, and others, in h200_overlap.json; 20 does as well.
        jamming=16.0,
        l2_follows=0.66,
        # The next two, `outside_most` and `launch` are read off h200_starts.json, whose tiles differ in one of them at a time: at
        # 896 x 1152 x 64 persistent ones take 0.31 us more than others, pairs of CTAs 0.35 to 0.47.
        meet=640.0,
        remote=0.91,  # gemm_sm90_narrow at the fitted shapes of h200_gemm.json, with `meet` before and behind it
        exchange=995.0,  # 8 x 6400 in h200_starts.json: pairs that split K take 0.53 to 0.57 us more than without, for K from 512 to 5,120
        order=560.0,
        outside=10.5,
        outside_most=2.0,  # 8 rows of 128 inside, K of 12,288: pairs take as long as single CTAs, fours 0.63 of it, eights 0.45
        # Rows of 2,016, 2,032, 4,072, 4,080, ... elements, beside rows of whole lines, at 2944 x 3072 (h200_terms.json); where they start
        # within sectors the two together are what was fitted to the seventeen shapes.
        split=1.9,
        sector=1.38,
        tile=29.7,
        element=0.0914,
        # 2,300 bytes a cycle for all: splits of K in h200_terms.json and at the fitted shapes, of 0.09 to 0.3; a third of the L2's rate.
        added_element=0.23,
        launch=1.5e-6,
        overlap=0.8e-6,  # the median gain at the fitted shapes of h200_overlap.json, up to 60 us
        arrive=29.0,  # as on a B200
        spread=((30e-6, 0.12), (inf, 0.1)),  # benchmarks/prediction/predict.py, tiles within 1.3 of the best
        extremes=(),
        dependent=1.4,  # fitted to the lengths 1,024 and 8,192 of benchmarks/results/h200_attention.json
        turn_over=2740.0,  # fitted to every third time of gemm_sm90_split_k in benchmarks/results/h200.json
        transcendental=8.0,
        compare=2.0,  # 64 per cycle of a multiprocessor, half the rate of additions (CUDA programming guide, arithmetic throughput)
        pair=1.0,
        unknown=("how much a kernel gains by starting while the one in front ends: the median of the recorded gains is taken",),
    ),
}
BY_ARCH: Mapping[str, Device] = {device.arch: device for device in DEVICES.values()}
