"""Each kernel of these tests is compiled and proved in every run: refusing one that is right takes a few hundredths of a second to find.

What a run takes a sample of is the simulation, which takes most of the time: a case that is left out of it ends where it would begin.
"""

import sys
from collections.abc import Iterator

import pytest
from samples import LEFT_OUT

import pipec.sim


class Compiled(BaseException):
    """Ends a test, whatever it expects to go wrong."""


def _ended(*_: object) -> None:
    raise Compiled


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Iterator[None]:
    if not item.stash.get(LEFT_OUT, False):
        yield
        return
    with pytest.MonkeyPatch.context() as patch:
        # Not by its name: `pipec.sim.launch` is the function.
        patch.setattr(sys.modules[pipec.sim.launch.__module__], "_parsed", _ended)
        outcome = yield
    if isinstance(outcome.exception, Compiled):  # type: ignore[attr-defined]
        outcome.force_result(None)  # type: ignore[attr-defined]
