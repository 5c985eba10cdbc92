"""Reads of memory that nothing has written: an error where anything comes of them, whatever stands there, and only there."""

from __future__ import annotations

import numpy as np
import pytest

from pipec.sim import Options, SimulationError, launch

HEAD = """.version 9.0\n.target sm_90a\n.address_size 64
.entry k(.param .u64 out) { .reg .pred %p<4>; .reg .b32 %t, %r<9>; .reg .f32 %f<9>; .reg .b64 %d<4>; .shared .align 4 .b8 words[256];
mov.u32 %t, %tid.x; ld.param.u64 %d1, [out]; mul.wide.u32 %d2, %t, 4; add.s64 %d1, %d1, %d2; setp.lt.u32 %p1, %t, 20;
mov.b32 %r1, words; mad.lo.u32 %r1, %t, 4, %r1; cvt.rn.f32.u32 %f1, %t; add.f32 %f1, %f1, 1.0;
@%p1 st.shared.f32 [%r1], %f1; bar.sync 0; ld.shared.f32 %f2, [%r1];\n"""
STORE = "st.global.f32 [%d1], %f3; ret; }"
HARMLESS = {
    "stored by nobody": "mov.f32 %f3, %f2; @!%p1 bra END; st.global.f32 [%d1], %f3; END: ret; }",
    "replaced": "selp.f32 %f3, %f2, 0.0, %p1;" + STORE,
    "masked": "selp.b32 %r2, -1, 0, %p1; mov.b32 %r3, %f2; and.b32 %r3, %r3, %r2; mov.b32 %f3, %r3;" + STORE,
}
# Zeros, which a simulator might find there, would hide each of these.
HARMFUL = {
    "summed": "add.f32 %f3, %f2, 1.0;" + STORE,
    "multiplied by zero": "mul.f32 %f3, %f2, 0.0;" + STORE,
    "a maximum": "max.f32 %f3, %f2, 0.0;" + STORE,
    "decides": "setp.gt.f32 %p2, %f2, 0.0; selp.f32 %f3, 1.0, 0.0, %p2;" + STORE,
}


@pytest.mark.parametrize("name", HARMLESS)
def test_harmless(name):
    out = np.ones(32, np.float32)
    result = launch(HEAD + HARMLESS[name], block=32, arguments=[out])
    assert result.relied_on == ["unwritten memory that does not matter"] and not result.findings
    assert (out[:20] == np.arange(1, 21)).all()
    with pytest.raises(SimulationError, match="nothing has written"):
        launch(HEAD + HARMLESS[name], block=32, arguments=[out], options=Options(rules="documents"))


@pytest.mark.parametrize("name", HARMFUL)
def test_harmful(name):
    out = np.ones(32, np.float32)
    with pytest.raises(SimulationError, match="load of 4 bytes at shared address 0x450, which nothing has written") as caught:
        launch(HEAD + HARMFUL[name], block=32, arguments=[out])
    assert caught.value.kind == "uninitialised"
    assert np.isfinite(out).all(), "the first run's results"


def test_all_schedules_take_it_alike():
    out = np.zeros(32, np.float32)
    result = launch(HEAD + HARMLESS["replaced"], block=32, arguments=[out], options=Options("explore"))
    assert result.explored is not None and not result.findings


def test_many_reads_are_no_reason_to_stop():
    """More different ones than a run has room for: what comes of them is found out all the same."""
    many = "\n".join(f"ld.shared.u32 %r2, [%r1+{4 * word}];" for word in range(32, 224))
    out = np.zeros(32, np.float32)
    text = HEAD.replace("words[256]", "words[1024]").replace("bar.sync 0;", f"bar.sync 0; {many}") + HARMLESS["replaced"]
    assert launch(text, block=32, arguments=[out]).relied_on == ["unwritten memory that does not matter"]
    with pytest.raises(SimulationError, match="nothing has written") as caught:
        launch(text.replace("selp.f32 %f3, %f2, 0.0, %p1;", "mov.f32 %f3, %f2;"), block=32, arguments=[out])
    assert len(caught.value.findings) < 100


ADDRESS = """.version 9.0\n.target sm_100a\n.address_size 64
.entry k(.param .u64 out) { .reg .b32 %r<4>; .reg .b64 %d<3>; .shared .align 16 .b8 tile[16];
ld.param.u64 %d1, [out]; mov.b32 %r1, tile; tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [%r1], 32; bar.sync 0;
ld.shared.b32 %r2, [%r1]; COPY tcgen05.dealloc.cta_group::1.sync.aligned.b32 %r2, 32; ret; }"""
COPY = """elect.sync _|%e, -1; @%e cp.async.bulk.global.shared::cta.bulk_group [%d1], [%r1], 16;
@%e cp.async.bulk.commit_group; @%e cp.async.bulk.wait_group 0;"""


