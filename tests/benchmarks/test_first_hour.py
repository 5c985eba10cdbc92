"""benchmarks/gpu/first_hour.py: every step runs without a GPU, and what goes wrong in one is told without stopping the others."""

import json
import re
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from benchmarks.gpu import first_hour
from benchmarks.gpu.first_hour import STEPS, Setting, StepFailed, answer_in, judged, main, outcome_of_both, run_here, run_step

ROOT = Path(__file__).parents[2]


def test_every_step_runs_dry(capsys: pytest.CaptureFixture[str]) -> None:
    """Each in a process of its own, as on a GPU."""
    steps = [name for name in STEPS if name != "examples"]  # the longest, which the next test runs
    assert main(["--dry", "--arch", "sm_90a", "--only", ",".join(steps)]) == 0
    said = capsys.readouterr().out.splitlines()
    assert [line.split()[:2] for line in said] == [[name, "fine"] for name in steps]


def test_what_the_steps_find() -> None:
    setting = Setting.of("sm_100a", True)
    found = {name: step.run(setting) for name, step in STEPS.items()}
    clusters = found["clusters"]
    assert clusters["2x1"]["shared_bytes"] > 100_000 and list(clusters) == ["2x1", "2x2"]
    assert found["graph"] == {"launches": 1, "right": True}
    assert found["examples"] == {"copy_tma": "fine"}


def test_a_process_that_dies_and_one_that_does_not_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    program = tmp_path / "dies.py"
    program.write_text("import sys, os\nprint('last words', file=sys.stderr, flush=True)\nos._exit(3)\n")
    monkeypatch.setattr(first_hour, "__file__", str(program))
    row = run_step("device", Setting.of("sm_100a", True))
    assert row["failed"] == "it ended with status 3" and row["output"] == ["last words"]
    assert main(["--dry", "--only", "device,tests"]) == 1
    assert capsys.readouterr().out.count("it ended with status 3") == 2  # the second step ran all the same
    program.write_text("import time\ntime.sleep(60)\n")
    monkeypatch.setitem(STEPS, "device", replace(STEPS["device"], seconds=1))
    assert run_step("device", Setting.of("sm_100a", True))["failed"] == "no end in 1 seconds"


def test_a_failing_step_reports_what_it_knows(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    def failing(setting: Setting) -> dict[str, object]:
        raise StepFailed("replay 7 computed something else", {"launches": 7000})

    monkeypatch.setitem(STEPS, "graph", replace(STEPS["graph"], run=failing))
    assert run_here("graph", Setting.of("sm_100a", True)) == 1
    assert answer_in(capsys.readouterr().out) == {"failed": "replay 7 computed something else", "figures": {"launches": 7000}}
    assert answer_in("nothing of it\n") is None
    with pytest.raises(StepFailed, match="1 of 2 failed: b"):
        judged({"a": "fine", "b": "no end in 300 seconds"})
    with pytest.raises(StepFailed, match="0 of 0"):
        judged({})


@pytest.mark.parametrize(
    ("fails", "outcome"),
    [("None", "fine"), ("True", "watchdog: with"), ("False", "plain: without"), ("'both'", "watchdog: with")],
)
def test_both_builds_run(fails: str, outcome: str) -> None:
    """The one without a watchdog only after the other: a hang there is not told, and takes the time limit."""
    program = f"import sys; bounded = '--watchdog=5' in sys.argv; fails = {fails}; "
    program += "sys.exit(('with' if bounded else 'without') if fails in (bounded, 'both') else 0)"
    assert outcome_of_both([sys.executable, "-c", program]) == outcome


def test_wrong_steps_are_refused() -> None:
    with pytest.raises(SystemExit) as left:
        main(["--only", "nothing"])
    assert left.value.code == 2


def test_the_document_names_every_step() -> None:
    text = (ROOT / "docs" / "blackwell.md").read_text(encoding="utf-8")
    assert re.findall(r"^\| `(\w+)` \|", text, re.MULTILINE) == list(STEPS)


def test_a_dry_run_writes_no_record(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(first_hour, "RESULTS", tmp_path)
    assert main(["--dry", "--only", "tests"]) == 0 and list(tmp_path.iterdir()) == []
    answer = tmp_path / "answers.py"
    answer.write_text("print('answer: {\"figures\": {}}')\n")
    monkeypatch.setattr(first_hour, "__file__", str(answer))
    assert main(["--only", "tests"]) == 0
    assert json.loads((tmp_path / "first_hour.json").read_text())["figures"]["tests"]["figures"] == {}
