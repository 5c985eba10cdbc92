"""Random kernels of roles that hand stages to each other, right ones and ones with a fault planted.

A right kernel begins as one order of all its hand-overs, with loops and branches, in which nobody has to wait: stages are
obtained when they are free and read when they are filled. Each role then gets what is its own of that order, so no kernel made so
waits for ever. How its role says it is drawn apart for every role: other spellings of a bound, loops that are peeled, unrolled,
reversed or cut in two, `while`, negated conditions, scopes or handles, peeks. A fault changes what one role does; most make the
kernel wrong, and the judges say which.
"""

import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from fuzz.stand_ins import Pipe

from pipec.record import replace

TILES = 40  # of a tensor, for each CTA
ROWS, COLUMNS = 8, 32
BF_ROWS = 64  # of an accumulator
SIZES = ({"n": 2, "m": 1}, {"n": 4, "m": 1}, {"n": 0, "m": 2}, {"n": 1, "m": 3}, {"n": 3, "m": 0}, {"n": -1, "m": 2})


def rows_of(pipe: Pipe) -> int:
    """Rows of a tile; each of two CTAs loads half of one that they share, in groups of 8."""
    return 2 * ROWS if pipe.kind == "multicast" else ROWS


@dataclass(frozen=True)
class Op:
    """`kind`: "take", "give" (of the producer), "get", "free" (of the consumer), "drain", "turn"."""

    kind: str
    pipe: str
    hold: int


@dataclass(frozen=True)
class Loop:
    bound: str
    variable: str
    body: tuple["Item", ...]


@dataclass(frozen=True)
class Cond:
    """`left` `relation` `right`, where {i0} stands for the number of passes of the loop i0 so far."""

    left: str
    relation: str
    right: str
    body: tuple["Item", ...]


Item = Op | Loop | Cond


@dataclass(frozen=True)
class Role:
    name: str
    warps: int
    items: tuple[Item, ...]


@dataclass(frozen=True)
class Kernel:
    arch: str
    ctas: int
    cluster: bool
    pipes: tuple[Pipe, ...]
    roles: tuple[Role, ...]
    style: int  # seed of how it is said
    fault: str = ""

    def bodies(self) -> dict[str, str]:
        """The text of each role's body."""
        return {role.name: "\n".join(_Text(self, role).lines()) for role in self.roles}

    def source(self) -> str:
        bodies = self.bodies()
        lines = [f"kernel k({', '.join(self.parameters())}):"]
        lines += [f"    grid({self.ctas})", *(["    cluster(2)"] if self.cluster else [])]
        for pipe in self.pipes:
            lines += [f"    {line}" for line in _declared(pipe)]
        for role in self.roles:
            sides = ""
            for word, attribute in (("produces", "producer"), ("consumes", "consumer")):
                names = [pipe.name for pipe in self.pipes if getattr(pipe, attribute) == role.name]
                sides += f" {word} {', '.join(names)}" if names else ""
            lines.append(f"    role {role.name}(warps={role.warps}){sides}:")
            lines += [f"        {line}" for line in bodies[role.name].split("\n")]
        return "\n".join(lines) + "\n"

    def tensors(self) -> dict[str, tuple[int, ...]]:
        """Shapes by name; `ix` and `turns` hold integers."""
        found: dict[str, tuple[int, ...]] = {"ix": (4,), "turns": (4,), "z_t": (ROWS, COLUMNS)}
        for pipe in self.pipes:
            rows = TILES * rows_of(pipe) * (2 if pipe.kind == "sub" else 1)
            match pipe.kind:
                case "copy":
                    found |= {f"x_{pipe.name}": (TILES * 64,), f"y_{pipe.name}": (self.ctas * TILES, 64)}
                case "mma":
                    found |= {f"a_{pipe.name}": (TILES * 64, 16), f"b_{pipe.name}": (TILES * 8, 16)}
                    if self.arch == "sm_90a":
                        found["d_acc"] = (self.ctas * BF_ROWS, 8)
                case "acc":
                    found[f"d_{pipe.name}"] = (self.ctas * TILES * BF_ROWS, 8)
                case "none":
                    pass
                case _:
                    found |= {f"x_{pipe.name}": (rows, COLUMNS), f"y_{pipe.name}": (self.ctas * rows, COLUMNS)}
        return found

    def tile_of(self, tensor: str) -> tuple[int, int]:
        """Rows and columns of what is stored at a time."""
        pipe = next((pipe for pipe in self.pipes if tensor == f"y_{pipe.name}"), None)
        return (1, 64) if pipe is not None and pipe.kind == "copy" else (rows_of(pipe) if pipe is not None else ROWS, COLUMNS)

    def parameters(self) -> Iterator[str]:
        yield from ("n: i32", "m: i32")
        for name, shape in self.tensors().items():
            dtype = "i32" if name in ("ix", "turns") else "bf16" if name[0] in "ab" else "f32"
            yield f"{name}: tensor[{dtype}, {', '.join(map(str, shape))}]"


