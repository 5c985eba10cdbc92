"""Stages that are full when the block ends: no fault of a pipeline without tiles that threads of the block alone signal."""

import pytest

from pipec.driver import Options, compile_source
from pipec.source import Source

HEAD = """
kernel k(n: i32, x: tensor[f32, 64, 32], y: tensor[f32, 64, 32]):
    grid(1)
"""
# Every second tile of a role is followed by one of the other: an odd number leaves the baton with nobody to take it.
BATON = (
    HEAD
    + """
    order = ProducerConsumerPipeline(stages=STAGES)
    role ping(warps=1) produces order:
        for i in range(n):
            if i % 2 == 0:
                with order.produce():
                    store(y[0, 0], load(x[0, 0], 8, 32))
    role pong(warps=1) consumes order:
        for i in range(n):
            if i % 2 == 1:
                with order.consume():
                    store(y[8, 0], load(x[8, 0], 8, 32))
"""
)
AHEAD = (
    HEAD
    + """
    ring = PIPELINE
    role a(warps=1) produces ring:
        for i in range(n + MORE):
            with ring.produce() as s:
                FILL
    role b(warps=WARPS) consumes ring:
        for i in range(n):
            with ring.consume() as s:
                USE
"""
)
BARRIERS = {"PIPELINE": "ProducerConsumerPipeline(stages=2)", "FILL": "pass", "USE": "pass", "WARPS": "1"}
TILES = {"PIPELINE": "InputTilePipeline(TilePayload(x=tile[f32, 8, 32]), stages=2)", "USE": "store(y[0, 0], s.x)", "WARPS": "1"}
BY_COPIES = {**TILES, "FILL": "tma.load(s.x, x[0, 0])"}
BY_THREADS = {**TILES, "FILL": "write(s.x, load(x[0, 0], 8, 32))"}
# Barriers alone, but the stage's number selects a tile that the kernel declares.
BY_NUMBER = {
    **BY_THREADS,
    "PIPELINE": "ProducerConsumerPipeline(stages=2)\n    t = SharedTiles(tile[f32, 8, 32], count=2)",
    "s.x": "t[s.index()]",
}
CLUSTER = {"grid(1)": "grid(2)\n    cluster(2)", "stages=2)": 'stages=2, scope="cluster")'}


def told(source: str, parts: dict[str, str], arch: str = "sm_90a") -> tuple[list[str], list[tuple[str, str]]]:
    """The verdicts, and the codes and notes."""
    for name, text in parts.items():
        assert name in source, name
        source = source.replace(name, text)
    state = compile_source(Source("k.pipe", source), Options(arch))
    return [one.outcome for one in state.protocol.values()], [(one.code, one.note or "") for one in state.diagnostics]


@pytest.mark.parametrize("arch", ["sm_90a", "sm_100a"])
@pytest.mark.parametrize("stages", ["1", "2"])
def test_a_baton_may_be_left_with_nobody_to_take_it(stages: str, arch: str) -> None:
    assert told(BATON, {"STAGES": stages}, arch) == (["proved"], [])


@pytest.mark.parametrize("more", ["1", "2"])
def test_as_many_stages_as_there_are_may_be_left(more: str) -> None:
    assert told(AHEAD, {**BARRIERS, "MORE": more}) == (["proved"], [])


def test_more_than_there_are_wait_for_ever() -> None:
    _, ((code, note),) = told(AHEAD, {**BARRIERS, "MORE": "3"})
    assert code == "E0601" and "`a` waits for a stage of `ring` to be given back" in note


@pytest.mark.parametrize(
    ("parts", "left"),
    [
        (BY_COPIES, "copies may still write its shared memory"),
        (BY_THREADS, "what was written there is never used"),
        (BY_NUMBER, "what was written there is never used"),
    ],
    ids=["copies", "threads", "threads by number"],
)
def test_tiles_are_not_left(parts: dict[str, str], left: str) -> None:
    """Copies would outlast the block; of what threads have written, nothing would come."""
    _, ((code, note),) = told(AHEAD, {**parts, "MORE": "1"})
    assert code == "E0602" and note.endswith(f"filled stages: {left}")


def test_nor_what_other_blocks_signal() -> None:
    """A signal may be on its way to a barrier of a block that has ended."""
    _, ((code, note),) = told(AHEAD, {**BARRIERS, "MORE": "1", **CLUSTER})
    assert code == "E0602" and note.endswith("signals to them may still be on their way")
