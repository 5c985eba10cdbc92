"""What the roles of a random kernel count, each in several words: the tiles of a block, and the stages of a tile.

`{it}` is what is done each time. Words of one row count the same for all numbers that its condition admits; `value` says what.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

Numbers = Mapping[str, int]


@dataclass(frozen=True)
class Tile:
    """The number of a tile, and of the block along y that works on it; what memory holds."""

    number: int
    y: int
    memory: Sequence[int]

    def load(self, at: int) -> int:
        return self.memory[at] if 0 <= at < len(self.memory) else 0


@dataclass(frozen=True)
class Words:
    """`assumed`: of which launches they say the same. `shares`: the blocks along y have a part each."""

    said: tuple[str, ...]
    value: Callable[[Numbers, Tile], int]
    assumed: str = ""
    shares: bool = False


def up(number: int, by: int) -> int:
    return -(-number // by)


def _range(bounds: str) -> str:
    return f"for k in range({bounds}):\n    {{it}}"


def _between(number: int, low: int, high: int) -> int:
    return min(max(number, low), high)


def _share(numbers: Numbers, tile: Tile) -> int:
    steps, parts = up(numbers["K"], 64), numbers["parts"]
    return (tile.y + 1) * steps // parts - tile.y * steps // parts


def _even_share(numbers: Numbers, tile: Tile) -> int:
    per = up(up(numbers["K"], 64), numbers["parts"]) * 64
    return max(0, up(min(numbers["K"], tile.y * per + per) - tile.y * per, 64))


def _dealt_share(numbers: Numbers, tile: Tile) -> int:
    return max(0, up(up(numbers["K"], 64) - tile.y, numbers["parts"]))


_SHARE = "first = block.y * ceildiv(K, 64) // parts\nlast = (block.y + 1) * ceildiv(K, 64) // parts\n"
_EVEN = "per = ceildiv(ceildiv(K, 64), parts) * 64\nstart = block.y * per\n"
_LENGTH = "length = min(max(load(c[t]), 0), K)\n"
_ONCE = "length = max(0, min(load(c[block.y]), K))\n"

COUNTS: dict[str, Words] = {
    "elements": Words(
        (
            _range("ceildiv(K, 64)"),
            _range("(K + 63) // 64"),
            _range("0, K, 64"),
            _range("ceildiv(K, 64) - 1, -1, -1"),
            _range("(K - 1) // 64 * 64, -1, -64"),
            "left = K\nwhile left > 0:\n    {it}\n    left -= 64",
            "k = 0\nwhile k < K:\n    {it}\n    k += 64",
            "steps = K // 64\nif K % 64 != 0:\n    steps += 1\nfor k in range(steps):\n    {it}",
            "for k in range(K // 64):\n    {it}\nif K % 64 > 0:\n    {it}",
        ),
        lambda p, tile: up(p["K"], 64),
    ),
    "whole blocks": Words(
        (
            _range("0, K, 64"),
            _range("K - 64, -1, -64"),
            _range("K - 1, -1, -64"),
            _range("K // 64"),
            _range("1, K // 64 + 1"),
            "k = K\nwhile k > 0:\n    k -= 64\n    {it}",
            "k = K\nwhile k != 0:\n    k -= 64\n    {it}",
            "k = 0\nwhile k != K:\n    {it}\n    k += 64",
        ),
        lambda p, tile: p["K"] // 64,
        "K % 64 == 0",
    ),
    "number": Words(
        (
            _range("n"),
            _range("n - 1, -1, -1"),
            _range("1, n + 1"),
            _range("max(n, 0)"),
            _range("0, n * 2, 2"),
            "k = n\nwhile k > 0:\n    {it}\n    k -= 1",
            "k = 0\nwhile k < n:\n    k += 1\n    {it}",
            "if n > 0:\n    {it}\nfor k in range(1, n):\n    {it}",
            "for k in range(min(n, 2)):\n    {it}\nfor k in range(2, n):\n    {it}",
        ),
        lambda p, tile: max(p["n"], 0),
        "n < 1000000 and n > -1000000",
    ),
    "any number": Words(
        (
            _range("n"),
            _range("max(0, n)"),
            "k = n\nwhile k > 0:\n    {it}\n    k -= 1",
            "k = 0\nwhile k < n:\n    {it}\n    k += 1",
        ),
        lambda p, tile: max(p["n"], 0),
    ),
    "window": Words(
        (
            _range("s, s + m"),
            _range("m"),
            _range("s + m - 1, s - 1, -1"),
            "k = s\nwhile k < s + m:\n    {it}\n    k += 1",
            "k = s + m\nwhile k > s:\n    k -= 1\n    {it}",
            "last = s + m\nfor k in range(last - s):\n    {it}",
        ),
        lambda p, tile: max(p["m"], 0),
        "s > -1000 and s < 1000 and m < 1000 and m > -1000",
    ),
    "triangle of tiles": Words(
        (
            _range("t + 1"),
            _range("t, -1, -1"),
            "{it}\nfor k in range(t):\n    {it}",
            "k = 0\nwhile k <= t:\n    {it}\n    k += 1",
            _range("1, t + 2"),
        ),
        lambda p, tile: tile.number + 1,
    ),
    "causal": Words(
        (
            _range("min(ceildiv(K, 64), t + 1)"),
            _range("0, min(K, (t + 1) * 64), 64"),
            _range("ceildiv(min(K, 64 * t + 64), 64)"),
            "k = 0\nwhile k < ceildiv(K, 64) and k <= t:\n    {it}\n    k += 1",
            "reach = t + 1\nif reach > ceildiv(K, 64):\n    reach = ceildiv(K, 64)\nfor k in range(reach):\n    {it}",
        ),
        lambda p, tile: min(up(p["K"], 64), tile.number + 1),
    ),
    "triangle": Words(
        (
            "for i in range(n):\n    for j in range(i):\n        {it}",
            "for i in range(n - 1, -1, -1):\n    for j in range(i):\n        {it}",
            "for i in range(n):\n    for j in range(i + 1, n):\n        {it}",
            "for i in range(n):\n    for j in range(i - 1, -1, -1):\n        {it}",
            _range("n * (n - 1) // 2"),
            "for i in range(1, n):\n    for j in range(i):\n        {it}",
        ),
        lambda p, tile: p["n"] * (p["n"] - 1) // 2,
        "n >= 0 and n < 10000",
    ),
    "rectangle": Words(
        (
            "for i in range(n):\n    for j in range(m):\n        {it}",
            "for i in range(n):\n    for j in range(m - 1, -1, -1):\n        {it}",
            _range("n * m"),
            "k = n * m\nwhile k > 0:\n    {it}\n    k -= 1",
        ),
        lambda p, tile: p["n"] * p["m"],
        "n >= 0 and n < 10000 and m >= 0 and m < 10000",
    ),
    "sum": Words(
        (
            "for k in range(n):\n    {it}\nfor k in range(m):\n    {it}",
            _range("n + m"),
            "for k in range(m):\n    {it}\nfor k in range(m, n + m):\n    {it}",
            "k = n + m\nwhile k > 0:\n    {it}\n    k -= 1",
        ),
        lambda p, tile: p["n"] + p["m"],
        "n >= 0 and n < 10000 and m >= 0 and m < 10000",
    ),
    "loaded": Words(
        (
            _range("min(max(load(c[t]), 0), n)"),
            _range("min(load(c[t]), n)"),
            _range("min(n, load(c[t]))"),
            "reach = load(c[t])\nif reach > n:\n    reach = n\nfor k in range(reach):\n    {it}",
            "k = 0\nwhile k < load(c[t]) and k < n:\n    {it}\n    k += 1",
            "k = min(load(c[t]), n)\nwhile k > 0:\n    {it}\n    k -= 1",
        ),
        lambda p, tile: max(0, min(tile.load(tile.number), p["n"])),
    ),
    "loaded elements": Words(
        (
            _LENGTH + _range("0, length, 64"),
            _LENGTH + _range("ceildiv(length, 64)"),
            _LENGTH + _range("(length + 63) // 64"),
            _LENGTH + "while length > 0:\n    {it}\n    length -= 64",
            _LENGTH + "k = 0\nwhile k * 64 < length:\n    {it}\n    k += 1",
        ),
        lambda p, tile: up(_between(tile.load(tile.number), 0, p["K"]), 64),
    ),
    "loaded once": Words(
        (
            _ONCE + _range("0, length, 64"),
            _ONCE + _range("ceildiv(length, 64)"),
            _ONCE + "for p in range(2):\n    for k in range(p * 64, length, 128):\n        {it}",
            _ONCE + "while length > 0:\n    {it}\n    length -= 64",
        ),
        lambda p, tile: up(_between(tile.load(tile.y), 0, p["K"]), 64),
    ),
    "span": Words(
        (
            _range("load(c[t]), load(c[t + 1])"),
            "first = load(c[t])\nfor k in range(load(c[t + 1]) - first):\n    {it}",
            "k = load(c[t])\nlast = load(c[t + 1])\nwhile k < last:\n    {it}\n    k += 1",
        ),
        lambda p, tile: max(0, tile.load(tile.number + 1) - tile.load(tile.number)),
    ),
    "choice": Words(
        (
            _range("n if t % 2 == 0 else m"),
            "if t % 2 == 0:\n    for k in range(n):\n        {it}\nelse:\n    for k in range(m):\n        {it}",
            "reach = m\nif t - t // 2 * 2 == 0:\n    reach = n\nfor k in range(reach):\n    {it}",
            "k = 0\nwhile k < (m if t % 2 == 1 else n):\n    {it}\n    k += 1",
        ),
        lambda p, tile: max(0, p["m"] if tile.number % 2 else p["n"]),
    ),
    "share": Words(
        (
            _SHARE + _range("first, last"),
            _SHARE + _range("last - first"),
            _SHARE + _range("last - 1, first - 1, -1"),
            _SHARE + "left = last - first\nwhile left > 0:\n    {it}\n    left -= 1",
        ),
        _share,
        "K > 0",
        shares=True,
    ),
    "even share": Words(
        (
            _EVEN + _range("start, min(K, start + per), 64"),
            _EVEN + _range("ceildiv(min(K, start + per) - start, 64)"),
            _EVEN + _range("start // 64, ceildiv(min(K, start + per), 64)"),
            _EVEN + "left = min(K, start + per) - start\nwhile left > 0:\n    {it}\n    left -= 64",
        ),
        _even_share,
        "K > 0",
        shares=True,
    ),
    "dealt share": Words(
        (
            _range("block.y, ceildiv(K, 64), parts"),
            _range("ceildiv(ceildiv(K, 64) - block.y, parts)"),
            "k = block.y\nwhile k < ceildiv(K, 64):\n    {it}\n    k += parts",
            "mine = ceildiv(K, 64) // parts\nif block.y < ceildiv(K, 64) % parts:\n    mine += 1\nfor k in range(mine):\n    {it}",
        ),
        _dealt_share,
        "parts > 0 and parts < 1000",
        shares=True,
    ),
}

# The tiles of a block, `t`. `{first}` of `{blocks}` blocks; `value` gives their numbers.
_SHARED = "each = T // {blocks}\nmore = T % {blocks}\n"
WALKS: dict[str, tuple[str, ...]] = {
    "one": ("t = {first}\n{it}",),
    "dealt": (
        "for t in range({first}, T, {blocks}):\n    {it}",
        "t = {first}\nwhile t < T:\n    {it}\n    t += {blocks}",
        "for turn in range(ceildiv(T - {first}, {blocks})):\n    t = {first} + turn * {blocks}\n    {it}",
        "t = {first}\nfor turn in range(ceildiv(T - {first}, {blocks})):\n    {it}\n    t += {blocks}",
        (
            "remaining = ceildiv(T - {first}, {blocks})\nt = {first}\n"
            "while remaining > 0:\n    {it}\n    remaining -= 1\n    t += {blocks}"
        ),
        (
            "own = T // {blocks}\nif {first} < T % {blocks}:\n    own += 1\nt = {first}\n"
            "for turn in range(own):\n    {it}\n    t += {blocks}"
        ),
    ),
    "contiguous": (
        _SHARED + "begin = {first} * each + min({first}, more)\nend = begin + each + (1 if {first} < more else 0)\n"
        "for t in range(begin, end):\n    {it}",
        _SHARED + "begin = {first} * each + min({first}, more)\nown = each\nif {first} < more:\n    own += 1\n"
        "for turn in range(own):\n    t = begin + turn\n    {it}",
        _SHARED + "t = {first} * (each + 1) - max(0, {first} - more)\nend = t + (each + 1 if {first} < more else each)\n"
        "while t < end:\n    {it}\n    t += 1",
    ),
    "parts": (
        "for t in range({first} * T // {blocks}, ({first} + 1) * T // {blocks}):\n    {it}",
        (
            "begin = {first} * T // {blocks}\nend = ({first} + 1) * T // {blocks}\n"
            "for turn in range(end - begin):\n    t = begin + turn\n    {it}"
        ),
        "t = {first} * T // {blocks}\nwhile t < ({first} + 1) * T // {blocks}:\n    {it}\n    t += 1",
    ),
    "every": ("for t in range(T):\n    {it}", "t = 0\nwhile t < T:\n    {it}\n    t += 1"),
    "static": ("for tile in tiles:\n    t = tile.x\n    {it}",),
    "clc": ("for tile in tiles:\n    t = tile.x\n    {it}",),
}


def tiles_of(walk: str, block: int, blocks: int, total: int) -> range:
    match walk:
        case "one":
            return range(block, block + 1)
        case "every":
            return range(total)
        case "dealt" | "static":
            return range(block, total, blocks)
        case "contiguous":
            each, more = divmod(total, blocks)
            begin = block * each + min(block, more)
            return range(begin, begin + each + (block < more))
        case "parts":
            return range(block * total // blocks, (block + 1) * total // blocks)
    raise ValueError(walk)


# Conditions on a tile under which something is handed over, in words of two roles; of `m` and the tile's number.
GUARDS: tuple[tuple[tuple[str, ...], Callable[[int, int], bool]], ...] = (
    (("t % 2 == 0", "t - t // 2 * 2 == 0", "not t % 2 == 1"), lambda t, m: t % 2 == 0),
    (("t < m", "m > t", "not t >= m"), lambda t, m: t < m),
    (("m > 1", "m >= 2", "not m <= 1"), lambda t, m: m > 1),
    (("t > 0 and t < m", "t < m and t >= 1"), lambda t, m: 0 < t < m),
)
# What is changed in one place of a wrong kernel's words.
CHANGES: tuple[tuple[str, tuple[str, ...]], ...] = (
    (r" \+ 1\b", (" + 2", "", " - 1")),
    (r" - 1\b", (" - 2", "", " + 1")),
    (r" < ", (" <= ", " != ")),
    (r" <= ", (" < ",)),
    (r" > ", (" >= ", " != ")),
    (r" != ", (" > ",)),
    (r" == ", (" != ", " <= ")),
    (r"\bmin\(", ("max(",)),
    (r"\bmax\(", ("min(",)),
    (r"\bceildiv\(([^()]*), (\w+)\)", (r"(\1 // \2)", r"((\1 + \2 - 1) // \2)", r"((\1 - 1) // \2 + 1)")),
    (r"\b64\b", ("63", "32", "65", "128")),
    (r"\b63\b", ("64", "62", "0")),
    (r"\b2\b", ("1", "3")),
    (r"\bn\b", ("m", "(n + 1)", "s")),
    (r"\bm\b", ("n", "(m - 1)")),
    (r"\bK\b", ("(K + 1)", "(K - 1)", "T", "n")),
    (r"\bT\b", ("(T + 1)", "(T - 1)", "n")),
    (r"\bs\b", ("0", "n")),
    (r"c\[t\]", ("c[t + 1]", "c[0]", "c[block.x]")),
    (r"c\[block\.y\]", ("c[block.x]", "c[0]")),
    (r"\bt\b(?! =| in)", ("(t + 1)", "0", "block.x")),
    (r"\bparts\b", ("(parts + 1)", "2", "grid.x")),
    (r"\bper\b(?! =)", ("(per + 64)", "64")),
    (r" // ", (" % ",)),
    (r" % ", (" // ",)),
    (r"\bmore\b(?! =)", ("(more + 1)", "each")),
    (r"\bblock\.[xy]\b", ("(block.x + 1)", "0")),
    (r"\bgrid\.x\b", ("(grid.x + 1)", "2")),
    (r"range\(0, ", ("range(1, ", "range(-1, ")),
    (r"-1, -1\)", ("0, -1)", "-2, -1)")),
    (r"\bi\b(?! in)", ("(i + 1)", "n")),
)
