"""Initialised barriers that are told of, and bulk stores that are waited for."""

import numpy as np
import pytest

from pipec.sim import Options, Result, SimulationError, launch
from pipec.sim.machine.practice import Rules

FENCE, RELAXED, RELEASE = (
    "fence.mbarrier_init.release.cluster;",
    "barrier.cluster.arrive.relaxed.aligned;",
    "barrier.cluster.arrive.aligned;",
)
HANDSHAKE = """
.version 8.6
.target sm_90a
.address_size 64
.visible .entry handshake() .reqntid 32 {
  .reg .pred %p<4>; .reg .b32 %r<8>;
  .shared .align 8 .b64 full;
  mov.u32 %r1, %cluster_ctarank;
  mov.u32 %r2, %tid.x;
  mov.u32 %r3, full;
  setp.ne.u32 %p1, %r2, 0;
  @%p1 bra MADE;
  mbarrier.init.shared::cta.b64 [%r3], 1;
  FENCE
MADE:
  ARRIVE
  barrier.cluster.wait.acquire.aligned;
  @%p1 bra DONE;
  xor.b32 %r4, %r1, 1;
  mapa.shared::cluster.u32 %r5, %r3, %r4;
  mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%r5];
WAIT:
  mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 %p2, [%r3], 0;
  @!%p2 bra WAIT;
DONE:
  barrier.cluster.arrive.aligned;
  barrier.cluster.wait.aligned;
  ret;
}
"""
STORE = """
.version 8.6
.target sm_90a
.address_size 64
.visible .entry store(.param .u64 y) .reqntid 32 {
  .reg .pred %p<2>; .reg .b32 %r<4>; .reg .b64 %rd<2>;
  .shared .align 16 .b8 tile[512];
  ld.param.u64 %rd1, [y];
  mov.u32 %r1, %tid.x;
  mov.u32 %r2, tile;
  mad.lo.u32 %r3, %r1, 16, %r2;
  st.shared.v4.b32 [%r3], {%r1, %r1, %r1, %r1};
  fence.proxy.async.shared::cta;
  bar.warp.sync -1;
  setp.ne.u32 %p1, %r1, 0;
  @%p1 bra DONE;
  cp.async.bulk.global.shared::cta.bulk_group [%rd1], [%r2], 512;
  COMMIT
  cp.async.bulk.wait_group 0;
DONE:
  ret;
}
"""


def handshake(fence: str, arrive: str, rules: Rules = "practice") -> Result:
    text = HANDSHAKE.replace("FENCE", fence).replace("ARRIVE", arrive)
    return launch(text, "handshake", grid=2, block=32, cluster=2, options=Options(rules=rules))


@pytest.mark.parametrize(("fence", "arrive"), [(FENCE, RELAXED), ("fence.acq_rel.cluster;", RELAXED), ("", RELEASE)])
def test_initialised_barriers_are_published(fence: str, arrive: str) -> None:
    assert handshake(fence, arrive).findings == []


def test_a_relaxed_arrival_does_not_publish_barriers() -> None:
    """CUTLASS lacks the fence for the barrier by which CTA pairs give back tensor memory."""
    (finding,) = handshake("", RELAXED).findings
    assert (finding.check, finding.severity) == ("scope", "warn") and "mbarrier.init" in finding.message
    with pytest.raises(SimulationError, match=r"mbarrier\.init .* no fence\.mbarrier_init stands before") as caught:
        handshake("", RELAXED, "documents")
    assert caught.value.kind == "race"


def test_the_own_barriers_behind_a_relaxed_arrival() -> None:
    """Another warp of the CTA arrives at the barrier, and no other CTA does."""
    own = (
        HANDSHAKE.replace("reqntid 32", "reqntid 64")
        .replace("@%p1 bra DONE;\n  xor.b32 %r4, %r1, 1;", "setp.ne.u32 %p3, %r2, 32; @%p3 bra REST;\n  mov.u32 %r4, %r1;")
        .replace("WAIT:\n", "REST:\n  @%p1 bra DONE;\nWAIT:\n")
        .replace("FENCE", "")
        .replace("ARRIVE", RELAXED)
    )
    result = launch(own, "handshake", grid=2, block=64, cluster=2)
    assert result.findings == [] and "own memory behind a relaxed cluster barrier" in result.relied_on
    with pytest.raises(SimulationError, match=r"no fence\.mbarrier_init stands before"):
        launch(own, "handshake", grid=2, block=64, cluster=2, options=Options(rules="documents"))


def stored(commit: str, rules: str) -> Result:
    y = np.zeros(128, np.uint32)
    result = launch(STORE.replace("COMMIT", commit), "store", grid=1, block=32, arguments=[y], options=Options(rules=rules))
    assert (y == np.repeat(np.arange(32), 4)).all()
    return result


def test_a_store_in_no_group() -> None:
    assert stored("cp.async.bulk.commit_group;", "documents").findings == []
    (finding,) = stored("", "practice").findings
    assert (finding.check, finding.severity) == ("commit", "warn") and "cp.async.bulk" in STORE.splitlines()[finding.ptx_line - 1]
    with pytest.raises(SimulationError):
        stored("", "documents")


