"""Arrivals of threads that wait for neither side of a ring: to which phase they belong is counted from the arrivals alone."""

import json

import pytest

from pipec.protocol.judge import judge

KERNEL = """
.version 8.7
.target sm_100a
.address_size 64
.extern .shared .align 1024 .b8 smem[];
.visible .entry k(.param .u64 x)
.reqntid 64
{{
	.reg .pred %p<40>; .reg .b32 %r<90>; .reg .b64 %rd<9>;
	mov.u32 %r1, %tid.x;
	ld.param.u64 %rd1, [x];
	setp.ne.u32 %p1, %r1, 0;
	@%p1 bra $READY;
	mbarrier.init.shared.b64 [smem], {count};
	mbarrier.init.shared.b64 [smem+8], 1;
$READY:
	bar.sync 0;
	setp.ge.u32 %p2, %r1, 32;
	@%p2 bra $WAIT;
{arrivals}
	bra $END;
$WAIT:
	mbarrier.try_wait.parity.shared::cta.b64 %p4, [smem+{place}], 0;
	@!%p4 bra $WAIT;
$END:
	ret;
}}
"""
ARRIVE = "\tmbarrier.arrive.shared::cta.b64 _, [smem];\n"
COPY = """\telect.sync _|%p5, -1;
	@%p5 mbarrier.expect_tx.relaxed.cta.shared::cta.b64 [smem+8], {announced};
	@%p5 cp.async.bulk.shared::cta.global.mbarrier::complete_tx::bytes [smem+128], [%rd1], 128, [smem+8];
	@%p5 mbarrier.arrive.shared::cta.b64 _, [smem+8];
"""


@pytest.mark.parametrize(
    ("count", "arrivals", "place", "proved"),
    [
        (64, 2 * ARRIVE, 0, True),
        (96, 3 * ARRIVE, 0, True),
        (64, 3 * ARRIVE, 0, False),  # half of a phase is left
        (96, 2 * ARRIVE, 0, False),  # never complete
        (32, 2 * ARRIVE, 0, False),  # the second may come while the first phase is open
        (32, COPY.format(announced=128), 8, True),
        (32, COPY.format(announced=256), 8, False),
        (32, COPY.format(announced=64), 8, False),
    ],
)
def test_which_phase_an_arrival_is_for(count: int, arrivals: str, place: int, proved: bool) -> None:
    found = judge(KERNEL.format(count=count, arrivals=arrivals, place=place), "k")
    assert (found.certificate is not None) == proved, found.why


AROUND = """
.version 8.7
.target sm_100a
.address_size 64
.extern .shared .align 1024 .b8 smem[];
.visible .entry k(.param .u32 k_dim_n)
.reqntid 32
{{
	.reg .pred %p<9>; .reg .b32 %r<19>;
	ld.param.u32 %r9, [k_dim_n];
	mov.u32 %r1, %tid.x;
	setp.ne.u32 %p1, %r1, 0;
	@%p1 bra $READY;
{ready}
$READY:
	bar.sync 0;
	mov.b32 %r2, 0;
	mov.b32 %r3, 0;
	mov.b32 %r4, 0;
	setp.lt.s32 %p2, %r9, 1;
	@%p2 bra $END;
$TURN:
	shl.b32 %r5, %r3, 3;
	mov.u32 %r6, smem;
	add.u32 %r7, %r6, %r5;
{first}
$WAIT:
	mbarrier.try_wait.parity.shared::cta.b64 %p4, [%r7], %r4;
	@!%p4 bra $WAIT;
{second}
	add.u32 %r8, %r3, 1;
	setp.eq.u32 %p5, %r8, 3;
	selp.b32 %r3, 0, %r8, %p5;
	selp.b32 %r10, 1, 0, %p5;
	xor.b32 %r4, %r4, %r10;
	add.s32 %r2, %r2, 1;
	setp.lt.s32 %p6, %r2, %r9;
	@%p6 bra $TURN;
$END:
	ret;
}}
"""
READY = "".join(f"\tmbarrier.init.shared.b64 [smem+{8 * one}], 32;\n" for one in range(6))
SIGNAL = "\tmbarrier.arrive.shared::cta.b64 _, [%r7];"


@pytest.mark.parametrize(("first", "second", "proved"), [(SIGNAL, "", True), ("", SIGNAL, False)])
def test_an_arrival_before_the_wait_for_its_own_phase(first: str, second: str, proved: bool) -> None:
    """The ring has another side, for which the class waits nowhere; the stage goes round with the class's own waits."""
    sides = [{"pipeline": "p", "side": side, "offset": at, "stages": 3} for side, at in (("full", 1024), ("empty", 1048))]
    interface = {
        "kernel": "k",
        "arguments": [],
        "parameters": [{"kind": "dimension", "symbol": "k_dim_n", "dimension": "n"}],
        "grid": [1, 1, 1],
        "cluster": [1, 1, 1],
        "threads": 32,
        "roles": [],
        "barriers": sides,
    }
    found = judge(f"// pipec.kernel {json.dumps(interface)}\n{AROUND.format(ready=READY, first=first, second=second)}", "k")
    assert (found.certificate is not None) == proved, found.why
