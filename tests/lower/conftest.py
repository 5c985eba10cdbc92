"""Of kernels whose numbers are compared, `make test` proves every fourth: the proof is about waits, and nothing of it is executed.

Which ones follows from their text. The files that ask what is proved are not among these.
"""

from collections.abc import Iterator

import pytest
from samples import taken

from pipec import driver
from pipec.checks.verdict import UNCHECKED
from pipec.driver import Compilation

NUMBERS = ("columns", "epilogues", "functions", "kept_tiles", "nan", "operands", "reductions", "register_operands_sm90",
           "rows", "scaled", "striped", "tensor_tiles", "tiles")  # fmt: skip
_SHARE = 0.25
_prove = driver.STAGES["prove"]


@pytest.fixture(autouse=True)
def some_are_proved(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    if request.path.stem.removeprefix("test_") in NUMBERS:
        monkeypatch.setitem(driver.STAGES, "prove", _some)
    yield


def _some(state: Compilation) -> None:
    if taken("proved", f"{state.arch} {state.options.constants} {state.source.text}", _SHARE):
        _prove(state)
    else:
        state.protocol = {kernel.name: UNCHECKED for kernel in state.trees or ()}
