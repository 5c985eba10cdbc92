"""The tensor map: what cuTensorMapEncodeTiled stores (CUDA driver API, PTX ISA 5.5), with its encode rules.

Its byte encoding is in mapbits.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from math import prod
from numbers import Integral
from typing import Final, Literal, get_args

from pipec.record import record

from ..errors import UnitError, UnitErrorKind
from ..swizzle import SWIZZLES, Swizzle, SwizzleName
from .mapbits import MEANT_BYTES, Layout


@record
class ElementType:
    """`bits` in global memory; packed types pad 16 elements to 16 shared-memory bytes of which `payload` carry data."""

    bits: int
    is_float: bool = False
    payload: int = 16
    packed: bool = False


ELEMENT_TYPES = {
    "u8": ElementType(8),
    "u16": ElementType(16),
    "u32": ElementType(32),
    "s32": ElementType(32),
    "u64": ElementType(64),
    "s64": ElementType(64),
    "f16": ElementType(16, is_float=True),
    "f32": ElementType(32, is_float=True),
    "f64": ElementType(64, is_float=True),
    "bf16": ElementType(16, is_float=True),
    "f32_ftz": ElementType(32, is_float=True),
    "tf32": ElementType(32, is_float=True),
    "tf32_ftz": ElementType(32, is_float=True),
    "b4x16": ElementType(4, packed=True),
    "b4x16_p64": ElementType(4, payload=8, packed=True),
    "b6x16_p32": ElementType(6, payload=12, packed=True),
}
Interleave = Literal["none", "16B", "32B"]
INTERLEAVES: Final[tuple[Interleave, ...]] = get_args(Interleave)
_SLICE_BITS = {"16B": 128, "32B": 256}
Fill = Literal["zero", "nan"]
FILLS: Final[tuple[Fill, ...]] = get_args(Fill)
SWIZZLE_NAMES: Final[tuple[SwizzleName, ...]] = get_args(SwizzleName)
DTYPE_NAMES = tuple(ELEMENT_TYPES)

# cuTensorMapEncodeTiled refuses larger boxes, counted without row padding (measured: 228 KB).
MAXIMUM_BOX_BYTES = 233_472

_LAYOUT = Layout(
    b"TM",
    {
        "rank": (1, 4),
        "elemtype": (1, 5),
        "swizzle": (1, 3),
        "interleave_layout": (1, 2),
        "fill_mode": (1, 1),
        "global_address": (1, 56),
        "global_dim": (5, 32),  # minus one
        "global_stride": (4, 40),
        "box_dim": (5, 9),
        "element_stride": (5, 4),
    },
)


class MapProperties:
    """Properties derived from the fields that tiled and im2col maps share."""

    dtype: str
    dims: tuple[int, ...]
    swizzle: SwizzleName

    @property
    def rank(self) -> int:
        return len(self.dims)

    @property
    def element(self) -> ElementType:
        return ELEMENT_TYPES[self.dtype]

    @property
    def swizzle_mode(self) -> Swizzle:
        return SWIZZLES[self.swizzle]


@dataclass(frozen=True)  # callers create them and modify copies of them
class TensorMap(MapProperties):
    """One tiled tensor map.

    dims             elements per dimension, dimension 0 innermost; rank 1..5
    strides          bytes between neighbours of dimensions 1.. (one entry fewer than dims)
    box              elements per dimension that one copy moves
    element_strides  traversal step per dimension; ceil(box/step) elements are moved; ignored in dimension 0
    swizzle          "none", "32B", "64B", "128B", "128B_ATOM_32B", "128B_ATOM_32B_FLIP_8B", "128B_ATOM_64B"
    fill             "zero" or "nan" for elements outside the tensor
    address          global byte address of element 0
    """

    dtype: str
    dims: tuple[int, ...]
    strides: tuple[int, ...]
    box: tuple[int, ...]
    element_strides: tuple[int, ...] | None = None
    swizzle: SwizzleName = "none"
    interleave: Interleave = "none"
    fill: Fill = "zero"
    address: int = 0

    @property
    def steps(self) -> tuple[int, ...]:
        """Traversal step per dimension with the defaults filled in; dimension 0 always steps by 1 (measured)."""
        steps = self.element_strides or (1,) * self.rank
        return (1,) + tuple(steps[1:])

    @property
    def unit_bits(self) -> int:
        """Bits between neighbours in dimension 0: an element, or with interleave a slice of channels."""
        return _SLICE_BITS.get(self.interleave, self.element.bits)

    @cached_property
    def box_shape(self) -> tuple[int, ...]:
        """Elements actually moved per dimension, dimension 0 first.

        With interleave the last dimension but one counts slices of channels, and one copy moves one of them (measured).
        """
        counts = [-(-extent // step) for extent, step in zip(self.box, self.steps)]
        if self.interleave != "none":
            counts[-2] = 1
        return tuple(counts)

    @cached_property
    def joined(self) -> tuple[int, int]:
        """The dimensions that go on in the tensor where dimension 0, and dimension 1, of a box ends, as in a map that takes a matrix as
        tiles; 0: none."""
        apart = [step * stride for step, stride in zip(self.steps[1:], self.strides, strict=True)]  # of dimension 1 and on
        further = [number for number in range(2, self.rank) if self.box_shape[number] > 1]
        ends = self.inner_bytes, self.box_shape[1] * apart[0] if further else 0
        across, down = (next((number for number in further if apart[number - 1] == end), 0) for end in ends)
        return across, down

    @cached_property
    def inner_bytes(self) -> int:
        """Global-memory bytes of one box row (dimension 0)."""
        return self.box[0] * self.unit_bits // 8

    @cached_property
    def box_bytes(self) -> int:
        """Payload bytes of one box, without row padding or packing pads: what a copy reports to its mbarrier."""
        return self.inner_bytes * prod(self.box_shape[1:])

    def validate(self) -> TensorMap:
        """Apply every encode rule; UnitError names the rule and both numbers.  Returns the map itself."""
        _check_names(self)
        _check_integers(self)
        _check_rank(self)
        _check_dims(self)
        _check_strides(self)
        _check_box(self)
        _check_modes(self)
        return self

    def encode(self) -> bytes:
        """The map's 128 bytes; validates first."""
        self.validate()
        return _LAYOUT.pack(
            {
                "rank": [self.rank],
                "elemtype": [DTYPE_NAMES.index(self.dtype)],
                "swizzle": [SWIZZLE_NAMES.index(self.swizzle)],
                "interleave_layout": [INTERLEAVES.index(self.interleave)],
                "fill_mode": [FILLS.index(self.fill)],
                "global_address": [self.address],
                "global_dim": [extent - 1 for extent in self.dims],
                "global_stride": self.strides,
                "box_dim": self.box,
                "element_stride": self.element_strides or (),
            }
        )

    @staticmethod
    def decode(data: bytes) -> TensorMap:
        """Inverse of encode; UnitError "illegal" for anything that encode did not write."""
        fields = _LAYOUT.unpack(data)
        (rank,) = fields["rank"]
        steps = fields["element_stride"][:rank]
        return TensorMap(
            dtype=DTYPE_NAMES[fields["elemtype"][0]],
            dims=tuple(extent + 1 for extent in fields["global_dim"][:rank]),
            strides=fields["global_stride"][: rank - 1],
            box=fields["box_dim"][:rank],
            element_strides=tuple(step or 1 for step in steps) if any(steps) else None,
            swizzle=SWIZZLE_NAMES[fields["swizzle"][0]],
            interleave=INTERLEAVES[fields["interleave_layout"][0]],
            fill=FILLS[fields["fill_mode"][0]],
            address=fields["global_address"][0],
        )


