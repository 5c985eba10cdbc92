"""Kernels that the compiler accepts, through the assembler: the same 100 in every `make whole`, 20 of them in `make test`.

`make fuzz` tries others each day.
"""

import pytest
from fuzz_assembler import attempt
from run import failures

_SEED, _COUNT, _PARTS = 1, 100, 10


@pytest.mark.sample(0.2)
@pytest.mark.parametrize("part", range(_PARTS))
def test_the_assembler_takes_what_the_compiler_takes(part: int) -> None:
    share = _COUNT // _PARTS
    wrong = list(failures("assembler", attempt, _SEED, range(part * share, (part + 1) * share)))
    assert not wrong, "\n\n".join(f"number {number}:\n{text}" for number, text in wrong)
