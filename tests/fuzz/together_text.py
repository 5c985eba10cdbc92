"""The text of a role of a random kernel of many features."""

import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from fuzz.together_programs import COLUMNS, Op, Ring
from fuzz.together_words import GUARDS


class Drawn(Protocol):
    """What is drawn of a kernel. `wrong`: the role with a mistake; `guarded`: the number of what it does under a condition, or -1."""

    chance: random.Random
    fault: str
    walk: str
    by_tile: bool
    parts: bool
    turns: int
    ctas: int
    warps: list[int]
    ops: list[list[Op]]
    wrong: int
    guarded: int

    def words(self, role: int) -> tuple[str, str]: ...


@dataclass
class Body:
    """One role's text."""

    writer: Drawn
    role: int

    def lines(self) -> list[str]:
        ops = self.writer.ops[self.role]
        counters = [f"{self._counter(op)} = 0" for op in ops if op.what in ("give", "take")]
        walk, count = self.writer.words(self.role)
        turn = self._done("turn")
        within = [f"{self._counter(op)} = 0" for op in ops if op.what in ("give", "take") and self._by_tile(op)]
        within += self._done("tile first") + (_filled(count, turn) if turn else []) + self._done("tile last")
        scheduled = self.writer.walk in ("clc", "static")
        around = _filled(walk, within) if within or scheduled else []
        return [*counters, *self._done("first"), *around, *self._done("last")] or ["pass"]

    def _by_tile(self, op: Op) -> bool:
        return self.writer.by_tile and op.place not in ("first", "last")

    def _counter(self, op: Op) -> str:
        assert op.ring is not None
        return f"{op.what[0]}_{op.ring.name}"

    def _done(self, place: str) -> list[str]:
        everything = self.writer.ops[self.role]
        return self._nested([(number, op) for number, op in enumerate(everything) if op.place == place])

    def _nested(self, ops: Sequence[tuple[int, Op]]) -> list[str]:
        """The first of some operations, and the others behind it or within it."""
        if not ops:
            return []
        (number, op), rest = ops[0], ops[1:]
        chance = self.writer.chance
        holds = op.what in ("give", "take") and op.ring is not None and op.ring.kind != "sub" and op.ring.guard < 0
        deep = holds and number != self._guarded() and chance.random() < 0.2
        lines = self._op(op, self._nested(rest) if deep else [])
        condition = ""
        if op.ring is not None and op.ring.guard >= 0 and op.what != "drain":
            condition = chance.choice(GUARDS[op.ring.guard][0])
        if number == self._guarded():
            condition = chance.choice(("n > 1", "m != 2", "K > 64", "T != 3", "s < 100"))
        if condition:
            lines = [f"if {condition}:", *(f"    {line}" for line in lines)]
        return lines if deep else [*lines, *self._nested(rest)]

    def _guarded(self) -> int:
        return self.writer.guarded if self.role == self.writer.wrong else -1

    def _who(self, op: Op) -> str:
        writer = self.writer
        block = "cluster.x" if writer.ctas > 1 else "block.x"
        who = "t" if self._by_tile(op) else block
        who = f"({who} * parts + block.y)" if writer.parts else who
        return f"({who} * {writer.turns} + block.z)" if writer.turns > 1 else who

    def _op(self, op: Op, inside: list[str]) -> list[str]:
        if op.what == "turn":
            return self._turn()
        assert op.ring is not None
        if op.what == "drain":
            return [f"{op.ring.name}.drain_producer()"]
        if op.ring.kind == "none":
            return self._bare(op.ring, op.what, inside)
        counter = self._counter(op)
        if op.ring.kind == "sub":
            return [*self._sub(op, op.ring, counter), *inside, f"{counter} += 1"]
        body = self._give(op, op.ring, counter) if op.what == "give" else self._take(op, op.ring, counter)
        body = [*inside, *body] if self.writer.chance.random() < 0.5 else [*body, *inside]
        return [*self._held(op.ring, op.what, body), f"{counter} += 1"]

    def _held(self, ring: Ring, what: str, body: list[str]) -> list[str]:
        chance, side = self.writer.chance, {"give": "producer", "take": "consumer"}[what]
        name = f"s_{ring.name}"
        within = [f"    {line}" for line in body or ["pass"]]
        match chance.randrange(5):
            case 0:
                return [f"{name} = {ring.name}.acquire_{side}()", *body, f"{name}.release()"]
            case 1:
                peek = f"ready_{ring.name} = {ring.name}.try_acquire_{side}()"
                return [peek, f"with {ring.name}.{side}().acquire_if_needed(ready_{ring.name}) as {name}:", *within]
        return [f"with {ring.name}.{'produce' if what == 'give' else 'consume'}() as {name}:", *within]

    def _bare(self, ring: Ring, what: str, inside: list[str]) -> list[str]:
        side = {"give": "producer", "take": "consumer"}[what]
        if not inside:
            return [f"{ring.name}.{side}_signal_and_step()"]
        held = "produce" if what == "give" else "consume"
        return [f"with {ring.name}.{held}():", *(f"    {line}" for line in inside)]

    def _elected(self, line: str) -> list[str]:
        return [line] if self.writer.warps[self.role] == 1 else ["with elect():", f"    {line}"]

    def _give(self, op: Op, ring: Ring, counter: str) -> list[str]:
        column = "0" if ring.kind == "multicast" or self.writer.ctas == 1 else f"cta.x * {COLUMNS}"
        place, tile = f"x[{self._who(op)}, {counter} * {ring.rows}, {column}]", f"s_{ring.name}.x"
        if ring.kind in ("tma", "multicast"):
            return self._elected(f"tma.load({tile}, {place}" + (', multicast="x")' if ring.kind == "multicast" else ")"))
        return [f"write({tile}, load({place}, {ring.rows}, {COLUMNS}) + 1.0)"]

    def _take(self, op: Op, ring: Ring, counter: str) -> list[str]:
        column = "0" if self.writer.ctas == 1 else f"cta.x * {COLUMNS}"
        stored = ring.name if self.role == ring.consumer else f"{ring.name}b"
        place, tile = f"y_{stored}[{self._who(op)}, {counter} * {ring.rows}, {column}]", f"s_{ring.name}.x"
        if ring.kind == "exchange":
            return [f"store.direct({place}, {tile}.of(1 - cta.rank))"]
        match self.writer.chance.randrange(4):
            case 0:
                return [f"store({place}, {tile})"]
            case 1 if ring.other is None:
                return self._elected(f"tma.store({place}, {tile})")
            case 2:
                kept = f"v_{ring.name}"
                return [f"{kept} = registers({tile})", f"store.direct({place}, {kept})"]
        return [f"store.direct({place}, {tile})"]

    def _sub(self, op: Op, ring: Ring, counter: str) -> list[str]:
        chance, name, who = self.writer.chance, ring.name, self._who(op)
        column = "0" if self.writer.ctas == 1 else f"cta.x * {COLUMNS}"
        order, lines = chance.sample((0, 1), 2), []
        for sub in order:
            tile, row = f"{name}_{sub}[{name}.index[{sub}]()]", f"({counter} * 2 + {sub}) * {ring.rows}"
            if op.what == "give":
                lines += [f"{name}.acquire[{sub}]()"]
                lines += [f"write({tile}, load(x[{who}, {row}, {column}], {ring.rows}, {COLUMNS}) + 1.0)"]
                lines += [f"{name}.producer_mbar[{sub}]().arrive()"]
            else:
                lines += [f"{name}.wait[{sub}]()", f"store.direct(y_{name}[{who}, {row}, {column}], {tile})"]
                lines += [f"{name}.release_no_step[{sub}]()"]
        return [*lines, f"{name}.step()"]

    def _turn(self) -> list[str]:
        writer, chance = self.writer, self.writer.chance
        at, row = ("block.x", "t") if writer.walk == "every" else ("t * parts + block.y" if writer.parts else "t", "0")
        counter, turn, many = f"{at}, {row}", "block.z", str(writer.turns)
        if writer.fault == "turn":
            wrong = chance.choice(("counter", "turn", "many", "many"))
            counter = (
                chance.choice((f"0, {row}", f"{at}, block.z", f"{at}, {row} + 1", f"{at}, 0")) if wrong == "counter" else counter
            )
            turn = chance.choice(("block.x", "block.z + 1", f"{many} - 1 - block.z")) if wrong == "turn" else turn
            many = chance.choice((str(writer.turns + 1), str(writer.turns - 1), "grid.x")) if wrong == "many" else many
        value = f"load(z[{at}, {row} * 8, 0], 8, {COLUMNS}) * 2.0 + fill(cast[f32](block.z + 1), f32, 8, {COLUMNS})"
        inside = [f"    old = registers({value})", f"    store.direct(z[{at}, {row} * 8, 0], old)"]
        return [f"with semaphore(turns[{counter}], {turn}, {many}):", *inside]


def declared(ring: Ring) -> list[str]:
    match ring.kind:
        case "none":
            return [f"    {ring.name} = ProducerConsumerPipeline(stages={ring.stages})"]
        case "sub":
            sides = f"stages={ring.stages}, producer_sub_stages=2, consumer_sub_stages=2"
            tiles = [f"    {ring.name}_{sub} = SharedTiles(tile[f32, 8, {COLUMNS}], count={ring.stages})" for sub in range(2)]
            return [f"    {ring.name} = RolePipeline({sides})", *tiles]
    scope = ', scope="cluster"' if ring.kind == "exchange" else ""
    return [f"    {ring.name} = InputTilePipeline(TilePayload(x=tile[f32, {ring.rows}, {COLUMNS}]), stages={ring.stages}{scope})"]


def _filled(text: str, inside: Sequence[str]) -> list[str]:
    """The words around what is done."""
    found = []
    for line in text.split("\n"):
        indent = line[: len(line) - len(line.lstrip())]
        found += [indent + one for one in inside] if line.strip() == "{it}" else [line]
    return found
