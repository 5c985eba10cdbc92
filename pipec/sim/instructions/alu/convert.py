"""cvt in all its forms (PTX ISA 9.7.9.21)."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np

from pipec.record import record

from ...machine.program import Execute
from ...machine.threads.cta import Warp
from ...ptx.types import LANES, TYPES, LaneValues, Type, unsigned
from ...units.numbers.formats import FORMATS, ROUNDINGS, Rounding, decode, encode
from ...units.numbers.numerics import F16_NAN, F32_NAN
from ..decode import Decoder, instruction
from ..widths import Reader, Writer
from .floating import finish, round_fraction
from .lanes import flush, to_bf16

_ROUND_TO_INTEGER: dict[str, np.ufunc] = {"rni": np.rint, "rzi": np.trunc, "rmi": np.floor, "rpi": np.ceil}
_PACKED = {
    "f16x2": "f16",
    "bf16x2": "bf16",
    "e4m3x2": "e4m3",
    "e5m2x2": "e5m2",
    "e2m3x2": "e2m3",
    "e3m2x2": "e3m2",
    "e2m1x2": "e2m1",
}
_QUADS = {"e4m3x4": "e4m3", "e5m2x4": "e5m2", "e2m3x4": "e2m3", "e3m2x4": "e3m2", "e2m1x4": "e2m1"}


@record
class _Options:
    ftz: bool
    sat: bool
    satfinite: bool
    relu: bool


_PACKABLE = frozenset({f"{sign}{bits}" for sign in "su" for bits in (2, 4, 8, 16)})


@instruction("cvt.pack")
def pack_integers(d: Decoder) -> Execute:
    d.flag("sat")
    to, from_, *carry = d.formats()
    if to not in _PACKABLE or from_ != "s32":
        d.fail("is not simulated for these types")
    signed, bits, write = to[0] == "s", int(to[1:]), d.destination(0, TYPES["b32"])
    least, most = (-(1 << bits - 1), (1 << bits - 1) - 1) if signed else (0, (1 << bits) - 1)
    a, b = d.sources(1, 2, type_=TYPES[from_])
    c = d.source(3, TYPES["b32"]) if carry else None

    def execute(warp: Warp) -> None:
        x, y = (np.clip(read(warp).astype(np.int64), least, most) & (1 << bits) - 1 for read in (a, b))
        low = x << bits | y
        rest = c(warp).astype(np.int64) << 2 * bits if c else 0
        write(warp, ((low | rest) & 0xFFFFFFFF).astype(np.uint32))

    return execute


@instruction("cvt")
def convert(d: Decoder) -> Execute:
    integer_rounding = d.choose(*_ROUND_TO_INTEGER)
    stochastic, mode = d.flag("rs"), d.choose(*ROUNDINGS)
    options = _Options(d.flag("ftz"), d.flag("sat"), d.flag("satfinite"), d.flag("relu"))
    to, from_ = d.types(2, 2)
    if to.name in _QUADS:
        return _stochastic_quad(d, to, options)
    if to.name == "ue8m0x2" or from_.name == "ue8m0x2":
        return _scales(d, to, from_, mode, options)
    if to.name in _PACKED:
        return _stochastic_pair(d, to, options) if stochastic else _packed(d, to, from_, mode or "rn", options)
    if stochastic:
        d.fail("stochastic rounding of this form is not simulated")
    if from_.name == "tf32" or (to.name == "tf32" and from_.name != "f32"):
        d.fail("this conversion is not known")
    return _scalar(d, to, from_, integer_rounding, mode or "rn", options)


def _is_float(type_: Type) -> bool:
    return type_.meaning == "f" or type_.name in ("bf16", "tf32")


def _scalar(d: Decoder, to: Type, from_: Type, integer_rounding: str | None, mode: Rounding, options: _Options) -> Execute:
    write, read = d.destination(0, to), d.source(1, from_)
    quick = _NEAREST.get((from_.name, to.name))
    if quick is not None and mode == "rn" and integer_rounding is None and options == _PLAIN:
        return lambda warp: write(warp, quick(read(warp)).view(to.dtype))
    if not _is_float(from_):
        return _from_integer(write, read, to, mode, options)
    value = _float_reader(read, from_, options.ftz)
    if not _is_float(to):
        return _to_integer(write, value, to, _ROUND_TO_INTEGER[integer_rounding or "rzi"], from_)
    if (nan := _nan(from_, to, mode, options, rounds=integer_rounding is not None)) is not None:
        write = _writing_nan(write, read, from_, to, nan)
    if integer_rounding:
        whole = _ROUND_TO_INTEGER[integer_rounding]
        return lambda warp: write(warp, finish(whole(value(warp)), to.name, "rn", options.ftz, options.sat))
    return _float_to_float(write, value, to, mode, options)


def _float_reader(read: Reader, type_: Type, ftz: bool) -> Reader:
    if type_.name == "bf16":
        return lambda warp: decode(read(warp), "bf16").astype(np.float64)
    if ftz and type_.name == "f32":
        return lambda warp: flush(read(warp)).astype(np.float64)
    return lambda warp: read(warp).astype(np.float64)


def _nan(
    from_: Type, to: Type, mode: Rounding, options: _Options, *, rounds: bool
) -> Callable[[LaneValues], LaneValues | np.generic] | None:
    """What becomes of the bits of a NaN, as unsigned integers; None where the value that is written has them already. PTX leaves it open;
    measured on an H200."""
    if options.sat or options.satfinite:
        return None  # +0, or the canonical NaN
    if to.name == "tf32":
        # The bits that tf32 lacks are cut off, which may leave an infinity.
        return (lambda bits: bits & np.uint32(0xFFFFE000)) if mode == "rna" and not options.relu else None
    if from_ is to and not rounds and not options.ftz and to.name in ("f32", "f64"):
        return lambda bits: bits
    if "f64" in (from_.name, to.name):
        if options.ftz and from_.name == "f32":
            return lambda _: np.uint64(0x7FFFFFFFE0000000)  # through the canonical NaN of f32
        return lambda bits: _quietened(bits, from_.name, to.name)
    canonical = unsigned(to.bits).dtype.type(F32_NAN if to.name == "f32" else F16_NAN)
    return lambda _: canonical


# The bits of the fraction.
_FRACTION = {"f16": 10, "bf16": 7, "f32": 23, "f64": 52}


def _quietened(bits: LaneValues, from_: str, to: str) -> LaneValues:
    """A NaN with the same sign and the leading bits of the fraction, of which the first is set."""
    fraction, kept = _FRACTION[from_], _FRACTION[to]
    width, wide = TYPES[to].bits, bits.astype(np.uint64)
    lead = (wide << np.uint64(64 - fraction)) >> np.uint64(64 - kept)
    sign = wide >> np.uint64(TYPES[from_].bits - 1) << np.uint64(width - 1)
    exponent = np.uint64((1 << width - 1) - (1 << kept) | 1 << kept - 1)
    return (sign | exponent | lead).astype(unsigned(width).dtype)


def _writing_nan(
    write: Writer, read: Reader, from_: Type, to: Type, nan: Callable[[LaneValues], LaneValues | np.generic]
) -> Writer:
    """`write`, but for the lanes whose source is a NaN."""
    source, result = unsigned(from_.bits).dtype, unsigned(to.bits).dtype
    infinity = source.type((1 << from_.bits - 1) - (1 << _FRACTION[from_.name]))
    magnitude = source.type((1 << from_.bits - 1) - 1)

    # Without a branch on whether there is one, so that the form can be compiled.
    def patched(warp: Warp, value: LaneValues) -> None:
        bits = read(warp).view(source)
        write(warp, np.where(bits & magnitude > infinity, nan(bits), value.view(result)).view(to.dtype))

    return patched


def _float_to_float(write: Writer, value: Reader, to: Type, mode: Rounding, options: _Options) -> Execute:
    def execute(warp: Warp) -> None:
        result = value(warp)
        if options.relu:
            result = np.where(result > 0, result, np.where(np.isnan(result), result, 0.0))
        # tf32 occupies the 32 bits of an f32, and rounding to f32 would keep the 13 bits that tf32 drops.
        if to.name == "tf32" or options.satfinite:
            raw = TYPES[f"b{to.bits}"].dtype
            return write(warp, encode(result, to.name, mode, options.satfinite).astype(raw).view(to.dtype))
        return write(warp, finish(result, to.name, mode, options.ftz, options.sat))

    return execute


def _from_integer(write: Writer, read: Reader, to: Type, mode: Rounding, options: _Options) -> Execute:
    if not _is_float(to):
        if options.sat:
            limits = np.iinfo(to.dtype)
            return lambda warp: write(warp, _clip(read(warp), limits).astype(to.dtype))
        return lambda warp: write(warp, read(warp).astype(to.dtype))
    if to.name in ("f32", "f64") and mode == "rn" and not options.sat:
        return lambda warp: write(warp, read(warp).astype(to.dtype))
    if to.name == "f64":
        return lambda warp: write(warp, np.array([round_fraction(Fraction(item), mode, float) for item in read(warp).tolist()]))

    def execute(warp: Warp) -> None:
        value = read(warp)
        # float64 has 53 bits: a 64-bit integer would be rounded twice.
        exact = _odd_from_integer(value) if value.dtype.itemsize == 8 else value.astype(np.float64)
        write(warp, finish(exact, to.name, mode, options.ftz, options.sat))

    return execute


def _clip(value: LaneValues, limits: np.iinfo[Any]) -> LaneValues:
    """Saturation across signedness without overflow."""
    return np.array([min(max(int(item), int(limits.min)), int(limits.max)) for item in value], object)


def _odd_from_integer(value: LaneValues) -> LaneValues:
    """64-bit integers as float64, with inexactness recorded in the last bit."""
    out = []
    for item in value.tolist():
        magnitude = abs(item)
        extra = max(0, magnitude.bit_length() - 53)
        kept = magnitude >> extra | (1 if magnitude & ((1 << extra) - 1) else 0)
        out.append(float((-1 if item < 0 else 1) * (kept << extra)))
    return np.array(out)


def _to_integer(write: Writer, value: Reader, to: Type, whole: np.ufunc, from_: Type) -> Execute:
    """Out-of-range values clamp; NaN gives 0, or the top bit where a 64-bit type is involved (measured)."""
    limits = np.iinfo(to.dtype)
    low, high = float(limits.min), float(limits.max)
    top = 1 << to.bits - 1 if 64 in (to.bits, from_.bits) else 0
    nan = -top if to.meaning == "s" else top

    def execute(warp: Warp) -> None:
        v = value(warp)
        rounded = whole(v)
        # NumPy leaves out-of-range conversions undefined.
        safe = np.where(np.isnan(rounded) | (rounded >= high) | (rounded <= low), 0.0, rounded).astype(to.dtype)
        out = np.where(rounded >= high, to.dtype.type(limits.max), np.where(rounded <= low, to.dtype.type(limits.min), safe))
        write(warp, np.where(np.isnan(v), to.dtype.type(nan), out))

    return execute


def _packed(d: Decoder, to: Type, from_: Type, mode: Rounding, options: _Options) -> Execute:
    """x2 forms: two f32 (first operand upper), or one packed register of another format."""
    name, saturate, relu = _PACKED[to.name], options.satfinite, options.relu
    write = d.destination(0, to)
    if from_.name in _PACKED:
        source, unpack = d.source(1, from_), _PACKED[from_.name]

        def repack(warp: Warp) -> None:
            low, high = (_relu(value, relu) for value in _unpack(source(warp), unpack, from_))
            write(warp, _pack(low, high, name, to, mode, saturate))

        return repack
    high, low = d.sources(1, 2, type_=TYPES["f32"])
    if name == "bf16" and mode == "rn" and not saturate and not relu:
        return lambda warp: write(warp, to_bf16(high(warp)).astype(np.uint32) << np.uint32(16) | to_bf16(low(warp)))
    if name == "f16" and mode == "rn" and not saturate and not relu:
        return lambda warp: write(warp, _half(high(warp)).astype(np.uint32) << np.uint32(16) | _half(low(warp)))
    return lambda warp: write(warp, _pack(_relu(low(warp), relu), _relu(high(warp), relu), name, to, mode, saturate))


def _half(value: LaneValues) -> LaneValues:
    return np.where(np.isnan(value), np.uint16(0x7FFF), value.astype(np.float16).view(np.uint16))


_PLAIN = _Options(False, False, False, False)
# Round-to-nearest conversions that NumPy can do, as bits. (bf16 is the upper half of f32, its NaNs too.)
_NEAREST: dict[tuple[str, str], Callable[[LaneValues], LaneValues]] = {
    ("f32", "bf16"): to_bf16,
    ("f32", "f16"): _half,
    ("bf16", "f32"): lambda bits: bits.astype(np.uint32) << np.uint32(16),
}


def _relu(value: LaneValues, relu: bool) -> LaneValues:
    return np.where(value > 0, value, np.where(np.isnan(value), value, value.dtype.type(0))) if relu else value


def _width(name: str) -> int:
    """Bits of one element inside a packed register; 6-bit types occupy bytes."""
    return 8 if FORMATS[name].width == 6 else FORMATS[name].width


def _unpack(value: LaneValues, name: str, type_: Type) -> tuple[LaneValues, LaneValues]:
    width = _width(name)
    wide = value.astype(np.int64)
    return decode(wide & (1 << width) - 1, name), decode(wide >> width & (1 << width) - 1, name)


def _pack(low: LaneValues, high: LaneValues, name: str, to: Type, mode: Rounding, saturate: bool) -> LaneValues:
    width = _width(name)
    upper, lower = (encode(value, name, mode, saturate).astype(np.int64) for value in (high, low))
    return (upper << width | lower).astype(to.dtype)


def _stochastic(value: LaneValues, random: LaneValues, random_bits: int, name: str, saturate: bool) -> LaneValues:
    """Adds `random_bits` random bits below the last kept mantissa bit and truncates."""
    fmt = FORMATS[name]
    value = value.astype(np.float64)
    magnitude = np.where(np.isfinite(value), np.abs(value), 0.0)
    _, exponent = np.frexp(magnitude)
    unit = np.ldexp(1.0, np.maximum(exponent - 1, 1 - fmt.bias) - fmt.fraction_bits)
    moved = magnitude + random.astype(np.float64) * unit / (1 << random_bits)
    return encode(np.where(np.isfinite(value), np.copysign(moved, value), value), name, "rz", saturate).astype(np.int64)


def _stochastic_pair(d: Decoder, to: Type, options: _Options) -> Execute:
    name, saturate, relu, write = _PACKED[to.name], options.satfinite, options.relu, d.destination(0, to)
    high, low = d.sources(1, 2, type_=TYPES["f32"])
    random, bits = d.source(3, TYPES["b32"]), 13 if name == "f16" else 16

    def execute(warp: Warp) -> None:
        r = random(warp).astype(np.int64)
        upper = _stochastic(_relu(high(warp), relu), r >> 16 & (1 << bits) - 1, bits, name, saturate)
        lower = _stochastic(_relu(low(warp), relu), r & (1 << bits) - 1, bits, name, saturate)
        write(warp, (upper << 16 | lower).astype(np.uint32))

    return execute


def _stochastic_quad(d: Decoder, to: Type, options: _Options) -> Execute:
    name, write = _QUADS[to.name], d.destination(0, to)
    readers = [d.source(item, TYPES["f32"]) for item in d.vector(1)]
    random, width = d.source(2, TYPES["b32"]), _width(_QUADS[to.name])

    def execute(warp: Warp) -> None:
        r = random(warp).astype(np.int64)
        out = np.zeros(LANES, np.int64)
        for place, read in enumerate(readers):
            # The elements of each half of the result share 16 random bits.
            chosen = r >> 16 if place < 2 else r
            value = _relu(read(warp), options.relu)
            out = out << width | _stochastic(value, chosen & 0xFFFF, 16, name, True)
        write(warp, out.astype(to.dtype))

    return execute


def _scales(d: Decoder, to: Type, from_: Type, mode: str | None, options: _Options) -> Execute:
    """ue8m0x2: powers of two, 0xFF is NaN."""
    write = d.destination(0, to)
    if from_.name == "ue8m0x2":
        read = d.source(1, from_)

        def widen(warp: Warp) -> None:
            codes = read(warp).astype(np.int64)
            low, high = (np.where(c == 255, np.nan, np.ldexp(1.0, c - 127)) for c in (codes & 255, codes >> 8 & 255))
            write(warp, _pack(low, high, "bf16", to, "rn", False))

        return widen
    if from_.name == "bf16x2":
        source = d.source(1, from_)

        def narrow(warp: Warp) -> None:
            codes = [_scale_code(half.astype(np.float64), mode == "rp") for half in _unpack(source(warp), "bf16", from_)]
            write(warp, (codes[1] << 8 | codes[0]).astype(to.dtype))

        return narrow
    high, low = d.sources(1, 2, type_=TYPES["f32"])

    def execute(warp: Warp) -> None:
        upper, lower = (_scale_code(read(warp).astype(np.float64), mode == "rp") for read in (high, low))
        write(warp, (upper << 8 | lower).astype(to.dtype))

    return execute


def _scale_code(value: LaneValues, up: bool) -> LaneValues:
    magnitude = np.abs(np.where(np.isfinite(value), value, 1.0))
    fraction, exponent = np.frexp(magnitude)
    # frexp's fraction is at least 0.5; exactly 0.5 is a power of two, which no rounding changes.
    power = np.where(up & (fraction > 0.5), exponent, exponent - 1)
    codes = np.clip(np.where(magnitude == 0, -127, power) + 127, 0, 254)
    return np.where(np.isnan(value), 255, np.where(np.isinf(value), 254, codes))
