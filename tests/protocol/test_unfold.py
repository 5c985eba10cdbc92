"""What a role does for tiles of a persistent kernel is a large form of the sizes; runs at given sizes compute it."""

import pytest
from examples.catalogue import EXAMPLES

from pipec.driver import Options, compile_source
from pipec.protocol.refuting.unfold import unfolded
from pipec.source import Source
from pipec.verify.reader.read import Reading
from pipec.verify.reader.values.interpretation import Interpretation
from pipec.verify.terms import Apply, Compare, Linear, Symbol, atom

PERSISTENT = (EXAMPLES / "gemm_persistent.pipe").read_text(encoding="utf-8")
LOOP = "for t in range(block.x, tiles, grid.x):"
INNER = "for k in range(ceildiv(K, BK)):\n                with input.produce"
_FAULTS = {
    "no tiles": (f"produces input:\n        {LOOP}", "produces input:\n        for t in range(0):", "E0601"),
    "one stage a tile": (INNER, INNER.replace("ceildiv(K, BK)", "1"), "E0601"),
    "a tile more": (
        f"produces output:\n        {LOOP}",
        f"produces output:\n        {LOOP.replace('tiles', 'tiles + grid.x')}",
        "E0602",
    ),
}


@pytest.mark.parametrize("fault", _FAULTS)
def test_faults_of_persistent_kernels_are_found_with_sizes(fault: str) -> None:
    old, new, code = _FAULTS[fault]
    text = PERSISTENT.replace(old, new)
    assert text != PERSISTENT
    state = compile_source(Source("gemm_persistent.pipe", text), Options())
    ((found, title),) = [(one.code, one.title) for one in state.diagnostics]
    assert found == code and " when K = " in title, title


def test_nothing_stays_folded_that_a_reader_has_named() -> None:
    reading = Reading((EXAMPLES.parent / "tests" / "golden" / "gemm_grouped.ptx").read_text(), "gemm_grouped", Interpretation(24))
    before, after = str(reading.network), str(unfolded(reading.network, reading.arithmetic.folds))
    names = [name for name in reading.arithmetic.folds if name in before]
    assert names and not any(name in after for name in names)


def test_folds_are_of_the_arguments_given() -> None:
    """A name stands for one form of whatever is put in: registers have other names in every role."""
    x, y = Symbol("x"), Symbol("y")
    folds = {"f": ((x,), Linear(3, ((x, 2),))), "c": ((x,), Compare("ge", atom(x)))}
    process = _process(Compare("ge", atom(Apply("f.s32", (atom(y),)))), Compare("eq", atom(Apply("c", (atom(y),)))))
    first, second = (state.action for state in unfolded(process, folds).processes[0].states[:2])
    assert str(first.condition) == str(Compare("ge", atom(Apply("s32", (Linear(3, ((y, 2),)),)))))
    assert str(second.condition) == str(Compare("ge", Linear(-1, ((y, -1),))))


def _process(*conditions):
    from pipec.verify.network import Edge, End, Network, Process, State, Test

    states = [State(0, Test(one, Edge(number + 1), Edge(number + 1))) for number, one in enumerate(conditions)]
    return Network("k", (), (Process("r", 32, (0,), (0,), 0, (*states, State(0, End()))),))