LEFT = """
.version 8.6
.target sm_90a
.address_size 64
.visible .entry left() .reqntid 1 {
  .reg .pred %p<2>; .reg .b32 %r<4>;
  .shared .align 16 .b8 place[16];
  mov.u32 %r1, place;
  mbarrier.init.shared::cta.b64 [%r1], 1;
  mbarrier.arrive.shared::cta.b64 _, [%r1];
  AGAIN
  ret;
}
"""
AGAIN = {
    "written": "st.shared.v4.b32 [%r1], {%r1, %r1, %r1, %r1};",
    "initialised": "mbarrier.init.shared::cta.b64 [%r1], 2;",
}


@pytest.mark.parametrize("name", AGAIN)
def test_a_barrier_that_is_left(name: str) -> None:
    text = LEFT.replace("AGAIN", AGAIN[name])
    assert launch(text, "left", grid=1, block=1, options=Options(rules="practice")).relied_on == ["barriers that are left"]
    with pytest.raises(SimulationError, match="live mbarrier"):
        launch(text, "left", grid=1, block=1, options=Options(rules="documents"))


# Warp 1 arrives at an mbarrier, over which warp 0 writes; `told` and `heard` order the two.
OVERWRITTEN = """
.version 8.6
.target sm_90a
.address_size 64
.visible .entry over(.param .u64 array) .reqntid 64 {{
  .reg .pred %p, %q, %done; .reg .b32 %t, %b, %o; .reg .b64 %g;
  .shared .align 16 .b8 place[32];
  ld.param.u64 %g, [array]; mov.u32 %t, %tid.x; mov.u32 %b, place; add.u32 %o, %b, 16; setp.eq.u32 %p, %t, 0;
  @%p mbarrier.init.shared::cta.b64 [%b], 1; @%p mbarrier.init.shared::cta.b64 [%o], 1; @%p fence.mbarrier_init.release.cluster;
  bar.sync 0; setp.eq.u32 %q, %t, 32; setp.ge.u32 %done, %t, 32; @%done bra OTHER;
  {heard}
  @%p mbarrier.arrive.expect_tx.shared::cta.b64 _, [%o], 16;
  @%p {over}
  bra END;
OTHER: {later}
  @%q mbarrier.arrive.shared::cta.b64 _, [%b];
  {told}
END: bar.sync 0; mbarrier.try_wait.parity.shared::cta.b64 %done, [%o], 0; @!%done bra END2; ret;
END2: trap;
}}
"""
OVER = {
    "store": "st.shared.v4.b32 [%b], {{%t, %t, %t, %t}}; @%p mbarrier.complete_tx.relaxed.cta.shared::cta.b64 [%o], 16;",
    "store of the second word": "st.shared.b32 [%b+4], %t; @%p mbarrier.complete_tx.relaxed.cta.shared::cta.b64 [%o], 16;",
    "bulk copy": "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%b], [%g], 16, [%o];",
}
ORDERED = {"told": "bar.sync 1, 64;", "heard": "bar.sync 1, 64;"}


def overwritten(over: str, ordered: bool, later: str = "", timing: str = "order") -> Result:
    told = ORDERED if ordered else dict.fromkeys(ORDERED, "")
    text = OVERWRITTEN.format(over=OVER[over].replace("{{", "{").replace("}}", "}"), later=later, **told)
    options = Options(timing, rules="practice")  # type: ignore[arg-type]
    return launch(text, "over", grid=1, block=64, arguments=[np.zeros(4, np.uint32)], options=options)


@pytest.mark.parametrize("timing", ["order", "late"])
@pytest.mark.parametrize("over", OVER)
def test_what_is_written_over_a_barrier_that_is_left(over: str, timing: str) -> None:
    """It must come after all that was done with the barrier, and whatever is done with it after the issue of a copy is too late."""
    assert overwritten(over, ordered=True, timing=timing).findings == []
    with pytest.raises(SimulationError, match=r"mbarrier\.arrive.*nothing orders them") as caught:
        overwritten(over, ordered=False, timing=timing)
    assert caught.value.kind == "race"


def test_an_arrival_that_comes_after_the_issue_of_a_copy_over_its_barrier() -> None:
    with pytest.raises(
        SimulationError, match=r"mbarrier\.arrive.*warp 1. reads .* and bulk copy of .*warp 0.* is still writing it"
    ):
        overwritten("bulk copy", ordered=False, later="add.u32 %t, %t, 1; " * 300, timing="late")


@pytest.mark.parametrize("name", AGAIN)
@pytest.mark.parametrize(
    "before", ["mbarrier.expect_tx.relaxed.cta.shared::cta.b64 [%r1], 16;", "mbarrier.inval.shared::cta.b64 [%r1];"]
)
def test_a_barrier_with_bytes_due_is_not_left(before: str, name: str) -> None:
    text = LEFT.replace("AGAIN", before + AGAIN[name])
    if "inval" in before:
        assert launch(text, "left", grid=1, block=1, options=Options(rules="documents")).findings == []
        return
    with pytest.raises(SimulationError, match="live mbarrier"):
        launch(text, "left", grid=1, block=1, options=Options(rules="practice"))


