"""The shapes, element types and layouts that tcgen05.mma and wgmma accept (E071x, E074x; hardware.md 3.1, 3.4 and 8)."""

from collections.abc import Iterator

from pipec.checks.summary import RoleSummary, Summary
from pipec.checks.tiles.scales import check_mma, check_narrow, whole_units
from pipec.diag.catalogue.tiles import multiplications as messages
from pipec.diag.message import Sink
from pipec.isa.dtypes import DType
from pipec.kir.plan.scales import reads_packed
from pipec.kir.walk import references
from pipec.record import record
from pipec.sema import tree
from pipec.sema.types import TileType, dtype_of
from pipec.source import Span

_DEPTH_BYTES = 32  # of K in one MMA instruction
_ATOM_BYTES = 128  # row length of 32-bit operands stored with K outermost

# Which operand types can be combined, by mma kind: only equal types, or any mix.
_MIXES = {"f16": False, "tf32": False, "f8f6f4": True, "i8": True}

# N of one CTA and of a pair (hardware.md 3.1).
_COLUMNS = (tuple(range(8, 257, 8)), tuple(range(16, 257, 16)))
_INTEGER_COLUMNS = ((8, 16, 24, *range(32, 257, 16)), tuple(range(32, 257, 32)))
_TRANSPOSED_BYTE_COLUMNS = (tuple(range(16, 257, 16)), tuple(range(32, 257, 32)))


def check(summary: Summary, wrong: set[tree.Buffer], sink: Sink) -> None:
    """Adds the tiles with invalid sizes to `wrong`."""
    for role, mma in _mmas(summary):
        total = _sum(mma)
        if not wrong.isdisjoint(reference.buffer for reference in references(mma)) or _mixed_groups(mma):
            continue
        if isinstance(mma, tree.Mma) and mma.scales:
            if not check_mma(role, mma, sink):
                continue
        elif not _operand_types(mma, sink):
            continue
        else:
            _accumulator_type(mma, total, sink)
        # If the shapes disagree, any of the three tiles may be wrong, so none is excluded from later checks.
        if _shapes(mma, total, sink) and not _columns(mma, total, sink) and total.buffer:
            wrong.add(total.buffer)
        packed = isinstance(mma, tree.Mma) and reads_packed(mma)
        for operand in _stored(mma):
            _depth(operand, packed, sink)
    _transposed(summary, sink)
    check_narrow([mma for _, mma in _mmas(summary) if isinstance(mma, tree.Mma)], sink)


@record
class _Sum:
    """The destination of an MMA: tensor memory, or registers (without a buffer)."""

    dtype: DType
    rows: int
    columns: int
    declared: Span
    at: Span
    buffer: tree.Buffer | None
    group: int = 1  # CTAs that multiply together: each has its rows of a and of the sum, and an equal share of the rows of b

    def declaration(self, dtype: str) -> str:
        if self.buffer:
            return f"tmem[{dtype}, {self.rows}, {self.columns}]"
        return f"accumulator({dtype}, {self.rows}, {self.columns})"


def _sum(mma: tree.Mma | tree.RegisterMma) -> _Sum:
    if isinstance(mma, tree.RegisterMma):
        accumulator = mma.accumulator
        return _Sum(accumulator.dtype, accumulator.rows, accumulator.columns, accumulator.span, mma.span, None)
    buffer = mma.accumulator.buffer
    group = mma.accumulator.handle.pipeline.cta_group
    return _Sum(buffer.dtype, buffer.rows, buffer.columns, buffer.span, mma.accumulator.span, buffer, group)


def _mmas(summary: Summary) -> Iterator[tuple[RoleSummary, tree.Mma | tree.RegisterMma]]:
    for role in summary.roles:
        for block in role.role.blocks:
            for operation in block.operations:
                if isinstance(operation, tree.Mma | tree.RegisterMma):
                    yield role, operation


Operand = tree.BufferRef | tree.ReadVariable


def _mixed_groups(mma: tree.Mma | tree.RegisterMma) -> bool:
    """Reported by pipec.checks.grid.clusters."""
    return len({reference.handle.pipeline.cta_group for reference in references(mma)}) > 1


def _sizes(operand: Operand) -> tuple[int, int]:
    """Rows and columns as the MMA reads them."""
    if isinstance(operand, tree.ReadVariable):
        assert isinstance(operand.type, TileType)
        return operand.type.rows, operand.type.columns
    size = operand.buffer.rows, operand.buffer.columns
    return size[::-1] if operand.transposed else size


