"""What the stand-ins of a kernel's operations hand to each other: places of tensors, tiles of stages, values, and pipelines."""

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from fuzz.explorer import Name

from pipec.record import replace

if TYPE_CHECKING:
    from fuzz.stand_ins import _Role


@dataclass(frozen=True)
class Place:
    """A tile of a tensor, by its first element."""

    tensor: str
    row: int
    column: int = 0


@dataclass(frozen=True)
class Value:
    """What threads make of tiles: that of a place or of a stage, and a number added."""

    source: "Place | Tile | Products | None"
    added: float = 0.0

    def __add__(self, other: float) -> "Value":
        return replace(self, added=self.added + other)

    __radd__ = __add__


@dataclass(frozen=True)
class Tile:
    """The tile `member` of use `use` of a pipeline's ring, as a CTA has it."""

    role: "_Role"
    pipe: "Pipe"
    member: str
    use: int
    cta: int
    sub: int = 0

    def __add__(self, other: float) -> Value:
        return Value(self, other)

    @property
    def T(self) -> "Tile":
        return self

    def of(self, rank: int) -> "Tile":
        return replace(self, cta=int(rank))

    def slots(self) -> list[Name]:
        slot = (self.cta, self.pipe.name, self.member, self.use % self.pipe.stages, self.sub)
        return [(*slot, part) for part in range(2)] if self.pipe.kind == "multicast" else [slot]


@dataclass
class Products:
    """An accumulator: the pairs of tiles that are multiplied into it. `tile`: where it stands in tensor memory."""

    tile: Tile | None = None
    pairs: list[tuple[Tile, Tile]] = field(default_factory=list)

    def __hash__(self) -> int:
        return id(self)


@dataclass(frozen=True)
class Pipe:
    """A pipeline as its declaration says. `kind`: "none", "tma", "copy", "threads", "multicast" (by TMA, to both CTAs),
    "exchange" (by threads, of the whole cluster), "mma" (by TMA, read by MMAs), "acc" (an accumulator), "sub" (a RolePipeline of
    two sub-stages)."""

    name: str
    stages: int
    kind: str
    producer: str = ""
    consumer: str = ""
