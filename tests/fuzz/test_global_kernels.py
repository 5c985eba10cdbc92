"""No kernel that pipec accepts loads from global memory what its own statements have not stored yet, at whatever pace its parts run."""

import random

import numpy as np
import pytest
from fuzz.global_kernels import Case, draw, draw_grid, start

import pipec
from pipec.runtime.launcher import LaunchOptions
from pipec.sim import Options

CASES = 60
REFUSALS = {"E0614", "E0615"}


def outcome(case: Case, seed: int) -> str:
    """Its codes where it is refused; else it was run, and "right" or "wrong"."""
    try:
        program = pipec.compile(case.source())
    except pipec.CompileError as error:
        return " ".join(sorted({one.code for one in error.diagnostics}))
    for timing in ("late", "random"):
        arrays = start()
        program["k"](*arrays.values(), device="sim", options=LaunchOptions(simulation=Options(timing=timing, seed=seed)))
        expected = case.expected(start())
        if not all(np.array_equal(arrays[name], expected[name]) for name in arrays):
            return "wrong"
    return "right"


@pytest.mark.sample(0.5)
@pytest.mark.parametrize("seed", range(CASES))
def test_accepted_kernels_compute_what_their_steps_say(seed: int) -> None:
    case = draw(random.Random(seed))
    found = outcome(case, seed)
    assert found == "right" or set(found.split()) <= REFUSALS, f"{found}\n{case.source()}"


@pytest.mark.sample(0.5)
@pytest.mark.parametrize("seed", range(CASES))
def test_blocks_that_meet_are_refused(seed: int) -> None:
    """And only those."""
    case = draw_grid(random.Random(seed))
    found = outcome(case, seed)
    if case.blocks_meet():
        assert "E0618" in found, f"{found}\n{case.source()}"
    else:
        assert found in ("right", "E0615"), f"{found}\n{case.source()}"


# A role stores 8 rows of x at a time to 16 rows of y, and comes round to the same rows again.
ROUND = """
kernel k(x: tensor[f32, M, 64], y: tensor[f32, 16, 64]):
    grid(1)
    role all(warps=2):
LINES
"""
COMES_ROUND = {
    "nested loops": "for r in range(M // 16):\n    for i in range(2):\n        store(y[i * 8, 0], load(x[r * 16 + i * 8, 0], 8, 64))",
    "carried": "j = 0\nfor i in range(M // 8):\n    store(y[j, 0], load(x[i * 8, 0], 8, 64))\n    j = (j + 8) % 16",
    "clamped": "for i in range(M // 8):\n    store(y[min(i * 8, 8), 0], load(x[min(i, 1) * 8 + max(i - 1, 0) * 8, 0], 8, 64))",
}


@pytest.mark.parametrize("lines", COMES_ROUND.values(), ids=COMES_ROUND)
def test_stores_to_the_same_place_take_effect_in_order(lines: str) -> None:
    text = ROUND.replace("LINES", "".join(f"        {line}\n" for line in lines.split("\n")))
    x, y = np.arange(48 * 64, dtype=np.float32).reshape(48, 64), np.zeros((16, 64), np.float32)
    pipec.compile(text)["k"](x, y, device="sim", options=LaunchOptions(simulation=Options(timing="late")))
    assert np.array_equal(y[8:], x[40:])


# A store in a loop whose places come round, or stay, only after more turns than any list of sizes tries.
LATE = """
kernel k(n: i32, m: i32, x: tensor[f32, M, 64], y: tensor[f32, M, 64]):
    assume(n <= 60 and m <= 1)
    grid(2)
    role all(warps=WARPS):
        r = 0
        for i in range(n):
            store(y[block.x * 1024 + (PLACE) * 8, 0], load(x[i * 8, 0], 8, 64))
            r = r + 1 if r < PERIOD - 1 else 0
"""
LATE_PLACES = (
    "i % PERIOD",
    "i & 31",
    "min(i, PERIOD)",
    "max(i, PERIOD)",
    "abs(i - PERIOD)",
    "i if i < PERIOD else i - PERIOD",
    "r",
    "m * i",
    "i // PERIOD",
    "i % PERIOD * (1 - block.x)",
    "(i * 7 + m) % PERIOD",
)


