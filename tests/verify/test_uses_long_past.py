"""A CTA that is signalled by a peer in its first turn, and goes on for many more: whether anybody has waited for that signal counts
however long ago it was. Right texts, and neighbours that the simulator finds."""

import json

import numpy as np
import pytest

from pipec.protocol.judge import judge
from pipec.sim import Options, SimulationError, launch

# The first thread of each CTA fills a stage in each turn, which the second warp frees. In the first turn it also
# stores to its peer, which has announced the bytes.
KERNEL = """
.version 8.7
.target sm_90a
.address_size 64
.visible .entry k(.param .u32 n)
.reqntid 64
.explicitcluster
.reqnctapercluster 2, 1, 1
{{
  .reg .pred %p<9>; .reg .b32 %r<20>;
  .shared .align 8 .b8 $shared[32];
  mov.u32 %r0, %tid.x;
  mov.u32 %r1, $shared;
  setp.ne.u32 %p0, %r0, 0;
  setp.ge.u32 %p1, %r0, 32;
  @%p0 bra READY;
  mbarrier.init.shared::cta.b64 [$shared], 1;
  mbarrier.init.shared::cta.b64 [$shared+8], 1;
  mbarrier.init.shared::cta.b64 [$shared+16], 1;
  fence.mbarrier_init.release.cluster;
READY:
  barrier.cluster.arrive.relaxed;
  barrier.cluster.wait;
  ld.param.u32 %r2, [n];
  min.u32 %r2, %r2, 100000;
  max.u32 %r2, %r2, {least};
  mov.u32 %r3, %cluster_ctarank;
  xor.b32 %r3, %r3, 1;
  mapa.shared::cluster.u32 %r4, %r1, %r3;
  mov.u32 %r5, 0; mov.u32 %r6, 0; mov.u32 %r7, 0;
  @%p1 bra WAITS;
  @%p0 bra OTHERS;
TURN:
  xor.b32 %r8, %r6, 1;
FREE:
  mbarrier.try_wait.parity.shared::cta.b64 %p2, [$shared], %r8;
  @!%p2 bra FREE;
  setp.ne.u32 %p3, %r7, 0;
  @%p3 bra FILL;
  mov.u32 %r7, 1;
  st.async.shared::cluster.mbarrier::complete_tx::bytes.b32 [%r4+24], 1, [%r4+16];
FILL:
  mbarrier.arrive.shared::cta.b64 _, [$shared+8];
  xor.b32 %r6, %r6, 1;
  add.u32 %r5, %r5, 1;
  setp.lt.u32 %p4, %r5, %r2;
  @%p4 bra TURN;
  bra END;
WAITS:
  mbarrier.try_wait.parity.shared::cta.b64 %p2, [$shared+8], %r6;
  @!%p2 bra WAITS;
  bar.warp.sync -1;
  setp.ne.u32 %p3, %r0, 32;
  @%p3 bra PAST;
  mbarrier.arrive.shared::cta.b64 _, [$shared];
PAST:
  bar.warp.sync -1;
  xor.b32 %r6, %r6, 1;
  add.u32 %r5, %r5, 1;
  setp.lt.u32 %p4, %r5, %r2;
  @%p4 bra WAITS;
  bra END;
OTHERS:
  setp.ne.u32 %p3, %r0, 1;
  @%p3 bra END;
  mbarrier.arrive.expect_tx.shared::cta.b64 _, [$shared+16], 4;
  {waited}
END:
  ret;
}}
"""
WAITED = "LATE: mbarrier.try_wait.parity.shared::cta.b64 %p2, [$shared+16], 0; @!%p2 bra LATE;"
ROWS = [("empty", 0), ("full", 16)]  # the signal is in the turn of what has been freed


def text(waited: str, least: int) -> str:
    interface = {
        "kernel": "k",
        "parameters": [{"kind": "dimension", "symbol": "n", "dimension": "N"}],
        "roles": [],
        "grid": [2, 1, 1],
        "barriers": [{"pipeline": "p", "side": side, "stages": 1, "offset": offset} for side, offset in ROWS],
    }
    return f"// pipec.kernel {json.dumps(interface)}{KERNEL.format(waited=waited, least=least)}"


@pytest.mark.parametrize("least", [3, 12, 30])
@pytest.mark.parametrize(("waited", "kinds"), [(WAITED, []), ("", ["peers"])])
def test_a_signal_many_turns_ago(waited: str, kinds: list[str], least: int) -> None:
    ptx = text(waited, least)
    found = judge(ptx, "k")
    assert found.certificate is not None and found.network is not None, found.why
    assert [one.kind for one in found.network.assumptions] == kinds
    assert happens(ptx) == ("undefined" if kinds else "")


def happens(ptx: str) -> str:
    """What the simulator finds in one of several orders."""
    for seed in range(8):
        try:
            launch(
                ptx, "k", grid=2, arguments=(np.uint32(0),), options=Options("random", seed, 9000, trace=False, rules="documents")
            )
        except SimulationError as error:
            return error.kind
    return ""
