"""Every example with its barrier operations changed, one at a time: what notices it.

    python benchmarks/kill_matrix.py [STRIDE [example ...]]

The mutants are those of `tests/verify/mutations.py` (each barrier instruction removed, doubled, moved, with another count, stage,
parity, predicate or CTA; of what is not a removal every STRIDE-th), and the removal of every other instruction that orders
something: fences, waits for copies and MMAs, releases. `static`: the PTX cannot be read, or the checker refuses the certificate
of the kernel as it was. `simulator`: the checker takes it, and the simulator reports a fault, with asynchronous work late or at
random. `result`: only the outputs differ. `neither`: nothing notices it.
"""

import multiprocessing
import re
import signal
import sys
import time
import zlib
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import common

TESTS = Path(__file__).resolve().parent.parent / "tests"
# `examples` is the folder of the tests, not the benchmark of that name.
sys.path[:1] = [str(TESTS), str(TESTS.parent)]

SECONDS = 60  # of processor time, for one mutant in the simulator
ORDERING = re.compile(
    r"\s+(@!?\S+\s+)?(fence\.|tcgen05\.(fence|wait)|wgmma\.(fence|commit_group|wait_group)|cp\.async\.(bulk\.)?(commit|wait)_group"
    r"|st\.release|ld\.acquire|griddepcontrol)"
)
NUMBER = re.compile(r"%[a-z]+\d+|\d{2,}")


def _ordering(text: str) -> Iterator[tuple[int, str, str]]:
    lines = text.split("\n")
    for number, line in enumerate(lines):
        if ORDERING.match(line):
            yield number + 1, "removed", "\n".join([*lines[:number], "", *lines[number + 1 :]])


def _kernel(given: tuple[str, str, int]) -> tuple[str, str, dict[str, Counter[str]], list[tuple[str, str, str]], list[str]]:
    from examples.catalogue import EXAMPLES
    from verify.mutations import kernel_text, mutants

    from pipec.driver import compile_source
    from pipec.protocol.judge import judge
    from pipec.source import Source

    file, name, stride = given
    path = EXAMPLES / file
    state = compile_source(Source(f"examples/{file}", path.read_text(encoding="utf-8")))
    plan = next(plan for plan in state.plans or [] if plan.kernel.name == name)
    text = kernel_text(state.ptx or "", name)
    certificate = judge(text, name).certificate
    rows: dict[str, Counter[str]] = {"barriers": Counter(), "order": Counter()}
    found: list[tuple[str, str, str]] = []
    chosen = [("barriers", one.line, one.change, one.text) for one in mutants(text)]
    chosen = [one for at, one in enumerate(chosen) if one[2] == "removed" or (at + zlib.crc32(name.encode())) % stride == 0]
    chosen += [("order", *one) for one in _ordering(text)]
    for kind, line, change, changed in chosen:
        said = _static(changed, name, certificate) or _simulated(plan, changed)
        rows[kind][said] += 1
        if said in ("result", "neither"):
            instruction = NUMBER.sub("..", text.split("\n")[line - 1].strip())
            found.append((said, change, f"{instruction[:90]} ({_place(text, line)})"))
    return file, name, rows, found, [] if certificate else ["open"]


def _place(text: str, line: int) -> str:
    """The role whose code the line is."""
    labels = re.findall(r"^(?:role_|\$?L__?)?(\w+):", "\n".join(text.split("\n")[:line]), re.MULTILINE)
    return labels[-1] if labels else "entry"


def _static(text: str, name: str, certificate: object) -> str:
    from pipec.verify.checker.check import check
    from pipec.verify.checker.configuration import Refused
    from pipec.verify.network import Unreadable
    from pipec.verify.reader.read import read

    try:
        network = read(text, name)
        if certificate is not None:
            check(network, certificate)  # type: ignore[arg-type]
    except (Unreadable, Refused):
        return "static"
    return ""


class _TooLong(Exception):
    pass


def _simulated(plan, text: str) -> str:  # type: ignore[no-untyped-def]
    from pipec.reference import shape_sets, trial_of
    from pipec.runtime import LaunchOptions, launch
    from pipec.sim import Options, SimulationError

    def stop(*_: object) -> None:
        raise _TooLong

    sets = [
        {name: float(value) if "." in value or "-" in value else int(value) for name, value in values.items()}
        for values in shape_sets(plan.kernel.document)
    ]
    # The smallest sizes that go round every ring more than once are the second of an example.
    values = sets[min(1, len(sets) - 1)] if sets else {}
    signal.signal(signal.SIGPROF, stop)
    signal.setitimer(signal.ITIMER_PROF, SECONDS)
    try:
        for timing in ("late", "random"):
            trial = trial_of(plan, values, seed=1)
            options = LaunchOptions(Options(timing=timing, seed=3))  # type: ignore[arg-type]
            launch(plan.interface, text, trial.arguments, device="sim", options=options)
            if not all(outcome.passed for outcome in trial.judged()):
                return "result"
    except SimulationError:
        return "simulator"
    except _TooLong:
        return "simulator"
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
    return "neither"


def _kernels(chosen: list[str]) -> Iterator[tuple[str, str]]:
    from examples.catalogue import EXAMPLES

    for path in sorted(EXAMPLES.glob("*.pipe")):
        if not chosen or path.stem in chosen:
            for name in re.findall(r"^kernel (\w+)", path.read_text(encoding="utf-8"), re.MULTILINE):
                yield path.name, name


def main() -> None:
    stride, started = int(sys.argv[1]) if len(sys.argv) > 1 else 1, time.perf_counter()
    kernels, survivors = {}, Counter[tuple[str, str, str]]()
    totals = {"barriers": Counter[str](), "order": Counter[str]()}
    with multiprocessing.Pool() as pool:
        for file, name, rows, found, open_ in pool.imap_unordered(_kernel, [(*one, stride) for one in _kernels(sys.argv[2:])]):
            kernels[f"{file.removesuffix('.pipe')}/{name}"] = {kind: dict(row) for kind, row in rows.items()} | dict.fromkeys(
                open_, True
            )
            for kind, row in rows.items():
                totals[kind] += row
            survivors.update(found)
            print(file, name, rows, open_, f"{time.perf_counter() - started:.0f} s", file=sys.stderr, flush=True)
    common.write(
        "kill_matrix",
        {
            "stride": stride,
            "seconds": round(time.perf_counter() - started, 1),
            "totals": {kind: dict(row) for kind, row in totals.items()},
            "kernels": dict(sorted(kernels.items())),
            "survivors": [
                {"noticed": said, "change": change, "instruction": instruction, "times": number}
                for (said, change, instruction), number in sorted(survivors.items())
            ],
        },
    )


if __name__ == "__main__":
    main()
