"""The whole machine at once: a warp-specialised GEMM against NumPy, and the same kernel broken in known ways."""

from __future__ import annotations

import json
import struct

import ml_dtypes
import numpy as np
import pytest

from pipec.sim import ArrayArgument, Options, ScalarArgument, SimulationError, TensorMap, TensorMapArgument, chrome_trace, launch

from .gemm_ptx import SHARED_BYTES, gemm_ptx


def run(m=128, n=256, k=256, timing="order", seed=0, **broken):
    return run_text(gemm_ptx(**broken), m, n, k, timing, seed)


def run_text(text, m=128, n=256, k=256, timing="order", seed=0):
    result, given, expected = launch_text(text, m, n, k, timing, seed)
    np.testing.assert_array_equal(given, expected)
    return result


def launch_text(text, m=128, n=256, k=256, timing="order", seed=0):
    """(result of the launch, what it computed, what it should)"""
    rng = np.random.default_rng(7)
    a = rng.integers(-8, 8, (m, k)).astype(ml_dtypes.bfloat16)
    b = rng.integers(-8, 8, (n, k)).astype(ml_dtypes.bfloat16)
    d = np.zeros((m, n), ml_dtypes.bfloat16)

    def tensor_map(array, rows):
        return TensorMap("bf16", (k, array.shape[0]), (2 * k,), (64, rows), swizzle="128B")

    result = launch(
        text,
        "gemm",
        grid=(m // 128, n // 256, 1),
        dynamic_smem=SHARED_BYTES,
        options=Options(timing=timing, seed=seed),
        arguments=[
            TensorMapArgument(tensor_map(a, 128), a, False),
            TensorMapArgument(tensor_map(b, 256), b, False),
            ArrayArgument(d),
            ScalarArgument(struct.pack("<I", k // 64)),
            ScalarArgument(struct.pack("<I", n)),
        ],
    )
    expected = (a.astype(np.float32) @ b.astype(np.float32).T).astype(ml_dtypes.bfloat16)
    return result, d.astype(np.float32), expected.astype(np.float32)


@pytest.mark.parametrize("timing", ["order", "late"])
def test_result_matches_numpy(timing):
    result = run(k=512, timing=timing)
    kinds = {event.kind for event in result.trace}
    assert {"tma_issued", "tma_completed", "mma_issued", "mma_committed", "phase"} <= kinds


@pytest.mark.parametrize("seed", range(3))
def test_random_timing(seed):
    run(k=384, timing="random", seed=seed)


def test_two_tiles():
    run(m=256)


def failure(**broken) -> SimulationError:
    with pytest.raises(SimulationError) as caught:
        run(**broken)
    return caught.value


def test_missing_release_is_a_deadlock_with_names():
    error = failure(k=512, commit_empty=False)
    assert error.kind == "deadlock"
    text = str(error)
    assert "role `load` (warp 0)" in text and "pipeline `input`, empty barrier, stage 0" in text
    assert "gemm.pipe:22:13" in text
    assert "`load` waits on empty[0] of `input` -> `mma` waits on full[0] of `input` -> `load`" in text


def test_too_many_expected_bytes():
    error = failure(expected_bytes=49152 + 16)
    assert error.kind == "deadlock"
    assert "16 bytes outstanding" in str(error)


def test_leaked_tensor_memory():
    assert failure(dealloc=False).kind == "leaked_tmem"


def test_missing_full_wait_meets_the_load():
    error = failure(wait_full=False)
    # The MMA is issued at once, and then the loads that it should have waited for.
    assert error.kind == "race" and "TMA load of role `load` (warp 0) writes" in str(error)
    assert "tcgen05.mma of role `mma` (warp 1)" in str(error) and "nothing orders them" in str(error)
    assert error.details["pipeline"] == "input" and error.details["stage"] == 0


def test_timeline_is_json_with_spans():
    trace = chrome_trace(run().trace, {1024 + 196608: "full[0]"})
    events = json.loads(json.dumps(trace))["traceEvents"]
    assert sum(event["ph"] == "X" and event["tid"] == "TMA" for event in events) == 8
    assert any(event.get("name") == "tma -> full[0]" for event in events)
    assert sum(event["ph"] == "X" and event["tid"] == "tensor core" for event in events) == 16


def test_collector_buffers_hold_what_filled_them():
    """Each MMA of a stage has another A: the second one cannot take it from the buffer."""
    text = gemm_ptx()
    mma = "tcgen05.mma.cta_group::1.kind::f16"
    filled = text.replace(mma, f"{mma}.collector::a::fill")
    used = text.replace(mma, f"{mma}.collector::a::fill", 1).replace(f"{mma} ", f"{mma}.collector::a::use ", 1)
    run_text(filled, k=64)
    with pytest.raises(SimulationError) as caught:
        run_text(used, k=64)
    assert caught.value.kind == "undefined" and "collector buffer a" in caught.value.message
    same = used.replace("add.s64 %rd5, %rd3, 2;", "add.s64 %rd5, %rd3, 0;")
    launch_text(same, k=64)
