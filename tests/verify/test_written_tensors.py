"""A bound that is loaded twice is the same number only if nothing writes its tensor in between, through whatever parameter."""

import pytest

from pipec.driver import Options, compile_source
from pipec.protocol.prove import Undecided, prove
from pipec.source import Source
from pipec.verify.reader.read import read
from pipec.verify.reader.text.opcodes import ROWS, Kind
from pipec.verify.reader.text.statements import kernel_of
from pipec.verify.reader.text.writes import Writes

KERNEL = """
kernel k(ix: tensor[i32, C, 64], z: tensor[i32, C, 64], w: tensor[i32, C, 64]):
    grid(1)
    p = ProducerConsumerPipeline(stages=2)
    before = ProducerConsumerPipeline(stages=1)
    after = ProducerConsumerPipeline(stages=1)
    t = InputTilePipeline(TilePayload(x=tile[i32, 4, 64]), stages=1)

    role fetch(warps=1) produces t:
        with t.produce() as s:
            tma.load(s.x, z[0, 0])

    role put(warps=1) consumes t, before produces after:
        before.consumer_signal_and_step()
        with t.consume() as s:
            {store}
        after.producer_signal_and_step()

    role a(warps=1) produces p, before:
        n = load(ix[0, 0])
        before.producer_signal_and_step()
        for i in range(n):
            p.producer_signal_and_step()

    role b(warps=1) consumes p, after:
        after.consumer_signal_and_step()
        n = load(ix[0, 0])
        for i in range(n):
            p.consumer_signal_and_step()
"""


@pytest.mark.parametrize(
    ("store", "proved"),
    [
        ("tma.store({}[0, 0], s.x)", "w"),
        ("store.direct({}[0, 0], s.x)", "w"),
        ('tma.store({}[0, 0], s.x, reduce="add")', "w"),
    ],
    ids=["copied through a map", "stored through a pointer", "added through a map"],
)
def test_a_bound_that_changes_is_not_one_number(store: str, proved: str) -> None:
    """Every access is ordered by the hand-overs, yet one role finds the old bound and the other the new one."""
    for tensor, outcome in ((proved, "proved"), ("ix", "open")):
        text = KERNEL.replace("{store}", store.format(tensor))
        state = compile_source(Source("bound.pipe", text), Options("sm_100a", allow_undecided=True))
        assert not state.failed, state.diagnostics
        assert state.protocol["k"].outcome == outcome, tensor


# Two warps leave together if what x points to is 0; one of them stores there before it looks, and the other afterwards.
HALVES = """
.version 8.8
.target sm_90a
.address_size 64
.shared .align 16 .b8 buffer[16];
.shared .align 8 .b64 barrier;
.visible .entry k(.param .u64 x)
.reqntid 64
{
	.reg .pred %p<10>; .reg .b32 %r<20>; .reg .b64 %rd<10>;
	mov.u32 %r0, %tid.x;
	setp.ne.u32 %p0, %r0, 0;
	ld.param.u64 %rd1, [x];
	@%p0 bra READY;
	mbarrier.init.shared.b64 [barrier], 32;
READY:
	@HALVES
	bar.sync 0;
	setp.lt.u32 %p1, %r0, 32;
	@%p1 bra OTHER;
	ld.global.u32 %r4, [%rd1];
	bar.sync 0;
	setp.eq.u32 %p3, %r4, 0;
	@%p3 bra DONE;
WAIT:
	mbarrier.try_wait.parity.shared.b64 %p4, [barrier], 0;
	@!%p4 bra WAIT;
	bra DONE;
OTHER:
	bar.sync 0;
	st.global.u32 [%rd2], 0;
	ld.global.u32 %r4, [%rd1];
	setp.eq.u32 %p3, %r4, 0;
	@%p3 bra DONE;
	mbarrier.arrive.shared.b64 _, [barrier];
DONE:
	ret;
}
"""
STORES = {
    "st": "st.weak.global.u32 [%rd2], 0;",
    "st.release": "st.release.gpu.global.u32 [%rd2], 0;",
    "red": "red.global.add.u32 [%rd2], 1;",
    "multimem": "multimem.red.global.add.u32 [%rd2], 1;",
    "multimem.ld_reduce": "multimem.ld_reduce.global.add.u32 %r9, [%rd2];",  # one of many that are taken for stores
    "atom": "atom.global.exch.b32 %r9, [%rd2], 1;",
    "discard": "discard.global.L2 [%rd2], 128;",
    "sust": "sust.b.1d.b32.trap [%rd2, {%r1}], %r2;",
    "sured": "sured.b.add.1d.u32.trap [%rd2, {%r1}], %r2;",
    "wmma.store": "wmma.store.d.sync.aligned.row.m16n16k16.global.f32 [%rd2], {%r10, %r11, %r12, %r13, %r14, %r15, %r16, %r17};",
    "cp.async.bulk … bulk_group": "cp.async.bulk.global.shared::cta.bulk_group [%rd2], [buffer], 16;",
    "cp.reduce.async.bulk … bulk_group": "cp.reduce.async.bulk.global.shared::cta.bulk_group.add.u32 [%rd2], [buffer], 16;",
}
# Rows without a result that write no global memory; those with a barrier deliver to shared memory.
_HARMLESS = """
    fence membar prefetch prefetchu applypriority nanosleep pmevent cp.async.ca cp.async.cg cp.async.commit_group
    cp.async.wait_group cp.async.wait_all cp.async.bulk.commit_group cp.async.bulk.wait_group cp.async.bulk.prefetch
    tcgen05.cp tcgen05.mma tcgen05.shift tcgen05.fence::before_thread_sync tcgen05.fence::after_thread_sync
    tcgen05.relinquish_alloc_permit tcgen05.st tcgen05.wait::ld tcgen05.wait::st wgmma.fence wgmma.commit_group
    wgmma.wait_group bar.warp.sync stmatrix setmaxnreg.dec griddepcontrol.launch_dependents
"""