def _declared(pipe: Pipe) -> list[str]:
    stages = f"stages={pipe.stages}"
    tile = f"tile[f32, {rows_of(pipe)}, {COLUMNS}]"
    match pipe.kind:
        case "none":
            return [f"{pipe.name} = ProducerConsumerPipeline({stages})"]
        case "sub":
            head = f"{pipe.name} = RolePipeline({stages}, producer_sub_stages=2, consumer_sub_stages=2)"
            return [head, *(f"{pipe.name}_{sub} = SharedTiles({tile}, count={pipe.stages})" for sub in range(2))]
        case "acc":
            return [f"{pipe.name} = OutputTilePipeline(tmem[f32, {BF_ROWS}, 8], {stages})"]
        case "mma":
            payload = f"StandardTilePayload(a=tile[bf16, {BF_ROWS}, 16], b=tile[bf16, 8, 16])"
            return [f"{pipe.name} = InputTilePipeline({payload}, {stages})"]
        case _:
            tile = "tile[f32, 1, 64]" if pipe.kind == "copy" else tile
            scope = ', scope="cluster"' if pipe.kind == "exchange" else ""
            return [f"{pipe.name} = InputTilePipeline(TilePayload(x={tile}), {stages}{scope})"]


# ------------------------------------------------------------------------------------------------------------ one order of all


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


def operations(items: Sequence[Item]) -> Iterator[Op]:
    for item in items:
        if isinstance(item, Op):
            yield item
        else:
            yield from operations(item.body)


# ------------------------------------------------------------------------------------------------------------------ as text

_SPELLINGS = {
    "n": ("n", "n", "n + 1 - 1", "max(n, 0)"),
    "m": ("m", "m", "1 + m - 1"),
    "3": ("3", "2 + 1"),
    "n + m": ("n + m", "m + n"),
    "2 * n": ("2 * n", "n * 2", "n + n"),
    "ceildiv(n, 2)": ("ceildiv(n, 2)", "(n + 1) // 2"),
    "min(n, 3)": ("min(n, 3)", "min(3, n)", "n if n < 3 else 3"),
}
_TURNED = {"<": ">", ">": "<", "<=": ">=", ">=": "<=", "==": "==", "!=": "!="}
_NEGATED = {"<": ">=", ">": "<=", "<=": ">", ">=": "<", "==": "!=", "!=": "=="}


