"""Random roles of one block that access a tensor at random places between random hand-overs.

Nothing is meant to be in order: the hand-overs alone say what is. Each pipeline is filled by one role and emptied by another, in the loop
that all roles have or before or behind it; stages are held around accesses, within each other, or handed on at once.
"""

import random
from dataclasses import dataclass

import numpy as np

ROWS, COLUMNS, TURNS = 8, 32, (3, 1)
_IN_LOOPS = ("0", "8", "i * 8", "i * 8", "i * 8 + 8", "(n - 1 - i) * 8", "i % 2 * 8", "i * 16", "i * 16 + 8", "(i + 1) % 2 * 8")
_OUTSIDE = ("0", "0", "8", "n * 8", "16")
_SOMETIMES = ("i > 0", "i % 2 == 0", "i < n - 1", "i == 0")


@dataclass(frozen=True)
class Ring:
    """`kind`: "none", or how its tile is filled. `where`: "before", "loop" or "behind". `other`: the consumer of every second stage, which
    skips the first where `consumer` skips the second."""

    name: str
    producer: int
    consumer: int
    kind: str
    stages: int
    where: str
    other: int | None = None


def arguments(roles: int, turns: int) -> dict[str, object]:
    chance = np.random.default_rng(turns)
    inputs = {name: chance.integers(-8, 8, (64, COLUMNS)).astype(np.float32) for name in "xy"}
    seen = {f"seen{role}": np.zeros((1024, COLUMNS), np.float32) for role in range(roles)}
    return {**inputs, **seen, "bound": np.full(4, turns, np.int32), "n": turns}


def draw(chance: random.Random) -> tuple[str, int]:
    """The text, and how many roles it has."""
    writer = _Writer(chance)
    return writer.source(), writer.roles


