"""One in-order run tells programs with a race from those without."""

from __future__ import annotations

import pytest

from pipec.sim import Options, SimulationError

from .race_programs import Program, run

WRITTEN_BY_ALL = Program("equal stores", "st.shared.u32 [%tile], 7; bar.sync 0; ld.shared.u32 %r1, [%tile];")
WRITTEN_BY_EACH = Program("stores of each", "st.shared.u32 [%tile], %warp; bar.sync 0; ld.shared.u32 %r1, [%tile];")


def test_equal_stores_are_a_practice():
    assert run(WRITTEN_BY_ALL, Options(rules="practice")).relied_on == ["equal stores"]
    for program, rules in ((WRITTEN_BY_ALL, "documents"), (WRITTEN_BY_EACH, "practice")):
        with pytest.raises(SimulationError) as caught:
            run(program, Options(rules=rules))
        assert caught.value.kind == "race" and "nothing orders them" in caught.value.message
        assert caught.value.details["other"]["warp"] == 0 and caught.value.details["warp"] == 1


OVERWRITTEN = Program(
    "TMA over ordinary stores",
    """@%first mbarrier.init.shared::cta.b64 [%bar], 1;
    st.shared.u32 [%own], %t;
    bar.sync 0;
    @!%first bra WAIT;
    mbarrier.arrive.expect_tx.shared::cta.b64 _, [%bar], 256;
    cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%tile], [%array], 256, [%bar];
    WAIT: mbarrier.try_wait.parity.shared::cta.b64 %p1, [%bar], 0;
    @!%p1 bra WAIT;
    ld.shared.u32 %r1, [%other];""",
)


def test_overwriting_without_a_proxy_fence_is_a_practice():
    assert run(OVERWRITTEN, Options(rules="practice")).relied_on == ["overwriting without a proxy fence"]
    with pytest.raises(SimulationError) as caught:
        run(OVERWRITTEN, Options(rules="documents"))
    assert caught.value.kind == "race" and "fence.proxy.async" in caught.value.message
