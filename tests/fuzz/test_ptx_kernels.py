"""PTX that is no compiler's, seeded: the proof and the simulator do not contradict each other, and both have something to say."""

import random

import pytest
from effort import reached
from fuzz import ptx_judge
from fuzz.fuzz_ptx import text
from fuzz.ptx_judge import judged, shrunk
from fuzz.ptx_kernels import ptx
from fuzz.ptx_writer import LIMITS, Text, Value, read
from samples import numbers

CHUNK = 15
TAKEN = numbers("ptx kernels", 30, 60)


@pytest.mark.parametrize("chunk", range(0, len(TAKEN), CHUNK))
def test_what_is_proved_happens(chunk: int) -> None:
    taken = TAKEN[chunk : chunk + CHUNK]
    found = {number: judged(text(random.Random(f"ptx {number}")), number, schedules=3) for number in taken}
    assert {number: outcome.contradiction for number, outcome in found.items() if outcome.contradiction} == {}


def test_right_kernels_are_proved_and_changed_ones_go_wrong() -> None:
    """A generator of texts that nobody can read would contradict nothing."""
    right = (judged(ptx(random.Random(f"right {number}")), number, schedules=1) for number in range(16))
    assert reached(6, (outcome.said == "proved" for outcome in right))
    changed = (judged(text(random.Random(f"ptx {number}")), number, schedules=1) for number in range(24))
    assert reached(2, (outcome.said == "refuted" and outcome.happened for outcome in changed))


def test_a_contradiction_is_seen() -> None:
    """With a judge that calls everything proved."""
    hangs = "W: mbarrier.try_wait.parity.shared::cta.b64 %p1, [bar], 0;\n@!%p1 bra W;"
    kernel = (
        ".version 8.7\n.target sm_100a\n.address_size 64\n.visible .entry k(.param .u32 n, .param .u32 m, .param .u64 x)\n"
        ".reqntid 32, 1, 1\n{\n.reg .pred %p<2>;\n.shared .align 8 .b64 bar;\n.shared .b32 other;\n"
        f"mov.pred %p1, 0;\nsetp.ne.u32 %p1, %laneid, 0;\n@!%p1 mbarrier.init.shared::cta.b64 [bar], 1;\nbar.sync 0;\n{hangs}\nret;\n}}\n"
    )
    outcome = judged(kernel)
    assert (outcome.said, outcome.contradiction) == ("refuted", "") and outcome.happened.startswith("deadlock")


@pytest.mark.parametrize(("step", "contradiction"), [("1", ""), ("2", "step_limit")])
def test_a_counter_that_goes_all_the_way_round_ends(step: str, contradiction: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Said of a text that waits for nothing: by one it meets any number, if late; by two it may meet none."""
    kernel = (
        ".version 8.7\n.target sm_100a\n.address_size 64\n.visible .entry k(.param .u32 n, .param .u32 m, .param .u64 x)\n"
        ".reqntid 32, 1, 1\n{\n.reg .pred %p<2>;\n.reg .b32 %r<3>;\nmov.u32 %r1, 5;\nmov.u32 %r2, %laneid;\n"
        f"L1:\nadd.u32 %r1, %r1, {step};\nsetp.ne.u32 %p1, %r1, %r2;\n@%p1 bra L1;\nret;\n}}\n"
    )
    monkeypatch.setitem(ptx_judge._NAMED, "loops", "nothing")  # as if the reader had shown that the loop ends
    outcome = judged(kernel)
    assert (
        outcome.said == "proved" and contradiction in outcome.contradiction and bool(contradiction) == bool(outcome.contradiction)
    )


def test_shrinking_keeps_what_is_asked_for() -> None:
    assert shrunk("a\nb\nc\nd\ne", lambda one: "b" in one and "e" in one) == "b\ne"


@pytest.mark.parametrize("number", range(25))
def test_numbers_are_what_the_simulator_computes(number: int) -> None:
    """What the writer says of an expression, beside the machine's result in global memory."""
    import numpy as np

    from pipec.sim import launch

    draw = random.Random(f"numbers {number}")
    made, sizes = Text(draw), {"n": draw.choice(LIMITS)}
    value = made.number([Value("%n", 32, lambda at: at["n"])], 4)
    kind = f"u{value.width}"
    body = "\n".join(made.lines)
    out = np.zeros(1, f"u{value.width // 8}")
    launch(
        ".version 8.7\n.target sm_100a\n.address_size 64\n.visible .entry k(.param .u32 n, .param .u64 out)\n{\n"
        f".reg .b32 %n;\n.reg .b64 %out;\n{made.declared()}ld.param.u32 %n, [n];\nld.param.u64 %out, [out];\n{body}\n"
        f"st.global.{kind} [%out], {value.name};\nret;\n}}\n",
        "k",
        block=1,
        arguments=(np.uint32(sizes["n"]), out),
    )
    assert int(out[0]) == value.of(sizes), body
    assert read(-1, "u16") == 65535
