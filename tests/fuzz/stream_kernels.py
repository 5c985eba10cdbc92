"""Random kernels one behind the other in a stream, those behind launched programmatically: each may begin before those in front have ended.

A kernel adds up rows of the tensors that it reads, each by a role and a ring of its own or in the role that stores, and stores them into
one tensor, which others read or store as well. Waits for the grids in front are left to the compiler, or stand somewhere: before the
loop, inside it, behind the first copy, in one branch. Some tensors are declared ready which no kernel in front stores. How many tiles
there are may be a number in memory, for a loop or a condition, which the first kernel of the stream stores.
"""

import random
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

TENSORS = ("x", "w", "h", "d")
ROWS, COLUMNS, TILE = 64, 16, 8
Lines = list[str]
Waits = str
WAITS: tuple[Waits, ...] = ("",) * 9 + ("first", "first", "loop", "behind a copy", "branch", "last")
READS = ("tma", "tma", "threads", "rows that a tensor says", "beside a column")


_COUNT = f"""kernel count({", ".join(f"{name}: tensor[f32, {ROWS}, {COLUMNS}]" for name in TENSORS)}, at: tensor[i32, {ROWS}],
             tiles: tensor[i32, 1]):
    grid(1)
    role count(warps=1):
        store.direct(tiles[0], {ROWS // TILE})
"""


@dataclass(frozen=True)
class Read:
    """`by`: how the role that stores, or one of its own with a ring, gets at it."""

    tensor: str
    by: str
    own: bool
    waits: Waits


