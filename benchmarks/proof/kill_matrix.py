"""Every example with its barrier operations changed, one at a time: what notices it.

    WORKERS=2 EACH=1 python benchmarks/proof/kill_matrix.py [EXAMPLE ...]

All changes of `tests/verify/mutations.py` to all kernels (each barrier instruction removed, doubled, moved, with another count,
number of bytes, stage, parity, predicate or CTA), and the removal of every other instruction that orders something: fences,
waits for copies and MMAs, releases. `not read` and `refused`: the text cannot be read, or the checker refuses the certificate
of the kernel as it was; that is `static`. What is accepted has a reason (`tests/verify/equivalents.py`), and a sample of it,
some of each reason and change, runs in the simulator at all sizes of the docstring with asynchronous work late, and at random at the
last: `simulator`, a fault is reported; `result`, only the outputs differ; `neither`, nothing is noticed; `unfinished`, it runs longer
than it may. Kernels whose docstring gives no sizes run only together
with another one, and are not simulated. With EACH=3 every removal and a third of the other changes are judged (`judged`, of
`changes`). The exit status is 1 where something is accepted without a reason. Rows of examples that are not named are kept.
"""

import json
import multiprocessing
import os
import random
import re
import signal
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
# `examples` is the folder of the tests, not the benchmark of that name.
sys.path[:1] = [str(ROOT / "tests"), str(ROOT)]

from benchmarks import common

RESULTS = ROOT / "benchmarks" / "results" / "kill_matrix.json"
SECONDS = 90  # of processor time, for one mutant in the simulator
SIMULATED = 3  # mutants of a kernel's barrier operations that are accepted
ORDERS = 2  # rounds over the opcodes of its fences and waits
ORDERING = re.compile(
    r"\s+(@!?\S+\s+)?(fence\.|tcgen05\.(fence|wait)|wgmma\.(fence|commit_group|wait_group)|cp\.async\.(bulk\.)?(commit|wait)_group"
    r"|st\.release|ld\.acquire|griddepcontrol)"
)
_OPCODE = re.compile(r"(?:@!?\S+\s+)?([a-z][\w.:]*)")
Group = tuple[str, str, str]  # opcode, change, reason


def _without_orders(text: str) -> Iterator[tuple[int, str, str]]:
    lines = text.split("\n")
    for number, line in enumerate(lines):
        if ORDERING.match(line):
            yield number + 1, "removed", "\n".join([*lines[:number], "", *lines[number + 1 :]])


def _kernel(given: tuple[str, str]) -> tuple[str, dict[str, object]]:
    from examples.catalogue import EXAMPLES
    from verify.mutations import Mutant, kernel_text, mutants

    from pipec.driver import compile_source
    from pipec.protocol.judge import judge
    from pipec.source import Source

    file, name = given
    state = compile_source(Source(f"examples/{file}", (EXAMPLES / file).read_text(encoding="utf-8")))
    plan = next(plan for plan in state.plans or [] if plan.kernel.name == name)
    text = kernel_text(state.ptx or "", name)
    found = judge(text, name)
    assert found.network is not None and found.certificate is not None, f"{file}, {name}: not proved"
    started = time.process_time()
    kinds = {"barriers": list(mutants(text)), "order": [Mutant(*one) for one in _without_orders(text)]}
    row: dict[str, object] = {
        kind: _judged(kind, plan, text, these, found.network, found.certificate) for kind, these in kinds.items()
    }
    return f"{file.removesuffix('.pipe')}/{name}", {**row, "seconds": round(time.process_time() - started, 1)}


def _judged(kind, plan, text, these, original, certificate) -> dict[str, object]:  # type: ignore[no-untyped-def]
    """How many changes the checker refuses, and what becomes of the others, by instruction, change and reason."""
    from verify.equivalents import judged, reason_for

    lines, counts = text.split("\n"), Counter[str]()
    each = int(os.environ.get("EACH", "1"))
    changes = len(these)
    these = [one for at, one in enumerate(these) if one.change == "removed" or (at + len(text)) % each == 0]
    groups: dict[Group, list[str]] = defaultdict(list)
    for mutant in these:
        outcome, network = judged(mutant, certificate)
        counts[outcome] += 1
        if network is not None and outcome == "accepted":
            instruction = lines[mutant.line - 1].strip()
            reason = reason_for(mutant, instruction, network, original) or ""
            opcode = _OPCODE.match(instruction)
            groups[opcode[1] if opcode else instruction, mutant.change, reason].append(mutant.text)
    seen: dict[Group, Counter[str]] = defaultdict(Counter)
    most = SIMULATED if kind == "barriers" else ORDERS * len(groups)
    for group, changed in _sample(groups, random.Random(f"{plan.kernel.name}, {kind}"), most) if _sizes(plan) else ():
        seen[group][_simulated(plan, changed)] += 1
    told = [
        {"instruction": group[0], "change": group[1], "reason": group[2], "times": len(groups[group]), **seen[group]}
        for group in sorted(groups)
    ]
    return {"changes": changes, "judged": len(these), **dict(sorted(counts.items())), "which": told}


