"""Random kernels of two roles that count the same stages in different words: shares of tiles, loops over the blocks of K of each or one
over those of all, walks in pieces, and bounds in memory. In most of them one thing is changed.

The judge is Python with integers of 32 bits that wrap around, which runs the text of each role for single blocks: of sizes as small as 0,
and of those where a sum or product is near 2^31 and a block has little to do, which no simulator could launch.
"""

import random
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from types import SimpleNamespace

from fuzz.integers import Int, compiled

MOST = 150  # stages that are counted of a role
LARGEST = (1 << 31) - 1
Lines = list[str]
Numbers = Mapping[str, int]

# How many tiles there are, how many blocks of K each has, and how many blocks the grid has.
TILES = ("M", "ceildiv(M, 64)", "ceildiv(M, 3)", "ceildiv(M, 64) * N", "M * N", "ceildiv(M, 128) * ceildiv(N, 2)")
STEPS = ("K", "ceildiv(K, 64)", "ceildiv(K, 2)", "L * ceildiv(K, 64)", "s", "L")
GRIDS = ("min({T}, 132)", "min({T}, 132)", "132", "3", "1", "4", "{T}", "gpu.multiprocessors", "min({T}, gpu.multiprocessors)")

_SHARED = "each = {T} // grid.x\nmore = {T} % grid.x\n"
_BEGINS = (
    "begin = block.x * each + min(block.x, more)",
    "begin = block.x * each + (block.x if block.x < more else more)",
    "begin = block.x * (each + 1) if block.x < more else more * (each + 1) + (block.x - more) * each",
    "begin = block.x * (each + 1) - max(0, block.x - more)",
    "begin = block.x * each + more\nif block.x < more:\n    begin = block.x * (each + 1)",
)
_ENDS = (
    "end = (block.x + 1) * each + min(block.x + 1, more)",
    "end = begin + each + (1 if block.x < more else 0)",
    "end = begin + each\nif block.x < more:\n    end += 1",
    "end = begin + (each + 1 if block.x < more else each)",
)
_LAST_BEGINS = (
    "begin = block.x * each + max(0, block.x - (grid.x - more))",
    "begin = block.x * each + max(block.x + more - grid.x, 0)",
)
_LAST_ENDS = (
    "end = (block.x + 1) * each + max(0, block.x + 1 - (grid.x - more))",
    "end = begin + each + (1 if block.x >= grid.x - more else 0)",
    "end = begin + each\nif block.x + more >= grid.x:\n    end += 1",
)
# The tiles of a block, `{it}` for each.
_WALKS = {
    "strided": (
        "for t in range(block.x, {T}, grid.x):\n    {it}",
        "t = block.x\nwhile t < {T}:\n    {it}\n    t += grid.x",
        "for i in range(ceildiv({T} - block.x, grid.x)):\n    {it}",
        "mine = {T} // grid.x\nif block.x < {T} % grid.x:\n    mine += 1\nfor i in range(mine):\n    {it}",
        "left = ceildiv({T} - block.x, grid.x)\nwhile left > 0:\n    {it}\n    left -= 1",
        "for i in range(({T} - block.x + grid.x - 1) // grid.x):\n    {it}",
    ),
    "shares": (
        "for t in range(begin, end):\n    {it}",
        "for i in range(end - begin):\n    {it}",
        "t = begin\nwhile t < end:\n    {it}\n    t += 1",
        "left = end - begin\nwhile left != 0:\n    {it}\n    left -= 1",
    ),
}
_NESTS = (
    "for k in range({S}):\n    {it}",
    "k = 0\nwhile k < {S}:\n    {it}\n    k += 1",
    "n = {S}\nfor k in range(n):\n    {it}",
    "k = {S}\nwhile k > 0:\n    {it}\n    k -= 1",
)
_FLAT = {
    "strided": (
        "for i in range(ceildiv({T} - block.x, grid.x) * {S}):\n    {it}",
        "mine = {T} // grid.x + (1 if block.x < {T} % grid.x else 0)\nfor i in range(mine * {S}):\n    {it}",
        (
            "k = 0\nt = block.x\nfor i in range(ceildiv({T} - block.x, grid.x) * {S}):\n    {it}\n    k += 1\n"
            "    if k == {S}:\n        k = 0\n        t += grid.x"
        ),
    ),
    "shares": (
        "for i in range((end - begin) * {S}):\n    {it}",
        "for u in range(begin * {S}, end * {S}):\n    {it}",
        "u = begin * {S}\nwhile u < end * {S}:\n    {it}\n    u += 1",
    ),
}
_PIECES = (
    "for u in range(begin, end):\n    {it}",
    "u = begin\nwhile u < end:\n    stop = min(end, (u // {S} + 1) * {S})\n    for k in range(u, stop):\n        {it}\n    u = stop",
    "u = begin\nwhile u < end:\n    stop = min(end, u - u % {S} + {S})\n    while u < stop:\n        {it}\n        u += 1",
    "for i in range(end - begin):\n    {it}",
)
# Turns that a length in memory counts.
_LOADED = (
    "for j in range(ceildiv(load(lengths[{at}]), 64)):\n    {it}",
    "for j in range((load(lengths[{at}]) + 63) // 64):\n    {it}",
    "for j in range(0, load(lengths[{at}]), 64):\n    {it}",
    "n = load(lengths[{at}])\nseen = 0\nwhile seen < n:\n    {it}\n    seen += 64",
    "n = load(lengths[{at}])\nwhile n > 0:\n    {it}\n    n -= 64",
    "first = load(lengths[{at}])\nfor j in range(first, first + {S}):\n    {it}",
)
_BETWEEN = (
    "for j in range(load(begins[{at}]), load(lengths[{at}])):\n    {it}",
    "first = load(begins[{at}])\nfor j in range(load(lengths[{at}]) - first):\n    {it}",
    "j = load(begins[{at}])\nwhile j < load(lengths[{at}]):\n    {it}\n    j += 1",
)
_GUARDS = (
    ("t + {S} <= {T}", "t <= {T} - {S}"),
    ("t * {S} < {T}", "t < ceildiv({T}, {S})"),
    ("t + 1 < {T}", "t < {T} - 1"),
    ("t + s > 5", "t > 5 - s"),
    ("t % 2 == 0", "t - t // 2 * 2 == 0"),
)
# What is changed in one place.
_CHANGES = (
    (r" \+ 1\b", (" + 2", "", " - 1")),
    (r"\b1 if", ("2 if", "0 if")),
    (r" < ", (" <= ", " != ")),
    (r" <= ", (" < ",)),
    (r" > ", (" >= ", " != ")),
    (r" >= ", (" > ",)),
    (r"\bmin\(", ("max(",)),
    (r"\bmax\(", ("min(",)),
    (r"\bceildiv\((.*?), (\d+)\)", (r"(\1 // \2)", r"((\1 + \2 - 1) // \2)", r"((\1 - 1) // \2 + 1)")),
    (r"\bblock\.x\b", ("(block.x + 1)", "0")),
    (r"\bmore\b", ("(more + 1)", "(more - 1)", "each")),
    (r"\beach\b", ("(each + 1)", "more")),
    (r" // ", (" % ",)),
    (r"\bgrid\.x\b", ("(grid.x - 1)", "(grid.x + 1)")),
    (r"\bend\b", ("(end + 1)", "begin")),
    (r"\b63\b", ("64", "62", "0")),
    (r"\b64\b", ("63", "32", "65")),
    (r" == ", (" > ", " != ")),
    (r" != ", (" > ",)),
)