# tensormap.replace has its own numbering of element types (PTX ISA 9.7.9.26).
REPLACED_TYPES = (
    "u8", "u16", "u32", "s32", "u64", "s64", "f16", "f32", "f32_ftz", "f64", "bf16", "tf32", "tf32_ftz", "b4x16", "b4x16_p64", "b6x16_p32",
)  # fmt: skip
REPLACED_SWIZZLES: tuple[SwizzleName, ...] = ("none", "32B", "64B", "128B")
_REPLACED_ATOMS = ("128B", "128B_ATOM_32B", "128B_ATOM_32B_FLIP_8B", "128B_ATOM_64B")
# Fields with encoded values: the instruction's codes, and the map's.
_CODES: dict[str, tuple[str, tuple[str, ...], tuple[str, ...]]] = {
    "elemtype": ("elemtype", REPLACED_TYPES, DTYPE_NAMES),
    "swizzle_mode": ("swizzle", REPLACED_SWIZZLES, SWIZZLE_NAMES),
    "swizzle_atomicity": ("swizzle", _REPLACED_ATOMS, SWIZZLE_NAMES),
    "interleave_layout": ("interleave_layout", INTERLEAVES, INTERLEAVES),
    "fill_mode": ("fill_mode", FILLS, FILLS),
}


