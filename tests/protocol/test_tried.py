"""Loops of two roles that turn equally often at most sizes: the sizes at which they do not are found, wherever they lie."""

import re
import textwrap

import pytest
from examples.catalogue import EXAMPLES
from protocol.test_refute import judged, told

from pipec.driver import Options, compile_source
from pipec.source import Source

# Of the producer and the consumer: rounding down and up, off by one beside and at multiples, and far from the smallest sizes.
_BOUNDS = [
    ("M // 64", "ceildiv(M, 64)"),
    ("ceildiv(M, 64)", "M // 64"),
    ("ceildiv(M, 64)", "(M + 62) // 64"),
    ("ceildiv(M, 64)", "(M + 64) // 64"),
    ("ceildiv(M, 64)", "ceildiv(M, 96)"),
    ("(M + 16) // 32", "ceildiv(M, 32)"),
    ("min(M, 1000)", "M"),
    ("min(M // 64, 100)", "M // 64"),
    ("min(n, 40) + M // 64", "n + ceildiv(M, 64)"),
    ("n + 1", "max(n, 0) + 1"),
    ("min(n, 0) + 2", "2"),
    ("n % 64 + 2", "(n if n > 0 else n % 64 + 1) % 64 + 2"),
]


def _at(bound: str, sizes: dict[str, int]) -> int:
    return eval(bound, {"ceildiv": lambda one, other: -(-one // other), "min": min, "max": max}, sizes)


@pytest.mark.parametrize("bounds", _BOUNDS, ids=" and ".join)
def test_sizes_at_which_loops_differ_are_found(bounds: tuple[str, str]) -> None:
    produced, consumed = bounds
    ((code, title),) = told(judged(f"for i in range({produced}):\n    FILL", f"for i in range({consumed}):\n    TAKE"))
    assert code in ("E0601", "E0602"), title
    sizes = {name: int(number) for name, number in (one.split(" = ") for one in title.partition(" when ")[2].split(", "))}
    sizes = {"M": 0, "n": 0} | sizes
    assert _at(produced, sizes) != _at(consumed, sizes)


@pytest.mark.parametrize(
    "bounds", [("(M + 63) // 64", "ceildiv(M, 64)"), ("min(M, 1000)", "min(1000, M)"), ("n", "max(n, 0)")], ids=" and ".join
)
def test_loops_that_never_differ_are_not_refused(bounds: tuple[str, str]) -> None:
    produced, consumed = bounds
    assert told(judged(f"for i in range({produced}):\n    FILL", f"for i in range({consumed}):\n    TAKE")) == []


WALKS = {
    "one more of each second tile": "for t in range(block.x, tiles, 40):\n    TAKE\n    if t + 40 < tiles:\n        TAKE",
    "the first tile alone": "if block.x < tiles:\n    TAKE",
    "not beyond two tiles": "for t in range(block.x, min(tiles, 80), 40):\n    TAKE",
    "of more blocks": "for t in range(block.x, tiles, 41):\n    TAKE",
}


@pytest.mark.parametrize("walk", WALKS)
def test_later_tiles_of_a_constant_number_of_blocks_are_tried(walk: str) -> None:
    """No size of a few tiles gives a block a second one."""
    text = """
kernel k(x: tensor[f32, M, N]):
    tiles = ceildiv(M, 64) * ceildiv(N, 64)
    grid(40)
    p = ProducerConsumerPipeline(stages=2)
    role a(warps=1) produces p:
        for t in range(block.x, tiles, 40):
            p.producer_signal_and_step()
    role b(warps=1) consumes p:
"""
    text += textwrap.indent(WALKS[walk].replace("TAKE", "p.consumer_signal_and_step()"), " " * 8)
    ((code, title),) = told(compile_source(Source("k.pipe", text), Options("sm_90a")))
    assert code in ("E0601", "E0602"), title
    assert any(size >= 40 * 64 for size in map(int, re.findall("[MN] = ([0-9]+)", title))), title


def test_a_consumer_that_skips_the_stages_of_a_tile_too_many() -> None:
    """Two that take turns at tiles, of which the second one has none at a few tiles."""
    text = (EXAMPLES / "gemm_sm90_pingpong.pipe").read_text()
    before, after = text.split("role pong")
    wrong = after.replace("        for t in range(cluster.x", "        pass_over()\n        for t in range(cluster.x", 1)
    (one,) = compile_source(Source("k.pipe", f"{before}role pong{wrong}"), Options()).diagnostics
    assert "an arrival for a phase that is complete when" in one.labels[0].text


@pytest.mark.parametrize(("past", "expected"), [("<=", ["E0602"]), ("<", [])])
def test_sizes_of_which_only_a_caller_is_asked(past: str, expected: list[str]) -> None:
    """A semaphore's counters ask of each of their dimensions that it is no less than the grid: of no number of blocks is it 0."""
    text = f"""
kernel k(t: tensor[i32, R, C], d: tensor[f32, M, N], K: i32):
    grid(ceildiv(M, 64), ceildiv(N, 64), 3)
    kt = ceildiv(K, 64)
    per = (kt + 2) // 3
    p = ProducerConsumerPipeline(stages=2)
    role a(warps=1) produces p:
        for k in range(per):
            if block.z * per + k {past} kt:
                p.producer_signal_and_step()
    role b(warps=4) consumes p:
        for k in range(block.z * per, min(kt, (block.z + 1) * per)):
            p.consumer_signal_and_step()
        with semaphore(t[block.x, block.y], block.z, 3):
            store(d[block.x * 64, block.y * 64], fill(0.0, f32, 64, 64))
"""
    assert [code for code, _ in told(compile_source(Source("k.pipe", text), Options("sm_90a")))] == expected


@pytest.mark.parametrize("width", [33, 65, 200, 449])
@pytest.mark.parametrize(("early", "expected"), [(1, ["E0601"]), (0, [])])
def test_windows_of_several_tiles(width: int, early: int, expected: list[str]) -> None:
    """Only the blocks behind the first window lose keys, and `S` tells nothing but where the last one ends."""
    text = f"""
kernel k(x: tensor[f32, S, 32]):
    grid(ceildiv(S, 64))
    first = block.x * 64
    end = ceildiv(min(first + 64, S), 64)
    p = ProducerConsumerPipeline(stages=2)
    role a(warps=1) produces p:
        for j in range(max(0, first - {width} + 1) // 64, end):
            p.producer_signal_and_step()
    role b(warps=1) consumes p:
        for j in range(max(0, first - {width} + {1 - early}) // 64 * 64, end * 64, 64):
            p.consumer_signal_and_step()
"""
    # (Of the other widths both loops begin with the same keys.)
    wanted = expected if width % 64 == 1 else []
    assert [code for code, _ in told(compile_source(Source("k.pipe", text), Options("sm_90a")))] == wanted
