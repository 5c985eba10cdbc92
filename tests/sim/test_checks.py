"""Mistakes a GPU leaves undefined: each must be named, with its line."""

from __future__ import annotations

import numpy as np
import pytest

from pipec.sim import ArrayArgument, Options, ScalarArgument, SimulationError, launch

HEAD = ".version 8.6\n.target sm_100a\n.address_size 64\n.extern .shared .align 1024 .b8 dyn[];\n"
SETUP = """.reg .pred %p<8>; .reg .b32 %r<20>; .reg .b64 %rd<8>; .reg .b128 %q;
.shared .align 16 .b8 buf[64];
ld.param.u64 %rd1, [a]; mov.u32 %r1, %tid.x; setp.eq.u32 %p1, %r1, 0; mov.u32 %r2, buf; mov.u32 %r3, dyn;
"""


def fails(body: str, block: int = 32, **more) -> SimulationError:
    array = np.zeros(16, np.uint32)
    text = f"{HEAD}.entry k(.param .u64 a)\n{{\n{SETUP}{body}\nret;\n}}\n"
    with pytest.raises(SimulationError) as caught:
        launch(text, block=block, dynamic_smem=1024, arguments=[ArrayArgument(array, **more)])
    assert caught.value.ptx_line >= 8 or caught.value.kind == "step_limit"
    return caught.value


ONE = "@!%p1 bra END;\n"
BARRIER = ONE + "mbarrier.init.shared::cta.b64 [%r3], 1;\n"

CASES = {
    "global past the end": ("out_of_bounds", "0 bytes past the end of argument 0", "ld.global.u32 %r4, [%rd1+64];"),
    "shared past the end": ("out_of_bounds", "shared address", "st.shared.u32 [%r3+1024], %r1;"),
    "reserved shared memory": ("out_of_bounds", "0x3fc", "st.shared.u32 [%r2+-4], %r1;"),
    "misaligned": ("misaligned", "not a multiple of 4", "ld.global.u32 %r4, [%rd1+2];"),
    "misaligned vector": ("misaligned", "16 bytes", "ld.global.v4.b32 {%r4, %r5, %r6, %r7}, [%rd1+8];"),
    "unwritten shared": ("uninitialised", "nothing has written", "ld.shared.u32 %r4, [%r2]; st.global.u32 [%rd1], %r4;"),
    "load of a barrier": ("undefined", "live mbarrier", BARRIER + "ld.shared.u32 %r4, [%r3];\nEND:"),
    "second init": ("undefined", "live mbarrier", BARRIER + "mbarrier.init.shared::cta.b64 [%r3], 1;\nEND:"),
    "no barrier there": ("uninitialised", "no mbarrier", ONE + "mbarrier.arrive.shared::cta.b64 _, [%r3];\nEND:"),
    "too many arrivals": (
        "arrive_underflow",
        "arrivals",
        BARRIER + "mbarrier.expect_tx.relaxed.cta.shared::cta.b64 [%r3], 16;\n"
        "mbarrier.arrive.shared::cta.b64 _, [%r3];\nmbarrier.arrive.shared::cta.b64 _, [%r3];\nEND:",
    ),
    "bytes open at the end": (
        "byte_mismatch",
        "-16 bytes outstanding",
        BARRIER + "mbarrier.complete_tx.relaxed.cta.shared::cta.b64 [%r3], 16;\nEND:",
    ),
    "tx overflow": (
        "byte_mismatch",
        "outside",
        BARRIER + "mbarrier.expect_tx.relaxed.cta.shared::cta.b64 [%r3], 1048575;\n"
        "mbarrier.expect_tx.relaxed.cta.shared::cta.b64 [%r3], 1048575;\nEND:",
    ),
    "late waiter": (
        "undefined",
        "came late",
        BARRIER + "mbarrier.arrive.shared::cta.b64 _, [%r3];\n"
        "FIRST: mbarrier.test_wait.parity.shared::cta.b64 %p2, [%r3], 0; @!%p2 bra FIRST;\n"
        + 3 * "mbarrier.arrive.shared::cta.b64 _, [%r3];\n"
        + "LATER: mbarrier.test_wait.parity.shared::cta.b64 %p2, [%r3], 1; @!%p2 bra LATER;\nEND:",
    ),
    "diverged barrier": ("undefined", ".aligned", ONE + "bar.sync 0;\nEND:"),
    "diverged tensor allocation": (
        "undefined",
        ".aligned",
        ONE + "tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [%r2], 32;\nEND:",
    ),
    "tensor memory kept": ("leaked_tmem", "32 columns", "tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [%r2], 32;"),
    "unwritten tensor memory": (
        "uninitialised",
        "never written",
        """tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [%r2], 32;\ntcgen05.ld.sync.aligned.32x32b.x1.b32 {%r4}, [0];
        tcgen05.wait::ld.sync.aligned; tcgen05.dealloc.cta_group::1.sync.aligned.b32 0, 32; st.global.u32 [%rd1], %r4;""",
    ),
    "foreign rank": ("out_of_bounds", "CTA rank 1", "add.u32 %r4, %r2, 0x1000000;\nst.shared.u32 [%r4], %r1;"),
    "absent peer": ("out_of_bounds", "cluster of 1", "mapa.shared::cluster.u32 %r4, %r2, 3;\nld.shared::cluster.u32 %r5, [%r4];"),
    "trap": ("trap", "trap", "trap;"),
    "wait without arrive": ("undefined", "without barrier.cluster.arrive", "barrier.cluster.wait;"),
    "unaligned thread count": ("undefined", "multiple of 32", "bar.sync 1, 33;"),
    "unknown modifier": ("unsupported", ".sparkling", "add.sparkling.u32 %r1, %r1, %r1;"),
}


