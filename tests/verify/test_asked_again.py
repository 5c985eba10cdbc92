"""Branches that are asked again later in a turn: the other way than before is not followed, where that would lead to many states."""

import re
from functools import cache
from pathlib import Path

from pipec.driver import Options, compile_source
from pipec.protocol.judge import judge
from pipec.source import Source
from pipec.verify.network import Network
from pipec.verify.reader.read import read

PINGPONG = Path(__file__).parents[2] / "examples" / "gemm_sm90_pingpong.pipe"
STAGES = 12


@cache
def text() -> str:
    """The consumer whose tile need not be there asks twice for it: before it takes stages, and before it stores, which gives back the last.
    A stage that is still to be given back where none was taken would be at any distance from the position."""
    constants = {"STAGES": str(STAGES), "BK": "32"}
    state = compile_source(Source(PINGPONG.name, PINGPONG.read_text(encoding="utf-8")), Options(constants=constants))
    assert state.ptx is not None
    return state.ptx


def most_states(network: Network) -> int:
    return max(len(process.states) for process in network.processes)


def test_states_do_not_grow_with_the_ring() -> None:
    judgement = judge(text(), PINGPONG.stem)
    assert judgement.network is not None and judgement.certificate is not None
    assert most_states(judgement.network) < 40 and judgement.situations < 40


def test_a_predicate_that_is_written_again_is_asked_again() -> None:
    asked = re.search(r"setp\.ge\.s32 \t(%p\d+), %r\d+, %r\d+;\n\tmov\.b32 \t%r\d+, 0;\n\t@\1 bra", text())
    assert asked is not None
    branch = f"\t@{asked[1]} bra"
    before, between, after = text().split(branch)
    opposite = branch.join([before, f"{between}\tnot.pred {asked[1]}, {asked[1]};\n", after])
    assert most_states(read(opposite)) > 4 * STAGES
