"""Roles of one warp whose lanes walk together: who waits, who acts, and what is computed for all."""

import re
from functools import cache
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest

import pipec
from pipec.runtime import LaunchOptions
from pipec.sim import Options

RING = """
kernel ring(a: tensor[bf16, M, K], b: tensor[bf16, N, K], d: tensor[f32, M, N]{more}):
    grid(ceildiv(M, 128), ceildiv(N, 64))
    input  = InputTilePipeline(StandardTilePayload(a=tile[bf16, 128, 64], b=tile[bf16, 64, 64]), stages=3)
    output = OutputTilePipeline(tmem[f32, 128, 64], stages=1)

    role load(warps=1) produces input:
        for k in range({steps}):
            with input.produce() as s:
                tma.load(s.a, a[block.x * 128, k * 64])
                tma.load(s.b, b[block.y * 64, k * 64])

    role mma(warps=1) consumes input produces output:
        with output.produce() as acc:
            for k in range({steps}):
                with input.consume() as s:
                    mma(acc, s.a, s.b)

    role epilogue(warps=4) consumes output:
        with output.consume() as acc:
            store(d[block.x * 128, block.y * 64], acc)
"""


@cache
def program(steps: str = "ceildiv(K, 64)", more: str = "") -> pipec.Program:
    return pipec.compile(RING.format(steps=steps, more=more))


def behind_waits(ptx: str) -> list[str]:
    """The instruction behind each wait."""
    return re.findall(r"mbarrier\.try_wait[^\n]*\n\tnot\.pred[^\n]*\n\t@%p\d+ bra[^\n]*\n\t(\S+)", ptx)


def test_lanes_meet_behind_each_wait() -> None:
    assert behind_waits(program().ptx) == ["bar.warp.sync"] * 4


PER_BLOCK = """
kernel per_block(a: tensor[bf16, M, K], b: tensor[bf16, N, K], d: tensor[f32, M, N]):
    grid(ceildiv(M, 128), ceildiv(N, 64))
    input    = InputTilePipeline(StandardTilePayload(a=tile[bf16, 128, 64], b=tile[bf16, 64, 64]), stages=3)
    output   = OutputTilePipeline(tmem[f32, 128, 64], stages=2)
    throttle = ProducerConsumerPipeline(stages=2)

    role load(warps=1) produces input, throttle:
        for k in range(ceildiv(K, 64)):
            throttle.producer_signal_and_step()
            with input.produce() as s:
                tma.load(s.a, a[block.x * 128, k * 64])
                tma.load(s.b, b[block.y * 64, k * 64])

    role mma(warps=1) consumes input, throttle produces output:
        for k in range(ceildiv(K, 64)):
            throttle.consumer_signal_and_step()
            with output.produce() as acc, input.consume() as s:
                mma(acc, s.a, s.b)

    role epilogue(warps=4) consumes output:
        total = registers(fill(0.0, f32, 128, 64))
        for k in range(ceildiv(K, 64)):
            with output.consume() as acc:
                total = total + acc
        store(d[block.x * 128, block.y * 64], total)
"""
_STEP = re.compile(
    r"\t(@%p\d+ )?(mbarrier\.try_wait|bar\.warp\.sync|mbarrier\.arrive(\.expect_tx)?|cp\.async\.bulk|tcgen05\.(?:mma|commit))"
)


def steps(ptx: str, role: str) -> list[str]:
    """Waits, meetings and acts from a role's text on, by their names."""
    return [match[2] for match in map(_STEP.match, ptx[ptx.index(f"// {role}(warps") :].splitlines()) if match]


def test_lanes_meet_once_in_front_of_what_acts() -> None:
    """Where two waits follow each other, behind the second; and not again for a signal that follows a meeting."""
    found = pipec.compile(PER_BLOCK)
    wait, meet, arrive = "mbarrier.try_wait", "bar.warp.sync", "mbarrier.arrive"
    load = [wait, meet, arrive, wait, meet, "mbarrier.arrive.expect_tx", *["cp.async.bulk"] * 2]
    product = [wait, meet, arrive, wait, wait, meet, *["tcgen05.mma"] * 4, *["tcgen05.commit"] * 2]
    assert steps(found.ptx, "load")[: len(load)] == load
    assert steps(found.ptx, "mma")[: len(product)] == product
    rng = np.random.default_rng(1)
    a, b = (rng.integers(-3, 4, (size, 64 * 5)).astype(ml_dtypes.bfloat16) for size in (128, 64))
    d = np.full((128, 64), np.nan, np.float32)
    found["per_block"](a, b, d, device="sim", options=LaunchOptions(Options(timing="random", seed=1)))
    assert np.array_equal(d, a.astype(np.float64) @ b.astype(np.float64).T)


@pytest.mark.parametrize(("example", "whole"), [("gemm_sm90", True), ("gemm_sm90_pingpong", False)])
def test_on_hopper_as_well_but_where_consumers_skip(example: str, whole: bool) -> None:
    """The role that loads elects a lane for the announcement, or the other lanes leave it alone from the beginning."""
    ptx = pipec.compile(Path(__file__).parents[2] / "examples" / f"{example}.pipe").ptx
    announced = re.findall(r"\t(@%p\d+ )?mbarrier\.arrive\.expect_tx", ptx)
    assert announced and all(bool(predicate) == whole for predicate in announced)


