"""About how long a kernel takes, from what a block of it does: for choosing a tile where nothing was measured.

A block's loads, products and epilogues are turned into cycles of the engine that does them. The slowest engine sets the pace of the
main loop; a ring of pipeline stages that is too short for the way of a load to its free stage sets it too. Blocks run in waves; memory
and the power limit bound the whole launch:

    loop   = max(products, TMA rows, TMA issue, bytes from L2, load-to-free cycles / stages)           of a block on its multiprocessor
    block  = loop + epilogues that no other product hides
    SM     = waves of blocks, or for blocks that stay the block with the most tiles
    time   = launch + (SM^6 + DRAM^6 + power^6)^(1/6)                                                the largest, rounded where two meet

Constants are of a machine (`MACHINES`) and say where they come from. The model ranks tiles; as a stop-watch it is off by a tenth or more,
and for kernels of a few microseconds by much more (docs/tuning.md has the figures).
"""

from collections.abc import Iterable, Mapping
from math import ceil

from pipec.record import record, replace
from pipec.tune.workload import ROW_BYTES, Load, Product, RoleWork, Workload

ROUNDING = 6  # how sharply the largest term stands out where two meet


@record
class Machine:
    """A GPU. Rates per multiprocessor and cycle unless named otherwise."""

    multiprocessors: int
    clock: float  # Hz
    shared_bytes: int  # of a multiprocessor, for its blocks together
    product_flops: int  # of 16-bit operands, dense: the tensor cores
    operand_bytes: int  # that the tensor cores read from shared memory
    l2_capacity: float  # bytes of inputs that stay in the L2 from one use to the next
    dram: float  # bytes per second
    # Fitted, see below.
    launch: float  # seconds from one kernel to the next
    product: float  # how many times longer products take than the two rates above say
    bubble: float  # cycles between the products of one stage and of the next
    trip: float  # cycles from the issue of a load to the stage's being free again, its data coming from DRAM
    tile: float  # cycles of an epilogue, however small
    element: float  # and for each of its elements
    l2: float  # bytes from the L2 when all multiprocessors load
    flops: float  # per second at the power limit, 16-bit operands
    first: float  # cycles until a block's first load is issued
    outside: float  # cycles for a box row outside its tensor, when all multiprocessors load
    split: float  # times as long for a row that starts within a line
    issue: float = 56.0  # cycles of one TMA instruction


# Rates of a multiprocessor from the H200's data sheet; what is marked as fitted above, by benchmarks/fit_model.py to the times of 1,438
# tiles at the 48 shapes of benchmarks/results/h200.json, in a run before the one that stands there.
_H200 = Machine(
    multiprocessors=132,
    clock=1.98e9,
    shared_bytes=227 * 1024,
    product_flops=4096,
    operand_bytes=128,
    l2_capacity=36e6,
    dram=3.65e12,
    launch=1.372e-6,
    product=1.212,
    bubble=0.03,
    trip=2634.0,
    tile=0.66,
    element=0.1437,
    l2=60.98,
    flops=716e12,
    first=37.9,
    outside=7.43,
    split=2.25,  # of 2.0 to 2.5, which are equally near, the one that chooses best
)
# Nobody could measure on a B200: rates from published microbenchmarks (docs/reference/hardware.md 10); what only a whole kernel tells is
# taken over from the H200. It ranks tiles by the same terms, and is to be fitted when there is a record.
_B200 = replace(
    _H200,
    multiprocessors=148,
    clock=1.85e9,
    product_flops=8192,
    l2_capacity=60e6,
    dram=7.2e12,
    product=1.02,
    trip=2500.0,
    flops=1700e12,
    issue=57.0,
)
MACHINES: dict[str, Machine] = {"sm_90a": _H200, "sm_100a": _B200}


@record
class Prediction:
    """Seconds, and those of each bound alone; `bound` names the largest."""

    seconds: float
    terms: Mapping[str, float]

    @property
    def bound(self) -> str:
        return max(self.terms, key=self.terms.__getitem__)


def predict(work: Workload, machine: Machine) -> Prediction:
    """Of a launch whose inputs are in DRAM."""
    if work.blocks == 0:
        return Prediction(machine.launch, {"launch": machine.launch})
    block = _Block(work, machine)
    terms = {
        "multiprocessors": _waves(work, machine, block) / machine.clock,
        "memory": dram_bytes(work, machine) / machine.dram,
        "power": work.flops / machine.flops,
    }
    return Prediction(machine.launch + sum(term**ROUNDING for term in terms.values()) ** (1 / ROUNDING), terms)


# --------------------------------------------------------------------------------------------------------------- a block


# Rows that one instruction multiplies, reading B anew: wgmma's 64, which four warps share, and tcgen05's 128 (64 take as long).
_INSTRUCTION_ROWS = {"registers": 64, "tensor": 128}


