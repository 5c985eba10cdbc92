"""A buffer in global memory that two roles use in turns, one pipeline to hand it over and another to give it back."""

import numpy as np
import pytest

import pipec
from pipec.driver import compile_source
from pipec.source import Source

KERNEL = """
kernel k(n: i32, x: tensor[f32, M, 64], b: tensor[f32, 64, 64], y: tensor[f32, M, 64]):
    grid(1)
    go = ProducerConsumerPipeline(stages={stages})
    ack = ProducerConsumerPipeline(stages={stages})
    role put(warps=4) produces go consumes ack:
        for i in range(n):
{put}
    role get(warps=4) consumes go produces ack:
        for i in range({bound}):
{get}
"""
GO = "with go.produce() as s:\n    pass"
PUT = "store(b[0, 0], load(x[i * 64, 0], 64, 64))"
ACK = "with ack.consume() as t:\n    pass"
TAKE = "with go.consume() as s:\n    pass"
GET = "store(y[i * 64, 0], load(b[0, 0], 64, 64))"
BACK = "with ack.produce() as t:\n    pass"


def source(put: list[str], get: list[str], bound: str = "n", stages: int = 1) -> str:
    def lines(statements: list[str]) -> str:
        return "\n".join(" " * 12 + line for statement in statements for line in statement.split("\n"))

    return KERNEL.format(put=lines(put), get=lines(get), bound=bound, stages=stages)


@pytest.mark.parametrize("stages", [1, 2])
@pytest.mark.parametrize("around", [False, True])
def test_a_buffer_that_is_given_back_is_right(stages: int, around: bool) -> None:
    put, get = [PUT, GO, ACK], [TAKE, GET, BACK]
    if around:
        put, get = [GO.replace("pass", PUT), ACK], [TAKE, BACK.replace("pass", GET)]
    kernel = pipec.compile(source(put, get, stages=stages))["k"]
    x, b, y = (
        np.random.default_rng(1).random((256, 64), np.float32),
        np.zeros((64, 64), np.float32),
        np.zeros((256, 64), np.float32),
    )
    kernel(4, x, b, y, device="sim")
    assert np.array_equal(x, y)


@pytest.mark.parametrize(
    ("put", "get", "bound"),
    [
        ([GO, PUT, ACK], [TAKE, GET, BACK], "n"),  # told too early
        ([PUT, GO, ACK], [TAKE, BACK, GET], "n"),  # given back too early
        ([PUT, GO, ACK], [BACK, TAKE, GET], "n"),  # given back before it is taken
        ([PUT, GO, ACK], [GET, TAKE, BACK], "n"),  # not waited for
        ([PUT, GO, PUT, ACK], [TAKE, GET, BACK], "n"),
        ([PUT, GO, f"if i > 0:\n    {ACK.replace(chr(10), chr(10) + '    ')}"], [TAKE, GET, BACK], "n"),
    ],
)
def test_a_buffer_that_is_not_is_refused(put: list[str], get: list[str], bound: str) -> None:
    codes = {one.code for one in compile_source(Source("k.pipe", source(put, get, bound))).diagnostics}
    assert "E0614" in codes, codes


def test_one_turn_too_many_hangs_and_is_in_order_until_then() -> None:
    found = compile_source(Source("k.pipe", source([PUT, GO, ACK], [TAKE, GET, BACK], "n + 1"))).diagnostics
    assert {one.code for one in found} == {"E0601"}
