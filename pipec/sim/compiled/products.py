"""Sums of truncated products, as the tensor cores accumulate them, for a whole MMA (the model is in `units.numbers.numerics`)."""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Callable

import numpy as np

from .library import address_of, available

# Elements of D that are processed together; N is a multiple of it.
WIDTH = 8
# The same where terms are f32 and sums are 32-bit integers, and the largest K for which these suffice.
NARROW_WIDTH, NARROW_DEPTH = 16, 16
_NARROW_DIGITS = 24
_LIFT = 1 << 10


class _Vectors:
    """Types of vectors of `width` elements, and constants of these types."""

    def __init__(self, width: int) -> None:
        self.width = width
        self.short, self.wide, self.mask, self.word = (f"<{width} x {one}>" for one in ("i16", "i64", "i1", "i32"))
        self.double, self.single = f"<{width} x double>", f"<{width} x float>"

    def splat(self, type_: str, value: str) -> str:
        return f"<{', '.join([f'{type_} {value}'] * self.width)}>"

    def all(self, name: str, value: str, element: str) -> str:
        """IR lines that broadcast a scalar to every element of the vector %`name`."""
        vector = f"<{self.width} x {element}>"
        return f"""  %{name}.0 = insertelement {vector} poison, {element} {value}, i32 0
  %{name} = shufflevector {vector} %{name}.0, {vector} poison, {self.word} zeroinitializer"""


# product(a, b, a exponents, b exponents, c, d, M, N, K, fraction bits, mask of the result): a [M, K] and b [K, N] float64 (float32 in the
# narrow version), the exponents int16, c [M, N] float64 or null, d [M, N] bit patterns of f32.
def _exact_sums(v: _Vectors) -> str:
    """Terms in float64, each truncated separately."""
    return f"""sum:
  %j = phi i64 [ 0, %scale ], [ %j.next, %sum ]
  %total = phi {v.double} [ %old.cut, %scale ], [ %total.next, %sum ]
  %a.index = add i64 %a.first, %j
  %a.at = getelementptr double, ptr %a, i64 %a.index
  %a.one = load double, ptr %a.at, align 8
{v.all("a.all", "%a.one", "double")}
  %b.row = mul i64 %j, %N
  %b.index = add i64 %b.row, %n
  %b.at = getelementptr double, ptr %b, i64 %b.index
  %b.some = load {v.double}, ptr %b.at, align 8
  %scaled = fmul {v.double} %a.all, %units
  %term = fmul {v.double} %scaled, %b.some
  %cut = call {v.double} @llvm.trunc.v{v.width}f64({v.double} %term)
  %total.next = fadd {v.double} %total, %cut
  %j.next = add i64 %j, 1
  %j.more = icmp slt i64 %j.next, %K
  br i1 %j.more, label %sum, label %store
store:
"""


def _narrow_sums(v: _Vectors) -> str:
    """Terms in f32, which represents them exactly, truncated by conversion to integers (`narrow` says when this is equivalent)."""
    return f"""sum.start:
  %empty = icmp slt {v.wide} %products, {v.splat("i64", "-1000")}
  %units.single = fptrunc {v.double} %units to {v.single}
  %units.narrow = select {v.mask} %empty, {v.single} zeroinitializer, {v.single} %units.single
  br label %sum
sum:
  %j = phi i64 [ 0, %sum.start ], [ %j.next, %sum ]
  %total = phi {v.word} [ zeroinitializer, %sum.start ], [ %total.next, %sum ]
  %a.index = add i64 %a.first, %j
  %a.at = getelementptr float, ptr %a, i64 %a.index
  %a.one = load float, ptr %a.at, align 4
{v.all("a.all", "%a.one", "float")}
  %b.row = mul i64 %j, %N
  %b.index = add i64 %b.row, %n
  %b.at = getelementptr float, ptr %b, i64 %b.index
  %b.some = load {v.single}, ptr %b.at, align 4
  %scaled = fmul {v.single} %a.all, %units.narrow
  %term = fmul {v.single} %scaled, %b.some
  %cut = fptosi {v.single} %term to {v.word}
  %total.next = add {v.word} %total, %cut
  %j.next = add i64 %j, 1
  %j.more = icmp slt i64 %j.next, %K
  br i1 %j.more, label %sum, label %store
store:
  %total.double = sitofp {v.word} %total.next to {v.double}
  %total.whole = fadd {v.double} %total.double, %old.cut
"""


