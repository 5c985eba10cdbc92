"""What benchmarks/gemm/h200.py multiplies, and with which tiles of which example."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import product
from typing import Literal

Kind = Literal["bf16", "fp8"]
Group = Literal["published", "projections", "odd", "narrow", "waves"]
GROUPS: dict[Group, str] = {
    "published": "shapes from published comparisons",
    "projections": "linear layers of language models, up to 2,048 tokens",
    "odd": "sizes that no tile divides",
    "narrow": "tall and flat shapes: few tiles, or a long K",
    "waves": "tiles of 128 x 256 would leave a wave half empty",
}


@dataclass(frozen=True, slots=True)
class Shape:
    """D[m, n] = A[m, k] @ B[n, k].T; operands of type `kind`, results bfloat16."""

    m: int
    n: int
    k: int
    group: Group
    kind: Kind = "bf16"

    def __str__(self) -> str:
        return f"{self.m}x{self.n}x{self.k}" + ("" if self.kind == "bf16" else f":{self.kind}")

    @property
    def flops(self) -> int:
        return 2 * self.m * self.n * self.k

    @property
    def bytes(self) -> int:
        """Read and written when everything is touched once."""
        return (self.m + self.n) * self.k * (1 if self.kind == "fp8" else 2) + 2 * self.m * self.n


def _shapes() -> Iterator[Shape]:
    for size in (512, 1024, 2048, 4096, 8192):
        yield Shape(size, size, size, "published")
    for m, n, k in ((16384, 16384, 4096), (8192, 8192, 512), (128, 8192, 8192), (4096, 4096, 14336), (8192, 28672, 8192)):
        yield Shape(m, n, k, "published")
    yield Shape(4096, 4096, 4096, "published", "fp8")
    yield Shape(8192, 8192, 8192, "published", "fp8")
    # (n, k) of queries with keys and values, of gate with up, of down, as models of 8 billion parameters have them; then of 70 billion.
    for (n, k), m in product(((6144, 4096), (28672, 4096), (4096, 14336)), (1, 16, 64, 128, 256, 512, 2048)):
        yield Shape(m, n, k, "projections")
    for (n, k), m in product(((10240, 8192), (8192, 28672)), (8, 1024)):
        yield Shape(m, n, k, "projections")
    # Rows of whole 16 bytes, which tensor maps ask for; otherwise as crooked as can be.
    odd = (1000, 1000, 1000), (777, 1016, 3000), (2049, 4104, 1032), (6000, 5000, 2000), (4100, 4104, 4104), (333, 12296, 776)
    for m, n, k in odd:
        yield Shape(m, n, k, "odd")
    for m, n, k in (
        (65536, 128, 1024),
        (128, 65536, 512),
        (256, 256, 16384),
        (32768, 256, 512),
        (16384, 64, 4096),
        (128, 128, 65536),
    ):
        yield Shape(m, n, k, "narrow")


def _waves() -> Iterator[Shape]:
    for m, n, k in (
        (1152, 2304, 8192),
        (1536, 1536, 16384),
        (1280, 2560, 5120),
        (1664, 3328, 4096),
        (2304, 2304, 6144),
        (1920, 2560, 16384),
    ):
        yield Shape(m, n, k, "waves")


SHAPES: tuple[Shape, ...] = tuple(_shapes())
WAVES: tuple[Shape, ...] = tuple(
    _waves()
)  # of a record of their own: the shapes that a model is fitted to are drawn from the others


@dataclass(frozen=True, slots=True)
class Tile:
    """An example with compile-time parameters. `name` says what differs from the file."""

    example: str
    constants: Mapping[str, int | str] = field(default_factory=dict)

    @property
    def name(self) -> str:
        words = " ".join(f"{name}={value}" for name, value in self.constants.items() if name != "AB")
        return f"{self.example.rpartition('/')[2].removeprefix('gemm_sm90_').removeprefix('gemm_')} {words}".strip()


KERNEL = "gemm_sm90_persistent"  # the one whose default, automatic and best tile are compared
DEFAULT = Tile(KERNEL)
# (BM, BN, stages with K blocks of 128 bytes); a warpgroup for each 64 rows, but two for 256.
_PERSISTENT = (
    *((64, bn, 8) for bn in (16, 32, 64, 96, 128)),
    (64, 192, 6),
    (64, 256, 5),
    *((128, bn, 8) for bn in (16, 32, 64)),
    (128, 96, 7),
    (128, 128, 4),
    (128, 128, 6),
    (128, 160, 5),
    (128, 192, 5),
    (128, 224, 4),
    (128, 256, 3),
    (64, 112, 9),
    (128, 72, 8),
    (128, 176, 5),
    (192, 128, 5),
    (192, 160, 4),
    (192, 176, 4),
    (192, 184, 4),
    (192, 192, 3),
    (192, 200, 3),
    (256, 64, 4),
    (256, 96, 4),
    (256, 128, 4),
    (256, 160, 3),
    (256, 176, 3),
    (256, 192, 3),
)
_WARPS = {64: 4, 192: 12}  # eight for others
# The same in clusters: (CX, CY, BM, BN, stages).
_CLUSTERS = (
    (2, 1, 128, 256, 4),
    (1, 2, 128, 256, 4),
    (2, 1, 128, 128, 6),
    (2, 1, 128, 176, 5),
    (1, 2, 128, 176, 5),
    (2, 1, 192, 176, 4),
    (1, 2, 192, 176, 4),
    (2, 1, 192, 192, 3),
    (1, 2, 192, 192, 3),
    (2, 2, 128, 80, 7),
    # For rows that begin at no multiple of 128 bytes, which cost the L2 cache more: each is loaded for several CTAs at once.
    (4, 1, 128, 128, 6),
    (1, 4, 128, 128, 6),
    (2, 2, 128, 128, 6),
    (4, 1, 64, 128, 8),
    (1, 4, 64, 128, 8),
    (2, 2, 64, 128, 8),
    (4, 2, 64, 128, 8),
    (2, 4, 64, 128, 8),
    (4, 1, 64, 256, 5),
    (2, 1, 64, 256, 5),
    (4, 1, 128, 96, 7),
    (4, 2, 128, 96, 7),
    (2, 2, 64, 64, 12),
    (4, 2, 64, 64, 12),
    (1, 8, 64, 128, 8),
    (2, 4, 128, 64, 8),
    (4, 2, 128, 64, 8),
    (2, 4, 128, 96, 7),
)
# More bytes on their way, for tiles that wait for memory (bf16 alone): (BN, BK, stages) with 64 rows.
_DEEP = ((32, 128, 8), (64, 64, 12), (64, 128, 6), (96, 128, 5), (128, 128, 4))


def _warps(rows: int) -> dict[str, int | str]:
    return {"WARPS": _WARPS[rows]} if rows in _WARPS else {}


_OTHERS = (
    Tile("gemm_sm90", {"BN": 64, "STAGES": 8}),
    Tile("gemm_sm90", {"BM": 64, "BN": 32, "BK": 128, "WARPS": 4}),
    Tile("gemm_sm90", {"BM": 64, "BN": 64, "STAGES": 6, "WARPS": 4}),
    *(
        Tile("gemm_sm90_cluster", {"CX": cx, "CY": cy, "BM": bm, "BN": bn, "STAGES": stages} | _warps(bm))
        for cx, cy, bm, bn, stages in _CLUSTERS
    ),
    Tile("gemm_sm90_pingpong"),
    *(Tile("gemm_sm90_pingpong", {"CX": 1, "CY": cy}) for cy in (1, 2)),
    *(
        Tile("gemm_sm90_pingpong", {"CX": cx, "BN": bn, "STAGES": stages})
        for cx, (bn, stages) in product((1, 2), ((160, 5), (168, 5), (176, 5), (192, 4), (208, 4)))
    ),
    Tile("gemm_sm90_pingpong", {"CX": 1, "CY": 2, "GROUP": 16}),
    *(Tile("gemm_sm90_pingpong", {"CX": 2, "BN": 112, "GROUP": group}) for group in (2, 4)),
    Tile("gemm_sm90_pingpong", {"CX": 2, "BN": 208, "GROUP": 4}),
    Tile("gemm_sm90_pingpong", {"CX": 1, "CY": 2, "BM": 192, "BN": 128, "STAGES": 4}),
    Tile("gemm_sm90_pingpong", {"BM": 64, "BN": 256, "STAGES": 4}),
    *(
        Tile("gemm_sm90_halves", {"CX": cx, "BM": bm, "BN": bn, "STAGES": stages})
        for cx, (bm, bn, stages) in product((1, 2), ((128, 128, 4), (128, 176, 3), (128, 192, 3), (64, 256, 4)))
    ),
    *(Tile("gemm_sm90_halves", {"CY": 2, "BM": bm, "BN": bn, "STAGES": 4}) for bm, bn in ((128, 128), (64, 256))),
    Tile("gemm_sm90", {"BK": 32, "STAGES": 5, "WARPS": 4}),  # two blocks share a multiprocessor
)
_SPLIT = (
    *(Tile("gemm_sm90_split_k", {"SPLITS": splits, "BN": 128, "STAGES": 6}) for splits in (2, 4, 8)),
    *(
        Tile("gemm_sm90_split_k", {"SPLITS": splits, "BM": 64, "WARPS": 4, "BN": bn, "STAGES": stages})
        for splits, (bn, stages) in product((2, 3, 4), ((64, 12), (128, 8), (256, 5)))
    ),
)


def _sums(shape: "Shape") -> Iterator[Tile]:
    """Splits that fill the GPU about once."""
    for bm, bn, stages in ((128, 128, 6), (64, 128, 8), (64, 64, 12)):
        splits = _TILES_OF_THE_GPU // (-(-shape.m // bm) * -(-shape.n // bn))
        for fewer in (1, 2):
            if splits // fewer >= 2:
                warps: dict[str, int | str] = {"WARPS": 4} if bm == 64 else {}
                yield Tile("gemm_sm90_split_k_sums", {"SPLITS": splits // fewer, "BM": bm, "BN": bn, "STAGES": stages} | warps)


def _last_waves(shape: "Shape") -> Iterator[Tile]:
    """Tiles whose last wave leaves something to split, in one to three rounds; where there are many waves, the last one matters little."""
    for bm, bn, stages in ((128, 256, 4), (128, 192, 5), (128, 160, 5), (128, 128, 6), (64, 256, 5)):
        waves, rest = divmod(-(-shape.m // bm) * -(-shape.n // bn), _TILES_OF_THE_GPU)
        for rounds in (1, 2, 3):
            if rest and waves < _FEW_WAVES and 2 <= _TILES_OF_THE_GPU * rounds // rest <= _MOST_PARTS:
                tile: dict[str, int | str] = {"BM": bm, "BN": bn, "STAGES": stages}
                yield Tile("gemm_sm90_stream_k", tile | _warps(bm) | ({"ROUNDS": rounds} if rounds > 1 else {}))


_TILES_OF_THE_GPU = 132
_FEW_WAVES = 3
_MOST_PARTS = 12
_FEW_ROWS = 128  # of A, for the kernel that multiplies with those of B in their place
_LEAST_STAGES = 3
_NARROW_BYTES = (216_000, 108_000)  # of stages: one block to a multiprocessor, or two


def _narrow(m: int) -> Iterator[Tile]:
    """As many rows as there are, rounded up to a power of two."""
    bm = max(8, 1 << (m - 1).bit_length())
    for (bn, bk), splits, most in product(((64, 64), (64, 128), (128, 64)), (1, 2, 4), _NARROW_BYTES):
        sums = 4 * bn * bm if splits > 1 else 2 * bn * bm
        stages = min(12, (most - sums) // (2 * (bm + bn) * bk))
        if stages >= _LEAST_STAGES:
            yield Tile("gemm_sm90_narrow", {"BM": bm, "BN": bn, "BK": bk, "STAGES": stages, "SPLITS": splits})


_FILLED = 0.75  # of the GPU, at least, by the tiles of a wave


def _swapped(shape: Shape) -> Iterator[Tile]:
    """Tiles of as many rows as M divides into, that fill the GPU once or twice: less is wasted than by multiples of 64."""
    for bn, parts in product((128, 192), range(1, 17)):
        bm = -(-shape.m // (8 * parts)) * 8
        waves = parts * -(-shape.n // bn) / _TILES_OF_THE_GPU
        # Three warpgroups leave each thread the registers of 200 columns.
        if not (64 <= bm <= (256 if bn <= 128 else 200) and waves <= 2 and waves >= _FILLED * -(-waves // 1)):
            continue
        stages = min(8, (_NARROW_BYTES[0] - 128 * bm) // (128 * (bm + bn)))
        yield Tile("gemm_sm90_swapped", {"CX": 2 - parts % 2, "BM": bm, "BN": bn, "STAGES": stages})


# With the rows of B as rows, in clusters of blocks with one tile each: (CX, CY, BM, BN, stages). Few requests to the L2 cache for rows that
# begin at no multiple of 128 bytes.
_TURNED = tuple(
    Tile("gemm_sm90_swapped", {"CX": cx, "CY": cy, "BM": bm, "BN": bn, "STAGES": stages, "ONCE": True})
    for cx, cy, bm, bn, stages in ((2, 2, 80, 128, 7), (1, 8, 128, 64, 8), (1, 4, 128, 64, 8), (2, 1, 72, 128, 8))
)

FP8: dict[str, int | str] = {"AB": "e4m3", "BK": 128}


def tiles(shape: Shape) -> list[Tile]:
    """Every tile that is tried for a shape; the file's own first."""
    persistent = [Tile(KERNEL, {"BM": bm, "BN": bn, "STAGES": stages} | _warps(bm)) for bm, bn, stages in _PERSISTENT]
    if shape.kind == "fp8":
        chosen = [DEFAULT, *persistent, *(tile for tile in _OTHERS if tile.example != "gemm_sm90")]
        return [Tile(tile.example, {**tile.constants, **FP8}) for tile in chosen]
    deep = [Tile(KERNEL, {"BM": 64, "WARPS": 4, "BN": bn, "BK": bk, "STAGES": stages}) for bn, bk, stages in _DEEP]
    few = -(-shape.m // 128) * -(-shape.n // 128) < _TILES_OF_THE_GPU
    narrow = _narrow(shape.m) if shape.m <= _FEW_ROWS else ()
    split = (*_SPLIT, *_sums(shape)) if few and shape.k >= 2048 else ()
    shares = _last_waves(shape) if shape.k >= 2048 else ()
    return [DEFAULT, *persistent, *deep, *_OTHERS, *split, *shares, *narrow, *_swapped(shape), *_TURNED]


def named(text: str) -> list[Shape]:
    """The shapes of a comma-separated list of names or groups. Raises ValueError for one that is neither."""
    found = []
    for word in text.split(","):
        chosen = [shape for shape in (*SHAPES, *WAVES) if word in (str(shape), shape.group)]
        if not chosen:
            raise ValueError(f"{word!r} is no shape and no group; groups are {', '.join(GROUPS)}")
        found += chosen
    return found
