"""Random kernels that are meant to be right: GEMMs (gemm_kernels.py), elementwise pipelines, products of operands in registers, and
examples with other parameters. What the compiler takes of them an assembler has to take as well.

The sizes are drawn so that most kernels fit; those that the compiler refuses, with a message of its own, are drawn again by the caller.
"""

import random
import re
from pathlib import Path

from gemm_kernels import products
from kernel_sizes import ACCUMULATORS, STORED, Program, draw_budgets, draw_columns, draw_depth

_EXAMPLES = sorted(Path(__file__).resolve().parent.parent.parent.joinpath("examples").glob("*.pipe"))
_PARAMETER = re.compile(r"\b([A-Z_]+): (int|dtype) = (\w+)")


def kernel(draw: random.Random) -> Program:
    family = draw.choices((products, _elementwise, _register_operand, _example), (70, 10, 10, 10))[0]
    return family(draw)


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
    accumulator = draw.choice(ACCUMULATORS.get(dtype, ("f32",)))
    value = STORED.get(dtype, dtype)
    warps, columns, depth = draw.choice((4, 8, 12)), draw_columns(draw, dtype, 256), draw_depth(draw, dtype)
    rows = 16 * warps * draw.choice((1, 1, 2))
    many = draw.random() < 0.5
    few, most = (f", registers={one}" for one in draw_budgets(draw, warps)) if many else ("", "")
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
