"""Random kernels of two roles that move tiles between tensors in loops, told to go on by hand-overs: what they store overlaps in ways
that no comparison of coordinates decides.

Each is a list of moves in the order in which they are meant. A move is one role's, or goes through a ring from one role to the other.
Where the next move is another role's, a hand-over stands in between, unless it was left out. In their order the moves say what the
tensors hold at the end.
"""

import random
from dataclasses import dataclass

import numpy as np

TENSORS = ("x", "y", "z")
ROWS, COLUMNS, TILE, TRIPS = 64, 16, 8, 2
PLACES = ("{b}", "{b} + i * 8", "{b} + i * 16", "{b} + i % 2 * 8")


@dataclass(frozen=True)
class Move:
    """From one tensor to another, by the role `reads`, and behind a ring by the role `stores`."""

    reads: int
    stores: int
    source: str
    source_row: str
    target: str
    target_row: str
    added: int
    path: str  # how it is stored


@dataclass(frozen=True)
class Movers:
    warps: tuple[int, int]
    moves: tuple[Move, ...]
    stages: tuple[int, ...]
    told: tuple[bool, ...]  # whether the change of roles behind a move is handed over; behind the last: to the next iteration

    def source(self) -> str:
        bodies: tuple[list[str], list[str]] = ([], [])
        rings: list[tuple[str, str, int, int]] = []  # name, declaration, producer, consumer
        for number, move in enumerate(self.moves):
            self._move(number, move, bodies, rings)
            here, there = move.stores, self.moves[(number + 1) % len(self.moves)].reads
            if here != there and self.told[number]:
                rings.append((f"q{number}", f"ProducerConsumerPipeline(stages={self.stages[number]})", here, there))
                bodies[here].append(f"q{number}.producer_signal_and_step()")
                if number + 1 < len(self.moves):
                    bodies[there].append(f"q{number}.consumer_signal_and_step()")
                else:  # in front of the next iteration
                    bodies[there].insert(0, f"if i > 0:\n                q{number}.consumer_signal_and_step()")
                    bodies[there].append(f"if i == n - 1:\n                q{number}.consumer_signal_and_step()")
        lines = [f"kernel k({', '.join(f'{name}: tensor[f32, {ROWS}, {COLUMNS}]' for name in TENSORS)}, n: i32):", "    grid(1)"]
        lines += [f"    {name} = {declared}" for name, declared, _, _ in rings]
        for role, body in enumerate(bodies):
            fills = ", ".join(name for name, _, producer, _ in rings if producer == role)
            takes = ", ".join(name for name, _, _, consumer in rings if consumer == role)
            sides = (f" produces {fills}" if fills else "") + (f" consumes {takes}" if takes else "")
            lines += [f"    role r{role}(warps={self.warps[role]}){sides}:", "        for i in range(n):"] if body else []
            lines += [f"            {line}" for line in body]
        return "\n".join(lines) + "\n"

    def _move(self, number: int, move: Move, bodies: tuple[list[str], list[str]], rings: list[tuple[str, str, int, int]]) -> None:
        target, value = f"{move.target}[{move.target_row}, 0]", f"load({move.source}[{move.source_row}, 0], {TILE}, {COLUMNS})"
        if move.reads == move.stores:
            kept = f"t{number} = registers({value} + {move.added}.0)"
            bodies[move.reads].extend([kept, f"{move.path}({target}, t{number})"])
            return
        tile = f"InputTilePipeline(TilePayload(x=tile[f32, {TILE}, {COLUMNS}]), stages={self.stages[number]})"
        rings.append((f"p{number}", tile, move.reads, move.stores))
        bodies[move.reads].append(f"with p{number}.produce() as s{number}:\n                write(s{number}.x, {value})")
        stored = f"{move.path}({target}, s{number}.x + {move.added}.0)"
        bodies[move.stores].append(f"with p{number}.consume() as s{number}:\n                {stored}")

    def expected(self, start: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
        tensors = {name: array.copy() for name, array in start.items()}
        for i in range(TRIPS):
            for move in self.moves:
                first, last = (eval(row, {"i": i}) for row in (move.source_row, move.target_row))
                tensors[move.target][last : last + TILE] = tensors[move.source][first : first + TILE] + move.added
        return tensors


def draw(chance: random.Random) -> Movers:
    moves = []
    for _ in range(chance.randint(2, 4)):
        reads, stores = chance.randint(0, 1), chance.randint(0, 1)
        rows = [chance.choice(PLACES).format(b=8 * chance.randrange(4)) for _ in range(2)]
        # Mostly what is only read into what is only stored: a load of what is stored asks for much more, and most such kernels are refused.
        source, target, path = (
            chance.choice("xxxyyyz"),
            chance.choice("zzzzzyx"),
            chance.choice(("store", "store", "store.direct")),
        )
        moves.append(Move(reads, stores, source, rows[0], target, rows[1], chance.randint(1, 5), path))
    stages = tuple(chance.choice((1, 1, 2)) for _ in moves)
    return Movers(
        (chance.choice((1, 2, 4)), chance.choice((1, 2))), tuple(moves), stages, tuple(chance.random() < 0.85 for _ in moves)
    )


def start() -> dict[str, np.ndarray]:
    generator = np.random.default_rng(1)
    return {name: generator.integers(0, 9, (ROWS, COLUMNS)).astype(np.float32) for name in TENSORS}
