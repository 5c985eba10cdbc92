"""Instructions that all warps of a warpgroup execute: where only some come to one, what happens is undefined, and nothing is proved."""

import pytest

from pipec.protocol.judge import judge

# One warp arrives, and all others wait.
TEXT = """
.version 8.7
.target sm_90a
.address_size 64
.visible .entry k()
.reqntid {threads}
{{
  .reg .pred %p<9>; .reg .b32 %r<9>;
  .shared .align 8 .b64 bar[1];
  mov.u32 %r0, %tid.x;
  setp.ne.u32 %p0, %r0, 0;
  @%p0 bra READY;
  mbarrier.init.shared::cta.b64 [bar], 32;
READY:
  bar.sync 0;
  setp.lt.u32 %p1, %r0, {first};
  {text}
  setp.ge.u32 %p2, %r0, 32;
  @%p2 bra WAIT;
  mbarrier.arrive.shared::cta.b64 _, [bar];
  bra DONE;
WAIT:
  mbarrier.try_wait.parity.shared::cta.b64 %p3, [bar], 0;
  @!%p3 bra WAIT;
DONE:
  ret;
}}
"""
FEWER, MORE = "setmaxnreg.dec.sync.aligned.u32 40;", "setmaxnreg.inc.sync.aligned.u32 240;"
FENCE, WAIT = "wgmma.fence.sync.aligned;", "wgmma.wait_group.sync.aligned 0;"


def proved(text: str, *, threads: int = 256, first: int = 128) -> bool:
    return judge(TEXT.format(text=text, threads=threads, first=first), "k").certificate is not None


@pytest.mark.parametrize("text", [FEWER, MORE, FENCE, WAIT])
def test_whole_warpgroups(text: str) -> None:
    assert proved(text)
    for threads in (128, 256):
        assert proved(f"@!%p1 bra OTHERS; {text} OTHERS:", first=threads)
        assert not proved(f"@!%p1 bra OTHERS; {text} OTHERS:", first=threads - 32)
        assert not proved(f"@%p1 bra OTHERS; {text} OTHERS:", first=32, threads=threads)
    assert proved(text, threads=96) is (text in (FEWER, MORE))
    assert not proved(f"@!%p1 bra OTHERS; {text} OTHERS:", first=64, threads=96)


@pytest.mark.parametrize("text", [FEWER, FENCE])
def test_warps_under_a_predicate(text: str) -> None:
    assert proved(f"@%p1 {text}")
    assert not proved(f"@%p1 {text}", first=64)


def test_two_instructions_are_not_the_same() -> None:
    apart = f"@!%p1 bra OTHERS; {FEWER} bra BOTH; OTHERS: {FEWER} BOTH:"
    assert proved(apart)
    assert not proved(apart, first=64)