def _outer(operand: Operand) -> int:
    """The M or N extent."""
    return _sizes(operand)[0]


def _inner(operand: Operand) -> int:
    """The K extent."""
    return _sizes(operand)[1]


def _stored(mma: tree.Mma | tree.RegisterMma) -> tuple[tree.BufferRef, ...]:
    """The operands in memory. The K of an operand in registers is that of `b`, which is checked."""
    return mma.tiles if isinstance(mma, tree.RegisterMma) else (mma.a, mma.b)


def _declared(operand: Operand) -> Span:
    return operand.variable.span if isinstance(operand, tree.ReadVariable) else operand.buffer.span


def _dtypes(mma: tree.Mma | tree.RegisterMma) -> tuple[DType, DType]:
    return mma.a_dtype if isinstance(mma, tree.RegisterMma) else mma.a.buffer.dtype, mma.b.buffer.dtype


def _operand_types(mma: tree.Mma | tree.RegisterMma, sink: Sink) -> bool:
    a, b = _dtypes(mma)
    kind = a.mma_kind
    if isinstance(mma, tree.RegisterMma) and (a.is_packed or b.is_packed):
        kind = None  # wgmma has no narrow types
    if kind is not None and kind == b.mma_kind and (a is b or _MIXES[kind]):
        return True
    name, hint = a.name, None
    if isinstance(mma.a, tree.ReadVariable):
        name, hint = str(dtype_of(mma.a.type)), f"write `cast[{b}]({mma.a.span.text()})`"
    # The tensor cores read f32 with a 10-bit mantissa (tf32). The type must say so, so that nobody loses precision unawares.
    elif a.name == b.name == "f32":
        hint = "declare the tiles with `tf32`: it is how an MMA reads f32"
    sink.report(
        messages.MmaOperandTypes(a=name, b=b.name, hint=hint, at=mma.span, first=_declared(mma.a), second=_declared(mma.b))
    )
    return False


def _accumulator_type(mma: tree.Mma | tree.RegisterMma, total: _Sum, sink: Sink) -> None:
    a, b = _dtypes(mma)
    legal = a.accumulators
    if total.dtype.name in legal:
        return
    sink.report(
        messages.AccumulatorType(
            operands=a.name if a is b else f"{a} and {b}",
            accumulator=total.dtype.name,
            declaration=total.declaration(legal[0]),
            at=total.at,
            declared=total.declared,
        )
    )


def _shapes(mma: tree.Mma | tree.RegisterMma, total: _Sum, sink: Sink) -> bool:
    rows, columns, declared = total.rows, total.columns, total.declared
    a, b = _declared(mma.a), _declared(mma.b)
    pairs = (
        (f"the accumulator has {rows} rows", f"`a` has {_outer(mma.a)}", rows, _outer(mma.a), declared, a),
        (
            f"the accumulator has {columns} columns",
            f"{_b_rows(mma, total)} rows",
            columns,
            _outer(mma.b) * total.group,
            declared,
            b,
        ),
        (f"`a` has K = {_inner(mma.a)}", f"`b` has K = {_inner(mma.b)}", _inner(mma.a), _inner(mma.b), a, b),
    )
    fits = True
    for one, other, left, right, first, second in pairs:
        if left == right:
            continue
        fits = False
        hint = _transpose_hint(mma, rows, columns, total.group)
        sink.report(messages.MmaShapes(one=one, other=other, hint=hint, at=mma.span, first=first, second=second))
        break
    return fits


def _b_rows(mma: tree.Mma | tree.RegisterMma, total: _Sum) -> str:
    rows = _outer(mma.b)
    return f"`b` has {rows}" if total.group == 1 else f"`b` has {rows} in each CTA of the pair, together {2 * rows}"


def _transpose_hint(mma: tree.Mma | tree.RegisterMma, rows: int, columns: int, group: int) -> str | None:
    """A `.T` that would make all shapes fit."""
    # Registers are laid out for one order of rows and columns: only a tile in memory can be read transposed.
    for flip_a in (False, True)[: 1 if isinstance(mma.a, tree.ReadVariable) else 2]:
        for flip_b in (False, True):
            a = (_outer(mma.a), _inner(mma.a))[:: -1 if flip_a else 1]
            b = (_outer(mma.b), _inner(mma.b))[:: -1 if flip_b else 1]
            if (flip_a or flip_b) and a[0] == rows and b[0] * group == columns and a[1] == b[1]:
                names = [ref.span.text() for ref, flip in ((mma.a, flip_a), (mma.b, flip_b)) if flip]
                return "write " + " and ".join(_flipped(name) for name in names)
    return None


