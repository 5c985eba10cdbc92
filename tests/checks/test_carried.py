"""Loops whose bounds are carried from iteration to iteration: proved where both roles compute them alike, and only there."""

import random
import re

import pytest

from pipec.checks.protocol import check
from pipec.checks.protocol_model import programs
from pipec.checks.protocol_search import search
from pipec.checks.verdict import Verdict
from pipec.diag.message import Sink
from pipec.sema import analyse, tree
from pipec.source import Source
from pipec.syntax.parse import parse

FRAME = """
kernel k(x: tensor[f32, 128, 32], s: tensor[i32, M]):
    grid(1)
    ring = InputTilePipeline(TilePayload(x=tile[f32, 128, 32]), stages=2)
    role load(warps=1) produces ring:
PRODUCER
    role use(warps=4) consumes ring:
CONSUMER
"""
STAGE = {
    "PRODUCER": "with ring.produce() as t: tma.load(t.x, x[0, 0])",
    "CONSUMER": "with ring.consume() as t: y = registers(t.x)",
}


def kernel_of(producer: str, consumer: str) -> tree.Kernel:
    """`STAGE` in a body is a stage filled or taken."""
    text = FRAME
    for side, body in (("PRODUCER", producer), ("CONSUMER", consumer)):
        lines = []
        for line in body.strip("\n").split("\n"):
            indent = " " * (len(line) - len(line.lstrip()) + 8)
            with_, _, inside = STAGE[side].partition(": ")
            lines += [f"{indent}{with_}:", f"{indent}    {inside}"] if line.strip() == "STAGE" else [indent + line.strip()]
        text = text.replace(side, "\n".join(lines))
    sink = Sink()
    file = parse(Source("k.pipe", text), sink)
    assert file is not None, (sink.diagnostics[0].title, text)
    found = analyse(file, sink, {})
    assert sink.diagnostics == [], (sink.diagnostics[0].title, text)
    return found[0]


def verdict(producer: str, consumer: str) -> Verdict:
    return check(kernel_of(producer, consumer), Sink())


WALK = """
before = 0
for g in range(M):
    tiles = load(s[g])
    for t in range(before % 3, tiles):
        STAGE
    before += tiles
"""

SAME = {
    "itself": WALK,
    "other names": WALK.replace("before", "base").replace("tiles", "many"),
    "written out": WALK.replace("    tiles = load(s[g])\n", "").replace("tiles", "load(s[g])"),
    "other values on the way": WALK.replace("    tiles", "    other = 7 * g\n    tiles"),
}
OTHER = {
    "counted first": """
before = 0
for g in range(M):
    tiles = load(s[g])
    before += tiles
    for t in range(before % 3, tiles):
        STAGE
""",
    "another element": WALK.replace("load(s[g])", "load(s[g + 1])"),
    "another start": WALK.replace("before = 0", "before = 1"),
    "another step": WALK.replace("+= tiles", "+= tiles + 1"),
    "counted twice": WALK + "\n    before += tiles",
    "under a condition": WALK.replace("    before += tiles", "    if g > 1:\n        before += tiles"),
    "by thread": WALK.replace("+= tiles", "+= tiles * role_warp()"),
}


@pytest.mark.parametrize("name", SAME)
def test_proved(name: str) -> None:
    assert verdict(WALK, SAME[name]).outcome == "proved"


@pytest.mark.parametrize("name", OTHER)
def test_not_proved(name: str) -> None:
    assert verdict(WALK, OTHER[name]).outcome != "proved"


def test_elements_that_the_kernel_writes_are_not_the_same_to_all() -> None:
    written = "with ring.consume() as t:\n    store.direct(s[0], cast[i32](row_sum(t.x)))\n"
    assert verdict("STAGE\n" + WALK, written + WALK).outcome == "open"


SCHEDULED = """
for tile in tiles:
    g = 0
    behind = load(s[0])
    while behind <= tile.index and g + 1 < M:
        g += 1
        behind += load(s[g])
    for k in range(load(s[g])):
        STAGE
"""


