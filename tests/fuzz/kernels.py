"""Random kernels that are meant to be right: GEMMs of every operand type, order, tile, cluster, walk over tiles and epilogue, and
elementwise pipelines. What the compiler takes of them an assembler has to take as well.

The sizes are drawn so that most kernels fit; those that the compiler refuses, with a message of its own, are drawn again by the caller.
"""

import random
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

_EXAMPLES = sorted(Path(__file__).resolve().parent.parent.parent.joinpath("examples").glob("*.pipe"))
_PARAMETER = re.compile(r"\b([A-Z_]+): (int|dtype) = (\w+)")
_BITS = {"bf16": 16, "f16": 16, "tf32": 32, "e4m3": 8, "e5m2": 8, "i8": 8, "u8": 8}
_ACCUMULATORS = {"f16": ("f32", "f16"), "e4m3": ("f32", "f16"), "e5m2": ("f32", "f16"), "i8": ("i32",), "u8": ("i32",)}
_STORED = {"tf32": "f32"}
_OUTPUTS = {"f32": 4, "bf16": 2, "f16": 2, "e4m3": 1, "i32": 4, "i8": 1, "f64": 8}


@dataclass(frozen=True)
class Program:
    text: str
    arch: str
    constants: Mapping[str, object] = field(default_factory=dict)

    def __str__(self) -> str:
        return "\n".join([self.arch, *(f"-D {name}={value}" for name, value in self.constants.items()), self.text])


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


def kernel(draw: random.Random) -> Program:
    family = draw.choices((_products, _elementwise, _register_operand, _example), (70, 10, 10, 10))[0]
    return family(draw)


def _products(draw: random.Random) -> Program:
    arch = draw.choice(("sm_90a", "sm_100a"))
    gemm = _hopper(draw) if arch == "sm_90a" else _blackwell(draw)
    _order(draw, gemm)
    _around(draw, gemm)
    return Program(_text(draw, gemm), arch)


# ----------------------------------------------------------------------------------------------------------------- sizes


def _operands(draw: random.Random) -> tuple[str, str, str]:
    a = draw.choice(tuple(_BITS))
    b = a
    if a in ("e4m3", "e5m2") and draw.random() < 0.3:
        b = draw.choice(("e4m3", "e5m2"))
    if a in ("i8", "u8") and draw.random() < 0.3:
        b = draw.choice(("i8", "u8"))
    return a, b, draw.choice(_ACCUMULATORS.get(a, ("f32",)))


