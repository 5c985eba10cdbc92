"""Random kernels that pipec accepts, run on a GPU: none may wait for ever or compute anything else than NumPy does.

    python benchmarks/gpu/random_kernels.py [--seconds 120] [--workers 12] [--seed 1] [--device cuda|sim] [--name random_kernels]

The generators are those of tests/fuzz, whose other judges are the simulator and a model of tokens. Each accepted kernel is launched REPEATS
times at each of its sizes, with arrays of its own, and what it stores is compared bit for bit with what NumPy computes, for `hand_overs`
with what the simulator stores. The builds have no watchdog: a launch that takes longer than PATIENCE counts as one that never ends, and
ends its process. Processes share the GPU, so blocks of different kernels run beside each other.
"""

import argparse
import json
import os
import random
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT), str(ROOT / "tests"), str(ROOT / "tests" / "fuzz")]

from fuzz import (
    dealt_kernels,
    fuzz_protocol,
    global_kernels,
    hand_over_kernels,
    mover_kernels,
    protocol_judge,
    protocol_kernels,
    protocol_text,
    variable_kernels,
    wgmma_kernels,
)
from fuzz.stand_ins import TooLong

from benchmarks.common import RESULTS, surroundings
from pipec.driver import Compilation, Options, compile_source
from pipec.runtime import ArgumentError, launch
from pipec.source import Source

ARCH = "sm_90a"
REPEATS = 4
PATIENCE = 30.0  # seconds; a launch takes milliseconds
Arrays = dict[str, Any]


@dataclass(frozen=True)
class Drawn:
    """`sizes`: what the kernel is given, made anew by each call, and what must be stored, or None where only the simulator knows."""

    source: str
    sizes: tuple[tuple[Callable[[], Arrays], Callable[[], Mapping[str, np.ndarray] | None]], ...]
    arch: str = ARCH


def of_programs(module: Any, sizes: tuple[Any, ...]) -> Callable[[random.Random], Drawn]:
    """Of a generator whose programs say for each size what they are given and what they store."""

    def draw(chance: random.Random) -> Drawn:
        program = module.draw(chance)

        def at(size: Any) -> tuple[Callable[[], Arrays], Callable[[], Mapping[str, np.ndarray]]]:
            def expected() -> Mapping[str, np.ndarray]:
                stored = program.expected(size)
                return stored if isinstance(stored, dict) else dict(zip("yz", stored, strict=True))

            return lambda: program.arguments(size), expected

        return Drawn(program.source, tuple(at(size) for size in sizes), getattr(program, "arch", ARCH))

    return draw


def of_movers(chance: random.Random) -> Drawn:
    drawn = mover_kernels.draw(chance)
    return Drawn(
        drawn.source(),
        (
            (
                lambda: {**mover_kernels.start(), "n": mover_kernels.TRIPS},
                lambda: {name: drawn.expected(mover_kernels.start())[name] for name in mover_kernels.TENSORS},
            ),
        ),
    )


def of_steps(chance: random.Random) -> Drawn:
    case = chance.choice((global_kernels.draw, global_kernels.draw_grid))(chance)
    return Drawn(case.source(), ((global_kernels.start, lambda: case.expected(global_kernels.start())),))


def of_variables(chance: random.Random) -> Drawn:
    program, seed = variable_kernels.draw(chance), chance.randrange(1000)

    def at(sizes: Mapping[str, int]) -> tuple[Callable[[], Arrays], Callable[[], Mapping[str, np.ndarray]]]:
        return (
            lambda: variable_kernels.arguments(seed, sizes),
            lambda: program.expected(variable_kernels.arguments(seed, sizes)),
        )

    return Drawn(program.source, tuple(at(sizes) for sizes in variable_kernels.SIZES))


def of_hand_overs(chance: random.Random) -> Drawn:
    text, roles = hand_over_kernels.draw(chance)

    def at(turns: int) -> tuple[Callable[[], Arrays], Callable[[], None]]:
        return lambda: hand_over_kernels.arguments(roles, turns), lambda: None

    return Drawn(text, tuple(at(turns) for turns in hand_over_kernels.TURNS))


def of_protocols(chance: random.Random) -> Drawn:
    """Half of them with a fault planted; those that are proved nevertheless are right."""
    kernel = fuzz_protocol.kernel(chance)
    bodies = protocol_text.bodies_of(kernel)

    def at(sizes: Mapping[str, int]) -> tuple[Callable[[], Arrays], Callable[[], Mapping[str, np.ndarray]]]:
        def expected() -> Mapping[str, np.ndarray]:
            return protocol_judge.expected(kernel, bodies, sizes)

        return lambda: protocol_judge.arguments(kernel, sizes), expected

    return Drawn(protocol_text.source_of(kernel), tuple(at(sizes) for sizes in protocol_kernels.SIZES), kernel.arch)


FAMILIES: dict[str, Callable[[random.Random], Drawn]] = {
    "protocols": of_protocols,
    "movers": of_movers,
    "steps": of_steps,
    "hand_overs": of_hand_overs,
    "variables": of_variables,
    "dealt": of_programs(dealt_kernels, dealt_kernels.TURNS),
    "wgmma": of_programs(wgmma_kernels, wgmma_kernels.TURNS),
}


# -------------------------------------------------------------------------------------------------------------- one kernel


