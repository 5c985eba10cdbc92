"""im2col tensor maps: what cuTensorMapEncodeIm2col stores, and the pixels that a copy walks (PTX ISA 5.5.4, CUDA driver API).

Dimension 0 is the channels, then the spatial dimensions (W, H, D), the last dimension counts images. A copy takes `pixels` pixels of
`channels` channels each. It starts at a pixel of the bounding box and walks it along W, then H, then D, then to the next image; each
pixel is read at its position plus the offsets of the instruction. The bounding box reaches from `lower` to the image's last pixel plus
`upper`.

Wide maps (im2col::w and ::w::128) walk along W alone, from image to image, with H and D fixed by the coordinates; the halo's pixels
follow.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np

from ..errors import UnitError
from ..swizzle import SwizzleName
from .mapbits import Layout
from .tensormap import DTYPE_NAMES, FILLS, SWIZZLE_NAMES, Fill, Interleave, MapProperties, TensorMap

MAXIMUM_CHANNELS = 256
MAXIMUM_PIXELS = 1024
# What wide maps move: `pixels` pixels, or 128 with a halo for each 32.
Wide = Literal["no", "w", "w128"]
_WIDE: tuple[Wide, ...] = ("no", "w", "w128")
_FIXED_PIXELS, _GROUP = 128, 32
_MOST_HALO = {"w": 511, "w128": 31}
_MOST_OFFSET = 31
# The corners of a box with 1, 2 or 3 spatial dimensions have 16, 8 or 5 signed bits per coordinate; offsets have as many unsigned bits.
_CORNER_BITS = {1: 16, 2: 8, 3: 5}

_LAYOUT = Layout(
    b"IM",
    {
        "rank": (1, 4),
        "dtype": (1, 5),
        "swizzle": (1, 3),
        "fill": (1, 1),
        "address": (1, 56),
        "dims": (5, 32),  # minus one
        "strides": (4, 40),
        "lower": (1, 16),
        "upper": (1, 16),
        "channels": (1, 9),
        "pixels": (1, 11),
        "element_strides": (5, 4),
        "wide": (1, 2),
    },
)


@dataclass(frozen=True)
class Im2colMap(MapProperties):
    """One im2col tensor map; other fields are as in TensorMap.

    lower, upper     corners of the pixel box, one number per spatial dimension, W first
    channels         elements of dimension 0 per pixel; pixels: how many one copy moves
    element_strides  step of the walk per dimension; steps in dimension 0 and over images are 1
    wide             "w" or "w128" for a map whose copies walk along W alone: its corners are one number each
    """

    dtype: str
    dims: tuple[int, ...]
    strides: tuple[int, ...]
    lower: tuple[int, ...]
    upper: tuple[int, ...]
    channels: int
    pixels: int
    element_strides: tuple[int, ...] | None = None
    swizzle: SwizzleName = "none"
    fill: Fill = "zero"
    address: int = 0
    wide: Wide = "no"
    interleave: ClassVar[Interleave] = "none"

    @property
    def unit_bits(self) -> int:
        return self.element.bits

    @property
    def inner_bytes(self) -> int:
        return self.channels * self.element.bits // 8

    @property
    def box_shape(self) -> tuple[int, int]:
        return (self.channels, self.walked)

    @property
    def walked(self) -> int:
        """Pixels of one copy, without a halo."""
        return _FIXED_PIXELS if self.wide == "w128" else self.pixels

    @property
    def box_bytes(self) -> int:
        return self.inner_bytes * self.walked

    def validate(self) -> Im2colMap:
        """Apply the rules that im2col adds to those of a tiled map; UnitError names rule and number."""
        spatial = self.rank - 2
        if spatial not in _CORNER_BITS:
            raise UnitError("illegal", f"im2col map: rank {self.rank} is outside 3..5")
        corners = spatial if self.wide == "no" else 1
        if len(self.lower) != corners or len(self.upper) != corners:
            raise UnitError("illegal", f"im2col map: rank {self.rank} needs {corners} numbers per corner")
        if self.wide not in _WIDE:
            raise UnitError("illegal", f"im2col map: wide {self.wide!r} is none of {', '.join(_WIDE)}")
        if self.wide != "no" and self.swizzle in ("none", "128B_ATOM_32B_FLIP_8B"):
            raise UnitError("illegal", f"wide im2col map: swizzle {self.swizzle} is not allowed")
        limit = 1 << _CORNER_BITS[spatial] - 1
        for value in (*self.lower, *self.upper):
            if not -limit <= value < limit:
                raise UnitError("illegal", f"im2col map: corner {value} is outside {-limit}..{limit - 1}")
        for what, value, most in (("channels", self.channels, MAXIMUM_CHANNELS), ("pixels", self.pixels, MAXIMUM_PIXELS)):
            if not 1 <= value <= most:
                raise UnitError("illegal", f"im2col map: {value} {what}, must be 1..{most}")
        box = (self.channels,) + (1,) * (self.rank - 1)
        TensorMap(
            self.dtype, self.dims, self.strides, box, self.element_strides, self.swizzle, fill=self.fill, address=self.address
        ).validate()
        return self

    def encode(self) -> bytes:
        """The map's 128 bytes; validates first."""
        self.validate()
        bits = _CORNER_BITS[self.rank - 2]
        return _LAYOUT.pack(
            {
                "rank": [self.rank],
                "dtype": [DTYPE_NAMES.index(self.dtype)],
                "swizzle": [SWIZZLE_NAMES.index(self.swizzle)],
                "fill": [FILLS.index(self.fill)],
                "address": [self.address],
                "dims": [extent - 1 for extent in self.dims],
                "strides": self.strides,
                "lower": [_joined(self.lower, bits)],
                "upper": [_joined(self.upper, bits)],
                "channels": [self.channels],
                "pixels": [self.pixels],
                "element_strides": self.element_strides or (),
                "wide": [_WIDE.index(self.wide)],
            }
        )

    @staticmethod
    def is_encoded(data: bytes) -> bool:
        return _LAYOUT.matches(data)

    @staticmethod
    def decode(data: bytes) -> Im2colMap:
        """Inverse of encode; UnitError "illegal" for modified bytes."""
        fields = _LAYOUT.unpack(data)
        (rank,) = fields["rank"]
        steps = fields["element_strides"][:rank]
        wide = _WIDE[fields["wide"][0]]
        corners = rank - 2 if wide == "no" else 1
        return Im2colMap(
            dtype=DTYPE_NAMES[fields["dtype"][0]],
            dims=tuple(extent + 1 for extent in fields["dims"][:rank]),
            strides=fields["strides"][: rank - 1],
            lower=_split(fields["lower"][0], rank - 2)[:corners],
            upper=_split(fields["upper"][0], rank - 2)[:corners],
            channels=fields["channels"][0],
            pixels=fields["pixels"][0],
            element_strides=steps if any(steps) else None,
            swizzle=SWIZZLE_NAMES[fields["swizzle"][0]],
            fill=FILLS[fields["fill"][0]],
            address=fields["address"][0],
            wide=wide,
        )