@pytest.mark.parametrize("place", LATE_PLACES)
def test_stores_that_come_round_late_take_effect_in_order(place: str) -> None:
    chance = random.Random(place)
    period, trips, m = chance.choice((5, 20, 27)), chance.choice((40, 60)), chance.choice((0, 1))
    text = LATE.replace("PLACE", place).replace("PERIOD", str(period)).replace("WARPS", str(chance.choice((1, 4))))
    x, y = np.arange(2048 * 64, dtype=np.float32).reshape(2048, 64), np.zeros((2048, 64), np.float32)
    wanted = y.copy()
    for block in range(2):
        for i in range(trips):
            known = {"i": i, "r": i % period, "m": m, "block": type("", (), {"x": block})}
            at = block * 1024 + 8 * eval(place.replace("PERIOD", str(period)), known)
            wanted[at : at + 8] = x[i * 8 : i * 8 + 8]
    program = pipec.compile(text)
    assert not any("different elements" in line for line in program.report["k"].assumed)
    program["k"](trips, m, x, y, device="sim", options=LaunchOptions(simulation=Options(timing="late")))
    assert np.array_equal(y, wanted)


# Tiles that are dealt out are taken for different ones; not where memory says where they are, beside others, or known to meet in a block.
DEALT_OUT = """
kernel k(n: i32, c: tensor[i32, C], x: tensor[f32, M, 64], y: tensor[f32, M, 64]):
    grid(2)
    role all(warps=4):
        for t in range(block.x, n, 2):
            store(y[PLACE, 0], load(x[t * 8, 0], 8, 64))
        for i in range(LEFT):
            store(y[block.x * 1024 + i * 16 + 720, 0], load(x[i * 8, 0], 8, 64))
"""


@pytest.mark.parametrize(
    ("place", "left"),
    [
        ("block.x * 1024 + load(c[t]) * 8", "0"),
        ("block.x * 1024 + t // 2 * 16", "n"),
        ("block.x * 400 + t // 2 * 8 * (1 - block.x)", "0"),
    ],
)
def test_tiles_that_are_dealt_out(place: str, left: str) -> None:
    x, y = np.arange(2048 * 64, dtype=np.float32).reshape(2048, 64), np.zeros((2048, 64), np.float32)
    c, n, wanted = np.arange(120, dtype=np.int32) % 4, 100, y.copy()
    for block in range(2):
        here = {"block": type("", (), {"x": block}), "c": c, "load": int}
        stores = [(eval(place, {**here, "t": t}), t * 8) for t in range(block, n, 2)]
        stores += [(block * 1024 + i * 16 + 720, i * 8) for i in range(eval(left, {"n": 18}))]
        for at, source in stores:
            wanted[at : at + 8] = x[source : source + 8]
    text = DEALT_OUT.replace("PLACE", place).replace("LEFT", "min(n, 18)" if left == "n" else left)
    pipec.compile(text)["k"](n, c, x, y, device="sim", options=LaunchOptions(simulation=Options(timing="late")))
    assert np.array_equal(y, wanted)


SHARED = """
kernel k(x: tensor[f32, M, 64], y: tensor[f32, M, 64]):
    grid(GRID)
    role all(warps=1):
        LINE
"""


@pytest.mark.parametrize(
    ("grid", "line", "codes"),
    [
        ("4", "store(y[block.x * 8, 0], load(x[0, 0], 16, 64), rows=8)", []),
        ("4", "store(y[block.x * 8, 0], load(x[0, 0], 16, 64), rows=9)", ["E0618"]),
        ("4", "if not (block.x > 0):\n            store(y[0, 0], load(x[0, 0], 16, 64))", []),
        ("4", "if not (block.x > 1):\n            store(y[0, 0], load(x[0, 0], 16, 64))", ["E0618"]),
        ("8)\n    cluster(2", "store(y[cluster.x * 32 + cta.x * 16, 0], load(x[0, 0], 16, 64))", []),
        ("8)\n    cluster(2", "store(y[cluster.x * 16 + cta.x * 16, 0], load(x[0, 0], 16, 64))", ["E0618"]),
        (
            "8",
            "for t in range(block.x, ceildiv(M, 16), 8):\n            store(y[t * 16, 0], load(x[0, 0], 16, 64))",
            [],
        ),
        (
            "8",
            "for t in range(block.x, ceildiv(M, 16), 7):\n            store(y[t * 16, 0], load(x[0, 0], 16, 64))",
            ["E0618"],
        ),
        ("2", "for i in range(64):\n            store(y[block.x * 512 + i * 8, 0], load(x[0, 0], 8, 64))", []),
        ("2", "for i in range(64):\n            store(y[block.x * 504 + i * 8, 0], load(x[0, 0], 8, 64))", ["E0618"]),
        ("2", "if load(x[0, 0]) > 0.0:\n            y_ = 0\n        store(y[block.x * 8, 0], load(x[0, 0], 8, 64))", []),
        ("2", "if load(x[0, 0]) > 0.0:\n            y_ = 0\n        store(y[block.x * 7, 0], load(x[0, 0], 8, 64))", ["E0618"]),
    ],
)
def test_what_a_block_stores(grid: str, line: str, codes: list[str]) -> None:
    assert [one.code for one in pipec.check(SHARED.replace("GRID", grid).replace("LINE", line))] == codes


