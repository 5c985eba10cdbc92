"""Random kernels that use features together which others use apart: rings of all kinds between two to four roles, around, in front
of and within loops over tiles; clusters and multicast, sub-stages, peeks and drains, turns of blocks, tiles that the hardware hands
out, and counts by sizes, parameters, tiles and memory, which each role says in words of its own.

All roles go by the rings in one order, so that none waits for ever; a wrong kernel has one change in one role, or in what is assumed.
"""

import random
import re
from dataclasses import dataclass, field

from fuzz.together_programs import BLOCKS, COLUMNS, FEW, PLACES, Op, Program, Ring
from fuzz.together_text import Body, declared
from fuzz.together_words import CHANGES, COUNTS, GUARDS, WALKS

from pipec.record import replace

FAULTS = ("count", "count", "count", "kind", "walk", "walk", "order", "level", "guard", "turn", "assumed")


def draw(chance: random.Random, *, right: bool | None = None) -> Program:
    """Right or wrong, where that is given."""
    faulty = chance.random() < 0.55 if right is None else not right
    return _Writer(chance, chance.choice(FAULTS) if faulty else "").program()


@dataclass
class _Writer:
    chance: random.Random
    fault: str
    rings: list[Ring] = field(default_factory=list)

    def program(self) -> Program:
        chance = self.chance
        self.arch = chance.choice(("sm_90a", "sm_100a"))
        self.turns = 1 if chance.random() < 0.75 and self.fault != "turn" else chance.choice((2, 2, 3))
        walks = ["one", "dealt", "dealt", "contiguous", "parts", "static"] + ["clc"] * 3 * (self.arch == "sm_100a")
        self.walk = chance.choice(walks if self.turns == 1 else ["one", "every"])
        self.ctas = 2 if chance.random() < 0.25 and self.turns == 1 else 1
        self.kind = chance.choice(
            [name for name, one in COUNTS.items() if not one.shares or self.walk not in ("clc", "static", "every")]
        )
        self.count = COUNTS[self.kind]
        # The fewer words there are, the more is proved.
        self.walks, self.counts = (
            chance.sample(said, min(len(said), chance.choice((1, 1, 2, 6)))) for said in (WALKS[self.walk], self.count.said)
        )
        self.parts = self.count.shares
        self.by_tile = self.walk == "clc" or (self.walk != "every" and chance.random() < 0.6)
        self.blocks = {"parts": "m"}.get(self.walk) or chance.choice(("2", "2", "3", "min(T, 2)"))
        self.assumed = [self.count.assumed] if self.count.assumed else []
        if self.walk == "parts":
            self.assumed.append("m > 0")
        roles = chance.choice((2, 2, 2, 3, 3, 4))
        self.warps = [chance.choice((1, 1, 2, 4)) for _ in range(roles)]
        self._draw_rings(roles)
        self._draw_ops(roles)
        self._plant(roles)
        source = self._source(roles)
        return Program(
            source, self.arch, self.fault, self.count, self.walk, tuple(self.rings), self.by_tile, self.blocks, self.parts, self.turns,
            self.ctas,
        )  # fmt: skip

    def _draw_rings(self, roles: int) -> None:
        chance, kinds = self.chance, ["tma", "tma", "write", "none", "sub"]
        if self.ctas > 1:
            kinds += ["multicast", "exchange"] * 2
        pairs = [(one, one + 1) if chance.random() < 0.7 else (one + 1, one) for one in range(roles - 1)]
        pairs += [tuple(chance.sample(range(roles), 2)) for _ in range(chance.choice((0, 1, 1, 2)))]
        chance.shuffle(pairs)
        for number, (producer, consumer) in enumerate(pairs):
            place = "turn" if number == 0 else chance.choice(("turn", "turn", "turn", "tile first", "tile last", "first", "last"))
            kind = chance.choice(kinds)
            if self.walk == "clc" and place in ("first", "last"):
                kind = "none"  # which blocks run at all is for the hardware to say
            others = [role for role in range(roles) if role not in (producer, consumer)]
            other = chance.choice(others) if others and kind in ("tma", "write", "none") and chance.random() < 0.25 else None
            guard = chance.randrange(len(GUARDS)) if place.startswith("tile") and chance.random() < 0.4 else -1
            self.rings.append(Ring(f"q{number}", kind, chance.choice((1, 1, 2, 3)), place, producer, consumer, other, guard))

    def _draw_ops(self, roles: int) -> None:
        self.ops: list[list[Op]] = [[] for _ in range(roles)]
        for ring in self.rings:
            self.ops[ring.producer].append(Op("give", ring.place, ring))
            for taker in (ring.consumer, ring.other):
                if taker is not None:
                    self.ops[taker].append(Op("take", ring.place, ring))
        if self.turns > 1:
            role = self.chance.randrange(roles)
            place = self.chance.choice(("tile first", "tile last"))
            self.ops[role].insert(self.chance.randint(0, len(self.ops[role])), Op("turn", place))
        for ring in self.rings:
            if ring.kind in ("tma", "write") and self.chance.random() < 0.2:
                ends = {"turn": ("tile last", "last"), "tile first": ("tile last", "last")}.get(ring.place, ("last",))
                self.ops[ring.producer].append(Op("drain", self.chance.choice(ends), ring))

    def _plant(self, roles: int) -> None:
        """What is wrong: of which role; the words themselves are changed when they are written."""
        chance = self.chance
        self.wrong = chance.choice([role for role in range(roles) if any(op.place == "turn" for op in self.ops[role])])
        ops = self.ops[self.wrong]
        if self.fault == "order" and len(ops) > 1:
            at = chance.randrange(len(ops) - 1)
            ops[at], ops[at + 1] = ops[at + 1], ops[at]
        if self.fault == "level":
            at = chance.randrange(len(ops))
            places = PLACES[1:-1] if self.walk == "clc" else PLACES
            ops[at] = replace(ops[at], place=chance.choice([place for place in places if place != ops[at].place]))
        if self.fault == "assumed" and self.assumed:
            parts = [part for one in self.assumed for part in one.split(" and ")]
            at = chance.randrange(len(parts))
            parts[at] = chance.choice(("", _changed(chance, parts[at])))
            self.assumed = [part for part in parts if part]
        self.guarded = chance.randrange(len(ops)) if self.fault == "guard" else -1

    # ---------------------------------------------------------------------------------------------------------------------------- text

    def _source(self, roles: int) -> str:
        width = COLUMNS * self.ctas
        stored = [ring.name for ring in self.rings if ring.kind != "none"]
        stored += [f"{ring.name}b" for ring in self.rings if ring.kind != "none" and ring.other is not None]
        tensors = [
            "c: tensor[i32, T]",
            "kd: tensor[f32, K]",
            f"turns: tensor[i32, {BLOCKS}, 8]",
            f"z: tensor[f32, {BLOCKS}, 64, {COLUMNS}]",
        ]
        tensors += [f"{name}: tensor[f32, {BLOCKS}, {FEW * 16}, {width}]" for name in ("x", *(f"y_{one}" for one in stored))]
        lines = [f"kernel k({', '.join(tensors)}, n: i32, m: i32, s: i32, parts: i32):"]
        lines += [f"    assume({one})" for one in self.assumed]
        if self.ctas > 1:
            lines += ["    cluster(2)"]
        if self.walk in ("clc", "static"):
            blocks = "" if self.walk == "clc" else f", blocks={self.chance.choice((1, 2, 2, 3)) * self.ctas}"
            self.blocks = f"min(T, {int(blocks.rpartition('=')[2]) // self.ctas})" if blocks else self.blocks
            lines += [f'    tiles = TileScheduler(T, mode="{self.walk}"{blocks})']
        else:
            x = f"2 * {self.blocks}" if self.ctas > 1 else self.blocks
            lines += [f"    grid({x}, {'parts' if self.parts else 1}, {self.turns})"]
        for ring in self.rings:
            lines += declared(ring)
        for role in range(roles):
            lines += self._role(role)
        return "\n".join(lines) + "\n"

    def _role(self, role: int) -> list[str]:
        gives = [ring.name for ring in self.rings if ring.producer == role]
        takes = [ring.name for ring in self.rings if role in (ring.consumer, ring.other)]
        sides = (f" produces {', '.join(gives)}" if gives else "") + (f" consumes {', '.join(takes)}" if takes else "")
        head = f"    role r{role}(warps={self.warps[role]}){sides}:"
        return [head, *(f"        {line}" for line in Body(self, role).lines())]

    def words(self, role: int) -> tuple[str, str]:
        """The walk of a role and its count."""
        walk, said = self.chance.choice(self.walks), self.chance.choice(self.counts)
        first, blocks = ("cluster.x", "clusters.x") if self.ctas > 1 else ("block.x", "grid.x")
        walk = walk.replace("{first}", first).replace("{blocks}", blocks)
        if role == self.wrong and self.fault == "count":
            said = _changed(self.chance, said)
        if role == self.wrong and self.fault == "kind":
            said = self.chance.choice(COUNTS[self.chance.choice(list(COUNTS))].said)
        if role == self.wrong and self.fault == "walk":
            walk = _changed(self.chance, walk)
        if self.walk == "one":
            said = said.replace("[t]", f"[{first}]") if self.chance.random() < 0.5 else said
        return walk, said


def _changed(chance: random.Random, text: str) -> str:
    """One change in one place."""
    places = [(match, new) for pattern, others in CHANGES for match in re.finditer(pattern, text) for new in others]
    if not places:
        return text
    match, new = chance.choice(places)
    return text[: match.start()] + match.expand(new) + text[match.end() :]
