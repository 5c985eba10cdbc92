"""One loop over the blocks of K of all tiles, in which a counter goes round for each tile: `k = 0 if k == kb - 1 else k + 1`."""

import textwrap

import numpy as np
import pytest

import pipec
from pipec.driver import Options, compile_source
from pipec.source import Source

TEXT = """
kernel k(x: tensor[f32, M, N], y: tensor[f32, K], turns: i32):
    grid(min(ceildiv(M, 128) * ceildiv(N, 128), gpu.multiprocessors))
    assume(M > 0 and N > 0 and K > 0)
    tiles = ceildiv(M, 128) * ceildiv(N, 128)
    kb = ceildiv(K, 64)
    p = ProducerConsumerPipeline(stages=3)
    q = ProducerConsumerPipeline(stages=2)
    role load(warps=1) produces p:
{load}
    role multiply(warps=1) consumes p produces q:
{multiply}
    role store(warps=1) consumes q:
{store}
"""
FIRST = {  # where the counter is moved in front of the rest of a turn: what it begins with, how it moves on
    "chosen": ("k = -1", "k = 0 if k == kb - 1 else k + 1"),
    "chosen by order": ("k = -1", "k = k + 1 if k < kb - 1 else 0"),
    "set back": ("k = -1", "k += 1\nif k == kb:\n    k = 0"),
    "set back by order": ("k = -1", "k += 1\nif k >= kb:\n    k = 0"),
    "down": ("k = 0", "k = k - 1 if k > 0 else kb - 1"),
}
SHARES = {
    "rounded up": "mine = ceildiv(tiles - block.x, grid.x)",
    "by hand": "mine = tiles // grid.x\nif block.x < tiles % grid.x:\n    mine += 1",
    "given": "mine = turns",
}


def walk(share: str, first: tuple[str, str], body: str, bound: str = "mine * kb") -> str:
    begin, step = first
    return "\n".join((share, begin, f"for i in range({bound}):", textwrap.indent(f"{step}\n{body}", "    ")))


def behind(share: str, body: str) -> str:
    """With the counter moved on at the end of a turn."""
    step = "if k == kb - 1:\n    k = 0\nelse:\n    k += 1"
    return "\n".join((share, "k = 0", "for i in range(mine * kb):", textwrap.indent(f"{body}\n{step}", "    ")))


def failed(load: str, multiply: str, store: str) -> bool:
    roles = {name: textwrap.indent(body, " " * 8) for name, body in (("load", load), ("multiply", multiply), ("store", store))}
    return compile_source(Source("k.pipe", TEXT.format(**roles)), Options("sm_90a")).failed


FILL, TAKE = "p.producer_signal_and_step()", "p.consumer_signal_and_step()"
HAND_OVER = "if k == kb - 1:\n    {}"
MULTIPLY, STORE = f"{TAKE}\n{HAND_OVER.format('q.producer_signal_and_step()')}", HAND_OVER.format("q.consumer_signal_and_step()")


@pytest.mark.parametrize("first", [*FIRST])
@pytest.mark.parametrize("share", [*SHARES])
def test_it_is_proved(share: str, first: str) -> None:
    words, of = FIRST[first], SHARES[share]
    ends = {"down": "k == 0"}.get(first, "k == kb - 1")
    multiply, store = (text.replace("k == kb - 1:\n    q", f"{ends}:\n    q") for text in (MULTIPLY, STORE))
    assert not failed(walk(of, words, FILL), walk(of, words, multiply), walk(of, words, store))


def test_it_is_proved_where_roles_count_in_other_words() -> None:
    of = SHARES["by hand"]
    assert not failed(walk(of, FIRST["chosen"], FILL), behind(of, MULTIPLY), walk(of, FIRST["set back by order"], STORE))


@pytest.mark.parametrize(
    "store",
    [
        walk(SHARES["given"], FIRST["chosen"], STORE, "(mine + 1) * kb"),
        walk(SHARES["given"], ("k = 0", FIRST["chosen"][1]), STORE),
        walk(SHARES["given"], ("k = -1", "k = 0 if k == kb else k + 1"), STORE),
        walk(SHARES["given"], ("k = -1", "k = 1 if k == kb - 1 else k + 1"), STORE),
        walk(SHARES["given"], FIRST["chosen"], STORE.replace("kb - 1", "kb - 2")),
    ],
)
def test_its_neighbour_is_not(store: str) -> None:
    of, words = SHARES["given"], FIRST["chosen"]
    assert failed(walk(of, words, FILL), walk(of, words, MULTIPLY), store)


SUMS = """
kernel sums(x: tensor[f32, M, K], y: tensor[f32, M, 32], blocks: i32):
    grid(blocks)
    assume(K > 0 and blocks > 0)
    tiles = ceildiv(M, 64)
    kb = ceildiv(K, 32)
    ring = InputTilePipeline(TilePayload(x=tile[f32, 64, 32]), stages=3)
    done = InputTilePipeline(TilePayload(y=tile[f32, 64, 32]), stages=2)

    role load(warps=1) produces ring:
        mine = ceildiv(tiles - block.x, grid.x)
        t = block.x - grid.x
        k = -1
        for i in range(mine * kb):
            k = 0 if k == kb - 1 else k + 1
            if k == 0:
                t += grid.x
            with ring.produce() as s:
                tma.load(s.x, x[t * 64, k * 32])

    role add(warps=4) consumes ring produces done:
        mine = ceildiv(tiles - block.x, grid.x)
        total = registers(fill(0.0, f32, 64, 32))
        k = -1
        for i in range(mine * kb):
            k = 0 if k == kb - 1 else k + 1
            with ring.consume() as s:
                total = total + s.x
            if k == kb - 1:
                with done.produce() as d:
                    write(d.y, total)
                total = registers(fill(0.0, f32, 64, 32))

    role store(warps=1) consumes done:
        mine = ceildiv(tiles - block.x, grid.x)
        t = block.x
        k = -1
        for i in range(mine * kb):
            k = 0 if k == kb - 1 else k + 1
            if k == kb - 1:
                with done.consume() as d:
                    tma.store(y[t * 64, 0], d.y)
                t += grid.x
"""


@pytest.mark.parametrize(("rows", "depth", "blocks"), [(320, 96, 2), (128, 32, 3), (192, 160, 1)])
def test_it_computes_what_it_should(rows: int, depth: int, blocks: int) -> None:
    x = np.random.default_rng(rows).integers(-4, 5, (rows, depth)).astype(np.float32)
    y = np.zeros((rows, 32), np.float32)
    pipec.compile(SUMS, arch="sm_90a")["sums"](x, y, blocks, device="sim")
    assert np.array_equal(y, x.reshape(rows, -1, 32).sum(axis=1))
