"""Addresses that name a CTA (bits 24 and up of a shared address): reads, writes, atomics, barriers and bytes across CTAs.

The numbers for barriers are those measured on an H200 with two CTAs (init(3), one operation of CTA 0 on CTA 1's barrier).
"""

from __future__ import annotations

import numpy as np
import pytest

from pipec.sim import ArrayArgument, Options, SimulationError, TensorMap, TensorMapArgument, launch

HEAD = ".version 9.0\n.target sm_100a\n.address_size 64\n.extern .shared .align 128 .b8 smem[];\n"
TIMINGS = [Options("order"), Options("late"), Options("random", seed=3)]
SYNC = "barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;\n"
SETUP = """ld.param.u64 %out, [p0]; mov.u32 %rank, %cluster_ctarank; mov.u32 %t, %tid.x; mov.u32 %s, smem;
mad.lo.u32 %own, %t, 4, %s; mad.lo.u32 %r1, %rank, 32, %t; mul.wide.u32 %x, %r1, 4; add.s64 %out, %out, %x; setp.ne.u32 %p1, %t, 0;
"""


def run(body: str, ctas: int = 2, options: Options | None = None) -> np.ndarray:
    """[ctas, 32] words that the threads left at `%out`."""
    out = np.zeros((ctas, 32), np.uint32)
    registers = ".reg .pred %p<6>; .reg .b32 %rank, %t, %s, %own, %r<16>; .reg .b64 %out, %x, %d<8>; .reg .b16 %h<4>;"
    text = f"{HEAD}.entry k(.param .u64 p0) .reqntid 32, 1, 1 .reqnctapercluster {ctas}, 1, 1 {{ {registers} {SETUP}\n{body}\nret; }}"
    launch(text, grid=ctas, dynamic_smem=1024, arguments=[ArrayArgument(out)], options=options)
    return out


def test_addresses_carry_the_rank():
    out = run("shr.u32 %r2, %s, 24; st.global.u32 [%out], %r2;", ctas=4)
    assert (out == np.arange(4)[:, None]).all()
    out = run(
        "mapa.shared::cluster.u32 %r2, %own, 2; getctarank.shared::cluster.u32 %r3, %r2; st.global.u32 [%out], %r3;", ctas=4
    )
    assert (out == 2).all()


@pytest.mark.parametrize("generic", [False, True])
def test_reads_and_writes_of_the_next_cta(generic):
    """Each CTA writes into its right neighbour and then reads from its left one."""
    address = (
        "cvta.shared.u64 %d1, %own; add.u32 %r2, %rank, 1; and.b32 %r2, %r2, 3; mapa.u64 %d2, %d1, %r2; mad.lo.u32 %r3, %rank, 100, %t; "
        "st.u32 [%d2], %r3;"
        if generic
        else "add.u32 %r2, %rank, 1; and.b32 %r2, %r2, 3; mapa.shared::cluster.u32 %r4, %own, %r2; mad.lo.u32 %r3, %rank, 100, %t; "
        "st.shared::cluster.u32 [%r4], %r3;"
    )
    body = f"""{SYNC} {address} {SYNC}
    add.u32 %r2, %rank, 3; and.b32 %r2, %r2, 3; mapa.shared::cluster.u32 %r4, %own, %r2; ld.shared::cluster.u32 %r5, [%r4];
    ld.shared.u32 %r6, [%own]; mad.lo.u32 %r5, %r5, 1000, %r6; st.global.u32 [%out], %r5; {SYNC}"""
    out, rank, lane = run(body, ctas=4), np.arange(4)[:, None], np.arange(32)
    own, left = ((rank - shift) % 4 * 100 + lane for shift in (1, 2))
    assert (out == left * 1000 + own).all()


@pytest.mark.parametrize(
    ("operation", "want"),
    [("add.u32", 2 * 496), ("max.u32", 31), ("or.b32", 31), ("inc.u32", None), ("xor.b32", 0)],
)
def test_atomics_on_another_cta(operation, want):
    """All threads of both CTAs on one word of CTA 1."""
    operand = "%t" if want is not None else "1000"
    body = f"""st.shared.u32 [%own], 0; {SYNC} mapa.shared::cluster.u32 %r4, %s, 1;
    red.relaxed.cluster.shared::cluster.{operation} [%r4], {operand};
    {SYNC} ld.shared::cluster.u32 %r5, [%r4]; st.global.u32 [%out], %r5; {SYNC}"""
    assert (run(body) == (64 if want is None else want)).all()


