"""Stages and phases computed from the number of the turn, as people write them: `k % 3`, `k / 3 & 1`, in whichever instructions."""

import pytest

from pipec.protocol.judge import judge
from pipec.protocol.judgement import Judgement
from pipec.verify.logic import System
from pipec.verify.terms import Apply, Compare, Linear, Symbol, add, atom

KERNEL = """
.version 8.7
.target sm_100a
.address_size 64
.extern .shared .align 1024 .b8 smem[];
.visible .entry k(.param .u32 n, .param .u32 m)
.reqntid 64
{{
	.reg .pred %p<40>; .reg .b32 %r<90>;
	mov.u32 %r1, %tid.x;
	mov.u32 %r40, smem;
	ld.param.u32 %r2, [n];
	ld.param.u32 %r3, [m];
	setp.ne.u32 %p1, %r1, 0;
	@%p1 bra $READY;
{inits}
$READY:
	bar.sync 0;
	setp.lt.u32 %p2, %r1, 32;
	@%p2 bra $PRODUCE;
{consumer}
	bra $END;
$PRODUCE:
{producer}
$END:
	ret;
}}
"""
LOOP = """
	mov.u32 %r10, 0;
${name}:
	setp.ge.{kind} %p3, %r10, %r2;
	@%p3 bra ${name}END;
	{stage}
	mad.lo.u32 %r20, %r11, 8, %r40;
	xor.b32 %r13, %r12, {turned};
${name}WAIT:
	mbarrier.try_wait.parity.shared::cta.b64 %p4, [%r20+{waits}], %r13;
	@!%p4 bra ${name}WAIT;
	mbarrier.arrive.shared::cta.b64 _, [%r20+{arrives}];
	add.u32 %r10, %r10, 1;
	bra ${name};
${name}END:
"""
# Tiles of a grid of 4 blocks, and in each a loop of its own: the number of the turn goes on counting.
NESTED = """
	mov.u32 %r10, 0;
	mov.u32 %r50, %ctaid.x;
${name}TILE:
	setp.ge.s32 %p8, %r50, %r3;
	@%p8 bra ${name}END;
	mov.u32 %r51, 0;
${name}:
	setp.ge.s32 %p3, %r51, %r2;
	@%p3 bra ${name}NEXT;
	{stage}
	mad.lo.u32 %r20, %r11, 8, %r40;
	xor.b32 %r13, %r12, {turned};
${name}WAIT:
	mbarrier.try_wait.parity.shared::cta.b64 %p4, [%r20+{waits}], %r13;
	@!%p4 bra ${name}WAIT;
	mbarrier.arrive.shared::cta.b64 _, [%r20+{arrives}];
	add.u32 %r10, %r10, 1;
	add.s32 %r51, %r51, 1;
	bra ${name};
${name}NEXT:
	add.s32 %r50, %r50, 4;
	bra ${name}TILE;
${name}END:
"""


def judged(stages: int, stage: str, other: str = "", loop: str = LOOP, kind: str = "u32") -> Judgement:
    """Both sides compute the stage alike, unless there is another spelling for the producer."""
    full, empty = 0, 8 * stages
    inits = "\n".join(f"\tmbarrier.init.shared.b64 [smem+{8 * one}], 32;" for one in range(2 * stages))
    consumer = loop.format(name="C", stage=stage, turned=0, waits=full, arrives=empty, kind=kind)
    producer = loop.format(name="P", stage=other or stage, turned=1, waits=empty, arrives=full, kind=kind)
    return judge(KERNEL.format(inits=inits, consumer=consumer, producer=producer), "k")


QUOTIENT = """mul.hi.u32 %r14, %r10, 0xAAAAAAAB; shr.u32 %r14, %r14, 1;
	mul.lo.u32 %r15, %r14, 3; sub.u32 %r11, %r10, %r15; and.b32 %r12, %r14, 1;"""
REMAINDER = "rem.{0} %r11, %r10, {1}; div.{0} %r14, %r10, {1}; and.b32 %r12, %r14, 1;"


@pytest.mark.parametrize(
    ("stages", "stage", "other", "loop", "kind"),
    [
        (1, "mov.u32 %r11, 0; and.b32 %r12, %r10, 1;", "", LOOP, "u32"),
        (2, REMAINDER.format("u32", 2), "bfe.u32 %r11, %r10, 0, 1; bfe.u32 %r12, %r10, 1, 1;", LOOP, "u32"),
        (2, "and.b32 %r11, %r10, 1; and.b32 %r14, %r10, 2; setp.ne.u32 %p9, %r14, 0; selp.b32 %r12, 1, 0, %p9;", "", LOOP, "u32"),
        (3, REMAINDER.format("s32", 3), "", LOOP, "s32"),
        # As compilers divide by 3.
        (
            3,
            REMAINDER.format("u32", 3),
            QUOTIENT,
            LOOP,
            "u32",
        ),
        (2, "and.b32 %r11, %r10, 1; bfe.u32 %r12, %r10, 1, 1;", "", NESTED, "u32"),
    ],
)
def test_however_they_are_spelt(stages: int, stage: str, other: str, loop: str, kind: str) -> None:
    found = judged(stages, stage, other, loop, kind)
    assert found.certificate is not None, found.why


@pytest.mark.parametrize(
    ("stages", "stage", "other"),
    [
        (2, REMAINDER.format("u32", 2), "rem.u32 %r11, %r10, 2; and.b32 %r12, %r10, 1;"),  # the parity of the other side
        (3, REMAINDER.format("u32", 3), "rem.u32 %r11, %r10, 3; div.u32 %r14, %r10, 2; and.b32 %r12, %r14, 1;"),
        (2, REMAINDER.format("u32", 2), "add.u32 %r30, %r10, 1; " + REMAINDER.format("u32", 2).replace("%r10", "%r30")),
    ],
)
def test_spelt_wrongly(stages: int, stage: str, other: str) -> None:
    assert judged(stages, stage, other).certificate is None


SECOND = """
	mul.lo.s32 %r9, %r2, %r3;
	mul.lo.s32 %r10, %r9, {times};
	add.s32 %r8, %r10, 6;
	setp.gt.s32 %p7, %r3, 0;
	@%p7 bra ${{name}}ELSE;
	mov.u32 %r10, 0;
	mov.u32 %r8, %r2;
	bra ${{name}};
${{name}}ELSE:
	setp.ge.s32 %p6, %r10, %r8;
	@%p6 bra ${{name}}END;
"""


@pytest.mark.parametrize("times", [6, 5])
def test_a_start_that_may_wrap_is_no_multiple(times: int) -> None:
    """`6 * n * m` is one as a whole number, but what the machine leaves of it is at any stage, in any phase."""
    loop = LOOP.replace("\n\tmov.u32 %r10, 0;\n", SECOND.format(times=times)).replace("%r10, %r2;", "%r10, %r8;")
    found = judged(3, REMAINDER.format("s32", 3), "", loop, "s32")
    assert (found.certificate is not None) == (times == 6)
    if found.certificate is not None:
        fits = System(found.certificate.assumes)
        whole = atom(Apply("mul.lo.s64", (atom(Symbol("m")), atom(Symbol("n")))))
        assert fits.entails(Compare("ge", add(Linear((1 << 31) - 1), whole, -times)))
