"""The errors that a reference allows for follow from what the kernel does with its operands."""

import numpy as np
import pytest

from pipec.driver import Options, compile_source
from pipec.kir.ir import Kernel
from pipec.reference import compare, expected_values, precision_of
from pipec.reference.bounded import Rounding
from pipec.source import Source

GEMM = """
kernel gemm(a: tensor[A, M, K], b: tensor[A, N, K], d: tensor[f32, M, N]):
    grid(ceildiv(M, 64), ceildiv(N, 64))
    input = InputTilePipeline(StandardTilePayload(a=tile[tf32, 64, 32], b=tile[tf32, 64, 32]), stages=2)

    role load(warps=FILLERS) produces input:
        for k in range(ceildiv(K, 32)):
            with input.produce() as s:
                FILL

    role compute(warps=4) consumes input:
        acc = accumulator(f32, 64, 64)
        for k in range(ceildiv(K, 32)):
            with input.consume() as s:
                mma(acc, s.a, s.b)
        store(d[block.x * 64, block.y * 64], acc)
"""
FILLS = {
    "tma": (
        1,
        """tma.load(s.a, a[block.x * 64, k * 32])
                tma.load(s.b, b[block.y * 64, k * 32])""",
    ),
    "threads": (
        4,
        """write(s.a, load(a[block.x * 64, k * 32], 64, 32))
                write(s.b, load(b[block.y * 64, k * 32], 64, 32))""",
    ),
}


def kernel_of(fill: str, dtype: str) -> Kernel:
    warps, text = FILLS[fill]
    source = GEMM.replace("FILLERS", str(warps)).replace("FILL", text).replace("tensor[A", f"tensor[{dtype}")
    state = compile_source(Source("k.pipe", source), Options(arch="sm_90a"), until="plan")
    assert state.plans is not None, state.diagnostics
    return state.plans[0].kernel


@pytest.mark.parametrize("fill", FILLS)
def test_what_the_mma_drops_of_single_precision_is_allowed_for_and_no_more(fill: str) -> None:
    generator = np.random.default_rng(4)
    a, b = (generator.standard_normal((size, 128)).astype(np.float32) for size in (32, 48))
    given = {"a": a, "b": b, "d": np.zeros((32, 48), np.float32)}
    expected = expected_values(["d = a @ b.T"], given, precision=precision_of(kernel_of(fill, "f32")))["d"]

    def product(bits: int) -> np.ndarray:
        one, other = ((x.view(np.uint32) >> bits << bits).view(np.float32).astype(np.float64) for x in (a, b))
        return (one @ other.T).astype(np.float32)

    assert compare("d", product(13), expected).passed
    assert not compare("d", product(17), expected).passed


def test_arguments_of_tf32_have_nothing_to_drop() -> None:
    assert precision_of(kernel_of("tma", "tf32")).argument == Rounding()


COPIED = """
kernel gemm(a: tensor[bf16, M, K], b: tensor[bf16, N, K], d: tensor[f32, M, N]):
    grid(ceildiv(M, 64), ceildiv(N, 64))
    input = InputTilePipeline(StandardTilePayload(a=tile[bf16, 64, 32], b=tile[bf16, 64, 32]), stages=2)

    role load(warps=4) produces input:
        next = registers(load(a[block.x * 64, 0], 64, 32))
        for k in range(ceildiv(K, 32)):
            with input.produce() as s:
                write(s.a, VALUE)
                write(s.b, load(b[block.y * 64, k * 32], 64, 32))
            next = NEXT

    role compute(warps=4) consumes input:
        acc = accumulator(f32, 64, 64)
        for k in range(ceildiv(K, 32)):
            with input.consume() as s:
                mma(acc, s.a, s.b)
        store(d[block.x * 64, block.y * 64], acc)
"""
AHEAD = "load(a[block.x * 64, k * 32 + 32], 64, 32)"


@pytest.mark.parametrize(
    ("value", "then", "rounds"),
    [
        ("next", AHEAD, False),
        (f"select(k > 0, next, {AHEAD})", "next", False),
        ("next", f"{AHEAD} + next", True),
        ("next * next", AHEAD, True),
        ("select(k > 0, next, cast[bf16](cast[f32](next) * 0.5))", AHEAD, True),
    ],
)
def test_what_threads_copy_is_not_rounded(value: str, then: str, rounds: bool) -> None:
    source = COPIED.replace("VALUE", value).replace("NEXT", then)
    state = compile_source(Source("k.pipe", source), Options(arch="sm_90a"), until="plan")
    assert state.plans, state.diagnostics
    assert (precision_of(state.plans[0].kernel).operand != Rounding()) == rounds