@pytest.mark.parametrize("name", CASES)
def test_mistake(name):
    kind, words, body = CASES[name]
    error = fails(body)
    assert (error.kind, words in error.message) == (kind, True), str(error)


def test_read_only_array():
    error = fails("st.global.u32 [%rd1], %r1;", writable=False)
    assert error.kind == "out_of_bounds" and "read-only" in error.message


def test_deadlock_of_foreign_ptx_names_addresses():
    error = fails(BARRIER + "L: mbarrier.try_wait.parity.shared::cta.b64 %p2, [%r3], 0;\n@!%p2 bra L;\nEND:", block=64)
    assert error.kind == "deadlock"
    assert (
        "warp 0, 1 lane: waits for mbarrier at shared 0x800: wants phase 0, current phase 0 (1 of 1 arrivals missing)"
        in error.message
    )


def test_deadlock_on_a_cta_barrier():
    error = fails("setp.lt.u32 %p2, %r1, 32;\n@%p2 bar.sync 1, 64;\nEND:", block=64)
    assert error.kind == "deadlock" and "barrier 1, where 32 of 64 threads have arrived" in error.message


def test_step_limit():
    with pytest.raises(SimulationError) as caught:
        launch(f"{HEAD}.entry k() {{ L: bra L; }}", block=32, options=Options(step_limit=1000))
    assert caught.value.kind == "step_limit"


@pytest.mark.parametrize("arguments, words", [([], "1 parameters, 0 given"), ([ScalarArgument(b"1234")], "has 8 bytes, 4 given")])
def test_arguments_must_fit(arguments, words):
    with pytest.raises(SimulationError) as caught:
        launch(f"{HEAD}.entry k(.param .u64 a) {{ ret; }}", block=32, arguments=arguments)
    assert caught.value.kind == "argument" and words in caught.value.message


def test_a_peek_may_fail_without_hanging():
    """try_wait that returns false must not be waited on for ever: the kernel arrives itself afterwards."""
    array = np.zeros(32, np.uint32)
    body = (
        BARRIER
        + """mbarrier.try_wait.parity.shared::cta.b64 %p2, [%r3], 0;
    @%p2 bra DONE;
    mbarrier.arrive.shared::cta.b64 _, [%r3];
    L: mbarrier.test_wait.parity.shared::cta.b64 %p2, [%r3], 0;
    @!%p2 bra L;
    st.global.u32 [%rd1], 7;
    DONE: END:"""
    )
    launch(
        f"{HEAD}.entry k(.param .u64 a)\n{{\n{SETUP}{body}\nret;\n}}\n",
        block=32,
        dynamic_smem=1024,
        arguments=[ArrayArgument(array)],
    )
    assert array[0] == 7


def test_exited_lanes_are_not_waited_for():
    """One lane spins and exits while the others already wait at bar.warp.sync for the full mask."""
    array = np.zeros(32, np.uint32)
    body = """@%p1 bra ALONE;
    bar.warp.sync 0xffffffff;
    st.global.u32 [%rd1+4], 5;
    bra END;
    ALONE: mov.u32 %r4, 0;
    L: add.u32 %r4, %r4, 1; setp.lt.u32 %p2, %r4, 200; @%p2 bra L;
    ret;
    END:"""
    launch(
        f"{HEAD}.entry k(.param .u64 a)\n{{\n{SETUP}{body}\nret;\n}}\n",
        block=32,
        dynamic_smem=1024,
        arguments=[ArrayArgument(array)],
    )
    assert array[1] == 5