@dataclass(frozen=True)
class Program:
    source: str
    roles: tuple[str, str]
    grid: str
    stages: int

    def launches(self, chance: random.Random) -> Iterator[dict[str, int]]:
        """Numbers for the names of the source, and one block of the grid; without end."""
        while True:
            numbers = {name: _size(chance) for name in "MNKL"}
            numbers["s"] = _size(chance) * chance.choice((1, 1, 1, -1))
            numbers["gpu.multiprocessors"] = chance.choice((1, 2, 3, 7, 132))
            try:
                grid = _blocks(self.grid, numbers)
            except ZeroDivisionError:
                continue
            if 1 <= grid < 1 << 31:
                place = chance.choice((0, grid - 1, chance.randrange(grid), min(grid - 1, chance.randrange(5))))
                yield numbers | {"grid.x": grid, "block.x": place}

    def counts(self, numbers: Numbers, memory: int) -> tuple[int | None, int | None]:
        """How many stages each role takes; None if that is not known, as it takes too many, or divides by 0. `memory`: a seed."""
        first, second = (_counted(body, numbers, memory) for body in self.roles)
        return first, second

    def hangs(self, numbers: Numbers, memory: int) -> bool:
        """Whether it is known that one role waits for the other for ever: some stages may be left filled."""
        filled, taken = self.counts(numbers, memory)
        return filled is not None and taken is not None and not 0 <= filled - taken <= self.stages