@pytest.mark.parametrize("store", STORES.values(), ids=list(STORES))
def test_whatever_writes_global_memory_is_a_store(store: str) -> None:
    text = HALVES.replace("@HALVES", "mov.b64 %rd2, %rd1;")
    with pytest.raises(Undecided):
        prove(read(text.replace("st.global.u32 [%rd2], 0;", store)))
    prove(read(text.replace("st.global.u32 [%rd2], 0;", "")))


def test_every_instruction_without_a_result_is_a_store_or_none() -> None:
    silent = {row for row, kind in ROWS.items() if kind in (Kind.EFFECT, Kind.MEET, Kind.PUBLISH)}
    assert silent - STORES.keys() == {*_HARMLESS.split()}


_SPLIT = "mov.b64 {%r5, %r6}, %rd1;\n\tst.shared.v2.b32 [buffer], {%r5, %r6};\n\tld.shared.v2.b32 {%r7, %r8}, [buffer];\n\t"


# Instructions that bring it back from shared memory, besides a load.
_FETCHED = {
    "exchanged": "atom.shared.exch.b64 %rd2, [buffer], 0;",
    "added to": "atom.shared.add.u64 %rd2, [buffer], 0;",
    "compared": "atom.shared.cas.b64 %rd2, [buffer], 0, 0;",
    "exchanged in halves": "atom.shared.exch.b32 %r5, [buffer], 0; atom.shared.exch.b32 %r6, [buffer+4], 0; mov.b64 %rd2, {%r5, %r6};",
    "as a matrix": "ldmatrix.sync.aligned.m8n8.x2.shared.b16 {%r5, %r6}, [buffer]; mov.b64 %rd2, {%r5, %r6};",
}


@pytest.mark.parametrize(
    "code",
    [
        "mov.b64 %rd2, %rd1;",
        _SPLIT + "mov.b64 %rd2, {%r7, %r8};",
        _SPLIT + "cvt.u64.u32 %rd2, %r7;\n\tcvt.u64.u32 %rd3, %r8;\n\tshl.b64 %rd3, %rd3, 32;\n\tor.b64 %rd2, %rd2, %rd3;",
        _SPLIT
        + "mul.wide.u32 %rd3, %r8, 0x80000000;\n\tadd.u64 %rd3, %rd3, %rd3;\n\tcvt.u64.u32 %rd2, %r7;\n\tadd.u64 %rd2, %rd2, %rd3;",
        *(f"st.shared.b64 [buffer], %rd1;\n\t{code}" for code in _FETCHED.values()),
    ],
    ids=["whole", "side by side", "or", "sum", *_FETCHED],
)
def test_a_pointer_that_comes_back_from_memory_is_one(code: str) -> None:
    network = read(HALVES.replace("@HALVES", code))
    with pytest.raises(Undecided):
        prove(network)


# Stores at `y` and what is loaded from there.
DISPLACED = """
.version 8.8
.target sm_100a
.address_size 64
.visible .entry k(.param .u64 x, .param .u64 y)
.reqntid 32
{
	.reg .b16 %h1; .reg .b32 %r1; .reg .f32 %f1; .reg .b64 %rd<9>; .reg .f64 %fd1; .reg .b128 %q1;
	ld.param.u64 %rd1, [y];
	@LOADS
	add.s64 %rd3, %rd1, %rd2;
	st.global.u32 [%rd3], 0;
	ret;
}
"""


