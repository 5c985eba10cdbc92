"""What `make test` leaves to `make whole`: a share of each family, never all of a kind, the same in every run and in every worker."""

from types import SimpleNamespace

import pytest
from samples import left_out as chosen
from samples import some, taken, volume


def family(name: str, share: float | None, kinds: dict[str, int], other: str = "other") -> list[SimpleNamespace]:
    """Tests with a mark (or without) whose parameter `one` has these values so many times, with as many values of another one."""
    mark = None if share is None else pytest.mark.sample(share, of="one").mark
    return [
        SimpleNamespace(
            nodeid=f"{name}[{kind}-{number}]",
            get_closest_marker=lambda _: mark,
            callspec=SimpleNamespace(params={"one": kind, other: number}),
        )
        for kind, count in kinds.items()
        for number in range(count)
    ]


@pytest.mark.parametrize("share", [0.01, 0.25, 0.5, 1.0])
@pytest.mark.parametrize("seed", ["1", "20260101"])
def test_a_sample_has_something_of_every_kind(share: float, seed: str) -> None:
    kinds = {"a": 1, "b": 7, "c": 40}
    items: list = [*family("f", share, kinds), *family("g", None, kinds)]
    left_out = [item.nodeid for item in chosen(items, seed)]
    assert left_out == [item.nodeid for item in chosen(items, seed)]
    assert len(set(left_out)) == len(left_out) and all(name.startswith("f[") for name in left_out)
    for kind, count in kinds.items():
        kept = count - sum(name.startswith(f"f[{kind}-") for name in left_out)
        assert kept == max(1, -int(-share * count // 1)), kind


def test_another_seed_takes_others() -> None:
    items = family("f", 0.5, {"a": 40})
    first, second = ([item.nodeid for item in chosen(items, seed)] for seed in ("1", "2"))
    assert sorted(first) != sorted(second) and len(first) == len(second) == 20


def test_a_third_of_the_timings_of_each_test() -> None:
    items: list = family("f", None, {"a": 3, "b": 4, "c": 2, "d": 1}, "timing")
    left_out = [item.callspec.params["one"] for item in chosen(items, "1")]
    assert {kind: left_out.count(kind) for kind in "abcd"} == {"a": 2, "b": 2, "c": 1, "d": 0}


def test_what_is_less_work_is_taken() -> None:
    items: list = family("f", 0.01, {"a": 9})
    for item, work in zip(items, (5, 3, 4, 1, 9, 2, 8, 7, 6), strict=True):
        item.callspec.params["one"] = SimpleNamespace(kind="a", work=work)
    (kept,) = {item.nodeid for item in items} - {item.nodeid for item in chosen(items, "1")}
    assert kept == items[3].nodeid


def test_values_that_many_tests_take(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("samples._whole", False)
    kept = some("f", range(9), 0.5)
    assert len(kept) == 5 and kept == sorted(kept) and kept == some("f", range(9), 0.5) != some("g", range(9), 0.5)
    assert some("f", [7], 0.01) == [7] and some("f", [], 0.5) == [] and volume(2, 9) == 2
    assert 150 < sum(taken("f", number, 0.2) for number in range(1000)) < 250
    monkeypatch.setattr("samples._whole", True)
    assert some("f", range(9), 0.5) == list(range(9)) and volume(2, 9) == 9 and taken("f", 0, 0.0)
