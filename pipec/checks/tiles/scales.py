"""Narrow operands and the scale factors of block-scaled MMAs (E078x; hardware.md 3.1, 3.4 and 3.7)."""

from pipec.checks.summary import RoleSummary
from pipec.diag.catalogue.tiles import scaling as messages
from pipec.diag.message import Sink
from pipec.isa.scaling import CHUNK_BYTES, CHUNK_ROWS, CHUNK_SCALES, ScaledKind, operand_kinds
from pipec.kir.plan.scales import reads_packed
from pipec.kir.plan.types import round_up
from pipec.sema import tree

ROW_UNIT = 64  # granularity of the first row of a scale tile that an MMA reads: the start that libraries use
UNPACKED_ELEMENTS = 128  # elements of a row that TMA unpacks at a time


def whole_units(value: int, unit: int) -> int:
    """The multiple of the unit that holds the value, at least one unit, for suggestions in messages."""
    return max(unit, round_up(value, unit))


def scale_tile(buffer: tree.Buffer, sink: Sink) -> bool:
    """Whether the tile consists of whole chunks; reports it otherwise."""
    rows, columns = whole_units(buffer.rows, CHUNK_ROWS), whole_units(buffer.columns, CHUNK_SCALES)
    if (rows, columns) == (buffer.rows, buffer.columns):
        return True
    parts = []
    if rows != buffer.rows:
        parts.append(f"{buffer.rows} is not a multiple of {CHUNK_ROWS}")
    if columns != buffer.columns:
        parts.append(f"{buffer.columns} is not a multiple of {CHUNK_SCALES}")
    sink.report(
        messages.ScaleTile(
            tile=buffer.label,
            rows=buffer.rows,
            columns=buffer.columns,
            problem=" and ".join(parts),
            dtype=buffer.dtype.name,
            fitting_rows=rows,
            fitting_columns=columns,
            advice="" if columns == buffer.columns else ", with tiles of the operands that are as much longer along K",
            at=buffer.span,
        )
    )
    return False


# ----------------------------------------------------------------------------------------------------------------- MMAs


def check_mma(role: RoleSummary, mma: tree.Mma, sink: Sink) -> bool:
    """The requirements of an MMA on its scale factors; False if its kind cannot be determined."""
    a, b = mma.a.buffer, mma.b.buffer
    # Without a kind the number of elements per factor is unknown, and everything else would be guesswork.
    if not operand_kinds(a.dtype, b.dtype):
        sink.report(messages.ScaledOperands(a=a.dtype.name, b=b.dtype.name, at=mma.span, first=a.span, second=b.span))
        return False
    if not (_block(mma, mma.a, mma.scale_a, sink) and _block(mma, mma.b, mma.scale_b, sink)):
        return False
    _accumulator(mma, sink)
    _rows(role, mma, sink)
    return True


def _block(mma: tree.Mma, operand: tree.BufferRef, scale: tree.BufferRef | None, sink: Sink) -> bool:
    assert scale is not None and mma.scale_a is not None
    kinds = operand_kinds(mma.a.buffer.dtype, mma.b.buffer.dtype)
    depth = operand.buffer.rows if operand.transposed else operand.buffer.columns
    scales, factor = scale.buffer.columns, scale.buffer.dtype
    block = depth // scales if depth % scales == 0 else None
    kind = next((row for row in kinds if row.block == block and factor.name in row.factors), None)
    # One field of the instruction encodes the type of all factors (hardware.md 3.2).
    same = scale.buffer.dtype is mma.scale_a.buffer.dtype and scale.buffer.columns == mma.scale_a.buffer.columns
    if kind is not None and same:
        return True
    names = dict.fromkeys((mma.a.buffer.dtype.name, mma.b.buffer.dtype.name))
    sink.report(
        messages.ScaleBlock(
            operands=" and ".join(names),
            verb="are",
            factor=factor.name,
            block=str(block) if block is not None else f"{depth / scales:g}",
            depth=depth,
            scales=scales,
            rule="; or ".join(_rule(row) for row in kinds) + ("" if kind is None else "; with the same for both operands"),
            hint=_fitting(kinds, scale.buffer, depth, mma.scale_a.buffer.dtype.name),
            at=scale.span,
            operand=operand.buffer.span,
            declared=scale.buffer.span,
        )
    )
    return False