@pytest.mark.parametrize(
    ("loads", "apart"),
    [
        ("mov.b64 %rd2, 64;", True),
        ("ld.global.s32 %r1, [%rd1]; cvt.s64.s32 %rd2, %r1;", True),
        ("ld.global.u16 %h1, [%rd1]; cvt.u64.u16 %rd2, %h1;", True),
        ("ld.global.f32 %f1, [%rd1]; cvt.rzi.s64.f32 %rd2, %f1;", True),
        *((f"ld.global.{kind} %rd2, [%rd1];", False) for kind in ("b64", "u64", "s64")),
        ("ld.global.b64 %rd4, [%rd1]; cvt.u32.u64 %r1, %rd4; cvt.u64.u32 %rd2, %r1;", True),
        ("ld.global.b64 %rd4, [%rd1]; cvt.u32.u64 %r1, %rd4; add.s64 %rd2, %rd4, 0;", False),
        ("ld.global.b64 %rd4, [%rd1]; cvt.u32.u64 %r1, %rd4; shr.u64 %rd2, %rd4, 4;", False),
        ("ld.global.b64 %rd4, [%rd1]; cvt.rn.f64.s64 %fd1, %rd4; mov.b64 %rd2, %fd1;", False),
        ("ld.global.v2.b64 {%rd2, %rd4}, [%rd1];", False),
        ("ld.global.f64 %fd1, [%rd1]; mov.b64 %rd2, %fd1;", False),
        ("ld.global.b128 %q1, [%rd1]; mov.b128 {%rd2, %rd4}, %q1;", False),
    ],
)
def test_a_loaded_number_as_wide_as_an_address_may_lead_anywhere(loads: str, apart: bool) -> None:
    """A difference of two pointers leads from one tensor into the other; one of 32 bits is an index of the one to which it is added."""
    kernel = kernel_of(DISPLACED.replace("@LOADS", loads), "k")
    writes = Writes(kernel, {"x": "X", "y": "Y"})
    assert writes.spares("x") is apart and not writes.spares("y")


@pytest.mark.parametrize("result", ["%r9", "_"])
@pytest.mark.parametrize("guard", ["", "@%p1 "])
def test_an_atomic_operation_stores_whether_or_not_its_result_is_read(result: str, guard: str) -> None:
    text = HALVES.replace("@HALVES", "mov.b64 %rd2, %rd1;").replace(
        "st.global.u32 [%rd2], 0;", f"{guard}atom.global.exch.b32 {result}, [%rd2], 1;"
    )
    with pytest.raises(Undecided):
        prove(read(text))


# Ways to an address that the name of the parameter does not tell. With `whose`, the tensors of x, y and z.
WAYS = {
    "ld.param.u64 %rd3, [y];": "Y",
    "ld.param.u64 %rd3, [y+8];": "",
    "ld.param.v2.u64 {%rd4, %rd3}, [y];": "",
    "mov.b64 %rd4, y; ld.param.u64 %rd3, [%rd4+8];": "",
    "ld.param.u64 %rd3, [z];": "",
    "ld.param.u64 %rd3, [z]; ld.param.u64 %rd4, [y]; add.s64 %rd3, %rd3, %rd4;": "Y",
    "mov.b64 %rd3, 139637976727552;": "",
    "mov.u64 %rd3, %clock64;": "",
    "cvta.shared.u64 %rd3, buffer;": "none",
    "cvta.shared.u64 %rd3, buffer; ld.param.u64 %rd4, [z]; add.s64 %rd3, %rd3, %rd4;": "none",
}


@pytest.mark.parametrize(("way", "whose"), WAYS.items())
def test_an_address_that_is_made_of_no_tensor_leads_anywhere(way: str, whose: str) -> None:
    """Parameters lie next to each other, so that a load may read one that it does not name; and a number is no part of a tensor."""
    text = DISPLACED.replace("@LOADS", f".shared .align 16 .b8 buffer[16]; {way}").replace("add.s64 %rd3, %rd1, %rd2;", "")
    kernel = kernel_of(text.replace(".param .u64 y", ".param .u64 y, .param .u64 z").replace("st.global", "st"), "k")
    writes = Writes(kernel, {"x": "X", "y": "Y", "z": ""})
    assert (writes.spares("x"), writes.spares("y")) == {"Y": (True, False), "": (False, False), "none": (True, True)}[whose]
