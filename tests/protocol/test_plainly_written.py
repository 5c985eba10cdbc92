"""Right kernels as they are plainly written: the same turns said in other words by each role."""

import pytest

from pipec.driver import Options, compile_source
from pipec.source import Source
from tests.protocol.drawing import Draw, Kernel, Lines, source

STEPS = ["steps = ceildiv(N, 64)"]
SHARE = [*STEPS, "per = ceildiv(steps, grid.x)"]


def pair(a: Lines, b: Lines, blocks: str = "8") -> Kernel:
    return Kernel({"p": (3, "a", "b")}, {"a": a, "b": b}, blocks=blocks)


KERNELS: dict[str, Kernel] = {
    "a block's range of K, and how long it is": pair(
        [*SHARE, "for k in range(block.x * per, min((block.x + 1) * per, steps)):", "    {p+}"],
        [*SHARE, "count = min((block.x + 1) * per, steps) - block.x * per", "for k in range(count):", "    {p-}"],
    ),
    "a block's range of K, and what is left of it": pair(
        [*SHARE, "for k in range(block.x * per, min((block.x + 1) * per, steps)):", "    {p+}"],
        [*SHARE, "for k in range(max(0, min(per, steps - block.x * per))):", "    {p-}"],
    ),
}


@pytest.mark.parametrize("name", KERNELS)
def test_it_is_proved(name: str) -> None:
    text = source(KERNELS[name], Draw(name))
    state = compile_source(Source("right.pipe", text), Options("sm_100a"))
    assert not state.failed, f"{text}\n{state.diagnostics}"