FAR = """
kernel k(x: tensor[f32, 8, 64], y: tensor[f32, ROWS, 64]):
    grid(GRID)
    role all(warps=1):
        store(y[8 * (PLACE), 0], load(x[0, 0], 8, 64))
"""
PLACES = (
    "b * {a} % {m}",
    "(b + {a}) % {m}",
    "b // {a} * {a} + b % {m}",
    "b % {m} * {a} + b // {m}",
    "min(b, {m})",
    "max(b, {a})",
    "{grid} - 1 - b",
    "b if b < {m} else b - {a}",
)


@pytest.mark.parametrize("seed", range(40))
def test_of_few_blocks_all_are_compared(seed: int) -> None:
    """However far from each other those stand that store the same."""
    chance = random.Random(seed)
    grid, rows = chance.randint(2, 100), chance.choice((20, 64, 2000))
    place = chance.choice(PLACES).format(a=chance.randint(1, 9), m=chance.randint(2, grid + 4), grid=grid)
    found = [eval(place, {"b": block, "min": min, "max": max}) for block in range(grid)]
    inside = [one for one in found if 0 <= one < rows]
    text = FAR.replace("ROWS", str(8 * rows)).replace("GRID", str(grid)).replace("PLACE", place.replace("b", "block.x"))
    codes = {one.code for one in pipec.check(text)} - {"E0725"}  # some start in front
    assert codes == ({"E0618"} if len(set(inside)) < len(inside) else set()), text


TAKEN = """
kernel k(x: tensor[f32, M, 64], y: tensor[f32, M, 64], c: tensor[i32, 8], at: tensor[i32, 8], n: i32, m: i32):
    grid(2)
    role all(warps=2):
        LINE
"""
SAID = [
    ("store(y[block.x * 32, 0], load(x[0, 0], 32, 64))", [], ""),
    (
        "for t in range(block.x, M // 32, 2):\n            store(y[t * 32, 0], load(x[0, 0], 32, 64))",
        [],
        "",
    ),
    (
        "for t in range(M // 64):\n            store.direct(y[t // n * 64 + block.x * 32, 0], load(x[0, 0], 32, 64))",
        [],  # the role's own stores overlap where they are tried, and are put in order
        "",
    ),
    (
        "if block.x == 0:\n            store(y[n, 0], load(x[0, 0], 8, 64))",
        ["stores: `y[n, 0]` starts at no negative coordinate"],
        "",
    ),
    ("store(y[n + block.x * 8, 0], load(x[0, 0], 8, 64))", [], " with n >= 0"),
    ("store(y[M - n - block.x * 8, 0], load(x[0, 0], 8, 64))", [], " with M + 8 >= 8 * grid.x + n and M - n <= 2147483647"),
    ("store.direct(y[n + block.x * 8, 0], load(x[0, 0], 8, 64))", [], ""),  # the threads leave out what lies in front
    (
        "store(y[load(at[block.x]), 0], load(x[0, 0], 8, 64))",
        ["y: what one block stores no other touches", "stores: `y[load(at[block.x]), 0]` starts at no negative coordinate"],
        "",
    ),
    (
        "with semaphore(c[n * m], block.x, 2):\n            store(y[0, 0], load(x[0, 0], 8, 64))",
        ["counters: `c[n * m]` lies inside its tensor"],
        "",
    ),
]


@pytest.mark.parametrize(("line", "assumed", "condition"), SAID)
def test_assumptions_are_reported(line: str, assumed: list[str], condition: str) -> None:
    report = pipec.compile(TAKEN.replace("LINE", line)).report["k"]
    assert list(report.assumed) == assumed
    assert f"for all sizes{condition}" in report.proofs[0]


def test_stores_that_are_put_in_order_are_not_assumed_to_differ() -> None:
    """Each iteration stores seven of the eight rows again that the one before has stored."""
    report = pipec.compile(
        SHARED.replace("GRID", "1").replace("LINE", "for i in range(M):\n            store(y[i, 0], load(x[i, 0], 8, 64))")
    )
    assert not report.report["k"].assumed
