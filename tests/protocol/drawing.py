"""Kernels that are drawn as source text: a role is its lines, in which `{p+}` fills a stage of the pipeline p and `{p-}` reads one."""

import random
import re
import textwrap
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

Lines = list[str]


def indented(lines: Lines) -> Lines:
    return [f"    {line}" for line in lines]


@dataclass
class Kernel:
    """`pipes`: name -> (stages, producer, consumer). `roles`: name -> lines."""

    pipes: dict[str, tuple[int, str, str]] = field(default_factory=dict)
    roles: dict[str, Lines] = field(default_factory=dict)
    warps: dict[str, int] = field(default_factory=dict)
    blocks: str = "1"


class Draw:
    def __init__(self, seed: int | str) -> None:
        self.random = random.Random(seed)
        self.names = 0

    def of(self, *choices: object) -> object:
        return self.random.choice(choices)

    def text(self, *choices: str) -> str:
        return self.random.choice(choices)

    def depth(self, least: int = 1) -> int:
        return self.random.randint(least, least + 3)

    def chance(self, probability: float) -> bool:
        return self.random.random() < probability

    def name(self) -> str:
        self.names += 1
        return f"v{self.names}"

    def loop(self, bound: str, body: Callable[[str], Lines] | Lines, start: str = "0") -> Lines:
        """One turn for each number from `start` to `bound`, which `body` gets as an expression."""
        name = self.name()
        way = self.random.randrange(6) if start == "0" else self.random.randrange(2)
        if way == 0:
            return self._while(name, start, bound, body)
        if way == 1 and start == "0":
            return [f"for {name} in range(1, {bound} + 1):", *indented(_body(body, f"({name} - 1)"))]
        if way == 2:
            return [f"for {name} in range({bound} - 1, -1, -1):", *indented(_body(body, f"({bound} - 1 - {name})"))]
        head = f"for {name} in range({bound}):" if start == "0" else f"for {name} in range({start}, {bound}):"
        return [head, *indented(_body(body, name))]

    @staticmethod
    def _while(name: str, start: str, bound: str, body: Callable[[str], Lines] | Lines) -> Lines:
        return [f"{name} = {start}", f"while {name} < {bound}:", *indented([*_body(body, name), f"{name} += 1"])]

    def plain(self, bound: str, body: Callable[[str], Lines] | Lines, start: str = "0") -> Lines:
        name = self.name()
        head = f"for {name} in range({bound}):" if start == "0" else f"for {name} in range({start}, {bound}):"
        return [head, *indented(_body(body, name))]

    def tiles(self, kernel: Kernel, probability: float = 0.4) -> Kernel:
        """Everything once for each tile, at times those of this block."""
        if not self.chance(probability):
            return kernel
        if self.chance(0.4):
            kernel.blocks = "4"
            heads = ["for t in range(block.x, m, 4):", "for t in range(block.x, m, grid.x):"]
            if self.chance(0.5):
                heads = [self.text(*heads)]
        else:
            heads = ["for t in range(m):", "for t in range(1, m + 1):", "for t in range(m - 1, -1, -1):"]
        kernel.roles = {name: [self.text(*heads), *indented(lines)] for name, lines in kernel.roles.items()}
        return kernel


def _body(body: Callable[[str], Lines] | Lines, index: str) -> Lines:
    return list(body(index)) if callable(body) else list(body)


def pair(draw: Draw, produced: Lines, consumed: Lines, depth: int | None = None, tiles: float = 0.4) -> Kernel:
    stages = draw.depth() if depth is None else depth
    return draw.tiles(Kernel({"p": (stages, "a", "b")}, {"a": produced, "b": consumed}), tiles)


def two_ways(draw: Draw, a: Lines, b: Lines, p: int, q: int) -> Kernel:
    """p from a to b, q back."""
    return draw.tiles(Kernel({"p": (p, "a", "b"), "q": (q, "b", "a")}, {"a": a, "b": b}))


_STAGE = re.compile(r"^( *)\{(\w+)([+-])\}$")


def _said(draw: Draw, line: str) -> Iterator[str]:
    """A line, or one of the ways to use a stage."""
    found = _STAGE.match(line)
    if not found:
        yield line
        return
    blank, pipe, sign = found.groups()
    word, side = ("produce", "producer") if sign == "+" else ("consume", "consumer")
    match draw.random.randrange(3):
        case 0:
            yield f"{blank}{pipe}.{side}_signal_and_step()"
        case 1:
            yield from (f"{blank}with {pipe}.{word}() as s{draw.name()}:", f"{blank}    pass")
        case _:
            name = f"s{draw.name()}"
            yield from (f"{blank}{name} = {pipe}.acquire_{side}()", f"{blank}{name}.release()")


def source(kernel: Kernel, draw: Draw) -> str:
    lines = ["kernel k(n: i32, m: i32, ix: tensor[i32, M], z: tensor[f32, M, N]):", f"    grid({kernel.blocks})"]
    lines += [f"    {name} = ProducerConsumerPipeline(stages={stages})" for name, (stages, _, _) in kernel.pipes.items()]
    for role, body in kernel.roles.items():
        produces = ", ".join(name for name, (_, producer, _) in kernel.pipes.items() if producer == role)
        consumes = ", ".join(name for name, (_, _, consumer) in kernel.pipes.items() if consumer == role)
        sides = (f" produces {produces}" if produces else "") + (f" consumes {consumes}" if consumes else "")
        lines.append(f"    role {role}(warps={kernel.warps.get(role, 1)}){sides}:")
        lines.append(textwrap.indent("\n".join(one for line in body for one in _said(draw, line)), "        "))
    return "\n".join(lines) + "\n"