REMOTE = {
    "mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%r4];": (2, 0),
    "mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%r4], 2;": (1, 0),
    "mbarrier.arrive.expect_tx.release.cluster.shared::cluster.b64 _, [%r4], 64;": (2, 64),
    "mbarrier.expect_tx.relaxed.cluster.shared::cluster.b64 [%r4], 32;": (3, 32),
    "mbarrier.complete_tx.relaxed.cluster.shared::cluster.b64 [%r4], 32;": (3, -32),
    "mbarrier.arrive_drop.release.cluster.shared::cluster.b64 _, [%r4];": (2, 0),
}


@pytest.mark.parametrize("instruction", REMOTE)
def test_operations_on_a_remote_barrier(instruction):
    """CTA 1 settles the bytes and asks how many arrivals were pending before one more of its own."""
    pending, bytes_ = REMOTE[instruction]
    settle = {0: "", 64: "complete_tx", 32: "complete_tx", -32: "expect_tx"}[bytes_]
    undo = f"mbarrier.{settle}.relaxed.cta.shared::cta.b64 [%s], {abs(bytes_)};" if settle else ""
    body = f"""@%p1 bra INIT; mbarrier.init.shared::cta.b64 [%s], 3; fence.mbarrier_init.release.cluster;
    INIT: bar.warp.sync -1; {SYNC}
    setp.ne.u32 %p2, %rank, 0; or.pred %p3, %p2, %p1; @%p3 bra DONE; mapa.shared::cluster.u32 %r4, %s, 1; {instruction}
    DONE: bar.warp.sync -1; {SYNC}
    setp.ne.u32 %p2, %rank, 1; or.pred %p3, %p2, %p1; @%p3 bra END; {undo}
    mbarrier.arrive.release.cta.shared::cta.b64 %d3, [%s]; mbarrier.pending_count.b64 %r5, %d3; st.global.u32 [%out], %r5;
    END: bar.warp.sync -1; {SYNC}"""
    assert run(body)[1, 0] == pending


