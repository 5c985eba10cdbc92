"""Kernels whose every store is checked element by element: each way from a role's threads to memory, at any width.

A kernel computes a vector with a value for each row (from an accumulator, a stage or a load), combines it with a tile of `width`
columns in several ways, and stores each of them by its own path to its own output. The outputs are larger than what is stored and hold a
pattern that no result has, so that an element that is never written shows, and so does one that is written beside the tile; those that
are added up show an element that is written twice.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import ml_dtypes
import numpy as np

# Where the values of a role come from, and what then spreads them over its threads.
SOURCES = {
    "registers": ("sm_90a",),  # an accumulator of wgmma
    "tensor": ("sm_100a",),  # one of tcgen05, 128 rows
    "half_warps": ("sm_100a",),  # one of 64 rows: a warp has 16 of them, twice
    "folded": ("sm_100a",),  # 64 of the 128 rows of a pair of CTAs
    "stage": ("sm_90a", "sm_100a"),
    "loads": ("sm_90a", "sm_100a"),
}
WARPS = {
    "registers": (4, 8, 12, 16), "tensor": (4, 8, 12, 16), "half_warps": (4, 8, 12, 16), "folded": (4, 8, 12),
    "stage": (1, 2, 3, 4, 5, 6, 8, 12), "loads": (1, 2, 3, 4, 5, 7, 8, 12),
}  # fmt: skip
WIDTHS = tuple(range(1, 65))
MORE_WIDTHS = (72, 80, 88, 96, 100, 104, 120, 127, 128, 136, 160, 176, 192, 208, 255, 256)
_DEPTH = 16  # of the one step along K
_BESIDE = 16  # columns, and rows, of an output around what is stored


@dataclass(frozen=True)
class Case:
    source: str
    target: str
    warps: int
    width: int
    rows: int

    def __str__(self) -> str:
        return f"{self.source}-{self.target}-{self.warps}w-{self.rows}x{self.width}"


@dataclass(frozen=True)
class Output:
    """One store: its statement (`{value}` and `{at}` to be filled in), what it stores, and what NumPy makes of it."""

    name: str
    statement: str
    value: str
    dtype: str
    expected: np.ndarray
    starts_at: int | None = None  # what stands there before, where the store combines

    def poisoned(self) -> np.ndarray:
        rows, columns = self.expected.shape
        shape = rows + _BESIDE, -(-columns // _BESIDE) * _BESIDE + _BESIDE
        return poison(shape, self.dtype) if self.starts_at is None else np.full(shape, self.starts_at, NUMPY[self.dtype])

    def whole(self) -> np.ndarray:
        """What the array holds after the launch."""
        array = self.poisoned()
        rows, columns = self.expected.shape
        array[:rows, :columns] = self.expected.astype(array.dtype)
        return array


NUMPY = {
    "f32": np.float32, "bf16": ml_dtypes.bfloat16, "f16": np.float16, "e4m3": ml_dtypes.float8_e4m3fn,
    "i32": np.int32, "i8": np.int8, "f64": np.float64,
}  # fmt: skip


def poison(shape: tuple[int, ...], dtype: str) -> np.ndarray:
    """A pattern that no result has: bytes 0x7B and 0xAD in turn, a number far from all of them in every type."""
    size = int(np.prod(shape)) * np.dtype(NUMPY[dtype]).itemsize
    return np.resize(np.array([0x7B, 0xAD], np.uint8), size).view(NUMPY[dtype]).reshape(shape)


def cases(widths: tuple[int, ...] = WIDTHS) -> Iterator[Case]:
    """The whole matrix."""
    for source, targets in SOURCES.items():
        for target in targets:
            for warps in WARPS[source]:
                for rows in _rows(source, warps):
                    for width in widths:
                        if _exists(source, warps, rows, width):
                            yield Case(source, target, warps, width, rows)


def _exists(source: str, warps: int, rows: int, width: int) -> bool:
    """Folded accumulators have columns in halves of 16; one in registers must leave a thread some for all else."""
    if source == "folded":
        return width % 16 == 0 and width >= 32
    return source != "registers" or rows * width // (32 * warps) <= 224


def _rows(source: str, warps: int) -> tuple[int, ...]:
    match source:
        case "registers":
            share = 16 * warps
            return (share, 2 * share) if warps < 12 else (share,)
        case "tensor":
            return (128,)
        case "half_warps" | "folded":
            return (64,)
        case _:
            return (64, 40, 200)


# -------------------------------------------------------------------------------------------------------------- programs


def program(case: Case, given: dict[str, np.ndarray], *, kept: bool = True) -> tuple[str, list[Output]]:
    """`kept`: with the forms that keep a tile in registers, where it seems to fit."""
    outputs = [one for one in _outputs(case, given) if kept or not one.name.startswith("kept")]
    parameters = ", ".join(f"{one.name}: tensor[{one.dtype}, R{index}, C{index}]" for index, one in enumerate(outputs))
    stores = [one.statement.format(at=f"{one.name}[{_row(case)}, 0]", value=one.value) for one in outputs]
    text = _HEADS[case.source](case).replace("OUTPUTS", parameters)
    consumed = [*_CONSUMED[case.source], *(["extra"] if _staged(case) else [])]
    written = [one for one in outputs if one.name.startswith("written")]
    if written:
        text += f"    part = InputTilePipeline(TilePayload(p=tile[f32, {case.rows}, {case.width}]), stages=1)\n"
    if _staged(case):
        text += (
            f"    extra = InputTilePipeline(TilePayload(x=tile[f32, {case.rows}, {case.width}]), stages=1)\n"
            "    role fetch(warps=1) produces extra:\n"
            "        with extra.produce() as e:\n"
            f"            tma.load(e.x, x[{_row(case)}, 0])\n"
        )
    sides = f" consumes {', '.join(consumed)}" if consumed else ""
    text += f"    role work(warps={case.warps}){sides}{' produces part' if written else ''}:\n"
    body, depth = _BODIES[case.source](case)
    text += body
    if _staged(case):
        text += " " * depth + "with extra.consume() as e:\n"
        depth += 4
    lines = [line for store in stores for line in store.split("\n")]
    text += "".join(f"{' ' * depth}{line}\n" for line in lines)
    for one in written:
        text += "    role save(warps=1) consumes part:\n        with part.consume() as p:\n"
        text += f"            tma.store({one.name}[{_row(case)}, 0], p.p)\n"
    return text, outputs


def _row(case: Case) -> str:
    return f"cta.x * {case.rows}" if case.source == "folded" else "0"


def _staged(case: Case) -> bool:
    """Whether a tile of f32 has rows of a multiple of 16 bytes, as TMA asks for."""
    return case.width % 4 == 0 and case.width <= 256 and case.rows <= 256 and case.rows * case.width * 4 <= 65536


def _sum_columns(case: Case) -> int:
    """Of the accumulator."""
    if case.source == "folded":
        return case.width
    if case.source in ("tensor", "half_warps"):
        return -(-max(case.width, 16) // 16) * 16
    return case.width if case.width % 8 == 0 else 16


def arguments(case: Case, seed: int = 0) -> dict[str, np.ndarray]:
    """Small integers: every sum is exact."""
    generator = np.random.default_rng(seed)
    rows = 2 * case.rows if case.source == "folded" else case.rows
    given = {
        "x": generator.integers(-3, 4, (rows, case.width)).astype(np.float32),
        "v": generator.integers(-3, 4, case.width).astype(np.float32),
        "r": generator.integers(-3, 4, rows).astype(np.float32),
    }
    if "{" in _MULTIPLIED.get(case.source, ""):
        columns = _sum_columns(case)
        a = generator.integers(-2, 3, (rows, _DEPTH)).astype(ml_dtypes.bfloat16)
        b = generator.integers(-2, 3, (columns, _DEPTH)).astype(ml_dtypes.bfloat16)
        given = {"a": a, "b": b} | given
    return given


def _parameters(case: Case) -> str:
    operands = "a: tensor[bf16, M, K], b: tensor[bf16, N, K], " if case.source in _MULTIPLIED else ""
    return f"kernel k({operands}x: tensor[f32, XM, XN], v: tensor[f32, VN], r: tensor[f32, RM], OUTPUTS):\n"


_MULTIPLIED = {name: "{}" for name in ("registers", "tensor", "half_warps", "folded")}


def _registers_head(case: Case) -> str:
    columns = _sum_columns(case)
    return _parameters(case) + (
        "    grid(1)\n"
        f"    input = InputTilePipeline(StandardTilePayload(a=tile[bf16, {case.rows}, 16], b=tile[bf16, {columns}, 16]), stages=1)\n"
        "    role fill_in(warps=1) produces input:\n"
        "        with input.produce() as s:\n"
        "            tma.load(s.a, a[0, 0])\n"
        "            tma.load(s.b, b[0, 0])\n"
    )


def _registers_body(case: Case) -> tuple[str, int]:
    return (
        f"        acc = accumulator(f32, {case.rows}, {_sum_columns(case)})\n"
        "        with input.consume() as s:\n"
        "            mma(acc, s.a, s.b)\n"
    ), 8


def _tensor_head(case: Case) -> str:
    columns, pair = _sum_columns(case), case.source == "folded"
    group, leader = (", cta_group=2", ', on="leader"') if pair else ("", "")
    shares = columns // 2 if pair else columns
    return _parameters(case) + (
        f"    grid({2 if pair else 1})\n"
        + ("    cluster(2)\n" if pair else "")
        + "    input = InputTilePipeline(StandardTilePayload("
        f"a=tile[bf16, {case.rows}, 16], b=tile[bf16, {shares}, 16]), stages=1{group})\n"
        f"    output = OutputTilePipeline(tmem[f32, {case.rows}, {columns}], stages=1{group})\n"
        "    role fill_in(warps=1) produces input:\n"
        "        with input.produce() as s:\n"
        f"            tma.load(s.a, a[{_row(case)}, 0])\n"
        f"            tma.load(s.b, b[{f'cta.x * {shares}' if pair else '0'}, 0])\n"
        f"    role multiply(warps=1{leader}) consumes input produces output:\n"
        "        with output.produce() as acc, input.consume() as s:\n"
        "            mma(acc, s.a, s.b)\n"
    )


def _tensor_body(case: Case) -> tuple[str, int]:
    return "        with output.consume() as acc:\n", 12


def _plain_head(case: Case) -> str:
    return _parameters(case) + "    grid(1)\n"


def _plain_body(case: Case) -> tuple[str, int]:
    return "", 8


_HEADS: dict[str, Callable[[Case], str]] = {
    "registers": _registers_head, "tensor": _tensor_head, "half_warps": _tensor_head, "folded": _tensor_head,
    "stage": _plain_head, "loads": _plain_head,
}  # fmt: skip
_BODIES: dict[str, Callable[[Case], tuple[str, int]]] = {
    "registers": _registers_body, "tensor": _tensor_body, "half_warps": _tensor_body, "folded": _tensor_body,
    "stage": _plain_body, "loads": _plain_body,
}  # fmt: skip
_CONSUMED = {
    "registers": ("input",),
    "tensor": ("output",),
    "half_warps": ("output",),
    "folded": ("output",),
    "stage": (),
    "loads": (),
}


# ---------------------------------------------------------------------------------------------------------------- stores


def _outputs(case: Case, given: dict[str, np.ndarray]) -> list[Output]:
    """Every form that the case's width allows."""
    width, rows = case.width, case.rows
    numbers = {name: array.astype(np.float64) for name, array in given.items()}
    x, v = numbers["x"], numbers["v"][None, :]
    acc = numbers["a"] @ numbers["b"].T if "a" in numbers else None
    if case.source == "folded":
        assert acc is not None
        return _of_folded(acc, x if _staged(case) else None)
    if acc is not None:
        vector, row = "row_max(acc)", acc.max(axis=1, keepdims=True)
    elif case.source == "stage" and _staged(case):
        vector, row = "row_max(e.x)", x.max(axis=1, keepdims=True)
    else:
        vector, row = f"per_row(r[0], {rows})", numbers["r"][:, None]
    wide = f"{vector} + cast[f32](column_index({width}))"
    spread = row + np.arange(width)
    direct = "store.direct({at}, {value})"
    found = [
        Output("plain", direct, vector, "f32", row),
        Output("positions", direct, wide, "f32", spread),
        Output("loaded", direct, f"{vector} - load(x[0, 0], {rows}, {width})", "f32", row - x),
        Output("columns_of", direct, f"{vector} * per_column(v[0], {width})", "f32", row * v),
        Output("narrow", direct, f"cast[bf16]({wide})", "bf16", spread),
        Output(
            "bytes", direct, f"cast[e4m3]({vector} + fill(1.0, f32, {rows}, {width}))", "e4m3", np.broadcast_to(row + 1, x.shape)
        ),
        Output("wide", direct, f"cast[f64]({wide})", "f64", spread),
        Output("integers", direct, f"cast[i32]({wide})", "i32", spread),
        Output("added", 'store.direct({at}, {value}, reduce="add")', wide, "f32", spread + 5, starts_at=5),
        Output("reduced", direct, f"row_sum({wide})", "f32", spread.sum(axis=1, keepdims=True)),
        Output(
            "least",
            direct,
            f"row_min({wide}) + row_max({wide})",
            "f32",
            spread.min(1, keepdims=True) + spread.max(1, keepdims=True),
        ),
        Output("again", direct, f"row_max({vector})", "f32", row),
        Output("some_rows", f"store.direct({{at}}, {{value}}, rows={rows - 3})", wide, "f32", spread[: rows - 3]),
    ]
    turned = "store.direct({at}, ({value}).T)"
    found += [
        Output("turned", turned, f"cast[bf16]({wide})", "bf16", spread.T),
        Output("turned_column", turned, vector, "f32", row.T),
        Output("turned_added", 'store.direct({at}, ({value}).T, reduce="add")', wide, "f32", spread.T + 5, starts_at=5),
    ]
    if case.source == "registers" and width % 8 == 0:
        found += [
            Output(f"turned_tma_{dtype}", "store({at}, cast[" + dtype + "](acc + {value}).T)", wide, dtype, (acc + spread).T)
            for dtype in ("bf16", "f16")
        ]
    if acc is not None and acc.shape[1] == width:
        found.append(Output("product", direct, "acc", "f32", acc))
        found.append(Output("product_half", direct, "cast[f16](acc + 1.0)", "f16", acc + 1))
    if _kept(case):
        twice = "y = registers({value})\nstore.direct({at}, y + row_max(y))"
        found.append(Output("kept", twice, wide, "f32", spread + spread.max(axis=1, keepdims=True)))
        if width % 4 == 0:
            found.append(Output("kept_tma", "z = registers({value})\nstore({at}, z + z)", wide, "f32", spread * 2))
    if case.source in ("tensor", "half_warps"):
        moving = f"for j in range(1):\n    store.direct({{at}}, columns(acc, j, {width}))"
        found.append(Output("moving", moving, "", "f32", acc[:, :width]))
    found += _by_tma(wide, spread, width)
    if _staged(case):
        found.append(Output("of_stage", direct, f"e.x + {vector}", "f32", x + row))
        found.append(Output("of_stage_tma", "store({at}, {value})", f"e.x * {vector}", "f32", x * row))
        found.append(Output("written", "with part.produce() as p:\n    write(p.p, {value})", f"e.x + {wide}", "f32", x + spread))
    return found


