"""What the text of a kernel means for its barriers and its data, found by running it: a role's body is also Python.

Each role is run by itself, for given sizes, with stand-ins for pipelines, tensors and operations that write down what is waited
for, signalled and touched, in the words of `explorer`. A role counts as one process and gives one arrival where its threads give
one each. This reads docs/language.md ("Pipelines") and nothing else: no tree, plan or PTX.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import numpy as np
from fuzz.explorer import Event, Finding, Name, Process, explore
from fuzz.integers import Int, compiled
from fuzz.tiles import Pipe, Place, Products, Tile, Value

from pipec.record import replace

MOST_EVENTS = 400  # of a role


class TooLong(Exception):
    """A role does more than is followed here."""


# ------------------------------------------------------------------------------------------------------------------ a role


class _Stage:
    """A held stage of one side."""

    def __init__(self, role: "_Role", pipe: Pipe, side: str) -> None:
        self.role, self.pipe, self.side = role, pipe, side
        self.use = role.cursors.get((pipe.name, side), 0)
        role.cursors[pipe.name, side] = self.use + 1
        role.stages[pipe.name, self.use] = self
        self.signalled = False
        self.arrival: int | None = None  # the event that announces the bytes of loads
        self.copies: list[Name] = []
        self.read_by_mma: list[Name] = []
        self.products: Products | None = None
        if pipe.kind == "acc" and side == "full":
            self.products = Products(Tile(role, pipe, "acc", self.use, role.cta))
            role.run.made[pipe.name, self.use, role.cta, "acc", 0] = Value(self.products)
        role.wait(pipe, "empty" if side == "full" else "full", self.use)

    def __getattr__(self, member: str) -> Tile:
        return Tile(self.role, self.pipe, member, self.use, self.role.cta)

    def index(self) -> "_Stage":
        return self

    def load(self, tile: Tile, place: Place, multicast: bool) -> None:
        role, ctas = self.role, range(2) if multicast else (self.role.cta,)
        if self.arrival is None:
            self.arrival = role.arrive(self.pipe, "full", self.use)
        event = role.events[self.arrival]
        role.events[self.arrival] = replace(event, bytes=event.bytes + len(ctas))
        for cta in ctas:
            touched = replace(tile, cta=cta).slots()
            touched = [touched[role.cta]] if multicast else touched
            role.later(self.pipe, "full", self.use, cta, touched, True, bytes_=-1)
        role.run.made[self.pipe.name, self.use, role.cta, tile.member, 0] = Value(place)

    def release(self) -> None:
        role, pipe = self.role, self.pipe
        if self.signalled or self.arrival is not None:
            return
        self.signalled = True
        if self.copies:
            role.later(pipe, "full", self.use, role.cta, self.copies, True, count=1)
        elif self.products is not None:
            assert self.products.tile is not None
            role.later(pipe, "full", self.use, role.cta, self.products.tile.slots(), True, count=1)
        elif self.read_by_mma:
            role.later(pipe, "empty", self.use, role.cta, self.read_by_mma, False, count=1)
        else:
            role.signal(pipe, self.side, self.use)


class _Pipeline:
    """The pipeline as one role sees it."""

    def __init__(self, role: "_Role", pipe: Pipe) -> None:
        self.role, self.pipe = role, pipe
        self.current: dict[str, _Stage | None] = {"full": None, "empty": None}
        self.payload = SimpleNamespace(x=_Buffer())

    @contextmanager
    def _held(self, side: str) -> Iterator[_Stage]:
        stage = _Stage(self.role, self.pipe, side)
        yield stage
        stage.release()

    def produce(self) -> Any:
        return self._held("full")

    def consume(self) -> Any:
        return self._held("empty")

    def acquire_producer(self) -> _Stage:
        return _Stage(self.role, self.pipe, "full")

    def acquire_consumer(self) -> _Stage:
        return _Stage(self.role, self.pipe, "empty")

    def producer_signal_and_step(self) -> None:
        self.acquire_producer().release()

    def consumer_signal_and_step(self) -> None:
        self.acquire_consumer().release()

    def skip(self) -> None:
        side = self.pipe.name, "empty"
        self.role.cursors[side] = self.role.cursors.get(side, 0) + 1

    acquire_mma_linear, acquire_epilogue_linear = acquire_producer, acquire_consumer

    def try_acquire_producer(self) -> bool:
        return False

    try_acquire_consumer = try_acquire_producer

    def wait_consumer(self) -> None:
        self.current["full"] = self.acquire_producer()

    def wait_consumer_if_needed(self, ready: bool) -> None:
        self.wait_consumer()

    def producer_stage(self) -> _Stage | None:
        return self.current["full"]

    def producer_mbar(self) -> None:
        return None

    def producer_step(self) -> None:
        self.current["full"] = None

    def drain_producer(self) -> None:
        filled = self.role.cursors.get((self.pipe.name, "full"), 0)
        for use in range(max(0, filled - self.pipe.stages), filled):
            self.role.wait(self.pipe, "empty", use + self.pipe.stages)


class _Buffer:
    """`payload.x`: picked by a held stage."""

    def __getitem__(self, stage: _Stage) -> Tile:
        return stage.x


class _SubStages:
    """A RolePipeline as one role sees it: `acquire[i]()` and the like."""

    def __init__(self, role: "_Role", pipe: Pipe) -> None:
        self.role, self.pipe, self.use = role, pipe, 0
        self.acquire = self._row(lambda sub: role.wait(pipe, "empty", self.use, sub))
        self.wait = self._row(lambda sub: role.wait(pipe, "full", self.use, sub))
        self.producer_mbar = self._row(lambda sub: SimpleNamespace(arrive=lambda: role.signal(pipe, "full", self.use, sub)))
        self.release_no_step = self._row(lambda sub: role.signal(pipe, "empty", self.use, sub))
        self.release = self._row(self._release)
        self.index = self._row(lambda sub: (self.use, sub))

    @staticmethod
    def _row(what: Callable[[int], Any]) -> Any:
        class Row:
            def __getitem__(self, sub: int) -> Callable[[], Any]:
                return lambda: what(int(sub))

            def __call__(self) -> Any:
                return what(0)

        return Row()

    def _release(self, sub: int) -> None:
        self.role.signal(self.pipe, "empty", self.use, sub)
        self.step()

    def step(self) -> None:
        self.use += 1


class _Role:
    """Runs one role of one CTA."""

    def __init__(self, run: "Run", name: str, cta: int) -> None:
        self.run, self.name, self.cta = run, name, cta
        self.number = len(run.processes)
        self.process = Process(f"{name} of CTA {cta}" if run.ctas > 1 else name)
        run.processes.append(self.process)
        self.events = self.process.events
        self.touched: set[tuple[Name, bool]] = set()
        self.cursors: dict[tuple[str, str], int] = {}
        self.stages: dict[tuple[str, int], _Stage] = {}

    def holding(self, tile: Tile) -> _Stage:
        return self.stages[tile.pipe.name, tile.use]

    def append(self, event: Event) -> int:
        self.events.append(replace(event, touches=frozenset(self.touched)))
        self.touched.clear()
        if len(self.events) > MOST_EVENTS:
            raise TooLong
        return len(self.events) - 1

    def barrier(self, pipe: Pipe, side: str, use: int, cta: int, sub: int = 0) -> Name:
        return (cta, pipe.name, side, sub, use % pipe.stages)

    def wait(self, pipe: Pipe, side: str, use: int, sub: int = 0) -> None:
        phase = use // pipe.stages - (1 if side == "empty" else 0)
        self.append(Event(self.barrier(pipe, side, use, self.cta, sub), phase, wait=True))

    def arrive(self, pipe: Pipe, side: str, use: int, cta: int | None = None, sub: int = 0) -> int:
        cta = self.cta if cta is None else cta
        return self.append(Event(self.barrier(pipe, side, use, cta, sub), use // pipe.stages, count=1))

    def signal(self, pipe: Pipe, side: str, use: int, sub: int = 0) -> None:
        """The signal of a side by its threads: where the pipeline is the cluster's, to all of its CTAs."""
        everywhere = pipe.kind == "exchange" or pipe.kind == "multicast" and side == "empty"
        for cta in range(2) if everywhere else (self.cta,):
            self.arrive(pipe, side, use, cta, sub)

    def later(
        self, pipe: Pipe, side: str, use: int, cta: int, slots: list[Name], writes: bool, count: int = 0, bytes_: int = 0
    ) -> None:
        """An arrival that comes when what was issued is done."""
        touches = frozenset((slot, writes) for slot in slots)
        event = Event(self.barrier(pipe, side, use, cta), use // pipe.stages, count=count, bytes=bytes_, touches=touches)
        self.run.processes.append(Process(f"an operation of {self.process.name}", [event], (self.number, len(self.events))))

    def read(self, value: Any) -> None:
        tile = value.source if isinstance(value, Value) else value.acc if isinstance(value, _Stage) else value
        if isinstance(tile, Products):
            tile = tile.tile
        if isinstance(tile, Tile):
            self.touched |= {(slot, False) for slot in tile.slots()}


# ---------------------------------------------------------------------------------------------------------------- a kernel


@dataclass
class Run:
    """All roles of the CTAs that run together, for one set of sizes."""

    pipes: Mapping[str, Pipe]
    buffers: Mapping[str, str]  # of a RolePipeline, by name
    ctas: int
    tensors: Sequence[str]
    processes: list[Process] = field(default_factory=list)
    made: dict[tuple[str, int, int, str, int], Value] = field(default_factory=dict)
    stored: list[tuple[Place, Any, bool]] = field(default_factory=list)  # where, what, whether it is added

    def counts(self) -> dict[Name, int]:
        """Arrivals by barrier, as the language has it: one for each role of a side, in every CTA that signals."""
        found: dict[Name, int] = {("turns",): 1}
        for cta in range(self.ctas):
            for pipe in self.pipes.values():
                wide = {"full": pipe.kind == "exchange", "empty": pipe.kind in ("exchange", "multicast")}
                for side in ("full", "empty"):
                    for sub in range(2 if pipe.kind == "sub" else 1):
                        for stage in range(pipe.stages):
                            found[cta, pipe.name, side, sub, stage] = 2 if wide[side] else 1
        return found

    def explored(self, most: int) -> Finding:
        pairs = []
        for cta in range(self.ctas):
            for pipe in self.pipes.values():
                if pipe.kind == "none" and pipe.stages == 1:
                    continue  # a baton may be left with nobody to take it
                sides = [
                    [
                        (cta, pipe.name, side, sub, stage)
                        for sub in range(2 if pipe.kind == "sub" else 1)
                        for stage in range(pipe.stages)
                    ]
                    for side in ("full", "empty")
                ]
                pairs.append((sides[0], sides[1]))
        return explore(self.processes, self.counts(), pairs, most)

    def tile(self, value: Any, tensors: Mapping[str, np.ndarray], shape: tuple[int, int]) -> np.ndarray:
        """What a value is, by what was filled into the stages it comes from."""
        if isinstance(value, _Stage):
            return self.tile(value.acc, tensors, shape)
        if isinstance(value, Value) and value.source is None:
            return np.full(shape, value.added, np.float32)
        if isinstance(value, Value):
            return self.tile(value.source, tensors, shape) + np.float32(value.added)
        if isinstance(value, Place):
            array, first = tensors[value.tensor], value.row
            flat = array.reshape(-1, shape[1]) if array.ndim == 1 else array
            if first + shape[0] > len(flat):
                raise TooLong
            return flat[first : first + shape[0]].astype(np.float32)
        if isinstance(value, Products):
            total = np.zeros(shape, np.float32)
            for a, b in value.pairs:
                left, right = self.tile(a, tensors, (shape[0], 16)), self.tile(b, tensors, (shape[1], 16))
                total = total + left @ right.T
            return total
        if isinstance(value, Tile):
            return self.tile(self.made[value.pipe.name, value.use, value.cta, value.member, value.sub], tensors, shape)
        raise TypeError(f"{value!r} is no tile")


def run_roles(
    pipes: Mapping[str, Pipe],
    buffers: Mapping[str, str],
    roles: Mapping[str, str],
    sizes: Mapping[str, int],
    ints: Mapping[str, list[int]],
    tensors: Sequence[str],
    ctas: int = 1,
) -> Run:
    """`roles`: their bodies; `sizes`: parameters and dimensions; `ints`: what integer tensors hold. Raises TooLong."""
    run = Run(pipes, buffers, ctas, tensors)
    for cta in range(ctas):
        for name, body in roles.items():
            exec(compiled(body, name), _names(_Role(run, name, cta), sizes, ints))  # noqa: S102 - the text comes from a generator beside this
    return run


class _Tensor:
    def __init__(self, name: str) -> None:
        self.name = name

    def __getitem__(self, place: Any) -> Place:
        row, column = place if isinstance(place, tuple) else (place, 0)
        return Place(self.name, int(row), int(column))


def _names(role: _Role, sizes: Mapping[str, int], ints: Mapping[str, list[int]]) -> dict[str, Any]:
    run = role.run

    def numbers(*bounds: int) -> Iterator[Int]:
        for passed, number in enumerate(range(*map(int, bounds))):
            if passed > MOST_EVENTS:
                raise TooLong
            yield Int(number)

    def load(place: Place, rows: int = 0, columns: int = 0) -> Any:
        return Value(place) if rows else Int(ints[place.tensor][place.row])

    def tma_load(tile: Tile, place: Place, barrier: Any = None, multicast: str = "") -> None:
        role.holding(tile).load(tile, place, bool(multicast))

    def copy_async(tile: Tile, place: Place) -> None:
        role.holding(tile).copies += tile.slots()
        run.made[tile.pipe.name, tile.use, role.cta, tile.member, 0] = Value(replace(place, row=place.row // 64))

    def write(tile: Tile, value: Any) -> None:
        role.read(value)
        role.touched |= {(slot, True) for slot in tile.slots()}
        run.made[tile.pipe.name, tile.use, role.cta, tile.member, tile.sub] = value if isinstance(value, Value) else Value(value)

    def store(place: Place, value: Any, reduce: str = "") -> None:
        role.read(value)
        run.stored.append((place, value, bool(reduce)))

    store.direct = store  # type: ignore[attr-defined]

    def mma(acc: Any, a: Tile, b: Tile) -> None:
        products = acc if isinstance(acc, Products) else acc.products
        products.pairs.append((a, b))
        for tile in (a, b):
            if products.tile is None:
                role.read(tile)
            else:
                role.holding(tile).read_by_mma += tile.slots()

    @contextmanager
    def elect() -> Iterator[None]:
        yield

    @contextmanager
    def semaphore(counter: Place, turn: int, turns: int) -> Iterator[None]:
        role.append(Event(("turns",), int(turn) - 1, wait=True))
        yield
        role.append(Event(("turns",), int(turn), count=1))

    def view(pipe: Pipe) -> Any:
        return _SubStages(role, pipe) if pipe.kind == "sub" else _Pipeline(role, pipe)

    names: dict[str, Any] = {name: view(pipe) for name, pipe in run.pipes.items()}

    class SubBuffer:
        def __init__(self, name: str, pipe: str) -> None:
            self.name, self.pipe = name, pipe

        def __getitem__(self, picked: tuple[int, int]) -> Tile:
            use, sub = picked
            return Tile(role, run.pipes[self.pipe], self.name, use, role.cta, sub)

    names |= {name: SubBuffer(name, pipe) for name, pipe in run.buffers.items()}
    names |= {name: Int(value) for name, value in sizes.items()}
    names |= {
        "_Int": Int, "range": numbers, "load": load, "write": write, "store": store, "mma": mma, "elect": elect, "semaphore":
        semaphore, "accumulator": lambda *_: Products(), "tma": SimpleNamespace(load=tma_load, store=store), "f32": None, "cp":
        SimpleNamespace(async_=copy_async), "ceildiv": lambda x, y: Int(-(-int(x) // int(y))),
        "block": SimpleNamespace(x=Int(role.cta)), "cta": SimpleNamespace(rank=Int(role.cta), x=Int(role.cta)),
        "fill": lambda value, *_: Value(None, value), "role_warp": lambda: Int(0),
        "registers": lambda value: value,
    }  # fmt: skip
    return names | {name: _Tensor(name) for name in run.tensors}
