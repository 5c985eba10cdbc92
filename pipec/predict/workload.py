"""What one block of a kernel does for given sizes: bytes loaded, products, stores, and how often (counting.py finds it)."""

from collections.abc import Iterator, Mapping
from math import ceil, prod

from pipec.predict.occupancy import held as blocks_held
from pipec.predict.work import Instructions, Slots
from pipec.record import record

ROW_BYTES = 128  # of a box that one TMA row takes: the widest swizzle


@record
class Load:
    """Tiles of `rows` times `row_bytes` that come through a pipeline: `times` by the first block, `average` by one of those that run first.

    `shared`: CTAs of a cluster that one transfer serves. `inside`: the part of the tile's rows that lies in the tensor, on average.
    `fill` numbers the acquires of its pipeline that load, in each role: loads behind the same one bring parts of one stage.
    `distinct`: of the tiles that blocks running together load first, the part that are not the same; `requested`: the part of them that
    the L2 gives out, where neighbours that ask for the same one are served together. `in_all`: like `distinct`, of all tiles that they load
    until they end; known where their loops end at different times, so that they do not go through the same tiles in step.
    """

    tensor: str
    pipeline: str
    fill: int
    rows: int
    row_bytes: int
    times: float
    average: float
    shared: int
    inside: float
    distinct: float
    requested: float
    crooked: float  # the part of the rows that start within a line of the cache, so that a request for one touches two
    fleeting: bool = False  # the L2 is told to give it up first
    in_all: float | None = None

    @property
    def fresh(self) -> float:
        """The part that comes from memory if nothing stays in the L2 but what blocks load that run together."""
        return self.distinct if self.in_all is None else self.in_all

    @property
    def boxes(self) -> int:
        return ceil(self.row_bytes / ROW_BYTES)

    @property
    def bytes(self) -> int:
        return self.rows * self.row_bytes


@record
class Product:
    """Matrix products of m x n over `k_bytes` of each operand's rows, by `instructions`; `late`: their stage is given back when the next
    ones run (wgmma)."""

    m: int
    n: int
    k: int
    k_bytes: int
    times: float
    average: float
    instructions: Instructions
    late: bool


@record
class Epilogue:
    """Tiles of `elements` that a role's threads store; `bytes` go to global memory."""

    elements: int
    bytes: int
    times: float
    average: float


@record
class RoleWork:
    name: str
    warps: int
    loads: tuple[Load, ...]
    products: tuple[Product, ...]
    epilogues: tuple[Epilogue, ...]
    reads: tuple[Load, ...]  # by the threads themselves, into registers: of no pipeline
    slots: Slots  # of all tiles that the first block's threads evaluate

    @property
    def stored(self) -> float:
        """Tiles that it stores, some of them in parts."""
        return max((one.times for one in self.epilogues), default=0.0)


@record
class Workload:
    """`blocks` run altogether. `stages` of each pipeline with loads, and its `uses` by the block that is counted; `accumulators`: stages of
    the pipelines in tensor memory, the fewest of them. `tensors`: bytes of those that are loaded. `stays`: blocks walk over tiles, so that
    there are no more than fit. `lead`: the number of the block that has the most to do, of which everything here is counted."""

    blocks: int
    cluster: int  # blocks that start together, on multiprocessors of one group
    threads: int
    shared_bytes: int
    launch_registers: int | None  # of a thread, where roles have budgets
    accumulator_registers: int  # per thread of the role that has most
    columns: int  # of tensor memory
    stages: Mapping[str, int]
    uses: Mapping[str, float]
    accumulators: int
    tensors: Mapping[str, int]
    stays: bool
    lead: int
    roles: tuple[RoleWork, ...]
    programmatic: bool  # its blocks may start before the grids in front of it have ended

    @property
    def held(self) -> int:
        return blocks_held(self.shared_bytes, self.threads, self.launch_registers, self.accumulator_registers, self.columns)

    @property
    def loads(self) -> Iterator[Load]:
        return (load for role in self.roles for load in role.loads)

    @property
    def reads(self) -> Iterator[Load]:
        return (read for role in self.roles for read in role.reads)

    @property
    def flops(self) -> float:
        """16-bit operations of the whole launch; an 8-bit one counts half."""
        return self.blocks * sum(one.m * one.n * one.k_bytes * one.average for role in self.roles for one in role.products)

    @property
    def filled(self) -> float:
        """The part of what is multiplied that comes from inside the tensors: the rest is zeros."""
        return prod({load.tensor: load.inside for load in self.loads}.values())

    @property
    def evenness(self) -> float:
        """What an average block does of what the leading one does."""
        products = [(one.times, one.average) for role in self.roles for one in role.products]
        done = products + [(one.times, one.average) for one in self.loads]
        first = sum(times for times, _ in done)
        return sum(average for _, average in done) / first if first else 1.0

    @property
    def tiles(self) -> float:
        """That the leading block goes over. Roles that take the stages of a ring in turn have tiles of their own; those that all multiply
        each stage store parts of the same ones."""
        stored = [role.stored for role in self.roles if role.epilogues]
        return sum(stored) if stored and self._in_turn else max(stored, default=1.0)

    @property
    def _in_turn(self) -> bool:
        """Whether each stage is for one of several roles that multiply and store: together they multiply no more often than a ring is
        filled."""
        multiplied = [max(one.times for one in role.products) for role in self.roles if role.products and role.epilogues]
        return len(multiplied) > 1 and sum(multiplied) <= max(self.uses.values(), default=0.0)

    @property
    def last_wave(self) -> float:
        """Of blocks that stay: the part of them that has a tile when the last ones have theirs."""
        return 1.0 - (1.0 - self.evenness) * self.tiles

    @property
    def l2_bytes(self) -> float:
        """Loaded and stored by all blocks together."""
        loaded = sum(one.bytes * one.inside * one.average / one.shared for one in (*self.loads, *self.reads))
        stored = sum(one.bytes * one.average for role in self.roles for one in role.epilogues)
        return self.blocks * (loaded + stored)

    @property
    def operations(self) -> float:
        """Multiplications and additions of the whole launch, whatever their type."""
        return self.blocks * sum(2 * one.m * one.n * one.k * one.average for role in self.roles for one in role.products)
