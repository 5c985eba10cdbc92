"""LLVM IR of one instruction, line by line."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from . import LANES

Scalar = int | float | bool | np.generic


class NotTraced(Exception):
    """The meaning uses something that the tracer does not support."""


class Code:
    """The lines of one function. `events` lists the register slots that it reads and writes, in order; each access has its own row
    pointer, so that the function works for whichever registers an instruction names."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.events: list[int] = []
        self.intrinsics: set[str] = set()
        self.count = 0
        self.mask: str | None = None
        self.refuses = False

    def emit(self, text: str) -> str:
        self.count += 1
        self.lines.append(f"  %v{self.count} = {text}")
        return f"%v{self.count}"

    def call(self, name: str, type_: str, *arguments: str) -> str:
        declared = ", ".join(type_ for _ in arguments)
        self.intrinsics.add(f"declare {type_} @{name}({declared})")
        return self.emit(f"call {type_} @{name}({', '.join(f'{type_} {one}' for one in arguments)})")

    def place(self, slot: int) -> str:
        """A pointer to the row of the next access, an access to `slot`."""
        number = len(self.events)
        self.events.append(slot)
        at = self.emit(f"getelementptr i32, ptr %operands, i64 {number}")
        wide = self.emit(f"zext i32 {self.emit(f'load i32, ptr {at}, align 4')} to i64")
        return self.emit(f"getelementptr i8, ptr %file, i64 {wide}")

    def active(self) -> str:
        if self.mask is None:
            bytes_ = self.emit(f"load <{LANES} x i8>, ptr %mask, align 1")
            self.mask = self.emit(f"icmp ne <{LANES} x i8> {bytes_}, zeroinitializer")
        return self.mask

    def constant(self, offset: int, bits: int) -> str:
        """The field of the instruction's row at that offset behind its operands, as i64."""
        at = self.emit(f"getelementptr i8, ptr %operands, i64 {offset}")
        found = self.emit(f"load i{bits}, ptr {at}, align {bits // 8}")
        return found if bits == 64 else self.emit(f"sext i{bits} {found} to i64")

    def word(self, offset: int) -> str:
        """A pointer to a word of the warp's state."""
        return self.emit(f"getelementptr i8, ptr %state, i64 {offset}")

    def splat(self, value: str, element: str) -> str:
        first = self.emit(f"insertelement <{LANES} x {element}> poison, {element} {value}, i32 0")
        zero = f"<{LANES} x i32> zeroinitializer"
        return self.emit(f"shufflevector <{LANES} x {element}> {first}, <{LANES} x {element}> poison, {zero}")

    def go_on_if(self, condition: str) -> None:
        """Otherwise the meaning runs in NumPy. Nothing may have been changed before this point."""
        self.refuses = True
        self.count += 1
        self.lines += [f"  br i1 {condition}, label %go{self.count}, label %refused", f"go{self.count}:"]

    def text(self, name: str) -> str:
        refused = ["refused:", "  ret i32 1"] if self.refuses else []
        head = f"define i32 @{name}(ptr %file, ptr %mask, ptr %operands, ptr %state) {{"
        body = "\n".join([head, *self.lines, "  ret i32 0", *refused, "}"])
        return "\n".join([*sorted(self.intrinsics), body, ""])


def element_type(dtype: np.dtype[Any]) -> str:
    if dtype == np.bool_:
        return "i1"
    if dtype.kind in "iu":
        return f"i{8 * dtype.itemsize}"
    found = {"f2": "half", "f4": "float", "f8": "double"}.get(dtype.str[1:])
    if found is None:
        raise NotTraced(f"lanes of {dtype}")
    return found


def vector_type(dtype: np.dtype[Any], count: int) -> str:
    return f"<{count} x {element_type(dtype)}>"


def literal(values: Sequence[Scalar], dtype: np.dtype[Any]) -> str:
    """A constant vector; floating-point numbers are given by their bits."""
    element = element_type(dtype)
    if dtype.kind == "f":
        whole = np.dtype(f"u{dtype.itemsize}")
        bits = [int(one) for one in np.array(values, dtype).view(whole)]
        inner = ", ".join(f"{element_type(whole)} {one}" for one in bits)
        return f"bitcast ({vector_type(whole, len(bits))} <{inner}> to {vector_type(dtype, len(bits))})"
    return f"<{', '.join(f'{element} {int(one)}' for one in np.array(values, dtype))}>"
