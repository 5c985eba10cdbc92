"""What a random kernel of many features consists of, and what it must compute."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from fuzz.together_words import GUARDS, Numbers, Tile, Words, tiles_of

COLUMNS, FEW, BLOCKS = 32, 10, 40  # columns of a tile; stages of a tile that have a place of their own; rows of places
PLACES = (
    "first",
    "tile first",
    "turn",
    "tile last",
    "last",
)  # of what is done: around the walk, around a tile's stages, at each stage


@dataclass(frozen=True)
class Ring:
    """`kind`: "tma", "multicast", "write", "exchange", "sub" or "none". `other`: a second consumer. `guard`: a number of GUARDS, or -1."""

    name: str
    kind: str
    stages: int
    place: str
    producer: int
    consumer: int
    other: int | None = None
    guard: int = -1

    @property
    def rows(self) -> int:
        return 16 if self.kind == "multicast" else 8

    @property
    def parts(self) -> int:
        return 2 if self.kind == "sub" else 1


@dataclass(frozen=True)
class Op:
    """`what`: "give", "take", "drain" or "turn"."""

    what: str
    place: str
    ring: Ring | None = None


@dataclass(frozen=True)
class Program:
    source: str
    arch: str
    fault: str
    count: Words
    walk: str
    rings: tuple[Ring, ...]
    by_tile: bool
    blocks: str  # along x, of clusters
    parts: bool
    turns: int
    ctas: int

    def arguments(self, size: Numbers) -> dict[str, object]:
        chance = np.random.default_rng(7)
        width = COLUMNS * self.ctas
        made: dict[str, object] = {name: np.int32(size[name]) for name in ("n", "m", "s", "parts")}
        made |= {"c": memory(size), "kd": np.zeros(size["K"], np.float32), "turns": np.zeros((BLOCKS, 8), np.int32)}
        made |= {"z": np.ones((BLOCKS, 64, COLUMNS), np.float32)}
        made |= {"x": chance.integers(0, 1000, (BLOCKS, FEW * 16, width)).astype(np.float32)}
        return made | {f"y_{ring}": np.zeros((BLOCKS, FEW * 16, width), np.float32) for ring in self._stored()}

    def _stored(self) -> list[str]:
        found = [ring.name for ring in self.rings if ring.kind != "none"]
        return found + [f"{ring.name}b" for ring in self.rings if ring.kind != "none" and ring.other is not None]

    def expected(self, size: Numbers) -> dict[str, np.ndarray]:
        """What is in the tensors that are stored to. Of a right kernel."""
        given: dict[str, Any] = dict(self.arguments(size))
        total, along_y = size["T"], size["parts"] if self.parts else 1
        blocks = total if self.walk == "clc" else _number(self.blocks, size)
        for block in range(blocks):
            tiles = range(block, block + 1) if self.walk == "clc" else tiles_of(self.walk, block, blocks, total)
            for y in range(along_y):
                for z in range(self.turns):
                    self._block(given, size, (block, y, z), tiles, along_y)
        if self.turns > 1:
            every = self.walk == "every"
            places = [(block, t) for block in range(blocks) for t in range(total)]
            for place, row in places if every else [(one, 0) for one in range(blocks * along_y)]:
                for z in range(self.turns):
                    part = given["z"][place, row * 8 : row * 8 + 8]
                    part[...] = part * 2 + z + 1
        return {name: array for name, array in given.items() if name.startswith("y_") or name in ("z", "turns")}

    def _block(self, given: dict[str, Any], size: Numbers, place: tuple[int, int, int], tiles: range, along_y: int) -> None:
        block, y, z = place
        for ring in self.rings:
            if ring.kind == "none":
                continue
            used: dict[int, int] = {}
            for t in tiles if ring.place not in ("first", "last") else [block]:
                once = ring.place != "turn"
                passed = ring.guard < 0 or GUARDS[ring.guard][1](t, size["m"])
                more = int(passed) if once else self.count.value(size, Tile(t, y, memory(size).tolist()))
                by_tile = self.by_tile and ring.place not in ("first", "last")
                who = ((t if by_tile else block) * along_y + y) * self.turns + z
                used[who] = used.get(who, 0) + more
            for who, count in used.items():
                rows = slice(0, count * ring.rows * ring.parts)
                for name in (ring.name, *([f"{ring.name}b"] if ring.other is not None else [])):
                    self._copied(given, ring, name, who, rows)

    def _copied(self, given: dict[str, Any], ring: Ring, name: str, who: int, rows: slice) -> None:
        source = given["x"][who, rows]
        added = 1 if ring.kind in ("write", "exchange", "sub") else 0
        for cta in range(self.ctas):
            read = {"exchange": 1 - cta, "multicast": 0}.get(ring.kind, cta)
            to = slice(cta * COLUMNS, (cta + 1) * COLUMNS)
            given[f"y_{name}"][who, rows, to] = source[:, read * COLUMNS : (read + 1) * COLUMNS] + added


def memory(size: Numbers) -> np.ndarray:
    """What `c` holds."""
    chance = np.random.default_rng((size["T"], size["K"], size["m"] & 7))
    return chance.integers(-1, size["most"], size["T"]).astype(np.int32)


def _number(said: str, size: Numbers) -> int:
    return int(eval(said, {"min": min, "max": max}, dict(size)))
