"""What `make test` leaves to `make whole`: a share of each family, never all of a kind, the same in every run and in every worker."""

import subprocess
from itertools import product
from pathlib import Path
from types import SimpleNamespace

import pytest
from hypothesis import core
from samples import left_out as chosen
from samples import number_of, numbers, seed_of_commit, some, taken, volume


def family(name: str, share: float | None, kinds: dict[str, int], other: str = "other") -> list[SimpleNamespace]:
    """Tests with a mark (or without) whose parameter `one` has these values so many times, with as many values of another one."""
    mark = None if share is None else pytest.mark.sample(share, of="one").mark
    return [
        SimpleNamespace(
            nodeid=f"{name}[{kind}-{number}]",
            get_closest_marker={"sample": mark}.get,
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


def combined(share: float, **parameters: list[object]) -> list[SimpleNamespace]:
    """All combinations of some values, with a mark."""
    marks = {"combinations": pytest.mark.combinations(share).mark}
    return [
        SimpleNamespace(
            nodeid=f"f[{values}]",
            get_closest_marker=marks.get,
            callspec=SimpleNamespace(params=dict(zip(parameters, values, strict=True))),
        )
        for values in product(*parameters.values())
    ]


@pytest.mark.parametrize("seed", "1234")
def test_every_value_of_every_parameter_is_among_the_combinations(seed: str) -> None:
    for share, few, most in ((0.01, 5, 9), (0.5, 20, 20)):
        items: list = combined(share, kind=["a", "b"], size=[1, 2, 3, 4, 5], there=[False, True, None, "so"])
        left = {item.nodeid for item in chosen(items, seed)}
        kept = [item.callspec.params for item in items if item.nodeid not in left]
        assert few <= len(kept) <= most
        assert [len({one[name] for one in kept}) for name in ("kind", "size", "there")] == [2, 5, 4]
    alone: list = combined(0.1, kind=["a", "b", "c"])
    assert list(chosen(alone, seed)) == []


def test_another_seed_takes_others() -> None:
    items = family("f", 0.5, {"a": 40})
    first, second = ([item.nodeid for item in chosen(items, seed)] for seed in ("1", "2"))
    assert sorted(first) != sorted(second) and len(first) == len(second) == 20


def test_a_third_of_the_timings_of_each_test() -> None:
    items: list = family("f", None, {"a": 3, "b": 4, "c": 2, "d": 1}, "timing")
    left_out = [item.callspec.params["one"] for item in chosen(items, "1")]
    assert {kind: left_out.count(kind) for kind in "abcd"} == {"a": 2, "b": 2, "c": 1, "d": 0}


def test_folders_of_kernels_take_a_share_of_each_family() -> None:
    for folder, count in (("protocol", 10), ("verify", 14), ("golden", 40), ("", 40)):
        items: list = family(f"tests/{folder}/test_some.py::f", None, {"a": 20, "b": 20})
        assert len(items) - len([*chosen(items, "1")]) == count, folder
        marked: list = family(f"tests/{folder}/test_some.py::f", 0.1, {"a": 20, "b": 20})
        assert len(marked) - len([*chosen(marked, "1")]) == 4, folder


def test_what_is_less_work_is_taken() -> None:
    items: list = family("f", 0.01, {"a": 9})
    for item, work in zip(items, (5, 3, 4, 1, 9, 2, 8, 7, 6), strict=True):
        item.callspec.params["one"] = SimpleNamespace(kind="a", work=work)
    (kept,) = {item.nodeid for item in items} - {item.nodeid for item in chosen(items, "1")}
    assert kept == items[3].nodeid


def test_values_that_many_tests_take(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("samples._whole", False)
    kept = some("f", range(9), 0.5)
    assert len(kept) == 5 and kept == sorted(kept) and kept == some("f", range(9), 0.5)
    assert any(kept != some(name, range(9), 0.5) for name in "ghijkl"), "each commit draws anew, and two may draw alike"
    assert some("any text", ["\udcff"], 0.5) == ["\udcff"]
    assert some("f", [7], 0.01) == [7] and some("f", [], 0.5) == [] and volume(2, 9) == 2
    assert 150 < sum(taken("f", number, 0.2) for number in range(1000)) < 250
    monkeypatch.setattr("samples._whole", True)
    assert some("f", range(9), 0.5) == list(range(9)) and volume(2, 9) == 9 and taken("f", 0, 0.0)


def test_numbers_of_what_a_test_draws(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("samples._whole", False)
    drawn = []
    for seed in "123":
        monkeypatch.setattr("samples._seed", seed)
        drawn.append(numbers("f", 4, 30))
    assert all(len(set(one)) == 4 and set(one) < set(range(30)) for one in drawn) and drawn[0] != drawn[1] != drawn[2]
    monkeypatch.setattr("samples._whole", True)
    assert numbers("f", 4, 30) == list(range(30))


def test_each_commit_takes_others(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("samples.__file__", str(tmp_path / "samples.py"))
    assert seed_of_commit() == "1"
    seeds = []
    for command in ("init -q", "commit -q --allow-empty -m one", "commit -q --allow-empty -m two"):
        who = ["-c", "user.name=somebody", "-c", "user.email=somebody@example.org", "-c", "commit.gpgsign=false"]
        subprocess.run(["git", "-C", str(tmp_path), *who, *command.split()], check=True)
        seeds.append(seed_of_commit())
    assert seeds[0] == "1" and len(set(seeds)) == 3 and seeds[2] == seed_of_commit()


def test_hypothesis_draws_by_the_seed_of_the_commit(request: pytest.FixtureRequest) -> None:
    assert core.global_force_seed == number_of(request.config.getoption("--sample-seed")) != number_of("another")
