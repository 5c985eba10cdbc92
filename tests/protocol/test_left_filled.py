"""Stages that are full when the block ends: no fault of a baton that threads of the block alone signal."""

from pathlib import Path

import pytest

from pipec.commands.cli import main
from pipec.driver import Options, compile_source
from pipec.source import Source

HEAD = """
kernel k(n: i32, x: tensor[f32, 64, 32], y: tensor[f32, 64, 32]):
    \"\"\"Blocks of rows, every second one by each role.

    numpy: y = where(arange(64)[:, None] < 8 * n, x, 5)
    given: y = 0 * x + 5
    shapes: n=3; n=4; n=0
    \"\"\"
    grid(1)
"""
# Every second tile of a role is followed by one of the other: an odd number leaves the baton with nobody to take it.
BATON = (
    HEAD
    + """
    order = ProducerConsumerPipeline(stages=1)
    role ping(warps=1) produces order:
        for i in range(n):
            if i % 2 == 0:
                with order.produce():
                    store(y[8 * i, 0], load(x[8 * i, 0], 8, 32))
    role pong(warps=1) consumes order:
        for i in range(n):
            if i % 2 == 1:
                with order.consume():
                    store(y[8 * i, 0], load(x[8 * i, 0], 8, 32))
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
PLAIN = {"PIPELINE": "ProducerConsumerPipeline(stages=1)", "FILL": "pass", "USE": "pass", "WARPS": "1"}
TILES = {"PIPELINE": "InputTilePipeline(TilePayload(x=tile[f32, 8, 32]), stages=1)", "USE": "store(y[0, 0], s.x)", "WARPS": "1"}
BY_COPIES = {**TILES, "FILL": "tma.load(s.x, x[0, 0])"}
BY_THREADS = {**TILES, "FILL": "write(s.x, load(x[0, 0], 8, 32))"}
# Barriers alone, but the stage's number selects a tile that the kernel declares.
BY_NUMBER = {
    **BY_THREADS,
    "PIPELINE": "ProducerConsumerPipeline(stages=1)\n    t = SharedTiles(tile[f32, 8, 32], count=1)",
    "s.x": "t[s.index()]",
}
QUEUE = {**PLAIN, "PIPELINE": "ProducerConsumerPipeline(stages=2)"}
# A signal may be on its way to a barrier of a block that has ended.
CLUSTER = {**PLAIN, "grid(1)": "grid(2)\n    cluster(2)", "stages=1)": 'stages=1, scope="cluster")'}
UNUSED = "what was written there is never used"
SIGNALS = "no role has waited for what they signal, and signals of other blocks may still be on their way"


def told(source: str, parts: dict[str, str], arch: str = "sm_90a") -> tuple[list[str], list[tuple[str, str]]]:
    """The verdicts, and the codes and notes."""
    for name, text in parts.items():
        assert name in source, name
        source = source.replace(name, text)
    state = compile_source(Source("k.pipe", source), Options(arch))
    return [one.outcome for one in state.protocol.values()], [(one.code, one.note or "") for one in state.diagnostics]


@pytest.mark.parametrize("arch", ["sm_90a", "sm_100a"])
def test_a_baton_may_be_left_with_nobody_to_take_it(arch: str) -> None:
    assert told(BATON, {}, arch) == (["proved"], [])


@pytest.mark.parametrize("timing", ["late", "random"])
def test_a_block_that_leaves_the_baton_computes_what_is_asked(
    timing: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "k.pipe").write_text(BATON, encoding="utf-8")
    assert main(["run", str(tmp_path / "k.pipe"), "--device", "sim", "--timing", timing]) == 0, capsys.readouterr().err
    assert capsys.readouterr().out.count("y: agrees") == 3


@pytest.mark.parametrize("warps", ["1", "4"])
def test_it_is_left_by_threads_of_any_number(warps: str) -> None:
    assert told(AHEAD, {**PLAIN, "WARPS": warps, "MORE": "1"}) == (["proved"], [])


def test_whoever_passes_it_on_again_waits_for_ever() -> None:
    _, ((code, note),) = told(AHEAD, {**PLAIN, "MORE": "2"})
    assert code == "E0601" and "`a` waits for a stage of `ring` to be given back" in note


@pytest.mark.parametrize(
    ("parts", "left"),
    [
        (BY_COPIES, "copies may still write its shared memory"),
        (BY_THREADS, UNUSED),
        (BY_NUMBER, UNUSED),
        (QUEUE, SIGNALS),
        (CLUSTER, SIGNALS),
    ],
    ids=["copies", "threads", "threads by number", "several stages", "a cluster"],
)
def test_other_stages_are_not_left(parts: dict[str, str], left: str) -> None:
    """Copies would outlast the block; of what threads have written, or of work that a queue hands over, nothing would come."""
    _, ((code, note),) = told(AHEAD, {**parts, "MORE": "1"})
    assert code == "E0602" and note.endswith(f"filled stages: {left}")
