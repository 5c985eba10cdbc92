"""Random roles of several blocks that access tensors of all blocks, in turns and around them, between random hand-overs in the block.

Nothing is meant to be in order: turns order blocks, and hand-overs order roles, as far as they stand in the right places. A turn
is taken by a role around some of its hand-overs; another role's accesses belong to it only if these lead there and back.
"""

import random
from dataclasses import dataclass

import numpy as np

ROWS, COLUMNS, TURNS = 8, 32, (2, 1)
_GRIDS = (
    ("3, 1, 1", "block.x", "grid.x"),
    ("3, 1, 1", "block.x", "grid.x"),
    ("2, 1, 2", "block.z", "2"),
    ("1, 2, 2", "block.y", "2"),
)
_PLACES = ("0", "0", "0", "8", "4", "16", "block.x * 8", "block.x * 8", "block.z * 8 + 8", "(block.x + 1) % 2 * 8")
_IN_LOOPS = ("i * 8", "i * 8", "i * 8", "i * 8 + 8", "i * 16", "0", "block.x * 8", "i % 2 * 8", "i * 16 + block.x * 8")
_SOMETIMES = ("block.x == 0", "block.x > 0", "block.z == 0", "n > 1")


@dataclass(frozen=True)
class Ring:
    """`kind`: "none", "tma" or "write"."""

    name: str
    kind: str
    stages: int
    producer: int
    consumer: int


def arguments(roles: int, turns: int) -> dict[str, object]:
    chance = np.random.default_rng(turns)
    inputs = {name: chance.integers(-8, 8, (64, COLUMNS)).astype(np.float32) for name in "xyz"}
    seen = {f"seen{role}": np.zeros((8, 2048, COLUMNS), np.float32) for role in range(roles)}
    return {**inputs, **seen, "q": np.zeros((8, 8), np.int32), "n": turns}


def draw(chance: random.Random) -> tuple[str, int]:
    """The text, and how many roles it has."""
    writer = _Writer(chance)
    return writer.source(), writer.roles