def test_a_barrier_that_served_for_nothing_is_not_left() -> None:
    text = LEFT.replace("  mbarrier.arrive.shared::cta.b64 _, [%r1];\n", "").replace("AGAIN", AGAIN["initialised"])
    with pytest.raises(SimulationError, match="live mbarrier"):
        launch(text, "left", grid=1, block=1, options=Options(rules="practice"))


TOGETHER = """.version 8.7
.target sm_90a
.address_size 64
.visible .entry together() .reqntid 32 {
  .reg .pred %p<3>; .reg .b32 %r<5>;
  .shared .align 16 .b8 place[16];
  mov.u32 %r1, place;
  mov.u32 %r2, %tid.x;
  COUNT
  mbarrier.init.shared::cta.b64 [%r1], %r3;
  AGAIN
  bar.warp.sync -1;
  mbarrier.arrive.shared::cta.b64 _, [%r1];
  mbarrier.test_wait.parity.shared::cta.b64 %p1, [%r1], 0;
  @%p1 bra END;
  trap;
END:
  ret;
}
"""


def together(rules: str, count: str = "mov.u32 %r3, 32;", again: str = "") -> list[str | None]:
    text = TOGETHER.replace("COUNT", count).replace("AGAIN", again)
    return [found.check for found in launch(text, "together", grid=1, block=32, options=Options(rules=rules)).findings]


def test_lanes_that_initialise_one_barrier_together() -> None:
    assert together("practice") == ["lanes"]
    with pytest.raises(SimulationError, match="several lanes of one mbarrier.init"):
        together("documents")


@pytest.mark.parametrize("more", [{"count": "add.u32 %r3, %r2, 1;"}, {"again": "mbarrier.init.shared::cta.b64 [%r1], %r3;"}])
def test_lanes_that_initialise_one_barrier_differently(more: dict[str, str]) -> None:
    with pytest.raises(SimulationError, match="live mbarrier"):
        together("practice", **more)


LOAD = """
.version 8.6
.target sm_90a
.address_size 64
.visible .entry load(.param .u64 x) .reqntid 32 {
  .reg .pred %p<3>; .reg .b32 %r<4>; .reg .b64 %rd<2>;
  .shared .align 16 .b8 tile[512]; .shared .align 8 .b64 full;
  ld.param.u64 %rd1, [x];
  mov.u32 %r1, %tid.x;
  setp.ne.u32 %p1, %r1, 0;
  @%p1 bra MADE;
  mbarrier.init.shared::cta.b64 [full], 1;
  FENCE
  mbarrier.arrive.expect_tx.shared::cta.b64 _, [full], 512;
  cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [tile], [%rd1], 512, [full];
MADE:
  bar.warp.sync -1;
WAIT:
  mbarrier.try_wait.parity.shared::cta.b64 %p2, [full], 0;
  @!%p2 bra WAIT;
  ret;
}
"""


def test_barriers_are_published_to_the_async_proxy():
    def told(fence: str, rules: str) -> list[str]:
        options = Options(rules=rules)
        return [
            str(one)
            for one in launch(LOAD.replace("FENCE", fence), arguments=[np.ones(128, np.uint32)], options=options).findings
        ]

    for fence in (FENCE, "fence.proxy.async.shared::cta;", "fence.proxy.async;"):
        assert told(fence, "documents") == []
    assert told("", "practice") == []
    (finding,) = told("", "documents")
    assert "which mbarrier.init of PTX line 12 made: neither fence.mbarrier_init nor fence.proxy.async stands between" in finding
    assert "PTX line 15" in finding


@pytest.mark.parametrize(("count", "words"), [(64, []), (63, ["some lanes arrive in phase 0", "a count of 63"])])
def test_arrivals_of_one_instruction_belong_to_one_phase(count, words):
    kernel = """.version 8.6\n.target sm_90a\n.address_size 64\n.visible .entry k() .reqntid 64 {
      .reg .pred %p<2>; .reg .b32 %r<2>; .shared .align 8 .b64 empty;
      mov.u32 %r1, %tid.x; setp.ne.u32 %p1, %r1, 0; @%p1 bra MADE;
      mbarrier.init.shared::cta.b64 [empty], COUNT;
      MADE: bar.sync 0; mbarrier.arrive.shared::cta.b64 _, [empty]; ret; }"""
    found = [str(one) for one in launch(kernel.replace("COUNT", str(count))).findings]
    assert len(found) == bool(words) and all(word in text for text in found for word in words)


@pytest.mark.parametrize("wait", ["cp.async.wait_group", "cp.async.bulk.wait_group", "wgmma.wait_group.sync.aligned"])
def test_groups_are_counted_from_zero(wait):
    with pytest.raises(SimulationError, match="operand 1 cannot be -1") as caught:
        launch(f".version 8.6\n.target sm_90a\n.address_size 64\n.entry k() .reqntid 32 {{ {wait} -1; ret; }}")
    assert caught.value.kind == "malformed" and caught.value.ptx_line == 4