@dataclass(frozen=True)
class Kernel:
    """`starts`: where it lets dependents start. `counted`: where the number of its tiles in memory is asked for, if it is."""

    name: str
    reads: tuple[Read, ...]
    stores: str
    direct: bool
    waits: Waits
    ready: tuple[str, ...] | None  # None: not launched programmatically
    starts: Waits
    blocks: int
    counted: str

    def source(self) -> str:
        rings = [number for number, read in enumerate(self.reads) if read.own]
        parameters = [f"{name}: tensor[f32, {ROWS}, {COLUMNS}]" for name in TENSORS]
        parameters += [f"at: tensor[i32, {ROWS}]", "tiles: tensor[i32, 1]"]
        lines = [f"kernel {self.name}({', '.join(parameters)}):", f"    grid({self.blocks})"]
        if self.ready is not None:
            lines.append(f"    programmatic_launch({', '.join((*self.ready, 'at'))})")
        for number in rings:
            lines.append(f"    p{number} = InputTilePipeline(TilePayload(t=tile[f32, {TILE}, {COLUMNS}]), stages=2)")
        for number in rings:
            lines += [f"    role read{number}(warps=1) produces p{number}:", *self._reading(number, self.reads[number])]
        sides = " consumes " + ", ".join(f"p{number}" for number in rings) if rings else ""
        return "\n".join([*lines, f"    role add(warps=1){sides}:", *self._adding()]) + "\n"

    def _reading(self, number: int, read: Read) -> Lines:
        inside = f"tma.load(s.t, {read.tensor}[i * {TILE}, 0])"
        if read.by != "tma":
            inside = f"write(s.t, {_loaded(read)})"
        return self._walk(read.waits, [f"with p{number}.produce() as s:", f"    {inside}"], self.starts if number == 0 else "")

    def _adding(self) -> Lines:
        terms = [f"s{number}.t" if read.own else _loaded(read) for number, read in enumerate(self.reads)]
        stages = [f"p{number}.consume() as s{number}" for number, read in enumerate(self.reads) if read.own]
        store = f"{'store.direct' if self.direct else 'store'}({self.stores}[i * {TILE}, 0], {' + '.join(terms)} + 1.0)"
        body = [f"with {', '.join(stages)}:", f"    {store}"] if stages else [store]
        return self._walk(self.waits, body, self.starts if not self.reads[0].own else "")

    def _walk(self, waits: Waits, body: Lines, starts: Waits) -> Lines:
        wait = "griddepcontrol.wait()"
        lines: Lines = [wait] if waits == "first" else []
        if waits == "branch":
            lines += ["if block.x == 0:", f"    {wait}"]
        inside = ([wait] if waits == "loop" else []) + body
        lines += self._loop(inside)
        lines += ["    " + wait] if waits == "behind a copy" else []
        lines += [wait] if waits == "last" else []
        start = "griddepcontrol.launch_dependents()"
        lines = [start, *lines] if starts == "first" else [*lines, start] if starts == "last" else lines
        return ["        " + line for line in lines]

    def _loop(self, body: Lines) -> Lines:
        body = ["    " + line for line in body]
        if self.counted == "while":
            return ["i = block.x", "while i < load(tiles[0]):", *body, f"    i += {self.blocks}"]
        count = "load(tiles[0])" if self.counted == "for" else str(ROWS // TILE)
        if self.counted == "if":
            body = ["    if i < load(tiles[0]):", *("    " + line for line in body)]
        return [f"for i in range(block.x, {count}, {self.blocks}):", *body]


def _loaded(read: Read) -> str:
    match read.by:
        case "rows that a tensor says":
            return f"load({read.tensor}[0, 0], {TILE}, {COLUMNS}, at=per_row(at[i * {TILE}], {TILE}))"
        case "beside a column":
            return f"(load({read.tensor}[i * {TILE}, 0], {TILE}, {COLUMNS}) + cast[f32](per_row(at[i * {TILE}], {TILE})) * 0.0)"
        case _:
            return f"load({read.tensor}[i * {TILE}, 0], {TILE}, {COLUMNS})"


@dataclass(frozen=True)
class Stream:
    """`counts`: a kernel in front stores the number of tiles, half as large before."""

    kernels: tuple[Kernel, ...]
    left_to_the_compiler: bool
    counts: bool = False

    @property
    def source(self) -> str:
        return "\n".join([*([_COUNT] if self.counts else []), *(kernel.source() for kernel in self.kernels)])

    def arguments(self) -> dict[str, np.ndarray]:
        chance = np.random.default_rng(len(self.source))
        made: dict[str, np.ndarray] = {name: chance.integers(-9, 10, (ROWS, COLUMNS)).astype(np.float32) for name in TENSORS}
        return made | {"at": np.arange(ROWS, dtype=np.int32), "tiles": np.array([ROWS // TILE >> self.counts], np.int32)}

    def expected(self) -> Mapping[str, np.ndarray]:
        """Each kernel begins when the one in front has ended."""
        held = {name: array.astype(np.float64) for name, array in self.arguments().items()}
        held["tiles"][0] = ROWS // TILE
        for kernel in self.kernels:
            held[kernel.stores] = sum(held[read.tensor] for read in kernel.reads) + 1.0
        return held


def draw(chance: random.Random) -> Stream:
    left = chance.random() < 0.4
    stored: set[str] = set()
    kernels = []
    for number in range(chance.choice((2, 2, 3))):
        overlaps = number > 0 or chance.random() < 0.5
        stores = chance.choice(TENSORS)
        waits = WAITS if overlaps and not left else ("",)
        reads = tuple(
            Read(tensor, chance.choice(READS), chance.random() < 0.6, chance.choice(waits))
            for tensor in chance.sample([name for name in TENSORS if name != stores], chance.choice((1, 2, 2)))
        )
        free = [name for name in TENSORS if name not in stored and name != stores]
        counted = chance.choice(("", "", "", "", "for", "if", "if", "while"))
        # The number is often all that a role has to wait for.
        ready = tuple(name for name in free if chance.random() < (0.9 if counted else 0.6))
        kernels.append(
            Kernel(
                f"k{number}", reads, stores, chance.random() < 0.5, chance.choice(waits), ready if overlaps else None,
                chance.choice(("", "first", "last")), chance.choice((1, 1, 2, 3)), counted,
            )
        )  # fmt: skip
        stored.add(stores)
    counts = any(kernel.counted for kernel in kernels) and kernels[0].ready is not None and chance.random() < 0.7
    return Stream(tuple(kernels), left, counts)
