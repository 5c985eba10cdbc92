"""Pairs of roles: what fits together for all sizes is proved, what does not is refuted at the smallest sizes at which it does not."""

import itertools
import re

import pytest

from pipec.diag.message import Diagnostic
from pipec.driver import Options, compile_source
from pipec.source import Source


def judged(text: str) -> tuple[str, list[Diagnostic]]:
    state = compile_source(Source("t.pipe", text), Options(allow_undecided=True))
    return state.protocol["k"].outcome, state.diagnostics


def two_roles(first: str, second: str, p: int = 2, q: int = 1) -> str:
    """Roles `a` and `b` over rings p and q; F/E fill and empty a stage of p, G/D one of q; `N[...]` is a loop of N."""
    words = {"F": "with p.produce():", "E": "with p.consume():", "G": "with q.produce():", "D": "with q.consume():"}

    def body(text: str) -> str:
        lines, depth, counter = [], 2, itertools.count()
        for word in text.split():
            if word == "]":
                depth -= 1
            elif word.endswith("["):
                lines += [f"{'    ' * depth}for i{next(counter)} in range({word[:-1]}):", f"{'    ' * (depth + 1)}pass"]
                depth += 1
            else:
                lines += [f"{'    ' * depth}{words[word]}", f"{'    ' * (depth + 1)}pass"]
        return "\n".join(lines)

    clauses = {"F": "produces p", "E": "consumes p", "G": "produces q", "D": "consumes q"}

    def head(text: str) -> str:
        return " ".join(dict.fromkeys(clauses[word] for word in text.split() if word in clauses))

    used = {name for name in "pq" if name in head(first).split()}
    rings = "\n".join(
        f"    {name} = ProducerConsumerPipeline(stages={stages})" for name, stages in (("p", p), ("q", q)) if name in used
    )
    roles = "\n".join(f"    role {name}(warps=1) {head(text)}:\n{body(text)}" for name, text in (("a", first), ("b", second)))
    return f"kernel k(t: tensor[f32, N, M]):\n    grid(2)\n{rings}\n{roles}\n"


@pytest.mark.parametrize("depth", [1, 2, 5])
def test_a_loop_that_fills_before_anyone_empties_hangs_exactly_beyond_the_depth(depth: int) -> None:
    outcome, (diagnostic,) = judged(two_roles("N[ F ] G", "D N[ E ]", p=depth))
    assert (outcome, diagnostic.code) == ("refuted", "E0601")
    assert diagnostic.title == f"roles `a`, `b` wait for ever when N = {depth + 1}"


def test_the_same_with_a_known_count_within_the_depth_is_no_error() -> None:
    assert judged(two_roles("F F G", "D E E", p=2))[0] == "proved"
    assert judged(two_roles("F F F G", "D E E E", p=2))[0] == "refuted"


@pytest.mark.parametrize(
    ("first", "second", "outcome"),
    [
        ("N[ F G ]", "N[ E D ]", "proved"),
        ("N[ F G ]", "N[ D E ]", "proved"),
        ("N[ F F G ]", "N[ D E E ]", "proved"),
        ("N[ F F F G ]", "N[ D E E E ]", "refuted"),
        ("N[ M[ F ] G ]", "N[ M[ E ] D ]", "proved"),
        ("N[ M[ F ] ]", "M[ N[ E ] ]", "proved"),
        ("N[ F ] M[ G ]", "M[ D ] N[ E ]", "refuted"),
        ("N[ F ]", "M[ E ]", "refuted"),
        ("F N[ F ]", "N[ E ] E", "proved"),
        ("N[ F ] D", "G N[ E ]", "proved"),
    ],
)
def test_verdicts(first: str, second: str, outcome: str) -> None:
    assert judged(two_roles(first, second))[0] == outcome