@pytest.mark.parametrize("mode", ["static", "clc"])
@pytest.mark.parametrize(("change", "outcome"), [(("", ""), "proved"), (("+= 1", "+= 2"), "open")], ids=["alike", "another step"])
def test_groups_found_anew_for_each_tile(
    mode: str, change: tuple[str, str], outcome: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    grid = f'tiles = TileScheduler(M, mode="{mode}")'
    monkeypatch.setitem(globals(), "FRAME", FRAME.replace("grid(1)", grid))
    assert verdict(SCHEDULED, SCHEDULED.replace(*change)).outcome == outcome


def test_inside_a_loop_is_not_behind_it() -> None:
    inside = "n = 0\nfor i in range(M):\n    n += 1\n    for k in range(n):\n        STAGE"
    behind = "n = 0\nfor i in range(M):\n    n += 1\nfor j in range(M):\n    for k in range(n):\n        STAGE"
    assert verdict(inside, inside).outcome == "proved" and verdict(behind, behind).outcome == "proved"
    assert verdict(inside, behind).outcome == "refuted"


# ---------------------------------------------------------------------------------------------- against running the roles


def body(generator: random.Random, depth: int = 0) -> list[str]:
    lines: list[str] = []
    for _ in range(generator.randrange(1, 4)):
        kind = generator.choice(["assign", "assign", "loop", "branch", "stages"] if depth < 2 else ["assign", "stages"])
        value = generator.choice(["a + 1", "b", "b + 1", "a - 1", "M", "2", "a + b"])
        target = generator.choice("ab")
        if kind == "assign":
            lines.append(f"{target} = {value}")
        elif kind == "stages":
            count = generator.choice(["a", "b", "a - b", "a % 3", "2"])
            lines += [f"for k{depth} in range(min({count}, 3)):", "    STAGE"]
        else:
            head = f"for i{depth} in range({generator.choice(['M', '2', 'min(a, 2)'])}):"
            condition = f"if {generator.choice(['a > 1', 'b % 2 == 0', 'M > 1'])}:"
            lines += [head if kind == "loop" else condition, *(f"    {line}" for line in body(generator, depth + 1))]
    return lines


def changed(generator: random.Random, lines: list[str]) -> list[str]:
    """Mostly a program that differs a little; sometimes only in its names."""
    lines, kind = list(lines), generator.randrange(6)
    places = [at for at, line in enumerate(lines) if re.match(r" *[ab] = ", line)]
    moved = [at for at in places if at + 2 < len(lines) and lines[at + 1].startswith(re.match(" *", lines[at])[0] + "for k")]
    if kind > 3 and moved:
        at = generator.choice(moved)
        lines[at : at + 3] = [*lines[at + 1 : at + 3], lines[at]]
        return lines
    if kind == 0 or not places:
        names = {"a": "c", "b": "d"}
        return [re.sub(r"\b[ab]\b", lambda match: names[match[0]], line) for line in lines]
    at = generator.choice(places)
    if kind == 1:
        lines[at] = re.sub(r"= .*", "= a + 2", lines[at])
    elif kind == 2 and at + 1 < len(lines) and re.match(r" *[ab] = ", lines[at + 1]):
        lines[at], lines[at + 1] = (
            re.sub(r"\S.*", lines[one].strip(), lines[other]) for one, other in ((at + 1, at), (at, at + 1))
        )
    else:
        lines[at] = re.sub(r"\S.*", "pass", lines[at])
    return lines


def program(lines: list[str]) -> str:
    names = "cd" if any(re.search(r"\b[cd]\b", line) for line in lines) else "ab"
    return "\n".join([f"{name} = {value}" for name, value in zip(names, (0, 1), strict=True)] + lines)


def test_what_is_proved_does_not_hang() -> None:
    """Random pairs of roles; the greedy run for small sizes knows nothing of how the proof words its variables."""
    generator = random.Random(20)
    proved = refuted = 0
    for _ in range(400):
        producer = body(generator)
        if not any("STAGE" in line for line in producer):
            continue
        kernel = kernel_of(program(producer), program(changed(generator, producer)))
        outcome = check(kernel, Sink()).outcome
        failure, _ = search(kernel, programs(kernel))
        proved += outcome == "proved"
        refuted += failure is not None
        assert outcome != "proved" or failure is None, (producer, failure)
    assert proved > 40 and refuted > 10
