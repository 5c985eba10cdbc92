"""Figures in README.md and docs/ are those of benchmarks/results: the tables are generated, and none is stale."""

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
sys.path.append(str(ROOT))

from benchmarks import tables
from benchmarks.gemm import h200

RECORD = tables.TABLES["gemm"][0] + ".json"


@pytest.mark.parametrize("name", tables.DOCUMENTS)
def test_tables_are_what_the_results_say(name: str) -> None:
    text = (ROOT / name).read_text(encoding="utf-8")
    assert tables.filled(text) == text, "run: python benchmarks/tables.py"


def test_every_table_is_in_a_document() -> None:
    text = "".join((ROOT / name).read_text(encoding="utf-8") for name in tables.DOCUMENTS)
    assert all(f"<!-- figures: {name} -->" in text for name in tables.TABLES)
    assert text.count("<!-- figures: ") == text.count("<!-- end of figures -->")


def test_commits_that_records_name_are_of_this_history() -> None:
    def git(*words: str) -> str:
        return subprocess.run(["git", *words], cwd=ROOT, capture_output=True, text=True, check=False).stdout.strip()

    if git("rev-parse", "--is-shallow-repository") != "false" or Path(git("rev-parse", "--show-toplevel")) != ROOT:
        pytest.skip("the history is not here")
    texts = {path: path.read_text(encoding="utf-8") for path in [*(ROOT / "docs").glob("*.md"), ROOT / "README.md"]}
    named = {
        (path.name, commit)
        for path, text in texts.items()
        for commit in re.findall(r"\b(?:commit|pipec|near) ([0-9a-f]{7,12})\b", text)
    }
    for path in (ROOT / "benchmarks" / "results").glob("*.json"):
        found = re.findall(r'"(?:commit|nearest|before)": "([0-9a-f]{7,40})"', path.read_text(encoding="utf-8"))
        named |= {(path.name, commit) for commit in found}
    every = git("rev-list", "HEAD").split()
    if len(every) < 1000:  # a copy of the files with a history of its own
        pytest.skip("the history is not here")
    assert named
    assert sorted(one for one in named if not any(commit.startswith(one[1]) for commit in every)) == []


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the record of a dry run that claims to be of a GPU."""
    folder = tmp_path_factory.mktemp("results")
    out = folder / RECORD
    shapes = ["--shapes", "512x512x512,1000x1000x1000,333x12296x776"]
    h200.main(["--dry-run", *shapes, "--rounds", "9", "--commit", "0123456789abcdef", "-o", str(out)])
    record = json.loads(out.read_text())
    record |= {"torch": "2", "triton": "3", "cublaslt": 1, "nvidia_smi": {"driver_version": "580"}}
    record["fresh"] = {"512x512x512": {"microseconds_per_call": {"torch": {"median": 12.3456}, "best": {"median": 9.0}}}}
    out.write_text(json.dumps(record))
    return folder


def test_a_table_follows_the_results(results: Path) -> None:
    record = json.loads((results / RECORD).read_text())
    text = tables.filled("a\n<!-- figures: gemm -->\nstale 1.22\n<!-- end of figures -->\nb\n", results)
    assert text.startswith("a\n<!-- figures: gemm -->\n") and text.endswith("<!-- end of figures -->\nb\n") and "1.22" not in text
    row = record["figures"]["512x512x512"]["columns"]["best"]["ratio"]
    (line,) = (line for line in text.splitlines() if line.startswith("| 512 x 512 x 512 |"))
    assert f"{row['median']:.2f} ({row['low']:.2f} to {row['high']:.2f})" in line
    assert text.count("\n| ") == len(record["figures"]) + 1 and "pipec 0123456789ab" in text


def test_the_summary_is_of_geometric_means(results: Path) -> None:
    record = json.loads((results / RECORD).read_text())
    ratios = [row["columns"]["best"]["ratio"]["median"] for row in record["figures"].values() if row["group"] == "odd"]
    product = 1.0
    for ratio in ratios:
        product *= ratio
    (line,) = (line for line in tables.rendered("gemm-summary", results).splitlines() if line.startswith("| odd"))
    assert f"| {product ** (1 / len(ratios)):.2f} ({min(ratios):.2f}) |" in line and f"| {len(ratios)} |" in line
    assert "12.35 us" in tables.rendered("gemm-fresh", results)


def test_without_results_a_table_says_so(tmp_path: Path) -> None:
    assert "Not measured yet" in tables.rendered("gemm", tmp_path)
