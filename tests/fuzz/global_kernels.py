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
    """`trips` above 1: a loop, whose iteration i moves both places by i tiles."""

    role: int
    source: str
    source_row: int
    target: str
    target_row: int
    added: int
    path: str  # "tma", "direct" or "registers": loaded, kept, then stored
    trips: int = 1

    def lines(self) -> list[str]:
        call = "store.direct" if self.path == "direct" else "store"
        moved = f" + i * {TILE}" if self.trips > 1 else ""
        value = f"load({self.source}[{self.source_row}{moved}, 0], {TILE}, {COLUMNS}) + {self.added}.0"
        target = f"{self.target}[{self.target_row}{moved}, 0]"
        body = [f"{call}({target}, {value})"]
        if self.path == "registers":
            body = [f"t = registers({value})", f"store({target}, t)"]
        return body if self.trips == 1 else [f"for i in range({self.trips}):", *(f"    {line}" for line in body)]

    def apply(self, tensors: dict[str, np.ndarray]) -> None:
        for trip in range(self.trips):
            first, last = self.source_row + trip * TILE, self.target_row + trip * TILE
            values = np.zeros((TILE, COLUMNS), np.float32)
            found = tensors[self.source][first : first + TILE]
            values[: len(found)] = found
            tensors[self.target][last : last + TILE] = (values + self.added)[: max(0, ROWS - last)]


@dataclass(frozen=True)
class Case:
    warps: tuple[int, int]
    steps: tuple[Step, ...]
    handed: tuple[bool, ...]  # whether the change of roles in front of a step is told to the other role

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
        lines = [f"kernel k({parameters}):", "    grid(1)"]
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
        for step in self.steps:
            step.apply(tensors)
        return tensors


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
