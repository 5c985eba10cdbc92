"""All warps of a warpgroup execute the same `wgmma` and `setmaxnreg`: the simulator reports what the checker of proofs refuses."""

import pytest
from verify.test_warpgroups import FENCE, FEWER, MORE, TEXT, WAIT, proved

from pipec.sim import Options, SimulationError, launch
from pipec.sim.machine.practice import Rules

COMMIT = "wgmma.commit_group.sync.aligned;"
ALONE = "registers set by warps alone"


def run(text: str, *, threads: int = 256, first: int = 128, rules: Rules = "documents") -> list[str]:
    """What is relied on. Raises SimulationError."""
    code = TEXT.format(text=text, threads=threads, first=first)
    return list(launch(code, "k", block=threads, options=Options(rules=rules)).relied_on)


def in_branch(text: str, before: str = "@!%p1") -> str:
    return f"{before} bra OTHERS; {text} OTHERS:"


@pytest.mark.parametrize("text", [FEWER, MORE, FENCE, COMMIT, WAIT])
@pytest.mark.parametrize("threads", [128, 256])
def test_whole_warpgroups(text: str, threads: int) -> None:
    assert run(text, threads=threads) == run(in_branch(text), first=threads) == []
    assert run(in_branch(text), threads=256) == run(f"@%p1 {text}") == []


@pytest.mark.parametrize("text", [FEWER, MORE, FENCE, COMMIT, WAIT])
@pytest.mark.parametrize(
    ("first", "before", "some"),
    [(96, "@!%p1", "warps 0, 1, 2 of warpgroup 0, and warp 3"), (160, "@%p1", "warps 5, 6, 7 of warpgroup 1, and warp 4")],
)
def test_parts_of_warpgroups(text: str, first: int, before: str, some: str) -> None:
    """(The first warps execute it, or the last.)"""
    placed = in_branch(text, before)
    with pytest.raises(SimulationError, match=rf"{text.split()[0].rstrip(';')} is executed by {some} exits without it") as caught:
        run(placed, first=first)
    assert caught.value.kind == "undefined" and caught.value.ptx_line
    assert not proved(placed, first=first)
    if text in (FEWER, MORE):
        assert run(placed, first=first, rules="practice") == [ALONE]
        return
    with pytest.raises(SimulationError, match="exits without it"):
        run(placed, first=first, rules="practice")


@pytest.mark.parametrize("text", [FEWER, FENCE, WAIT])
def test_smaller_blocks(text: str) -> None:
    """A product takes four warps. The registers of fewer, where the CTA has no more, are set by all that it has."""
    assert proved(text, threads=96) is (text == FEWER)
    if text == FEWER:
        assert run(text, threads=96) == []
        with pytest.raises(SimulationError, match="executed by warps 0, 1 of warpgroup 0, and warp 2 exits"):
            run(in_branch(text), threads=96, first=64)
        return
    with pytest.raises(SimulationError, match="executed by a warpgroup of 3 warps"):
        run(text, threads=96)


@pytest.mark.parametrize("text", [FEWER, FENCE])
def test_two_instructions_are_not_the_same(text: str) -> None:
    apart = f"@!%p1 bra OTHERS; {text} bra BOTH;\nOTHERS: {text} BOTH:"
    assert run(apart) == []
    # (Warp 0, which initialises the mbarrier, comes late.)
    with pytest.raises(SimulationError, match=r"by warp 1 of warpgroup 0, and warp 2 executes .* \(PTX line 18\) in its place"):
        run(apart, first=64)
    assert not proved(apart, first=64)


def test_in_loops_the_numbers_of_turns_are_compared() -> None:
    """Warp 3 leaves the loop a turn early; the checker of proofs, which reads each instruction once, does not look for that."""
    turns = f"mov.u32 %r8, 0; AGAIN: {FENCE} add.u32 %r8, %r8, 1; setp.lt.u32 %p5, %r8, %r7; @%p5 bra AGAIN;"
    assert run(f"mov.u32 %r7, 3; {turns}") == []
    with pytest.raises(SimulationError, match=r"warps 0, 1, 2 of warpgroup 0, and warp 3 exits without it"):
        run(f"mov.u32 %r7, 3; @%p1 bra SAME; mov.u32 %r7, 2; SAME: {turns}", first=96, threads=128)


def test_what_is_left_out_may_hang() -> None:
    """The last warp leaves out a product's fence and ends, so that nobody arrives for it: the cause is reported before the hang."""
    text = f"setp.ge.u32 %p4, %r0, 96; @%p4 bra LEFT; {FENCE} bra ON; LEFT: ret; ON:"
    code = TEXT.format(text=text, threads=128, first=128).replace("[bar], 32;", "[bar], 64;")
    with pytest.raises(SimulationError, match="exits without it") as caught:
        launch(code, "k", block=128)
    assert [finding.kind for finding in caught.value.findings] == ["undefined", "deadlock"]
