"""Sums of truncated products, as the tensor cores add them up, for a whole MMA (`units.numbers.numerics` has the model)."""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Callable

import numpy as np

from .library import address_of, available

# Elements of D that are worked on together; their number in a row is a multiple of it.
WIDTH = 8
_SHORT, _WIDE, _DOUBLE, _SINGLE = f"<{WIDTH} x i16>", f"<{WIDTH} x i64>", f"<{WIDTH} x double>", f"<{WIDTH} x float>"
_MASK, _WORD = f"<{WIDTH} x i1>", f"<{WIDTH} x i32>"


def _splat(type_: str, value: str) -> str:
    return f"<{', '.join([f'{type_} {value}'] * WIDTH)}>"


def _all(name: str, value: str, element: str) -> str:
    """Lines that put a scalar into every element of the vector %`name`."""
    vector = f"<{WIDTH} x {element}>"
    return f"""  %{name}.0 = insertelement {vector} poison, {element} {value}, i32 0
  %{name} = shufflevector {vector} %{name}.0, {vector} poison, {_WORD} zeroinitializer"""


# product(a, b, a exponents, b exponents, c, d, M, N, K, fraction bits, mask of the result): a [M, K] and b [K, N] float64, the
# exponents int16, c [M, N] float64 or null, d [M, N] patterns of f32.
_TEXT = f"""
declare {_DOUBLE} @llvm.trunc.v{WIDTH}f64({_DOUBLE})
declare {_DOUBLE} @llvm.fabs.v{WIDTH}f64({_DOUBLE})
declare {_SHORT} @llvm.smax.v{WIDTH}i16({_SHORT}, {_SHORT})
declare {_WIDE} @llvm.smax.v{WIDTH}i64({_WIDE}, {_WIDE})
declare {_WIDE} @llvm.smin.v{WIDTH}i64({_WIDE}, {_WIDE})

define i32 @NAME(ptr %a, ptr %b, ptr %ea, ptr %eb, ptr %c, ptr %d, i64 %M, i64 %N, i64 %K, i64 %F, i32 %kept) {{
entry:
  %without = icmp eq ptr %c, null
{_all("fraction", "%F", "i64")}
{_all("mask", "%kept", "i32")}
  br label %row
row:
  %m = phi i64 [ 0, %entry ], [ %m.next, %row.end ]
  %a.first = mul i64 %m, %K
  %d.first = mul i64 %m, %N
  br label %column
column:
  %n = phi i64 [ 0, %row ], [ %n.next, %store ]
  br label %largest
largest:
  %k = phi i64 [ 0, %column ], [ %k.next, %largest ]
  %best = phi {_SHORT} [ {_splat("i16", "-32768")}, %column ], [ %best.next, %largest ]
  %ea.index = add i64 %a.first, %k
  %ea.at = getelementptr i16, ptr %ea, i64 %ea.index
  %ea.one = load i16, ptr %ea.at, align 2
{_all("ea.all", "%ea.one", "i16")}
  %eb.row = mul i64 %k, %N
  %eb.index = add i64 %eb.row, %n
  %eb.at = getelementptr i16, ptr %eb, i64 %eb.index
  %eb.some = load {_SHORT}, ptr %eb.at, align 2
  %e.sum = add {_SHORT} %ea.all, %eb.some
  %best.next = call {_SHORT} @llvm.smax.v{WIDTH}i16({_SHORT} %best, {_SHORT} %e.sum)
  %k.next = add i64 %k, 1
  %k.more = icmp slt i64 %k.next, %K
  br i1 %k.more, label %largest, label %addend
addend:
  %products = sext {_SHORT} %best.next to {_WIDE}
  %d.index = add i64 %d.first, %n
  br i1 %without, label %scale, label %with
with:
  %c.at = getelementptr double, ptr %c, i64 %d.index
  %c.some = load {_DOUBLE}, ptr %c.at, align 8
  %c.bits = bitcast {_DOUBLE} %c.some to {_WIDE}
  %c.high = lshr {_WIDE} %c.bits, {_splat("i64", "52")}
  %c.field = and {_WIDE} %c.high, {_splat("i64", "2047")}
  %c.raw = sub {_WIDE} %c.field, {_splat("i64", "1023")}
  %c.normal = call {_WIDE} @llvm.smax.v{WIDTH}i64({_WIDE} %c.raw, {_WIDE} {_splat("i64", "-126")})
  %c.zero = fcmp oeq {_DOUBLE} %c.some, zeroinitializer
  %c.exponent = select {_MASK} %c.zero, {_WIDE} {_splat("i64", "-8000")}, {_WIDE} %c.normal
  %c.most = call {_WIDE} @llvm.smax.v{WIDTH}i64({_WIDE} %products, {_WIDE} %c.exponent)
  br label %scale
scale:
  %most = phi {_WIDE} [ %products, %addend ], [ %c.most, %with ]
  %old = phi {_DOUBLE} [ zeroinitializer, %addend ], [ %c.some, %with ]
  %nothing = icmp slt {_WIDE} %most, {_splat("i64", "-1000")}
  %unit = sub {_WIDE} %most, %fraction
  %shift = select {_MASK} %nothing, {_WIDE} zeroinitializer, {_WIDE} %unit
  %up.low = sub {_WIDE} zeroinitializer, %shift
  %up.cut = call {_WIDE} @llvm.smax.v{WIDTH}i64({_WIDE} %up.low, {_WIDE} {_splat("i64", "-1000")})
  %up = call {_WIDE} @llvm.smin.v{WIDTH}i64({_WIDE} %up.cut, {_WIDE} {_splat("i64", "1000")})
  %up.biased = add {_WIDE} %up, {_splat("i64", "1023")}
  %up.bits = shl {_WIDE} %up.biased, {_splat("i64", "52")}
  %units = bitcast {_WIDE} %up.bits to {_DOUBLE}
  %down.biased = sub {_WIDE} {_splat("i64", "1023")}, %up
  %down.bits = shl {_WIDE} %down.biased, {_splat("i64", "52")}
  %value = bitcast {_WIDE} %down.bits to {_DOUBLE}
  %old.units = fmul {_DOUBLE} %old, %units
  %old.cut = call {_DOUBLE} @llvm.trunc.v{WIDTH}f64({_DOUBLE} %old.units)
  br label %sum
sum:
  %j = phi i64 [ 0, %scale ], [ %j.next, %sum ]
  %total = phi {_DOUBLE} [ %old.cut, %scale ], [ %total.next, %sum ]
  %a.index = add i64 %a.first, %j
  %a.at = getelementptr double, ptr %a, i64 %a.index
  %a.one = load double, ptr %a.at, align 8
{_all("a.all", "%a.one", "double")}
  %b.row = mul i64 %j, %N
  %b.index = add i64 %b.row, %n
  %b.at = getelementptr double, ptr %b, i64 %b.index
  %b.some = load {_DOUBLE}, ptr %b.at, align 8
  %scaled = fmul {_DOUBLE} %a.all, %units
  %term = fmul {_DOUBLE} %scaled, %b.some
  %cut = call {_DOUBLE} @llvm.trunc.v{WIDTH}f64({_DOUBLE} %term)
  %total.next = fadd {_DOUBLE} %total, %cut
  %j.next = add i64 %j, 1
  %j.more = icmp slt i64 %j.next, %K
  br i1 %j.more, label %sum, label %store
store:
  %exact.signed = fmul {_DOUBLE} %total.next, %value
  %exact = fadd {_DOUBLE} %exact.signed, zeroinitializer
  %rounded = fptrunc {_DOUBLE} %exact to {_SINGLE}
  %bits = bitcast {_SINGLE} %rounded to {_WORD}
  %back = fpext {_SINGLE} %rounded to {_DOUBLE}
  %size.rounded = call {_DOUBLE} @llvm.fabs.v{WIDTH}f64({_DOUBLE} %back)
  %size.exact = call {_DOUBLE} @llvm.fabs.v{WIDTH}f64({_DOUBLE} %exact)
  %above = fcmp ogt {_DOUBLE} %size.rounded, %size.exact
  %fits = fcmp olt {_DOUBLE} %size.exact, {_splat("double", "0x47F0000000000000")}
  %too.large = and {_MASK} %above, %fits
  %less = zext {_MASK} %too.large to {_WORD}
  %cut.bits = sub {_WORD} %bits, %less
  %kept.bits = and {_WORD} %cut.bits, %mask
  %is.zero = icmp eq {_WORD} %kept.bits, {_splat("i32", "-2147483648")}
  %result = select {_MASK} %is.zero, {_WORD} zeroinitializer, {_WORD} %kept.bits
  %d.at = getelementptr i32, ptr %d, i64 %d.index
  store {_WORD} %result, ptr %d.at, align 4
  %n.next = add i64 %n, {WIDTH}
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
def _product() -> Product:
    prototype = ctypes.PYFUNCTYPE(ctypes.c_int32, *[ctypes.c_void_p] * 6, *[ctypes.c_int64] * 4, ctypes.c_uint32)
    return prototype(address_of(lambda name: _TEXT.replace("NAME", name)))


def multiplies(columns: int) -> bool:
    """Whether `truncated_product` works for so many columns of D."""
    return columns % WIDTH == 0 and available()


def truncated_product(
    a: np.ndarray,
    b: np.ndarray,
    a_exponents: np.ndarray,
    b_exponents: np.ndarray,
    c: np.ndarray | None,
    fraction_bits: int,
    mask: int,
) -> np.ndarray:
    """uint32 patterns of f32 [M, N]: a [M, K] and b [N, K] float64, their exponents int16, c [M, N] or None; N is a multiple of WIDTH.
    Results are cut to f32, of which the bits of `mask` stay."""
    (rows, depth), columns = a.shape, len(b)
    left = np.ascontiguousarray(a, np.float64), np.ascontiguousarray(a_exponents, np.int16)
    right = np.ascontiguousarray(b.T, np.float64), np.ascontiguousarray(b_exponents.T, np.int16)
    old = None if c is None else np.ascontiguousarray(c, np.float64)
    out = np.empty((rows, columns), np.uint32)
    pointers = [one.ctypes.data for one in (left[0], right[0], left[1], right[1])]
    _product()(*pointers, None if old is None else old.ctypes.data, out.ctypes.data, rows, columns, depth, fraction_bits, mask)
    return out
