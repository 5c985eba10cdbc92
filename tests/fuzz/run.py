"""Runs the fuzzers: `python tests/fuzz/run.py --count 1000 --seed 20260101 [NAME ...]`, in as many processes as there are
processors.

A fuzzer is a file `fuzz_NAME.py` beside this one with a function `attempt(draw: random.Random) -> str | None`: it makes one
program from what it draws, tries it, and returns what went wrong, with the program, or None. An attempt follows from the seed and
its number alone, so `--first NUMBER --count 1` does one again. The exit status is 1 when anything went wrong.
"""

import argparse
import importlib
import multiprocessing
import multiprocessing.pool
import os
import random
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent), str(HERE.parent.parent)]

Attempt = Callable[[random.Random], str | None]


COUNT = 1000  # attempts of a fuzzer that does not say how many
CHUNK = 25  # attempts that a process is given at a time


def fuzzers() -> list[str]:
    return sorted(path.stem.removeprefix("fuzz_") for path in HERE.glob("fuzz_*.py"))


def count_of(name: str) -> int:
    return int(getattr(importlib.import_module(f"fuzz_{name}"), "COUNT", COUNT))


def failures(name: str, attempt: Attempt, seed: int, numbers: range) -> Iterator[tuple[int, str]]:
    """The attempts that went wrong, each with its number."""
    for number in numbers:
        wrong = attempt(random.Random(f"{name}/{seed}/{number}"))
        if wrong is not None:
            yield number, wrong


def _chunk(given: tuple[str, int, range]) -> tuple[int, list[tuple[int, str]]]:
    name, seed, numbers = given
    return len(numbers), list(failures(name, importlib.import_module(f"fuzz_{name}").attempt, seed, numbers))


def main() -> int:
    known = fuzzers()
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"which fuzzers (all): {', '.join(known)}")
    parser.add_argument("--count", type=int, help=f"attempts of each (what it says, or {COUNT})")
    parser.add_argument("--seed", type=int, default=int(time.strftime("%Y%m%d")), help="the date of today")
    parser.add_argument("--first", type=int, default=0, help="the number of the first attempt (0)")
    parser.add_argument("--workers", type=int, default=os.cpu_count() or 1, help="processes (one for each processor)")
    options = parser.parse_args()
    unknown = [name for name in options.names if name not in known]
    if unknown:
        parser.error(f"no fuzzer `{unknown[0]}`: there are {', '.join(known)}")
    total = 0
    with multiprocessing.Pool(options.workers) as pool:
        for name in options.names or known:
            total += _run(pool, name, options)
    return 1 if total else 0


def _run(pool: multiprocessing.pool.Pool, name: str, options: argparse.Namespace) -> int:
    """How many attempts of a fuzzer went wrong."""
    count = options.count if options.count is not None else count_of(name)
    started, found, done = time.monotonic(), 0, 0
    last = options.first + count
    chunks = [(name, options.seed, range(first, min(first + CHUNK, last))) for first in range(options.first, last, CHUNK)]
    for tried, wrong in pool.imap_unordered(_chunk, chunks):
        for number, told in wrong:
            print(f"--- {name}, --seed {options.seed} --first {number} --count 1\n{told}\n", flush=True)
        found, done = found + len(wrong), done + tried
        if done % 500 == 0:
            print(f"{name}: {done} of {count}", file=sys.stderr, flush=True)
    print(f"{name}: {count} attempts with seed {options.seed}, {found} wrong, {time.monotonic() - started:.0f} s", flush=True)
    return found


if __name__ == "__main__":
    raise SystemExit(main())