@pytest.mark.parametrize("options", TIMINGS, ids=lambda options: options.timing)
def test_bytes_of_several_ctas_meet_on_one_barrier(options):
    """CTAs 1 to 3 copy 64 bytes each into CTA 0, which expects 192; CTA 0 reads only when all are there."""
    body = f"""@%p1 bra INIT; mbarrier.init.shared::cta.b64 [%s+512], 1; fence.mbarrier_init.release.cluster;
    setp.ne.u32 %p2, %rank, 0; @%p2 bra INIT; mbarrier.arrive.expect_tx.shared::cta.b64 _, [%s+512], 192;
    INIT: bar.warp.sync -1; mad.lo.u32 %r3, %rank, 100, %t; st.shared.u32 [%own+256], %r3; fence.proxy.async.shared::cta; {SYNC}
    setp.eq.u32 %p2, %rank, 0; @%p2 bra TAKE; @%p1 bra END;
    mad.lo.u32 %r4, %rank, 64, %s; add.u32 %r4, %r4, -64; mapa.shared::cluster.u32 %r4, %r4, 0; add.u32 %r5, %s, 512;
    mapa.shared::cluster.u32 %r5, %r5, 0; add.u32 %r6, %s, 256;
    cp.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes [%r4], [%r6], 64, [%r5];
    bra END;
    TAKE: mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 %p3, [%s+512], 0; @!%p3 bra TAKE;
    ld.shared.u32 %r5, [%own]; st.global.u32 [%out], %r5;
    END: bar.warp.sync -1; {SYNC}"""
    out = run(body, ctas=4, options=options)
    lane = np.arange(32)
    assert (out[0] == (lane // 16 + 1) * 100 + lane % 16).all()


PAIRS = f"""{HEAD}.entry k(.param .u64 p0, .param .align 64 .b8 map[128]) .reqntid 32, 1, 1 .reqnctapercluster 4, 1, 1 {{
    .reg .pred %p<6>; .reg .b32 %rank, %t, %s, %own, %r<16>; .reg .b64 %out, %x, %d<8>; .reg .b16 %h<4>;
    {SETUP}
    mov.b64 %d1, map; cvta.param.u64 %d1, %d1; and.b32 %r2, %rank, 1; setp.ne.u32 %p4, %r2, PARITY;
    @%p1 bra INIT; mbarrier.init.shared::cta.b64 [%s+512], 1; fence.mbarrier_init.release.cluster;
    @%p4 bra INIT; mbarrier.arrive.expect_tx.shared::cta.b64 _, [%s+512], 128;
    INIT: bar.warp.sync -1; {SYNC}
    setp.ne.u32 %p2, %rank, 1; or.pred %p2, %p2, %p1; @%p2 bra WAIT;
    mov.u16 %h1, 0xF; add.u32 %r3, %s, 512; SIGNAL mov.u32 %r4, 0;
    cp.async.bulk.tensor.1d.shared::cluster.global.tile.mbarrier::complete_tx::bytes.multicast::cluster.cta_group::2
        [%s], [%d1, {{%r4}}], [%r3], %h1;
    WAIT: bar.warp.sync -1; @%p4 bra READ;
    LOOP: mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 %p3, [%s+512], 0; @!%p3 bra LOOP;
    READ: {SYNC} setp.gt.u32 %p2, %t, 15; @%p2 bra END; ld.shared.u32 %r5, [%own]; st.global.u32 [%out], %r5; END: ret; }}"""


@pytest.mark.parametrize("options", TIMINGS, ids=lambda options: options.timing)
@pytest.mark.parametrize(("parity", "signal"), [(0, "and.b32 %r3, %r3, 0xFEFFFFFF;"), (1, "")])
def test_multicast_signals_the_cta_of_the_same_parity_in_each_pair(parity, signal, options):
    """CTA 1 issues; the barrier operand is its own or, with bit 24 cleared, its even peer's: 64 bytes for each CTA of the pair."""
    source, out = np.arange(100, 116, dtype=np.uint32), np.zeros((4, 32), np.uint32)
    box = TensorMapArgument(TensorMap("u32", (16,), (), (16,)), source, False)
    text = PAIRS.replace("PARITY", str(parity)).replace("SIGNAL", signal)
    launch(text, grid=4, dynamic_smem=1024, arguments=[ArrayArgument(out), box], options=options)
    assert (out[:, :16] == source).all()


@pytest.mark.parametrize(
    ("body", "kind", "words"),
    [
        ("xor.b32 %r2, %own, 0x1000000; ld.shared.u32 %r3, [%r2];", "out_of_bounds", "belongs to CTA rank"),
        (
            "mapa.shared::cluster.u32 %r2, %own, 5; ld.shared::cluster.u32 %r3, [%r2];",
            "out_of_bounds",
            "CTA rank 5 of a cluster of 2",
        ),
        (
            (
                "setp.eq.u32 %p2, %rank, 0; @%p2 bra END; nanosleep.u32 5000; mapa.shared::cluster.u32 %r2, %own, 0; "
                "st.shared::cluster.u32 [%r2], %t;\nEND:"
            ),
            "undefined",
            "already exited",
        ),
        (
            (
                "@%p1 bra END; mapa.shared::cluster.u32 %r2, %s, 0; add.u32 %r4, %s, 64; mapa.shared::cluster.u32 %r3, %r4, 1; "
                "cp.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes [%r2], [%s], 16, [%r3];\nEND:"
            ),
            "undefined",
            "signals a barrier of rank 1",
        ),
    ],
)
def test_wrong_ranks(body, kind, words):
    with pytest.raises(SimulationError) as caught:
        run(f"st.shared.u32 [%own], %t; fence.proxy.async; {SYNC} {body}")
    assert caught.value.kind == kind and words in caught.value.message, str(caught.value)


@pytest.mark.parametrize("first", ["", SYNC])
def test_a_wait_for_the_cluster_follows_an_arrival(first):
    with pytest.raises(SimulationError, match="wait without barrier.cluster.arrive"):
        run(f"{first} barrier.cluster.wait.aligned;")
