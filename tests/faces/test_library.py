"""`library:gemm` on the command line: the same choice as in Python."""

import json

import pytest

import pipec
from pipec import library
from pipec.api.choosing import _Alternative
from pipec.commands.cli import main

Capture = pytest.CaptureFixture[str]

SIZES = ["M=64", "N=4096", "K=4096"]


def chosen() -> dict[str, object]:
    tuned = library.gemm("sm_90a").tuned
    assert tuned is not None
    return tuned.choices.choose({"M": 64, "N": 4096, "K": 4096}).constants


def test_predict_reports_the_choice_and_its_time(capsys: Capture) -> None:
    assert main(["predict", "library:gemm", "--arch", "sm_90a", "--shape", *SIZES, "--format", "json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["chosen"] == chosen()
    (kernel,) = told["kernels"]
    assert str(told["chosen"]["kernel"]).partition(".")[0] == kernel["name"]
    assert kernel["seconds"] == library.gemm("sm_90a").predict(M=64, N=4096, K=4096).seconds
    assert main(["predict", "library:gemm", "--device", "h200", "--shape", *SIZES]) == 0
    first, second, *_ = capsys.readouterr().out.splitlines()
    assert first.startswith(f"library:gemm chooses kernel={told['chosen']['kernel']}") and " on an H200 at " in second


def test_predict_reports_all_kernels_that_run_in_turn(capsys: Capture) -> None:
    sizes = {"M": 128, "N": 128, "K": 65536}
    shape = [f"{name}={size}" for name, size in sizes.items()]
    assert main(["predict", "library:gemm", "--arch", "sm_90a", "--shape", *shape, "--format", "json"]) == 0
    kernels = json.loads(capsys.readouterr().out)["kernels"]
    assert [one["name"] for one in kernels] == ["add_products", "round_sums"]
    assert sum(one["seconds"] for one in kernels) == pytest.approx(library.gemm("sm_90a").predict(**sizes).seconds)


def test_tune_ranks_the_candidates_of_all_kernels(capsys: Capture) -> None:
    assert main(["tune", "library:gemm", "--arch", "sm_90a", "--shape", *SIZES, "--device", "model"]) == 0
    head, *_, last = capsys.readouterr().out.splitlines()
    assert head.startswith("gemm for M=64 N=4096 K=4096: 413 candidates")
    assert last.split()[1:] == [f"{name}={value}" for name, value in chosen().items()]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["predict", "library:conv"], "`FILE` must be library:gemm, not `library:conv`"),
        (["predict", "library:gemm", "--kernel", "gemm"], "`--kernel` must be left out with library:gemm"),
        (["tune", "library:gemm", "-D", "BM=64"], "`-D` must be `dtype=...` with library:gemm, not `BM`"),
        (["predict", "library:gemm", "--arch", "sm_90a", "-D", "dtype=f64"], "`dtype` must be bf16 or f16 or e4m3"),
        (["predict", "library:gemm", "--arch", "sm_100a", "--device", "h200"], "E029"),
        (["predict", "library:gemm", "--arch", "sm_90a", "--shape", "M=64"], "no size of `K`, `N` is given for `gemm_sm90`"),
    ],
)
def test_what_there_is_not_is_refused(arguments: list[str], said: str, capsys: Capture) -> None:
    shape = [] if "--shape" in arguments else ["--shape", *SIZES]
    assert main([*arguments, *shape]) == 1
    assert said in capsys.readouterr().err


@pytest.mark.parametrize(("arch", "dtype"), [(arch, dtype) for arch in library.GEMM for dtype in library._OPERANDS[arch]])
def test_all_its_kernels_answer_the_same_calls(arch: str, dtype: str) -> None:
    """They are planned, and compared with the first, when they are called for the first time."""
    first, *others = library.GEMM[arch]
    operands = library._OPERANDS[arch][dtype]
    program = pipec.compile(library._path(first), arch=arch, constants={**first.constants, **operands})
    for entry in others:
        steps = library._planned(entry, arch, {**entry.constants, **operands})
        alternative = _Alternative(steps, program[first.kernels[0]], frozenset({"sums"}))
        assert set(alternative.scratch) == ({"sums"} if len(steps) > 1 else set())
