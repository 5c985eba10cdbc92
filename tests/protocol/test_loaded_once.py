"""Roles that load a number once and bound, round and divide it in words of their own."""

import pytest

from pipec.driver import Options, compile_source
from pipec.source import Source

KERNEL = """
kernel k[BN: int = 64, SPLITS: int = 4](x: tensor[f32, M, N], lengths: tensor[i32, B], y: tensor[f32, M, N]):
    grid(SPLITS, B)
    ring = InputTilePipeline(TilePayload(x=tile[f32, 32, BN]), stages=3)
    role load(warps=1) produces ring:
        n = {number}
{load}
    role add(warps=4) consumes ring:
        n = {other}
        sum = registers(fill(0.0, f32, 32, BN))
{add}
        store.direct(y[(block.y * SPLITS + block.x) * 32, 0], sum)
"""
FILL = "with ring.produce() as s:\n    tma.load(s.x, x[0, t])"
TAKE = "with ring.consume() as s:\n    sum = sum + s.x"
BETWEEN = "min(max(load(lengths[block.y]), 0), N)"
NATURAL = "max(0, min(load(lengths[block.y]), N))"
SHARE = "per = ceildiv(n, SPLITS * BN) * BN\n"
ELEMENTS = SHARE + "for t in range(block.x * per, min(n, (block.x + 1) * per), BN):"
BLOCKS = "per = ceildiv(ceildiv(n, BN), SPLITS)\nfor j in range(block.x * per, min(ceildiv(n, BN), (block.x + 1) * per)):"
TURNS = "per = ceildiv(ceildiv(n, BN), SPLITS)\nfor j in range(min(per, ceildiv(n, BN) - block.x * per)):"
TWICE = "for p in range(2):\n    for t in range(0, n, BN):"
FLAT = "for i in range(2 * ceildiv(n, BN)):"


def source(load: str, add: str, number: str = BETWEEN, other: str | None = None) -> str:
    def body(head: str, inside: str) -> str:
        deep = " " * (4 * head.rpartition("\n")[2].count("    ") + 4)
        lines = [*head.split("\n"), *(deep + line for line in inside.split("\n"))]
        return "\n".join(" " * 8 + line for line in lines)

    return KERNEL.format(number=number, other=other or number, load=body(load, FILL), add=body(add, TAKE))


RIGHT = {
    "two passes in elements, and twice as many blocks": source(TWICE, FLAT),
    "a share in elements, and one in blocks": source(ELEMENTS, BLOCKS, NATURAL),
    "a share in elements, and its number of blocks": source(ELEMENTS, TURNS, NATURAL),
}
WRONG = {
    "one block more": source(TWICE, FLAT.replace("(n, BN)", "(n + 1, BN)")),
    "one pass": source(TWICE.replace("2", "1"), FLAT),
    "another sequence": source(TWICE, FLAT, other=BETWEEN.replace("block.y", "block.x")),
    "another bound": source(TWICE, FLAT, other=BETWEEN.replace(", N)", ", N + 64)")),
    "shares rounded down": source(
        ELEMENTS, BLOCKS.replace("per = ceildiv(ceildiv(n, BN), SPLITS)", "per = n // BN // SPLITS"), NATURAL
    ),
    "a share that does not end": source(ELEMENTS.replace("min(n, (block.x + 1) * per)", "(block.x + 1) * per"), BLOCKS, NATURAL),
}


def outcome(text: str) -> list[str]:
    state = compile_source(Source("k.pipe", text), Options("sm_90a"))
    return [verdict.outcome for verdict in state.protocol.values()]


@pytest.mark.parametrize("name", RIGHT)
def test_it_is_proved(name: str) -> None:
    assert outcome(RIGHT[name]) == ["proved"]


@pytest.mark.parametrize("name", WRONG)
def test_its_neighbour_is_not(name: str) -> None:
    assert outcome(WRONG[name]) in (["open"], ["refuted"])