def _rule(kind: ScaledKind) -> str:
    return f"{' or '.join(kind.factors)} factors for blocks of {kind.block}"


def _fitting(kinds: tuple[ScaledKind, ...], scale: tree.Buffer, depth: int, wanted: str) -> str | None:
    """The declaration that keeps the type of the factors, or else uses the usual one."""
    # The author's choice is kept if some block size fits it.
    for factor in (wanted, kinds[0].factors[0]):
        for kind in kinds:
            if factor in kind.factors and depth % (kind.block * CHUNK_SCALES) == 0:
                return f"declare `tile[{factor}, {scale.rows}, {depth // kind.block}]`"
    return None


def _accumulator(mma: tree.Mma, sink: Sink) -> None:
    buffer = mma.accumulator.buffer
    if (buffer.rows, buffer.dtype.name) == (CHUNK_ROWS, "f32"):
        return
    sink.report(
        messages.ScaledAccumulator(
            rows=buffer.rows, dtype=buffer.dtype.name, columns=buffer.columns, at=mma.span, declared=buffer.span
        )
    )


def _rows(role: RoleSummary, mma: tree.Mma, sink: Sink) -> None:
    assert mma.scale_a is not None and mma.scale_b is not None
    columns = mma.accumulator.buffer.columns
    first = int(mma.scale_b_row.value) if isinstance(mma.scale_b_row, tree.Constant) else 0
    wanted = (
        (mma.scale_a, CHUNK_ROWS, mma.accumulator.buffer.rows, "a"),
        # The tile of b may be taller than the MMA is wide: several MMAs may use parts of one tile of factors.
        (mma.scale_b, whole_units(first + columns, CHUNK_ROWS), columns, "b"),
    )
    for scale, rows, used, name in wanted:
        buffer = scale.buffer
        if buffer.rows >= rows and (name == "b" or buffer.rows == rows):
            continue
        sink.report(
            messages.ScaleRows(
                tile=buffer.label,
                problem=f"has {buffer.rows} rows, but operand `{name}` takes {rows}",
                use=f"factors of {used} rows" + (f" from row {first} on" if first and name == "b" else ""),
                rows=buffer.rows,
                hint=f"declare `tile[{buffer.dtype}, {rows}, {buffer.columns}]`",
                at=scale.span,
                declared=buffer.span,
            )
        )
    if mma.scale_b_row is not None and (first < 0 or not role.role.values.is_multiple(mma.scale_b_row, ROW_UNIT)):
        buffer = mma.scale_b.buffer
        sink.report(
            messages.ScaleRows(
                tile=buffer.label,
                problem=f"is read from a row that is not always a multiple of {ROW_UNIT}",
                use="the row of the factors of the first row of `b`",
                rows=buffer.rows,
                hint=None,
                at=mma.scale_b_row.span,
                declared=buffer.span,
            )
        )


# ------------------------------------------------------------------------------------------------------- narrow operands


def check_narrow(mmas: list[tree.Mma], sink: Sink) -> None:
    """Tiles of 4- and 6-bit elements: all readers must agree on the format, use the stored order, and cover whole units that TMA
    unpacks."""
    packed: dict[tree.Buffer, tree.BufferRef] = {}
    unpacked: dict[tree.Buffer, tree.BufferRef] = {}
    for mma in mmas:
        for operand in (mma.a, mma.b):
            if operand.buffer.dtype.is_packed:
                # The load fixes the element format (hardware.md 2.1) for all readers of the tile.
                (packed if reads_packed(mma) else unpacked).setdefault(operand.buffer, operand)
                if operand.transposed:
                    _narrow(
                        operand,
                        "K is outermost",
                        "read with K outermost",
                        "narrow elements are read with K innermost",
                        None,
                        sink,
                    )
    for buffer, operand in unpacked.items():
        other = packed.get(buffer)
        if other is not None:
            reason = "two e2m1 operands with factors are read packed, all other MMAs read one element per byte"
            _narrow(operand, "it is also read packed", "read one element per byte", reason, "load it into two tiles", sink, other)
        elif buffer.columns % UNPACKED_ELEMENTS:
            fitting = whole_units(buffer.columns, UNPACKED_ELEMENTS)
            _narrow(
                operand,
                f"its rows have {buffer.columns} elements",
                "read one element per byte",
                f"TMA unpacks {buffer.dtype} to one element per byte, {UNPACKED_ELEMENTS} elements of a row at a time",
                f"declare `tile[{buffer.dtype}, {buffer.rows}, {fitting}]`",
                sink,
            )


