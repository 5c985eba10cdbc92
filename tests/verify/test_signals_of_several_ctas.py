"""A thread signals the barriers of one CTA after the other, in as many instructions, and waits for none of them: each barrier counts its
own arrivals. Right texts, and neighbours that hang or lose count, which the simulator finds."""

import numpy as np
import pytest

from pipec.protocol.judge import judge
from pipec.sim import Options, SimulationError, launch

# The first thread of each CTA signals in turns, which it takes when the second warp of each CTA has freed both; that warp waits.
KERNEL = """
.version 8.7
.target sm_90a
.address_size 64
.visible .entry k(.param .u32 n)
.reqntid 64
.explicitcluster
.reqnctapercluster {ctas}, 1, 1
{{
  .reg .pred %p<9>; .reg .b32 %r<30>;
  .shared .align 8 .b64 full[{stages}]; .shared .align 8 .b64 free[{stages}];
  mov.u32 %r0, %tid.x;
  setp.ne.u32 %p0, %r0, 0;
  setp.ge.u32 %p1, %r0, 32;
  @%p0 bra READY;
  {make}
  fence.mbarrier_init.release.cluster;
READY:
  barrier.cluster.arrive.relaxed;
  barrier.cluster.wait;
  ld.param.u32 %r9, [n];
  mov.u32 %r4, 0; mov.u32 %r5, 0; mov.u32 %r6, 0;
  @%p1 bra WAITS;
  @%p0 bra END;
  setp.eq.u32 %p2, %r9, 0;
  @%p2 bra END;
TURN:
  {signal}
  {next}
  setp.lt.u32 %p3, %r4, %r9;
  @%p3 bra TURN;
  bra END;
WAITS:
  setp.eq.u32 %p2, %r9, 0;
  @%p2 bra END;
AGAIN:
  shl.b32 %r10, %r5, 3; add.u32 %r11, %r10, full;
TRY:
  mbarrier.try_wait.parity.shared::cta.b64 %p4, [%r11], %r6;
  @!%p4 bra TRY;
  {release}
  {next}
  setp.lt.u32 %p3, %r4, %r9;
  @%p3 bra AGAIN;
END:
  barrier.cluster.arrive;
  barrier.cluster.wait;
  ret;
}}
"""
# The next turn: of two stages, and of one.
NEXT = {
    1: "add.u32 %r4, %r4, 1; xor.b32 %r6, %r6, 1;",
    2: "add.u32 %r4, %r4, 1; xor.b32 %r5, %r5, 1; setp.eq.u32 %p5, %r5, 0; selp.b32 %r7, 1, 0, %p5; xor.b32 %r6, %r6, %r7;",
}
TAKE = (
    "shl.b32 %r20, %r5, 3; add.u32 %r21, %r20, free; xor.b32 %r22, %r6, 1; "
    "FREE: mbarrier.try_wait.parity.shared::cta.b64 %p6, [%r21], %r22; @!%p6 bra FREE;"
)
ARRIVE = "mbarrier.arrive.release.cluster.shared::cluster.b64 _, "


def signal(variable: str, *ranks: int) -> str:
    place = f"shl.b32 %r12, %r5, 3; add.u32 %r12, %r12, {variable};"
    return " ".join([place, *(f"mapa.shared::cluster.u32 %r13, %r12, {rank}; {ARRIVE} [%r13];" for rank in ranks)])


def text(fills: str, frees: str, *, stages: int = 1, ctas: int = 2, count: int = 0) -> str:
    make = " ".join(
        f"mbarrier.init.shared::cta.b64 [{name}+{8 * stage}], {count or ctas};"
        for name in ("full", "free")
        for stage in range(stages)
    )
    return KERNEL.format(make=make, signal=f"{TAKE} {fills}", release=frees, next=NEXT[stages], stages=stages, ctas=ctas)


def freed(*ranks: int) -> str:
    """By the first lane of the second warp."""
    return f"bar.warp.sync -1; setp.ne.u32 %p7, %r0, 32; @%p7 bra PAST; {signal('free', *ranks)} PAST: bar.warp.sync -1;"


RIGHT = {
    "one stage": text(signal("full", 0, 1), freed(0, 1)),
    "in the other order": text(signal("full", 1, 0), freed(0, 1)),
    "two stages": text(signal("full", 0, 1), freed(1, 0), stages=2),
    "four CTAs": text(signal("full", 2, 0, 3, 1), freed(0, 1, 2, 3), ctas=4),
}
WRONG = {
    "one CTA twice": text(signal("full", 0, 0), freed(0, 1)),
    "one CTA left out": text(signal("full", 0), freed(0, 1)),
    "one CTA once more": text(signal("full", 0, 1, 1), freed(0, 1)),
    "a count that is too large": text(signal("full", 0, 1), freed(0, 1), count=3),
    "freed for one alone": text(signal("full", 0, 1), freed(0), stages=2),
    "taken before it is free": text(signal("full", 0, 1), freed(0, 1)).replace(TAKE, ""),
}


def happens(ptx: str) -> str:
    ctas = 4 if "cluster 4" in ptx else 2
    for seed in range(12):
        try:
            options = Options("random", seed, 20000, trace=False, rules="documents")
            launch(ptx, "k", grid=ctas, arguments=(np.uint32(5),), options=options)
        except SimulationError as error:
            return error.kind
    return ""


@pytest.mark.parametrize("ptx", RIGHT.values(), ids=RIGHT)
def test_each_barrier_counts_its_own_arrivals(ptx: str) -> None:
    found = judge(ptx, "k")
    assert found.certificate is not None, found.why
    assert not happens(ptx)


@pytest.mark.parametrize("ptx", WRONG.values(), ids=WRONG)
def test_others_are_not_proved(ptx: str) -> None:
    assert judge(ptx, "k").certificate is None
    assert happens(ptx)