def with_tiles(text: str) -> str:
    """The same where stages hold something that would be lost."""
    text = text.replace("ProducerConsumerPipeline(", "InputTilePipeline(TilePayload(x=tile[f32, 8, 32]), ")
    for side, use in (("produce", "write(s.x, fill(1.0, f32, 8, 32))"), ("consume", "v = registers(s.x)")):
        text = re.sub(rf"\.{side}\(\):\n( *)pass", rf".{side}() as s:\n\1{use}", text)
    return text


def test_stages_left_filled_are_an_error() -> None:
    outcome, (diagnostic,) = judged(with_tiles(two_roles("N[ F ] F", "N[ E ]")))
    assert (outcome, diagnostic.code) == ("refuted", "E0602")
    assert diagnostic.title == "`p` is filled once, but consumed 0 times by role `b` when N = 0"


AHEAD = """kernel k(t: tensor[f32, N, M]):
    grid(1)
    scores = ProducerConsumerPipeline(stages={stages})
    values = ProducerConsumerPipeline(stages={stages})
    role a(warps=1) produces scores, values:
        for i in range({count}):
            with scores.produce():
                pass
            with values.produce():
                pass
    role b(warps=1) consumes scores, values:
        for first in range({ahead}):
            with scores.consume():
                pass
        for j in range({count}):
            if {more}:
                with scores.consume():
                    pass
            with values.consume():
                pass
"""


@pytest.mark.parametrize(
    ("count", "ahead", "more", "stages", "outcome"),
    [
        ("max(1, N)", 1, "j + 1 < max(1, N)", 1, "proved"),
        ("max(2, N)", 2, "j + 2 < max(2, N)", 2, "proved"),
        ("max(1, N)", 1, "max(1, N) > j + 1", 1, "proved"),
        ("max(1, N)", 1, "j != max(1, N) - 1", 1, "proved"),
        ("max(1, N)", 1, "j < max(1, N) - 1", 1, "proved"),
        ("max(2, N)", 2, "j + 2 < max(2, N)", 1, "refuted"),  # one stage for two that are taken before the first value
        ("N", 1, "j + 1 < N", 1, "refuted"),  # none to be taken ahead when N = 0
        ("max(1, N)", 1, "j + 2 < max(1, N)", 1, "refuted"),
        ("max(1, N)", 1, "j < max(1, N)", 1, "refuted"),
        ("max(1, N)", 1, "j > 0", 1, "proved"),
        ("max(1, N)", 1, "j > 1", 1, "refuted"),
        ("max(1, N)", 0, "j >= 0", 1, "proved"),
    ],
)
def test_a_role_that_works_ahead(count: str, ahead: int, more: str, stages: int, outcome: str) -> None:
    assert judged(with_tiles(AHEAD.format(count=count, ahead=ahead, more=more, stages=stages)))[0] == outcome


def test_branches_that_every_role_takes_alike_are_proved() -> None:
    text = """kernel k(t: tensor[f32, N, M]):
    grid(4)
    p = ProducerConsumerPipeline(stages=1)
    role a(warps=1) produces p:
        for i in range(N):
            if i % 2 == block.x:
                with p.produce():
                    pass
    role b(warps=1) consumes p:
        for j in range(N):
            if j % 2 == block.x:
                with p.consume():
                    pass
"""
    assert judged(text)[0] == "proved"
    assert judged(text.replace("j % 2 == block.x", "j % 2 != block.x"))[0] == "refuted"


def test_a_block_that_leaves_its_stages_is_found() -> None:
    text = two_roles("N[ F ]", "N[ E ]").replace(
        "        for i0 in range(N):\n            pass\n            with p.consume():\n                pass",
        "        if block.x == 0:\n            for i0 in range(N):\n                with p.consume():\n                    pass",
    )
    outcome, (diagnostic,) = judged(with_tiles(text))
    assert (outcome, diagnostic.code) == ("refuted", "E0602")
    assert diagnostic.title == "`p` is filled once, but consumed 0 times by role `b` when N = 1, block.x = 1"
