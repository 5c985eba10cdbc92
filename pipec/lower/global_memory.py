"""Global memory accessed by address, element by element with bounds checks, for direct stores and for per-row or per-column vectors."""

from collections.abc import Sequence

from pipec.isa.dtypes import DTYPES, DType
from pipec.isa.reductions import BY_INTEGERS
from pipec.lower.context import RoleContext
from pipec.lower.emit.functions import call_function
from pipec.lower.emit.llvm import Builder
from pipec.lower.emit.value import GLOBAL, TRUE, Value, integer
from pipec.record import record, replace
from pipec.sema.tree import TensorParameter
from pipec.terms.machine import range_of
from pipec.vocabulary import Reduction


@record
class GlobalRow:
    """A run along the last axis of a tensor: element i is inside iff `inside` and 0 <= first + i < size.

    `start` is the address of the element `first`, as i64.
    """

    start: Value
    first: Value
    size: Value
    inside: Value


def global_row(role: RoleContext, tensor: TensorParameter, origin: Sequence[Value], row: Value | None) -> GlobalRow:
    """The run that starts at `origin`, offset by `row` along the second to last axis (None for a 1-D tensor)."""
    builder = role.builder
    coordinates = list(origin)
    if row is not None and len(coordinates) > 1:
        coordinates[-2] = builder.binary("add", coordinates[-2], row)
    address = builder.cast("ptrtoint", Value(GLOBAL, role.kernel.parameter("pointer", tensor.name)), "i64")
    inside = TRUE
    for axis, coordinate in enumerate(coordinates[:-1]):
        # Unsigned, so that a negative coordinate is out of bounds as well.
        fits = builder.compare("ult", coordinate, dimension(role, tensor.shape[axis]))
        inside = fits if inside is TRUE else builder.binary("and", inside, fits)
        stride = Value("i64", role.kernel.parameter("stride", tensor.name, axis))
        step = builder.binary("mul", builder.cast("sext", coordinate, "i64"), stride)
        address = builder.binary("add", address, builder.multiply(step, tensor.dtype.bytes))
    first = coordinates[-1]
    offset = builder.multiply(builder.cast("sext", first, "i64"), tensor.dtype.bytes)
    start = builder.binary("add", address, offset)
    return GlobalRow(start, first, dimension(role, tensor.shape[-1]), inside)


def counted_from(builder: Builder, first: Value, number: Value) -> Value:
    """The number, or a larger one where its sum with `first`, which may lie before the tensor, would wrap and come into it."""
    dtype = DTYPES["i32"]
    before = call_function(builder, "min", dtype, [first, integer(0)])
    least = builder.binary("sub", integer(range_of(dtype)[0]), before)
    return call_function(builder, "max", dtype, [number, least])


def first_rows(role: RoleContext, row: GlobalRow, index: Value, rows: Value | None) -> GlobalRow:
    """The run of a tile's row `index`, empty unless that is below `rows`."""
    if rows is None:
        return row
    builder = role.builder
    below = builder.compare("slt", index, rows)
    return replace(row, inside=below if row.inside is TRUE else builder.binary("and", row.inside, below))


def dimension(role: RoleContext, size: str | int) -> Value:
    return integer(size) if isinstance(size, int) else Value("i32", role.kernel.parameter("dimension", size))


def element_pointer(role: RoleContext, row: GlobalRow, index: Value, dtype: DType) -> Value:
    """Elements at a constant distance have addresses at a constant distance: no column of a row reaches 2 ** 31."""
    builder = role.builder
    column, further = builder.parts(index)
    start = builder.binary("add", row.start, builder.multiply(builder.cast("sext", column, "i64"), dtype.bytes))
    address = builder.add(start, further * dtype.bytes)
    return builder.emit(GLOBAL, f"inttoptr {address} to {GLOBAL}")


def element_inside(role: RoleContext, row: GlobalRow, index: Value) -> Value:
    builder = role.builder
    fits = builder.compare("ult", builder.sum(row.first, index), row.size)
    return fits if row.inside is TRUE else builder.binary("and", fits, row.inside)


def load_element(role: RoleContext, row: GlobalRow, index: Value, dtype: DType, allowed: Value | None = None) -> Value:
    """Loads an element; zero outside the tensor, and where not `allowed`."""
    builder = role.builder
    pointer, inside = element_pointer(role, row, index, dtype), element_inside(role, row, index)
    if allowed is not None:
        inside = builder.binary("and", inside, allowed)
    loaded = builder.call(f"load.global.{dtype.bytes * 8}", pointer, inside)
    if dtype.bits == 1:
        return builder.compare("ne", loaded, integer(0, loaded.type))
    return builder.cast("bitcast", builder.cast("trunc", loaded, f"i{dtype.bits}"), dtype.llvm)


def store_element(
    role: RoleContext,
    row: GlobalRow,
    index: Value,
    value: Value,
    dtype: DType,
    allowed: Value | None,
    reduce: Reduction | None = None,
) -> None:
    """Stores an element if it is inside the tensor and `allowed`."""
    builder = role.builder
    inside = element_inside(role, row, index)
    if allowed is not None:
        inside = builder.binary("and", inside, allowed)
    if reduce is not None and (reduce, dtype.name) in BY_INTEGERS:
        _reduce_bits(builder, element_pointer(role, row, index, dtype), value, reduce, dtype, inside)
        return
    bits = builder.cast("bitcast", value, f"i{dtype.bits}")
    word = builder.cast("zext", bits, "i16") if dtype.bytes == 1 else bits
    name = f"store.global.{dtype.bytes * 8}" if reduce is None else f"reduce.global.{reduce}.{dtype}"
    builder.call(name, element_pointer(role, row, index, dtype), word, inside)


def _reduce_bits(builder: Builder, pointer: Value, value: Value, reduce: Reduction, dtype: DType, inside: Value) -> None:
    """The minimum or maximum of floats, by one of two integer reductions: which, says the sign of the operand alone.

    Let T be the order of the bits as signed magnitudes: NaN with a sign bit, -inf, ..., -0, +0, ..., +inf, NaN without. Each of the two
    leaves the larger in T (for "max"; "min" mirrors it), whatever stands in memory:
    - operand without a sign bit, maximum as signed integers: of two such T is that order; bits with a sign bit are negative, and smaller;
    - operand with a sign bit, minimum as unsigned integers: of two such T is the reverse of that order; bits without a sign bit are smaller
      as unsigned integers, so they stay, and they are larger in T.
    So both are the same operation, atomic, associative and commutative: any interleaving of any number of them leaves the largest in T of
    all operands and of what stood there. A NaN is made the last of T, so that it stays, as NaN does in the other functions.
    """
    bits = builder.cast("bitcast", value, f"i{dtype.bits}")
    last = -1 if reduce == "min" else (1 << dtype.bits - 1) - 1
    bits = builder.select(builder.compare("uno", value, value), integer(last, bits.type), bits)
    for sign, (operation, integers) in zip(("sge", "slt"), BY_INTEGERS[reduce, dtype.name], strict=True):
        chosen = builder.compare(sign, bits, integer(0, bits.type))
        builder.call(f"reduce.global.{operation}.{integers}", pointer, bits, builder.binary("and", inside, chosen))
