"""Random GEMMs of every operand type, order, tile, cluster, walk over tiles and epilogue."""

import random
from dataclasses import dataclass, field

from kernel_sizes import ACCUMULATORS, BITS, STORED, Program, draw_budgets, draw_columns, draw_depth

_OUTPUTS = {"f32": 4, "bf16": 2, "f16": 2, "e4m3": 1, "i32": 4, "i8": 1, "f64": 8}


@dataclass
class _Gemm:
    """What was drawn."""

    arch: str
    a: str
    b: str
    accumulator: str
    bm: int  # of one CTA
    bn: int
    bk: int
    stages: int
    warps: int
    a_transposed: bool = False
    b_transposed: bool = False
    pair: bool = False
    cluster: tuple[int, int] = (1, 1)
    walk: str = "grid"  # or "static", "clc"
    split: int = 1
    group: int = 1  # tiles of K in a stage
    registers: tuple[int, int] | None = None  # of the loads and of what computes
    output_stages: int = 1
    loads: str = "with"  # or "linear", "peek", "by hand"
    residual: bool = False
    lines: list[str] = field(default_factory=list)


def products(draw: random.Random) -> Program:
    arch = draw.choice(("sm_90a", "sm_100a"))
    gemm = _hopper(draw) if arch == "sm_90a" else _blackwell(draw)
    _order(draw, gemm)
    _around(draw, gemm)
    return Program(_text(draw, gemm), arch)


# ----------------------------------------------------------------------------------------------------------------- sizes


def _operands(draw: random.Random) -> tuple[str, str, str]:
    a = draw.choice(tuple(BITS))
    b = a
    if a in ("e4m3", "e5m2") and draw.random() < 0.3:
        b = draw.choice(("e4m3", "e5m2"))
    if a in ("i8", "u8") and draw.random() < 0.3:
        b = draw.choice(("i8", "u8"))
    return a, b, draw.choice(ACCUMULATORS.get(a, ("f32",)))


def _hopper(draw: random.Random) -> _Gemm:
    a, b, accumulator = _operands(draw)
    warps = draw.choice((4, 4, 8, 8, 8, 12, 16))
    blocks = draw.choice((1, 1, 1, 2, 2, 3))
    gemm = _Gemm("sm_90a", a, b, accumulator, 16 * warps * blocks, draw_columns(draw, a, 256), draw_depth(draw, a), 2, warps)
    if draw.random() < 0.4:
        gemm.registers = draw_budgets(draw, warps)
    return gemm


