"""Answers of the scheduler: each role must read the one to the request that is meant, or they go round different numbers of times."""

import re
from collections.abc import Callable
from functools import cache
from pathlib import Path

import pytest

from pipec.protocol.judge import judge
from pipec.record import replace
from pipec.verify.checker.certificate import Certificate
from pipec.verify.checker.check import check
from pipec.verify.checker.configuration import Refused
from pipec.verify.checker.knowledge import OVERWRITTEN
from pipec.verify.network import Arrive, Edge, Unreadable, Wait
from pipec.verify.reader.read import read

PTX = (Path(__file__).parents[1] / "golden/gemm_clc.ptx").read_text(encoding="utf-8")
WAIT = re.compile(r"\$L\w+:\n\tmbarrier\.try_wait[^\n]*\n\tnot\.pred[^\n]*\n[^\n]*bra[^\n]*\n\tbar\.warp\.sync[^\n]*\n")
ADDRESS = re.compile(r"(?:\t(?:shl|add)[^\n]*\n)*(?=\t\{\n\t\.reg \.b128 answer)")
READS = re.compile(r"\t\{\n\t\.reg \.b128 answer;.*?\n\t\}\n\tfence\.proxy[^\n]*\n", re.DOTALL)
GIVES_BACK = re.compile(r"\tmbarrier\.arrive\.shared\.b64[^\n]*\n")


@cache
def proved() -> Certificate:
    found = judge(PTX, "gemm_clc")
    assert found.certificate is not None, found.why
    return found.certificate


def accepted(text: str) -> bool:
    try:
        check(read(text, "gemm_clc"), proved())
    except (Refused, Unreadable):
        return False
    return True


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
    assert len(parts()) == 4 and accepted(PTX)
    network = read(PTX, "gemm_clc")
    actions = [[state.action for state in process.states] for process in network.processes]
    reading = [sum(isinstance(action, Wait) and action.reads for action in mine) for mine in actions]
    assert sorted(reading) == [0] * (len(reading) - 4) + [1] * 4
    assert sum(isinstance(action, Arrive) and action.asks for mine in actions for action in mine) == 1


@pytest.mark.parametrize("number", range(4))
@pytest.mark.parametrize("moved", [early, late])
def test_an_answer_is_read_behind_the_wait_and_before_its_place_is_given_back(moved: Callable[..., str], number: int) -> None:
    """Given back first, the place may hold the answer to a later request: the role stops a round early, or goes on alone."""
    text = moved(*parts()[number])
    assert sorted(text) == sorted(PTX) and text != PTX
    assert not accepted(text) and judge(text, "gemm_clc").certificate is None


def test_lanes_have_read_an_answer_before_one_gives_its_place_back_for_all() -> None:
    """That they have met between the wait and the reading does not help: a lane may be late after that. (Two other roles meet once more
    before the place is overwritten.)"""
    meets = [after for _, _, _, after, _ in parts() if PTX.startswith("\tbar.warp.sync", after)]
    without = [PTX[:at] + PTX[PTX.index("\n", at) + 1 :] for at in meets]
    assert [accepted(text) for text in without] == [True, False, True]


def test_nobody_asks_before_all_have_given_the_place_back() -> None:
    """The wait for them comes before the request, and not only before the arrival that completes the phase together with the answer."""
    network = read(PTX, "gemm_clc")
    number, at = next(
        (number, at)
        for number, process in enumerate(network.processes)
        for at, state in enumerate(process.states)
        if isinstance(state.action, Arrive) and state.action.asks
    )
    asker = network.processes[number]
    wait, announces, asks = (state.action for state in asker.states[at - 2 : at + 1])
    assert isinstance(wait, Wait) and isinstance(announces, Arrive) and announces.expects and isinstance(asks, Arrive)
    assert wait.edge.advances == ((asks.use.cursor, 1),)
    before = replace(asks, use=replace(asks.use, shift=asks.use.shift + 1), edge=Edge(at - 1))
    actions = before, replace(wait, edge=replace(wait.edge, target=at)), replace(announces, edge=asks.edge)
    states = list(asker.states)
    states[at - 2 : at + 1] = [replace(state, action=one) for state, one in zip(states[at - 2 : at + 1], actions, strict=True)]
    processes = list(network.processes)
    processes[number] = replace(asker, states=tuple(states))
    with pytest.raises(Refused, match=OVERWRITTEN):
        check(replace(network, processes=tuple(processes)), proved())


@pytest.mark.parametrize("kind", ["b32", "s16"])
def test_part_of_an_answer_is_not_the_answer(kind: str) -> None:
    """Loads of different widths give different numbers."""
    granted = re.compile(r"\tld\.shared\.b128 answer, (\[\S+\]);\n.*?\n.*?\n\t@granted \S+ (%r\d+), answer;\n")
    assert len(granted.findall(PTX)) == 4
    text = granted.sub(lambda found: f"\tld.shared.{kind} {found[2]}, {found[1]};\n", PTX)
    # Of a part of 16 bits nothing is known, and one of 32 says nothing of the request.
    with pytest.raises(Unreadable, match="request to the scheduler" if kind == "b32" else "what decides this branch"):
        read(text, "gemm_clc")
