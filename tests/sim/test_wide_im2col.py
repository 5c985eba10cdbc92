"""cp.async.bulk.tensor in the modes im2col::w and im2col::w::128, from the instruction to shared memory."""

from __future__ import annotations

import numpy as np
import pytest

from pipec.sim import Im2colMap, SimulationError, TensorMapArgument, launch

PTX = """.version 9.0\n.target sm_100a\n.address_size 64
.entry k(.param .align 64 .b8 map[128], .param .u64 p1) {{
.reg .pred %p<3>; .reg .b16 %h<4>; .reg .b32 %r<9>; .reg .b64 %d<4>; .shared .align 1024 .b8 tile[10240]; .shared .align 8 .b64 bar;
mov.u64 %d1, map; cvta.param.u64 %d1, %d1; ld.param.u64 %d2, [p1]; mov.b16 %h1, {halo}; mov.b16 %h2, {offset}; mov.b32 %r1, tile;
mbarrier.init.shared.b64 [bar], 1; mbarrier.arrive.expect_tx.shared.b64 _, [bar], {bytes};
cp.async.bulk.tensor.4d.shared::cta.global.{mode}.mbarrier::complete_tx::bytes [tile], [%d1, {{0, 0, 1, 0}}], [bar], {{{given}}};
wait: mbarrier.try_wait.parity.shared.b64 %p1, [bar], 0; @!%p1 bra wait;
mov.b32 %r2, 0;
copy: ld.shared.b32 %r3, [%r1]; st.global.b32 [%d2], %r3; add.u32 %r1, %r1, 4; add.s64 %d2, %d2, 4; add.u32 %r2, %r2, 4;
setp.lt.u32 %p2, %r2, {bytes}; @%p2 bra copy; ret; }}"""


def run(mode: str, wide: str, rows: int, halo: int = 2, given: str = "%h1, %h2") -> tuple[np.ndarray, np.ndarray]:
    tensor = np.random.default_rng(0).integers(0, 1 << 16, (50, 2, 4, 32), np.uint16)
    entry = Im2colMap("u16", (32, 4, 2, 50), (64, 256, 512), (0,), (0,), 32, 10, swizzle="64B", wide=wide)
    out = np.zeros((rows, 32), np.uint16)
    text = PTX.format(mode=mode, bytes=out.nbytes, halo=halo, offset=0, given=given)
    launch(text, block=1, arguments=[TensorMapArgument(entry, tensor), out])
    # The rows of 64 bytes are swizzled: chunk c of row r stands at c ^ (r / 2 % 4).
    chunks = out.reshape(rows, 4, 8)
    row = np.arange(rows)[:, None]
    return tensor[:, 1].reshape(200, 32), chunks[row, np.arange(4) ^ (row // 2 % 4)].reshape(rows, 32)


def test_a_row_and_its_halo():
    line, got = run("im2col::w", "w", 12)
    assert np.array_equal(got, line[:12])


def test_128_pixels_and_their_halos():
    line, got = run("im2col::w::128", "w128", 136)
    assert np.array_equal(got, line[[*range(128), 32, 64, 96, 128, 33, 65, 97, 129]])


@pytest.mark.parametrize(
    ("mode", "wide", "halo", "given", "words"),
    [
        ("im2col", "w", 0, "%h1, %h2", "through a wide im2col map"),
        ("im2col::w", "w128", 0, "%h1, %h2", "through a wide im2col map"),
        ("im2col::w", "no", 0, "%h1, %h2", "numbers per corner"),
        ("im2col::w::128", "w128", 32, "%h1, %h2", "halo of 32"),
        ("im2col::w", "w", 0, "%h1", "needs a halo and an offset"),
    ],
)
def test_what_does_not_fit(mode, wide, halo, given, words):
    with pytest.raises(SimulationError, match=words):
        run(mode, wide, 12, halo, given)
