"""Persistent loops whose K blocks end where the tile lies, as with a causal mask: the bound is said in blocks, in elements or in twos."""

import pytest

from pipec.driver import Options, compile_source
from pipec.source import Source
from tests.protocol.drawing import Draw, Kernel, Lines, indented, source

COLUMNS = "ceildiv(N, 128)"
ALL = f"ceildiv(M, 128) * {COLUMNS}"
FOR = [f"for t in range(block.x, {ALL}, grid.x):"]


def walked(body: Lines, walk: Lines = FOR, behind: Lines | None = None) -> Lines:
    return [*walk, *indented([*body, *(behind or [])])]


#: Walks that count their turns: the lines before the body, and those behind it.
SHARE = f"({ALL} - block.x + grid.x - 1) // grid.x"
OWN = [f"own = {ALL} // grid.x", f"if block.x < {ALL} % grid.x:", "    own += 1"]
MORE = [f"own = {ALL} // grid.x", f"if block.x <= {ALL} % grid.x:", "    own += 1"]
COUNTED: dict[str, tuple[Lines, Lines]] = {
    "from the turn": ([f"for i in range(ceildiv({ALL} - block.x, grid.x)):", "    t = block.x + i * grid.x"], []),
    "by hand": ([f"for i in range({SHARE}):", "    t = block.x + i * grid.x"], []),
    "beside": (["t = block.x", f"for i in range(ceildiv({ALL} - block.x, grid.x)):"], ["t += grid.x"]),
    "down": ([f"left = ceildiv({ALL} - block.x, grid.x)", "t = block.x", "while left > 0:"], ["left -= 1", "t += grid.x"]),
    "shared out": ([*OWN, "t = block.x - grid.x", "for i in range(own):", "    t += grid.x"], []),
    "shared out to one more": ([*MORE, "t = block.x - grid.x", "for i in range(own):", "    t += grid.x"], []),
    "down to 1": ([f"left = ceildiv({ALL} - block.x, grid.x)", "t = block.x", "while left > 1:"], ["left -= 1", "t += grid.x"]),
    "one more": ([f"for i in range({SHARE} + 1):", "    t = block.x + i * grid.x"], []),
    "from the next one on": (["t = block.x + 1", f"for i in range({SHARE}):"], ["t += grid.x"]),
}


def by_turns(walk: str, body: Lines | None = None) -> Kernel:
    before, behind = COUNTED[walk]
    return pair(walked(blocks() if body is None else body, before, behind), grid=f"min({ALL}, 132)")


def by_hand(body: Lines) -> Lines:
    return walked(body, ["t = block.x", f"while t < {ALL}:"], ["t += grid.x"])


def blocks(row: str = f"t // {COLUMNS} + 1", keys: str = "ceildiv(K, 64)", stage: str = "    {p-}") -> Lines:
    return [f"for k in range(min({keys}, {row})):", stage]


def elements(row: str = f"t // {COLUMNS}", reach: str = "64 * (m1 + 1)", keys: str = "K") -> Lines:
    return [f"m1 = {row}", f"for k in range(0, min({keys}, {reach}), 64):", "    {p-}"]


def rounded_up(reach: str = "(m1 + 1) * 64") -> Lines:
    return [f"m1 = t // {COLUMNS}", f"for k in range(ceildiv(min({reach}, K), 64)):", "    {p-}"]


def named(row: str, keys: str = "ceildiv(K, 64)") -> Lines:
    return [f"m1 = {row}", f"n1 = min(m1 + 1, {keys})", "for k in range(n1 - 1, -1, -1):", "    {p-}"]


def counted_down(more: str = "1") -> Lines:
    return [f"left = min(t // {COLUMNS} + {more}, ceildiv(K, 64))", "while left > 0:", "    {p-}", "    left -= 1"]


def halves(rest: str = "1") -> Lines:
    head = [f"n1 = min(ceildiv(K, 64), t // {COLUMNS} + 1)", "for k in range(n1 // 2):", *["    {p-}"] * 2]
    return [*head, f"if n1 % 2 == {rest}:", "    {p-}"]


def several(times: int, start: str = "full") -> Lines:
    """So many in each turn, and the rest in a loop of its own."""
    head = [
        f"n1 = min(ceildiv(K, 64), t // {COLUMNS} + 1)",
        f"full = n1 // {times} * {times}",
        f"for k in range(0, full, {times}):",
    ]
    return [*head, *["    {p-}"] * times, f"for k in range({start}, n1):", "    {p-}"]


