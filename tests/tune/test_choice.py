"""Which candidate is chosen for which sizes."""

import re
from functools import partial
from pathlib import Path

import pytest
from samples import some

from pipec.api.files import read_source
from pipec.driver import Options, compile_source
from pipec.predict.counting import workload
from pipec.source import Source
from pipec.tune.choice import Candidate, Choices, Possible, Ranked, in_order
from pipec.tune.works import Works

EXAMPLE = Path(__file__).parents[2] / "examples" / "gemm_sm90_persistent.pipe"


def choices(text: str, **constants: object) -> Choices:
    state = compile_source(Source("k.pipe", text), Options(None, constants), until="analyse")
    assert not state.failed and state.trees, state.diagnostics
    return Choices(state, state.trees[0].name)


@pytest.fixture(scope="module")
def gemm() -> Choices:
    return choices(read_source(str(EXAMPLE)).text)


def sizes(m: int, n: int, k: int) -> dict[str, int]:
    return {"M": m, "N": n, "K": k}


def test_large_products_keep_the_tile_in_the_file(gemm: Choices) -> None:
    assert gemm.choose(sizes(8192, 8192, 8192)) == gemm.file


@pytest.mark.parametrize("size", [(512, 512, 512), (1024, 1024, 1024), (128, 8192, 8192), (16, 4096, 14336), (1, 28672, 4096)])
def test_where_there_are_few_tiles_smaller_ones_are_taken(gemm: Choices, size: tuple[int, int, int]) -> None:
    chosen = gemm.choose(sizes(*size)).constants
    assert chosen["BM"] * chosen["BN"] < 128 * 256  # type: ignore[operator]


@pytest.mark.parametrize("size", [(4096, 4096, 4096), (512, 512, 512), (2049, 4104, 1032), (64, 28672, 4096), (333, 12296, 776)])
def test_it_is_predicted_to_be_no_slower_than_the_file_and_passes_the_checks(gemm: Choices, size: tuple[int, int, int]) -> None:
    times = {one.candidate: one.prediction.seconds for one in gemm.ranked(sizes(*size))}
    chosen = gemm.choose(sizes(*size))
    assert times[chosen] <= times[gemm.file]
    assert gemm.refusal(chosen) == ()


@pytest.mark.parametrize("size", [(512, 512, 512), (4096, 4096, 4096), (300, 5000, 256), (8192, 8192, 8192)])
def test_candidates_that_are_not_predicted_in_full_change_no_choice(gemm: Choices, size: tuple[int, int, int]) -> None:
    """Those that would be slower at the nominal clock already."""
    asked: list[Candidate] = []
    possible = [
        Possible(one.candidate, one.least, partial(lambda one: asked.append(one.candidate) or one.estimate(), one))
        for one in gemm.possible(sizes(*size))
    ]
    whole = sorted((Ranked(one.candidate, one.estimate()) for one in possible), key=lambda one: one.prediction.seconds)
    assert all(one.least <= one.estimate().seconds * (1 + 1e-12) for one in possible)
    asked.clear()
    assert next(in_order(possible)) == whole[0] and len(asked) < len(possible)
    assert [*in_order(possible)] == gemm.ranked(sizes(*size)) == whole
    assert gemm.best_of(whole) == gemm.choose(sizes(*size))


def test_what_does_not_fit_is_refused_by_the_checks_with_a_reason(gemm: Choices) -> None:
    refused = {str(one): gemm.refusal(one) for one in gemm.candidates if "BM=256" in str(one) and "BN=256" in str(one)}
    assert refused and all(refused.values())
    assert {diagnostic.code[:3] for reasons in refused.values() for diagnostic in reasons} <= {"E07", "E05", "E08"}


def test_a_candidate_that_the_checks_refuse_is_never_chosen() -> None:
    """96 rows are no whole warpgroups: the model knows nothing of that."""
    text, count = re.subn(r"tune BM in \(.*?\)", "tune BM in (96, 160, 128)", read_source(str(EXAMPLE)).text)
    assert count == 1
    found = choices(text)
    assert any(found.refusal(one) for one in found.candidates)
    for m in (512, 1024, 4096):
        assert found.refusal(found.choose(sizes(m, m, m))) == ()