class Patience:
    """Ends the process, with a word of what it waited for, where a launch does not end."""

    def __init__(self, told: Mapping[str, Any]) -> None:
        self.timer = threading.Timer(PATIENCE, self._give_up, (told,))

    def _give_up(self, told: Mapping[str, Any]) -> None:
        print(json.dumps({**told, "outcome": "never ended"}), flush=True)
        os._exit(3)

    def __enter__(self) -> None:
        self.timer.start()

    def __exit__(self, *_: object) -> None:
        self.timer.cancel()


def tried(drawn: Drawn, device: str, told: dict[str, Any]) -> dict[str, Any]:
    """What became of one kernel: refused, something taken for granted, right after so many launches, or what was wrong."""
    state = compile_source(Source("k.pipe", drawn.source), Options(ARCH))
    if state.failed or state.plans is None or state.ptx is None:
        return {"outcome": "refused"}
    if any(found.assumed for found in state.findings.values()):
        return {"outcome": "assumed"}  # what is taken for granted need not hold of random places
    launches = 0
    for number, (arguments, expected) in enumerate(drawn.sizes):
        try:
            wanted = expected()
        except TooLong:
            continue
        for _ in range(REPEATS):
            given = arguments()
            try:
                with Patience({**told, "size": number, "source": drawn.source}):
                    launch(state.plans[0].interface, state.ptx, given, device=device)
            except ArgumentError:
                break  # sizes that the proof leaves out
            launches += 1
            wanted = simulated(state, arguments()) if wanted is None else wanted
            if wrong := [name for name, value in wanted.items() if not np.array_equal(given[name], value)]:
                return {"outcome": "differs", "tensors": wrong, "size": number, "source": drawn.source}
    return {"outcome": "right", "launches": launches}


def simulated(state: Compilation, given: Arrays) -> Mapping[str, np.ndarray]:
    assert state.plans is not None and state.ptx is not None
    launch(state.plans[0].interface, state.ptx, given, device="sim")
    return {name: value for name, value in given.items() if isinstance(value, np.ndarray)}


# ------------------------------------------------------------------------------------------------------------------ all


def work(options: argparse.Namespace) -> None:
    """Tries kernels until the time is over, and prints a line for each."""
    end, number = time.monotonic() + options.seconds, options.first
    while time.monotonic() < end:
        for family in options.families.split(","):
            told = {"family": family, "number": number}
            chance = random.Random(f"{family}/{options.seed}/{number}")
            drawn = next(one for one in iter(lambda: FAMILIES[family](chance), None) if one.arch == ARCH)  # noqa: B023 - used at once
            try:
                print(json.dumps({**told, **tried(drawn, options.device, told)}), flush=True)
            except Exception as error:  # noqa: BLE001 - whatever it is, it is the outcome of this kernel
                print(json.dumps({**told, "outcome": f"{type(error).__name__}: {error}", "source": drawn.source}), flush=True)
        number += 1


def lines_of(options: argparse.Namespace, worker: int) -> Iterator[dict[str, Any]]:
    """The lines of one worker, which is started again behind a kernel that never ended."""
    end, first = time.monotonic() + options.seconds, worker * 1_000_000
    while (left := end - time.monotonic()) > 0:
        command = [sys.executable, __file__, "--work", "--seconds", str(left), "--first", str(first), "--seed", str(options.seed)]
        command += ["--device", options.device, "--families", options.families]
        gpus = os.environ.get("CUDA_VISIBLE_DEVICES", "0").split(",")
        environment = os.environ | {"CUDA_VISIBLE_DEVICES": gpus[worker % len(gpus)], "OMP_NUM_THREADS": "1"}
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment) as process:
            assert process.stdout is not None
            for text in process.stdout:
                line = json.loads(text)
                first = line["number"] + 1
                yield line
        if process.returncode == 0:
            return


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=120)
    parser.add_argument("--workers", type=int, default=12)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--families", default=",".join(FAMILIES))
    parser.add_argument("--device", default="cuda", choices=("cuda", "sim"))
    parser.add_argument("--name", default="random_kernels")
    parser.add_argument("--work", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--first", type=int, default=0, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.work:
        work(options)
        return
    counts: dict[str, Counter[str]] = {family: Counter() for family in options.families.split(",")}
    wrong: list[dict[str, Any]] = []

    def collect(worker: int) -> None:
        for line in lines_of(options, worker):
            counts[line["family"]]["drawn"] += 1
            counts[line["family"]]["launches"] += line.get("launches", 0)
            if line["outcome"] in ("refused", "assumed", "right"):
                counts[line["family"]][line["outcome"]] += 1
            else:
                counts[line["family"]]["wrong"] += 1
                wrong.append(line)

    threads = [threading.Thread(target=collect, args=(worker,)) for worker in range(options.workers)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    figures = {"device": options.device, "seed": options.seed, "families": counts, "wrong": wrong}
    (RESULTS / f"{options.name}.json").write_text(
        json.dumps(surroundings() | {"gpu": gpu(options)} | {"figures": figures}, indent=1) + "\n"
    )
    for family, row in counts.items():
        print(f"{family:12} " + "  ".join(f"{name} {count}" for name, count in row.items()))
    for line in wrong[:5]:
        print(json.dumps(line)[:3000])


def gpu(options: argparse.Namespace) -> str:
    if options.device != "cuda":
        return ""
    command = ["nvidia-smi", "--query-gpu=name,driver_version", "--format=csv,noheader"]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()


if __name__ == "__main__":
    main()