def replaced(data: bytes, field: str, ordinal: int, value: int) -> bytes:
    """A map with one field of tensormap.replace changed; rules are applied when the map is used.

    `data` may be all zeros, an empty map. UnitError "illegal" for values outside the field's range.
    """
    if not any(data[:MEANT_BYTES]):
        data = _LAYOUT.pack({"rank": [1]})
    elif not _LAYOUT.matches(data):
        raise UnitError("illegal", f"tensormap.replace on what is no tiled tensor map: starts with {data[:8].hex()}")
    fields = _LAYOUT.unpack(data)
    name, stored = _stored(field, value, SWIZZLE_NAMES[fields["swizzle"][0]])
    if ordinal >= len(fields[name]):
        raise UnitError("illegal", f"tensormap.replace: {field} has no element {ordinal}")
    entries = list(fields[name])
    entries[ordinal] = stored
    try:
        return _LAYOUT.pack({**fields, name: entries})
    except UnitError:
        raise UnitError("illegal", f"tensormap.replace: {field} cannot be {value}") from None


def _stored(field: str, value: int, swizzle: str) -> tuple[str, int]:
    """The field of the map that is replaced, and its stored value."""
    if field == "rank":
        return field, value + 1
    if field not in _CODES:
        return field, value - 1 if field == "global_dim" else value
    name, codes, known = _CODES[field]
    if field == "swizzle_atomicity" and not swizzle.startswith("128B"):
        codes = (swizzle,)
    if value >= len(codes):
        raise UnitError("illegal", f"tensormap.replace: {field} {value} is none of {', '.join(codes)}")
    return name, known.index(codes[value])


def _require(condition: bool, kind: UnitErrorKind, message: str) -> None:
    if not condition:
        raise UnitError(kind, f"tensor map: {message}")


def _check_names(tensor_map: TensorMap) -> None:
    for what, value, known in (
        ("dtype", tensor_map.dtype, DTYPE_NAMES),
        ("swizzle", tensor_map.swizzle, SWIZZLE_NAMES),
        ("interleave", tensor_map.interleave, INTERLEAVES),
        ("fill", tensor_map.fill, FILLS),
    ):
        _require(value in known, "illegal", f"{what} {value!r} is none of {', '.join(known)}")


def _check_integers(tensor_map: TensorMap) -> None:
    for what in ("dims", "strides", "box", "element_strides"):
        for value in getattr(tensor_map, what) or ():
            _require(isinstance(value, Integral), "illegal", f"{what} has {value!r}, which is no integer")


def _check_rank(tensor_map: TensorMap) -> None:
    rank = tensor_map.rank
    _require(1 <= rank <= 5, "illegal", f"rank {rank} is outside 1..5")
    _require(
        len(tensor_map.strides) == rank - 1, "illegal", f"rank {rank} needs {rank - 1} strides, got {len(tensor_map.strides)}"
    )
    _require(len(tensor_map.box) == rank, "illegal", f"rank {rank} needs {rank} box extents, got {len(tensor_map.box)}")
    steps = tensor_map.element_strides
    if steps is not None:
        _require(len(steps) == rank, "illegal", f"rank {rank} needs {rank} element strides, got {len(steps)}")
        for index, step in enumerate(steps):
            _require(1 <= step <= 8, "illegal", f"element stride {step} of dimension {index} is outside 1..8")
    if tensor_map.interleave != "none":
        _require(rank >= 3, "illegal", f"interleave {tensor_map.interleave} needs rank 3 or more, got {rank}")


