"""Two CTAs, one MMA: pair routing of TMA signals, multicast commits, cluster barriers."""

from __future__ import annotations

import struct

import ml_dtypes
import numpy as np
import pytest

from pipec.sim import ArrayArgument, Options, ScalarArgument, SimulationError, TensorMap, TensorMapArgument, launch

from .pair_ptx import SHARED_BYTES, pair_ptx


def run(text: str, options: Options, k: int = 320) -> tuple[np.ndarray, np.ndarray]:
    """(result, expected)"""
    rng = np.random.default_rng(1)
    a, b = (rng.integers(-8, 8, (256, k)).astype(ml_dtypes.bfloat16) for _ in range(2))
    d = np.zeros((256, 256), np.float32)
    maps = [TensorMapArgument(TensorMap("bf16", (k, 256), (2 * k,), (64, 128), swizzle="128B"), x, False) for x in (a, b)]
    launch(
        text,
        grid=2,
        dynamic_smem=SHARED_BYTES,
        options=options,
        arguments=[*maps, ArrayArgument(d), ScalarArgument(struct.pack("<I", k // 64))],
    )
    return d, a.astype(np.float32) @ b.astype(np.float32).T


@pytest.mark.parametrize(
    "options",
    [Options("order"), Options("late"), Options("random", seed=1), Options("random", seed=2)],
    ids=lambda o: f"{o.timing}{o.seed}",
)
def test_pair(options):
    result, expected = run(pair_ptx(), options)
    np.testing.assert_array_equal(result, expected)


def test_commit_to_one_cta_only_starves_the_other():
    with pytest.raises(SimulationError) as caught:
        run(pair_ptx().replace("mov.u16 %h1, 3;", "mov.u16 %h1, 1;"), Options())
    assert caught.value.kind == "deadlock"
    assert "CTA (1,0,0) role `load` (warp 0)" in caught.value.message


def test_mixed_groups_are_refused():
    with pytest.raises(SimulationError) as caught:
        run(pair_ptx().replace("tcgen05.dealloc.cta_group::2", "tcgen05.dealloc.cta_group::1"), Options())
    assert "must agree" in caught.value.message
