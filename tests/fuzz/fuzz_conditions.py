"""Two roles under random conditions on numbers of five types, which Python evaluates: what is proved fills as often as it takes at every
size, and what is said to overflow, or to wait for ever, does so at the sizes that are named."""

import operator
import random
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from pipec.driver import Options, compile_source
from pipec.source import Source

COUNT = 3000
SIZES = (0, 1, 2, 3, 4, 5, 6, 9, 13, 64, 130, 300)
RANGES = {"i32": (-(2**31), 2**31 - 1), "u32": (0, 2**32 - 1), "i64": (-(2**63), 2**63 - 1)}
RANGES |= {"i16": (-(2**15), 2**15 - 1), "u8": (0, 255)}
_RELATIONS = {"<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge, "==": operator.eq, "!=": operator.ne}


@dataclass
class Numbers:
    """`overflows`: whether some arithmetic has left the range of its type. A conversion may."""

    values: Mapping[str, int]
    overflows: bool = False

    def kept(self, dtype: str, value: int) -> int:
        self.overflows |= value != wrapped(dtype, value)
        return wrapped(dtype, value)


@dataclass(frozen=True)
class Drawn:
    """An expression: its text, and its value."""

    text: str
    value: Callable[[Numbers], int]


@dataclass(frozen=True)
class Pair:
    """What the role fills under `fills`, the other takes under `takes`, in a loop of its own `kind`."""

    fills: Drawn
    takes: Drawn
    kind: str
    stages: int

    def source(self) -> str:
        filling = ["for i in range(n):", f"    if {self.fills.text}:", "        p.producer_signal_and_step()"]
        inside = [f"if {self.takes.text}:", "    p.consumer_signal_and_step()"]
        taking = {
            "alike": ["for i in range(n):", *(f"    {line}" for line in inside)],
            "a variable": ["i = -1", "for j in range(n):", "    i = i + 1", *(f"    {line}" for line in inside)],
            "counted": ["c = 0", "for i in range(n):", f"    if {self.takes.text}:", "        c += 1"]
            + ["for j in range(c):", "    p.consumer_signal_and_step()"],
        }[self.kind]
        lines = ["kernel k(n: i32, m: i32):", "    grid(1)", f"    p = ProducerConsumerPipeline(stages={self.stages})"]
        for head, body in (("a(warps=1) produces", filling), ("b(warps=1) consumes", taking)):
            lines += [f"    role {head} p:", *(f"        {line}" for line in body)]
        return "\n".join(lines) + "\n"

    def counts(self, n: int, m: int) -> tuple[int, int, bool]:
        """How often the stage is filled and taken, and whether some arithmetic has overflowed."""
        seen = [Numbers({"n": n, "m": m, "i": i}) for i in range(n)]
        filled, taken = (sum(map(one.value, seen)) for one in (self.fills, self.takes))
        return filled, taken, any(one.overflows for one in seen)


def wrapped(dtype: str, value: int) -> int:
    low, high = RANGES[dtype]
    return (value - low) % (high - low + 1) + low


class _Writer:
    def __init__(self, chance: random.Random) -> None:
        self.chance = chance

    def condition(self, depth: int) -> Drawn:
        dtype = self.chance.choice(("i32", "i32", "i32", "u32", "u32", "i64", "i16"))
        left, relation = self.number(dtype, depth), self.chance.choice(list(_RELATIONS))
        right = self._constant(9) if self.chance.random() < 0.7 else self.number(dtype, depth)
        compare = _RELATIONS[relation]
        return Drawn(f"{left.text} {relation} {right.text}", lambda at: compare(left.value(at), right.value(at)))

    def _constant(self, most: int) -> Drawn:
        number = self.chance.randint(0, most)
        return Drawn(str(number), lambda at: number)

    def number(self, dtype: str, depth: int) -> Drawn:
        if not depth or self.chance.random() < 0.2:
            return self._leaf(dtype)
        inner = self.number(dtype, depth - 1)
        match self.chance.choice(("+", "-", "*", "//", "%", "min", "max", "neg", "cast", "cast", "if", "abs", "&")):
            case "+" | "-" as sign:
                other = self._constant(9) if self.chance.random() < 0.6 else self.number(dtype, depth - 1)
                made = operator.add if sign == "+" else operator.sub
                return self._of(dtype, f"({inner.text} {sign} {other.text})", lambda at: made(inner.value(at), other.value(at)))
            case "*":
                times = self.chance.choice((2, 3, 7, -1, -2) if RANGES[dtype][0] else (2, 3, 7))
                return self._of(dtype, f"({inner.text} * {times})", lambda at: inner.value(at) * times)
            case "//" | "%" as sign:
                by = self.chance.choice((2, 3, 4, 5, 8))
                made = operator.floordiv if sign == "//" else operator.mod
                return Drawn(f"({inner.text} {sign} {by})", lambda at: made(inner.value(at), by))
            case "min" | "max" as name:
                other, pick = self._constant(6), min if name == "min" else max
                return Drawn(f"{name}({inner.text}, {other.text})", lambda at: pick(inner.value(at), other.value(at)))
            case "neg" if RANGES[dtype][0]:
                return self._of(dtype, f"(-{inner.text})", lambda at: -inner.value(at))
            case "abs" if RANGES[dtype][0]:
                return self._of(dtype, f"abs({inner.text})", lambda at: abs(inner.value(at)))
            case "cast":
                other = self.number(self.chance.choice([one for one in RANGES if one != dtype]), depth - 1)
                return Drawn(f"cast[{dtype}]({other.text})", lambda at: wrapped(dtype, other.value(at)))
            case "if":
                when, other = self.condition(depth - 1), self.number(dtype, depth - 1)
                return Drawn(
                    f"({inner.text} if {when.text} else {other.text})",
                    lambda at: inner.value(at) if when.value(at) else other.value(at),
                )
            case _:
                mask = self.chance.choice((1, 2, 3, 7))
                return Drawn(f"({inner.text} & {mask})", lambda at: inner.value(at) & mask)

    def _of(self, dtype: str, text: str, exact: Callable[[Numbers], int]) -> Drawn:
        return Drawn(text, lambda at: at.kept(dtype, exact(at)))

    def _leaf(self, dtype: str) -> Drawn:
        name = self.chance.choice("iiiinm")
        if dtype == "i32":
            return Drawn(name, lambda at: at.values[name])
        return Drawn(f"cast[{dtype}]({name})", lambda at: wrapped(dtype, at.values[name]))


def draw(chance: random.Random) -> Pair:
    """More than half of the pairs ask the same; the others have nothing in common."""
    writer = _Writer(chance)
    fills = writer.condition(chance.randint(1, 3))
    while not re.search(r"\bi\b", fills.text):
        fills = writer.condition(chance.randint(1, 3))
    takes = fills if chance.random() < 0.6 else writer.condition(chance.randint(1, 3))
    return Pair(fills, takes, chance.choice(("alike", "a variable", "counted")), chance.choice((2, 2, 12)))


def attempt(chance: random.Random) -> str | None:
    drawn = draw(chance)
    text = drawn.source()
    state = compile_source(Source("k.pipe", text), Options())
    if not state.failed:
        return _proved(drawn, text, chance.randrange(4))
    for told in state.diagnostics:
        sizes = {"n": 0, "m": 0} | {name: int(value) for name, value in re.findall(r"\b([nm]) = (-?\d+)", told.title)}
        if told.code == "E0604" or sizes["n"] > max(SIZES):
            continue
        filled, taken, overflows = drawn.counts(sizes["n"], sizes["m"])
        right = {"E0605": overflows, "E0601": filled != taken, "E0602": filled != taken}.get(told.code, False)
        if not right:
            return f"{told.code}: {told.title}; but filled {filled} times, taken {taken} times, overflows: {overflows}\n{text}"
    return None


def _proved(drawn: Pair, text: str, m: int) -> str | None:
    for n in SIZES:
        filled, taken, _ = drawn.counts(n, m)
        if filled != taken:
            return f"proved, but filled {filled} times and taken {taken} times at n = {n}, m = {m}\n{text}"
    return None
