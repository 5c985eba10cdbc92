"""What it takes to read a kernel and to check its proof grows in proportion to the kernel: counted in calls, not in seconds."""

import sys
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

from pipec.driver import compile_source
from pipec.protocol.prove import prove
from pipec.source import Source
from pipec.verify.checker.check import check
from pipec.verify.reader.processes import walk
from pipec.verify.reader.processes.classes import Classes
from pipec.verify.reader.processes.ring_liveness import Used
from pipec.verify.reader.processes.states import Node
from pipec.verify.reader.read import read

_HEAD = "kernel k(n: i32, x: tensor[f32, M, N]):\n    grid(1)\n"
_MORE = 1.35  # than in proportion: sets and sorted lists grow with what is in them


def _roles(rings: dict[str, int], sides: dict[str, list[tuple[str, str]]]) -> str:
    """`rings`: their stages; `sides`: by role what it does in loops, one after the other."""
    text = _HEAD + "".join(f"    {ring} = ProducerConsumerPipeline(stages={stages})\n" for ring, stages in rings.items())
    for role, loops in sides.items():
        used = {word: ", ".join(dict.fromkeys(ring for side, ring in loops if side == word)) for word in ("produce", "consume")}
        words = "".join(f" {word}s {names}" for word, names in used.items() if names)
        text += f"    role {role}(warps=1){words}:\n"
        for side, ring in loops:
            text += f"        for i in range(n):\n            with {ring}.{side}() as s:\n                pass\n"
    return text


def statements(many: int) -> str:
    """So many stages in each turn."""
    text = _HEAD + "    p = ProducerConsumerPipeline(stages=2)\n"
    for role, word in (("a", "produce"), ("b", "consume")):
        text += f"    role {role}(warps=1) {word}s p:\n        for i in range(n):\n"
        text += f"            with p.{word}() as s:\n                pass\n" * many
    return text


def stages(many: int) -> str:
    return _roles({"p": many}, {"a": [("produce", "p")], "b": [("consume", "p")]})


def readers(many: int) -> str:
    """Roles that read the same stages."""
    return _roles({"p": 2}, {"a": [("produce", "p")], **{f"b{at}": [("consume", "p")] for at in range(many)}})


def loops(many: int) -> str:
    """One after the other, each of which may have no turn: what it did not use is told apart from what it did for as long as it matters."""
    rings = [f"p{at}" for at in range(many)]
    return _roles(
        dict.fromkeys(rings, 2), {"a": [("produce", ring) for ring in rings], "b": [("consume", ring) for ring in rings]}
    )


def ctas(many: int) -> str:
    """Of a cluster, all of which do the same."""
    return _roles({"p": 2}, {"a": [("produce", "p")], "b": [("consume", "p")]}).replace(
        "grid(1)", f"grid({many})\n    cluster({many})"
    )


def costs(text: str) -> tuple[int, int]:
    """Calls while the text is read, and while its proof is checked."""
    state = compile_source(Source("k.pipe", text), until="emit")
    assert state.ptx is not None
    network = read(state.ptx)
    certificate = prove(network)
    ptx = state.ptx
    return calls(lambda: read(ptx)), calls(lambda: check(network, certificate))


def calls(work: Callable[[], object]) -> int:
    made = 0

    def count(frame: FrameType, event: str, argument: object) -> None:
        nonlocal made
        made += event == "call"

    before = sys.getprofile()
    sys.setprofile(count)
    try:
        work()
    finally:
        sys.setprofile(before)
    return made


@pytest.mark.parametrize(("family", "size"), [(statements, 12), (stages, 8), (readers, 5), (loops, 10), (ctas, 4)])
def test_twice_as_much_costs_twice_as_much(family: Callable[[int], str], size: int) -> None:
    for small, large in zip(costs(family(size)), costs(family(2 * size)), strict=True):
        assert large <= 2 * _MORE * small


def test_loops_are_not_found_again_when_arrivals_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    """A role that hands over stages and waits for none is walked twice: it shows only at its end that its arrivals are to be counted."""
    runs: list[tuple[bool, int]] = []
    run, back = walk.Walk.run, walk.Walk._back_to

    def counted(self: walk.Walk) -> list[Node]:
        runs.append((self.machine.waited is not None, 0))
        return run(self)

    def again(self: walk.Walk, block: int) -> None:
        runs[-1] = runs[-1][0], runs[-1][1] + 1
        back(self, block)

    monkeypatch.setattr(walk.Walk, "run", counted)
    monkeypatch.setattr(walk.Walk, "_back_to", again)
    path = Path(__file__).parents[2] / "examples" / "attention.pipe"
    ptx = compile_source(Source(path.name, path.read_text(encoding="utf-8")), until="emit").ptx
    assert ptx is not None
    read(ptx)
    separately = [found for apart, found in runs if apart]
    assert len(separately) == 2 and not any(separately)
    assert any(found for apart, found in runs if not apart)


@pytest.mark.parametrize("wrong", [False, True])
def test_what_is_said_of_uses_decides_nothing(wrong: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """A ring that is used again behind other loops. Were it said not to be, its uses would not be understood, and the kernel is read
    without what is said."""
    rings = ["p", "q", "r", "p"]
    text = _roles(
        dict.fromkeys(rings, 2), {"a": [("produce", ring) for ring in rings], "b": [("consume", ring) for ring in rings]}
    )
    ptx = compile_source(Source("k.pipe", text), until="emit").ptx
    assert ptx is not None
    monkeypatch.setattr(walk, "MANY_STATES", 0)
    used, asked = Classes._used, []

    def said(self: Classes, *arguments: Any) -> Used:
        found = used(self, *arguments)
        asked.append(found)
        return dict.fromkeys(found, frozenset([0])) if wrong else found

    with monkeypatch.context() as patched:
        patched.setattr(Classes, "_used", lambda *arguments: {})
        plain = read(ptx)
    monkeypatch.setattr(Classes, "_used", said)
    network = read(ptx)
    check(network, prove(network))
    assert any(asked) and len(network.processes) == len(plain.processes)
    if wrong:
        assert network == plain
    else:
        # Of `q` and `r` it does not matter any more where they stand when `p` is used again.
        assert sum(len(one.states) for one in network.processes) < sum(len(one.states) for one in plain.processes)
