"""The table of checks in docs/simulator.md is the table that the simulator and `pipec explain` have."""

import re
from pathlib import Path

from pipec.sim.findings import CHECKS

DOCUMENT = Path(__file__).parents[2] / "docs" / "simulator.md"


def test_the_table_of_checks() -> None:
    rows = re.findall(r"^\| `(\w+)` \| (.*) \| (\w+) \| (\w+) \|$", DOCUMENT.read_text(encoding="utf-8"), re.MULTILINE)
    assert rows == [(name, check.meaning, check.documents, check.practice) for name, check in CHECKS.items()]
