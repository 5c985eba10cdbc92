"""The arguments of `pipec sim --arg`: parsed from text for the simulator's launcher.

    i32:200                                    a scalar
    a=f16[128,64]:random                       a pointer to an array (random, zeros, ones, arange, or a number)
    a=@a.npy      a=bf16@a.npy                 a pointer to an array in a file, optionally with another type
    a                                          a pointer to an array named before
    map(a=f16[128,64]:random; box=64,32; swizzle=128B; type=tf32; steps=1,2; interleave=none; fill=nan)
    raw(160; 0=a; 8=f32:0.5; 32=map(...); 16=hex:00ff)      a block of bytes with values at offsets

Sizes, boxes and steps are in elements, outermost dimension first.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import Any

import ml_dtypes
import numpy as np

from pipec.isa.dtypes import DTYPES
from pipec.sim import ArrayArgument, RawArgument, ScalarArgument, SimulationError, TensorMapArgument

Argument = ScalarArgument | ArrayArgument | TensorMapArgument | RawArgument

_TYPES = {name: np.dtype(getattr(ml_dtypes, row.numpy, None) or row.numpy) for name, row in DTYPES.items() if row.numpy}
# PTX names of the signed integers.
_TYPES |= {f"s{bits}": np.dtype(f"int{bits}") for bits in (8, 16, 32, 64)}
_NAMED = re.compile(r"([A-Za-z_]\w*)=(.*)", re.DOTALL)
_ARRAY = re.compile(r"(\w+)\[([\d,\s]*)\]:(.+)")
_IN_FILE = re.compile(r"(\w*)@(.+)")
_SCALAR = re.compile(r"(\w+):(.+)")
_BLOCK = re.compile(r"(map|raw)\((.*)\)", re.DOTALL)
LARGEST_BLOCK = 1 << 15  # bytes; a kernel's parameters are no more than 32,764
_LONGEST_OFFSET = 9  # digits


class BadText(Exception):
    """Invalid argument text; the message completes "`--arg TEXT` ..."."""


class ArgumentReader:
    """Reads arguments in sequence; `arrays` are those created so far, by name (unnamed ones by "#1", "#2", ...)."""

    def __init__(self, seed: int, read_file: Callable[[str], np.ndarray]) -> None:
        self.generator = np.random.default_rng(seed)
        self.read_file = read_file
        self.arrays: dict[str, np.ndarray] = {}

    def argument(self, text: str) -> Argument:
        """Raises BadText, and whatever `read_file` raises."""
        text = text.strip()
        block = _BLOCK.fullmatch(text)
        if block:
            parts = _split(block[2])
            return self._map(parts) if block[1] == "map" else self._raw(parts)
        scalar = _SCALAR.fullmatch(text)
        if scalar and scalar[1] == "hex":
            return RawArgument(_hex(scalar[2]))
        if scalar and scalar[1] in _TYPES:
            return ScalarArgument(_number(scalar[2], _TYPES[scalar[1]]).tobytes())
        named = _NAMED.fullmatch(text)
        if named and _BLOCK.fullmatch(named[2]):
            raise BadText("names what is no array; name the array inside")
        return ArrayArgument(self.array(text))

    def array(self, text: str) -> np.ndarray:
        named = _NAMED.fullmatch(text)
        if not named and text in self.arrays:
            return self.arrays[text]
        name, value = (named[1], named[2].strip()) if named else (f"#{len(self.arrays) + 1}", text)
        if name in self.arrays:
            raise BadText(f"gives the name `{name}` a second time")
        self.arrays[name] = self._made(value)
        return self.arrays[name]

    def _made(self, text: str) -> np.ndarray:
        written = _ARRAY.fullmatch(text)
        if written:
            return self._filled(_dtype(written[1]), _sizes(written[2]), written[3].strip())
        stored = _IN_FILE.fullmatch(text)
        if stored:
            return _as_type(self.read_file(stored[2]), _dtype(stored[1]) if stored[1] else None)
        raise BadText("is no scalar (i32:5), array (f32[8,16]:zeros), file (@a.npy), named array, map(...) or raw(...)")

    def _filled(self, dtype: np.dtype, shape: tuple[int, ...], fill: str) -> np.ndarray:
        count = 1
        for size in shape:
            count *= size
        if count < 1:
            raise BadText("has no elements")
        try:
            if fill == "random":
                return self._random(dtype, shape)
            if fill == "arange":
                return np.arange(count).astype(dtype).reshape(shape)
            number = {"zeros": 0, "ones": 1}.get(fill)
            return np.full(shape, _number(fill, dtype) if number is None else number, dtype)
        except (MemoryError, ValueError) as error:
            raise BadText(f"cannot be made: {error}") from None

    def _random(self, dtype: np.dtype, shape: tuple[int, ...]) -> np.ndarray:
        """Floats from the standard normal distribution, integers between -4 and 4 (0 and 4 when unsigned)."""
        if dtype.kind in "iub":
            low, high = {"i": (-4, 5), "u": (0, 5), "b": (0, 2)}[dtype.kind]
            return self.generator.integers(low, high, shape).astype(dtype)
        return self.generator.standard_normal(shape, np.float32).astype(dtype)

    def _map(self, parts: list[str]) -> TensorMapArgument:
        options = dict(_assignment(part) for part in parts[1:])
        unknown = options.keys() - {"box", "swizzle", "type", "steps", "interleave", "fill"}
        if unknown:
            raise BadText(f"has no option `{min(unknown)}`; there is box, swizzle, type, steps, interleave, fill")
        if "box" not in options:
            raise BadText("needs the size of its box: box=64,32")
        array = self.array(parts[0])
        steps = _sizes(options["steps"]) if "steps" in options else None
        modes: dict[str, Any] = {
            name: options[name] for name in ("swizzle", "interleave", "fill") if name in options
        }  # validated there
        try:
            made = TensorMapArgument.of(array, _sizes(options["box"]), dtype=options.get("type"), steps=steps, **modes)
        except SimulationError as error:
            raise BadText(f"is no tensor map: {error.message}") from None
        return made

    def _raw(self, parts: list[str]) -> RawArgument:
        size = _offset(parts[0])
        if not 0 < size <= LARGEST_BLOCK:
            raise BadText(f"begins with the bytes of the block, 1 to {LARGEST_BLOCK}: raw(64; ...)")
        fields = []
        for part in parts[1:]:
            place, text = _assignment(part)
            if (at := _offset(place)) < 0:
                raise BadText(f"needs the offset of each value: raw({size}; 8={part})")
            fields.append((at, self.argument(text)))
        return block(size, fields)


def block(size: int, fields: Iterable[tuple[int, Argument]]) -> RawArgument:
    """`size` bytes, zero except for the values at their offsets. Raises BadText."""
    data, patches = bytearray(size), {}
    for at, value in fields:
        if not isinstance(value, RawArgument):
            patches[at] = value
        elif value.patches or at + len(value.data) > size:
            raise BadText(f"cannot hold {len(value.data)} bytes at offset {at} of {size}")
        else:
            data[at : at + len(value.data)] = value.data
    return RawArgument(bytes(data), patches)


def _split(text: str) -> list[str]:
    """The parts between semicolons outside nested parentheses."""
    parts, depth, start = [], 0, 0
    for position, letter in enumerate(text):
        depth += {"(": 1, ")": -1}.get(letter, 0)
        if letter == ";" and not depth:
            parts.append(text[start:position].strip())
            start = position + 1
    return [*parts, text[start:].strip()]


def _offset(text: str) -> int:
    """A number of bytes; -1 for any other text."""
    return int(text) if text.isascii() and text.isdecimal() and len(text) <= _LONGEST_OFFSET else -1


def _assignment(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not equals:
        raise BadText(f"has `{text}` where NAME=VALUE is expected")
    return name.strip(), value.strip()


def _dtype(name: str) -> np.dtype:
    if name not in _TYPES:
        raise BadText(f"has no type `{name}`; there is {', '.join(sorted(_TYPES))}")
    return _TYPES[name]


def _sizes(text: str) -> tuple[int, ...]:
    try:
        text.encode("ascii")  # Python accepts digits of every script
        sizes = tuple(int(size) for size in text.split(","))
    except ValueError:
        raise BadText(f"has `{text}` where sizes such as 128,64 are expected") from None
    if min(sizes) < 1:
        raise BadText(f"has the size {min(sizes)}")
    return sizes


def _number(text: str, dtype: np.dtype) -> np.ndarray:
    """One element of the type; integers out of range are rejected."""
    try:
        text.encode("ascii")  # Python accepts digits of every script
        if dtype.kind in "iu":
            value, limits = int(text, 0), np.iinfo(dtype)
            if not limits.min <= value <= limits.max:
                raise BadText(f"does not fit {dtype}: {text} is not in {limits.min}..{limits.max}")
            return np.array(value, dtype)
        return np.array(float(text)).astype(dtype)
    except ValueError:
        raise BadText(f"has `{text}` where a number is expected") from None


def _hex(text: str) -> bytes:
    try:
        return bytes.fromhex(text)
    except ValueError:
        raise BadText("is not pairs of hexadecimal digits") from None


def _as_type(array: np.ndarray, dtype: np.dtype | None) -> np.ndarray:
    """Integers or bytes of the same size are reinterpreted; other values are converted."""
    if dtype is not None and dtype != array.dtype:
        array = array.view(dtype) if array.dtype.itemsize == dtype.itemsize and array.dtype.kind in "iuV" else array.astype(dtype)
    if array.dtype.kind not in "iufbV" or array.dtype.hasobject or not array.size:
        raise BadText(f"is an array of {array.size} elements of type {array.dtype}")
    # In row-major order, in memory that the kernel may modify.
    return np.array(array, order="C")
