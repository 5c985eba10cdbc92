"""Threads that compile and simulate at the same time share nothing that one could disturb for another."""

import math
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from faces.kernels import SCALE, WRONG

import pipec
from pipec.llvm_lock import LLVM_LOCK
from pipec.sim.launch import _ONE_AT_A_TIME
from pipec.verify.inequalities import allowed

EXAMPLES = Path(__file__).parents[2] / "examples"
SOURCES = [EXAMPLES / name for name in ("gemm.pipe", "softmax.pipe", "gemm_sm90_persistent.pipe")]


@pytest.fixture(autouse=True)
def switching() -> Iterator[None]:
    """With a global interpreter lock, threads take turns often."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    yield
    sys.setswitchinterval(before)


def together(work: Callable[[int], Any], count: int) -> list[Any]:
    """What `work` returns, or the mistakes it is told, on each of `count` threads, which begin at the same time."""
    found: list[Any] = [None] * count
    barrier = threading.Barrier(count)

    def run(number: int) -> None:
        barrier.wait()
        try:
            found[number] = work(number)
        except pipec.CompileError as error:
            found[number] = error

    running = [threading.Thread(target=run, args=(number,)) for number in range(count)]
    for thread in running:
        thread.start()
    for thread in running:
        thread.join()
    return found


def test_limits_are_those_of_a_thread() -> None:
    before, allowed.value = allowed.value, 5
    try:
        assert together(lambda _: allowed.value, 2) == [math.inf, math.inf] and allowed.value == 5
    finally:
        allowed.value = before


@pytest.mark.parametrize(("lock", "source"), [(LLVM_LOCK, SCALE), (_ONE_AT_A_TIME, None)], ids=["LLVM", "simulator"])
def test_who_uses_what_belongs_to_the_process_waits_for_others(lock: Any, source: str | None) -> None:
    kernel = pipec.compile(SCALE)["scale"]
    x, y = np.ones((16, 64), np.float32), np.zeros((16, 64), np.float32)
    work = (lambda: pipec.compile(source)) if source else (lambda: kernel(x, y, 2.0, device="sim"))
    thread = threading.Thread(target=work)
    with lock:
        thread.start()
        thread.join(0.5)
        assert thread.is_alive()
    thread.join(60)
    assert not thread.is_alive() and (source or (y == 2).all())


def test_compiling() -> None:
    ptx = together(lambda number: pipec.compile(SOURCES[number // 2]).ptx, 2 * len(SOURCES))
    assert ptx == [pipec.compile(SOURCES[number // 2]).ptx for number in range(len(ptx))]


def test_a_mistake_on_one_thread_is_told_there() -> None:
    texts = [SCALE, WRONG]
    found = together(lambda number: pipec.compile(texts[number % 2]).ptx, 4)
    assert [isinstance(one, pipec.CompileError) for one in found] == [False, True, False, True]
    assert found[0] == found[2] and str(found[1]) == str(found[3])


def test_simulating() -> None:
    kernel = pipec.compile(SOURCES[1])["softmax"]
    inputs = [np.random.default_rng(number).standard_normal((4, 64)).astype(np.float32) for number in range(4)]

    def launch(number: int) -> np.ndarray:
        output = np.zeros_like(inputs[number])
        kernel(inputs[number], output)
        return output

    for x, y in zip(inputs, together(launch, len(inputs)), strict=True):
        expected = np.exp(x.astype(np.float64) - x.max(axis=1, keepdims=True))
        np.testing.assert_allclose(y, expected / expected.sum(axis=1, keepdims=True), rtol=1e-5)


def test_proofs_of_several_threads_do_not_use_up_each_others_limits() -> None:
    """In a few rounds: a limit that one thread leaves to the others makes every later proof of the process undecided."""
    for _ in range(6):
        ptx = together(lambda number: pipec.compile(SOURCES[number % len(SOURCES)]).ptx, 2 * len(SOURCES))
        assert all(isinstance(one, str) for one in ptx), ptx
    assert pipec.compile(SOURCES[0]).ptx == ptx[0]