def but_for_the_last(rest: str = "!=") -> Lines:
    """Two in each turn, up to the last one, and that if it is left."""
    head = [f"n1 = min(ceildiv(K, 64), t // {COLUMNS} + 1)", "for k in range(0, n1 - 1, 2):", *["    {p-}"] * 2]
    return [*head, f"if n1 % 2 {rest} 0:", "    {p-}"]


def pair(other: Lines, one: Lines | None = None, grid: str = "132") -> Kernel:
    filled = walked(blocks(stage="    {p+}") if one is None else one)
    return Kernel({"p": (3, "a", "b")}, {"a": filled, "b": other}, blocks=grid)


#: The queries of a tile are two blocks of keys long.
ATTENTION = ["seen = min(t // ceildiv(M, 128) * 2 + 2, ceildiv(K, 64))", "for j in range(seen):", "    {p+}"]


def attended(reach: str) -> Kernel:
    taken = ["m1 = t // ceildiv(M, 128)", f"for j in range(0, min(K, {reach}), 64):", "    {p-}"]
    return pair(walked(taken), ATTENTION)


RIGHT = {
    "blocks, the other way round": pair(walked([f"for k in range(min(t // {COLUMNS} + 1, ceildiv(K, 64))):", "    {p-}"])),
    "elements": pair(walked(elements())),
    "elements, rounded up": pair(walked(rounded_up())),
    "from the last one": pair(walked(named(f"t // {COLUMNS}"))),
    "counted down": pair(walked(counted_down())),
    "two in each turn": pair(walked(halves())),
    "two in each turn, and the rest": pair(walked(several(2))),
    "four in each turn, and the rest": pair(walked(several(4))),
    "two in each turn, and the rest, of two blocks": pair(walked(several(2)), grid="2"),
    "four in each turn, and the rest, of four blocks": pair(walked(several(4)), grid="4"),
    "the tiles by hand": pair(by_hand(blocks())),
    "the tiles by hand, of few blocks": pair(by_hand(blocks()), grid=f"min({ALL}, 132)"),
    "keys of causal attention": attended("(m1 + 1) * 128"),
    "turns, from which the tile follows": by_turns("from the turn"),
    "turns by hand, from which the tile follows": by_turns("by hand"),
    "turns, and the tile beside them": by_turns("beside"),
    "turns counted down, and two in each": by_turns("down", several(2)),
    "a share of the tiles, and one more for some": by_turns("shared out"),
    "two in each turn, but for the last one": pair(walked(but_for_the_last()), grid=f"min({ALL}, 132)"),
}
WRONG = {
    "one more": pair(walked(blocks(row=f"t // {COLUMNS} + 2"))),
    "another row": pair(walked(blocks(row=f"t % {COLUMNS} + 1"))),
    "the next tile's": pair(walked(blocks(row=f"(t + 1) // {COLUMNS} + 1"))),
    "of other columns": pair(walked(blocks(row="t // ceildiv(M, 128) + 1"))),
    "up to the row": pair(walked(elements(reach="64 * m1"))),
    "an element more": pair(walked(elements(reach="64 * (m1 + 1) + 1"))),
    "more keys": pair(walked(elements(keys="K + 1"))),
    "rounded down": pair(walked([f"m1 = t // {COLUMNS}", "for k in range(min((m1 + 1) * 64, K) // 64):", "    {p-}"])),
    "the larger one": pair(walked([f"for k in range(max(ceildiv(K, 64), t // {COLUMNS} + 1)):", "    {p-}"])),
    "counted down from one more": pair(walked(counted_down("2"))),
    "another rest": pair(walked(halves("0"))),
    "two in each turn, and the rest from the next one on": pair(walked(several(2, "full + 1"))),
    "four in each turn, and all again": pair(walked(several(4, "0"))),
    "keys of causal attention, of the row before": attended("m1 * 128 + 64"),
    "a turn more": by_turns("one more"),
    "a turn less": by_turns("down to 1"),
    "another share": by_turns("shared out to one more"),
    "two in each turn, and another last one": pair(walked(but_for_the_last("==")), grid=f"min({ALL}, 132)"),
    "turns, and the next tile beside them": by_turns("from the next one on"),
}


def judged(kernel: Kernel, name: str) -> tuple[bool, str]:
    text = source(kernel, Draw(name)).replace("m: i32, ", "keys: tensor[f32, K, N], ")
    return not compile_source(Source("tiles.pipe", text), Options("sm_100a")).failed, text


@pytest.mark.parametrize("name", RIGHT)
def test_it_is_proved(name: str) -> None:
    proved, text = judged(RIGHT[name], name)
    assert proved, text


@pytest.mark.parametrize("name", WRONG)
def test_its_neighbour_is_not(name: str) -> None:
    proved, text = judged(WRONG[name], name)
    assert not proved, text
