"""On an sm_90a GPU: candidates are measured, winners are kept, and calls take what was chosen for their sizes."""

import json
from pathlib import Path

import pytest
from gpu.gpus import needs_gpu

import pipec
from pipec.commands.cli import main
from pipec.tune.table import parsed

pytestmark = needs_gpu

GEMM = Path(__file__).parents[2] / "examples" / "gemm_sm90_persistent.pipe"


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "cache").mkdir(mode=0o700)
    monkeypatch.setenv("PIPEC_CACHE_DIR", str(tmp_path / "cache"))


@pytest.fixture
def torch():
    return pytest.importorskip("torch")


def operands(torch, m, n, k):
    a, b = (torch.randn(rows, k, device="cuda", dtype=torch.bfloat16) for rows in (m, n))
    return a, b, torch.full((m, n), float("nan"), device="cuda", dtype=torch.bfloat16)


def right(torch, a, b, d):
    wanted = a.double() @ b.double().T
    return float((d.double() - wanted).norm() / wanted.norm()) < 0.006


@pytest.mark.parametrize("sizes", [(1, 4096, 1024), (16, 520, 4096), (300, 777 // 8 * 8, 136), (4096, 4096, 512)], ids=str)
def test_a_call_that_was_not_tuned_is_right(torch, sizes):
    gemm = pipec.compile(GEMM)["gemm_sm90_persistent"]
    a, b, d = operands(torch, *sizes)
    for _ in range(2):
        d.fill_(float("nan"))
        gemm(a, b, d)
        assert right(torch, a, b, d)


def test_what_was_measured_is_taken_from_then_on(torch):
    gemm = pipec.compile(GEMM)["gemm_sm90_persistent"]
    a, b, d = operands(torch, 16, 4096, 4096)
    outcome = gemm.tune(a, b, d)
    assert outcome.winner != outcome.file and outcome.ratio.low > 1.1, "16 rows to a tile of 128: another one is far faster"
    assert not [reason for _, reason in outcome.dropped if "Error" in reason]
    for kernel in (gemm, pipec.compile(GEMM)["gemm_sm90_persistent"]):
        assert kernel.tuned.chosen({"M": 16, "N": 4096, "K": 4096}, _described(torch)).candidate == outcome.winner
        d.fill_(float("nan"))
        kernel(a, b, d)
        assert right(torch, a, b, d)


def _described(torch):
    from pipec.tune.gpu import describe

    return describe(torch.cuda.current_device())


def test_the_command_line_measures_and_adds_a_row(torch, tmp_path, capsys):
    table = tmp_path / "gemm.tiles"
    arguments = ["--shape", "M=512", "N=512", "K=512", "--device", "cuda", "--message-format", "json", "-o", str(table)]
    assert main(["tune", str(GEMM), *arguments]) == 0
    rows = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    (chosen,) = [row for row in rows if row["kind"] == "chosen"]
    (row,) = parsed(table.read_text())
    assert {name: str(value) for name, value in chosen["values"].items()} == dict(row.values)
    assert chosen["measured"] is True
