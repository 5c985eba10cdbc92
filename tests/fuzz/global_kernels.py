"""Random kernels whose roles load and store the same tensors, and what they must compute.

Each is a list of steps in the order in which the kernel's author thinks of them: a step belongs to one of two roles, takes a tile of one
tensor, and stores it, changed a little, to another place. Where the text hands over from one role to the other it may forget to, so that
nothing orders the two; pipec refuses such a kernel, or shows that the order does not matter. In either case the steps in their order say
what the tensors hold at the end.
"""

import random
from dataclasses import dataclass

import numpy as np

TENSORS = ("x", "y", "z")
ROWS, COLUMNS, TILE = 64, 16, 16  # a tile is TILE rows of COLUMNS


@dataclass(frozen=True)
class Step:
    """`trips` above 1: a loop, whose iteration i moves both places by i tiles. Block b moves them by b times `apart` rows."""

    role: int
    source: str
    source_row: int
    target: str
    target_row: int
    added: int
    path: str  # "tma", "direct" or "registers": loaded, kept, then stored
    trips: int = 1
    apart: tuple[int, int] = (0, 0)

    def lines(self) -> list[str]:
        call = "store.direct" if self.path == "direct" else "store"
        moved = f" + i * {TILE}" if self.trips > 1 else ""
        away, off = (f" + block.x * {rows}" if rows else "" for rows in self.apart)
        value = f"load({self.source}[{self.source_row}{away}{moved}, 0], {TILE}, {COLUMNS}) + {self.added}.0"
        target = f"{self.target}[{self.target_row}{off}{moved}, 0]"
        body = [f"{call}({target}, {value})"]
        if self.path == "registers":
            body = [f"t = registers({value})", f"store({target}, t)"]
        return body if self.trips == 1 else [f"for i in range({self.trips}):", *(f"    {line}" for line in body)]

    def rows(self, block: int) -> list[tuple[int, int]]:
        """The first rows that it loads and stores, by iteration."""
        source, target = self.source_row + block * self.apart[0], self.target_row + block * self.apart[1]
        return [(source + trip * TILE, target + trip * TILE) for trip in range(self.trips)]

    def apply(self, tensors: dict[str, np.ndarray], block: int) -> None:
        for first, last in self.rows(block):
            values = np.zeros((TILE, COLUMNS), np.float32)
            found = tensors[self.source][first : first + TILE]
            values[: len(found)] = found
            tensors[self.target][last : last + TILE] = (values + self.added)[: max(0, ROWS - last)]


@dataclass(frozen=True)
class Case:
    warps: tuple[int, int]
    steps: tuple[Step, ...]
    handed: tuple[bool, ...]  # whether the change of roles in front of a step is told to the other role
    blocks: int = 1

    def source(self) -> str:
        roles: tuple[list[str], list[str]] = ([], [])
        pipelines: list[str] = []
        for number, step in enumerate(self.steps):
            before = self.steps[number - 1].role if number else step.role
            if before != step.role and self.handed[number]:
                name = f"p{number}"
                pipelines.append((name, before))
                roles[before].append(f"{name}.producer_signal_and_step()")
                roles[step.role].append(f"{name}.consumer_signal_and_step()")
            roles[step.role].extend(step.lines())
        parameters = ", ".join(f"{name}: tensor[f32, {ROWS}, {COLUMNS}]" for name in TENSORS)
        lines = [f"kernel k({parameters}):", f"    grid({self.blocks})"]
        lines += [f"    {name} = ProducerConsumerPipeline(stages=1)" for name, _ in pipelines]
        for number, body in enumerate(roles):
            produces = ", ".join(name for name, by in pipelines if by == number)
            consumes = ", ".join(name for name, by in pipelines if by != number)
            sides = f"{f' produces {produces}' if produces else ''}{f' consumes {consumes}' if consumes else ''}"
            if body:
                lines += [f"    role r{number}(warps={self.warps[number]}){sides}:", *(f"        {line}" for line in body)]
        return "\n".join(lines) + "\n"

    def expected(self, start: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
        tensors = {name: array.copy() for name, array in start.items()}
        for block in range(self.blocks):
            for step in self.steps:
                step.apply(tensors, block)
        return tensors

    def blocks_meet(self) -> bool:
        """Whether a block stores rows that another one loads or stores."""
        stored, touched = ([self._rows(block, loads) for block in range(self.blocks)] for loads in (False, True))
        return any(stored[one] & touched[other] for one in range(self.blocks) for other in range(self.blocks) if one != other)

    def _rows(self, block: int, loads: bool) -> set[tuple[str, int]]:
        found = set()
        for step in self.steps:
            for source, target in step.rows(block):
                found |= {(step.target, row) for row in range(target, min(target + TILE, ROWS))}
                found |= {(step.source, row) for row in range(source, min(source + TILE, ROWS)) if loads}
        return found


def start() -> dict[str, np.ndarray]:
    generator = np.random.default_rng(1)
    return {name: generator.integers(0, 9, (ROWS, COLUMNS)).astype(np.float32) for name in TENSORS}


def draw(chance: random.Random) -> Case:
    count = chance.randint(2, 5)
    steps = []
    for _ in range(count):
        trips = chance.choice((1, 1, 1, 2, 3))
        rows = [TILE * chance.randrange(ROWS // TILE - trips + 1) for _ in range(2)]
        if chance.random() < 0.2:
            rows[0] = max(0, rows[0] - 8)
        source, target = chance.choice(TENSORS), chance.choice(TENSORS)
        path = chance.choice(("tma", "direct", "registers"))
        steps.append(Step(chance.randint(0, 1), source, rows[0], target, rows[1], chance.randint(1, 5), path, trips))
    return Case((chance.choice((1, 2, 4)), chance.choice((1, 2))), tuple(steps), tuple(chance.random() < 0.8 for _ in steps))


def draw_grid(chance: random.Random) -> Case:
    """Of one role and two blocks, most of which have rows of their own."""
    steps = []
    for _ in range(chance.randint(1, 3)):
        apart = chance.choice(((32, 32), (32, 32), (32, 32), (16, 32), (32, 24), (8, 32), (0, 32), (32, 0)))
        rows = [chance.choice((0, 0, 0, 8, 16)) for _ in range(2)]
        source, target = chance.choice("xxy"), chance.choice("yz")
        path = chance.choice(("tma", "direct", "registers"))
        steps.append(Step(0, source, rows[0], target, rows[1], chance.randint(1, 5), path, chance.choice((1, 2)), apart))
    return Case((chance.choice((1, 2)), 1), tuple(steps), (True,) * len(steps), 2)