TURNS = """setp.ge.u32 %p4, %r1, 32; @%p4 bra WAITER;
mbarrier.arrive.shared::cta.b64 _, [%r3];
W0: mbarrier.try_wait.parity.shared::cta.b64 %p2, [%r3+16], 0; @!%p2 bra W0;
mbarrier.arrive.shared::cta.b64 _, [%r3];
V1: mbarrier.try_wait.parity.shared::cta.b64 %p2, [%r3], 1; @!%p2 bra V1;
mbarrier.arrive.shared::cta.b64 _, [%r3];
V2: mbarrier.try_wait.parity.shared::cta.b64 %p2, [%r3], 0; @!%p2 bra V2;
mbarrier.arrive.shared::cta.b64 _, [%r3+8];
W1: mbarrier.try_wait.parity.shared::cta.b64 %p2, [%r3+16], 1; @!%p2 bra W1;
mbarrier.arrive.shared::cta.b64 _, [%r3];
bra END;
WAITER:
W2: mbarrier.try_wait.parity.shared::cta.b64 %p2, [%r3], 0; @!%p2 bra W2;
mbarrier.arrive.shared::cta.b64 _, [%r3+16];
W3: mbarrier.try_wait.parity.shared::cta.b64 %p2, [%r3+8], 0; TOLD bra W3;
mbarrier.arrive.shared::cta.b64 _, [%r3+16];
W4: mbarrier.try_wait.parity.shared::cta.b64 %p2, [%r3], 1; @!%p2 bra W4;
END:
"""


@pytest.mark.parametrize("told", [True, False])
def test_phases_that_others_took_are_passed_over(told):
    """Consumers in turn: who is told that phases have passed means the one after them. Who is not told is late, two phases behind."""
    inits = "".join(f"mbarrier.init.shared::cta.b64 [%r3+{at}], 1;\n" for at in (0, 8, 16))
    lanes = "and.b32 %r6, %r1, 31; setp.ne.u32 %p5, %r6, 0; @%p5 bra END;\n"
    turns = TURNS.replace("TOLD", "@!%p2") if told else TURNS.replace("TOLD bra W3;", "")
    if not told:
        # Time enough for the phases to pass, without being told of them.
        turns = turns.replace("W3: mbarrier.try_wait.parity.shared::cta.b64 %p2, [%r3+8], 0;", "nanosleep.u32 100000;")
    body = "@%p1 bra INIT; bra READY;\nINIT:\n" + inits + "READY: bar.sync 0;\n" + lanes + turns
    text = f"{HEAD}.entry k(.param .u64 a)\n{{\n{SETUP}{body}\nret;\n}}\n"
    given = {"block": 64, "dynamic_smem": 1024, "arguments": [ArrayArgument(np.zeros(16, np.uint32))]}
    if told:
        launch(text, **given)
        return
    with pytest.raises(SimulationError, match="came late"):
        launch(text, **given)


# Two warps: the first one completes two phases on its own, the second one waits for the first of them, or for what it takes for it.
PHASES = """.reg .b32 %bar; .reg .pred %one; .reg .b32 %x; mov.u32 %x, dyn; add.u32 %bar, %x, 128; setp.eq.u32 %p0, %r1, 0;
@%p0 mbarrier.init.shared::cta.b64 [%bar], 1; @%p0 mbarrier.init.shared::cta.b64 [%bar+8], 1; bar.sync 0;
{1} setp.ge.u32 %p1, %r1, 32; @%p1 bra SECOND;
@!%p0 bra END; mbarrier.arrive.shared::cta.b64 _, [%bar]; bra END;
SECOND: {0}
END:"""


def test_a_parity_that_means_the_wrong_phase_is_found_however_late_it_is_tested() -> None:
    """Behind the phase the other parity is false, and a loop or a longer wait hides that it would have been true before."""
    late = "nanosleep.u32 1000; mbarrier.test_wait.parity.shared::cta.b64 %p2, [%bar], {0};"
    assert not messages(late.format(0))
    (told,) = messages(late.format(1))
    assert "for parity 1, which means phase 1 now" in told and "nothing has shown this warp that phase 0 is complete" in told


def test_whoever_comes_after_all_arrivals_of_a_phase_knows_that_it_is_complete() -> None:
    """They need not have waited for it: partitions that start behind the arrival, as in a kernel of Gluon, or behind bar.sync."""
    test = "mbarrier.test_wait.parity.shared::cta.b64 %p2, [%bar], 1;"
    arrival = "@%p0 mbarrier.arrive.shared::cta.b64 _, [%bar];"
    assert not messages(test, arrival + " bar.sync 0;")
    assert messages(test, arrival)
    bytes_ = (
        "@%p0 mbarrier.arrive.expect_tx.shared::cta.b64 _, [%bar], 16;"
        "@%p0 mbarrier.complete_tx.relaxed.cta.shared::cta.b64 [%bar], 16;"
    )
    assert messages(test, bytes_ + " bar.sync 0;")  # nobody has waited for what brings them


def messages(second: str, first: str = "") -> list[str]:
    array = np.zeros(16, np.uint32)
    text = f"{HEAD}.entry k(.param .u64 a)\n{{\n{SETUP}{PHASES.format(second, first)}\nret;\n}}\n"
    options = Options(checks={"phase": "warn"})
    found = launch(text, block=64, dynamic_smem=1024, arguments=[ArrayArgument(array)], options=options).findings
    return [one.message for one in found if one.check == "phase"]
