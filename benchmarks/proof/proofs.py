"""What the proof costs of each example and each error case: processor time and steps, of the search, the reader and the checker.

    python benchmarks/proof/proofs.py [NAME ...]

A file counts as a whole, in process, after a compilation that is not counted. Steps are what the budget of the search counts.
"""

import statistics
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "tests"), str(ROOT)]

from diagnose import Options as Written

from benchmarks.common import write
from pipec.budgets import BUDGETS
from pipec.driver import STAGES, Compilation, Options
from pipec.garbage import uncollected
from pipec.protocol import judge, judgement, ways
from pipec.protocol.effort import steps_so_far
from pipec.source import Source

# What is to be reached, in processor seconds, of the stage as a whole.
GOALS = {"median": 0.005, "p99": 0.300}
PARTS = {"readings_of": judge, "prove": ways, "check": judgement, "refute": ways}  # and the modules that call them


@uncollected()
def figures(path: Path, options: Options) -> dict[str, Any] | None:
    """None where what comes before the proof reports something."""
    state = Compilation(Source(path.name, path.read_text(encoding="utf-8")), options)
    for name, stage in STAGES.items():
        if name == "prove":
            break
        stage(state)
        if state.sink.diagnostics:
            return None
    spent, before = dict.fromkeys(PARTS, 0.0), steps_so_far()
    kept = {name: getattr(caller, name) for name, caller in PARTS.items()}
    for name, work in kept.items():
        setattr(PARTS[name], name, _timed(name, work, spent))
    try:
        started = time.process_time()
        STAGES["prove"](state)
        took = time.process_time() - started
    finally:
        for name, work in kept.items():
            setattr(PARTS[name], name, work)
    parts = {name.removesuffix("ings_of"): round(seconds, 4) for name, seconds in spent.items()}
    said = " ".join(sorted({one.outcome for one in state.protocol.values()}))
    return {"seconds": round(took, 4), **parts, "steps": steps_so_far() - before, "said": said}


def _timed(name: str, work: Callable[..., Any], spent: dict[str, float]) -> Callable[..., Any]:
    def timed(*arguments: Any, **named: Any) -> Any:
        started = time.process_time()
        try:
            found = work(*arguments, **named)
        finally:
            spent[name] += time.process_time() - started
        return _each(name, found, spent) if name == "readings_of" else found

    return timed


def _each(name: str, found: Iterator[Any], spent: dict[str, float]) -> Iterator[Any]:
    """Readings are made as they are asked for."""
    while True:
        started = time.process_time()
        one = next(found, None)
        spent[name] += time.process_time() - started
        if one is None:
            return
        yield one


def _spread(rows: dict[str, dict[str, Any]], what: str) -> dict[str, float]:
    took = sorted(row[what] for row in rows.values())
    return {"median": statistics.median(took), "p99": took[round(0.99 * (len(took) - 1))], "most": took[-1]}


def main() -> None:
    examples = [(path, Options()) for path in sorted((ROOT / "examples").glob("*.pipe"))]
    cases = []
    for path in sorted((ROOT / "tests" / "errors").glob("*/*.pipe")):
        written = Written.of(path.read_text(encoding="utf-8"))
        cases.append((path, Options(written.arch, dict(written.constants))))
    asked = sys.argv[1:]
    rows: dict[str, dict[str, Any]] = {}
    figures(*examples[0])
    for path, options in (*examples, *cases):
        if asked and path.stem not in asked:
            continue
        if (found := figures(path, options)) is not None:
            rows[str(path.relative_to(ROOT))] = found
            print(f"{path.stem:32} {found}", file=sys.stderr, flush=True)
    reached = _spread(rows, "seconds")
    parts = {part: _spread(rows, part) for part in ("read", "prove", "check", "refute")}
    budget = BUDGETS["proof steps"].limit
    made = {"files": len(rows), "budget": budget, "seconds": reached, "parts": parts, "goals": GOALS, "rows": rows}
    if asked:
        print(reached)
    else:
        write("proofs", made)


if __name__ == "__main__":
    main()