class _Text:
    """One role's body as it is written."""

    def __init__(self, kernel: Kernel, role: Role) -> None:
        self.kernel, self.role = kernel, role
        self.draw = random.Random(f"{kernel.style}/{role.name}")
        self.pipes = {pipe.name: pipe for pipe in kernel.pipes}
        self.plain = self.draw.random() < 0.4
        self.found: list[str] = []
        self.depth, self.names = 0, 0
        self.index: dict[str, str] = {}
        self.held: dict[str, str] = {}  # of readable stages this role holds: pipeline -> handle
        self.used = {(one.pipe, "producer" if one.kind in ("take", "give") else "consumer") for one in operations(role.items)}
        # How a pipeline of this role is spoken to; by hand only one stage at a time.
        nested = {name for name in self.pipes if _overlaps(role.items, name)}
        self.by_hand = {
            name
            for name, pipe in self.pipes.items()
            if pipe.kind in ("tma", "multicast") and name not in nested and self.draw.random() < 0.2
        }
        self.sink = {name: self.draw.choice(("store.direct", "store", "tma.store")) for name in self.pipes}

    def line(self, text: str) -> None:
        self.found.append("    " * self.depth + text)

    def lines(self) -> list[str]:
        for name, side in sorted(self.used):
            if name and self.pipes[name].kind != "none":
                self.line(f"{side[0]}_{name} = 0")
        registers = self.kernel.arch == "sm_90a" and any(
            one.kind == "free" and self.pipes[one.pipe].kind == "mma" for one in operations(self.role.items)
        )
        if registers:
            self.line(f"acc = accumulator(f32, {BF_ROWS}, 8)")
        self.items(self.role.items)
        if registers:
            self.line(f"store.direct(d_acc[block.x * {BF_ROWS}, 0], acc)")
        return self.found

    def items(self, items: Sequence[Item]) -> None:
        place = 0
        while place < len(items):
            item = items[place]
            match item:
                case Loop():
                    self.loop(item)
                case Cond():
                    self.condition(item)
                case Op("take" | "get", _, hold):
                    end = next((at for at in range(place, len(items)) if _ends(items[at], hold)), None)
                    if end is not None and self.scoped(item, items[place + 1 : end]):
                        place = end
                    else:
                        self.obtain(item)
                case Op("give" | "free"):
                    self.finish(item)
                case Op("drain"):
                    self.line(f"{item.pipe}.drain_producer()")
                case Op("turn"):
                    self.line(f"with semaphore(turns[0], block.x, {self.kernel.ctas}):")
                    self.line(f'    store.direct(z_t[0, 0], fill(1.0, f32, {ROWS}, {COLUMNS}), reduce="add")')
            place += 1

    # -------------------------------------------------------------------------------------------------- loops and branches

    def body(self, items: Sequence[Item]) -> None:
        self.depth += 1
        before = len(self.found)
        self.items(items)
        if len(self.found) == before:
            self.line("pass")
        self.depth -= 1

    def loop(self, loop: Loop) -> None:
        bound = self.draw.choice(_SPELLINGS.get(loop.bound, (loop.bound,))) if not self.plain else loop.bound
        name, self.names = f"{loop.variable}v{self.names}", self.names + 1
        ways = (self._upward,) if self.plain else (
            *(self._upward,) * 5, self._shifted, self._downward, self._while, self._strided, self._peeled, self._peeled_last,
            self._by_two, self._in_two)  # fmt: skip
        self.draw.choice(ways)(loop, f"({bound})" if not bound.isalnum() else bound, name)
        self.index.pop(loop.variable, None)

    def _for(self, loop: Loop, name: str, range_: str, index: str) -> None:
        self.line(f"for {name} in range({range_}):")
        self.index[loop.variable] = index
        self.body(loop.body)

    def _upward(self, loop: Loop, bound: str, name: str) -> None:
        self._for(loop, name, bound, name)

    def _shifted(self, loop: Loop, bound: str, name: str) -> None:
        self._for(loop, name, f"1, {bound} + 1", f"({name} - 1)")

    def _downward(self, loop: Loop, bound: str, name: str) -> None:
        self._for(loop, name, f"{bound} - 1, -1, -1", f"({bound} - 1 - {name})")

    def _strided(self, loop: Loop, bound: str, name: str) -> None:
        self._for(loop, name, f"0, 2 * {bound}, 2", f"({name} // 2)")

    def _while(self, loop: Loop, bound: str, name: str) -> None:
        self.line(f"{name} = 0")
        self.line(f"while {name} < {bound}:")
        self.index[loop.variable] = name
        self.body(loop.body)
        self.line(f"    {name} += 1")

    def _peeled(self, loop: Loop, bound: str, name: str) -> None:
        self.line(f"if {bound} > 0:")
        self.index[loop.variable] = "0"
        self.body(loop.body)
        self._for(loop, name, f"1, {bound}", name)

    def _peeled_last(self, loop: Loop, bound: str, name: str) -> None:
        self._for(loop, name, f"{bound} - 1", name)
        self.line(f"if {bound} > 0:")
        self.index[loop.variable] = f"({bound} - 1)"
        self.body(loop.body)

    def _by_two(self, loop: Loop, bound: str, name: str) -> None:
        self.line(f"for {name} in range({bound} // 2):")
        self.index[loop.variable] = f"(2 * {name})"
        self.body(loop.body)
        self.index[loop.variable] = f"(2 * {name} + 1)"
        self.body(loop.body)
        self.line(f"if {bound} > 0 and {bound} % 2 == 1:")
        self.index[loop.variable] = f"({bound} - 1)"
        self.body(loop.body)

    def _in_two(self, loop: Loop, bound: str, name: str) -> None:
        self._for(loop, name, f"min({bound}, 2)", name)
        self._for(loop, f"{name}b", f"2, {bound}", f"{name}b")

    def condition(self, condition: Cond) -> None:
        left, right = (side.format(**self.index) for side in (condition.left, condition.right))
        relation = condition.relation
        way = 0 if self.plain else self.draw.randrange(4)
        if way == 1:
            left, relation, right = right, _TURNED[relation], left
        if way == 2:
            self.line(f"if not ({left} {_NEGATED[relation]} {right}):")
            self.body(condition.body)
            return
        if way == 3 and all(not isinstance(item, Op) or item.kind != "turn" for item in condition.body):
            self.line(f"if {left} {_NEGATED[relation]} {right}:")
            self.line("    pass")
            self.line("else:")
            self.body(condition.body)
            return
        self.line(f"if {left} {relation} {right}:")
        self.body(condition.body)

    # ---------------------------------------------------------------------------------------------------------- stages

    def scoped(self, op: Op, between: Sequence[Item]) -> bool:
        """Writes the stage as a `with`, where what is done meanwhile allows it."""
        pipe = self.pipes[op.pipe]
        if (
            pipe.kind == "sub"
            or op.pipe in self.by_hand
            and op.kind == "take"
            or not _closed(between)
            or self.draw.random() < 0.3
        ):
            return False
        producing = op.kind == "take"
        if pipe.kind == "none" and not between and self.draw.random() < 0.5:
            self.line(f"{pipe.name}.{'producer' if producing else 'consumer'}_signal_and_step()")
            return True
        self.count(op)
        handle = self.handle(op)
        self.line(f"with {pipe.name}.{'produce' if producing else 'consume'}() as {handle}:")
        early = producing and pipe.kind in ("tma", "multicast", "mma") and self.draw.random() < 0.4
        self.depth += 1
        before = len(self.found)
        if early:
            self.fill(op)
        if not producing:
            self.held[pipe.name] = handle
        self.items(between)
        if producing and not early:
            self.fill(op)
        if not producing:
            self.held.pop(pipe.name, None)
            self.read(op)
        if len(self.found) == before:
            self.line("pass")
        self.depth -= 1
        return True

    def handle(self, op: Op) -> str:
        return "acc" if self.pipes[op.pipe].kind == "acc" and op.kind in ("take", "give") else f"s{op.hold}"

    def count(self, op: Op) -> None:
        """The number of this use, for the place of its tile."""
        if self.pipes[op.pipe].kind == "none":
            return
        counter = f"{'p' if op.kind in ('take', 'give') else 'c'}_{op.pipe}"
        self.line(f"k{op.hold} = {counter}")
        self.line(f"{counter} += 1")

    def obtain(self, op: Op) -> None:
        pipe, producing = self.pipes[op.pipe], op.kind == "take"
        self.count(op)
        if pipe.kind == "sub":
            self.line(f"{pipe.name}.{'acquire' if producing else 'wait'}[0]()")
        elif producing and pipe.name in self.by_hand:
            if self.draw.random() < 0.5:
                self.line(f"{pipe.name}.wait_consumer()")
            else:
                self.line(f"ready{op.hold} = {pipe.name}.try_acquire_producer()")
                self.line(f"{pipe.name}.wait_consumer_if_needed(ready{op.hold})")
        elif pipe.kind == "acc":
            self.line(f"{self.handle(op)} = {pipe.name}.acquire_{'mma' if producing else 'epilogue'}_linear()")
        else:
            self.line(f"{self.handle(op)} = {pipe.name}.acquire_{'producer' if producing else 'consumer'}()")
            if not producing:
                self.held[pipe.name] = self.handle(op)

    def finish(self, op: Op) -> None:
        pipe = self.pipes[op.pipe]
        if pipe.kind == "sub":
            self.finish_sub(op)
            return
        if op.kind == "give":
            self.fill(op)
        else:
            self.held.pop(pipe.name, None)
            self.read(op)
        if op.kind == "give" and pipe.name in self.by_hand:
            self.line(f"{pipe.name}.producer_step()")
        else:
            self.line(f"{self.handle(op)}.release()")

    def elected(self, text: str) -> None:
        if self.role.warps > 1:
            self.line("with elect():")
            text = f"    {text}"
        self.line(text)

    def fill(self, op: Op) -> None:
        pipe, hold = self.pipes[op.pipe], op.hold
        name, handle = pipe.name, self.handle(op)
        place = f"x_{name}[k{hold} * {rows_of(pipe)}, 0]"
        match pipe.kind:
            case "tma" | "multicast":
                tile, barrier = f"{handle}.x", ""
                if name in self.by_hand:
                    tile, barrier = f"{name}.payload.x[{name}.producer_stage()]", f", {name}.producer_mbar()"
                cast = ', multicast="x"' if pipe.kind == "multicast" else ""
                self.elected(f"tma.load({tile}, {place}{barrier}{cast})")
            case "copy":
                self.line(f"cp.async({handle}.x, x_{name}[k{hold} * 64])")
            case "threads" | "exchange":
                kinds = {p: self.pipes[p].kind for p in self.held if self.sink[p] != "tma.store"}
                readable = [self.held[p] for p, its in kinds.items() if its in ("tma", "threads")]
                if readable and self.draw.random() < 0.7:
                    self.line(f"write({handle}.x, {self.draw.choice(readable)}.x + 1.0)")
                else:
                    self.line(f"write({handle}.x, load({place}, {ROWS}, {COLUMNS}) + 2.0)")
            case "mma":
                self.elected(f"tma.load({handle}.a, a_{name}[k{hold} * {BF_ROWS}, 0])")
                self.elected(f"tma.load({handle}.b, b_{name}[k{hold} * 8, 0])")

    def read(self, op: Op) -> None:
        pipe, hold, handle = self.pipes[op.pipe], op.hold, self.handle(op)
        name = pipe.name
        place = f"y_{name}[(block.x * {TILES} + k{hold}) * {rows_of(pipe)}, 0]"
        match pipe.kind:
            case "none":
                pass
            case "copy":
                self.line(f"store.direct(y_{name}[block.x * {TILES} + k{hold}, 0], {handle}.x)")
            case "exchange":
                self.line(f"store.direct({place}, {handle}.x.of(1 - cta.rank))")
            case "mma":
                self.line(f"mma(acc, {handle}.a, {handle}.b)")
            case "acc":
                self.line(f"store.direct(d_{name}[(block.x * {TILES} + k{hold}) * {BF_ROWS}, 0], {handle})")
            case _ if self.sink[name] == "tma.store":
                self.elected(f"tma.store({place}, {handle}.x)")
            case _:
                self.line(f"{self.sink[name]}({place}, {handle}.x)")

    def finish_sub(self, op: Op) -> None:
        name, rows = op.pipe, f"(k{op.hold} * 2 + {{}}) * {ROWS}"
        for sub in range(2):
            tile = f"{name}_{sub}[{name}.index[{sub}]()]"
            if sub:
                self.line(f"{name}.{'acquire' if op.kind == 'give' else 'wait'}[1]()")
            if op.kind == "give":
                self.line(f"write({tile}, load(x_{name}[{rows.format(sub)}, 0], {ROWS}, {COLUMNS}) + 3.0)")
                self.line(f"{name}.producer_mbar[{sub}]().arrive()")
            else:
                self.line(f"store.direct(y_{name}[block.x * {TILES * 2 * ROWS} + {rows.format(sub)}, 0], {tile})")
                self.line(f"{name}.{'release' if sub else 'release_no_step'}[{sub}]()")
        if op.kind == "give":
            self.line(f"{name}.step()")


def _ends(item: Item, hold: int) -> bool:
    return isinstance(item, Op) and item.kind in ("give", "free") and item.hold == hold


def _closed(items: Sequence[Item]) -> bool:
    """Whether what is obtained in a row of statements is given up in it, and nothing else is."""
    begun = {one.hold for one in items if isinstance(one, Op) and one.kind in ("take", "get")}
    ended = {one.hold for one in items if isinstance(one, Op) and one.kind in ("give", "free")}
    return begun == ended


def _overlaps(items: Sequence[Item], pipe: str) -> bool:
    """Whether two stages that are filled are held at a time, or one across a loop."""
    open_ = 0
    for item in items:
        if isinstance(item, Op):
            if item.pipe == pipe:
                open_ += {"take": 1, "give": -1}.get(item.kind, 0)
            if open_ > 1:
                return True
        elif open_ or _overlaps(item.body, pipe):
            return True
    return False
