"""The tool that changes pipec's own checks: what it changes, and that a change is noticed.

`benchmarks/proof/own_mutants.py` runs it on a hundred.
"""

import ast
from dataclasses import replace

from mutation.explained import WHY, explained_by
from mutation.operators import changes, sample
from mutation.own import SURVIVED, Case, failing, files_about, judged, judged_by_tests, known

WAIT = Case("error", "tests/errors/linear/never_released.pipe")


def test_changes_are_many_and_can_be_compiled() -> None:
    found = changes()
    assert found == changes() and len(found) > 3000
    assert {change.file.split("/")[1] for change in found} == {"checks", "kir", "protocol", "verify"}
    for change in sample(40, 5):
        ast.parse(change.text())
        assert change.line == change.text().count("\n", 0, change.at) + 1


def test_a_change_is_noticed_by_a_case_that_comes_through_it() -> None:
    every = [change for change in changes() if change.file == "pipec/checks/stages/linear.py"]
    cases = known([WAIT], every)
    through = [change for change in every if change in cases[0].through]
    assert 10 < len(through) < len(every)
    assert any(judged(change, cases) != SURVIVED for change in through[:12])


def test_a_change_is_noticed_by_a_test_of_its_part() -> None:
    every = [change for change in changes() if change.file == "pipec/verify/checker/progress.py"]
    assert files_about(every[0])[0] == "tests/verify/test_progress.py"
    first = files_about(every[0])[:1]
    assert any(judged_by_tests(change, 20, first) != SURVIVED for change in every[:12])
    same = replace(every[0], new=every[0].old)
    assert judged_by_tests(same, 20, first) == SURVIVED and failing(first[0], 20) is None


def test_the_same_text_is_not_noticed() -> None:
    change = next(one for one in changes() if one.file == "pipec/checks/stages/linear.py")
    same = replace(change, new=change.old)
    cases = known([WAIT], [same])
    assert same in cases[0].through and judged(same, cases) == SURVIVED


def test_tests_that_cannot_be_collected_are_no_empty_answer() -> None:
    assert "no tests ran" in (failing("tests/verify/no_such_test.py", 10) or "")


def test_a_mutant_is_explained_by_its_line_wherever_that_stands() -> None:
    change = sample(1, 5)[0]
    file, line, what = explained_by(change)
    unchanged = replace(change, new=change.old).text()
    assert change.file == f"pipec/{file}" and line in unchanged and change.old.strip() in what
    assert all(file.endswith(".py") and why for (file, _, _), why in WHY.items())
