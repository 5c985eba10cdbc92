"""Some blocks have a part, or a multiple, of the turns of others: one role branches, another one chooses a number."""

import pytest

from pipec.driver import Options, compile_source
from pipec.source import Source

TEXT = """
kernel k(x: tensor[f32, M, N], y: tensor[f32, K], W: i32):
    grid(4, 3)
    p = ProducerConsumerPipeline(stages=3)
    kt = ceildiv(K, 64)
    role load(warps=1) produces p:
        if {first}:
            for k in range({yes}):
                p.producer_signal_and_step()
        else:
            for k in range({no}):
                p.producer_signal_and_step()
    role take(warps=1) consumes p:
        n = {choice}
        for k in range(n):
            p.consumer_signal_and_step()
"""
RIGHT = {
    "half": ("block.x % 2 == 1", "kt // 2", "kt", "kt // 2 if block.x % 2 == 1 else kt"),
    "a quarter": ("block.x % 2 == 1", "kt // 4", "kt", "kt // 4 if block.x % 2 == 1 else kt"),
    "the opposite": ("block.x % 2 == 0", "kt", "kt // 2", "kt // 2 if block.x % 2 == 1 else kt"),
    "one of three": ("block.x % 3 == 1", "kt // 2", "kt", "kt // 2 if block.x % 3 == 1 else kt"),
    "twice": ("block.x % 2 == 1", "kt * 2", "kt", "kt * 2 if block.x % 2 == 1 else kt"),
    "an eighth against half": ("block.x > 1", "kt // 8", "kt // 2", "kt // 8 if block.x > 1 else kt // 2"),
    "by a parameter": ("W > 0", "kt // 2", "kt", "kt // 2 if W > 0 else kt"),
}
WRONG = {
    "the others": ("block.x % 2 == 1", "kt // 2", "kt", "kt // 2 if block.x % 2 == 0 else kt"),
    "another part": ("block.x % 2 == 1", "kt // 2", "kt", "kt // 4 if block.x % 2 == 1 else kt"),
    "rounded up": ("block.x % 2 == 1", "(kt + 1) // 2", "kt", "kt // 2 if block.x % 2 == 1 else kt"),
    "by another parameter": ("W > 0", "kt // 2", "kt", "kt // 2 if W > 1 else kt"),
}


def failed(first: str, yes: str, no: str, choice: str) -> bool:
    text = TEXT.format(first=first, yes=yes, no=no, choice=choice)
    return compile_source(Source("k.pipe", text), Options("sm_90a")).failed


@pytest.mark.parametrize("name", RIGHT)
def test_it_is_proved(name: str) -> None:
    assert not failed(*RIGHT[name])


@pytest.mark.parametrize("name", WRONG)
def test_another_number_of_turns_is_not(name: str) -> None:
    assert failed(*WRONG[name])