def _narrow(
    operand: tree.BufferRef,
    problem: str,
    use: str,
    reason: str,
    hint: str | None,
    sink: Sink,
    other: tree.BufferRef | None = None,
) -> None:
    sink.report(
        messages.NarrowTile(
            tile=operand.buffer.label,
            dtype=operand.buffer.dtype.name,
            problem=problem,
            use=use,
            other_use="read two elements per byte",
            reason=reason,
            hint=hint,
            at=operand.span,
            other=other.span if other else None,
            declared=operand.buffer.span,
        )
    )


# --------------------------------------------------------------------------------------------------------------- copies


def check_load(role: RoleSummary, load: tree.TmaLoad, unpacked: set[tree.Buffer], sink: Sink) -> bool:
    """Loads of scale chunks and unpacking loads have rules of their own; False if the copy is neither."""
    if load.source.tensor.dtype is not load.destination.buffer.dtype:
        return False
    if load.destination.buffer.dtype.is_scale:
        _scale_load(load, sink)
        return True
    if load.destination.buffer in unpacked:
        _unpacked_load(role, load, sink)
        return True
    return False


def _scale_load(load: tree.TmaLoad, sink: Sink) -> None:
    """A scale tile must come from a tensor of chunks."""
    buffer, source = load.destination.buffer, load.source
    shape, last = source.tensor.shape, source.coordinates[-1]
    if len(shape) < 3 or shape[-1] != CHUNK_BYTES:
        # A chunk of 512 bytes is one row of the box (hardware.md 3.7); as rows of a matrix the factors would be in another order.
        problem = f"its innermost dimension is {shape[-1]}" if len(shape) >= 3 else f"it has {len(shape)} dimensions"
        hint = f"declare it as `tensor[{buffer.dtype}, row_chunks, k_chunks, {CHUNK_BYTES}]`"
    elif not (isinstance(last, tree.Constant) and last.value == 0):
        problem, hint = "the innermost coordinate counts inside a chunk", "write 0: the other coordinates count chunks"
    else:
        return
    sink.report(
        messages.ScaleTensor(
            tensor=source.tensor.name, problem=problem, hint=hint, at=source.span, declared=source.tensor.span, tile=buffer.span
        )
    )


def _unpacked_load(role: RoleSummary, load: tree.TmaLoad, sink: Sink) -> None:
    """TMA unpacks whole units of a tensor's rows."""
    tensor, inner = load.source.tensor, load.source.tensor.shape[-1]
    reason = f"TMA unpacks {tensor.dtype} {UNPACKED_ELEMENTS} elements of a row at a time, from rows of whole such pieces"
    use = "unpacked to one element per byte"
    if isinstance(inner, int) and inner % UNPACKED_ELEMENTS:
        fitting = f"pad the rows of `{tensor.name}` to {whole_units(inner, UNPACKED_ELEMENTS)} elements"
        _narrow(load.destination, f"tensor `{tensor.name}` has rows of {inner} elements", use, reason, fitting, sink)
    elif load.destination.buffer.columns % UNPACKED_ELEMENTS:
        return  # already reported for the tile
    elif not role.role.values.is_multiple(load.source.coordinates[-1], UNPACKED_ELEMENTS):
        problem = f"it starts at an element that is not always a multiple of {UNPACKED_ELEMENTS}"
        _narrow(load.destination, problem, use, reason, None, sink)