def _sample(groups: dict[Group, list[str]], chosen: random.Random, most: int) -> Sequence[tuple[Group, str]]:
    """At most so many texts of the groups in turn, in another order for each kernel, those without a reason first."""
    order = chosen.sample(sorted(groups), len(groups))
    rest = {group: chosen.sample(groups[group], len(groups[group])) for group in sorted(order, key=lambda group: bool(group[2]))}
    found: list[tuple[Group, str]] = []
    while rest and len(found) < most:
        found += [(group, texts.pop()) for group, texts in rest.items()]
        rest = {group: texts for group, texts in rest.items() if texts}
    return found[:most]


class _TooLong(Exception):
    pass


def _sizes(plan) -> list[dict[str, float]]:  # type: ignore[no-untyped-def]
    """Those of the docstring; none if the kernel needs some and its docstring gives none."""
    from pipec.reference import shape_sets

    if not any(isinstance(size, str) for argument in plan.interface.arguments for size in getattr(argument, "shape", ())):
        return [{}]
    return [
        {name: float(value) if "." in value or "-" in value else int(value) for name, value in values.items()}
        for values in shape_sets(plan.kernel.document)
    ]


def _simulated(plan, text: str) -> str:  # type: ignore[no-untyped-def]
    from verify.mutations import declared

    from pipec.reference import trial_of
    from pipec.runtime import LaunchOptions, launch
    from pipec.sim import Options, SimulationError

    def stop(*_: object) -> None:
        raise _TooLong

    sets = _sizes(plan)
    signal.signal(signal.SIGPROF, stop)
    signal.setitimer(signal.ITIMER_PROF, SECONDS)
    try:
        # At the last sizes rings come round (tests/examples/test_rings.py).
        for timing, values in (*(("late", values) for values in sets), ("random", sets[-1])):
            trial = trial_of(plan, values, seed=1)
            options = LaunchOptions(Options(timing=timing, seed=3))  # type: ignore[arg-type]
            launch(plan.interface, declared(text), trial.arguments, device="sim", options=options)
            if not all(outcome.passed for outcome in trial.judged()):
                return "result"
    except SimulationError:
        return "simulator"
    except _TooLong:
        return "unfinished"
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
    return "neither"


def _kernels(chosen: list[str]) -> Iterator[tuple[str, str]]:
    from examples.catalogue import EXAMPLES

    for path in sorted(EXAMPLES.glob("*.pipe")):
        if not chosen or path.stem in chosen:
            for name in re.findall(r"^kernel (\w+)", path.read_text(encoding="utf-8"), re.MULTILINE):
                yield path.name, name


def _totals(kernels: dict[str, dict], kind: str) -> dict[str, int]:  # type: ignore[type-arg]
    sums = Counter[str]()
    for row in kernels.values():
        for name in ("changes", "not read", "refused", "accepted"):
            sums[name] += row[kind].get(name, 0)
        sums["judged"] += row[kind].get("judged", row[kind]["changes"])
        for group in row[kind]["which"]:
            for name in ("simulator", "result", "neither", "unfinished"):
                sums[name] += group.get(name, 0)
            sums["accepted without a reason"] += group["times"] if kind == "barriers" and not group["reason"] else 0
    return {"static": sums["not read"] + sums["refused"], **sums}


def _write(kernels: dict[str, dict]) -> dict[str, dict[str, int]]:  # type: ignore[type-arg]
    totals = {kind: _totals(kernels, kind) for kind in ("barriers", "order")}
    seconds = round(sum(row["seconds"] for row in kernels.values()))
    figures = {"processor seconds": seconds, "totals": totals, "kernels": dict(sorted(kernels.items()))}
    RESULTS.write_text(json.dumps(common.surroundings() | {"figures": figures}, indent=1) + "\n", encoding="utf-8")
    return totals


def main() -> int:
    kernels = json.loads(RESULTS.read_text(encoding="utf-8"))["figures"]["kernels"] if sys.argv[1:] and RESULTS.exists() else {}
    totals = {}
    with multiprocessing.Pool(int(os.environ.get("WORKERS", "0")) or None) as pool:
        for name, row in pool.imap_unordered(_kernel, list(_kernels(sys.argv[1:]))):
            kernels[name] = row
            print(name, {kind: _totals({name: row}, kind) for kind in ("barriers", "order")}, row["seconds"], flush=True)
            totals = _write(kernels)
    print(totals)
    return 1 if totals["barriers"]["accepted without a reason"] else 0


if __name__ == "__main__":
    raise SystemExit(main())
