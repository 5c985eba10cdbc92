"""Random kernels whose consumers share the stages of a ring, and wrong ones: what is proved hangs in no order of events, mistakes no phase
and gives the right result; what is right by construction is proved, or not decided."""

import random
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product

import numpy as np
from fuzz.stand_ins import TooLong, run_roles
from fuzz.tiles import Pipe

from pipec.driver import Compilation, Options, compile_source
from pipec.runtime import LaunchOptions, launch
from pipec.sim import Options as Simulation
from pipec.sim import SimulationError
from pipec.source import Source

COUNT = 1500
ROWS, COLUMNS = 64, 32
MOST_STATES = 20_000
SIZES = [{"n": n, "m": m} for n, m in product((0, 1, 2, 3), (1, 2))]
# What is wrong of a kernel: a role skips one stage less or more than the others take, nobody holds back who comes first, or only before
# the stages are taken.
FAULTS = ("skips less", "skips more", "no turns", "turns too short")


@dataclass(frozen=True)
class Drawn:
    """`takes`: how many stages each consumer takes in a round, a number or the parameter `m`. `written_out`: skips are lines, no loop."""

    arch: str
    stages: int
    takes: tuple[str, ...]
    written_out: bool
    fault: str = ""
    faulty: int = 0  # the role that is wrong

    @property
    def pipes(self) -> list[Pipe]:
        return [Pipe("ring", self.stages, "tma"), *(Pipe(name, 1, "none") for name in self.turns())]

    def turns(self) -> list[str]:
        """Each pair of neighbours shares one, and the last tells the first one."""
        between = [f"turn{number}" for number in range(len(self.takes) - 1)]
        return [] if self.fault == "no turns" else between if len(self.takes) == 2 else [*between, "back"]

    def bodies(self) -> dict[str, str]:
        loads = ["for i in range(n):"]
        for number, count in enumerate(self.takes):
            loads += [f"    for k in range({count}):", "        with ring.produce() as s:"]
            loads += [f"            tma.load(s.x, x[{self._place(number)}, 0])"]
        return {"load": "\n".join(loads), **{f"take{number}": self._taking(number) for number in range(len(self.takes))}}

    def _place(self, number: int) -> str:
        total = " + ".join(self.takes)
        return f"({' + '.join([f'i * ({total})', *self.takes[:number], 'k'])}) * {ROWS}"

    def _taking(self, number: int) -> str:
        before, after = self.takes[:number], self.takes[number + 1 :]
        lines = self._skips(number, before)
        held = [f"with turn{number - 1}.consume():"] * (number > 0) + [f"with turn{number}.produce():"] * bool(after)
        held = [] if self.fault == "no turns" else held
        take = [f"for k in range({self.takes[number]}):", "    with ring.consume() as s:"]
        take += [f"        store(y[{self._place(number)}, 0], s.x)"]
        lines += _nested(held, ["pass"]) + take if self.fault == "turns too short" else _nested(held, take)
        lines += self._skips(number, after)
        if "back" in self.turns() and number in (0, len(self.takes) - 1):
            lines += ["back.consumer_signal_and_step()" if number == 0 else "back.producer_signal_and_step()"]
        return "\n".join(["for i in range(n):", *("    " + line for line in lines)])

    def _skips(self, number: int, others: Sequence[str]) -> list[str]:
        change = {"skips less": -1, "skips more": 1}.get(self.fault, 0) if number == self.faulty else 0
        lines = []
        for place, other in enumerate(others):
            more = change if place == 0 else 0
            if self.written_out and other.isdigit():
                lines += ["ring.skip()"] * (int(other) + more) or ["pass"]
            else:
                lines += [f"for k in range({other}{f' + {more}' if more else ''}):", "    ring.skip()"]
        return lines

    def source(self) -> str:
        lines = [f"kernel k(x: tensor[f32, M, {COLUMNS}], y: tensor[f32, M, {COLUMNS}], n: i32, m: i32):", "    grid(1)"]
        lines += [f"    ring = InputTilePipeline(TilePayload(x=tile[f32, {ROWS}, {COLUMNS}]), stages={self.stages})"]
        lines += [f"    {name} = ProducerConsumerPipeline(stages=1)" for name in self.turns()]
        for name, body in self.bodies().items():
            lines += [f"    role {name}(warps={1 if name == 'load' else 2}) {self._sides(name)}:"]
            lines += [f"        {line}" for line in body.split("\n")]
        return "\n".join(lines) + "\n"

    def _sides(self, name: str) -> str:
        if name == "load":
            return "produces ring"
        body = self.bodies()[name]
        filled = [turn for turn in self.turns() if f"{turn}.produce" in body]
        taken = ["ring", *(turn for turn in self.turns() if f"{turn}.consume" in body)]
        return f"consumes {', '.join(taken)}" + (f" produces {', '.join(filled)}" if filled else "")

    def truth(self) -> str:
        """What the token model finds, of all sizes."""
        for sizes in SIZES:
            try:
                run = run_roles({pipe.name: pipe for pipe in self.pipes}, {}, self.bodies(), sizes, {}, ("x", "y"))
                found = run.explored(MOST_STATES)
            except TooLong:
                return "open"
            if found.kind != "right":
                return f"{found.kind} at {sizes}: {found.text}"
        return "right"


