"""Random kernels over pairs of CTAs: a chain of roles, each in both CTAs or in the leader alone, which hand tiles, or nothing, from one to
the next; one of them stores to a tensor that a later one loads.

Which part of that is ordered depends on who runs where and on what signals what: by threads, by bytes that the leader announces for
both, also of tiles that all pairs of a cluster share, in shared or in tensor memory. A role stores for the blocks in which it runs.
Blocks have tiles of their own, or those that a scheduler gives them.
"""

import random
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal

import numpy as np

ROWS, COLUMNS, BLOCKS = 128, 16, 4
SIZES = (2, 1)  # iterations
Fill = Literal["nothing", "bytes", "shared bytes", "threads", "tensor"]
Tiles = Literal["one", "own", "static", "clc"]
# A role's loop, the number of a block's tile, and of the tile that the pairs of a cluster of that width have in common.
_SCHEDULED = (["        for tile in tiles:"], "(tile.x * {0} + cta.x)", "(tile.x * {0} + cta.x % 2)")
_TILES: dict[Tiles, tuple[list[str], str, str]] = {
    "one": ([], "block.x", "(cluster.x * {0} + cta.x % 2)"),
    "own": (["        for i in range(n):"], "(block.x * n + i)", "((cluster.x * {0} + cta.x % 2) * n + i)"),
    "static": _SCHEDULED,
    "clc": _SCHEDULED,
}
_DECLARED = {
    "nothing": ("p{0} = ProducerConsumerPipeline(stages={1}, cta_group={2})",),
    "bytes": (f"p{{0}} = InputTilePipeline(TilePayload(x=tile[f32, {ROWS}, {COLUMNS}]), stages={{1}}, cta_group={{2}})",),
    "shared bytes": (f"p{{0}} = InputTilePipeline(TilePayload(x=tile[f32, {ROWS}, {COLUMNS}]), stages={{1}}, cta_group={{2}})",),
    "threads": (f"p{{0}} = InputTilePipeline(TilePayload(x=tile[f32, {ROWS}, {COLUMNS}]), stages={{1}}, cta_group={{2}})",),
    "tensor": (
        "p{0} = RolePipeline(stages={1}, cta_group={2})",
        f"t{{0}} = TensorTiles(tmem[f32, {ROWS}, {COLUMNS}], count={{1}})",
    ),
}


@dataclass(frozen=True)
class Link:
    """What hands over from a role to the next one, which stores the tile that it finds, if there is one."""

    fill: Fill
    stages: int
    group: int


@dataclass(frozen=True)
class Access:
    """Of a role to the tensor `z`, in front of its statement `at` or, `inside`, within it."""

    role: int
    at: int
    inside: bool


