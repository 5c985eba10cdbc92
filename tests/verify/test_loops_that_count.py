"""Loops that touch no barrier: what is said to count to a bound ends for all numbers, computed from the values that the counter takes."""

import random
from dataclasses import dataclass
from itertools import product

import pytest

from pipec.verify.reader.read import read

COMPARED = {
    "lt": lambda one, other: one < other,
    "le": lambda one, other: one <= other,
    "gt": lambda one, other: one > other,
    "ge": lambda one, other: one >= other,
    "eq": lambda one, other: one == other,
    "ne": lambda one, other: one != other,
}
OPPOSITE = {"lt": "ge", "ge": "lt", "le": "gt", "gt": "le", "eq": "ne", "ne": "eq"}
TURNED = {"lt": "gt", "gt": "lt", "le": "ge", "ge": "le", "eq": "eq", "ne": "ne"}
TEXT = """.version 8.7
.target sm_100a
.address_size 64
.visible .entry k(.param .u{bits} n, .param .u{bits} first)
.reqntid 32
{{
\t.reg .pred %p<4>; .reg .b{bits} %r<4>;
\tld.param.u{bits} %r1, [n];
\tld.param.u{bits} %r0, [first];
$TURN:
\t{steps}
\t{test}
\t{branch}
\tret;
}}
"""


@dataclass(frozen=True)
class Loop:
    """Goes on while `counter how bound`, or while not: as written, with the sides exchanged, through `not`, the second result, or `!`."""

    kind: str
    by: int
    how: str
    bound: int | None  # a register: any number
    turned: bool
    second: bool
    inverted: bool
    negated: bool
    in_two: bool  # steps
    held: int | None = None  # the step is taken from what is at most, or at least, this number

    @property
    def bits(self) -> int:
        return int(self.kind[1:])

    def text(self) -> str:
        steps = [f"add.s{self.bits} %r0, %r0, {self.by};"]
        if self.in_two:
            steps = [f"sub.u{self.bits} %r2, %r0, {1 - self.by};", f"add.u{self.bits} %r0, %r2, 1;"]
        if self.held is not None:
            steps[0] = steps[0].replace("%r0, %r0", "%r0, %r3").replace("%r2, %r0", "%r2, %r3")
            steps.insert(0, f"{'min' if self.by > 0 else 'max'}.{self.kind} %r3, %r0, {self.held};")
        bound = "%r1" if self.bound is None else str(self.bound)
        sides = f"{bound}, %r0" if self.turned else f"%r0, {bound}"
        test = f"setp.{self.how}.{self.kind} %p0{'|%p1' if self.second else ''}, {sides};"
        result = "%p1" if self.second else "%p0"
        if self.inverted:
            test, result = f"{test} not.pred %p2, {result};", "%p2"
        branch = f"@{'!' if self.negated else ''}{result} bra $TURN;"
        return TEXT.format(bits=self.bits, steps=" ".join(steps), test=test, branch=branch)

    def stays(self) -> str:
        """The comparison of the counter with the bound under which another turn follows."""
        how = TURNED[self.how] if self.turned else self.how
        return OPPOSITE[how] if (self.second + self.inverted + self.negated) % 2 else how

    def may_go_on(self) -> bool:
        """Whether all numbers that the counter comes to stay within the bound, for one of the first numbers and bounds tried."""
        if self.kind[0] == "f":
            return True  # where the bound is no number every comparison is false, and its opposite true
        low = -(1 << self.bits - 1) if self.kind[0] == "s" else 0
        top = low + (1 << self.bits) - 1
        if self.held is not None:
            return self._comes_back(low, top)
        step = self.by & -self.by or 1 << self.bits
        numbers = (low, low + 1, -1, 0, 1, 2, 1 << 30, top - 1, top)
        bounds = numbers if self.bound is None else (self.bound,)
        return any(
            self._endless(low, top, step, first, _wrapped(bound, low, self.bits))
            for first in range(min(step, 8))
            for bound in bounds
        )

    def _comes_back(self, low: int, top: int) -> bool:
        """Whether the counter comes to a number twice, within the bound all the time."""
        assert self.held is not None
        near = {at + by for at in (low, 0, self.held, self.held - 64 * self.by, top) for by in (-1, 0, 1)}
        bounds = (low, 0, self.held, self.held + self.by, top - 1, top) if self.bound is None else (self.bound,)
        compared, hold = COMPARED[self.stays()], min if self.by > 0 else max
        for first, bound in product(near, bounds):
            seen, now = set(), _wrapped(first, low, self.bits)
            while len(seen) < 5000 and now not in seen:
                seen.add(now)
                now = _wrapped(hold(now, self.held) + self.by, low, self.bits)
                if not compared(now, _wrapped(bound, low, self.bits)):
                    break
            else:
                if now in seen:
                    return True
        return False

    def _endless(self, low: int, top: int, step: int, first: int, bound: int) -> bool:
        """The counter comes to all numbers that differ from the first by multiples of the step."""
        ends = {"lt": (bound, top), "le": (bound + 1, top), "gt": (low, bound), "ge": (low, bound - 1), "ne": (bound, bound)}
        ends["eq"] = (low, bound - 1)
        spans = [ends[self.stays()], (bound + 1, top)] if self.stays() == "eq" else [ends[self.stays()]]
        return all(from_ + (first - from_) % step > to for from_, to in spans)


