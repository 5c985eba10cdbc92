"""Kernels of roles that hand stages to each other, as trees that generators make and change: fuzz/protocol_orders.py draws right
ones, fuzz/protocol_faults.py plants a fault, fuzz/protocol_text.py writes them down."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from fuzz.stand_ins import Pipe

TILES = 40  # of a tensor; each CTA has columns of its own, so that no two share elements however many tiles they store
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

    def tensors(self) -> dict[str, tuple[int, ...]]:
        """Shapes by name; `ix` and `turns` hold integers."""
        found: dict[str, tuple[int, ...]] = {"ix": (4,), "turns": (4,), "z_t": (ROWS, COLUMNS)}
        for pipe in self.pipes:
            rows = TILES * rows_of(pipe) * (2 if pipe.kind == "sub" else 1)
            match pipe.kind:
                case "copy":
                    found |= {f"x_{pipe.name}": (TILES * 64,), f"y_{pipe.name}": (TILES, self.ctas * 64)}
                case "mma":
                    found |= {f"a_{pipe.name}": (TILES * 64, 16), f"b_{pipe.name}": (TILES * 8, 16)}
                    if self.arch == "sm_90a":
                        found["d_acc"] = (self.ctas * BF_ROWS, 8)
                case "acc":
                    found[f"d_{pipe.name}"] = (TILES * BF_ROWS, self.ctas * 8)
                case "none":
                    pass
                case _:
                    found |= {f"x_{pipe.name}": (rows, COLUMNS), f"y_{pipe.name}": (rows, self.ctas * COLUMNS)}
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


def operations(items: Sequence[Item]) -> Iterator[Op]:
    for item in items:
        if isinstance(item, Op):
            yield item
        else:
            yield from operations(item.body)
