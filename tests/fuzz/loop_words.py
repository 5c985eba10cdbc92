"""Loops over tiles and over blocks of K, each in several words that count the same."""

from collections.abc import Callable
from dataclasses import dataclass

Lines = list[str]
Body = Callable[[str], Lines]  # what is done with the block of K that begins at an element


def indented(lines: Lines) -> Lines:
    return [f"    {line}" for line in lines]


# ----------------------------------------------------------------------------------------------------------------- walks over tiles


@dataclass(frozen=True)
class Walk:
    """Lines before the loop over tiles, its head, and what stands first and last in a turn, in terms of the number of tiles `{T}`
    and of the first one `{first}`. The number of the tile is `t`."""

    before: tuple[str, ...]
    head: str
    inside: tuple[str, ...] = ()
    behind: tuple[str, ...] = ()


_NEXT = ("t += grid.x",)
_FROM_COUNT = ("t = {first} + i * grid.x",)
WALKS = {
    "range": Walk((), "for t in range({first}, {T}, grid.x):"),
    "while": Walk(("t = {first}",), "while t < {T}:", (), _NEXT),
    "while, numbered": Walk(("tiles_here = {T}", "t = {first}"), "while t < tiles_here:", (), _NEXT),
    "counted": Walk((), "for i in range(ceildiv({T} - {first}, grid.x)):", _FROM_COUNT),
    "counted by hand": Walk((), "for i in range(({T} - {first} + grid.x - 1) // grid.x):", _FROM_COUNT),
    "counted, moved on": Walk(("t = {first}",), "for i in range(ceildiv({T} - {first}, grid.x)):", (), _NEXT),
    "counted down": Walk(("left = ceildiv({T} - {first}, grid.x)", "t = {first}"), "while left > 0:", (), ("left -= 1", *_NEXT)),
    "Triton's": Walk(
        ("own = {T} // grid.x", "if {first} < {T} % grid.x:", "    own += 1", "t = {first} - grid.x"),
        "for i in range(own):",
        _NEXT,
    ),
}

# ------------------------------------------------------------------------------------------------------------- loops over blocks of K


@dataclass(frozen=True)
class Bound:
    """What a role takes of a tile: `count` blocks of K, the first of which is `start`. They may also be said by where they end: after
    `last` blocks, or at the element `end`. `positive`: the count is not negative. `narrow`: a few more or less of it do not wrap."""

    count: str
    start: str = "0"
    last: str = ""
    end: str = ""
    before: tuple[str, ...] = ()
    positive: bool = True
    narrow: bool = True


def _at(bound: Bound, depth: int, turn: str) -> str:
    return f"({turn if bound.start == '0' else f'{bound.start} + {turn}'}) * {depth}"


Loop = Callable[[Bound, int, str, Body], Lines]  # of a bound, a block's depth, and what the names end with


def _range(bound: Bound, depth: int, x: str, body: Body) -> Lines:
    return [f"for k{x} in range({bound.count}):", *indented(body(_at(bound, depth, f"k{x}")))]


def _named(bound: Bound, depth: int, x: str, body: Body) -> Lines:
    return [f"n{x} = {bound.count}", f"for k{x} in range(n{x}):", *indented(body(_at(bound, depth, f"k{x}")))]


def _while(bound: Bound, depth: int, x: str, body: Body) -> Lines:
    return [f"k{x} = 0", f"while k{x} < {bound.count}:", *indented([*body(_at(bound, depth, f"k{x}")), f"k{x} += 1"])]


def _down(bound: Bound, depth: int, x: str, body: Body) -> Lines:
    turns = [f"m{x} -= 1", *body(_at(bound, depth, f"m{x}"))]
    return [f"m{x} = {bound.count}", f"while m{x} > 0:", *indented(turns)]


def _last_first(bound: Bound, depth: int, x: str, body: Body) -> Lines:
    return [f"for k{x} in range({bound.count} - 1, -1, -1):", *indented(body(_at(bound, depth, f"k{x}")))]