@dataclass(frozen=True)
class Pairs:
    width: int  # of the cluster
    tiles: Tiles
    leader: tuple[bool, ...]  # of each role
    links: tuple[Link, ...]  # from each role to the next
    gives_first: tuple[bool, ...]  # of each role, whether it hands on before it takes
    stores: Access
    loads: Access

    @property
    def source(self) -> str:
        tensors = ["x", "y", "z", *(f"w{number}" for number in range(len(self.links)))]
        lines = [f"kernel k({', '.join(f'{name}: tensor[f32, M, {COLUMNS}]' for name in tensors)}, n: i32):"]
        lines += [f"    cluster({self.width})"]
        if self.tiles in ("one", "own"):
            lines += [f"    grid({BLOCKS})"]
        else:
            lines += [f'    tiles = TileScheduler({BLOCKS // self.width} * n, mode="{self.tiles}", blocks={self.width})']
        for number, link in enumerate(self.links):
            lines += [f"    {text.format(number, link.stages, link.group)}" for text in _DECLARED[link.fill]]
        for role, leader in enumerate(self.leader):
            sides = (f" produces p{role}" if role < len(self.links) else "") + (f" consumes p{role - 1}" if role else "")
            warps = 1 if role < len(self.links) and "bytes" in self.links[role].fill and not self._in_tensor(role) else 4
            where = ', on="leader"' if leader else ""
            lines += [f"    role r{role}(warps={warps}{where}){sides}:", *_TILES[self.tiles][0]]
            lines += [f"{'    ' * (2 + len(_TILES[self.tiles][0]))}{line}" for line in self._body(role, warps)]
        return "\n".join(lines) + "\n"

    @property
    def _place(self) -> str:
        return f"{_TILES[self.tiles][1].format(self.width)} * {ROWS}"

    @property
    def _shared_place(self) -> str:
        """The tile of the first pair of the cluster."""
        return f"{_TILES[self.tiles][2].format(self.width)} * {ROWS}"

    def _in_tensor(self, role: int) -> bool:
        return any(link.fill == "tensor" for link in self.links[max(0, role - 1) : role + 1])

    def _body(self, role: int, warps: int) -> list[str]:
        parts = [self._takes(role)] if role else []
        if role < len(self.links):
            parts.insert(0 if self.gives_first[role] else len(parts), self._gives(role, warps))
        for access, text in (
            (self.stores, f"store.direct(z[{self._place}, 0], load(x[{self._place}, 0], {ROWS}, {COLUMNS}) * 2.0)"),
            (self.loads, f"store.direct(y[{self._place}, 0], load(z[{self._place}, 0], {ROWS}, {COLUMNS}))"),
        ):
            if access.role == role:
                place = min(access.at, len(parts) - 1)
                begin, inner, end = parts[place]
                parts[place] = (begin, [*inner, text], end) if access.inside else ([text, *begin], inner, end)
        return [line for begin, inner, end in parts for line in (*begin, *inner, *end)]

    def _gives(self, role: int, warps: int) -> "_Part":
        tile, loaded = f"p{role}.payload.x[p{role}.producer_stage()]", f"load(x[{self._place}, 0], {ROWS}, {COLUMNS})"
        begin, end = [f"p{role}.wait_consumer()"], [f"p{role}.producer_step()"]
        match self.links[role].fill:
            case "nothing":
                return begin, [], [f"arrive(p{role}.producer_mbar())", *end]
            case "bytes" | "shared bytes":
                shared = self.links[role].fill == "shared bytes"
                place, where = (self._shared_place, ', multicast="x"') if shared else (self._place, "")
                copy = f"tma.load({tile}, x[{place}, 0], p{role}.producer_mbar(){where})"
                return begin, [copy] if warps == 1 else ["with elect():", f"    {copy}"], end
            case "threads":
                return begin, [f"write({tile}, {loaded})"], [f"arrive(p{role}.producer_mbar())", *end]
            case "tensor":
                return [f"p{role}.acquire()"], [f"write(t{role}[p{role}.index()], {loaded})"], [f"p{role}.commit()"]

    def _takes(self, role: int) -> "_Part":
        pipe, link = f"p{role - 1}", self.links[role - 1]
        if link.fill == "tensor":
            inner = [f"store.direct(w{role - 1}[{self._place}, 0], t{role - 1}[{pipe}.index()])"]
            return [f"{pipe}.wait()"], inner, [f"{pipe}.release()"]
        inner = (
            [f"store.direct(w{role - 1}[{self._place}, 0], {pipe}.payload.x[{pipe}.consumer_stage()])"]
            if link.fill != "nothing"
            else []
        )
        return [f"{pipe}.wait_producer()"], inner, [f"arrive({pipe}.consumer_mbar())", f"{pipe}.consumer_step()"]

    def arguments(self, size: int) -> dict[str, object]:
        rows = max(1, BLOCKS * ROWS * size)
        names = ["y", "z", *(f"w{number}" for number in range(len(self.links)))]
        x = np.random.default_rng(1).integers(0, 100, (rows, COLUMNS)).astype(np.float32)
        return {"x": x, "n": np.int32(size)} | {name: np.zeros_like(x) for name in names}

    def expected(self, size: int) -> Mapping[str, np.ndarray]:
        given = {name: value for name, value in self.arguments(size).items() if isinstance(value, np.ndarray)}
        x = given["x"]
        for number in range(BLOCKS * (1 if self.tiles == "one" else size)):
            rank, step = (number // size % self.width, size) if self.tiles == "own" else (number % self.width, 1)
            own, first = (slice(one * ROWS, (one + 1) * ROWS) for one in (number, number - (rank - rank % 2) * step))
            runs = [rank % 2 == 0 or not leader for leader in self.leader]
            if runs[self.stores.role]:
                given["z"][own] = 2 * x[own]
            if runs[self.loads.role]:
                given["y"][own] = given["z"][own]
            for role, link in enumerate(self.links):
                if link.fill != "nothing" and runs[role + 1]:
                    given[f"w{role}"][own] = x[first if link.fill == "shared bytes" else own]
        return given


_Part = tuple[list[str], list[str], list[str]]  # its first lines, what may stand with more between them, its last


def draw(chance: random.Random) -> Pairs:
    count = chance.choice((2, 3, 3, 3, 4))
    fills: tuple[Fill, ...] = ("nothing", "bytes", "shared bytes", "threads", "tensor")
    leader = tuple(chance.random() < 0.4 for _ in range(count))
    if chance.random() < 0.5:
        leader = (False, *leader[1:-1], False)  # the two that access the tensor run in both
    links = tuple(
        # (A tile that the leader fills and both read is refused; now and then it is tried.)
        Link(
            chance.choice(fills if there >= here or chance.random() < 0.1 else ("nothing",)),
            chance.choice((1, 2)),
            2 if chance.random() < 0.95 else 1,
        )
        for here, there in pairwise(leader)
    )
    first, last = (0, count - 1) if chance.random() < 0.6 else sorted(chance.sample(range(count), 2))
    accesses = [Access(role, chance.randrange(2), chance.random() < 0.5) for role in (first, last)]
    tiles: tuple[Tiles, ...] = ("one", "one", "own", "own", "static", "clc")
    return Pairs(
        chance.choice((2, 4)), chance.choice(tiles), leader, links, tuple(chance.random() < 0.15 for _ in range(count)), *accesses
    )