def _flipped(name: str) -> str:
    return f"`{name.removesuffix('.T')}`" if name.endswith(".T") else f"`{name}.T`"


def _columns(mma: tree.Mma | tree.RegisterMma, total: _Sum, sink: Sink) -> bool:
    dtype = mma.b.buffer.dtype
    legal, rule = _column_rule(dtype, mma.b.transposed, total.group)
    if total.columns in legal:
        return True
    sink.report(
        messages.MmaColumns(
            columns=total.columns,
            dtype=dtype.name,
            rule=rule,
            fitting=next((columns for columns in legal if columns > total.columns), legal[-1]),
            at=mma.span,
            declared=total.declared,
        )
    )
    return False


def _column_rule(dtype: DType, transposed: bool, group: int) -> tuple[tuple[int, ...], str]:
    pair = ", over a pair of CTAs," if group == 2 else ""
    # PTX table 52 (hardware.md 3.1).
    if transposed and dtype.bits == 8:
        step = 16 * group
        rule = f"with a transposed 8-bit operand `b`{pair or ','} N is a multiple of {step} from {step} to 256"
        return _TRANSPOSED_BYTE_COLUMNS[group - 1], rule
    if dtype.is_integer and group == 1:
        return _INTEGER_COLUMNS[0], "with 8-bit integer operands, N is 8, 16, 24, 32 or a multiple of 16 up to 256"
    if dtype.is_integer:
        return _INTEGER_COLUMNS[1], f"with 8-bit integer operands{pair} N is a multiple of 32 from 32 to 256"
    step = 8 * group
    return _COLUMNS[group - 1], f"{'over a pair of CTAs, ' if group == 2 else ''}N is a multiple of {step} from {step} to 256"


def _depth(operand: tree.BufferRef, packed: bool, sink: Sink) -> None:
    buffer, depth = operand.buffer, _inner(operand)
    step = _DEPTH_BYTES * 8 // buffer.dtype.bits if packed else _DEPTH_BYTES // buffer.dtype.bytes
    if depth % step == 0:
        return
    sink.report(
        messages.MmaDepth(
            tile=buffer.label,
            depth=depth,
            step=step,
            dtype=buffer.dtype.name,
            fitting=whole_units(depth, step),
            at=operand.span,
            declared=buffer.span,
        )
    )


def _transposed(summary: Summary, sink: Sink) -> None:
    """32-bit tiles stored with K outermost have a swizzle of their own, so all their readers must agree on it."""
    plain: dict[tree.Buffer, tree.BufferRef] = {}
    flipped: dict[tree.Buffer, tree.BufferRef] = {}
    for _, mma in _mmas(summary):
        for operand in _stored(mma):
            if isinstance(mma, tree.RegisterMma):
                _transposed_for_registers(operand, sink)
            elif operand.buffer.dtype.bits == 32:
                # The 32-byte atom (hardware.md 2.3, 3.4) is a property of the stored tile, which its load fixes for all readers.
                (flipped if operand.transposed else plain).setdefault(operand.buffer, operand)
    for buffer, operand in flipped.items():
        row_bytes = buffer.columns * buffer.dtype.bytes
        other = plain.get(buffer)
        if row_bytes % _ATOM_BYTES:
            fitting = whole_units(buffer.columns, _ATOM_BYTES // buffer.dtype.bytes)
            reason, hint = f"its rows are {row_bytes} bytes, not a multiple of {_ATOM_BYTES}", f"use {fitting} columns"
        elif other is not None:
            reason, hint = "it is also read untransposed", "load it into two tiles"
        else:
            continue
        sink.report(
            messages.TransposedOperand(
                tile=buffer.label,
                reason=reason,
                hint=hint,
                at=operand.span,
                other=other.span if other else None,
                declared=buffer.span,
            )
        )


def _transposed_for_registers(operand: tree.BufferRef, sink: Sink) -> None:
    buffer = operand.buffer
    if not operand.transposed or buffer.dtype.bits == 16:
        return
    sink.report(
        messages.TransposedOperand(
            tile=buffer.label,
            reason=f"an MMA in registers reads {buffer.dtype} with K innermost only",
            hint=f"load it as `tile[{buffer.dtype}, {buffer.columns}, {buffer.rows}]` from a tensor stored that way, without `.T`",
            at=operand.span,
            other=None,
            declared=buffer.span,
        )
    )
