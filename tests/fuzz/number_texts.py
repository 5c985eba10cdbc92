"""Random integer arithmetic as a PTX text: parameters of all types, registers of three widths, literals in all formats, predicates."""

import random
from collections.abc import Callable
from dataclasses import dataclass, field

WIDTHS = (16, 32, 64)
EDGES = (0, 1, 2, 3, 5, 7, 8, 15, 16, 31, 32, 33, 63, 64, 100, 127, 128, 255, 256, 32767, 32768, 65535, 65536)
EDGES += (
    0x7FFFFFFF,
    0x80000000,
    0x80000001,
    0xFFFFFFFE,
    0xFFFFFFFF,
    1 << 32,
    (1 << 63) - 1,
    1 << 63,
    (1 << 64) - 2,
    (1 << 64) - 1,
)
_PREFIX = {1: "%p", 16: "%h", 32: "%r", 64: "%d"}
_ORDERED = ("lt", "le", "gt", "ge")
_RECENT = 6  # registers that are taken again most of the time


@dataclass
class Numbers:
    """`lines`: of the body; `made`: the registers that have a value, by width (1: predicates)."""

    draw: random.Random
    lines: list[str] = field(default_factory=list)
    made: dict[int, list[str]] = field(default_factory=lambda: {width: [] for width in _PREFIX})
    count: int = 0

    def put(self, text: str, width: int) -> str:
        """Adds an instruction whose result, a new register of `width` bits, stands as `#` in it."""
        self.count += 1
        register = f"{_PREFIX[width]}{self.count}"
        self.lines.append(text.replace("#", register))
        self.made[width].append(register)
        return register

    def register(self, width: int) -> str:
        found = self.made[width]
        if not found:
            return self.put(f"mov.b{width} #, {self.literal(width)};", width)
        return self.draw.choice(found[-_RECENT:] if self.draw.random() < 0.7 else found)

    def literal(self, width: int) -> str:
        """Also numbers that have more bits than that, of which the lower ones count."""
        value, draw = self.draw.choice(EDGES) & (1 << width) - 1, self.draw
        if value >> width - 1 and draw.random() < 0.3:
            return str(value - (1 << width))
        if draw.random() < 0.7:
            return str(value)
        return draw.choice(
            (hex(value), f"0{value:o}", bin(value), f"0X{value:X}U", hex(value + ((1 << width) if width < 64 else 0)))
        )

    def operand(self, width: int, literal: float = 0.35) -> str:
        return self.literal(width) if self.draw.random() < literal else self.register(width)

    def predicate(self) -> str:
        if not self.made[1] or self.draw.random() < 0.4:
            return self.compared()
        return self.draw.choice(self.made[1])

    def compared(self) -> str:
        width, sign = self.draw.choice(WIDTHS), self.draw.choice("su")
        how = self.draw.choice(("eq", "ne", *_ORDERED, *(("lo", "ls", "hi", "hs") if sign == "u" else ())))
        kind = "b" if how in ("eq", "ne") and self.draw.random() < 0.3 else sign
        return self.put(f"setp.{how}.{kind}{width} #, {self.register(width)}, {self.operand(width, 0.5)};", 1)

    def step(self) -> None:
        self.draw.choice(_STEPS)(self, self.draw.choice((16, 32, 32, 64)), self.draw.choice("su"))


Rule = Callable[[Numbers, int, str], object]


def _sum(text: Numbers, width: int, sign: str) -> None:
    name = text.draw.choice(("add", "sub", "min", "max", "mul.lo", "mul.hi"))
    text.put(f"{name}.{sign}{width} #, {text.register(width)}, {text.operand(width)};", width)


def _quotient(text: Numbers, width: int, sign: str) -> None:
    by = text.literal(width)
    while not int(by.rstrip("U"), 8 if by[:1] == "0" and by.isdigit() else 0) & (1 << width) - 1:
        by = text.literal(width)  # what comes of a division by 0 is not defined
    text.put(f"{text.draw.choice(('div', 'rem'))}.{sign}{width} #, {text.register(width)}, {by};", width)


def _bits(text: Numbers, width: int, sign: str) -> None:
    name = text.draw.choice(("and", "or", "xor"))
    text.put(f"{name}.b{width} #, {text.register(width)}, {text.operand(width, 0.6)};", width)


def _shift(text: Numbers, width: int, sign: str) -> None:
    name = text.draw.choice(("shl.b", "shr.s", "shr.u", "shr.b"))
    by = text.draw.choice((0, 1, 2, 3, 8, 15, 16, 31, 32, 63, 64, 300))
    text.put(f"{name}{width} #, {text.register(width)}, {text.register(32) if text.draw.random() < 0.2 else by};", width)


def _one(text: Numbers, width: int, sign: str) -> None:
    text.put(f"{text.draw.choice(('neg.s', 'abs.s', 'not.b', 'mov.b'))}{width} #, {text.register(width)};", width)


def _chosen(text: Numbers, width: int, sign: str) -> None:
    text.put(f"selp.b{width} #, {text.operand(width)}, {text.operand(width)}, {text.predicate()};", width)


def _converted(text: Numbers, width: int, sign: str) -> None:
    other = text.draw.choice(WIDTHS)
    between = text.draw.choice((str(other), "8")) if other == width else str(other)
    text.put(f"cvt.{sign}{width}.{text.draw.choice('su')}{between} #, {text.register(other)};", width)


def _wide(text: Numbers, width: int, sign: str) -> None:
    half = max(width // 2, 16)
    more = f", {text.operand(2 * half)}" if text.draw.random() < 0.5 else ""
    name = "mad" if more else "mul"
    text.put(f"{name}.wide.{sign}{half} #, {text.register(half)}, {text.operand(half)}{more};", 2 * half)


def _multiplied(text: Numbers, width: int, sign: str) -> None:
    half = text.draw.choice(("lo", "hi")) if width > 16 else "lo"
    operands = ", ".join((text.register(width), text.operand(width), text.operand(width)))
    text.put(f"mad.{half}.{sign}{width} #, {operands};", width)


def _field(text: Numbers, width: int, sign: str) -> None:
    width = max(width, 32)
    start, length = (text.draw.choice((0, 1, 4, 8, 16, 31, 32, 33, 64)) for _ in range(2))
    text.put(f"bfe.{sign}{width} #, {text.register(width)}, {start}, {length};", width)


def _parts(text: Numbers, width: int, sign: str) -> None:
    width = max(width, 32)
    if text.draw.random() < 0.5:
        text.put(f"mov.b{width} #, {{{text.register(width // 2)}, {text.register(width // 2)}}};", width)
        return
    whole, half = text.register(width), text.register(width // 2)
    low = text.put(f"mov.b{width // 2} #, {half};", width // 2)
    text.lines.append(f"mov.b{width} {{{low}, {half}}}, {whole};")


def _guarded(text: Numbers, width: int, sign: str) -> None:
    register, mark = text.register(width), text.draw.choice(("", "!"))
    text.lines.append(f"@{mark}{text.predicate()} add.{sign}{width} {register}, {register}, {text.operand(width)};")


def _logic(text: Numbers, width: int, sign: str) -> None:
    name = text.draw.choice(("and", "or", "xor", "not"))
    more = "" if name == "not" else f", {text.predicate()}"
    text.put(f"{name}.pred #, {text.predicate()}{more};", 1)


_STEPS: tuple[Rule, ...] = (
    *(_sum, _sum, _sum, _quotient, _bits, _shift, _one, _chosen, _converted, _converted),
    *(_wide, _multiplied, _field, _parts, _guarded, _logic, lambda text, width, sign: text.compared()),
)
