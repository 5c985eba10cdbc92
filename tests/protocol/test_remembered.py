"""That nothing was found of a text is remembered; nothing else is."""

from pathlib import Path

import pytest

from pipec.budgets import BUDGETS
from pipec.driver import Compilation, Options, compile_source
from pipec.protocol import remembered
from pipec.protocol.reporting import explain
from pipec.record import replace
from pipec.source import Source

# Each role adds up what memory holds in words of its own.
OPEN = """kernel k(x: tensor[i32, N], n: i32):
    grid(1)
    p = ProducerConsumerPipeline(stages=2)
    role a(warps=1) produces p:
        i = 0
        while i * i < n + BIAS:
            p.producer_signal_and_step()
            i += 1
    role b(warps=1) consumes p:
        j = 0
        while j * j + BIAS < n + 2 * BIAS:
            p.consumer_signal_and_step()
            j += 1
"""
RIGHT = OPEN.replace("i * i < n + BIAS", "i < n").replace("j * j + BIAS < n + 2 * BIAS", "j < n")
WRONG = RIGHT.replace("j < n", "j < n + 1")


@pytest.fixture(autouse=True)
def cached(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    monkeypatch.setenv("PIPEC_CACHE_DIR", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.fixture
def searches(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The texts that were searched."""
    found: list[str] = []
    judge = explain.judge

    def counted(ptx: str, *rest: object) -> object:
        found.append(ptx)
        return judge(ptx, *rest)  # type: ignore[arg-type]

    monkeypatch.setattr(explain, "judge", counted)
    return found


def compiled(text: str, *, allow: bool = True, remembers: bool = True, bias: int = 3) -> Compilation:
    source = Source("k.pipe", text.replace("BIAS", str(bias)))
    return compile_source(source, Options(allow_undecided=allow, remembers=remembers))


def entries(cache: Path) -> list[Path]:
    return sorted(cache.glob("*.open"))


def test_an_undecided_kernel_is_searched_once(searches: list[str]) -> None:
    first, second = compiled(OPEN), compiled(OPEN)
    assert len(searches) == 1
    assert not first.failed and not second.failed and first.ptx == second.ptx
    assert first.protocol == second.protocol and first.protocol["k"].outcome == "open"
    compiled(OPEN, bias=4)
    assert len(searches) == 2, "another text"


def test_whoever_is_refused_first_need_not_wait_again(searches: list[str]) -> None:
    """The message says where the search has stopped, so that a kernel that is not allowed is searched each time."""
    assert [one.code for one in compiled(OPEN, allow=False).diagnostics] == ["E0604"]
    assert [one.code for one in compiled(OPEN, allow=False).diagnostics] == ["E0604"]
    assert len(searches) == 2
    assert compiled(OPEN).protocol["k"].outcome == "open" and len(searches) == 2


def test_what_is_proved_or_refuted_is_not_remembered(cached: Path) -> None:
    assert compiled(RIGHT).protocol["k"].outcome == "proved"
    assert [one.code for one in compiled(WRONG).diagnostics] == ["E0601"]
    assert entries(cached) == []


def test_only_whoever_asks_has_it_remembered(cached: Path, searches: list[str]) -> None:
    compiled(OPEN, remembers=False)
    assert entries(cached) == []
    compiled(OPEN)
    compiled(OPEN, remembers=False)
    assert len(entries(cached)) == 1 and len(searches) == 3


def test_another_search_is_asked_again(monkeypatch: pytest.MonkeyPatch, searches: list[str]) -> None:
    compiled(OPEN)
    monkeypatch.setitem(BUDGETS, "proof steps", replace(BUDGETS["proof steps"], limit=1_400_000))
    compiled(OPEN)
    assert len(searches) == 2
    monkeypatch.setattr(remembered, "_search", lambda: "other rules")
    compiled(OPEN)
    assert len(searches) == 3


def test_a_damaged_entry_is_ignored(cached: Path, searches: list[str]) -> None:
    compiled(OPEN)
    (entry,) = entries(cached)
    entry.write_bytes(entry.read_bytes()[:-1] + b"?")
    assert compiled(OPEN).protocol["k"].outcome == "open" and len(searches) == 2