def test_what_is_set_from_outside_stays() -> None:
    found = choices(read_source(str(EXAMPLE)).text, BN=64)
    assert found.file.constants.keys() == {"BM", "STAGES", "BK"}
    assert "BN" not in found.choose(sizes(512, 512, 512)).constants


def test_a_kernel_that_tunes_nothing_has_the_values_in_the_file() -> None:
    text = "\n".join(line for line in read_source(str(EXAMPLE)).text.splitlines() if not line.strip().startswith("tune "))
    assert choices(text).candidates == (Candidate(()),)


def test_a_kernel_of_sizes_unknown_to_the_caller_can_be_ranked(gemm: Choices) -> None:
    assert len(gemm.ranked({})) > 10


def test_fewer_multiprocessors_may_want_another_tile(gemm: Choices) -> None:
    assert gemm.ranked(sizes(1024, 1024, 1024), 16)[0].candidate != gemm.ranked(sizes(1024, 1024, 1024), 132)[0].candidate


def kernels(found: Choices) -> int:
    """How many are typed."""
    return len({id(one.kernel) for one in found.typed.values()})


def test_candidates_that_differ_in_stages_alone_are_typed_once(gemm: Choices) -> None:
    assert kernels(gemm) == len({(one.constants["BM"], one.constants["BN"], one.constants["BK"]) for one in gemm.typed})
    assert kernels(gemm) < len(gemm.typed) / 2


@pytest.mark.parametrize(
    ("line", "other"),
    [
        ("cast[OUT](acc)", "cast[OUT](acc if STAGES > 3 else acc)"),  # the code may be another one
        ("stages=STAGES)", "stages=STAGES + 1)"),
        ("tiles = TileScheduler(", "comptime DEEP = STAGES\n    tiles = TileScheduler("),
    ],
)
def test_each_is_typed_where_the_number_of_stages_says_something_else(line: str, other: str) -> None:
    text = read_source(str(EXAMPLE)).text
    assert line in text
    found = choices(text.replace(line, other))
    assert kernels(found) == len(found.typed) > 80


TUNED = [path for path in sorted(EXAMPLE.parent.glob("*.pipe")) if "\n    tune " in path.read_text(encoding="utf-8")]


@pytest.mark.sample(0.4)
@pytest.mark.parametrize("path", TUNED, ids=lambda path: path.stem)
def test_whatever_the_checks_let_pass_is_proved(path: Path) -> None:
    """The proof comes after the choice, so that a candidate that is not decided would fail the call that it was chosen for."""
    found = choices(read_source(str(path)).text)
    for candidate in some(f"candidates of {path.stem}", found.candidates, 2 / len(found.candidates)):
        if not found.refusal(candidate):
            state = compile_source(found.source, Options(None, candidate.constants), until="prove")
            assert not state.diagnostics, (str(candidate), [str(one) for one in state.diagnostics])


@pytest.mark.sample(0.4)
@pytest.mark.parametrize("path", TUNED, ids=lambda path: path.stem)
def test_what_is_counted_of_a_candidate_is_that_of_its_own_kernel(path: Path) -> None:
    """Also where it was typed with another number of stages, and so holds fewer or more blocks at a time."""
    found = choices(read_source(str(path)).text)
    names = [name for name in ("M", "N", "K", "H", "S", "T")]
    for size in (96, 1000, 4096):
        given = dict.fromkeys(names, size)
        works = Works(given, 132)
        counted = {one: works.of(kernel) for one, kernel in found.typed.items()}
        for candidate in some(f"works of {path.stem} {size}", [*counted], min(1.0, 6 / len(counted))):
            state = compile_source(found.source, Options(None, candidate.constants), until="analyse")
            assert state.trees is not None
            assert counted[candidate] == workload(state.trees[0], given, 132)
