"""Answers of the scheduler: each role must read the one to the request that is meant, or they go round different numbers of times."""

import re
from collections.abc import Callable
from pathlib import Path

import pytest

from pipec.verify.network import Unreadable
from pipec.verify.reader.read import read

PTX = (Path(__file__).parents[1] / "golden/gemm_clc.ptx").read_text(encoding="utf-8")
WAIT = re.compile(r"\$L\w+:\n\tmbarrier\.try_wait[^\n]*\n\tnot\.pred[^\n]*\n[^\n]*bra[^\n]*\n\tbar\.warp\.sync[^\n]*\n")
ADDRESS = re.compile(r"(?:\t(?:shl|add)[^\n]*\n)*(?=\t\{\n\t\.reg \.b128 answer)")
READS = re.compile(r"\t\{\n\t\.reg \.b128 answer;.*?\n\t\}\n", re.DOTALL)
GIVES_BACK = re.compile(r"\tmbarrier\.arrive\.shared\.b64[^\n]*\n")


def parts() -> list[tuple[int, int, int, int, int]]:
    """Of each reading: where the wait begins, its address, the reading, what is behind it, and what is behind the arrival."""
    found = []
    for reads in READS.finditer(PTX):
        wait = [*WAIT.finditer(PTX, 0, reads.start())][-1]
        gives = GIVES_BACK.search(PTX, reads.end())
        address = ADDRESS.search(PTX, wait.end())
        assert gives is not None and address is not None
        found.append((wait.start(), address.start(), reads.start(), reads.end(), gives.end()))
    return found


def early(wait: int, address: int, reads: int, after: int, given: int) -> str:
    return PTX[:wait] + PTX[address:after] + PTX[wait:address] + PTX[after:]


def late(wait: int, address: int, reads: int, after: int, given: int) -> str:
    return PTX[:reads] + PTX[after:given] + PTX[reads:after] + PTX[given:]


def test_answers_are_read_in_four_roles() -> None:
    assert len(parts()) == 4 and read(PTX, None)


@pytest.mark.parametrize("number", range(4))
@pytest.mark.parametrize("moved", [early, late])
def test_an_answer_is_read_behind_the_wait_and_before_its_place_is_given_back(moved: Callable[..., str], number: int) -> None:
    """Given back first, the place may hold the answer to a later request: the role stops a round early, or goes on alone."""
    text = moved(*parts()[number])
    assert sorted(text) == sorted(PTX) and text != PTX
    with pytest.raises(Unreadable) as refused:
        read(text, None)
    # (In some roles the place where it was is overwritten in between.)
    if moved is early or not number:
        assert "may have been given back" in str(refused.value)