def test_the_address_that_alloc_writes_is_no_data():
    """Its place becomes a tile's, which an operation may read before anything is there: that is for the same rules to judge."""
    text = ADDRESS.replace("COPY", COPY).replace(".reg .b32", ".reg .pred %e; .reg .b32", 1)
    with pytest.raises(
        SimulationError, match="bulk store reads shared address 0x400, where there is but an address of tensor memory"
    ):
        launch(text, block=32, arguments=[np.zeros(4, np.uint32)])
    fenced = text.replace("elect.sync", "fence.proxy.async.shared::cta; elect.sync")
    with pytest.raises(SimulationError, match="bulk store reads shared address 0x404, which nothing has written"):
        launch(fenced, block=32, arguments=[np.zeros(4, np.uint32)])


# Warp 1 exchanges what it loaded with warp 0 through the second half of the array, of which warp 0 stores what is masked.
EXCHANGE = """.version 9.0\n.target sm_90a\n.address_size 64
.entry k(.param .u64 out) { .reg .pred %p<4>; .reg .b32 %t, %r<9>; .reg .f32 %f<9>; .reg .b64 %d<4>; .shared .align 4 .b8 words[256];
mov.u32 %t, %laneid; ld.param.u64 %d1, [out]; mul.wide.u32 %d2, %t, 4; add.s64 %d1, %d1, %d2; setp.lt.u32 %p1, %t, 20;
mov.b32 %r1, words; mad.lo.u32 %r1, %t, 4, %r1; mov.u32 %r2, %tid.x; setp.lt.u32 %p2, %r2, 32; @%p2 bra FIRST;
@%p1 st.shared.f32 [%r1], 1.0; bar.warp.sync -1; ld.shared.f32 %f1, [%r1]; st.global.f32 [%d1+128], %f1; bar.sync 0; bra END;
FIRST: bar.sync 0; LOAD selp.f32 %f3, %f2, 0.0, %p1; st.global.f32 [%d1], %f3; END: ret; }"""


@pytest.mark.parametrize("name", HARMLESS)
def test_variables_of_the_module_are_no_results(name):
    out = np.ones(32, np.float32)
    text = HEAD.replace(".entry", ".global .align 4 .b8 table[64];\n.entry", 1) + HARMLESS[name]
    assert launch(text, block=32, arguments=[out]).relied_on == ["unwritten memory that does not matter"]


def test_what_is_exchanged_through_global_memory_is_no_result():
    out = np.zeros(64, np.float32)
    result = launch(EXCHANGE.replace("LOAD", "ld.global.f32 %f2, [%d1+128];"), block=64, arguments=[out])
    assert result.relied_on == ["unwritten memory that does not matter"] and (out[:32] == (np.arange(32) < 20)).all()
    with pytest.raises(SimulationError, match="nothing has written"):
        launch(EXCHANGE.replace("LOAD", "mov.f32 %f2, 1.0;"), block=64, arguments=[out])
    with pytest.raises(SimulationError, match="nothing has written"):
        launch(
            EXCHANGE.replace("LOAD", "ld.global.f32 %f2, [%d1+128];").replace("selp.f32 %f3, %f2, 0.0, %p1", "mov.f32 %f3, %f2"),
            block=64,
            arguments=[out],
        )


# Warp 1 leaves 32 words in a workspace, of which warp 0 loads the first 20 and stores them as its results.
WORKSPACE = (
    EXCHANGE.replace("k(.param .u64 out)", "k(.param .u64 out, .param .u64 work)")
    .replace("st.global.f32 [%d1+128], %f1;", "st.global.f32 [%d3], %f1;")
    .replace("setp.lt.u32 %p1", "ld.param.u64 %d3, [work]; add.s64 %d3, %d3, %d2; setp.lt.u32 %p1", 1)
)


def test_words_of_a_workspace_that_nobody_reads():
    out, work = np.zeros(32, np.float32), np.zeros(32, np.float32)
    text = WORKSPACE.replace("LOAD", "mov.f32 %f2, 0.0; @%p1 ld.global.f32 %f2, [%d3];")
    (found,) = launch(text, block=64, arguments=[out, work]).findings
    assert found.severity == "warn" and "of the results only argument 1 shows it" in found.message
    assert (out == (np.arange(32) < 20)).all()
    # Nothing of the array is loaded again, so it may be a result; and a result shows it, too.
    results = text.replace("@%p1 ld.global.f32 %f2, [%d3];", "@%p1 mov.f32 %f2, 1.0;")
    for wrong in (results, text.replace("selp.f32 %f3, %f2, 0.0, %p1", "ld.shared.f32 %f3, [%r1]")):
        with pytest.raises(SimulationError, match="nothing has written"):
            launch(wrong, block=64, arguments=[out, work])
