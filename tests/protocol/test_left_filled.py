"""What is the matter with stages that are full when the block ends."""

import pytest

from pipec.driver import Options, compile_source
from pipec.source import Source

AHEAD = """
kernel k(n: i32, x: tensor[f32, 64, 32], y: tensor[f32, 64, 32]):
    grid(1)
    ring = PIPELINE
    role a(warps=1) produces ring:
        for i in range(n + 1):
            with ring.produce() as s:
                FILL
    role b(warps=1) consumes ring:
        for i in range(n):
            with ring.consume() as s:
                USE
"""
BARRIERS = {"PIPELINE": "ProducerConsumerPipeline(stages=2)", "FILL": "pass", "USE": "pass"}
TILES = {"PIPELINE": "InputTilePipeline(TilePayload(x=tile[f32, 8, 32]), stages=2)", "USE": "store(y[0, 0], s.x)"}
BY_COPIES = {**TILES, "FILL": "tma.load(s.x, x[0, 0])"}
BY_THREADS = {**TILES, "FILL": "write(s.x, load(x[0, 0], 8, 32))"}
# Barriers alone, but the stage's number selects a tile that the kernel declares.
BY_NUMBER = {
    **BY_THREADS,
    "PIPELINE": "ProducerConsumerPipeline(stages=2)\n    t = SharedTiles(tile[f32, 8, 32], count=2)",
    "s.x": "t[s.index()]",
}
CLUSTER = {**BARRIERS, "grid(1)": "grid(2)\n    cluster(2)", "stages=2)": 'stages=2, scope="cluster")'}
UNUSED = "what was written there is never used"
SIGNALS = "no role has waited for what they signal, and signals of other blocks may still be on their way"


@pytest.mark.parametrize(
    ("parts", "left"),
    [
        (BY_COPIES, "copies may still write its shared memory"),
        (BY_THREADS, UNUSED),
        (BY_NUMBER, UNUSED),
        (BARRIERS, SIGNALS),
        (CLUSTER, SIGNALS),
    ],
    ids=["copies", "threads", "threads by number", "barriers", "barriers of a cluster"],
)
def test_the_note_says_what_is_left(parts: dict[str, str], left: str) -> None:
    source = AHEAD
    for name, text in parts.items():
        assert name in source, name
        source = source.replace(name, text)
    (told,) = compile_source(Source("k.pipe", source), Options("sm_90a")).diagnostics
    assert told.code == "E0602" and (told.note or "").endswith(f"filled stages: {left}")