class _Writer:
    def __init__(self, chance: random.Random) -> None:
        self.chance = chance
        self.roles = chance.choice((1, 2, 2, 2, 3))
        self.warps = [chance.choice((1, 1, 2, 4)) for _ in range(self.roles)]
        self.grid, self.turn, self.many = chance.choice(_GRIDS)
        self.loop = chance.random() < 0.3
        self.density = chance.choice((0.15, 0.25, 0.4))
        self._seen = [0] * self.roles
        self._counters = 0
        count = chance.randint(1, 4) if self.roles > 1 else 0
        pairs = [chance.sample(range(self.roles), 2) for _ in range(count)]
        if len(pairs) > 1 and chance.random() < 0.6:
            pairs[-1] = pairs[-2][::-1]  # there and back
        kinds = [chance.choice(("none", "none", "tma", "write")) for _ in pairs]
        self.rings = [Ring(f"p{at}", kinds[at], chance.choice((1, 1, 2)), *pair) for at, pair in enumerate(pairs)]
        self.takers = chance.sample(range(self.roles), min(self.roles, chance.choice((1, 1, 1, 2))))

    def source(self) -> str:
        tensors = [f"{name}: tensor[f32, 64, {COLUMNS}]" for name in "xyz"]
        tensors += [f"seen{role}: tensor[f32, 8, 2048, {COLUMNS}]" for role in range(self.roles)]
        lines = [f"kernel k({', '.join(tensors)}, q: tensor[i32, 8, 8], n: i32):", f"    grid({self.grid})"]
        for ring in self.rings:
            tiles = f"InputTilePipeline(TilePayload(x=tile[f32, {ROWS}, {COLUMNS}]), "
            lines += [f"    {ring.name} = {'ProducerConsumerPipeline(' if ring.kind == 'none' else tiles}stages={ring.stages})"]
        for role in range(self.roles):
            lines += self._role(role)
        return "\n".join(lines) + "\n"

    def _role(self, role: int) -> list[str]:
        fills = [ring.name for ring in self.rings if ring.producer == role]
        takes = [ring.name for ring in self.rings if ring.consumer == role]
        sides = (f" produces {', '.join(fills)}" if fills else "") + (f" consumes {', '.join(takes)}" if takes else "")
        body = self._timeline(role)
        if self.loop and body:
            body = ["for i in range(n):", *_in(body)]
        return [f"    role r{role}(warps={self.warps[role]}){sides}:", *_in(_in(body or ["pass"]))]

    def _timeline(self, role: int) -> list[str]:
        """The role's hand-overs in the order of all, some of which it does in its turn."""
        parts = [self._hand_over(role, ring) for ring in self.rings if role in (ring.producer, ring.consumer)]
        parts += [[f"{ring.name}.drain_producer()"] for ring in self.rings if self._drains(ring, role)]
        around = [line for part in parts for line in (*self._accesses(role), *part)]
        if role not in self.takers:
            return [*around, *self._accesses(role)]
        first, last = sorted(self.chance.choices(range(len(parts) + 1), k=2))
        if self.chance.random() < 0.5:
            first, last = 0, len(parts)
        outer = [[*self._accesses(role, 0.4), *part] for part in parts]
        inside = [line for part in outer[first:last] for line in part] + self._accesses(role, 2)
        turn = self._turn(inside or ["pass"])
        more = self._turn(self._accesses(role, 2) or ["pass"]) if self.chance.random() < 0.2 else []
        flat = [line for part in outer[:first] for line in part] + turn + [line for part in outer[last:] for line in part]
        return [*flat, *more, *self._accesses(role, 0.4)]

    def _drains(self, ring: Ring, role: int) -> bool:
        return ring.producer == role and ring.kind != "none" and self.chance.random() < 0.4

    def _turn(self, inside: list[str]) -> list[str]:
        """Mostly of a counter of its own."""
        counter = f"{self._counters}, {'i' if self.loop else '0'}"
        if self.chance.random() < 0.9:
            self._counters += 1
        axis = "" if self.many == "grid.x" else {"block.z": "block.x", "block.y": "block.z"}[self.turn]
        if axis:
            counter = f"{self._counters - 1 if self._counters else 0} * 2 + {axis}, {'i' if self.loop else '0'}"
        return [f"with semaphore(q[{counter}], {self.turn}, {self.many}):", *_in(inside)]

    def _hand_over(self, role: int, ring: Ring) -> list[str]:
        gives = ring.producer == role
        if ring.kind == "none":
            if self.chance.random() < 0.5:
                return [f"{ring.name}.{'producer' if gives else 'consumer'}_signal_and_step()"]
            return [f"with {ring.name}.{'produce' if gives else 'consume'}():", *_in(self._accesses(role, 2) or ["pass"])]
        tile, source = f"s{ring.name}.x", f"{self.chance.choice('xyyz')}[{self._place()}, 0]"
        if not gives:
            read = [f"store.direct({self._own(role)}, {tile})"]
            if self.chance.random() < 0.3:
                target = f"{self.chance.choice('yz')}[{self._place()}, 0]"
                read = (
                    [f"store({target}, {tile} + 1.0)"]
                    if self.chance.random() < 0.5
                    else self._elected(role, f"tma.store({target}, {tile})")
                )
            return [f"with {ring.name}.consume() as s{ring.name}:", *_in([*self._accesses(role), *read, *self._accesses(role)])]
        filled = [f"write({tile}, load({source}, {ROWS}, {COLUMNS}))"]
        if ring.kind == "tma":
            filled = self._elected(role, f"tma.load({tile}, {source})")
        return [f"with {ring.name}.produce() as s{ring.name}:", *_in([*self._accesses(role), *filled, *self._accesses(role)])]

    def _elected(self, role: int, line: str) -> list[str]:
        return [line] if self.warps[role] == 1 else ["with elect():", f"    {line}"]

    def _place(self) -> str:
        return self.chance.choice(_IN_LOOPS if self.loop and self.chance.random() < 0.7 else _PLACES)

    def _own(self, role: int) -> str:
        """A place that no other statement stores to, nor another block."""
        self._seen[role] += 1
        block = "block.z * 4 + block.y * 2 + block.x" if self.many != "grid.x" else "block.x"
        return f"seen{role}[{block}, {self._seen[role] * 32} + {'i' if self.loop else '0'} * {ROWS}, 0]"

    def _accesses(self, role: int, often: float = 1.0) -> list[str]:
        lines: list[str] = []
        for _ in range(2):
            if self.chance.random() < self.density * often * 0.5:
                access = self._access(role)
                sometimes = self.chance.random() < 0.12
                lines += [f"if {self.chance.choice(_SOMETIMES)}:", *_in(access)] if sometimes else access
        return lines

    def _access(self, role: int) -> list[str]:
        place = f"{self.chance.choice('yyz')}[{self._place()}, 0]"
        load = f"load({place}, {ROWS}, {COLUMNS})"
        value = f"fill(cast[f32](block.x + 2 * block.z + {self.chance.randint(1, 9) * 10}), f32, {ROWS}, {COLUMNS})"
        match self.chance.randrange(9):
            case 0:
                return [f"store({place}, {value})"]
            case 1:
                return [f"store.direct({place}, {value})"]
            case 2:
                return [f"store.direct({place}, {load} * 2.0 + {value})"]
            case 3:
                return [f"store({place}, {load} * 2.0 + {value})"]
            case 4:
                return [f'store({place}, {value}, reduce="add")']
            case 5:
                return [f'store.direct({place}, {value}, reduce="add")']
            case 6:
                own = self._own(role)
                return [f"t{self._seen[role]} = {load}", f"store.direct({own}, t{self._seen[role]})"]
            case _:
                own = self._own(role)
                return [f"t{self._seen[role]} = registers({load})", f"store.direct({own}, t{self._seen[role]})"]


def _in(lines: list[str]) -> list[str]:
    return [f"    {line}" for line in lines]
