"""Runs of rows in global memory, as vectors of up to 16 bytes, or element by element if they are unaligned or a vector is clipped."""

from collections.abc import Callable, Sequence

from pipec.isa.dtypes import DTYPES, DType
from pipec.isa.instructions import INSTRUCTIONS
from pipec.lower.context import RoleContext
from pipec.lower.emit.memory import pack, unpack
from pipec.lower.emit.value import TRUE, Value, integer
from pipec.lower.global_memory import GlobalRow, element_pointer, global_row, load_element, store_element
from pipec.lower.tiles.chunks import Chunk
from pipec.record import record, replace
from pipec.sema import tree
from pipec.vocabulary import Reduction

_VECTOR_BYTES = 16
_STORED_BOOL = DTYPES["u8"]  # 0 or 1

Way = Callable[[], None]


@record
class Vector:
    """`count` elements of a row from `column` on; accessed only if `allowed` (None: by all threads)."""

    row: GlobalRow
    column: Value
    count: int
    dtype: DType
    allowed: Value | None

    @property
    def bytes(self) -> int:
        return self.count * self.dtype.bytes

    @property
    def stored(self) -> DType:
        return _STORED_BOOL if self.dtype.bits == 1 else self.dtype


def store_columns(
    role: RoleContext,
    operation: tree.Store,
    origin: Sequence[Value],
    chunk: Chunk,
    values: Sequence[Value],
    allowed: Value | None,
) -> None:
    """A transposed store of a thread's part of a row: element by element to as many rows of the tensor."""
    tensor, dtype = operation.destination.tensor, operation.placed.dtype
    for index, element in enumerate(values):
        target = global_row(role, tensor, origin, chunk.position(role.builder, index))
        store_element(role, target, chunk.row.index, element, dtype, allowed, operation.reduce)


