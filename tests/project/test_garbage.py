"""A compilation is not held up by Python's search for garbage, and leaves next to none of what only that search finds."""

import gc
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from pipec.driver import STAGES, carried_on, compile_source
from pipec.garbage import seldom_collected, uncollected
from pipec.source import Source

SOURCE = Source("gemm.pipe", (Path(__file__).parents[2] / "examples" / "gemm.pipe").read_text(encoding="utf-8"))


@contextmanager
def collecting(collects: bool) -> Iterator[None]:
    before = gc.isenabled()
    gc.enable() if collects else gc.disable()
    try:
        yield
    finally:
        gc.enable() if before else gc.disable()


def test_nothing_is_looked_through_while_a_kernel_compiles(monkeypatch: pytest.MonkeyPatch) -> None:
    found: list[bool] = []
    monkeypatch.setitem(STAGES, "analyse", lambda state: found.append(gc.isenabled()))
    with collecting(True):
        state = compile_source(SOURCE, until="analyse")
        monkeypatch.setitem(STAGES, "build", lambda state: found.append(gc.isenabled()))
        carried_on(state, "analyse", "build")
        assert gc.isenabled()
    assert found == [False, False]


def test_a_compilation_leaves_few_cycles() -> None:
    compile_source(SOURCE)
    gc.collect()
    with uncollected():
        compile_source(SOURCE)
        assert gc.collect() < 5_000


@pytest.mark.parametrize("collects", [True, False])
def test_the_collector_is_left_as_it_was(collects: bool) -> None:
    with collecting(collects):
        with pytest.raises(KeyError), uncollected():
            assert not gc.isenabled()
            raise KeyError
        assert gc.isenabled() == collects


@pytest.mark.parametrize(("youngest", "within"), [(700, 20_000), (50_000, 50_000), (0, 0)])
def test_seldom_is_no_more_often_than_the_caller_has_it(youngest: int, within: int) -> None:
    before = gc.get_threshold()
    gc.set_threshold(youngest, 7, 8)
    try:
        with pytest.raises(KeyError), seldom_collected():
            assert gc.get_threshold() == (within, 7, 8)
            raise KeyError
        assert gc.get_threshold() == (youngest, 7, 8)
    finally:
        gc.set_threshold(*before)
