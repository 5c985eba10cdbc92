"""Loads and stores of runs of elements: swizzled shared memory, tensor memory, and packing into 32-bit words."""

from collections.abc import Callable, Sequence

from pipec.isa.dtypes import DTYPES, DType
from pipec.kir.plan.types import TileLayout
from pipec.lower.emit.arithmetic import convert, is_narrow_float, pack_pair
from pipec.lower.emit.llvm import Builder
from pipec.lower.emit.value import Value, integer

MakePointer = Callable[[Value], Value]  # from an address

_F32 = DTYPES["f32"]
_VECTOR_BYTES = 16

# Swizzle -> (shift, mask): address ^= (address >> shift) & mask (hardware.md 2.3).
_SWIZZLES = {"none": (0, 0), "32B": (3, 0x10), "64B": (3, 0x30), "128B": (3, 0x70), "128B_ATOM_32B": (2, 0x60)}


def row_address(builder: Builder, layout: TileLayout, tile: Value, panel: Value | int, row: Value) -> Value:
    """The start of a panel's row, including the row's part of the swizzle: XOR a byte offset within the span to get an element's
    address.

    The offset only has bits below the span, where the start of a row has none, so the XOR both adds and swizzles.
    """
    offset = builder.multiply(panel, layout.panel_bytes) if isinstance(panel, Value) else integer(panel * layout.panel_bytes)
    address = builder.binary("add", builder.binary("add", tile, offset), builder.multiply(row, layout.span_bytes))
    shift, mask = _SWIZZLES[layout.swizzle]
    if not mask:
        return address
    return builder.binary("xor", address, builder.bits("and", builder.bits("lshr", address, shift), mask))


def store_words(builder: Builder, start: Value, offset: Value, words: Sequence[Value], panel: Value | None = None) -> None:
    """Stores words at consecutive bytes of one swizzled row, 16 bytes at a time; `offset` is a multiple of their total size or of 16.

    With a `panel`, an address at which the swizzle's pattern begins, `start` is the place in it: an address is then a sum of one part that
    depends on the thread alone, computed before a loop over panels, and one that all threads share, which the instruction adds.
    """
    base = builder.binary("xor", start, offset)
    for first in range(0, len(words), 4):
        part = words[first : first + 4]
        address = builder.bits("xor", base, first * 4)
        pointer = builder.shared_pointer(address if panel is None else builder.binary("add", panel, address))
        value = builder.vector(part) if len(part) > 1 else part[0]
        builder.store(value, pointer, 4 * len(part))


def load_words(builder: Builder, start: Value, offset: Value, count: int, make_pointer: MakePointer) -> list[Value]:
    base = builder.binary("xor", start, offset)
    words: list[Value] = []
    for first in range(0, count, 4):
        size = min(4, count - first)
        pointer = make_pointer(builder.bits("xor", base, first * 4))
        if size == 1:
            words.append(builder.load("i32", pointer, 4))
            continue
        vector = builder.load(f"<{size} x i32>", pointer, 4 * size)
        words += [builder.element(vector, index, "i32") for index in range(size)]
    return words


