"""Matrix multiplications, and accumulators in registers."""

from pipec.isa.dtypes import DTYPES, DType
from pipec.record import record
from pipec.sema.tree.effects import AllThreads, Effects, OneThread, TileUse, given
from pipec.sema.tree.expressions import BufferRef, Expression, ReadVariable
from pipec.sema.tree.operations.operation import Operation
from pipec.sema.tree.symbols import Accumulator
from pipec.sema.tree.text import expression_text, reference_text
from pipec.sema.types import dtype_of
from pipec.source import Span


@record(eq=False)
class Mma(Operation):
    """accumulator[M, N] (+)= a[M, K] @ b[N, K].T, asynchronous. One thread.

    `accumulate` None: the first MMA after the acquire overwrites, the following ones accumulate. Scale tiles hold a factor per row and
    block of K for each operand; row `scale_b_row` of `scale_b` (0 when None) applies to the first row of b.
    """

    accumulator: BufferRef
    a: BufferRef
    b: BufferRef
    accumulate: Expression | None
    span: Span
    scale_a: BufferRef | None = None
    scale_b: BufferRef | None = None
    scale_b_row: Expression | None = None

    @property
    def scales(self) -> tuple[BufferRef, ...]:
        return tuple(scale for scale in (self.scale_a, self.scale_b) if scale is not None)

    def declared(self) -> Effects:
        read = (self.a, self.b, *self.scales)
        return Effects(
            OneThread("mma", "each thread adds the product to the accumulator again"),
            evaluates=given(self.accumulate, self.scale_b_row),
            shared=(*_accumulate(self.accumulate), *((("`sfb_row`", self.scale_b_row),) if self.scale_b_row is not None else ())),
            uses=(TileUse("accumulate", self.accumulator, "commit"), *(TileUse("operand", tile, "commit") for tile in read)),
        )

    def text(self) -> str:
        tiles = ", ".join(reference_text(tile) for tile in (self.accumulator, self.a, self.b, *self.scales))
        row = "" if self.scale_b_row is None else f" sfb_row={expression_text(self.scale_b_row)}"
        return f"mma {tiles}{row}{_accumulate_text(self.accumulate)}"


@record(eq=False)
class ClearAccumulator(Operation):
    """The accumulator becomes zero. All threads of the role."""

    accumulator: Accumulator
    span: Span

    def declared(self) -> Effects:
        return Effects(AllThreads(f"clearing the accumulator `{self.accumulator.name}`"))

    def text(self) -> str:
        return f"{self.accumulator.name} = accumulator {self.accumulator.type}"


@record(eq=False)
class RegisterMma(Operation):
    """accumulator[M, N] (+)= a[M, K] @ b[N, K].T in registers, asynchronous. All threads of the role.

    `accumulate` None: adds (a fresh accumulator is zero). Operand `a` is in shared memory or a register-resident tile.
    """

    accumulator: Accumulator
    a: BufferRef | ReadVariable
    b: BufferRef
    accumulate: Expression | None
    span: Span

    @property
    def tiles(self) -> tuple[BufferRef, ...]:
        """The operands in shared memory."""
        return (self.b,) if isinstance(self.a, ReadVariable) else (self.a, self.b)

    @property
    def a_dtype(self) -> DType:
        """f32 in registers is read as tf32."""
        if isinstance(self.a, BufferRef):
            return self.a.buffer.dtype
        dtype = dtype_of(self.a.type)
        return DTYPES["tf32"] if dtype.name == "f32" else dtype

    def declared(self) -> Effects:
        otherwise = "the four warps of a warpgroup multiply together: one that comes alone waits for ever or computes nonsense"
        operand = self.a if isinstance(self.a, ReadVariable) else None
        return Effects(
            AllThreads("`mma` in registers", otherwise),
            evaluates=given(operand, self.accumulate),
            tile=operand,
            shared=_accumulate(self.accumulate),
            uses=tuple(TileUse("operand", tile, "warps") for tile in self.tiles),
        )

    def text(self) -> str:
        a = expression_text(self.a) if isinstance(self.a, ReadVariable) else reference_text(self.a)
        return f"mma {self.accumulator.name}, {a}, {reference_text(self.b)}{_accumulate_text(self.accumulate)}"


@record(eq=False)
class WriteAccumulator(Operation):
    """Sets an accumulator in registers to the current values of a tile. All threads of the role."""

    accumulator: Accumulator
    value: Expression
    span: Span

    def declared(self) -> Effects:
        return Effects(AllThreads(f"writing the accumulator `{self.accumulator.name}`"), evaluates=(self.value,), tile=self.value)

    def text(self) -> str:
        return f"write {self.accumulator.name} <- {expression_text(self.value)}"


def _accumulate(condition: Expression | None) -> tuple[tuple[str, Expression], ...]:
    return () if condition is None else (("`accumulate`", condition),)


def _accumulate_text(condition: Expression | None) -> str:
    return "" if condition is None else f" accumulate={expression_text(condition)}"
