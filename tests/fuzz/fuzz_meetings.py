"""Lanes of a warp that part and do something each by itself: meet, signal a barrier, exit. Where such a text is proved, the simulator runs
it to its end at several timings, and never finds lanes missing at an `.aligned` instruction."""

import random

from effort import given_up_soon
from fuzz.ptx_judge import CHECKS

from pipec.protocol import judge as judging
from pipec.sim import Options, SimulationError, launch

COUNT = 3000
_TIMINGS = (("order", 0), ("late", 0), ("random", 1), ("random", 2))
_PARTS = (
    "setp.lt.u32 %p3, %r0, 16;",
    "setp.lt.u32 %p3, %r0, 32;",
    "setp.lt.u32 %p3, %r0, 48;",
    "setp.eq.u32 %p3, %r0, 5;",
    "and.b32 %r3, %r0, 1; setp.eq.u32 %p3, %r3, 0;",
    "and.b32 %r3, %r0, 31; setp.eq.u32 %p3, %r3, 0;",
)
_STEPS = (
    "",
    "exit;",
    "nanosleep.u32 20;",
    "bar.sync 1;",
    "bar.sync 2, 32;",
    "bar.arrive 3, 64;",
    "bar.red.or.pred %p4, 1, %p1;",
    "barrier.sync 1;",
    "barrier.sync 2, 64;",
    "barrier.sync.aligned 1;",
    "bar.warp.sync -1;",
    "shfl.sync.idx.b32 %r3, %r0, 0, 31, -1;",
    "elect.sync _|%p4, -1;",
    "vote.sync.any.pred %p4, %p1, -1;",
    "match.any.sync.b32 %r3, %r0, -1;",
    "mbarrier.arrive.shared::cta.b64 _, [%r1+8];",
)
_OF_CLUSTERS = (
    "barrier.cluster.arrive; barrier.cluster.wait;",
    "barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;",
    "barrier.cluster.arrive.aligned;",
    "barrier.cluster.wait;",
)
# One warp arrives, if it comes so far, and the other waits.
_KERNEL = """.version 8.7
.target sm_90a
.address_size 64
.visible .entry k()
.reqntid 64
{cluster}{{
  .reg .pred %p<9>; .reg .b32 %r<9>;
  .shared .align 8 .b64 bar[2];
  mov.u32 %r0, %tid.x;
  mov.u32 %r1, bar;
  setp.ne.u32 %p0, %r0, 0;
  @%p0 bra READY;
  mbarrier.init.shared::cta.b64 [%r1], 32;
  mbarrier.init.shared::cta.b64 [%r1+8], 64;
READY:
  bar.sync 0;
  setp.lt.u32 %p1, %r0, 32;
  {part}
  @%p3 bra OTHERS;
  {mine}
  bra BOTH;
OTHERS:
  {others}
BOTH:
  {both}
  @%p1 bra ARRIVE;
WAIT:
  mbarrier.try_wait.parity.shared::cta.b64 %p2, [%r1], 0;
  @!%p2 bra WAIT;
  bra DONE;
ARRIVE:
  mbarrier.arrive.shared::cta.b64 _, [%r1];
DONE:
  ret;
}}
"""


def text(draw: random.Random) -> str:
    clusters = draw.random() < 0.3
    steps = (*_STEPS, *_OF_CLUSTERS) if clusters else _STEPS
    ways = [" ".join(draw.choice(steps) for _ in range(draw.choice((1, 1, 2)))) for _ in range(2)]
    both = draw.choice(("", "", "bar.warp.sync -1;", "bar.sync 0;", draw.choice(steps)))
    cluster = ".reqnctapercluster 2, 1, 1\n.explicitcluster\n" if clusters else ""
    return _KERNEL.format(cluster=cluster, part=draw.choice(_PARTS), mine=ways[0], others=ways[1], both=both)


def attempt(draw: random.Random) -> str | None:
    ptx = text(draw)
    with given_up_soon(refuting=False):
        found = judging.judge(ptx, "k")
    if found.certificate is None:
        return ptx if "the reader failed" in found.why else None
    for timing, seed in _TIMINGS:
        options = Options(timing, seed, 20_000, trace=False, checks=CHECKS, rules="documents")  # type: ignore[arg-type]
        try:
            launch(ptx, "k", grid=2 if "reqncta" in ptx else 1, arguments=(), options=options)
        except SimulationError as error:
            if "exit;" in ptx and "is .aligned, but only" in error.message:
                return None  # lanes that do nothing more have gone by then, as assemblers make it
            return f"// {timing} {seed}: {error.kind}: {error.message}\n{ptx}"
    return None
