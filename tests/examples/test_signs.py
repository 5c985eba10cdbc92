"""Compile-time parameters of the examples at 0 and below: refused, or what is computed is right.

A kernel whose groups of tiles have a negative number of rows waits for nothing in vain: it leaves elements out.
"""

import re

import pytest
from examples.catalogue import COMPARED_ELSEWHERE, EXAMPLES, Case, Run

from pipec.driver import Options, compile_source
from pipec.reference import shape_sets, trial_of
from pipec.runtime import ArgumentError, LaunchOptions, launch
from pipec.source import Source

_HEAD = re.compile(r"^kernel \w+\[(.*?)\]\(", re.DOTALL | re.MULTILINE)
_NUMBER = re.compile(r"(\w+): int\b")
ALL = [
    (path.stem, name, value)
    for path in sorted(EXAMPLES.glob("*.pipe"))
    if path.stem not in COMPARED_ELSEWHERE
    for head in _HEAD.findall(path.read_text(encoding="utf-8"))
    for name in dict.fromkeys(_NUMBER.findall(head))
    for value in (0, -1, -4)
]
KNOWN = [("gemm_sm90_pingpong", "GROUP", -4), ("gemm_sm90_bias_gelu", "GROUP", -1), ("copy_tma", "BLOCKS", -4)]


@pytest.mark.sample(0.3, of="example")
@pytest.mark.parametrize(("example", "name", "value"), ALL)
def test_it_is_refused_or_right(example: str, name: str, value: int) -> None:
    source = Source(f"{example}.pipe", (EXAMPLES / f"{example}.pipe").read_text(encoding="utf-8"))
    state = compile_source(source, Options(constants={name: value}))
    assert all(one.code != "E0001" for one in state.diagnostics), state.diagnostics
    if state.failed:
        return
    for plan in state.plans or ():
        first = Run(
            Case(EXAMPLES / f"{example}.pipe", ()), plan.kernel.name, tuple(shape_sets(plan.kernel.document or "")[0].items())
        )
        trial = trial_of(plan, first.numbers, seed=1)
        try:
            launch(plan.interface, state.ptx or "", trial.arguments, device="sim", options=LaunchOptions())
        except ArgumentError:
            continue  # a launch that the kernel does not admit
        for outcome in trial.judged():
            assert outcome.passed, outcome


def test_what_was_accepted_and_left_elements_out_is_refused() -> None:
    for example, name, value in KNOWN:
        text = (EXAMPLES / f"{example}.pipe").read_text(encoding="utf-8")
        state = compile_source(Source(f"{example}.pipe", text), Options(constants={name: value}))
        assert {one.code for one in state.diagnostics} & {"E0273", "E0274"}, (example, name, value)