def test_only_what_acts_is_left_to_the_elected_lane() -> None:
    """Behind the branch of the elected lane there are copies, products and signals, with constants of theirs, and the negation of whether a
    product is the first, which costs the machine nothing."""
    lines = [line for line in program().ptx.splitlines() if line.startswith(("\t", "$L")) and ".loc" not in line]
    acting = [at for at, line in enumerate(lines) if re.match(r"\t(tcgen05\.mma|cp\.async\.bulk\.tensor\.2d\.shared)", line)]
    assert len(acting) == 6
    for at in acting:
        while not lines[at].startswith("\t@"):
            assert lines[at].startswith(("\ttcgen05.mma", "\tcp.async", "\tmbarrier.arrive.expect_tx", "\tmov.", "\tnot.pred"))
            at -= 1
        assert " bra " in lines[at]


def test_a_bound_that_is_never_written_is_loaded_by_all_lanes() -> None:
    """Each lane finds the same element, so all of them go round the loop and wait."""
    ptx = program("load(steps[0])", ", steps: tensor[i32, 1]").ptx
    assert behind_waits(ptx) == ["bar.warp.sync"] * 4


PERHAPS = """
kernel perhaps(n: i32, a: tensor[bf16, 64, 16], b: tensor[bf16, 8, 16], d: tensor[f32, 64, 8]):
    grid(1)
    input  = InputTilePipeline(StandardTilePayload(a=tile[bf16, 64, 16], b=tile[bf16, 8, 16]), stages=1)
    output = OutputTilePipeline(tmem[f32, 64, 8], stages=1)

    role load(warps=1) produces input:
        if n > 0:
            with input.produce() as s:
                tma.load(s.a, a[0, 0])
                tma.load(s.b, b[0, 0])

    role mma(warps=1) consumes input produces output:
        with output.produce() as acc:
            if n > 0:
                with input.consume() as s:
                    mma(acc, s.a, s.b)

    role epilogue(warps=4) consumes output:
        with output.consume() as acc:
            store.direct(d[0, 0], acc)
"""


@pytest.mark.parametrize("timing", ["random", "late"])
def test_whether_an_mma_wrote_the_accumulator_is_noted_by_one_lane(timing: str) -> None:
    """The note is a word of shared memory: stores of several lanes would race."""
    rng = np.random.default_rng(1)
    a, b = (rng.integers(-3, 4, (size, 16)).astype(ml_dtypes.bfloat16) for size in (64, 8))
    for n in (0, 1):
        d = np.full((64, 8), 77, np.float32)
        pipec.compile(PERHAPS)["perhaps"](n, a, b, d, device="sim", options=LaunchOptions(Options(timing=timing, seed=4)))
        assert np.array_equal(d, a.astype(np.float64) @ b.astype(np.float64).T * n)


def kept(ptx: str) -> list[str]:
    """What stands in the load role's loop, from its wait to the jump back."""
    lines = ptx.splitlines()
    first = next(at for at, line in enumerate(lines) if "input.produce()" in line)
    last = max(at for at, line in enumerate(lines) if line.startswith("\tcp.async.bulk.tensor"))
    return lines[first:last]


def test_coordinates_that_stay_the_same_are_ready_in_front_of_the_loop() -> None:
    """Two boxes of 64 columns: the second begins 64 further in M, which nothing in the loop adds."""
    source = RING.replace("a: tensor[bf16, M, K]", "a: tensor[bf16, K, M]").replace(
        "a=tile[bf16, 128, 64]", "a=tile[bf16, 64, 128]"
    )
    source = source.replace("tma.load(s.a, a[block.x * 128, k * 64])", "tma.load(s.a, a[k * 64, block.x * 128])")
    ptx = pipec.compile(source.replace("mma(acc, s.a, s.b)", "mma(acc, s.a.T, s.b)").format(steps="ceildiv(K, 64)", more="")).ptx
    assert ptx.count("\tcp.async.bulk.tensor.2d.shared") == 3
    assert not [line for line in kept(ptx) if re.match(r"\t(add\.s32|or\.b32) .*, 64;", line)]


@pytest.mark.parametrize(("stages", "shift"), [(2, None), (3, 2), (4, 31), (5, 3), (6, 3), (7, 3)])
def test_the_place_on_a_ring_wraps_without_a_comparison(stages: int, shift: int | None) -> None:
    """A bit of a number, shifted down, says when; rings of two stages flip. Right over turns around the ring and a part of one."""
    found = pipec.compile(RING.replace("stages=3", f"stages={stages}").format(steps="ceildiv(K, 64)", more=""))
    lines = kept(found.ptx)
    assert not any(re.match(r"\tand\.b32", line) for line in lines)
    shifts = [int(line.split()[-1].rstrip(";")) for line in lines if line.startswith("\tshr.u32")]
    assert shifts[:1] == ([] if shift is None else [shift])
    assert not any(line.startswith(("\tsetp.eq.b32", "\tselp.b32")) for line in lines)
    rng = np.random.default_rng(stages)
    a, b = (rng.integers(-3, 4, (size, 64 * 9)).astype(ml_dtypes.bfloat16) for size in (128, 64))
    d = np.full((128, 64), np.nan, np.float32)
    found["ring"](a, b, d, device="sim", options=LaunchOptions(Options(timing="random", seed=stages)))
    assert np.array_equal(d, a.astype(np.float64) @ b.astype(np.float64).T)