class _Block:
    """Cycles of one block by engine."""

    def __init__(self, work: Workload, machine: Machine) -> None:
        self.machine = machine
        products = [product for role in work.roles for product in role.products]
        self.products = sum(self._product(one) * one.times for one in products)
        self.rows = sum(self._rows(load) for load in work.loads)
        self.outside = sum(machine.outside * load.rows * (1 - load.inside) * load.boxes * load.times for load in work.loads)
        self.issue = sum(machine.issue * load.boxes * load.times for load in work.loads)
        self.bytes = sum(self._rows(load) * ROW_BYTES / load.shared for load in work.loads)
        self.trips = sum(self._trips(work, name, stages) for name, stages in work.stages.items())
        self.epilogue, self.hidden = self._epilogues(work)

    def _product(self, one: Product) -> float:
        """Cycles on the tensor cores, bound by the arithmetic or by reading the operands from shared memory."""
        machine, rows = self.machine, _INSTRUCTION_ROWS[one.memory]
        times = ceil(one.m / rows)
        flops = times * rows * one.n * one.k_bytes  # of 16 bits: 2 * m * n * (k_bytes / 2)
        read = times * (rows + one.n) * one.k_bytes
        return max(flops / machine.product_flops, read / machine.operand_bytes) * machine.product + machine.bubble

    def _rows(self, load: Load) -> float:
        split = 1.0 + (self.machine.split - 1.0) * load.crooked
        full = load.row_bytes / (load.boxes * ROW_BYTES)  # boxes that are narrower than a row
        return load.rows * load.inside * load.boxes * split * full * load.times

    def _trips(self, work: Workload, pipeline: str, stages: int) -> float:
        """Cycles that the way from load to free stage takes, shared out to the stages."""
        loads = [load for load in work.loads if load.pipeline == pipeline]
        steps = max(load.times for load in loads)
        return steps * self.machine.trip / stages

    def _epilogues(self, work: Workload) -> tuple[float, float]:
        """Cycles of all epilogues, and how much of it products of other tiles hide."""
        cycles = [sum(self._epilogue_cycles(one.elements) * one.times for one in role.epilogues) for role in work.roles]
        storing = [cost for cost in cycles if cost]
        if not storing:
            return 0.0, 0.0
        multiplying: list[RoleWork] = [role for role in work.roles if role.products]
        apart = all(not role.epilogues for role in multiplying) and work.accumulators > 1
        if not apart and len(storing) == 1:
            return storing[0], 0.0
        tiles = max((one.times for role in work.roles for one in role.epilogues), default=1.0)
        return sum(storing), sum(storing) - max(storing) / max(tiles, 1.0)

    def _epilogue_cycles(self, elements: int) -> float:
        return self.machine.tile + self.machine.element * elements

    def loop(self, busy: float, held: int) -> float:
        """Cycles of the main loops when `held` blocks share a multiprocessor and a part `busy` of all multiprocessors load."""
        outside = self.outside * busy
        return max(
            held * self.products,
            held * (self.rows + outside),
            held * self.issue,
            held * (self.bytes * busy / self.machine.l2 + outside),
            self.trips + outside,
        )

    def total(self, busy: float, held: int) -> float:
        loop = self.loop(busy, held)
        return max(loop, self.hidden * held) + (self.epilogue - self.hidden) * held


# ------------------------------------------------------------------------------------------------------------- the launch


def _waves(work: Workload, machine: Machine, block: _Block) -> float:
    """Cycles from the first block's start to the last one's end."""
    count, held = machine.multiprocessors, work.held
    start = machine.first + machine.trip
    if work.stays or work.blocks <= count:
        each = ceil(work.blocks / count)
        return start + block.total(min(1.0, work.blocks / count), each)
    full, rest = divmod(work.blocks, count * held)
    cycles = full * (block.total(1.0, held) + start / held)
    if rest:
        cycles += block.total(min(1.0, rest / count), ceil(rest / count)) + start
    return cycles


def dram_bytes(work: Workload, machine: Machine) -> float:
    """Inputs once, or again and again where they do not stay in the L2; outputs once."""
    stored = sum(one.bytes * one.average for role in work.roles for one in role.epilogues) * work.blocks
    total = sum(work.tensors.values())
    return stored + sum(_read(work, machine, name, size, total) for name, size in work.tensors.items())


def _read(work: Workload, machine: Machine, tensor: str, size: int, total: int) -> float:
    """Bytes of a tensor that come from DRAM. Blocks that run together share what they load; later ones find what the L2 has kept."""
    loads = [load for load in work.loads if load.tensor == tensor]
    loaded = sum(load.bytes * load.inside * load.average for load in loads) * work.blocks
    if size <= machine.l2_capacity or total <= machine.l2_capacity:
        return min(size, loaded)
    together = sum(load.bytes * load.inside * load.average * load.distinct for load in loads) * work.blocks
    return min(loaded, max(size, together))


def ranked(predictions: Iterable[Prediction]) -> list[int]:
    """Places of predictions, the fastest first."""
    found = list(predictions)
    return sorted(range(len(found)), key=lambda index: found[index].seconds)
