"""Changes every barrier instruction of every example and holds the result against the unchanged certificate.

    python benchmarks/barriers.py [EXAMPLE ...]

Writes benchmarks/results/barriers.json: per kernel how many changes there are, how many cannot be read any more, how many are refused, and
each that is accepted with the reason why it may be (tests/verify/equivalents.py). The exit status is 1 where one has none.
"""

import json
import re
import sys
import time
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from pipec.protocol.judge import judge
from tests.verify.equivalents import judged, reason_for
from tests.verify.mutations import kernel_text, mutants

RESULTS = ROOT / "benchmarks" / "results" / "barriers.json"


def matrix(text: str, kernel: str) -> dict[str, object] | None:
    """The row of a kernel; None where it is not proved."""
    found = judge(text, kernel)
    if found.certificate is None or found.network is None:
        return None
    lines, counts, accepted = text.split("\n"), Counter[str](), []
    started = time.process_time()
    for mutant in mutants(text):
        outcome, network = judged(mutant, found.certificate)
        counts[outcome] += 1
        if outcome == "accepted" and network is not None:
            instruction = lines[mutant.line - 1].strip()
            reason = reason_for(mutant, instruction, network, found.network)
            accepted.append({"line": mutant.line, "change": mutant.change, "instruction": instruction, "reason": reason})
    return {"seconds": round(time.process_time() - started, 1), "changes": counts.total(), **counts, "which": accepted}


def main() -> int:
    names = sys.argv[1:] or sorted(path.stem for path in (ROOT / "tests" / "golden").glob("*.ptx"))
    rows = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
    unexplained = 0
    for name in names:
        ptx = (ROOT / "tests" / "golden" / f"{name}.ptx").read_text(encoding="utf-8")
        for kernel in re.findall(r"\.entry (\w+)", ptx):
            row = matrix(kernel_text(ptx, kernel), kernel)
            rows[f"{name}: {kernel}"] = row
            RESULTS.write_text(json.dumps(rows, indent=1, sort_keys=True) + "\n", encoding="utf-8")
            which = row["which"] if row else []
            assert isinstance(which, list)
            wrong = [one for one in which if one["reason"] is None]
            unexplained += len(wrong)
            print(name, kernel, {**row, "which": len(which)} if row else "not proved", *wrong, sep="\n  ", flush=True)
    return 1 if unexplained else 0


if __name__ == "__main__":
    raise SystemExit(main())
