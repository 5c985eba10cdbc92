"""Random kernels that are right: none of them waits for ever.

Each begins as one order of all its hand-overs, with loops and branches, in which nobody has to wait: stages are obtained when they
are free and read when they are filled. Each role then gets what is its own of that order.
"""

import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from fuzz.protocol_kernels import Cond, Item, Kernel, Loop, Op, Role, operations
from fuzz.stand_ins import Pipe

from pipec.record import replace


@dataclass
class _Ring:
    """A pipeline in a block of the order; uses below 0 were filled before the block and are not read yet."""

    pipe: Pipe
    before: int
    taken: int = 0
    got: int = 0
    filling: dict[int, int] = field(default_factory=dict)  # hold -> use
    reading: dict[int, int] = field(default_factory=dict)

    def free(self) -> bool:
        use = self.taken - self.pipe.stages
        return use < self.got and use not in self.reading.values()

    def filled(self) -> bool:
        return self.got < self.taken and self.got not in self.filling.values()

    def idle(self) -> bool:
        return not self.filling and not self.reading


class _Order:
    def __init__(self, draw: random.Random, pipes: Sequence[Pipe], loaded: bool) -> None:
        self.draw, self.pipes = draw, {pipe.name: pipe for pipe in pipes}
        self.holds, self.loops, self.budget = 0, 0, draw.choice((3, 4, 5, 6, 8, 10, 12))
        self.bounds = [
            "n",
            "n",
            "m",
            "2",
            "3",
            "n + m",
            "ceildiv(n, 2)",
            "min(n, 3)",
            "2 * n",
            *(["load(ix[0])"] * 2 if loaded else []),
        ]

    def block(self, depth: int, waiting: Mapping[str, int], accumulating: bool, variables: tuple[str, ...]) -> tuple[Item, ...]:
        """`waiting`: pipelines that may be used, with the stages that are filled and not read yet; the same number is left."""
        rings = {name: _Ring(self.pipes[name], count) for name, count in waiting.items()}
        for ring in rings.values():
            ring.got = -ring.before
        items: list[Item] = []
        for _ in range(self.draw.randint(2, 9)):
            if self.budget <= 0:
                break
            self._one(items, rings, depth, accumulating, variables)
        while self._close(items, rings, accumulating):
            pass
        return tuple(items)

    def _one(
        self, items: list[Item], rings: dict[str, _Ring], depth: int, accumulating: bool, variables: tuple[str, ...]
    ) -> None:
        if depth < 3 and self.draw.random() < 0.3:
            items += self._nested(rings, depth, accumulating, variables)
            return
        acts = [act for ring in rings.values() for act in self._acts(ring, rings, accumulating)]
        if acts:
            self._act(items, rings, *self.draw.choice(acts))

    def _nested(self, rings: dict[str, _Ring], depth: int, accumulating: bool, variables: tuple[str, ...]) -> list[Item]:
        waiting = {name: ring.taken - ring.got for name, ring in rings.items() if ring.idle()}
        accumulating = accumulating or any(ring.filling for ring in rings.values() if ring.pipe.kind == "acc")
        if not waiting:
            return []
        self.budget -= 1
        if self.draw.random() < 0.7:
            variable, self.loops = f"i{self.loops}", self.loops + 1
            body = self.block(depth + 1, waiting, accumulating, (*variables, variable))
            return [Loop(self.draw.choice(self.bounds), variable, body)] if body else []
        body = self.block(depth + 1, waiting, accumulating, variables)
        return [Cond(*self._condition(variables), body)] if body else []

    def _condition(self, variables: tuple[str, ...]) -> tuple[str, str, str]:
        conditions = [("n", ">", "0"), ("n", ">", "m"), ("m", "==", "1"), ("n", ">=", "2")]
        for name in variables:
            index = f"{{{name}}}"
            conditions += [(index, ">", "0"), (f"{index} % 2", "==", "0"), (index, "<", "m"), (index, "==", "1")]
        return self.draw.choice(conditions)

    def _acts(self, ring: _Ring, rings: dict[str, _Ring], accumulating: bool) -> Iterator[tuple[str, _Ring, int]]:
        kind, most = ring.pipe.kind, 1 if ring.pipe.kind in ("sub", "acc", "exchange") else 2
        accumulating = accumulating or any(one.filling for one in rings.values() if one.pipe.kind == "acc")
        reading_operands = any(one.reading for one in rings.values() if one.pipe.kind == "mma")
        if ring.free() and len(ring.filling) < most:
            yield "take", ring, -1
        for hold in ring.filling:
            if kind != "acc" or not reading_operands:
                yield "give", ring, hold
        if ring.filled() and len(ring.reading) < most and (kind != "mma" or accumulating):
            yield "get", ring, -1
        for hold in ring.reading:
            yield "free", ring, hold
        if kind in ("tma", "threads") and ring.idle() and ring.taken == ring.got and self.draw.random() < 0.1:
            yield "drain", ring, 0

    def _act(self, items: list[Item], rings: dict[str, _Ring], kind: str, ring: _Ring, hold: int) -> None:
        self.budget -= 1
        match kind:
            case "take":
                hold, self.holds = self.holds, self.holds + 1
                ring.filling[hold], ring.taken = ring.taken, ring.taken + 1
            case "give":
                del ring.filling[hold]
            case "get":
                hold, self.holds = self.holds, self.holds + 1
                ring.reading[hold], ring.got = ring.got, ring.got + 1
            case "free":
                del ring.reading[hold]
        items.append(Op(kind, ring.pipe.name, hold))

    def _close(self, items: list[Item], rings: dict[str, _Ring], accumulating: bool) -> bool:
        """One step towards the end of the block: nothing held, as many stages waiting as before."""
        wanted: list[tuple[str, _Ring, int]] = []
        for ring in rings.values():
            more = ring.taken - ring.got - ring.before
            for act in self._acts(ring, rings, accumulating):
                if act[0] in ("give", "free") or act[0] == "get" and more > 0 or act[0] == "take" and more < 0:
                    wanted.append(act)
            operands = ring.pipe.kind == "mma" and more > 0
            if operands and not wanted:
                # Somebody has to accumulate what was loaded.
                wanted += [
                    act for one in rings.values() if one.pipe.kind == "acc" for act in self._acts(one, rings, accumulating)
                ]
        # An accumulator is given on only when all operands in flight are read.
        left = any(r.pipe.kind == "mma" and (r.taken - r.got > r.before or r.reading) for r in rings.values())
        others = [act for act in wanted if not (left and act[1].pipe.kind == "acc" and act[0] == "give")]
        choices = others or wanted
        if choices:
            self._act(items, rings, *self.draw.choice(choices))
        return bool(choices)


