"""A name of a tile gives the elements of the moment at which it was named, or the program is refused (E0298)."""

import numpy as np
import pytest

import pipec

BLACKWELL = """
fn twice(tile, y, z):
    store(y[0, 0], tile)
    store(z[0, 0], tile)

fn stored(tile, y):
    store(y[0, 0], tile)
    return tile

kernel k(x: tensor[f32, 8, 64], y: tensor[f32, 16, 64], z: tensor[f32, 8, 64], c: tensor[i32, 4], n: i32):
    grid(1)
    role work(warps=1):
{body}
"""
HOPPER = """
kernel k(a: tensor[bf16, 64, 16], b: tensor[bf16, 8, 16], y: tensor[f32, 64, 8], n: i32):
    grid(1)
    ring = InputTilePipeline(TilePayload(a=tile[bf16, 64, 16], b=tile[bf16, 8, 16]), stages=2)
    role load(warps=1) produces ring:
        with ring.produce() as s:
            tma.load(s.a, a[0, 0])
            tma.load(s.b, b[0, 0])
    role work(warps=4) consumes ring:
        acc = accumulator(f32, 64, 8)
        s = ring.acquire_consumer()
        mma(acc, s.a, s.b)
{body}
        s.release()
"""
T, OVER, READ = "t = load(y[0, 0], 8, 64)\n", "store(y[0, 0], load(x[0, 0], 8, 64))\n", "store(z[0, 0], t)\n"
STORES = {
    "named, stored over, read": (T + OVER + READ, True),
    "by threads": (f"{T}store.direct(y[0, 0], load(x[0, 0], 8, 64))\n{READ}", True),
    "other elements": (f"{T}store(y[8, 0], load(x[0, 0], 8, 64))\n{READ}", False),
    "read first": (T + READ + OVER, False),
    "in registers": (f"t = registers(load(y[0, 0], 8, 64))\n{OVER}{READ}", False),
    "in a branch": (f"{T}if n > 0:\n    {OVER}{READ}", True),
    "in the turn before": (f"{T}for i in range(n):\n    {READ}    {OVER}", True),
    "named in each turn": (f"for i in range(n):\n    {T}    {READ}    {OVER}", False),
    "by way of another name": (f"{T}u = t * 2.0\n{OVER}store(z[0, 0], u)", True),
    "the argument of a helper": ("twice(load(y[0, 0], 8, 64) + 1.0, y, z)", True),
    "the argument and the value of a helper": ("store(z[0, 0], stored(load(y[0, 0], 8, 64) + 1.0, y))", True),
    "an argument in registers": ("t = registers(load(y[0, 0], 8, 64) + 1.0)\ntwice(t, y, z)", False),
    "in a vote": (f"{T}{OVER}if any(t > 0.0):\n    store(z[0, 0], load(x[0, 0], 8, 64))", True),
}
ACCUMULATORS = {
    "added to": ("t = acc * 1.0\nmma(acc, s.a, s.b)\nstore(y[0, 0], t)", True),
    "written": ("t = acc * 1.0\nwrite(acc, acc * 3.0)\nstore(y[0, 0], t)", True),
    "cleared in a loop": ("t = acc * 1.0\nfor i in range(n):\n    write(acc, fill(0.0, f32, 64, 8))\nstore(y[0, 0], t)", True),
    "in registers": ("t = registers(acc * 1.0)\nmma(acc, s.a, s.b)\nstore(y[0, 0], t)", False),
    "as its own new values": ("t = acc * 2.0\nwrite(acc, t)\nstore(y[0, 0], acc)", False),
}


IN_PLACE = """
kernel k(x: tensor[f32, 128, 64], y: tensor[f32, 128, 64]):
    grid(1)
    scores = RolePipeline(stages=1)
    tiles = TensorTiles(tmem[f32, 128, 64], count=1)
    role fill(warps=4) produces scores:
        scores.acquire()
        write(tiles[scores.index()], load(x[0, 0], 128, 64))
        scores.commit()
    role work(warps=4) consumes scores:
        scores.wait()
{body}
        scores.release()
"""
TILES = {
    "modified": ("t = tiles[scores.index()] * 1.0\nwrite(tiles[scores.index()], t + 1.0)\nstore(y[0, 0], t)", True),
    "read again": (
        "write(tiles[scores.index()], tiles[scores.index()] + 1.0)\nt = tiles[scores.index()] * 1.0\nstore(y[0, 0], t)",
        False,
    ),
}


@pytest.mark.parametrize(("body", "changed"), TILES.values(), ids=TILES)
def test_tensor_memory_modified_in_place(body: str, changed: bool) -> None:
    assert _codes(IN_PLACE, body, "sm_100a") == (["E0298"] if changed else [])


def _codes(text: str, body: str, arch: str) -> list[str]:
    found = pipec.check(text.format(body="\n".join(f"        {line}" for line in body.split("\n"))), arch=arch)
    return [one.code for one in found]


@pytest.mark.parametrize(("body", "changed"), STORES.values(), ids=STORES)
def test_stores(body: str, changed: bool) -> None:
    assert _codes(BLACKWELL, body, "sm_100a") == (["E0298"] if changed else [])


@pytest.mark.parametrize(("body", "changed"), ACCUMULATORS.values(), ids=ACCUMULATORS)
def test_accumulators(body: str, changed: bool) -> None:
    assert _codes(HOPPER, body, "sm_90a") == (["E0298"] if changed else [])


def test_a_number_that_a_helper_is_given_is_read_once() -> None:
    helper = (
        "fn both(v, y):\n    store.direct(y[0, 0], fill(v + 1, i32, 1, 64))\n    store.direct(y[1, 0], fill(v, i32, 1, 64))\n"
    )
    text = f"{helper}\nkernel k(y: tensor[i32, 2, 64]):\n    grid(1)\n    role all(warps=1):\n        both(load(y[0, 0]), y)\n"
    y = np.full((2, 64), 5, np.int32)
    pipec.compile(text, kernel="k")["k"](y, device="sim")
    assert (y[0] == 6).all() and (y[1] == 5).all()
