"""Random turns of blocks in loops and under conditions: where the reader says that they come if blocks start in order, blocks that run one
after the other come to no turn that has not been passed on."""

import random
from dataclasses import dataclass
from itertools import product

from pipec.driver import Options, compile_source
from pipec.source import Source
from pipec.verify.reader.read import read

COUNT = 2000
PARAMETERS = range(7)  # values of n
_MOST_TURNS = 400  # of one launch
HEAD = """kernel k(y: tensor[f32, 64, 64], c: tensor[i32, T], d: tensor[i32, T, R], n: i32):
    grid({x}, {y}, {z})
    role only(warps=1):
"""


@dataclass(frozen=True)
class Drawn:
    """`lines` of the role, in which what a turn does is `pass`."""

    grid: tuple[int, int, int]
    lines: tuple[str, ...]

    def source(self) -> str:
        x, y, z = self.grid
        body = [line.replace("pass", "store(y[0, 0], fill(1.0, f32, 64, 64))") for line in self.lines]
        return HEAD.format(x=x, y=y, z=z) + "".join(f"        {line}\n" for line in body)

    def blocked(self) -> str | None:
        """A launch in which a block comes to a turn that never comes, if its blocks run one after the other; None if there is none."""
        code = compile("\n".join(_in_python(line) for line in self.lines), "turns", "exec")
        x, y, z = self.grid
        for n in PARAMETERS:
            counters: dict[object, int] = {}
            for block in product(range(z), range(y), range(x)):
                places = {"n": n, "x": block[2], "y": block[1], "z": block[0], "gx": x, "gy": y, "gz": z}
                try:
                    exec(code, {**places, "turn": _turns(counters)})  # noqa: S102 - drawn here
                except _Blocked:
                    return f"n = {n}, block {block[::-1]}"
                except _TooMany:
                    break
        return None


class _Blocked(Exception):
    pass


class _TooMany(Exception):
    pass


def _turns(counters: dict[object, int]) -> object:
    def turn(where: object, number: int, many: int) -> None:
        if len(counters) > _MOST_TURNS:
            raise _TooMany
        if counters.setdefault(where, 0) != number:
            raise _Blocked
        counters[where] = number + 1 if number + 1 < many else 0

    return turn


def _in_python(line: str) -> str:
    for place in "xyz":
        line = line.replace(f"block.{place}", place).replace(f"grid.{place}", f"g{place}")
    indent = line[: len(line) - len(line.lstrip())]
    if "semaphore" in line:
        inside = line[line.index("semaphore(") + len("semaphore(") : line.rindex("):")]
        where, _, rest = inside.partition("], ")
        tensor, _, index = where.partition("[")
        return f"{indent}if turn(({tensor!r}, {index}), {rest}) is None:"
    return line


def draw(chance: random.Random) -> Drawn:
    grid = chance.choice([(1, 1, 3), (1, 1, 3), (2, 1, 3), (1, 2, 2), (2, 2, 2), (3, 1, 2), (2, 3, 1)])
    turn = chance.choice(["block.z"] * 12 + ["block.y", "block.x", "block.y * 2 + block.x"])
    many = {"block.z": grid[2], "block.y": grid[1], "block.x": grid[0]}.get(turn, grid[0] * grid[1])
    return Drawn(grid, tuple(_statements(chance, 0, ["n"], turn, many)))


def _statements(chance: random.Random, depth: int, names: list[str], turn: str, many: int) -> list[str]:
    lines: list[str] = []
    for _ in range(chance.choice((1, 1, 1, 1, 2))):
        kind = chance.choice(("for", "if", "turn", "turn")) if depth else chance.choice(("for", "for", "if", "turn"))
        if kind == "turn" or depth == 3:
            index = _sum(chance, names)
            where = (
                f"c[{index}]"
                if chance.random() < 0.6
                else f"d[{index}, {chance.choice(('block.x', 'block.y', _sum(chance, names)))}]"
            )
            lines += [f"with semaphore({where}, {turn}, {many}):", "    pass"]
        elif kind == "if":
            test = f"{_sum(chance, names)} {chance.choice(('<', '>=', '=='))} {_sum(chance, names)}"
            inside = _statements(chance, depth + 1, names, turn, many)
            lines += [f"if {test}:", *(f"    {line}" for line in inside)]
        else:
            name = f"t{depth}"
            inside = _statements(chance, depth + 1, [*names, name, name], turn, many)
            lines += [f"for {name} in range({_bounds(chance, names)}):", *(f"    {line}" for line in inside)]
    return lines


def _bounds(chance: random.Random, names: list[str]) -> str:
    end = chance.choice(("n", "4", "n", "4", "n + 1", "6 - block.z", "n + block.x", "block.z + 1"))
    if chance.random() < 0.3:
        return f"block.x, {end}, grid.x"
    start = chance.choice(("", "", "", "1, ", "n, ", "block.y, ", f"{names[-1]}, "))
    return f"{start}{end}{', 2' if start and chance.random() < 0.3 else ''}"


def _sum(chance: random.Random, names: list[str]) -> str:
    """None is divided or reduced that may be negative: there the language and Python differ."""
    one = names[-1] if chance.random() < 0.6 else chance.choice([*names, "block.x", "block.y", "block.z", "0", "1", "2"])
    match chance.randrange(16):
        case 0:
            return f"{one} + {chance.choice([*names, 'block.x', 'block.z', '1'])}"
        case 1:
            return f"2 * {one} + {chance.choice(('0', '1', 'block.x'))}"
        case 2:
            return f"9 - {one}"
        case 3:
            return f"{one} // 2"
        case 4:
            return f"{one} % 3"
    return one


def attempt(chance: random.Random) -> str | None:
    drawn = draw(chance)
    compiled = compile_source(Source("k.pipe", drawn.source()), Options(unchecked=True), until="emit")
    if compiled.ptx is None:
        return f"does not compile: {compiled.sink}\n{drawn.source()}"
    kinds = {one.kind for one in read(compiled.ptx, "k").assumptions}
    blocked = drawn.blocked()
    return f"said to come, and blocked at {blocked}\n{drawn.source()}" if "turns" in kinds and blocked else None
