"""Arrivals of threads that wait for neither side of a ring: to which phase they belong is counted from the arrivals alone."""

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
