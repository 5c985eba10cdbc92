"""Machine code of instructions against the meaning that it was traced from: bit for bit, NaN included."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from unittest import mock

import numpy as np
import pytest

from pipec.sim import ArrayArgument, Options, SimulationError, launch
from pipec.sim.compiled import forms
from pipec.sim.machine.program import Program
from pipec.sim.machine.schedule.scheduler import Scheduler
from pipec.sim.machine.threads.cta import Warp
from pipec.sim.machine.threads.divergence import Fragment

from .alu_cases import cases
from .race_programs import PROGRAMS
from .test_alu import simulate


@contextmanager
def compiled(wanted: bool) -> Iterator[list[forms.Form]]:
    """All that can be machine code is, or nothing; the forms of the programs that are run."""
    made: list[forms.Form] = []

    def at_once(program: Program) -> None:
        for step in program.code:
            if step.form is not None and wanted:
                made.append(step.form)
                if not step.form.tried:
                    step.form.compile()
        if wanted:
            program.use_compiled()

    with mock.patch.object(Program, "begin", at_once), mock.patch.object(forms, "HOT", 1 << 60):
        yield made


def test_every_instruction_is_the_same_as_machine_code() -> None:
    """The recorded instructions, over edge values of their types: most have machine code, and it gives the same bits."""
    traced = set()
    for case in cases():
        with compiled(False):
            plain = simulate(case)
        with compiled(True) as made:
            quick = simulate(case)
        assert np.array_equal(plain, quick), case.name
        arithmetic = [form for form in made if form.name == case.text.split()[0]]
        traced |= {form.name for form in arithmetic if form.function}
    assert len(traced) > 250


_MANY = """
.version 8.6
.target sm_90a
.address_size 64
.visible .entry many(.param .u64 out, .param .u32 odd) .reqntid 64
{
    .reg .pred %p<4>;
    .reg .b32 %r<8>;
    .reg .b64 %rd<4>;
    mov.u32 %r1, %tid.x;
    mov.u32 %r2, 0;
    mov.u32 %r3, 0;
    and.b32 %r4, %r1, 1;
    setp.eq.s32 %p1, %r4, 1;
again:
    @%p1 bra odd;
    add.s32 %r2, %r2, 3;
    xor.b32 %r2, %r2, %r1;
    bra join;
odd:
    mad.lo.s32 %r2, %r2, 5, %r1;
    @!%p1 add.s32 %r2, %r2, 1000;
    @%p1 sub.s32 %r2, %r2, 7;
join:
    add.s32 %r3, %r3, 1;
    setp.lt.s32 %p2, %r3, 300;
    @%p2 bra again;
    ld.param.u64 %rd1, [out];
    mul.wide.u32 %rd2, %r1, 4;
    add.s64 %rd1, %rd1, %rd2;
    st.global.u32 [%rd1], %r2;
    ret;
}
"""


def _run(options: Options) -> tuple[np.ndarray, object]:
    out = np.zeros(64, np.uint32)
    statistics = launch(_MANY, arguments=[ArrayArgument(out), 0], options=options).statistics
    return out, (statistics.warp_instructions, statistics.thread_instructions, statistics.time)


@pytest.mark.parametrize("timing", ["order", "random"])
def test_parted_lanes_guards_and_time(timing: str) -> None:
    """Loops whose lanes part: results, counts and simulated time do not depend on what is machine code."""
    options = Options(timing=timing, seed=5)
    with compiled(False):
        plain = _run(options)
    with compiled(True):
        quick = _run(options)
    grown = _run(options)  # on the way some forms become machine code
    for found in (quick, grown):
        assert np.array_equal(plain[0], found[0]) and plain[1] == found[1]
    expected = []
    for lane in range(64):
        value = 0
        for _ in range(300):
            value = (value * 5 + lane - 7 if lane % 2 else (value + 3) ^ lane) & 0xFFFFFFFF
        expected.append(value)
    assert plain[0].tolist() == expected


def _turns(name: str, fault: str | None, options: Options) -> tuple[list[tuple[Any, ...]], list[tuple[str, int]]]:
    """Which warp ran from where to where, in order and with the time; and what was found."""
    turns: list[tuple[Any, ...]] = []
    plain = Scheduler.run_fragment

    def run(scheduler: Scheduler, warp: Warp, fragment: Fragment, quantum: int) -> int:
        machine, start = scheduler.machine, fragment.pc
        count = plain(scheduler, warp, fragment, quantum)
        turns.append((machine.now, machine.progress, warp.cta.index, warp.index, start, fragment.pc, count))
        return count

    with mock.patch.object(Scheduler, "run_fragment", run):
        try:
            found = PROGRAMS[name].run(fault, options).findings
        except SimulationError as error:
            if not error.findings:
                raise
            found = error.findings
    return turns, [(one.kind, one.ptx_line) for one in found]


@pytest.mark.sample(0.3)
@pytest.mark.parametrize("name", PROGRAMS)
def test_a_seed_is_one_schedule(name: str) -> None:
    """Whatever ran before, and whether it has become machine code, a schedule takes the same turns and finds the same."""
    for options in (Options("order"), Options("late"), Options("random", seed=1), Options("random", seed=2)):
        for fault in (None, *PROGRAMS[name].faults):
            first = _turns(name, fault, options)  # as far as others have made machine code of it
            with compiled(False):
                plain = _turns(name, fault, options)
            with compiled(True):
                quick = _turns(name, fault, options)
            assert first == plain == quick == _turns(name, fault, options), (fault, options)


def _reports(name: str, fault: str | None) -> list[tuple[str, int, int]]:
    """Of each finding its kind and both lines; which of several places is told need not be the same."""
    try:
        found = PROGRAMS[name].run(fault).findings
    except SimulationError as error:
        found = error.findings
    return [(one.kind, one.ptx_line, one.details.get("other", {}).get("ptx_line", 0)) for one in found]


@pytest.mark.sample(0.3)
@pytest.mark.parametrize("name", PROGRAMS)
def test_machine_code_finds_the_same_races(name: str) -> None:
    """Loads and stores leave their marks as machine code, too: the same is in order, and the same is not."""
    for fault in (None, *PROGRAMS[name].faults):
        with compiled(False):
            plain = _reports(name, fault)
        with compiled(True):
            quick = _reports(name, fault)
        assert plain == quick, fault


@pytest.mark.parametrize(
    "name", ["exchange", "bytes beside each other", "vectors beside each other", "words that all warps load"]
)
def test_loads_and_stores_are_machine_code(name: str) -> None:
    with compiled(True) as made:
        _reports(name, None)
    memory = {form.name: bool(form.function) for form in made if form.name.startswith(("ld.", "st."))}
    assert memory and all(memory.values()), memory


_MATRICES = """
.version 8.6
.target sm_90a
.address_size 64
.visible .entry matrices(.param .u64 given, .param .u64 out) .reqntid 64
{{
    .reg .b32 %r<12>;
    .reg .b64 %rd<6>;
    .shared .align 16 .b8 tile[1024];
    mov.u32 %r1, %tid.x;
    ld.param.u64 %rd1, [given];
    ld.param.u64 %rd2, [out];
    mul.wide.u32 %rd3, %r1, 16;
    add.s64 %rd1, %rd1, %rd3;
    add.s64 %rd2, %rd2, %rd3;
    ld.global.v4.b32 {{%r2, %r3, %r4, %r5}}, [%rd1];
    mov.u32 %r6, tile;
    xor.b32 %r7, %r1, 5;
    shl.b32 %r7, %r7, 4;
    add.s32 %r7, %r7, %r6;
    st.shared.v4.b32 [%r7], {{%r5, %r4, %r3, %r2}};
    bar.sync 0;
    {instruction}
    bar.sync 0;
    {after}
    st.global.v4.b32 [%rd2], {{%r2, %r3, %r4, %r5}};
    ret;
}}
"""


@pytest.mark.parametrize("transposed", ["", ".trans"])
@pytest.mark.parametrize("count", [1, 2, 4])
@pytest.mark.parametrize("root", ["ldmatrix", "stmatrix"])
def test_matrices_are_machine_code(root: str, count: int, transposed: str) -> None:
    """All their forms, bit for bit: both warps load or store matrices whose rows lie in another order than the lanes."""
    form = f"{root}.sync.aligned.m8n8.x{count}{transposed}.shared.b16"
    registers = "{" + ", ".join(f"%r{number}" for number in range(2, 2 + count)) + "}"
    operands = f"{registers}, [%r7]" if root == "ldmatrix" else f"[%r7], {registers}"
    after = "" if root == "ldmatrix" else "ld.shared.v4.b32 {%r2, %r3, %r4, %r5}, [%r7];"
    ptx = _MATRICES.format(instruction=f"{form} {operands};", after=after)
    given = np.random.default_rng(count).integers(0, 1 << 32, (64, 4), dtype=np.uint32)

    def run() -> np.ndarray:
        out = np.zeros_like(given)
        launch(ptx, arguments=[ArrayArgument(given), ArrayArgument(out)])
        return out

    with compiled(False):
        plain = run()
    with compiled(True) as made:
        quick = run()
    assert plain.any() and np.array_equal(plain, quick)
    assert all(one.function for one in made if one.name == form)


@pytest.mark.parametrize("address", ["%r1", "%r6"])
def test_matrices_that_are_wrong_are_refused_by_machine_code(address: str) -> None:
    """Rows that are no rows, or in another part of memory, are the business of the meaning, which says so."""
    ptx = _MATRICES.format(
        instruction=f"ldmatrix.sync.aligned.m8n8.x4.shared.b16 {{%r2, %r3, %r4, %r5}}, [{address}+8];", after=""
    )
    given = np.zeros((64, 4), np.uint32)
    found = []
    for wanted in (False, True):
        with compiled(wanted), pytest.raises(SimulationError) as caught:
            launch(ptx, arguments=[ArrayArgument(given), ArrayArgument(given.copy())])
        found.append((caught.value.kind, caught.value.message, caught.value.ptx_line))
    assert found[0] == found[1] and found[0][0] in ("misaligned", "out_of_bounds")