def _largest(v: _Vectors) -> str:
    """The largest sum of exponents of any product, of WIDTH elements of a row of D."""
    return f"""largest:
  %k = phi i64 [ 0, %column ], [ %k.next, %largest ]
  %best = phi {v.short} [ {v.splat("i16", "-32768")}, %column ], [ %best.next, %largest ]
  %ea.index = add i64 %a.first, %k
  %ea.at = getelementptr i16, ptr %ea, i64 %ea.index
  %ea.one = load i16, ptr %ea.at, align 2
{v.all("ea.all", "%ea.one", "i16")}
  %eb.row = mul i64 %k, %N
  %eb.index = add i64 %eb.row, %n
  %eb.at = getelementptr i16, ptr %eb, i64 %eb.index
  %eb.some = load {v.short}, ptr %eb.at, align 2
  %e.sum = add {v.short} %ea.all, %eb.some
  %best.next = call {v.short} @llvm.smax.v{v.width}i16({v.short} %best, {v.short} %e.sum)
  %k.next = add i64 %k, 1
  %k.more = icmp slt i64 %k.next, %K
  br i1 %k.more, label %largest, label %addend
"""


def _scaled(v: _Vectors, start: str) -> str:
    """What one unit of the sum is worth, and the old value of D in such units, cut; then on to the block `start`."""
    return f"""addend:
  %products = sext {v.short} %best.next to {v.wide}
  %d.index = add i64 %d.first, %n
  br i1 %without, label %scale, label %with
with:
  %c.at = getelementptr double, ptr %c, i64 %d.index
  %c.some = load {v.double}, ptr %c.at, align 8
  %c.bits = bitcast {v.double} %c.some to {v.wide}
  %c.high = lshr {v.wide} %c.bits, {v.splat("i64", "52")}
  %c.field = and {v.wide} %c.high, {v.splat("i64", "2047")}
  %c.raw = sub {v.wide} %c.field, {v.splat("i64", "1023")}
  %c.normal = call {v.wide} @llvm.smax.v{v.width}i64({v.wide} %c.raw, {v.wide} {v.splat("i64", "-126")})
  %c.zero = fcmp oeq {v.double} %c.some, zeroinitializer
  %c.exponent = select {v.mask} %c.zero, {v.wide} {v.splat("i64", "-8000")}, {v.wide} %c.normal
  %c.most = call {v.wide} @llvm.smax.v{v.width}i64({v.wide} %products, {v.wide} %c.exponent)
  br label %scale
scale:
  %most = phi {v.wide} [ %products, %addend ], [ %c.most, %with ]
  %old = phi {v.double} [ zeroinitializer, %addend ], [ %c.some, %with ]
  %nothing = icmp slt {v.wide} %most, {v.splat("i64", "-1000")}
  %unit = sub {v.wide} %most, %fraction
  %shift = select {v.mask} %nothing, {v.wide} zeroinitializer, {v.wide} %unit
  %up.low = sub {v.wide} zeroinitializer, %shift
  %up.cut = call {v.wide} @llvm.smax.v{v.width}i64({v.wide} %up.low, {v.wide} {v.splat("i64", "-1000")})
  %up = call {v.wide} @llvm.smin.v{v.width}i64({v.wide} %up.cut, {v.wide} {v.splat("i64", "1000")})
  %up.biased = add {v.wide} %up, {v.splat("i64", "1023")}
  %up.bits = shl {v.wide} %up.biased, {v.splat("i64", "52")}
  %units = bitcast {v.wide} %up.bits to {v.double}
  %down.biased = sub {v.wide} {v.splat("i64", "1023")}, %up
  %down.bits = shl {v.wide} %down.biased, {v.splat("i64", "52")}
  %value = bitcast {v.wide} %down.bits to {v.double}
  %old.units = fmul {v.double} %old, %units
  %old.cut = call {v.double} @llvm.trunc.v{v.width}f64({v.double} %old.units)
  br label %{start}
"""


def _rounded(v: _Vectors, total: str) -> str:
    """The sum %`total` as f32, rounded towards zero, without the bits that are not kept."""
    return f"""  %exact.signed = fmul {v.double} %{total}, %value
  %exact = fadd {v.double} %exact.signed, zeroinitializer
  %rounded = fptrunc {v.double} %exact to {v.single}
  %bits = bitcast {v.single} %rounded to {v.word}
  %back = fpext {v.single} %rounded to {v.double}
  %size.rounded = call {v.double} @llvm.fabs.v{v.width}f64({v.double} %back)
  %size.exact = call {v.double} @llvm.fabs.v{v.width}f64({v.double} %exact)
  %above = fcmp ogt {v.double} %size.rounded, %size.exact
  %fits = fcmp olt {v.double} %size.exact, {v.splat("double", "0x47F0000000000000")}
  %too.large = and {v.mask} %above, %fits
  %less = zext {v.mask} %too.large to {v.word}
  %cut.bits = sub {v.word} %bits, %less
  %kept.bits = and {v.word} %cut.bits, %mask
  %is.zero = icmp eq {v.word} %kept.bits, {v.splat("i32", "-2147483648")}
  %result = select {v.mask} %is.zero, {v.word} zeroinitializer, {v.word} %kept.bits
  %d.at = getelementptr i32, ptr %d, i64 %d.index
  store {v.word} %result, ptr %d.at, align 4
"""


