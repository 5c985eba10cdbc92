"""Faults in PTX: each is one change that the simulator can read, and what runs is told from what does not."""

from pathlib import Path

import pytest

from mutation.ptx import KINDS, mutants, trapped
from pipec.sim.ptx.parse import parse

GOLDEN = Path(__file__).parents[1] / "golden"
TEXTS = {name: (GOLDEN / f"{name}.ptx").read_text(encoding="utf-8") for name in ("gemm_2cta", "gemm_sm90_cluster")}


@pytest.mark.parametrize("name", TEXTS)
def test_every_mutant_is_ptx_of_as_many_lines(name: str) -> None:
    found = list(mutants(TEXTS[name]))
    assert len(found) > 100 and len({mutant.text for mutant in found}) == len(found)
    assert all(mutant.text.count("\n") == TEXTS[name].count("\n") for mutant in found)
    for mutant in found[::9]:
        parse(mutant.text)


def test_kinds_are_those_of_the_two_targets() -> None:
    assert {mutant.kind for text in TEXTS.values() for mutant in mutants(text)} >= {*KINDS} - {
        "fence of memory",
        "barrier of the warp",
    }


def test_a_change_stands_where_the_instruction_stood() -> None:
    text = "// mbarrier.init.b64 [%a], 1;\n@%p mbarrier.try_wait.parity.b64 %q, [%r1], %r2;\nbarrier.cluster.arrive;\nbarrier.cluster.wait;"
    by_change = {(mutant.kind, mutant.change): mutant for mutant in mutants(text)}
    assert by_change["wait for an mbarrier", "removed"].text.split("\n")[1] == "@%p setp.eq.u32 %q, 0, 0;"
    assert (
        "xor.b32 %own, %own, 1; @%p mbarrier.try_wait.parity.b64 %q, [%r1], %own; }"
        in by_change["wait for an mbarrier", "the other parity"].text
    )
    assert "[%r1+8]" in by_change["wait for an mbarrier", "the next barrier"].text
    assert "barrier" not in by_change["barrier of the cluster", "removed"].text.split("%r2;")[1]
    assert not any(kind == "initialisation" for kind, _ in by_change)  # in a comment
    assert trapped(text, 2).split("\n")[1].startswith("@%p trap; @%p mbarrier")
