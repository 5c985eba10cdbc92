"""Waits that are left out: a consumer that skips a stage names the wait in an instruction that is never executed."""

import re
from functools import cache

import pytest
from fuzz.fuzz_in_turn import Drawn

from pipec.driver import Options, compile_source
from pipec.protocol.judge import judge
from pipec.source import Source
from pipec.verify.network import Process, Wait, edges_of
from pipec.verify.reader.read import read

SKIP = re.compile(r"\t@never mbarrier\.test_wait\.parity\.shared\.b64 found, \[(%r\d+)\], (%r\d+);\n")


@cache
def text() -> str:
    """Two consumers that take as many stages as the launch says, in turn."""
    drawn = Drawn("sm_90a", 2, ("m", "m"), written_out=False)
    state = compile_source(Source("k.pipe", drawn.source()), Options(drawn.arch))
    assert state.ptx is not None
    return state.ptx


def proved(changed: str) -> bool:
    return judge(changed, "k").certificate is not None


def test_the_position_moves_on_without_a_wait() -> None:
    network = read(text(), "k")
    skipping = {
        process.role
        for process in network.processes
        for state in process.states
        for edge in edges_of(state.action)
        if edge.advances
        and not isinstance(state.action, Wait)
        and all(cursor in _awaited(process) for cursor, _ in edge.advances)
    }
    assert {"take0", "take1"} <= skipping


def _awaited(process: Process) -> set[int]:
    return {state.action.use.cursor for state in process.states if isinstance(state.action, Wait)}


@pytest.mark.parametrize(
    ("what", "by"),
    [
        ("removed", r""),
        ("executed", r"\tmbarrier.test_wait.parity.shared.b64 found, [\1], \2;\n"),
        ("waited for", r"\t$AGAIN: mbarrier.try_wait.parity.shared.b64 found, [\1], \2;\n\t@!found bra $AGAIN;\n"),
        ("at another stage", r"\t@never mbarrier.test_wait.parity.shared.b64 found, [\1+8], \2;\n"),
    ],
)
def test_what_is_not_skipped_is_not_proved(what: str, by: str) -> None:
    changed, count = SKIP.subn(by, text(), count=1)
    assert count == 1 and not proved(changed)


def test_what_is_skipped_is_proved() -> None:
    assert len(SKIP.findall(text())) == 2 and proved(text())
