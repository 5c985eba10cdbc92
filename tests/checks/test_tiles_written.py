"""Tiles of a stage are written on every path, wherever they are: random nests of branches and loops around a `write`, and the fewest
times that one is executed, counted over the paths."""

import random

import pytest

from pipec.driver import Options, compile_source
from pipec.source import Source

DEEPEST = 3
KERNEL = """kernel k(x: tensor[f32, 128, 64], b: tensor[bf16, 64, 64], d: tensor[f32, 128, 64], n: i32, m: i32):
    grid(1)
    h = RolePipeline(stages=1)
{buffers}
    role w(warps=4) produces h:
        h.acquire()
{body}
        h.commit()
{reader}
"""
READ = """    role e(warps=4) consumes h:
        h.wait()
        store(d[0, 0], t[h.index()])
        h.release()"""
MULTIPLIED = """    role l(warps=1) produces p:
        with p.produce() as s:
            tma.load(s.b, b[0, 0])
    role c(warps=1) consumes p, h produces o:
        with o.produce() as acc, p.consume() as s:
            h.wait()
            mma(acc, t[h.index()], s.b)
            mma.commit(h.consumer_mbar())
            h.step()
    role e(warps=4) consumes o:
        with o.consume() as acc:
            store(d[0, 0], acc)"""
OPERAND = """    t = TensorTiles(tmem[bf16, 128, 64], count=1)
    p = InputTilePipeline(TilePayload(b=tile[bf16, 64, 64]), stages=1)
    o = OutputTilePipeline(tmem[f32, 128, 64], stages=1)"""
# Where the tile is, what is written into it, and who reads it.
TILES = {
    "shared": ("    t = SharedTiles(tile[f32, 128, 64], count=1)", "load(x[0, 0], 128, 64)", READ),
    "tensor": ("    t = TensorTiles(tmem[f32, 128, 64], count=1)", "load(x[0, 0], 128, 64)", READ),
    "operand": (OPERAND, "cast[bf16](load(x[0, 0], 128, 64))", MULTIPLIED),
}


def nest(draw: random.Random, write: str, deep: int = 0) -> tuple[list[str], int]:
    """Some statements, and how often they write at least."""
    kind = draw.choice(
        ("write", "write", "nothing", "if", "if else", "loop", "some turns") if deep < DEEPEST else ("write", "nothing")
    )
    if kind in ("write", "nothing"):
        return ([write], 1) if kind == "write" else (["pass"], 0)
    body, fewest = nest(draw, write, deep + 1)
    inner = [f"    {line}" for line in body]
    if kind == "loop":
        return [f"for i{deep} in range(n):", *inner], 0
    if kind == "some turns":
        turns = draw.choice((1, 2))
        return [f"for i{deep} in range({turns}):", *inner], turns * fewest
    condition = f"if {draw.choice('nm')} > {draw.randrange(4)}:"
    if kind == "if":
        return [condition, *inner], 0
    other, least = nest(draw, write, deep + 1)
    return [condition, *inner, "else:", *(f"    {line}" for line in other)], min(fewest, least)


@pytest.mark.parametrize("where", TILES)
@pytest.mark.parametrize("seed", range(60))
def test_a_stage_is_handed_over_only_with_its_tile_written(where: str, seed: int) -> None:
    buffers, value, reader = TILES[where]
    draw = random.Random(f"{where}/{seed}")
    parts = [nest(draw, f"write(t[h.index()], {value})") for _ in range(draw.choice((1, 1, 2)))]
    lines, fewest = [line for part, _ in parts for line in part], sum(count for _, count in parts)
    body = "\n".join(f"        {line}" for line in lines)
    text = KERNEL.format(buffers=buffers, body=body, reader=reader)
    codes = {one.code for one in compile_source(Source("k.pipe", text), Options("sm_100a"), until="limits").diagnostics}
    if not any("write" in line for line in lines):
        assert codes & {"E0308", "E0501"}, text
    else:
        assert bool(codes & {"E0501", "E0502", "E0510"}) == (fewest == 0), (codes, text)
        assert fewest == 0 or not codes, (codes, text)