def _to_the_end(bound: Bound, depth: int, x: str, body: Body) -> Lines:
    if bound.last:
        return [f"for k{x} in range({bound.start}, {bound.last}):", *indented(body(f"k{x} * {depth}"))]
    return [f"for k{x} in range(0, {bound.end}, {depth}):", *indented(body(f"k{x}"))]


def _while_not_ended(bound: Bound, depth: int, x: str, body: Body) -> Lines:
    place, step = (f"k{x} * {depth}", 1) if bound.last else (f"k{x}", depth)
    turn = [*body(place), f"k{x} += {step}"]
    return [f"k{x} = {bound.start}", f"while k{x} < {bound.last or bound.end}:", *indented(turn)]


def _rest(bound: Bound, depth: int, x: str, body: Body, several: int) -> Lines:
    whole = [line for turn in range(several) for line in body(_at(bound, depth, f"k{x} + {turn}"))]
    return [
        f"n{x} = {bound.count}",
        f"full{x} = n{x} // {several} * {several}",
        f"for k{x} in range(0, full{x}, {several}):",
        *indented(whole),
        f"for k{x} in range(full{x}, n{x}):",
        *indented(body(_at(bound, depth, f"k{x}"))),
    ]


def _twos(bound: Bound, depth: int, x: str, body: Body) -> Lines:
    return _rest(bound, depth, x, body, 2)


def _fours(bound: Bound, depth: int, x: str, body: Body) -> Lines:
    return _rest(bound, depth, x, body, 4)


def _odd_one(bound: Bound, depth: int, x: str, body: Body) -> Lines:
    whole = [line for turn in range(2) for line in body(_at(bound, depth, f"k{x} + {turn}"))]
    last = [f"if n{x} % 2 != 0:", *indented(body(_at(bound, depth, f"n{x} - 1")))]
    return [f"n{x} = {bound.count}", f"for k{x} in range(0, n{x} - 1, 2):", *indented(whole), *last]


def _halves(bound: Bound, depth: int, x: str, body: Body) -> Lines:
    whole = [line for turn in range(2) for line in body(_at(bound, depth, f"2 * k{x} + {turn}"))]
    last = [f"if n{x} % 2 == 1:", *indented(body(_at(bound, depth, f"n{x} - 1")))]
    return [f"n{x} = {bound.count}", f"for k{x} in range(n{x} // 2):", *indented(whole), *last]


def _guarded(bound: Bound, depth: int, x: str, body: Body) -> Lines:
    second = [f"if k{x} + 1 < n{x}:", *indented(body(_at(bound, depth, f"k{x} + 1")))]
    return [f"n{x} = {bound.count}", f"for k{x} in range(0, n{x}, 2):", *indented([*body(_at(bound, depth, f"k{x}")), *second])]


#: Any count, one that two more do not make wrap, one that is not negative either, and one that is also said by where it ends.
ANY: dict[str, Loop] = {"range": _range, "named": _named, "while": _while, "down": _down}
NARROW: dict[str, Loop] = {"guarded": _guarded}
POSITIVE: dict[str, Loop] = {
    "last first": _last_first,
    "twos": _twos,
    "fours": _fours,
    "odd one": _odd_one,
    "halves": _halves,
}
ENDS: dict[str, Loop] = {"to the end": _to_the_end, "while not ended": _while_not_ended}


BACKWARDS = {"down", "last first"}


def loops(bound: Bound, *, forwards: bool) -> list[Loop]:
    """In which words its blocks can be counted, so that they are the same in all of them."""
    found = dict(ANY)
    if bound.narrow:
        found |= NARROW
    if bound.positive and bound.narrow:
        found |= POSITIVE
    if (bound.end or bound.last) and bound.narrow:
        found |= ENDS
    return [loop for name, loop in found.items() if not (forwards and name in BACKWARDS)]


def rounded_up(size: str, depth: int, *, narrow: bool = True) -> tuple[str, ...]:
    """How many blocks some elements are. (Rounded up by hand a number must not be near the end of its type.)"""
    ways = (f"ceildiv({size}, {depth})",)
    return (*ways, f"(({size}) + {depth - 1}) // {depth}") if narrow else ways