def _joined(corner: Sequence[int], bits: int) -> int:
    """Packs the numbers of a corner, each in `bits` signed bits."""
    return sum((value & (1 << bits) - 1) << bits * axis for axis, value in enumerate(corner))


def _split(word: int, spatial: int) -> tuple[int, ...]:
    bits = _CORNER_BITS[spatial]
    half = 1 << bits - 1
    return tuple(((word >> bits * axis) + half & 2 * half - 1) - half for axis in range(spatial))


def walk(entry: Im2colMap, coords: Sequence[int], offsets: Sequence[int]) -> np.ndarray:
    """Positions (int64 [pixels, spatial + 1]: W, H, D, image) of the pixels that a copy from `coords` reads."""
    spatial = entry.rank - 2
    steps = entry.element_strides or (1,) * entry.rank
    first = list(coords[1:])
    ends = [entry.dims[1 + axis] - 1 + entry.upper[axis] for axis in range(spatial)]
    found = np.empty((entry.pixels, spatial + 1), np.int64)
    for number in range(entry.pixels):
        found[number] = first
        for axis in range(spatial):
            first[axis] += steps[1 + axis]
            if first[axis] <= ends[axis]:
                break
            first[axis] = entry.lower[axis]
        else:
            first[spatial] += 1
    found[:, :spatial] += np.array(offsets, np.int64)
    return found


def walk_wide(entry: Im2colMap, coords: Sequence[int], halo: int, offset: int) -> np.ndarray:
    """Positions, as in `walk`, of the pixels that a wide copy reads, with the halo's pixels last.

    The halo of a row of pixels continues where the row ended. With 128 pixels each 32 have their own halo; the first pixels of all halos
    come first, then the second ones.
    """
    step = entry.element_strides[1] if entry.element_strides else 1
    first, last = entry.lower[0], entry.dims[1] - 1 + entry.upper[0]
    column, image = coords[1], coords[-1]
    line = np.empty((entry.walked + halo, 2), np.int64)
    for number in range(len(line)):
        line[number] = column, image
        column += step
        if column > last:
            column, image = first, image + 1
    if entry.wide == "w128":
        behind = [_GROUP * (group + 1) + number for number in range(halo) for group in range(_FIXED_PIXELS // _GROUP)]
        line = line[[*range(_FIXED_PIXELS), *behind]]
    found = np.tile(np.array(coords[1:], np.int64), (len(line), 1))
    found[:, 0], found[:, -1] = line[:, 0] + offset, line[:, 1]
    return found


def rows(entry: Im2colMap, positions: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(address of channel 0, inside the tensor) of each pixel."""
    extents = np.array(entry.dims[1:], np.int64)
    inside = (positions >= 0) & (positions < extents)
    places = np.where(inside, positions, 0) * np.array(entry.strides, np.int64)
    return entry.address + places.sum(axis=1), np.logical_and.reduce(inside, axis=1)


def check_offsets(entry: Im2colMap, offsets: Sequence[int]) -> None:
    """UnitError unless there is one offset per spatial dimension."""
    if len(offsets) != entry.rank - 2:
        raise UnitError("illegal", f"{len(offsets)} im2col offsets for a map of rank {entry.rank}, which takes {entry.rank - 2}")


def check_halo(entry: Im2colMap, halo: int, offset: int) -> None:
    """UnitError for numbers outside a wide copy's range."""
    if not 0 <= halo <= _MOST_HALO[entry.wide]:
        raise UnitError("illegal", f"a halo of {halo} pixels for im2col::{entry.wide}, at most {_MOST_HALO[entry.wide]}")
    if not 0 <= offset <= _MOST_OFFSET:
        raise UnitError("illegal", f"an offset of {offset} along W, at most {_MOST_OFFSET}")
