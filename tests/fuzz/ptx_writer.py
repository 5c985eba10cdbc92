"""A PTX text in the making: registers, labels, and integer expressions whose value is known as the machine computes it."""

import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

# What decides the value of an expression: the sizes, and `lane`, `tid`.
Numbers = Mapping[str, int]
LIMITS = (0, 1, 2, 3, 5, 7, 8, 16, 31, 32, 33, 63, 64, 127, 128, 255, 256, 32767, 32768, 65535, 65536, 1048575, 1048576)
LIMITS += (0x3FFFFFFF, 0x40000000, 0x7FFFFFFE, 0x7FFFFFFF, 0x80000000, 0x80000001, 0xFFFFFFFE, 0xFFFFFFFF)
COMPARISONS: dict[str, Callable[[int, int], bool]] = {
    "eq": lambda a, b: a == b,
    "ne": lambda a, b: a != b,
    "lt": lambda a, b: a < b,
    "le": lambda a, b: a <= b,
    "gt": lambda a, b: a > b,
    "ge": lambda a, b: a >= b,
}


def read(value: int, kind: str) -> int:
    """The bits of a register as a number of type `u32`, `s16` and the like."""
    width = int(kind[1:])
    value &= (1 << width) - 1
    return value - (1 << width) if kind[0] == "s" and value >> (width - 1) else value


@dataclass(frozen=True)
class Value:
    """A register of `width` bits, and what it holds (as an unsigned number)."""

    name: str
    width: int
    of: Callable[[Numbers], int]


@dataclass
class Text:
    """The body of a kernel. Registers are declared when it is put together."""

    draw: random.Random
    lines: list[str] = field(default_factory=list)
    counts: dict[str, int] = field(default_factory=dict)

    def new(self, prefix: str) -> str:
        number = self.counts[prefix] = self.counts.get(prefix, 0) + 1
        return f"%{prefix}{number}"

    def label(self) -> str:
        number = self.counts["L"] = self.counts.get("L", 0) + 1
        return f"L{number}"

    def add(self, *lines: str) -> None:
        self.lines += lines

    def register(self, width: int = 32) -> str:
        return self.new({1: "p", 16: "h", 32: "r", 64: "d"}[width])

    def declared(self) -> str:
        kinds = {"p": "pred", "h": "b16", "r": "b32", "d": "b64"}
        return "".join(f"  .reg .{kind} %{prefix}<{self.counts.get(prefix, 0) + 1}>;\n" for prefix, kind in kinds.items())

    # Numbers.

    def constant(self, value: int, width: int = 32) -> Value:
        name = self.register(width)
        value &= (1 << width) - 1
        self.add(f"mov.b{width} {name}, {value};")
        return Value(name, width, lambda _: value)

    def number(self, leaves: list[Value], depth: int) -> Value:
        """An expression over the leaves, and numbers at the limits of types."""
        draw = self.draw
        if depth == 0 or draw.random() < 0.15:
            return draw.choice(leaves) if leaves and draw.random() < 0.7 else self.constant(draw.choice(LIMITS))
        left = self.number(leaves, depth - 1)
        rule = draw.choice(_RULES)
        return rule(self, left, lambda width: self._other(leaves, depth - 1, width))

    def _other(self, leaves: list[Value], depth: int, width: int) -> Value:
        """The second operand: an immediate most of the time."""
        if self.draw.random() < 0.6 or width != 32:
            value = self.draw.choice(LIMITS) & ((1 << width) - 1)
            return Value(str(value), width, lambda _: value)
        return self.number(leaves, depth)

    def predicate(self, value: Value, numbers: Numbers) -> tuple[str, Callable[[Numbers], bool]]:
        """A comparison of the value with a number near it for some numbers."""
        kind = self.draw.choice("us") + str(value.width)
        how, near = self.draw.choice([*COMPARISONS]), read(value.of(numbers), kind) + self.draw.choice((-1, 0, 0, 1))
        near = read(near, kind)
        name = self.register(1)
        self.add(f"setp.{how}.{kind} {name}, {value.name}, {near};")
        return name, lambda at: COMPARISONS[how](read(value.of(at), kind), near)


Other = Callable[[int], Value]
Rule = Callable[[Text, Value, Other], Value]


def _binary(opcode: str, kinds: str, rule: Callable[[int, int, int], int]) -> Rule:
    """`kinds`: letters of the types it has; `rule`: of two numbers and the width."""

    def made(text: Text, left: Value, other: Other) -> Value:
        width, right = left.width, other(left.width)
        if right.width != width:
            return left
        kind = text.draw.choice(kinds) + str(width)
        as_ = "u" if kind[0] == "b" else kind[0]
        name, mask = text.register(width), (1 << width) - 1
        text.add(f"{opcode}.{kind} {name}, {left.name}, {right.name};")
        return Value(
            name, width, lambda at: rule(read(left.of(at), as_ + kind[1:]), read(right.of(at), as_ + kind[1:]), width) & mask
        )

    return made


def _shift(opcode: str, kinds: str, rule: Callable[[int, int, int], int]) -> Rule:
    """By an amount that may be as large as the width, or larger."""

    def made(text: Text, left: Value, other: Other) -> Value:
        width, by = left.width, text.draw.choice((0, 1, 3, 7, 15, 16, 17, 31, 32, 33, 63, 64, 255, 256))
        kind, name = text.draw.choice(kinds) + str(width), text.register(width)
        text.add(f"{opcode}.{kind} {name}, {left.name}, {by};")
        as_ = ("u" if kind[0] == "b" else kind[0]) + kind[1:]
        return Value(name, width, lambda at: rule(read(left.of(at), as_), by, width) & ((1 << width) - 1))

    return made


