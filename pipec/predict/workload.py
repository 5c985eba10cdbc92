"""The work of one block of a kernel for given sizes: bytes loaded, products, stores, and how often (computed by counting.py)."""

from collections.abc import Iterable, Mapping
from functools import cached_property
from math import ceil, prod

from pipec.predict.occupancy import registers_of, resident_blocks
from pipec.predict.work import Instructions, Slots
from pipec.record import record

ROW_BYTES = 128  # of a box per TMA row: the widest swizzle
SECTOR_BYTES = 32  # of a cache line of 128: what the L2 moves


@record
class Load:
    """Tiles of `rows` times `row_bytes` that come through a pipeline: `times` by the first block, `average` over the blocks that run
    first.

    `shared`: CTAs of a cluster that one transfer serves. `inside`: the average fraction of the tile's rows inside the tensor. `fill`
    numbers the loading acquires of its pipeline, in each role: loads after the same one fill parts of one stage. `distinct`: the
    fraction of distinct tiles among those that concurrent blocks load first; `requested`: the fraction that the L2 serves, with merged
    requests of neighbours. `in_all`: like `distinct`, for all tiles that they load until they end; known if their loops end at different
    times, so that they are not in lockstep.
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
    crooked: float  # the fraction of rows that start within a cache line, so that a request for one touches two
    cut: float  # and of those that start within a sector of one, so that they touch one sector more
    fleeting: bool = False  # marked for eviction first in the L2
    in_all: float | None = None

    @property
    def fresh(self) -> float:
        """The fraction that comes from memory if the L2 only holds what concurrent blocks load."""
        return self.distinct if self.in_all is None else self.in_all

    @property
    def boxes(self) -> int:
        return ceil(self.row_bytes / ROW_BYTES)

    @property
    def bytes(self) -> int:
        return self.rows * self.row_bytes


@record
class Product:
    """Matrix products of m x n over `k_bytes` of each operand's rows, by `instructions`; `late`: their stage is released when the next
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
    """Tiles of `elements` that a role's threads store, in so many `parts` that differ in their width.

    `bytes` go to a tensor of `all_bytes`, a fraction `inside` it. `rows` of up to 128 bytes pass through the copy engine; fractions of them
    are `crooked` and `cut` (Load). `adds`: to what is there, in the L2.
    """

    all_bytes: int
    elements: int
    parts: int
    bytes: int
    rows: int
    inside: float
    crooked: float
    cut: float
    adds: bool
    times: float
    average: float


@record
class RoleWork:
    name: str
    warps: int
    loads: tuple[Load, ...]
    products: tuple[Product, ...]
    epilogues: tuple[Epilogue, ...]
    reads: tuple[Load, ...]  # by the threads themselves, into registers: not through a pipeline
    slots: Slots  # for all tiles that the first block's threads evaluate
    remote: float = 0.0  # words of four bytes that the first block's threads read from other CTAs

    @property
    def stored(self) -> float:
        """The number of tiles that it stores, some of them in parts."""
        return max((one.times for one in self.epilogues), default=0.0)


@record(caches=True)
class Workload:
    """`blocks` run altogether. `stages` of each pipeline with loads, and its `uses` by the reference block; `accumulators`: the smallest
    number of stages of the pipelines in tensor memory. `tensors`: bytes of those that are loaded. `stays`: persistent blocks, no more
    than fit. `lead`: the number of the block with the most work, the reference block of all figures here."""

    blocks: int
    cluster: int  # blocks that start together, on multiprocessors of one group
    threads: int
    shared_bytes: int
    launch_registers: int | None  # of a thread, if roles have budgets
    accumulator_registers: int  # per thread of the role with the most
    columns: int  # of tensor memory
    stages: Mapping[str, int]
    uses: Mapping[str, float]
    accumulators: int
    tensors: Mapping[str, int]
    stays: bool
    lead: int
    roles: tuple[RoleWork, ...]
    programmatic: bool  # its blocks may start before the preceding grids have ended
    warm: frozenset[str] = frozenset()  # tensors that the kernel in front has written: they are in the L2

    @property
    def registers(self) -> int:
        """Of a thread."""
        return registers_of(self.launch_registers, self.accumulator_registers)

    @cached_property
    def held(self) -> int:
        return resident_blocks(self.shared_bytes, self.threads, self.registers, self.columns)

    @cached_property
    def loads(self) -> tuple[Load, ...]:
        return tuple(load for role in self.roles for load in role.loads)

    @cached_property
    def reads(self) -> tuple[Load, ...]:
        return tuple(read for role in self.roles for read in role.reads)

    @cached_property
    def from_memory(self) -> bool:
        """Whether anything that is loaded comes from there."""
        return not self.warm or any(one.tensor not in self.warm for one in (*self.loads, *self.reads))

    @cached_property
    def flops(self) -> float:
        """16-bit operations of the whole launch; an 8-bit one counts as half."""
        return self._flops(product for role in self.roles for product in role.products)

    @cached_property
    def narrow_flops(self) -> float:
        """Those of them whose operands have 8 bits or fewer."""
        return self._flops(product for role in self.roles for product in role.products if product.instructions.narrow)

    @cached_property
    def near_flops(self) -> float:
        """Those of them whose first operand is in registers or tensor memory."""
        return self._flops(product for role in self.roles for product in role.products if product.instructions.near)

    def _flops(self, products: Iterable[Product]) -> float:
        return self.blocks * sum(one.m * one.n * one.k_bytes * one.average for one in products)

    @cached_property
    def arithmetic(self) -> float:
        """f32 instructions of warps, for a scheduler each: of the whole launch."""
        return self.blocks * self.evenness * sum(role.slots.paired for role in self.roles)

    @cached_property
    def filled(self) -> float:
        """The fraction of the multiplied data that is inside the tensors: the rest is zeros."""
        return prod({load.tensor: load.inside for load in self.loads}.values())

    @cached_property
    def evenness(self) -> float:
        """The work of an average block relative to the reference block."""
        products = [(one.times, one.average) for role in self.roles for one in role.products]
        done = products + [(one.times, one.average) for one in self.loads]
        first = sum(times for times, _ in done)
        return sum(average for _, average in done) / first if first else 1.0

    @cached_property
    def tiles(self) -> float:
        """The number of tiles of the reference block. Roles that alternate on the stages of a ring have tiles of their own; roles that
        all multiply each stage store parts of the same ones."""
        stored = [role.stored for role in self.roles if role.epilogues]
        return sum(stored) if stored and self.in_turn else max(stored, default=1.0)

    @property
    def in_turn(self) -> bool:
        """Whether each stage is for one of several roles that multiply and store: together they multiply no more often than a ring is
        filled."""
        multiplied = [max(one.times for one in role.products) for role in self.roles if role.products and role.epilogues]
        return len(multiplied) > 1 and sum(multiplied) <= max(self.uses.values(), default=0.0)

    @property
    def last_wave(self) -> float:
        """For persistent blocks: the fraction of them that has a tile in the last wave."""
        return 1.0 - (1.0 - self.evenness) * self.tiles

    @property
    def l2_bytes(self) -> float:
        """Loaded and stored by all blocks together."""
        loaded = sum(one.bytes * one.inside * one.average / one.shared for one in (*self.loads, *self.reads))
        stored = sum(one.bytes * one.inside * one.average for role in self.roles for one in role.epilogues)
        return self.blocks * (loaded + stored)

    @property
    def operations(self) -> float:
        """Multiplications and additions of the whole launch, of any type."""
        return self.blocks * sum(2 * one.m * one.n * one.k * one.average for role in self.roles for one in role.products)
