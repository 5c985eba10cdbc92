"""Turns that are dealt out to several roles: each of them counts its own, and one role those of all."""

import pytest

from pipec.driver import Options, compile_source
from pipec.source import Source

ROLES = 4
LOOPS = {
    "by steps": "for i in range({r}, n, 4):",
    "by number": "for i in range((max(n, 0) + 3 - {r}) // 4):",
}


def kernel(shares: list[str]) -> str:
    lines = ["kernel k(n: i32):", "    grid(1)"]
    lines += [f"    p{r} = ProducerConsumerPipeline(stages=2)" for r in range(ROLES)]
    lines += [f"    role deal(warps=1) produces {', '.join(f'p{r}' for r in range(ROLES))}:", "        for i in range(n):"]
    for r in range(ROLES):
        word = "else:" if r == ROLES - 1 else f"{'el' if r else ''}if i % 4 == {r}:"
        lines += [f"            {word}", f"                p{r}.producer_signal_and_step()"]
    for r, head in enumerate(shares):
        lines += [f"    role take{r}(warps=1) consumes p{r}:", f"        {head}", f"            p{r}.consumer_signal_and_step()"]
    return "\n".join(lines) + "\n"


def outcome(shares: list[str]) -> str:
    state = compile_source(Source("k.pipe", kernel(shares)), Options("sm_100a", allow_undecided=True))
    assert state.ptx is not None and "brx" not in state.ptx  # a table of addresses to go to is not read
    return state.protocol["k"].outcome


@pytest.mark.parametrize("loop", LOOPS)
def test_one_turn_in_four(loop: str) -> None:
    right = [LOOPS[loop].format(r=r) for r in range(ROLES)]
    assert outcome(right) == "proved"
    assert outcome([*right[:2], right[3], right[3]]) == "refuted"
    assert outcome([right[1], *right[1:]]) == "refuted"