def _is_wide_packed(tensor_map: TensorMap) -> bool:
    """The packed types that pad to 16 bytes in shared memory (16U4_ALIGN16B, 16U6_ALIGN16B)."""
    return tensor_map.element.payload < 16


def _address_alignment(tensor_map: TensorMap) -> int:
    return 32 if tensor_map.interleave == "32B" or _is_wide_packed(tensor_map) else 16


def _check_dims(tensor_map: TensorMap) -> None:
    for index, extent in enumerate(tensor_map.dims):
        _require(1 <= extent <= 1 << 32, "illegal", f"size {extent} of dimension {index} is outside 1..{1 << 32}")
    multiple = 128 if _is_wide_packed(tensor_map) else 2 if tensor_map.element.bits < 8 else 1
    inner = tensor_map.dims[0]
    _require(
        inner % multiple == 0,
        "misaligned",
        f"size {inner} of dimension 0 is no multiple of {multiple} as {tensor_map.dtype} needs",
    )


def _check_strides(tensor_map: TensorMap) -> None:
    alignment = _address_alignment(tensor_map)
    address = tensor_map.address
    _require(0 <= address < 1 << 63, "illegal", f"global address {address:#x} is outside 0..{1 << 63:#x}")
    _require(address % alignment == 0, "misaligned", f"global address {address:#x} is not {alignment}-byte aligned")
    for index, stride in enumerate(tensor_map.strides, start=1):
        _require(0 <= stride < 1 << 40, "illegal", f"stride {stride} of dimension {index} is outside 0..2^40-1")
        _require(
            stride % alignment == 0, "misaligned", f"stride {stride} of dimension {index} is no multiple of {alignment} bytes"
        )


def _check_box(tensor_map: TensorMap) -> None:
    for index, extent in enumerate(tensor_map.box):
        _require(1 <= extent <= 256, "illegal", f"box extent {extent} of dimension {index} is outside 1..256")
    if _is_wide_packed(tensor_map):
        inner = tensor_map.box[0]
        _require(inner == 128, "illegal", f"{tensor_map.dtype} needs a box of 128 elements in dimension 0, got {inner}")
    bits = tensor_map.box[0] * tensor_map.element.bits
    _require(bits % 128 == 0, "misaligned", f"box row of {bits / 8:g} bytes is no multiple of 16 bytes")
    _require(
        tensor_map.box_bytes <= MAXIMUM_BOX_BYTES,
        "out_of_bounds",
        f"box of {tensor_map.box_bytes} bytes exceeds the {MAXIMUM_BOX_BYTES} bytes of shared memory",
    )


def _shared_inner_bytes(tensor_map: TensorMap) -> int:
    """Bytes one box row takes in shared memory, packing pads included."""
    return tensor_map.inner_bytes * 16 // tensor_map.element.payload if _is_wide_packed(tensor_map) else tensor_map.inner_bytes


def _check_modes(tensor_map: TensorMap) -> None:
    dtype, swizzle = tensor_map.dtype, tensor_map.swizzle
    if swizzle != "none" and tensor_map.interleave == "none":
        width = tensor_map.swizzle_mode.width
        inner = _shared_inner_bytes(tensor_map)
        _require(inner <= width, "illegal", f"box row of {inner} bytes exceeds the {width} bytes of swizzle {swizzle}")
    if tensor_map.fill == "nan":
        _require(tensor_map.element.is_float, "illegal", f"NaN fill needs a floating-point type, got {dtype}")
    if _is_wide_packed(tensor_map):
        allowed = ("none", "128B", "128B_ATOM_32B", "128B_ATOM_64B")
        _require(swizzle in allowed, "illegal", f"{dtype} allows only the swizzles {', '.join(allowed)}, got {swizzle}")
        _require(tensor_map.interleave == "none", "illegal", f"{dtype} cannot be interleaved, got {tensor_map.interleave}")