def load_vectors(role: RoleContext, vectors: Sequence[Vector]) -> list[list[Value]]:
    """The elements of each, zero outside the tensor. All loads are issued before the first value is used.

    The vector path and the element path join on packed words, so that nothing is unpacked, and waited for, before the join.
    """
    builder = role.builder
    slots = [[builder.variable("i32", f"{role.prefix}.loaded") for _ in range(-(-one.bytes // 4))] for one in vectors]

    def by_vectors() -> None:
        for one, words in zip(_fresh_bounds(role, vectors), slots, strict=True):
            for slot, word in zip(words, _load_vector(role, one), strict=True):
                slot.write(word)

    def by_elements() -> None:
        for one, words in zip(_fresh_columns(role, vectors), slots, strict=True):
            elements = [_load(role, one, index) for index in range(one.count)]
            for slot, word in zip(words, pack(builder, elements, one.stored), strict=True):
                slot.write(word)

    if all(one.count == 1 for one in vectors):
        return [[_value(role, one, _load(role, one, 0))] for one in vectors]
    _either(role, vectors, by_vectors, by_elements)
    found = []
    for one, words in zip(vectors, slots, strict=True):
        elements = unpack(builder, [slot.read() for slot in words], one.stored)[: one.count]
        found.append([_value(role, one, element) for element in elements])
    return found


def store_vectors(
    role: RoleContext, vectors: Sequence[Vector], words: Sequence[Sequence[Value]], reduce: Reduction | None
) -> None:
    """Stores the packed words of each."""
    builder = role.builder

    def by_vectors() -> None:
        for one, packed in zip(_fresh_bounds(role, vectors), words, strict=True):
            _store_vector(role, one, packed, reduce)

    def by_elements() -> None:
        for one, packed in zip(_fresh_columns(role, vectors), words, strict=True):
            for index, element in enumerate(unpack(builder, packed, one.stored)[: one.count]):
                column = builder.add(one.column, index)
                store_element(role, one.row, column, element, one.stored, one.allowed, reduce)

    first = vectors[0]
    if first.count == 1 or (reduce is not None and _reduction(first, reduce) not in INSTRUCTIONS):
        by_elements()
        return
    _either(role, vectors, by_vectors, by_elements)


def _either(role: RoleContext, vectors: Sequence[Vector], by_vectors: Way, by_elements: Way) -> None:
    builder = role.builder
    whole = TRUE
    for row, count, dtype in dict.fromkeys((one.row, one.count, one.dtype) for one in vectors):
        condition = _whole(role, row, count, dtype)
        whole = condition if whole is TRUE else builder.binary("and", whole, condition)
    fast, slow, done = (builder.label(f"{role.prefix}.{hint}") for hint in ("vectors", "elements", "moved"))
    builder.branch(whole, fast, slow)
    for label, way in ((fast, by_vectors), (slow, by_elements)):
        builder.place(label)
        way()
        builder.jump(done)
    builder.place(done)
    role.reconverge()


def _fresh_bounds(role: RoleContext, vectors: Sequence[Vector]) -> list[Vector]:
    """Bounds are compared again at each access: a predicate per vector, live from its load to its store, would exhaust the registers."""
    sizes = {size: role.builder.call("fresh", size) for size in dict.fromkeys(one.row.size for one in vectors)}
    return [replace(one, row=replace(one.row, size=sizes[one.row.size])) for one in vectors]


def _fresh_columns(role: RoleContext, vectors: Sequence[Vector]) -> list[Vector]:
    """Likewise the addresses of single elements, which are rarely needed."""
    columns = {column: role.builder.call("fresh", column) for column in dict.fromkeys(one.column for one in vectors)}
    return [replace(one, column=columns[one.column]) for one in vectors]


def _whole(role: RoleContext, row: GlobalRow, count: int, dtype: DType) -> Value:
    """Whether each vector of the row is entirely inside or outside the tensor, and aligned to its size."""
    builder = role.builder
    unit = min(_VECTOR_BYTES, count * dtype.bytes)
    low = builder.cast("trunc", row.start, "i32")
    aligned = builder.compare("eq", builder.bits("and", low, unit - 1), integer(0))
    uncut = builder.compare("eq", builder.bits("and", _remaining(role, row), count - 1), integer(0))
    starts = builder.compare("sge", row.first, integer(0))
    return builder.binary("and", builder.binary("and", aligned, uncut), starts)


def _remaining(role: RoleContext, row: GlobalRow) -> Value:
    return role.builder.binary("sub", row.size, row.first)


def _inside(role: RoleContext, one: Vector) -> Value:
    """Whether a whole vector is accessed: it is inside the run and before its end."""
    builder = role.builder
    inside = builder.compare("slt", one.column, _remaining(role, one.row))
    for condition in (one.row.inside, one.allowed):
        if condition is not None and condition is not TRUE:
            inside = builder.binary("and", inside, condition)
    return inside


def _pointers(role: RoleContext, one: Vector) -> list[Value]:
    """The address of each 16 bytes."""
    step = _VECTOR_BYTES // one.dtype.bytes
    return [element_pointer(role, one.row, role.builder.add(one.column, first), one.dtype) for first in range(0, one.count, step)]


def _load_vector(role: RoleContext, one: Vector) -> list[Value]:
    builder, inside = role.builder, _inside(role, one)
    words: list[Value] = []
    for pointer in _pointers(role, one):
        if one.bytes >= _VECTOR_BYTES:
            words += builder.elements(builder.call("load.global.v4", pointer, inside), 4)
            continue
        loaded = builder.call(f"load.global.{8 * one.bytes}", pointer, inside)
        if one.bytes == 8:
            pair = builder.cast("bitcast", loaded, "<2 x i32>")
            words += [builder.element(pair, index, "i32") for index in (0, 1)]
        else:
            words.append(builder.cast("zext", loaded, "i32"))
    return words


def _store_vector(role: RoleContext, one: Vector, words: Sequence[Value], reduce: Reduction | None) -> None:
    builder, inside = role.builder, _inside(role, one)
    wide = "store.global.v4" if reduce is None else _reduction(one, reduce)
    for index, pointer in enumerate(_pointers(role, one)):
        if one.bytes >= _VECTOR_BYTES:
            builder.call(wide, pointer, *words[4 * index : 4 * index + 4], inside)
        elif one.bytes == 8:
            pair = builder.cast("bitcast", builder.vector(words), "i64")
            builder.call("store.global.64", pointer, pair, inside)
        else:
            word = builder.cast("trunc", words[0], "i16") if one.bytes == 2 else words[0]
            builder.call(f"store.global.{8 * one.bytes}", pointer, word, inside)


def _reduction(one: Vector, reduce: Reduction) -> str:
    """The reduction of 16 bytes at once; narrower vectors are reduced element by element."""
    width = ".v4" if one.bytes >= _VECTOR_BYTES else ".narrow"
    return f"reduce.global.{reduce}.{one.dtype}{width}"


def _load(role: RoleContext, one: Vector, index: int) -> Value:
    return load_element(role, one.row, role.builder.add(one.column, index), one.stored, one.allowed)


def _value(role: RoleContext, one: Vector, element: Value) -> Value:
    return role.builder.compare("ne", element, integer(0, "i8")) if one.dtype.bits == 1 else element