def _quotient(left: int, right: int) -> int:
    return (abs(left) // abs(right)) * (1 if (left < 0) == (right < 0) else -1)


def _divide(opcode: str) -> Rule:
    """By a number that is not 0: what PTX leaves to the machine is nobody's contradiction."""

    def made(text: Text, left: Value, other: Other) -> Value:
        kind, name = text.draw.choice("us") + str(left.width), text.register(left.width)
        by = read(text.draw.choice([one for one in LIMITS if one & ((1 << left.width) - 1)]), kind) or 1
        text.add(f"{opcode}.{kind} {name}, {left.name}, {by};")
        mask = (1 << left.width) - 1

        def value(at: Numbers) -> int:
            upper = read(left.of(at), kind)
            quotient = _quotient(upper, by)
            return (quotient if opcode == "div" else upper - by * quotient) & mask

        return Value(name, left.width, value)

    return made


def _convert(text: Text, left: Value, other: Other) -> Value:
    """To another width, as a signed or unsigned number of some width that is no larger than the register's."""
    width = text.draw.choice((16, 32, 64))
    source = text.draw.choice([bits for bits in (8, 16, 32, 64) if bits <= left.width])
    kind = text.draw.choice("us") + str(source)
    target = text.draw.choice("us") + str(text.draw.choice([bits for bits in (8, 16, 32, 64) if bits <= width]))
    name = text.register(width)
    text.add(f"cvt.{target}.{kind} {name}, {left.name};")
    # A result that is narrower than its register is extended as its type says.
    made = Value(name, width, lambda at: read(read(left.of(at), kind), target) & ((1 << width) - 1))
    return made if width == 32 else _to_32(text, made)


def _to_32(text: Text, left: Value) -> Value:
    name, kind = text.register(), text.draw.choice("us") + str(left.width)
    text.add(f"cvt.u32.{kind} {name}, {left.name};")
    return Value(name, 32, lambda at: read(left.of(at), kind) & 0xFFFFFFFF)


def _wide(text: Text, left: Value, other: Other) -> Value:
    if left.width != 32:
        return left
    right, kind, name = other(32), text.draw.choice(("u32", "s32")), text.register(64)
    text.add(f"mul.wide.{kind} {name}, {left.name}, {right.name};")
    return _to_32(text, _shift("shr", "us", lambda a, by, width: a >> min(by, width))(text, Value(
        name, 64, lambda at: read(left.of(at), kind) * read(right.of(at), kind) & ((1 << 64) - 1)
    ), other))  # fmt: skip


def _chosen(text: Text, left: Value, other: Other) -> Value:
    right, kind, how = other(left.width), text.draw.choice("us") + str(left.width), text.draw.choice([*COMPARISONS])
    if right.width != left.width:
        return left
    flag, name = text.register(1), text.register(left.width)
    text.add(f"setp.{how}.{kind} {flag}, {left.name}, {right.name};")
    if text.draw.random() < 0.5:
        text.add(f"selp.b{left.width} {name}, {left.name}, {right.name}, {flag};")
    else:
        text.add(f"mov.b{left.width} {name}, {right.name};", f"@{flag} mov.b{left.width} {name}, {left.name};")

    def value(at: Numbers) -> int:
        holds = COMPARISONS[how](read(left.of(at), kind), read(right.of(at), kind))
        return left.of(at) if holds else right.of(at)

    return Value(name, left.width, value)


def _extract(text: Text, left: Value, other: Other) -> Value:
    if left.width == 16:
        return left
    width, kind = left.width, text.draw.choice("us")
    start, length = text.draw.choice((0, 1, 8, 31, 32, 40)), text.draw.choice((0, 1, 5, 16, 32, 64))
    name = text.register(width)
    text.add(f"bfe.{kind}{width} {name}, {left.name}, {start}, {length};")

    def value(at: Numbers) -> int:
        bits, places = left.of(at), [min(start + place, width) for place in range(length)]
        taken = sum(1 << at_ for at_, place in enumerate(places) if place < width and bits >> place & 1 and at_ < width)
        if kind == "s" and length and bits >> min(start + length - 1, width - 1) & 1:
            taken |= (-1 << max(0, min(length, width - start))) & ((1 << width) - 1)
        return taken

    return Value(name, width, value)


def _multiply_add(text: Text, left: Value, other: Other) -> Value:
    if left.width != 32:
        return left
    right, third, name = other(32), other(32), text.register()
    kind = text.draw.choice("us") + "32"
    text.add(f"mad.lo.{kind} {name}, {left.name}, {right.name}, {third.name};")
    return Value(name, 32, lambda at: (left.of(at) * right.of(at) + third.of(at)) & 0xFFFFFFFF)


_RULES: list[Rule] = [
    _binary("add", "us", lambda a, b, _: a + b),
    _binary("sub", "us", lambda a, b, _: a - b),
    _binary("mul.lo", "us", lambda a, b, _: a * b),
    _binary("mul.hi", "us", lambda a, b, width: a * b >> width),
    _binary("min", "us", lambda a, b, _: min(a, b)),
    _binary("max", "us", lambda a, b, _: max(a, b)),
    _binary("and", "b", lambda a, b, _: a & b),
    _binary("or", "b", lambda a, b, _: a | b),
    _binary("xor", "b", lambda a, b, _: a ^ b),
    _shift("shl", "b", lambda a, by, width: a << by if by < width else 0),
    _shift("shr", "us", lambda a, by, width: a >> min(by, width)),
    _divide("div"),
    _divide("rem"),
    _convert,
    _wide,
    _chosen,
    _extract,
    _multiply_add,
]
