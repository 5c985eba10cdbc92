"""The networks that are read of the examples, the error cases and random kernels, a line each: a change of how PTX is read changes none.

python benchmarks/proof/networks.py > AFTER        # and in a checkout of the state before; the two files are equal
"""

import random
import sys
from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "tests"), str(ROOT)]

from diagnose import Options as Written
from fuzz.fuzz_ptx import text

from pipec.driver import STAGES, Compilation, Options
from pipec.source import Source
from pipec.verify.network import Unreadable
from pipec.verify.reader.read import reading_of
from pipec.verify.reader.values.interpretation import LIMITS, Interpretation

RANDOM = 400


def texts() -> Iterator[tuple[str, str, str | None]]:
    """Name, PTX, kernel."""
    for path in (*sorted((ROOT / "examples").glob("*.pipe")), *sorted((ROOT / "tests" / "errors").glob("*/*.pipe"))):
        written = Written.of(path.read_text(encoding="utf-8"))
        state = Compilation(Source(path.name, path.read_text(encoding="utf-8")), Options(written.arch, dict(written.constants)))
        for name, stage in STAGES.items():
            if name == "prove" or state.sink.diagnostics:
                break
            stage(state)
        for plan in state.plans or () if state.ptx is not None else ():
            yield f"{path.stem} {plan.interface.name}", state.ptx or "", plan.interface.name
    for number in range(RANDOM):
        yield f"random {number}", text(random.Random(number)), None


def read_as(ptx: str, kernel: str | None, limit: int) -> str:
    """A digest of the network, and how large forms became; or why there is none."""
    try:
        reading = reading_of(ptx, kernel, Interpretation(limit))
    except Unreadable as why:
        return str(why)
    return f"{sha256(repr(reading.network).encode()).hexdigest()[:16]} {reading.arithmetic.widest}"


def main() -> None:
    for name, ptx, kernel in texts():
        for limit in LIMITS:
            print(name, limit, read_as(ptx, kernel, limit), flush=True)


if __name__ == "__main__":
    main()
