"""Runs the fuzzers: `python tests/fuzz/run.py --count 1000 --seed 20260101 [NAME ...]`.

A fuzzer is a file `fuzz_NAME.py` beside this one with a function `attempt(draw: random.Random) -> str | None`: it makes one program from
what it draws, tries it, and returns what went wrong, with the program, or None. An attempt follows from the seed and its number alone, so
`--first NUMBER --count 1` does one again. The exit status is 1 when anything went wrong.
"""

import argparse
import importlib
import random
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent), str(HERE.parent.parent)]

Attempt = Callable[[random.Random], str | None]


def fuzzers() -> dict[str, Attempt]:
    names = sorted(path.stem.removeprefix("fuzz_") for path in HERE.glob("fuzz_*.py"))
    return {name: importlib.import_module(f"fuzz_{name}").attempt for name in names}


def failures(name: str, attempt: Attempt, seed: int, numbers: range) -> Iterator[tuple[int, str]]:
    """The attempts that went wrong, each with its number."""
    for number in numbers:
        wrong = attempt(random.Random(f"{name}/{seed}/{number}"))
        if wrong is not None:
            yield number, wrong
        if (number + 1) % 500 == 0:
            print(f"{name}: {number + 1 - numbers.start} of {len(numbers)}", file=sys.stderr, flush=True)


def main() -> int:
    known = fuzzers()
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"which fuzzers (all): {', '.join(known)}")
    parser.add_argument("--count", type=int, default=1000, help="attempts of each (1000)")
    parser.add_argument("--seed", type=int, default=int(time.strftime("%Y%m%d")), help="the date of today")
    parser.add_argument("--first", type=int, default=0, help="the number of the first attempt (0)")
    options = parser.parse_args()
    unknown = [name for name in options.names if name not in known]
    if unknown:
        parser.error(f"no fuzzer `{unknown[0]}`: there are {', '.join(known)}")
    total = 0
    for name in options.names or known:
        started, found = time.monotonic(), 0
        for number, wrong in failures(name, known[name], options.seed, range(options.first, options.first + options.count)):
            found += 1
            print(f"--- {name}, --seed {options.seed} --first {number} --count 1\n{wrong}\n", flush=True)
        print(
            f"{name}: {options.count} attempts with seed {options.seed}, {found} wrong, {time.monotonic() - started:.0f} s",
            flush=True,
        )
        total += found
    return 1 if total else 0


if __name__ == "__main__":
    raise SystemExit(main())
