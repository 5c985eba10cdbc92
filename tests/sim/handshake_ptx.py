"""One word from CTA 0 to CTA 1 and an answer that the place is free again; nobody exits before the other is done."""

from __future__ import annotations

import json

METADATA = {
    "kernel": "handshake",
    "roles": [{"name": "exchange", "first_warp": 0, "warps": 1}],
    "barriers": [
        {"pipeline": "box", "side": "full", "stages": 1, "offset": 0, "count": 1},
        {"pipeline": "box", "side": "empty", "stages": 1, "offset": 8, "count": 1},
    ],
}

HANDSHAKE = f"""// pipec.kernel {json.dumps(METADATA)}
.version 8.8
.target sm_100a
.address_size 64
.extern .shared .align 16 .b8 smem[];
.visible .entry handshake(.param .u64 out) .reqntid 32, 1, 1 .reqnctapercluster 2, 1, 1 {{
    .reg .pred %p<4>; .reg .b32 %r<12>; .reg .b64 %rd<4>;
    mov.u32 %r1, %cluster_ctarank; mov.u32 %r2, %tid.x; mov.u32 %r3, smem;
    ld.param.u64 %rd1, [out];
    setp.ne.u32 %p1, %r2, 0;
    @%p1 bra READY;
    mbarrier.init.shared::cta.b64 [%r3], 1;
    mbarrier.init.shared::cta.b64 [%r3+8], 1;
    fence.mbarrier_init.release.cluster;
    setp.eq.u32 %p2, %r1, 0;
    @%p2 bra READY;
    mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r3], 4;
READY:
    bar.warp.sync 0xffffffff;
    barrier.cluster.arrive.release.aligned;
    barrier.cluster.wait.acquire.aligned;
    @%p1 bra END;
    xor.b32 %r4, %r1, 1;
    mapa.shared::cluster.u32 %r5, %r3, %r4;
    setp.eq.u32 %p2, %r1, 0;
    @!%p2 bra TAKE;
    st.async.shared::cluster.mbarrier::complete_tx::bytes.b32 [%r5+16], 42, [%r5];
    bra END;
TAKE:
    mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 %p3, [%r3], 0;
    @!%p3 bra TAKE;
    ld.shared.u32 %r6, [%r3+16];
    st.global.u32 [%rd1], %r6;
    mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%r5+8];
END:
    bar.warp.sync 0xffffffff;
    barrier.cluster.arrive.release.aligned;
    barrier.cluster.wait.acquire.aligned;
    ret;
}}
"""