def _wrapped(number: int, low: int, bits: int) -> int:
    return (number - low) % (1 << bits) + low


def drawn(draw: random.Random) -> Loop:
    large = draw.choice((1 << 20, 1 << 28, 1 << 29, (1 << 30) - 1, 1 << 30, (1 << 30) + 1))
    by = draw.choice((1, -1, 2, -3, 4, 8, large, -large))
    bound = draw.choice((None, None, 0, 3, 7, -5, large, large - 1, -large, (1 << 30) + 1, (1 << 31) - 1 - abs(by)))
    kind = draw.choice(("s32", "s32", "u32", "s64", "u64", "f32"))
    flags = [draw.random() < chance for chance in (0.3, 0.2, 0.3, 0.3, 0.2)]
    if kind[0] == "f" or draw.random() < 0.5:
        return Loop(kind, by, draw.choice([*COMPARED]), bound, *flags)
    low = -(1 << int(kind[1:]) - 1) if kind[0] == "s" else 0
    last = (low + (1 << int(kind[1:])) - 1 if by > 0 else low) - by
    held = min(max(last + draw.choice((0, 0, 0, 1, -1, by)), low), low + (1 << int(kind[1:])) - 1)
    # Those that come to the end of their type; and any.
    how = draw.choice([*COMPARED]) if draw.random() < 0.4 else "lt" if by > 0 else "gt"
    return Loop(kind, by, how, draw.choice((None, None, bound)), *(flags if draw.random() < 0.4 else (False,) * 5), held)


def said_to_end(loop: Loop) -> bool:
    return not any(one.kind == "loops" for one in read(loop.text(), None).assumptions)


@pytest.mark.parametrize("seed", range(8))
def test_what_counts_ends(seed: int) -> None:
    draw = random.Random(seed)
    found = 0
    for _ in range(100):
        loop = drawn(draw)
        if said_to_end(loop):
            assert not loop.may_go_on(), loop.text()
            found += 1
    assert found > 10


@pytest.mark.parametrize(
    ("loop", "ends"),
    [
        (Loop("s32", 1, "lt", None, False, False, False, False, False), True),
        (
            Loop("s32", 1, "lt", None, False, True, False, False, False),
            False,
        ),  # while it is not less: for ever, if that is the least
        (Loop("s32", 1, "ge", None, False, True, False, False, False), False),
        (Loop("s32", 1 << 30, "le", 1 << 30, False, False, False, False, False), False),  # 0, 2^30, -2^31, -2^30, 0
        (Loop("s32", 1 << 29, "le", 1 << 29, False, False, False, False, True), True),
        (Loop("f32", -1, "le", None, False, False, False, True, False), False),
        (Loop("u32", -3, "ge", 2, False, False, False, False, False), False),
        (Loop("u32", -3, "ge", 3, False, False, False, False, False), True),
        (Loop("s32", -2, "gt", -(2**31) + 1, False, False, False, False, False), True),
        (Loop("s32", -2, "gt", -(2**31), False, False, False, False, False), False),
        (Loop("s32", 4, "lt", None, False, False, False, False, False, 2**31 - 5), True),
        (Loop("s32", 4, "lt", None, False, False, False, False, False, 2**31 - 4), False),  # from 2^31 - 4 to -2^31
        (Loop("s32", 4, "lt", None, False, False, False, False, False, 2**31 - 6), False),  # stays at 2^31 - 2
        (Loop("s32", 4, "le", None, False, False, False, False, False, 2**31 - 5), False),
        (Loop("s32", -4, "gt", None, False, False, False, False, False, 4 - 2**31), True),
    ],
)
def test_loops_at_the_limits(loop: Loop, ends: bool) -> None:
    assert said_to_end(loop) == ends and (not ends or not loop.may_go_on())