def _nested(around: Sequence[str], inner: Sequence[str]) -> list[str]:
    lines = list(inner)
    for line in reversed(around):
        lines = [line, *(f"    {one}" for one in lines)]
    return lines


def draw(chance: random.Random) -> Drawn:
    takes = tuple(chance.choice(("1", "2", "3", "m")) for _ in range(chance.choice((2, 2, 3))))
    fault = chance.choice((*FAULTS, "", "", "", ""))
    arch = chance.choice(("sm_90a", "sm_100a"))
    return Drawn(arch, chance.randint(1, 4), takes, chance.random() < 0.5, fault, chance.randrange(len(takes)))


def attempt(chance: random.Random) -> str | None:
    drawn = draw(chance)
    text = drawn.source()
    state = compile_source(Source("k.pipe", text), Options(drawn.arch))
    if any(one.code == "E0001" for one in state.diagnostics):
        return f"a fault of the compiler\n{text}"
    truth = drawn.truth()
    if not drawn.fault and truth not in ("right", "open"):
        return f"meant to be right, but {truth}\n{text}"
    if state.failed:
        told = [one.title for one in state.diagnostics if one.code != "E0604"]
        return f"right by construction, but refused: {told}\n{text}" if told and not drawn.fault else None
    if truth not in ("right", "open"):
        return f"proved, but {truth}\n{text}"
    return _simulated(drawn, state, chance.randrange(1000)) if truth == "right" else None


def _simulated(drawn: Drawn, state: Compilation, seed: int) -> str | None:
    assert state.plans is not None and state.ptx is not None
    for timing, sizes in (("late", SIZES[-1]), ("random", SIZES[-2])):
        stages = sizes["n"] * sum(sizes["m"] if take == "m" else int(take) for take in drawn.takes)
        x = np.random.default_rng(seed).integers(0, 1000, (max(1, stages) * ROWS, COLUMNS)).astype(np.float32)
        y = np.zeros_like(x)
        options = LaunchOptions(Simulation(timing=timing, seed=seed))  # type: ignore[arg-type]
        try:
            launch(state.plans[0].interface, state.ptx, {"x": x, "y": y, **sizes}, device="sim", options=options)
        except SimulationError as error:
            return f"# {drawn.arch}, {timing}, {sizes}: {error}\n{drawn.source()}"
        if not np.array_equal(x, y):
            return f"# {drawn.arch}, {timing}, {sizes}: another result\n{drawn.source()}"
    return None