class _Writer:
    def __init__(self, chance: random.Random) -> None:
        self.chance = chance
        self.roles = chance.choice((2, 2, 2, 3))
        self.warps = [chance.choice((1, 1, 2, 4)) for _ in range(self.roles)]
        self.density = chance.choice((0.04, 0.08, 0.08, 0.15))  # of accesses
        self._seen = [0] * self.roles  # how many places of each role's own tensor are used
        self.rings = [self._ring(number) for number in range(chance.randint(1, 4))]

    def _ring(self, number: int) -> Ring:
        producer, consumer, *others = self.chance.sample(range(self.roles), self.roles)
        kind, stages = self.chance.choice(("none", "none", "tma", "write")), self.chance.choice((1, 1, 2, 3))
        where = self.chance.choice(("loop", "loop", "loop", "before", "behind"))
        other = others[0] if others and where != "loop" and self.chance.random() < 0.5 else None
        if other is not None:
            self.warps[other] = self.warps[consumer]  # they give stages back by equally many arrivals
        return Ring(f"q{number}", producer, consumer, kind, stages, where, other)

    def source(self) -> str:
        tensors = [f"{name}: tensor[f32, 64, {COLUMNS}]" for name in "xy"]
        tensors += [f"seen{role}: tensor[f32, 1024, {COLUMNS}]" for role in range(self.roles)]
        lines = [f"kernel k({', '.join(tensors)}, bound: tensor[i32, 4], n: i32):", "    grid(1)"]
        for ring in self.rings:
            tiles = f"InputTilePipeline(TilePayload(x=tile[f32, {ROWS}, {COLUMNS}]), "
            lines.append(
                f"    {ring.name} = {'ProducerConsumerPipeline(' if ring.kind == 'none' else tiles}stages={ring.stages})"
            )
        bound = self.chance.choice(("n", "n", "n", "3", "load(bound[0])"))
        for role in range(self.roles):
            lines += self._role(role, bound)
        return "\n".join(lines) + "\n"

    def _role(self, role: int, bound: str) -> list[str]:
        fills = [ring.name for ring in self.rings if ring.producer == role]
        takes = [ring.name for ring in self.rings if role in (ring.consumer, ring.other)]
        sides = (f" produces {', '.join(fills)}" if fills else "") + (f" consumes {', '.join(takes)}" if takes else "")
        inside = self._part(role, "loop")
        body = [*self._part(role, "before"), *([f"for i in range({bound}):", *_in(inside)] if inside else [])]
        body += self._part(role, "behind")
        return [f"    role r{role}(warps={self.warps[role]}){sides}:", *_in(_in(body))] if body else []

    def _part(self, role: int, where: str) -> list[str]:
        rings = [ring for ring in self.rings if ring.where == where and role in (ring.producer, ring.consumer, ring.other)]
        self.chance.shuffle(rings)
        drained = [ring.name for ring in self.rings if ring.producer == role and ring.kind != "none" and ring.where == "before"]
        lines = self._handing_over(role, where, rings, None)
        return (
            [f"{drained[0]}.drain_producer()", *lines] if drained and where == "behind" and self.chance.random() < 0.3 else lines
        )

    def _handing_over(self, role: int, where: str, rings: list[Ring], tile: str | None) -> list[str]:
        lines = self._accesses(role, where, tile)
        while rings:
            ring = rings.pop()
            if ring.producer == role:
                lines += self._fill(role, where, ring, rings)
                lines += self._fill(role, where, ring, []) if ring.other is not None else []
            else:
                taken, skipped = self._take(role, where, ring, rings), [] if ring.other is None else [f"{ring.name}.skip()"]
                lines += [*taken, *skipped] if role == ring.consumer else [*skipped, *taken]
            lines += self._accesses(role, where)
        return lines

    def _fill(self, role: int, where: str, ring: Ring, others: list[Ring]) -> list[str]:
        if ring.kind == "none":
            return self._held(role, where, ring, others, "producer_signal_and_step()", "produce()")
        source, place = self.chance.choice("xxy"), self._place(where)
        if ring.kind == "write":
            filled = [f"write(s{ring.name}.x, load({source}[{place}, 0], {ROWS}, {COLUMNS}))"]
        else:
            load = f"tma.load(s{ring.name}.x, {source}[{place}, 0])"
            filled = [load] if self.warps[role] == 1 else ["with elect():", *_in([load])]
        inside = [*self._accesses(role, where), *filled, *self._accesses(role, where)]
        return [f"with {ring.name}.produce() as s{ring.name}:", *_in(inside)]

    def _take(self, role: int, where: str, ring: Ring, others: list[Ring]) -> list[str]:
        if ring.kind == "none":
            return self._held(role, where, ring, others, "consumer_signal_and_step()", "consume()")
        read = f"store.direct({self._own(role, where)}, s{ring.name}.x)"
        nested = self.chance.random() < 0.3
        inside = (
            self._handing_over(role, where, others, f"s{ring.name}.x")
            if nested
            else self._accesses(role, where, f"s{ring.name}.x")
        )
        return [f"with {ring.name}.consume() as s{ring.name}:", *_in([read, *inside])]

    def _held(self, role: int, where: str, ring: Ring, others: list[Ring], at_once: str, held: str) -> list[str]:
        if self.chance.random() < 0.4:
            return [f"{ring.name}.{at_once}"]
        inside = self._handing_over(role, where, others, None) if self.chance.random() < 0.3 else self._accesses(role, where)
        return [f"with {ring.name}.{held} as s{ring.name}:", *_in(inside or ["pass"])]

    # ------------------------------------------------------------------------------------------------------- accesses

    def _place(self, where: str) -> str:
        return self.chance.choice(_IN_LOOPS if where == "loop" else _OUTSIDE)

    def _own(self, role: int, where: str) -> str:
        """A place that no other statement stores to."""
        self._seen[role] += 1
        return f"seen{role}[{self._seen[role] * 32} + {'i' if where == 'loop' else '0'} * {ROWS}, 0]"

    def _accesses(self, role: int, where: str, tile: str | None = None) -> list[str]:
        lines: list[str] = []
        for _ in range(2):
            if self.chance.random() < self.density:
                access = self._access(role, where, tile)
                sometimes = where == "loop" and self.chance.random() < 0.12
                lines += [f"if {self.chance.choice(_SOMETIMES)}:", *_in(access)] if sometimes else access
        return lines

    def _access(self, role: int, where: str, tile: str | None) -> list[str]:
        place = f"y[{self._place(where)}, 0]"
        value = f"fill(cast[f32]({'i' if where == 'loop' else '0'} + {self.chance.randint(1, 9) * 10}), f32, {ROWS}, {COLUMNS})"
        load = f"load({place}, {ROWS}, {COLUMNS})"
        match self.chance.randrange(9):
            case 0 | 1:
                return [f"store({place}, {value})"]
            case 2 | 3:
                return [f"store.direct({place}, {value})"]
            case 4 | 5 | 6:
                own = self._own(role, where)
                return [f"t{self._seen[role]} = registers({load})", f"store.direct({own}, t{self._seen[role]})"]
            case 7:
                return [f"store({place}, {load} * 2.0 + {value})"]
            case _ if tile is not None:
                return ["with elect():", f"    tma.store({place}, {tile})"]
            case _:
                return [f"store.direct({place}, {value}, rows=3)"]


def _in(lines: list[str]) -> list[str]:
    return [f"    {line}" for line in lines]