def load_shared(
    builder: Builder,
    layout: TileLayout,
    tile: Value,
    dtype: DType,
    row: Value,
    column: Value,
    count: int,
    make_pointer: MakePointer,
) -> list[Value]:
    """`count` elements of a row from `column` on, which is a multiple of `count` (a power of two).

    `make_pointer` selects the shared memory (this CTA's or another's) that contains `tile`.
    """
    span = layout.span_bytes
    run = min(count * dtype.bytes, span)
    per_run = run // dtype.bytes
    start = builder.multiply(column, dtype.bytes)
    values: list[Value] = []
    for index in range(count // per_run):
        position = builder.add(start, index * run)
        if layout.panels == 1:
            panel, inside = integer(0), position
        else:
            # Spans are powers of two: LLVM converts these to a shift and a mask.
            panel = builder.bits("udiv", position, span)
            inside = builder.bits("urem", position, span)
        address = row_address(builder, layout, tile, panel, row)
        if run < 4:
            for first in range(0, run, dtype.bytes):
                pointer = make_pointer(builder.binary("xor", address, builder.add(inside, first)))
                values.append(builder.load(dtype.llvm, pointer, dtype.bytes))
            continue
        values += unpack(builder, load_words(builder, address, inside, run // 4, make_pointer), dtype)
    return values


def unpack(builder: Builder, words: Sequence[Value], dtype: DType) -> list[Value]:
    """Unpacks elements from words, lowest bits first."""
    if dtype.bits == 64:
        pairs = [builder.vector(words[index : index + 2]) for index in range(0, len(words), 2)]
        return [builder.cast("bitcast", pair, dtype.llvm) for pair in pairs]
    if dtype.bits == 32:
        return [builder.cast("bitcast", word, dtype.llvm) for word in words]
    values = []
    for word in words:
        for shift in range(0, 32, dtype.bits):
            part = builder.cast("trunc", builder.bits("lshr", word, shift), f"i{dtype.bits}")
            values.append(builder.cast("bitcast", part, dtype.llvm))
    return values


def pack(builder: Builder, values: Sequence[Value], dtype: DType) -> list[Value]:
    """Packs elements into words; a partial last word is zero-padded."""
    if dtype.bits == 64:
        words = []
        for value in values:
            pair = builder.cast("bitcast", value, "<2 x i32>")
            words += [builder.element(pair, index, "i32") for index in (0, 1)]
        return words
    if dtype.bits == 32:
        return [builder.cast("bitcast", value, "i32") for value in values]
    per_word = 32 // dtype.bits
    halves = [builder.cast("zext", builder.cast("bitcast", value, f"i{dtype.bits}"), "i32") for value in values]
    return _join(builder, halves, dtype.bits, per_word)


def pack_converted(builder: Builder, values: Sequence[Value], source: DType, target: DType) -> list[Value]:
    """Elements rounded to a narrow float type and packed, two per conversion."""
    if not is_narrow_float(target) or len(values) % 2:
        return pack(builder, convert(builder, values, source, target), target)
    singles = convert(builder, values, source, _F32)
    pairs = [pack_pair(builder, singles[index], singles[index + 1], target) for index in range(0, len(singles), 2)]
    if target.bits == 16:
        return [builder.cast("bitcast", pair, "i32") for pair in pairs]
    return _join(builder, [builder.cast("zext", pair, "i32") for pair in pairs], 16, 2)


def _join(builder: Builder, parts: Sequence[Value], bits: int, per_word: int) -> list[Value]:
    words = []
    for first in range(0, len(parts), per_word):
        word = parts[first]
        for index, part in enumerate(parts[first + 1 : first + per_word], 1):
            word = builder.binary("or", word, builder.bits("shl", part, bits * index))
        words.append(word)
    return words


def load_accumulator(builder: Builder, address: Value, dtype: DType, count: int, split: int | None) -> list[Value]:
    """`count` columns from a tensor-memory address; with a `split`, lanes 16-31 read row lane - 16, `split` columns further."""
    pointer = builder.tensor_pointer(address)
    type_ = dtype.llvm if dtype.bits == 32 else "i32"
    if split is not None:
        loaded = builder.call(f"tcgen05.ld.16x32bx2.x{count}.{type_}", pointer, integer(split, "i64"))
    else:
        loaded = builder.call(f"tcgen05.ld.32x32b.x{count}.{type_}", pointer)
    words = builder.elements(loaded, count, type_)
    if dtype.bits == 32:
        return words
    # A 16-bit accumulator is in the low half of its column (hardware.md 3.6).
    return [builder.cast("bitcast", builder.cast("trunc", word, "i16"), dtype.llvm) for word in words]


def load_packed(builder: Builder, address: Value, dtype: DType, count: int) -> list[Value]:
    """`count` packed elements from an address on."""
    width = -(-count * dtype.bits // 32)
    loaded = builder.call(f"tcgen05.ld.32x32b.x{width}.i32", builder.tensor_pointer(address))
    return unpack(builder, builder.elements(loaded, width), dtype)[:count]


def store_tensor(builder: Builder, address: Value, words: Sequence[Value]) -> None:
    """Stores a word per column."""
    builder.call(f"tcgen05.st.32x32b.x{len(words)}", builder.tensor_pointer(address), *words)
