"""The tool that changes pipec's own checks: what it changes, and that a change is noticed.

`benchmarks/own_mutants.py` runs it on a hundred.
"""

import ast

from mutation.own import SURVIVED, Case, Change, changes, judged, known, sample

WAIT = Case("error", "tests/errors/linear/never_released.pipe")


def test_changes_are_many_and_can_be_compiled() -> None:
    found = changes()
    assert found == changes() and len(found) > 3000
    assert {change.file.split("/")[1] for change in found} == {"checks", "protocol", "verify"}
    for change in sample(40, 5):
        ast.parse(change.text())
        assert change.line == change.text().count("\n", 0, change.at) + 1


def test_a_change_is_noticed_by_a_case_that_comes_through_it() -> None:
    cases = known([WAIT])
    lines = {line for file, line in cases[0].lines if file == "pipec/checks/stages/linear.py"}
    assert lines
    through = [change for change in changes() if change.file == "pipec/checks/stages/linear.py" and change.line in lines]
    assert any(judged(change, cases) != SURVIVED for change in through[:12])


def test_the_same_text_is_not_noticed() -> None:
    cases = known([WAIT])
    file, line = min(cases[0].lines)
    assert judged(Change(file, line, 0, "", ""), cases) == SURVIVED
