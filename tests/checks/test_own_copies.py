"""A role that copies tiles of a tensor, takes them itself, and stores to that tensor: beside the turns of its loop, counted out."""

import random
from collections.abc import Iterator
from dataclasses import dataclass

import pytest
from samples import numbers

from pipec.driver import Options, compile_source
from pipec.source import Source

# What a statement does, and the turns in which it does so.
TURNS = {
    "": lambda i, n: True,
    "if i < n - 2:": lambda i, n: i < n - 2,
    "if i < n - 1:": lambda i, n: i < n - 1,
    "if i >= 1:": lambda i, n: i >= 1,
    "if i >= 2:": lambda i, n: i >= 2,
    "if i % 3 < 2:": lambda i, n: i % 3 < 2,
    "if i % 3 > 0:": lambda i, n: i % 3 > 0,
}
STATEMENTS = {
    "fill": ("with q.produce() as s:", "    tma.load(s.x, y[{tile} * 8 + 32, 0])"),
    "take": ("with q.consume() as s:", "    store(z[i * 8, 0], s.x)"),
    "store": ("store(y[{tile} * 8 + 32, 0], fill(1.0, f32, 8, 32))",),
}
KERNEL = """
kernel k(y: tensor[f32, M, 32], z: tensor[f32, M, 32], n: i32):
    assume(n >= 0 and n < 1000)
    grid(1)
    q = InputTilePipeline(TilePayload(x=tile[f32, 8, 32]), stages={stages})
    role a(warps=1) produces q consumes q:
        for i in range(n):
"""
SIZES = (1, 2, 3, 4, 7, 12)


@dataclass(frozen=True)
class Turn:
    """`statements`: what is done in a turn, when, and how far the tile is from the turn's number."""

    stages: int
    statements: tuple[tuple[str, str, int], ...]

    @property
    def text(self) -> str:
        lines, before = [], ""
        for what, when, ahead in self.statements:
            indent = " " * (16 if when else 12)
            lines += [f"            {when}"] if when and when != before else []
            lines += [indent + line.format(tile=f"(i + {ahead})") for line in STATEMENTS[what]]
            before = when
        return KERNEL.format(stages=self.stages) + "\n".join(lines) + "\n"

    def events(self, n: int) -> Iterator[tuple[str, int]]:
        for i in range(n):
            yield from ((what, i + ahead) for what, when, ahead in self.statements if TURNS[when](i, n))

    def stores_what_is_copied(self, n: int) -> bool:
        """Whether it stores a tile that is being copied: as many copies as the role has taken are known to be complete."""
        copied: list[int] = []
        taken = 0
        for what, tile in self.events(n):
            if what == "fill":
                copied.append(tile)
            elif what == "take":
                taken += 1
            elif tile in copied[taken:]:
                return True
        return False


PAIRS = (("", ""), ("if i < n - 1:", "if i >= 1:"), ("if i < n - 2:", "if i >= 2:"), ("if i % 3 < 2:", "if i % 3 > 0:"))


def drawn(seed: int) -> Turn:
    """What it stores often stands behind the taking of a stage: there it should know something."""
    chooser = random.Random(seed)
    fills, takes = chooser.choice(PAIRS)
    behind = ("store", chooser.choice(["", takes, takes]), chooser.choice((-2, -1, -1, 0)))
    parts = [[("fill", fills, 0)], [("take", takes, 0), behind]]
    if chooser.random() < 0.2:
        parts.append([("store", chooser.choice([*TURNS]), chooser.choice((-2, -1, 0)))])
    chooser.shuffle(parts)
    return Turn(chooser.choice((1, 2, 2, 3)), tuple(one for part in parts for one in part))


@pytest.mark.parametrize("seed", numbers("own copies", 60, 600))
def test_what_is_accepted_stores_nothing_that_is_being_copied(seed: int) -> None:
    turn = drawn(seed)
    if not compile_source(Source("k.pipe", turn.text), Options("sm_90a")).failed:
        assert not any(map(turn.stores_what_is_copied, SIZES)), turn.text


def test_many_are_accepted_and_many_do() -> None:
    turns = [drawn(seed) for seed in range(40)]
    assert 4 < sum(any(map(turn.stores_what_is_copied, SIZES)) for turn in turns) < 30
    accepted = [turn for turn in turns if not compile_source(Source("k.pipe", turn.text), Options("sm_90a")).failed]
    assert len(accepted) > 5