_KEPT_STEP = {"registers": 8, "half_warps": 2}  # columns, unless there is one


def _kept(case: Case) -> bool:
    """Whether threads can keep the tile: a few registers of each, and as wide as the source spreads them."""
    few = case.rows * case.width <= 32 * case.warps * 32
    return few and (case.width == 1 or case.width % _KEPT_STEP.get(case.source, 1) == 0)


def _by_tma(wide: str, spread: np.ndarray, width: int) -> list[Output]:
    """Types whose rows are a multiple of 16 bytes."""
    path = "store({at}, {value})"
    forms = {"f32": wide, "bf16": f"cast[bf16]({wide})", "e4m3": f"cast[e4m3]({wide})", "f64": f"cast[f64]({wide})"}
    found = [
        Output(f"tma_{dtype}", path, value, dtype, spread)
        for dtype, value in forms.items()
        if width * np.dtype(NUMPY[dtype]).itemsize % 16 == 0
    ]
    if width % 4 == 0:
        found.append(Output("tma_added", 'store({at}, {value}, reduce="add")', wide, "f32", spread + 5, starts_at=5))
        rows = len(spread) - 5
        found.append(Output("tma_rows", f"store({{at}}, {{value}}, rows={rows})", wide, "f32", spread[:rows]))
    return found


def _of_folded(acc: np.ndarray, x: np.ndarray | None) -> list[Output]:
    """What a folded accumulator allows: to be converted and stored."""
    direct, tma = "store.direct({at}, {value})", "store({at}, {value})"
    found = [] if x is None else [Output("of_stage", direct, "acc + e.x", "f32", acc + x)]
    return [
        *found,
        Output("product", direct, "acc", "f32", acc),
        Output("product_half", direct, "cast[bf16](acc + 1.0)", "bf16", acc + 1),
        Output("product_tma", tma, "acc * 2.0", "f32", acc * 2),
        Output("added", 'store.direct({at}, {value}, reduce="add")', "acc", "f32", acc + 5, starts_at=5),
        Output("tma_added", 'store({at}, {value}, reduce="add")', "acc", "f32", acc + 5, starts_at=5),
        Output("tma_half", tma, "cast[f16](acc)", "f16", acc),
    ]