def _own(items: Sequence[Item], role: str, pipes: Mapping[str, Pipe]) -> tuple[Item, ...]:
    """What of an order is a role's."""
    found: list[Item] = []
    for item in items:
        if isinstance(item, Op):
            side = "producer" if item.kind in ("take", "give", "drain") else "consumer"
            if getattr(pipes[item.pipe], side) == role:
                found.append(item)
        elif body := _own(item.body, role, pipes):
            found.append(replace(item, body=body))
    return tuple(found)


def right_kernel(draw: random.Random) -> Kernel:
    while True:
        made = _right_kernel(draw)
        if made is not None:
            return made


def _right_kernel(draw: random.Random) -> Kernel | None:
    arch = draw.choice(("sm_100a", "sm_100a", "sm_90a"))
    ctas = draw.choice((1, 1, 1, 1, 2, 2))
    cluster = ctas == 2 and draw.random() < 0.7
    multiplies = ctas == 1 and draw.random() < 0.25
    names = [f"r{number}" for number in range(draw.randint(2, 4))]
    warps = {name: draw.choice((1, 1, 1, 2, 4)) for name in names}
    pipes: list[Pipe] = []
    if multiplies:
        names.append("mul")
        warps["mul"] = 1 if arch == "sm_100a" else 4
        pipes.append(Pipe("p0", draw.randint(1, 3), "mma", draw.choice(names[:-1]), "mul"))
        if arch == "sm_100a":
            names.append("epi")
            warps["epi"] = 4
            pipes.append(Pipe("p1", draw.randint(1, 2), "acc", "mul", "epi"))
    kinds = ["none", "tma", "tma", "copy", "threads", "threads", "sub"] + (["multicast", "exchange"] * 3 if cluster else [])
    for number in range(draw.randint(0 if pipes else 1, 3)):
        kind = draw.choice(kinds)
        producer, consumer = draw.sample(names[: len(names) - (2 if multiplies and arch == "sm_100a" else int(multiplies))], 2)
        pipes.append(Pipe(f"p{len(pipes)}", draw.randint(1, 3), kind, producer, consumer))
    order = _Order(draw, pipes, draw.random() < 0.2).block(0, {pipe.name: 0 for pipe in pipes}, arch == "sm_90a", ())
    by_name = {pipe.name: pipe for pipe in pipes}
    roles = [Role(name, warps[name], _own(order, name, by_name)) for name in names]
    roles = [role for role in roles if role.items]
    used = {one.pipe for role in roles for one in operations(role.items) if one.kind in ("give", "free")}
    pipes = [pipe for pipe in pipes if pipe.name in used]
    if any(one.pipe not in used for role in roles for one in operations(role.items)):
        return None
    if len(roles) < 2 or any(pipe.kind == "acc" for pipe in pipes) and not any(pipe.kind == "mma" for pipe in pipes):
        return None
    if not all(_multiplies(role.items, by_name) for role in roles):
        return None
    if ctas == 2 and not cluster and draw.random() < 0.6:
        roles[0] = replace(roles[0], items=(*roles[0].items, Op("turn", "", 0)))
    return Kernel(arch, ctas, cluster, tuple(pipes), tuple(roles), draw.getrandbits(30))


def _multiplies(items: Sequence[Item], pipes: Mapping[str, Pipe]) -> bool:
    """Whether something is multiplied into each accumulator that is given on."""
    filled, open_ = False, False
    for item in items:
        if isinstance(item, Op):
            kind = pipes[item.pipe].kind if item.pipe else ""
            filled |= kind == "mma" and item.kind == "free"
            if kind == "acc" and item.kind == "take":
                filled, open_ = False, True
            if kind == "acc" and item.kind == "give":
                if not filled:
                    return False
                open_ = False
        else:
            if not open_ and not _multiplies(item.body, pipes):
                return False
            filled |= any(pipes[one.pipe].kind == "mma" and one.kind == "free" for one in operations(item.body) if one.pipe)
    return True
