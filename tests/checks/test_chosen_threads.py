"""Arrivals under conditions on the number of the thread: their count is known, and what the others did with the stage comes first."""

import numpy as np
import pytest
from diagnose import Options, diagnose, outcomes
from lower.running import run

from pipec.lower import role as lowering

CONSUMER = """
kernel k(x: tensor[f32, M, 32], y: tensor[f32, M, 32]):
    grid(1)
    ring = InputTilePipeline(TilePayload(x=tile[f32, 128, 32]), stages=2)

    role load(warps=1) produces ring:
        for i in range(ceildiv(M, 128)):
            with ring.produce() as s:
                tma.load(s.x, x[i * 128, 0])

    role compute(warps=4) consumes ring:
        for i in range(ceildiv(M, 128)):
            s = ring.acquire_consumer()
            v = registers(s.x)
            {guard}
            s.release_without_signal()
            store.direct(y[i * 128, 0], v + 1.0)
"""
PRODUCER = """
kernel k(x: tensor[f32, M, 32], y: tensor[f32, M, 32]):
    grid(1)
    ring = InputTilePipeline(TilePayload(x=tile[f32, 128, 32]), stages=2)

    role fill_in(warps=4) produces ring:
        for i in range(ceildiv(M, 128)):
            ring.wait_consumer()
            write(ring.payload.x[ring.producer_stage()], load(x[i * 128, 0], 128, 32) + 1.0)
            {guard}
            ring.producer_step()

    role put(warps=1) consumes ring:
        for i in range(ceildiv(M, 128)):
            with ring.consume() as s:
                tma.store(y[i * 128, 0], s.x)
"""
# What passes, and how many threads of the four warps.
RIGHT = {
    "lane_id() == 5": 4,
    "lane_id() < 4": 16,
    "lane_id() != 3": 124,
    "lane_id() % 2 == 0": 64,
    "lane_id() + 1 < 3": 8,
    "(lane_id() & 3) == 2": 32,
    "role_thread() == 0": 1,
    "role_warp() == 1": 32,
    "role_warp() == 2 and lane_id() == 3": 1,
    "role_thread() > 10 and role_thread() <= 50": 40,
}
ONE_OF_ALL = [condition for condition in RIGHT if "role_" in condition]
FORMS = (
    "if {0}:\n                {1}",
    "if not ({0}):\n                pass\n            else:\n                {1}",
    "passes = {0}\n            if passes:\n                {1}",
    "if role_thread() < 100:\n                if {0}:\n                    {1}",
)


def source(kernel: str, condition: str, form: str = FORMS[0]) -> str:
    arrive = "s.arrive()" if kernel == CONSUMER else "arrive(ring.producer_mbar())"
    return kernel.format(guard=form.format(condition, arrive))


@pytest.mark.parametrize("kernel", [CONSUMER, PRODUCER], ids=["consumer", "producer"])
@pytest.mark.parametrize("condition", RIGHT)
def test_right_ones_compute(condition: str, kernel: str) -> None:
    text = source(kernel, condition)
    assert outcomes("k.pipe", text, Options()) == ["proved"], diagnose("k.pipe", text)
    _computes(text)


@pytest.mark.parametrize("form", FORMS[1:])
@pytest.mark.parametrize("condition", ["lane_id() == 5", "role_thread() == 77"])
def test_however_it_is_written(condition: str, form: str) -> None:
    text = source(CONSUMER, condition, form)
    assert outcomes("k.pipe", text, Options()) == ["proved"], diagnose("k.pipe", text)
    _computes(text)


def _computes(text: str) -> None:
    for timing in ("order", "late", "random"):
        x = np.arange(300 * 32, dtype=np.float32).reshape(300, 32)
        y = np.zeros_like(x)
        run(text, "k", x, y, timing=timing)
        assert np.array_equal(y, x + 1)


@pytest.mark.parametrize("condition", RIGHT)
def test_as_many_threads_are_counted(condition: str) -> None:
    """By `init_barriers`, which states the count: another one is refused."""
    for count, codes in ((RIGHT[condition], []), (RIGHT[condition] + 1, ["E0522"])):
        stated = source(CONSUMER, condition).replace("stages=2)\n", f"stages=2)\n    ring.init_barriers(1, {count})\n")
        assert [one.code for one in diagnose("k.pipe", stated)] == codes


@pytest.mark.parametrize("condition", ONE_OF_ALL)
def test_a_thread_that_arrives_for_other_warps_waits_for_them(condition: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the meeting of all warps the simulator finds the race."""
    monkeypatch.setattr(lowering, "_in_each_warp", lambda role: True)
    x = np.zeros((700, 32), np.float32)
    with pytest.raises(Exception, match="race"):
        run(source(CONSUMER, condition) + "\n", "k", x, x.copy(), timing="late")


WRONG = {
    "in both": (FORMS[0].format("lane_id() == 3", "s.arrive()") + "\n            else:\n                s.arrive()", "E0507"),
    "nobody": (FORMS[0].format("lane_id() == 32", "s.arrive()"), "E0509"),
    "nobody of the role": (FORMS[0].format("role_warp() > 3", "s.arrive()"), "E0509"),
    "by a size": (FORMS[0].format("lane_id() == M", "s.arrive()"), "E0413"),
    "by the turn": (FORMS[0].format("lane_id() == i % 32", "s.arrive()"), "E0413"),
    "by what is read": (FORMS[0].format("load(x[role_thread(), 0]) > 1.0", "s.arrive()"), "E0413"),
    "in some turns": (FORMS[0].format("lane_id() == 3 and i > 0", "s.arrive()"), "E0413"),
    "of a loop": ("for j in range(lane_id()):\n                s.arrive()", "E0413"),
    "of a tile": ("s.arrive()\n            if lane_id() == 0:\n                store.direct(y[0, 0], v)", "E0411"),
}


@pytest.mark.parametrize("case", WRONG)
def test_wrong_ones_are_refused(case: str) -> None:
    body, code = WRONG[case]
    assert code in [one.code for one in diagnose("k.pipe", CONSUMER.format(guard=body))]
