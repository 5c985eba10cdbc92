"""Takes waits, commits, arrivals, fences and barriers out of every example, changes announced bytes, and simulates what is left.

    python benchmarks/schedules.py [EXAMPLE ...]

Writes benchmarks/results/schedules.json and the table of docs/simulator.md: for each kind of change how many there are, how many a
plain run reports, how many only the schedules of `--timing explore`, and how many change nothing that any of them shows. The exit
status is 1 where a change gives a wrong result that nothing reports.
"""

import json
import re
import sys
from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path[:1] = [str(ROOT / "tests"), str(ROOT)]  # this folder has modules of the same names

from examples.catalogue import COMPARED_ELSEWHERE, Run, cases, compiled, runs

import pipec.sim.explore
from pipec.reference import trial_of
from pipec.runtime import LaunchOptions, launch
from pipec.sim import Options, SimulationError

RESULTS = ROOT / "benchmarks" / "results" / "schedules.json"
PAGE = ROOT / "docs" / "simulator.md"
HEAD = "| change | kernels | changes | reported in order | reported by a schedule | no effect | wrong and unreported |\n"
# The schedules that do not depend on the kernel: what takes the most time is left out.
pipec.sim.explore.RUNS = 6
# A change that makes a kernel wait for ever shall end soon.
STEPS = 2_000_000

_TEST = re.compile(r"mbarrier\.(?:try|test)_wait\S*\s+(%p\d+),")
_EXPECT = re.compile(r"(mbarrier\.arrive\.expect_tx\S*\s+\S+, \[[^\]]*\], )(\d+);")
_REMOVED = {
    "commit": re.compile(r"tcgen05\.commit|commit_group|cp\.async\.mbarrier\.arrive"),
    "arrival": re.compile(r"mbarrier\.arrive\.(?!expect_tx)"),
    "wait of a group": re.compile(r"wait_group|tcgen05\.wait|cp\.async\.wait"),
    "proxy fence": re.compile(r"fence\.proxy\.async"),
    "tcgen05 fence": re.compile(r"tcgen05\.fence"),
    "barrier of the CTA": re.compile(r"(?:bar|barrier)(?:\.cta)?\.sync"),
}


@dataclass(frozen=True)
class Change:
    kind: str
    line: int  # of the PTX, from 1
    text: str


def changes(ptx: str) -> Iterator[Change]:
    lines = ptx.split("\n")

    def changed(kind: str, index: int, *instead: str, over: int = 1) -> Change:
        return Change(
            kind, index + 1, "\n".join([*lines[:index], *instead, *[""] * (over - len(instead)), *lines[index + over :]])
        )

    for index, line in enumerate(lines):
        code = line.partition("//")[0]
        if found := _TEST.search(code):
            label = code[: code.index("mbarrier")]
            yield changed("wait for an mbarrier", index, f"{label}setp.eq.u32 {found[1]}, 0, 0;")
        elif found := _EXPECT.search(code):
            for difference in (-16, 16):
                yield changed("announced bytes", index, _EXPECT.sub(rf"\g<1>{int(found[2]) + difference};", line))
        elif "barrier.cluster.arrive" in code:
            end = next(number for number in range(index, len(lines)) if "barrier.cluster.wait" in lines[number])
            kept = [one for one in lines[index + 1 : end] if "barrier.cluster" not in one]
            yield changed("barrier of the cluster", index, *kept, over=end - index + 1)
        else:
            for kind, pattern in _REMOVED.items():
                if pattern.search(code) and not code.lstrip().startswith("."):
                    yield changed(kind, index, "")


def outcome(run: Run, ptx: str) -> str:
    """Of a changed kernel: "in order", "schedule", "wrong" or "nothing"."""
    for name, timing in (("in order", "order"), ("schedule", "explore")):
        trial = trial_of(run.plan, run.numbers, seed=1)
        options = LaunchOptions(Options(timing, step_limit=STEPS, trace=False))
        try:
            launch(run.plan.interface, ptx, trial.arguments, device="sim", options=options)
        except SimulationError:
            return name
        if not all(outcome.passed for outcome in trial.judged()):
            return "wrong"
    return "nothing"


def smallest(case_runs: list[Run]) -> list[Run]:
    """Of each kernel the run with the smallest sizes that computes anything."""
    found: dict[str, Run] = {}
    for run in sorted(case_runs, key=lambda run: prod(max(1, number) for number in run.numbers.values())):
        if all(number > 0 for number in run.numbers.values()):
            found.setdefault(run.kernel, run)
    return list(found.values())


def matrix(run: Run) -> dict[str, Any]:
    ptx = compiled(run.case).ptx or ""
    assert outcome(run, ptx) == "nothing", f"{run.name} is reported as it is"
    counts: dict[str, Counter[str]] = defaultdict(Counter)
    left = []
    for change in changes(ptx):
        found = outcome(run, change.text)
        counts[change.kind][found] += 1
        if found in ("nothing", "wrong"):
            instruction = ptx.split("\n")[change.line - 1].strip()
            left.append({"kind": change.kind, "line": change.line, "instruction": instruction, "outcome": found})
    return {"counts": counts, "left": left}


def table(rows: dict[str, Any]) -> str:
    kinds: dict[str, Counter[str]] = defaultdict(Counter)
    for row in rows.values():
        for kind, counts in row["counts"].items():
            kinds[kind] += Counter(counts)
            kinds[kind]["kernels"] += 1
    text = HEAD + "|---|---|---|---|---|---|---|\n"
    for kind, counts in sorted(kinds.items()):
        columns = [counts["in order"], counts["schedule"], counts["nothing"], counts["wrong"]]
        text += f"| {kind} | {counts['kernels']} | {sum(columns)} | {' | '.join(map(str, columns))} |\n"
    return text


def main() -> int:
    rows: dict[str, Any] = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
    chosen = [case for case in cases() if not case.constants and case.path.stem not in COMPARED_ELSEWHERE]
    for case in chosen:
        if sys.argv[1:] and case.path.stem not in sys.argv[1:]:
            continue
        for run in smallest(list(runs(case))):
            rows[f"{case.name}: {run.kernel}"] = row = matrix(run)
            RESULTS.write_text(json.dumps(rows, indent=1, sort_keys=True) + "\n", encoding="utf-8")
            print(case.name, run.kernel, {kind: dict(counts) for kind, counts in row["counts"].items()}, flush=True)
    page = PAGE.read_text(encoding="utf-8")
    start = page.index(HEAD)
    end = page.index("\n\n", start)
    PAGE.write_text(page[:start] + table(rows).rstrip("\n") + page[end:], encoding="utf-8")
    return int(any(one["outcome"] == "wrong" for row in rows.values() for one in row["left"]))


if __name__ == "__main__":
    raise SystemExit(main())
