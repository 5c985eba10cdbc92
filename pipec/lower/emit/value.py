"""Operands of LLVM IR: a type, and a name or a literal."""

import math
import struct

from pipec.record import record


@record
class Value:
    """An operand: its LLVM type and its name or literal."""

    type: str
    name: str

    def __str__(self) -> str:
        return f"{self.type} {self.name}"


SHARED = "ptr addrspace(3)"
TENSOR = "ptr addrspace(6)"
GLOBAL = "ptr addrspace(1)"
CLUSTER = "ptr addrspace(7)"
TRUE, FALSE = Value("i1", "true"), Value("i1", "false")


def integer(value: int, type_: str = "i32") -> Value:
    return Value(type_, str(int(value)))


def floating(value: float, type_: str = "float") -> Value:
    """A literal of a floating type, rounded to nearest even (to float first for the 16-bit types, which is exact enough here)."""
    if type_ == "half":
        return Value(type_, f"0xH{_float_bits(value, 'e'):04X}")
    if type_ == "bfloat":
        return Value(type_, f"0xR{_bfloat_bits(value):04X}")
    if type_ == "float":
        value = struct.unpack("<f", struct.pack("<I", _float_bits(value, "f")))[0]
    return Value(type_, f"0x{struct.unpack('<Q', struct.pack('<d', value))[0]:016X}")


def negated(literal: Value) -> Value:
    """Negates a floating-point literal by its sign bit."""
    prefix = literal.name.rstrip("0123456789ABCDEF")
    digits = literal.name.removeprefix(prefix)
    return Value(literal.type, f"{prefix}{int(digits, 16) ^ 8 << 4 * (len(digits) - 1):0{len(digits)}X}")


def _float_bits(value: float, code: str) -> int:
    pattern, infinity = ("<H", 0x7C00) if code == "e" else ("<I", 0x7F800000)
    try:
        (bits,) = struct.unpack(pattern, struct.pack(f"<{code}", value))
        return int(bits)
    except OverflowError:
        sign = 0x8000 if code == "e" else 0x80000000
        return infinity | (sign if value < 0 else 0)


def _bfloat_bits(value: float) -> int:
    bits = _float_bits(value, "f")
    if math.isnan(value):
        return 0x7FC0
    return (bits + 0x7FFF + ((bits >> 16) & 1)) >> 16