def _columns(draw: random.Random, a: str, most: int) -> int:
    step = 16 if a in ("i8", "u8") else 8
    even = draw.random() < 0.5
    return (
        draw.choice([n for n in (16, 32, 64, 96, 128, 192, 256) if n <= most]) if even else step * draw.randint(1, most // step)
    )


def _depth(draw: random.Random, a: str) -> int:
    return draw.choice((1, 1, 2, 2, 4)) * 32 * 8 // _BITS[a]


def _hopper(draw: random.Random) -> _Gemm:
    a, b, accumulator = _operands(draw)
    warps = draw.choice((4, 4, 8, 8, 8, 12, 16))
    blocks = draw.choice((1, 1, 1, 2, 2, 3))
    gemm = _Gemm("sm_90a", a, b, accumulator, 16 * warps * blocks, _columns(draw, a, 256), _depth(draw, a), 2, warps)
    if draw.random() < 0.4:
        gemm.registers = _shared_out(draw, warps)
    return gemm


def _shared_out(draw: random.Random, warps: int) -> tuple[int, int]:
    """Budgets of a group of loading warps and of the others: what the first gives back the others take, in multiples of 8."""
    groups, load = warps // 4 + 1, draw.choice((24, 40))
    start = min(248, 65536 // (128 * groups) // 8 * 8)
    return load, min(240, (start * groups - load) // (groups - 1) // 8 * 8)


def _blackwell(draw: random.Random) -> _Gemm:
    a, b, accumulator = _operands(draw)
    rows = draw.choice((64, 128, 128, 128))
    gemm = _Gemm("sm_100a", a, b, accumulator, rows, _columns(draw, a, 256), _depth(draw, a), 2, draw.choice((4, 4, 8, 12)))
    if draw.random() < 0.25:
        gemm.pair, gemm.bm = True, draw.choice((64, 128))
        step = 32 if a in ("i8", "u8") else 16
        gemm.bn = max(step, gemm.bn // step * step)
    if draw.random() < 0.2:
        gemm.registers = draw.choice((24, 40, 64)), draw.choice((128, 168, 200, 232))
    gemm.output_stages = draw.choice((1, 1, 2)) if gemm.bn <= 256 else 1
    return gemm


def _order(draw: random.Random, gemm: _Gemm) -> None:
    if _BITS[gemm.a] == 16 or (gemm.arch == "sm_100a" and not gemm.pair):
        gemm.a_transposed = draw.random() < 0.25 and gemm.bm * _BITS[gemm.a] % 1024 == 0
    if _BITS[gemm.b] == 16 or (gemm.arch == "sm_100a" and not gemm.pair):
        gemm.b_transposed = draw.random() < 0.3 and gemm.bn * _BITS[gemm.b] % (1024 if _BITS[gemm.b] == 32 else 128) == 0
        if _BITS[gemm.b] == 8 and gemm.bn % 16:
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
    stage = (gemm.bm * _BITS[gemm.a] + gemm.bn * _BITS[gemm.b]) * gemm.bk // 8
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
    stored = _STORED.get(dtype, dtype)
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


# ------------------------------------------------------------------------------------------------------------ elementwise


def _elementwise(draw: random.Random) -> Program:
    """A tile in, a tile of the same size out, through one to three roles."""
    arch = draw.choice(("sm_90a", "sm_100a"))
    dtype = draw.choice(("f32", "bf16", "f16", "i32", "f64", "i8"))
    rows, columns = draw.choice((8, 16, 40, 64, 128, 200)), draw.choice((16, 32, 48, 64, 128, 256))
    warps, stages, scope = draw.choice((1, 2, 3, 4, 6, 8)), draw.randint(1, 4), draw.choice(("write", "direct", "tma"))
    size = {"f32": 4, "bf16": 2, "f16": 2, "i32": 4, "f64": 8, "i8": 1}[dtype]
    stages = min(stages, max(1, 90_000 // (rows * columns * size)))
    work = "s.x + s.x" if dtype in ("i32", "i8") else draw.choice(("s.x * 2.0", "relu(s.x)", "s.x - row_max(s.x)"))
    value = work if dtype not in ("bf16", "f16", "i8") else f"cast[{dtype}]({work})"
    place = f"[block.x * {rows}, block.y * {columns}]"
    lines = [
        f"kernel k(x: tensor[{dtype}, M, N], y: tensor[{dtype}, M, N]):",
        f"    grid(ceildiv(M, {rows}), ceildiv(N, {columns}))",
        f"    ring = InputTilePipeline(TilePayload(x=tile[{dtype}, {rows}, {columns}]), stages={stages})",
    ]
    if scope == "write":
        lines.append(f"    out = InputTilePipeline(TilePayload(y=tile[{dtype}, {rows}, {columns}]), stages=1)")
    lines += [
        "    role load(warps=1) produces ring:",
        "        with ring.produce() as s:",
        f"            tma.load(s.x, x{place})",
    ]
    produced = " produces out" if scope == "write" else ""
    lines += [f"    role compute(warps={warps}) consumes ring{produced}:", "        with ring.consume() as s:"]
    if scope == "write":
        lines += ["            with out.produce() as o:", f"                write(o.y, {value})"]
        lines += [
            "    role save(warps=1) consumes out:",
            "        with out.consume() as o:",
            f"            tma.store(y{place}, o.y)",
        ]
    else:
        lines.append(f"            {'store' if scope == 'tma' else 'store.direct'}(y{place}, {value})")
    return Program("\n".join(lines) + "\n", arch)


# --------------------------------------------------------------------------------------- operands in registers, examples


def _register_operand(draw: random.Random) -> Program:
    """Operand `a` from registers: computed from a stage for one MMA, kept from one to the next, or read by others, too."""
    dtype = draw.choice(("bf16", "f16", "e4m3", "e5m2", "i8", "tf32"))
    accumulator = draw.choice(_ACCUMULATORS.get(dtype, ("f32",)))
    value = _STORED.get(dtype, dtype)
    warps, columns, depth = draw.choice((4, 8, 12)), _columns(draw, dtype, 256), _depth(draw, dtype)
    rows = 16 * warps * draw.choice((1, 1, 2))
    many = draw.random() < 0.5
    few, most = (f", registers={one}" for one in _shared_out(draw, warps)) if many else ("", "")
    read = ["with left.consume() as p:", f"    x = cast[{value}](cast[f32](p.a) * 0.5)"]
    multiply = ["with right.consume() as s:", "    mma(acc, x, s.b)"]
    first: list[str] = []
    match draw.choice(("computed", "kept", "carried", "scaled")):
        case "computed":
            loop = ["with left.consume() as p, right.consume() as s:", f"    mma(acc, cast[{value}](cast[f32](p.a) + 1.0), s.b)"]
        case "kept":
            kept = f"x = registers(cast[{value}](cast[f32](p.a) * 0.5))"
            loop = ["p = left.acquire_consumer()", kept, "p.release()", *multiply]
        case "carried":
            first = [f"x = registers(cast[{value}](fill(0.0, f32, {rows}, {depth})))"]
            loop = [*read, *multiply]
        case _:
            loop = ["with left.consume() as p, right.consume() as s:", "    write(acc, acc + acc)"]
            loop.append(f"    mma(acc, cast[{value}](cast[f32](p.a)), s.b)")
    lines = [
        f"kernel k(a: tensor[{value}, M, K], b: tensor[{value}, N, K], d: tensor[f32, M, N]):",
        f"    grid(ceildiv(M, {rows}), ceildiv(N, {columns}))",
        f"    left = InputTilePipeline(TilePayload(a=tile[{dtype}, {rows}, {depth}]), stages={draw.randint(1, 2)})",
        f"    right = InputTilePipeline(TilePayload(b=tile[{dtype}, {columns}, {depth}]), stages={draw.randint(1, 3)})",
        f"    role load(warps=1{few}) produces left, right:",
        f"        for k in range(ceildiv(K, {depth})):",
        "            with left.produce() as s:",
        f"                tma.load(s.a, a[block.x * {rows}, k * {depth}])",
        "            with right.produce() as s:",
        f"                tma.load(s.b, b[block.y * {columns}, k * {depth}])",
        f"    role compute(warps={warps}{most}) consumes left, right:",
        f"        acc = accumulator({accumulator}, {rows}, {columns})",
        *(f"        {line}" for line in first),
        f"        for k in range(ceildiv(K, {depth})):",
        *(f"            {line}" for line in loop),
        f"        store.direct(d[block.x * {rows}, block.y * {columns}], cast[f32](acc))",
    ]
    return Program("\n".join(lines) + "\n", "sm_90a")


def _example(draw: random.Random) -> Program:
    """A kernel of the examples, some of its compile-time parameters changed."""
    text = draw.choice(_EXAMPLES).read_text(encoding="utf-8")
    constants: dict[str, object] = {}
    for name, kind, default in _PARAMETER.findall(text):
        if draw.random() < 0.6 or not (kind == "dtype" or default.isdigit()):
            continue
        constants[name] = draw.choice(("bf16", "f16", "f32", "e4m3")) if kind == "dtype" else _near(draw, int(default))
    return Program(text, "sm_90a" if "arch: sm_90a" in text else draw.choice(("sm_100a", "sm_100a", "sm_90a")), constants)


def _near(draw: random.Random, number: int) -> int:
    return max(1, draw.choice((number // 2, number * 2, number * 3 // 4, number + 1 if number < 8 else number + 8)))