def _text(name: str, narrow: bool) -> str:
    v = _Vectors(NARROW_WIDTH if narrow else WIDTH)
    summing, start, total = (_narrow_sums, "sum.start", "total.whole") if narrow else (_exact_sums, "sum", "total.next")
    return f"""
declare {v.double} @llvm.trunc.v{v.width}f64({v.double})
declare {v.double} @llvm.fabs.v{v.width}f64({v.double})
declare {v.short} @llvm.smax.v{v.width}i16({v.short}, {v.short})
declare {v.wide} @llvm.smax.v{v.width}i64({v.wide}, {v.wide})
declare {v.wide} @llvm.smin.v{v.width}i64({v.wide}, {v.wide})

define i32 @{name}(ptr %a, ptr %b, ptr %ea, ptr %eb, ptr %c, ptr %d, i64 %M, i64 %N, i64 %K, i64 %F, i32 %kept) {{
entry:
  %without = icmp eq ptr %c, null
{v.all("fraction", "%F", "i64")}
{v.all("mask", "%kept", "i32")}
  br label %row
row:
  %m = phi i64 [ 0, %entry ], [ %m.next, %row.end ]
  %a.first = mul i64 %m, %K
  %d.first = mul i64 %m, %N
  br label %column
column:
  %n = phi i64 [ 0, %row ], [ %n.next, %store ]
  br label %largest
{_largest(v)}{_scaled(v, start)}{summing(v)}{_rounded(v, total)}  %n.next = add i64 %n, {v.width}
  %n.more = icmp slt i64 %n.next, %N
  br i1 %n.more, label %column, label %row.end
row.end:
  %m.next = add i64 %m, 1
  %m.more = icmp slt i64 %m.next, %M
  br i1 %m.more, label %row, label %done
done:
  ret i32 0
}}
"""


Product = Callable[..., int]


@functools.cache
def _product(narrow: bool) -> Product:
    prototype = ctypes.PYFUNCTYPE(ctypes.c_int32, *[ctypes.c_void_p] * 6, *[ctypes.c_int64] * 4, ctypes.c_uint32)
    return prototype(address_of(lambda name: _text(name, narrow)))


def multiplies(columns: int) -> bool:
    """Whether `truncated_product` supports this number of columns of D."""
    return columns % WIDTH == 0 and available()


def _reach(exponents: np.ndarray) -> tuple[int, int]:
    """The least and the largest exponent, ignoring those of zeros."""
    # Zeros wrap around, above all others.
    lifted = (exponents + np.int16(_LIFT)).view(np.uint16)
    return int(lifted.min()) - _LIFT, int(exponents.max())


def narrow(a_exponents: np.ndarray, b_exponents: np.ndarray, columns: int, fraction_bits: int) -> bool:
    """Whether f32 holds all terms (products of at most 24 bits) and 32 bits hold their sums, so that both kinds of sums agree.

    In units of the last bit kept, a term is below 4 * 2**F, and the sum of 16 of them is below 2**31. No element may overflow f32 when
    scaled to the unit of a sum to which it contributes nothing; values that underflow f32 there are less than one unit.
    """
    if a_exponents.shape[1] > NARROW_DEPTH or columns % NARROW_WIDTH or fraction_bits > 25:
        return False
    (a_low, a_high), (b_low, b_high) = _reach(a_exponents), _reach(b_exponents)
    most = fraction_bits - a_low - b_low + max(a_high, 0)
    return most < 127 and a_high + b_high < 127


def truncated_product(
    a: np.ndarray,
    b: np.ndarray,
    a_exponents: np.ndarray,
    b_exponents: np.ndarray,
    c: np.ndarray | None,
    fraction_bits: int,
    mask: int,
    digits: int = 106,
) -> np.ndarray:
    """uint32 bit patterns of f32 [M, N]: a [M, K] and b [N, K] float64, their exponents int16, c [M, N] or None; N is a multiple of
    WIDTH. Results are truncated to f32, of which the bits of `mask` are kept. `digits`: maximum number of bits of a product."""
    (rows, depth), columns = a.shape, len(b)
    few = digits <= _NARROW_DIGITS and narrow(a_exponents, b_exponents, columns, fraction_bits)
    type_ = np.float32 if few else np.float64
    left = np.ascontiguousarray(a, type_), np.ascontiguousarray(a_exponents, np.int16)
    right = np.ascontiguousarray(b.T, type_), np.ascontiguousarray(b_exponents.T, np.int16)
    old = None if c is None else np.ascontiguousarray(c, np.float64)
    out = np.empty((rows, columns), np.uint32)
    pointers = [one.ctypes.data for one in (left[0], right[0], left[1], right[1])]
    _product(few)(*pointers, None if old is None else old.ctypes.data, out.ctypes.data, rows, columns, depth, fraction_bits, mask)
    return out
