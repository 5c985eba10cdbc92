"""A block's share of the tiles, from its first tile on in one role and counted from 0 in another."""

import pytest

from pipec.driver import Options, compile_source
from pipec.source import Source

KERNEL = """
kernel k(y: tensor[f32, M, N]):
    total = {total}
    grid(max(1, min(total, gpu.multiprocessors)))
    per = {per}
    start = {start}
    mine = {mine}
    p = ProducerConsumerPipeline(stages=2)
    role a(warps=1) produces p:
{a}
    role b(warps=1) consumes p:
{b}
"""
BALANCED = {
    "per": "total // grid.x",
    "start": "block.x * per + min(block.x, total % grid.x)",
    "mine": "per + (1 if block.x < total % grid.x else 0)",
}
CHUNKS = {"per": "ceildiv(total, grid.x)", "start": "block.x * per", "mine": "max(0, min(per, total - start))"}
SHARES = {"balanced": BALANCED, "chunks": CHUNKS, "chunks, by their ends": CHUNKS | {"mine": "min(start + per, total) - start"}}
TOTALS = ["M", "ceildiv(M, 128) * ceildiv(N, 128)"]
WALKED = "for t in range(start, start + mine):\n    STAGE"
COUNTED = "for i in range(mine):\n    STAGE"
COUNTS = [
    COUNTED,
    "left = mine\nwhile left > 0:\n    STAGE\n    left -= 1",
    "if mine > 0:\n    STAGE\nfor i in range(1, mine):\n    STAGE",
    "t = start\nwhile t < start + mine:\n    STAGE\n    t += 1",
]


def proved(a: str, b: str, total: str, share: dict[str, str]) -> bool:
    def lines(body: str, stage: str) -> str:
        return "\n".join("        " + line for line in body.replace("STAGE", stage).split("\n"))

    roles = {"a": lines(a, "p.producer_signal_and_step()"), "b": lines(b, "p.consumer_signal_and_step()")}
    return not compile_source(Source("k.pipe", KERNEL.format(total=total, **share, **roles)), Options("sm_100a")).failed


@pytest.mark.parametrize("share", SHARES)
@pytest.mark.parametrize("total", TOTALS)
@pytest.mark.parametrize("other", COUNTS)
def test_it_is_proved(share: str, total: str, other: str) -> None:
    assert proved(WALKED, other, total, SHARES[share])


WRONG = [
    (WALKED, COUNTED.replace("mine", "mine + 1")),
    (WALKED, COUNTED.replace("mine", "per")),
    (WALKED, COUNTED.replace("mine", "mine - 1")),
    (WALKED.replace("start + mine", "start + per"), COUNTED),
    (WALKED.replace("range(start", "range(start + 1"), COUNTED),
    (WALKED, "left = mine\nwhile left > 1:\n    STAGE\n    left -= 1"),
    (WALKED, "if mine > 1:\n    STAGE\nfor i in range(1, mine):\n    STAGE"),
]


@pytest.mark.parametrize("share", ["balanced", "chunks"])
@pytest.mark.parametrize(("one", "other"), WRONG)
def test_its_neighbour_is_not(share: str, one: str, other: str) -> None:
    assert not proved(one, other, "M", SHARES[share])