def _blackwell(draw: random.Random) -> _Gemm:
    a, b, accumulator = _operands(draw)
    rows = draw.choice((64, 128, 128, 128))
    gemm = _Gemm(
        "sm_100a", a, b, accumulator, rows, draw_columns(draw, a, 256), draw_depth(draw, a), 2, draw.choice((4, 4, 8, 12))
    )
    if draw.random() < 0.25:
        gemm.pair, gemm.bm = True, draw.choice((64, 128))
        step = 32 if a in ("i8", "u8") else 16
        gemm.bn = max(step, gemm.bn // step * step)
    if draw.random() < 0.2:
        gemm.registers = draw.choice((24, 40, 64)), draw.choice((128, 168, 200, 232))
    gemm.output_stages = draw.choice((1, 1, 2)) if gemm.bn <= 256 else 1
    return gemm


def _order(draw: random.Random, gemm: _Gemm) -> None:
    if BITS[gemm.a] == 16 or (gemm.arch == "sm_100a" and not gemm.pair):
        gemm.a_transposed = draw.random() < 0.25 and gemm.bm * BITS[gemm.a] % 1024 == 0
    if BITS[gemm.b] == 16 or (gemm.arch == "sm_100a" and not gemm.pair):
        gemm.b_transposed = draw.random() < 0.3 and gemm.bn * BITS[gemm.b] % (1024 if BITS[gemm.b] == 32 else 128) == 0
        if BITS[gemm.b] == 8 and gemm.bn % 16:
            gemm.b_transposed = False


def _around(draw: random.Random, gemm: _Gemm) -> None:
    """What stands around the products: stages, clusters, the walk over the tiles, ranges of K."""
    if gemm.pair:
        gemm.cluster = 2, 1
    elif draw.random() < 0.25:
        gemm.cluster = draw.choice(((2, 1), (1, 2), (2, 2), (4, 1), (4, 2)))
    walks = ("static", "clc") if gemm.arch == "sm_100a" else ("static",)
    gemm.walk = draw.choice(walks) if draw.random() < 0.35 else "grid"
    if gemm.walk == "grid" and gemm.cluster == (1, 1) and gemm.accumulator in ("f32", "i32") and draw.random() < 0.2:
        gemm.split = draw.choice((2, 4))
    stage = (gemm.bm * BITS[gemm.a] + gemm.bn * BITS[gemm.b]) * gemm.bk // 8
    most = max(1, 150_000 // stage)
    gemm.stages = draw.randint(1, min(6, most))
    if draw.random() < 0.15 and gemm.stages % 2 == 0:
        gemm.group = 2
    if gemm.group == 1:
        gemm.loads = draw.choice(("with", "with", "linear", "peek", "by hand"))
    gemm.residual = draw.random() < 0.15 and gemm.split == 1 and gemm.accumulator != "i32" and stage * gemm.stages < 100_000


# ------------------------------------------------------------------------------------------------------------------ text


def _text(draw: random.Random, gemm: _Gemm) -> str:
    output = _output(draw, gemm)
    tensors = [_tensor("a", gemm.a, "M", gemm.a_transposed), _tensor("b", gemm.b, "N", gemm.b_transposed)]
    tensors.append(f"d: tensor[{output.dtype}, M, {output.columns}]")
    tensors += ["bias: tensor[f32, N]", "scale: tensor[f32, M]"]
    if gemm.residual:
        tensors.append("c: tensor[f32, M, N]")
    tensors.append("alpha: f32")
    lines = [f"kernel k({', '.join(tensors)}):", *(f"    {line}" for line in _head(gemm))]
    lines += _load_role(gemm)
    if gemm.residual:
        lines += _residual_role(gemm)
    lines += _hopper_role(gemm, output) if gemm.arch == "sm_90a" else _blackwell_roles(gemm, output)
    return "\n".join(lines) + "\n"


def _tensor(name: str, dtype: str, outer: str, transposed: bool) -> str:
    stored = STORED.get(dtype, dtype)
    return f"{name}: tensor[{stored}, {f'K, {outer}' if transposed else f'{outer}, K'}]"


def _head(gemm: _Gemm) -> list[str]:
    (cx, cy), group = gemm.cluster, ", cta_group=2" if gemm.pair else ""
    lines = [f"cluster({cx}, {cy})"] if (cx, cy) != (1, 1) else []
    x, y = f"ceildiv(M, {gemm.bm * cx})", f"ceildiv(N, {gemm.bn * (1 if gemm.pair else cy)})"
    if gemm.walk != "grid":
        lines.append(f'tiles = TileScheduler({x}, {y}, mode="{gemm.walk}"{", blocks=128" if gemm.walk == "static" else ""})')
    else:
        count = f", {gemm.split}" if gemm.split > 1 else ""
        lines.append(f"grid({cx} * {x}, {1 if gemm.pair else cy} * {y}{count})")
    b_rows = gemm.bn // 2 if gemm.pair else gemm.bn
    a = _tile(gemm.a, gemm.bm, gemm.bk, gemm.a_transposed)
    b = _tile(gemm.b, b_rows, gemm.bk, gemm.b_transposed)
    k_group = f", k_group_size={gemm.group}" if gemm.group > 1 else ""
    lines.append(f"input = InputTilePipeline(StandardTilePayload(a={a}, b={b}), stages={gemm.stages}{k_group}{group})")
    if gemm.arch == "sm_100a":
        accumulator = f"tmem[{gemm.accumulator}, {gemm.bm}, {gemm.bn}]"
        lines.append(f"output = OutputTilePipeline({accumulator}, stages={gemm.output_stages}{group})")
    if gemm.residual:
        lines.append(f"residual = InputTilePipeline(TilePayload(c=tile[f32, {gemm.bm}, {gemm.bn}]), stages=1)")
    return lines


def _tile(dtype: str, outer: int, depth: int, transposed: bool) -> str:
    return f"tile[{dtype}, {depth}, {outer}]" if transposed else f"tile[{dtype}, {outer}, {depth}]"


def _origin(gemm: _Gemm) -> tuple[str, str]:
    """Where this CTA's rows and columns begin."""
    cx, cy = gemm.cluster
    if gemm.walk == "grid":
        return f"block.x * {gemm.bm}", f"block.y * {gemm.bn}"
    row = f"(tile.x * {cx} + cta.x) * {gemm.bm}" if cx > 1 else f"tile.x * {gemm.bm}"
    columns = cy > 1 and not gemm.pair
    return row, f"(tile.y * {cy} + cta.y) * {gemm.bn}" if columns else f"tile.y * {gemm.bn}"


def _steps(gemm: _Gemm) -> str:
    blocks = f"ceildiv(K, {gemm.bk * gemm.group})"
    if gemm.split == 1:
        return f"range({blocks})"
    return f"range(block.z * {blocks} // {gemm.split}, (block.z + 1) * {blocks} // {gemm.split})"


def _per_tile(gemm: _Gemm, body: list[str]) -> list[str]:
    if gemm.walk == "grid":
        return [f"        {line}" for line in body]
    return ["        for tile in tiles:", *(f"            {line}" for line in body)]


def _budget(gemm: _Gemm, side: int) -> str:
    return f", registers={gemm.registers[side]}" if gemm.registers else ""


def _load_role(gemm: _Gemm) -> list[str]:
    row, column = _origin(gemm)
    if gemm.pair:
        column = f"{column} + cta.x * {gemm.bn // 2}"
    cx, cy = gemm.cluster
    # CTAs along x have the same columns, those along y the same rows.
    a_cast = ', multicast="y"' if cy > 1 else ""
    b_cast = ', multicast="x"' if cx > 1 and not gemm.pair else ""

    def loads(stage: str, index: str, depth: str, barrier: str = "") -> list[str]:
        a = f"a[{depth}, {row}]" if gemm.a_transposed else f"a[{row}, {depth}]"
        b = f"b[{depth}, {column}]" if gemm.b_transposed else f"b[{column}, {depth}]"
        return [f"tma.load({stage}.a{index}, {a}{barrier}{a_cast})", f"tma.load({stage}.b{index}, {b}{barrier}{b_cast})"]

    depth = f"k * {gemm.bk}"
    body = [f"for k in {_steps(gemm)}:"]
    match gemm.loads if gemm.group == 1 else "group":
        case "group":
            body += ["    with input.produce() as s:", f"        for j in range({gemm.group}):"]
            body += [f"            {line}" for line in loads("s", "[j]", f"(k * {gemm.group} + j) * {gemm.bk}")]
        case "with":
            body += ["    with input.produce() as s:", *(f"        {line}" for line in loads("s", "", depth))]
        case "linear":
            body += ["    s = input.acquire_producer()", *(f"    {line}" for line in loads("s", "", depth)), "    s.release()"]
        case "peek":
            body += ["    ready = input.try_acquire_producer()", "    s = input.acquire_if_needed(ready)"]
            body = [
                f"for k in {_steps(gemm)}:",
                "    ready = input.try_acquire_producer()",
                "    input.wait_consumer_if_needed(ready)",
            ]
            body += [
                f"    {line}" for line in loads("input.payload", "[input.producer_stage()]", depth, ", input.producer_mbar()")
            ]
            body += ["    input.producer_step()"]
        case _:
            body += ["    input.wait_consumer()"]
            body += [
                f"    {line}" for line in loads("input.payload", "[input.producer_stage()]", depth, ", input.producer_mbar()")
            ]
            body += ["    input.producer_step()"]
    return [f"    role load(warps=1{_budget(gemm, 0)}) produces input:", *_per_tile(gemm, body)]


def _residual_role(gemm: _Gemm) -> list[str]:
    row, column = _origin(gemm)
    body = ["with residual.produce() as r:", f"    tma.load(r.c, c[{row}, {column}])"]
    return ["    role fetch(warps=1) produces residual:", *_per_tile(gemm, body)]


def _multiply(gemm: _Gemm) -> list[str]:
    a, b = (f"s.{name}{{}}{'.T' if turned else ''}" for name, turned in (("a", gemm.a_transposed), ("b", gemm.b_transposed)))
    if gemm.group > 1:
        return [f"for j in range({gemm.group}):", f"    mma(acc, {a.format('[j]')}, {b.format('[j]')})"]
    return [f"mma(acc, {a.format('')}, {b.format('')})"]


def _hopper_role(gemm: _Gemm, output: "_Output") -> list[str]:
    body = [f"acc = accumulator({gemm.accumulator}, {gemm.bm}, {gemm.bn})", f"for k in {_steps(gemm)}:"]
    body += ["    with input.consume() as s:", *(f"        {line}" for line in _multiply(gemm))]
    body += _finish(gemm, output)
    consumed = "input, residual" if gemm.residual else "input"
    return [f"    role compute(warps={gemm.warps}{_budget(gemm, 1)}) consumes {consumed}:", *_per_tile(gemm, body)]


def _blackwell_roles(gemm: _Gemm, output: "_Output") -> list[str]:
    products = ["with output.produce() as acc:", f"    for k in {_steps(gemm)}:", "        with input.consume() as s:"]
    products += [f"            {line}" for line in _multiply(gemm)]
    leader = ', on="leader"' if gemm.pair else ""
    lines = [f"    role multiply(warps=1{leader}{_budget(gemm, 0)}) consumes input produces output:", *_per_tile(gemm, products)]
    body = ["with output.consume() as acc:", *(f"    {line}" for line in _finish(gemm, output))]
    consumed = "output, residual" if gemm.residual else "output"
    return [*lines, f"    role epilogue(warps={gemm.warps}{_budget(gemm, 1)}) consumes {consumed}:", *_per_tile(gemm, body)]


def _finish(gemm: _Gemm, output: "_Output") -> list[str]:
    if not gemm.residual:
        return output.lines
    return ["with residual.consume() as r:", *(f"    {line}" for line in output.lines)]


# -------------------------------------------------------------------------------------------------------------- epilogues


@dataclass
class _Output:
    dtype: str
    columns: str  # of the tensor
    lines: list[str]


def _output(draw: random.Random, gemm: _Gemm) -> _Output:
    folded = gemm.pair and gemm.bm == 64
    row, column = _origin(gemm)
    if gemm.split > 1:
        dtype = gemm.accumulator
        path = draw.choice(("store", "store.direct")) if gemm.bn * 4 % 16 == 0 else "store.direct"
        return _Output(dtype, "N", [f'{path}(d[{row}, {column}], acc, reduce="add")'])
    narrow = not folded and not gemm.residual and draw.random() < 0.2
    value = "acc" if gemm.accumulator == "f32" else "cast[f32](acc)"
    lines: list[str] = []
    if narrow:
        width = draw.choice((1, 1, 2, 3, 4, 7, 8, 12))
        value = f"row_{draw.choice(('max', 'sum', 'min'))}({value})"
        if width > 1:
            value = f"{value} + cast[f32](column_index({width}))"
        return _Output("f32", "P", [f"store.direct(d[{row}, block.y * {width}], {value})"])
    for _ in range(draw.choice((0, 0, 1, 1, 2, 3))):
        value = _step(draw, gemm, value, folded)
    if gemm.residual:
        value = f"{value} + r.c"
    dtype = draw.choice(tuple(_OUTPUTS))
    if not folded and draw.random() < 0.12 and gemm.bn * gemm.bm // (32 * gemm.warps) <= 64:
        lines.append(f"x = registers({value})")
        value = "x * 0.5 + row_max(x)"
    if dtype != "f32":
        value = f"cast[{dtype}]({value})"
    half = gemm.bn // 2 if folded else gemm.bn
    path = draw.choice(("store", "store", "store.direct")) if half * _OUTPUTS[dtype] % 16 == 0 else "store.direct"
    reduce = ', reduce="add"' if dtype in ("f32", "i32") and draw.random() < 0.08 else ""
    rows = f", rows=min(M - {row}, 40)" if draw.random() < 0.06 else ""
    lines.append(f"{path}(d[{row}, {column}], {value}{reduce}{rows})")
    return _Output(dtype, "N", lines)


def _step(draw: random.Random, gemm: _Gemm, value: str, folded: bool) -> str:
    row, column = _origin(gemm)
    forms = [
        f"relu({value})", f"gelu({value})", f"sigmoid({value})", f"tanh({value})", f"({value}) * alpha",
        f"({value}) + per_column(bias[{column}], {gemm.bn})", f"({value}) * per_row(scale[{row}], {gemm.bm})", f"exp2({value})",
        f"min(max({value}, -1.0), 1.0)", f"select({value} > 0.0, {value}, 0.25)",
    ]  # fmt: skip
    if not folded:
        forms += [
            f"({value}) - row_max({value})", f"({value}) * rcp(row_sum(abs({value})) + 1.0)",
            f"({value}) if row_index({gemm.bm}) >= column_index({gemm.bn}) else 0.0",
        ]  # fmt: skip
    return draw.choice(forms)
