"""Two roles, one of which loads in each turn what the other has stored in all turns before: the solution of a triangular system, block by
block. Only the ends of the inner loop say that no load meets the store of its own turn, or of a later one."""

import numpy as np
import pytest

import pipec
from pipec.driver import Options, compile_source
from pipec.runtime import LaunchOptions
from pipec.sim import Options as Simulation
from pipec.source import Source

BLOCKS = 5

KERNEL = """
kernel k(x: tensor[f32, M, 32], y: tensor[f32, M, 32]):
    grid(1)
    n = ceildiv(M, 8)
    ring = InputTilePipeline(TilePayload(t=tile[f32, 8, 32]), stages=2)
    solved = ProducerConsumerPipeline(stages=1)
    role load(warps=1) produces ring consumes solved:
        for i in range(n):
            for j in range({inner}):
                with ring.produce() as s:
                    tma.load(s.t, y[{loaded}, 0])
            solved.consumer_signal_and_step()
    role compute(warps=1) consumes ring produces solved:
        for i in range(n):
            sum = registers(load(x[{row}, 0], 8, 32))
            for j in range({inner}):
                with ring.consume() as s:
                    sum = sum + s.t
            store(y[{row}, 0], sum)
            solved.producer_signal_and_step()
"""
STORE = "            store(y[{row}, 0], sum)\n"
TELL = "            solved.producer_signal_and_step()\n"
HEAR = "            solved.consumer_signal_and_step()\n"


def forward(kernel: str = KERNEL, *, inner: str = "i", loaded: str = "j * 8", row: str = "i * 8") -> str:
    return kernel.format(inner=inner, loaded=loaded, row=row)


def backward(*, inner: str = "i", loaded: str = "(n - 1 - j) * 8") -> str:
    return forward(inner=inner, loaded=loaded, row="(n - 1 - i) * 8")


RIGHT = {
    "from the first row to the last": forward(),
    "nearest first": forward(loaded="(i - 1 - j) * 8"),
    "by an inner loop downwards": forward(inner="i - 1, -1, -1"),
    "between two ends": forward(inner="i // 2, i"),
    "every second one, counted by two": forward(inner="0, i, 2", loaded="j * 8"),
    "from the last row to the first": backward(),
    "from the last row, by an inner loop from there": backward(inner="n - i, n", loaded="j * 8"),
}
WRONG = {
    "the row that this turn stores": forward(inner="i + 1"),
    "half of it": forward(loaded="j * 8 + 4"),
    "the next row": forward(loaded="(j + 1) * 8"),
    "the next row, nearest first": forward(loaded="(i - j) * 8"),
    "by an inner loop from this row downwards": forward(inner="i, -1, -1"),
    "all rows": forward(inner="n"),
    "rows of later turns": forward(inner="i, n"),
    "told before it is stored": forward(KERNEL.replace(STORE + TELL, TELL + STORE)),
    "nobody hears of it": forward(KERNEL.replace(HEAR, "").replace(" consumes solved", "").replace(TELL, "").replace(
        " produces solved", "").replace("    solved = ProducerConsumerPipeline(stages=1)\n", "")),
    "from the last row, one too many": backward(inner="n - 1 - i, n", loaded="j * 8"),
    "from the last row, half of this one": backward(loaded="(n - 1 - j) * 8 - 4"),
}  # fmt: skip


def codes(text: str) -> set[str]:
    return {one.code for one in compile_source(Source("k.pipe", text), Options("sm_90a")).diagnostics}


def expected(name: str, x: np.ndarray) -> np.ndarray:
    rows = x.reshape(BLOCKS, 8, 32)
    order = list(reversed(range(BLOCKS))) if "last row" in name.replace("to the last", "") else list(range(BLOCKS))
    y = np.zeros_like(rows)
    for i, row in enumerate(order):
        before = order[:i]
        taken = {
            "between two ends": before[i // 2 :],
            "every second one, counted by two": before[::2],
        }
        y[row] = rows[row] + sum(y[one] for one in taken.get(name, before))
    return y.reshape(BLOCKS * 8, 32)


@pytest.mark.parametrize("name", RIGHT)
def test_what_earlier_turns_stored_is_loaded(name: str) -> None:
    assert codes(RIGHT[name]) == set()
    kernel = pipec.compile(RIGHT[name], arch="sm_90a")["k"]
    x = np.random.default_rng(1).integers(0, 9, (BLOCKS * 8, 32)).astype(np.float32)
    for timing in ("late", "random", "order"):
        y = np.zeros_like(x)
        kernel(x, y, device="sim", options=LaunchOptions(Simulation(timing=timing)))
        assert np.array_equal(y, expected(name, x)), timing


@pytest.mark.parametrize("name", WRONG)
def test_what_this_turn_or_a_later_one_stores_is_refused(name: str) -> None:
    assert "E0614" in codes(WRONG[name])
