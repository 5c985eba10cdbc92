"""Drawn kernels as source text.

How a role says what it does is drawn apart for every role: other spellings of a bound, loops that are peeled, unrolled, reversed or
cut in two, `while`, negated conditions, scopes or handles, peeks.
"""

import random
from collections.abc import Sequence

from fuzz.protocol_kernels import BF_ROWS, COLUMNS, ROWS, Cond, Item, Kernel, Loop, Op, Role, operations, rows_of
from fuzz.stand_ins import Pipe

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


def bodies_of(kernel: Kernel) -> dict[str, str]:
    """The text of each role's body."""
    return {role.name: "\n".join(_Text(kernel, role).lines()) for role in kernel.roles}


def source_of(kernel: Kernel) -> str:
    bodies = bodies_of(kernel)
    lines = [f"kernel k({', '.join(kernel.parameters())}):"]
    lines += [f"    grid({kernel.ctas})", *(["    cluster(2)"] if kernel.cluster else [])]
    for pipe in kernel.pipes:
        lines += [f"    {line}" for line in _declared(pipe)]
    for role in kernel.roles:
        sides = ""
        for word, attribute in (("produces", "producer"), ("consumes", "consumer")):
            names = [pipe.name for pipe in kernel.pipes if getattr(pipe, attribute) == role.name]
            sides += f" {word} {', '.join(names)}" if names else ""
        lines.append(f"    role {role.name}(warps={role.warps}){sides}:")
        lines += [f"        {line}" for line in bodies[role.name].split("\n")]
    return "\n".join(lines) + "\n"


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
        place = f"y_{name}[k{hold} * {rows_of(pipe)}, block.x * {COLUMNS}]"
        match pipe.kind:
            case "none":
                pass
            case "copy":
                self.line(f"store.direct(y_{name}[k{hold}, block.x * 64], {handle}.x)")
            case "exchange":
                self.line(f"store.direct({place}, {handle}.x.of(1 - cta.rank))")
            case "mma":
                self.line(f"mma(acc, {handle}.a, {handle}.b)")
            case "acc":
                self.line(f"store.direct(d_{name}[k{hold} * {BF_ROWS}, block.x * 8], {handle})")
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
                self.line(f"store.direct(y_{name}[{rows.format(sub)}, block.x * {COLUMNS}], {tile})")
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
