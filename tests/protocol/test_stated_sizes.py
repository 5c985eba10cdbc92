"""Sizes that a kernel states are numbers to the search: `n * M` is `n * 1024` where M is."""

import pytest

from pipec.driver import Options, compile_source
from pipec.source import Source

TEXT = """
kernel k(x: tensor[f32, M, N], y: tensor[f32, n]):
    grid(3)
    assume(M == 1024)
    assume(N == 64)
    p = ProducerConsumerPipeline(stages=3)
    role load(warps=1) produces p:
        for k in range({flat}):
            p.producer_signal_and_step()
    role take(warps=1) consumes p:
        for j in range(n):
            for k in range({inner}):
                p.consumer_signal_and_step()
"""
FLAT = {"n * M": "M", "M * n": "1024", "n * 1024": "M", "n * M * N": "ceildiv(M * N, 64) * 64", "n * (M - N)": "N, M"}
WRONG = {"n * M": "N", "n * M - 1": "M", "n * (M + 1)": "1024", "n * N": "M - N"}


def failed(flat: str, inner: str) -> bool:
    return compile_source(Source("k.pipe", TEXT.format(flat=flat, inner=inner)), Options("sm_90a")).failed


@pytest.mark.parametrize("flat", FLAT)
def test_it_is_proved(flat: str) -> None:
    assert not failed(flat, FLAT[flat])


@pytest.mark.parametrize("flat", WRONG)
def test_another_size_is_not(flat: str) -> None:
    assert failed(flat, WRONG[flat])