def _size(chance: random.Random) -> int:
    match chance.randrange(8):
        case 0 | 1 | 2:
            return chance.randrange(13)
        case 3:
            return chance.randrange(700)
        case 4:
            return LARGEST - chance.randrange(140)
        case 5:
            return max(0, min(LARGEST, (1 << chance.randrange(32)) + chance.randrange(-3, 4)))
        case 6:
            return chance.randrange(1 << 16)
        case _:
            return chance.randrange(1 << chance.randrange(1, 32))


class _Unknown(Exception):
    """More stages than are counted, or a counter of `range` that wraps around."""


class _Place(int):
    """`block` and `grid`, which are only asked for x."""

    x: Int


def _blocks(grid: str, numbers: Numbers) -> int:
    """As a launch computes them: exactly."""
    names = {name: number for name, number in numbers.items() if "." not in name}
    gpu = SimpleNamespace(multiprocessors=numbers["gpu.multiprocessors"])
    return int(eval(grid, {"ceildiv": lambda number, by: -(-number // by), "gpu": gpu, **names}))


def _range(*bounds: int) -> Iterator[Int]:
    begin, end, step = (Int(0), *bounds, Int(1)) if len(bounds) == 1 else (*bounds, Int(1))[:3]
    if step <= 0:
        raise _Unknown
    at = int(begin)
    while at < end:
        yield Int(at)
        at += step


def _ceildiv(number: int, by: int) -> Int:
    return Int(-(-int(number) // int(by)))


def _names(numbers: Numbers, memory: int) -> dict[str, object]:
    names: dict[str, object] = {name: Int(number) for name, number in numbers.items() if "." not in name}
    for name in ("block", "grid", "gpu"):
        here = _Place(0)
        for whole, number in numbers.items():
            if whole.startswith(name + "."):
                setattr(here, whole.partition(".")[2], Int(number))
        names[name] = here

    class Memory:
        def __init__(self, tensor: int) -> None:
            self.tensor = tensor

        def __getitem__(self, at: int) -> Int:
            draw = random.Random(memory * 7919 + int(at) * 31 + self.tensor)
            return Int(
                draw.choice((0, 1, -1, draw.randrange(-9, 9), draw.randrange(300), draw.randrange(64, 70), -draw.randrange(300)))
            )

    return names | {
        "lengths": Memory(1), "begins": Memory(2), "load": lambda it: it, "range": _range, "ceildiv": _ceildiv,
        "min": min, "max": max, "_Int": Int,
    }  # fmt: skip


def _counted(body: str, numbers: Numbers, memory: int) -> int | None:
    taken = 0
    turns = 0

    def take() -> None:
        nonlocal taken
        taken += 1
        if taken > MOST:
            raise _Unknown

    def turn() -> None:
        nonlocal turns
        turns += 1
        if turns > 4 * MOST:
            raise _Unknown

    # (Loops without stages end, too.)
    text = re.sub(r"^( *)((?:for|while) .*:)$", r"\1\2\n\1    _turn()", body, flags=re.MULTILINE)
    names = _names(numbers, memory) | {"_take": take, "_turn": turn}
    try:
        exec(compiled(text.replace("{it}", "_take()"), "role"), names)  # noqa: S102 - the text is our own
    except (_Unknown, ZeroDivisionError):
        return None
    return taken


def _put(words: str, inner: str) -> str:
    """The words with others in place of `{it}`, as deep as that stands."""
    lines = []
    for line in words.split("\n"):
        indent = line[: len(line) - len(line.lstrip())]
        lines += [indent + one for one in inner.split("\n")] if line.strip() == "{it}" else [line]
    return "\n".join(lines)


def draw(chance: random.Random) -> Program:
    tiles, steps = chance.choice(TILES), chance.choice(STEPS)
    grid = chance.choice(GRIDS).replace("{T}", "tiles")
    kind = chance.choice(("strided", "shares", "shares", "last", "pieces", "memory", "between", "memory of tiles"))
    guard = chance.choice(_GUARDS) if chance.random() < 0.15 and kind != "pieces" else None
    deep = chance.random() < 0.7
    roles = [_role(chance, kind, guard and guard[which], deep=deep) for which in (0, 1)]
    if chance.random() < 0.7:
        which = chance.randrange(2)
        roles[which] = _changed(chance, roles[which])
    bodies = [one.replace("{T}", "tiles").replace("{S}", "steps").replace("{at}", "block.x") for one in roles]
    head = f"tiles = {tiles}\nsteps = {steps}\n"
    stages = chance.choice((1, 1, 2, 3))
    assumed = chance.choice(("", "", "    assume(K > 0 and L > 0 and s > 0)\n", "    assume(M > 0 and N > 0)\n"))
    source = (
        "kernel k(x: tensor[f32, M, N], y: tensor[f32, K, L], s: i32, lengths: tensor[i32, B], begins: tensor[i32, B]):\n"
        f"    tiles = {tiles}\n    steps = {steps}\n    grid({grid})\n{assumed}"
        f"    p = ProducerConsumerPipeline(stages={stages})\n"
    )
    for name, verb, signal, body in (
        ("fill", "produces", "producer", bodies[0]),
        ("take", "consumes", "consumer", bodies[1]),
    ):
        lines = body.replace("{it}", f"p.{signal}_signal_and_step()").split("\n")
        source += f"    role {name}(warps=1) {verb} p:\n" + "".join(f"        {line}\n" for line in lines)
    grid = grid.replace("tiles", f"({tiles})")
    return Program(source, (head + bodies[0], head + bodies[1]), grid, stages)


def _role(chance: random.Random, kind: str, guard: str | None, *, deep: bool) -> str:
    """`deep`: with the blocks of K of each tile."""
    it = "{it}"
    if guard is not None:
        it = f"if {guard}:\n    {{it}}"
    flat: tuple[str, ...]
    walks: tuple[str, ...]
    match kind:
        case "memory" | "between":
            words: tuple[str, ...] = _LOADED if kind == "memory" else _BETWEEN
            if guard is not None:
                words = tuple(one for one in words if "for j" in one)
            return _put(chance.choice(words), it.replace("t ", "j "))
        case "memory of tiles":
            walk = _numbered(chance)
            return _put(walk, _put(chance.choice(_LOADED).replace("{at}", "t"), it))
        case "pieces":
            shared = _SHARED.replace("{T}", "({T} * {S})")
            return shared + chance.choice(_BEGINS) + "\n" + chance.choice(_ENDS) + "\n" + chance.choice(_PIECES)
        case "strided":
            flat, walks, before = _FLAT["strided"], _WALKS["strided"], ""
        case "shares":
            flat, walks = _FLAT["shares"], _WALKS["shares"]
            before = _SHARED + chance.choice(_BEGINS) + "\n" + chance.choice(_ENDS) + "\n"
        case _:
            flat, walks = _FLAT["shares"], _WALKS["shares"]
            before = _SHARED + chance.choice(_LAST_BEGINS) + "\n" + chance.choice(_LAST_ENDS) + "\n"
    if guard is not None:
        walks = tuple(one for one in walks if one.startswith(("for t", "t =")))
        return before + _put(chance.choice(walks), _put(chance.choice(_NESTS), it))
    if deep and chance.random() < 0.4:
        return before + chance.choice(flat)
    return before + _put(chance.choice(walks), _put(chance.choice(_NESTS), it) if deep else it)


def _numbered(chance: random.Random) -> str:
    return chance.choice([one for one in _WALKS["strided"] if one.startswith(("for t", "t ="))])


def _changed(chance: random.Random, text: str) -> str:
    places = [
        (found, others)
        for pattern, others in _CHANGES
        for found in re.finditer(pattern, text)
        if not re.match(r" [-+*/]*= ", text[found.end() :])
    ]
    if not places:
        return text
    found, others = chance.choice(places)
    return text[: found.start()] + found.expand(chance.choice(others)) + text[found.end() :]
