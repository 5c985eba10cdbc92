"""The stages of the compiler in order; nothing else knows it.

    parse -> analyse -> build -> check -> plan -> limits -> lower -> emit -> prove

A compilation can stop after any stage and stops by itself after a stage that reported something. Everything here is pure: a source in,
results or diagnostics out, the same ones whatever the user's cache holds.
"""

import os
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from pipec.budgets import BUDGETS, BudgetEnded
from pipec.checks.verdict import UNCHECKED, Findings, Verdict
from pipec.diag.catalogue.commands import internal
from pipec.diag.catalogue.language import syntax
from pipec.diag.message import Diagnostic, Sink
from pipec.garbage import uncollected
from pipec.isa.targets import DEFAULT_TARGET, TARGETS, Target
from pipec.kir import ir
from pipec.kir.plan.types import Plan
from pipec.record import field, mutable, record, replace
from pipec.sema import tree
from pipec.source import Source
from pipec.syntax import ast

# A stage loads what it runs: predicting and choosing need neither the prover nor LLVM.
if TYPE_CHECKING:
    from pipec.interface import KernelInterface
    from pipec.protocol.judgement import Judgement
    from pipec.verify.document import Proof


@record
class Options:
    """`constants` sets compile-time parameters (values or their text); `kernel` compiles only that one.

    `arch` None: the one named in the source (see Compilation.arch). `watchdog` bounds each wait on a barrier, in seconds. `unchecked`
    skips the checks and proofs: the result may hang or compute anything, as tests of the watchdog need. `allow_undecided` accepts
    kernels for which neither a deadlock nor a proof of its absence is found. `timestamps` adds a tensor in which the roles record the
    clock (pipec.timestamps). `remembers`: in the user's cache, which kernels are undecided, so that those allowed need no other search.
    """

    arch: str | None = None
    constants: Mapping[str, object] = field(default_factory=dict)
    kernel: str | None = None
    watchdog: float | None = None
    unchecked: bool = False
    allow_undecided: bool = False
    timestamps: bool = False
    remembers: bool = False


@mutable
class Compilation:
    """The results of the stages so far; a field is None until its stage ran without a message."""

    source: Source
    options: Options
    sink: Sink = field(default_factory=Sink)
    file: ast.File | None = None
    trees: list[tree.Kernel] | None = None
    kernels: list[ir.Kernel] | None = None
    protocol: dict[str, Verdict] = field(default_factory=dict)  # kernel name -> the result about freedom from deadlock
    findings: dict[str, Findings] = field(default_factory=dict)  # kernel name -> what the checks of global memory found
    certificates: "dict[str, Proof]" = field(default_factory=dict)  # of the proved kernels, for the PTX without a watchdog
    plans: list[Plan] | None = None
    llvm: str | None = None
    ptx: str | None = None

    @property
    def failed(self) -> bool:
        return self.sink.failed

    @property
    def diagnostics(self) -> list[Diagnostic]:
        return self.sink.diagnostics

    @property
    def arch(self) -> str:
        """The requested target, else the one in a line `arch: sm_90a` of the first compiled kernel's docstring."""
        return self.options.arch or self._stated_arch() or DEFAULT_TARGET

    def _stated_arch(self) -> str | None:
        for kernel in self.file.kernels if self.file else ():
            if self.options.kernel in (None, kernel.name.name):
                stated = (line.strip() for line in kernel.document.splitlines())
                return next((line.removeprefix("arch:").strip() for line in stated if line.startswith("arch:")), None)
        return None

    @property
    def target(self) -> Target:
        return TARGETS[self.arch]


def _parse(state: Compilation) -> None:
    from pipec.syntax.parse import parse

    if state.file is not None:
        return
    state.file = parse(state.source, state.sink)
    if state.file is not None and not state.file.kernels:
        end = len(state.source.lines)
        state.sink.report(syntax.Empty(name=state.source.name, at=state.source.span(end, 1, end, 2)))


def _analyse(state: Compilation) -> None:
    from pipec.sema import analyse

    assert state.file is not None
    state.trees = analyse(state.file, state.sink, dict(state.options.constants), state.options.kernel, state.target)


def _build(state: Compilation) -> None:
    from pipec.kir.build import build
    from pipec.kir.verify import verify

    assert state.trees is not None
    state.kernels = [build(kernel) for kernel in state.trees]
    for kernel in state.kernels:
        verify(kernel)


def _check(state: Compilation) -> None:
    from pipec.checks import check_kernel
    from pipec.checks.grid import clusters
    from pipec.checks.tiles import tile_axes

    assert state.kernels is not None and state.trees is not None
    for analysed, kernel in zip(state.trees, state.kernels, strict=True):
        clusters.check(analysed, [role.values for role in kernel.roles], state.sink)
        tile_axes.check(kernel, state.sink)
        check_kernel(kernel, state.target, state.sink)


def _plan(state: Compilation) -> None:
    assert state.kernels is not None
    state.plans = _planned(state)
    if state.options.watchdog is not None:
        from pipec.kir.plan.watchdog import watched

        nanoseconds = max(1, round(state.options.watchdog * 1e9))
        state.plans = [watched(one, nanoseconds) for one in state.plans]
    if state.options.timestamps:
        from pipec.kir.plan.timestamps import with_timestamps

        state.plans = [with_timestamps(one) for one in state.plans]


def _planned(state: Compilation) -> list[Plan]:
    from pipec.kir.plan.derive import plan

    return [plan(kernel, state.target) for kernel in state.kernels or ()]


def _limits(state: Compilation) -> None:
    from pipec.checks import check_plan

    assert state.plans is not None
    for plan in state.plans:
        state.findings[plan.kernel.name] = check_plan(plan, state.sink)


def _lower(state: Compilation) -> None:
    from pipec.lower import lower

    assert state.plans is not None
    state.llvm = lower(state.plans, state.source)


def _emit(state: Compilation) -> None:
    from pipec.ptx.emit import emit

    assert state.llvm is not None and state.plans is not None
    state.ptx = emit(state.llvm, state.target, state.plans, state.source)


def _prove(state: Compilation) -> None:
    """Freedom from deadlock is a property of the emitted code; a watchdog only bounds its waits, and time stamps do not wait, so both
    are left out."""
    from pipec.lower import lower
    from pipec.protocol.effort import work_so_far
    from pipec.protocol.remembered import remember_undecided, undecided_before
    from pipec.protocol.reporting.explain import verdict
    from pipec.ptx.emit import emit
    from pipec.verify.document import Proof

    assert state.plans is not None and state.ptx is not None
    ptx, plans = state.ptx, [*state.plans]
    if state.options.watchdog is not None or state.options.timestamps:
        plans = _planned(state)
        ptx = emit(lower(plans, state.source), state.target, plans, state.source)
    work = work_so_far()
    for number, plan in enumerate(plans):
        if number and work_so_far() - work > BUDGETS["file proof steps"].limit:
            raise BudgetEnded(BUDGETS["file proof steps"], plan.kernel.span)
        text, name = ptx, plan.kernel.name
        before = undecided_before(text, name) if state.options.remembers and state.options.allow_undecided else None
        if before is not None:
            state.protocol[name] = before
            continue
        found, judgement = verdict(ptx, plan, plan.interface, state.sink)
        ptx, found, judgement = _with_launch_checks(state, number, plan.interface, ptx, (found, judgement))
        if found.outcome == "open" and judgement.certificate is None and judgement.network is not None:
            ptx, proved_with, found, judgement = _with_positive_divisors(state, number, plan, ptx, (found, judgement))
            ptx, found, judgement = _with_launch_checks(state, number, proved_with, ptx, (found, judgement))
        if found.outcome == "open" and not state.options.allow_undecided:
            from pipec.protocol.reporting.undecided_report import not_decided

            state.sink.report(not_decided(ptx, plan.kernel, plan.interface, judgement))
        if found.outcome == "open" and judgement.certificate is None and state.options.remembers:
            remember_undecided(text, name, found)
        state.protocol[name] = found
        if found.outcome == "proved" and judgement.certificate is not None and judgement.network is not None:
            state.certificates[name] = Proof(judgement.certificate, judgement.network.assumed)


def _with_positive_divisors(
    state: Compilation, number: int, plan: "Plan", ptx: str, undecided: "tuple[Verdict, Judgement]"
) -> "tuple[str, KernelInterface, Verdict, Judgement]":
    """What is not decided, judged again for launches in which what the kernel divides by is positive; as before where that proves nothing.
    Returns the text and the interface of which it is told, too."""
    from pipec.protocol.divisors import ENOUGH, with_positive_divisors
    from pipec.protocol.forms.conditions import with_conditions
    from pipec.protocol.reporting.explain import verdict
    from pipec.ptx.normalise import with_interface

    assert state.ptx is not None and state.plans is not None
    interface = with_positive_divisors(plan.kernel, plan.interface)
    if interface is None:
        return ptx, plan.interface, *undecided
    stated = with_interface(ptx, interface)
    found, judgement = verdict(stated, plan, interface, Sink(), ENOUGH, undecided[1])
    certificate = judgement.certificate
    if found.outcome != "proved" or certificate is None or with_conditions(interface, certificate.assumes) is None:
        return ptx, plan.interface, *undecided
    asked = replace(state.plans[number].interface, conditions=interface.conditions)
    state.ptx, state.plans[number] = with_interface(state.ptx, asked), replace(state.plans[number], interface=asked)
    return stated, interface, found, judgement


def _with_launch_checks(
    state: Compilation, number: int, proved_with: "KernelInterface", ptx: str, told: "tuple[Verdict, Judgement]"
) -> "tuple[str, Verdict, Judgement]":
    """The proof's assumptions on sizes, if it has any, become launch conditions, and the proof is checked on the text that states them.
    `proved_with`: the kernel's interface in that text, which has no parameters of a watchdog or of time stamps."""
    from pipec.protocol.forms.conditions import why_unasked, with_conditions
    from pipec.protocol.judgement import Judgement, confirmed
    from pipec.protocol.reporting.explain import proved, undecided
    from pipec.ptx.normalise import with_interface

    assert state.plans is not None and state.ptx is not None
    plan, (_, judgement) = state.plans[number], told
    assumed = judgement.certificate.assumes if judgement.certificate else ()
    if not assumed:
        return ptx, *told
    interface = with_conditions(proved_with, assumed)
    if interface is None:
        found = Judgement(judgement.network, why=why_unasked(proved_with, assumed))
        return ptx, undecided(found), found
    ptx = with_interface(ptx, interface)
    found = confirmed(ptx, judgement)
    if found.certificate is None:
        return ptx, undecided(found), found
    state.ptx = with_interface(state.ptx, replace(plan.interface, conditions=interface.conditions))
    state.plans[number] = replace(plan, interface=replace(plan.interface, conditions=interface.conditions))
    return ptx, proved(found, interface), found


STAGES: dict[str, Callable[[Compilation], None]] = {
    "parse": _parse,
    "analyse": _analyse,
    "build": _build,
    "check": _check,
    "plan": _plan,
    "limits": _limits,
    "lower": _lower,
    "emit": _emit,
    "prove": _prove,
}


_CHECKING = ("check", "limits", "prove")


def compile_source(
    source: Source, options: Options | None = None, until: str = "prove", parsed: ast.File | None = None
) -> Compilation:
    """Runs the stages up to and including `until`, or up to the first that reports something.

    `parsed`: the source's syntax tree, from an earlier compilation of it.
    """
    with uncollected():
        return _through(Compilation(source, options or Options(), file=parsed), [*STAGES], until)


def carried_on(state: Compilation, after: str, until: str) -> Compilation:
    """Runs the stages after `after`, up to which `state` was compiled without a message, like compile_source."""
    names = [*STAGES]
    with uncollected():
        return _through(state, names[names.index(after) + 1 :], until)


def _through(state: Compilation, names: Sequence[str], until: str) -> Compilation:
    for name in names:
        if state.arch not in TARGETS:
            state.sink.report(internal.UnknownTarget(name=state.arch, known=", ".join(TARGETS)))
            return state
        if state.options.unchecked and name in _CHECKING:
            state.protocol = {kernel.name: UNCHECKED for kernel in state.trees or ()}
        else:
            _guarded(state, name, STAGES[name])
        if state.failed or name == until:
            break
    return state


def _guarded(state: Compilation, name: str, stage: Callable[[Compilation], None]) -> None:
    """An exception in a stage is reported as an internal error; no input ends in a Python traceback."""
    try:
        stage(state)
    except BudgetEnded as ended:
        state.sink.report(internal.budget_spent(ended))
    except MemoryError:
        state.sink.report(internal.budget_spent(BudgetEnded(BUDGETS["memory"])))
    except RecursionError:
        last = len(state.source.lines)
        state.sink.report(internal.TooComplex(at=state.source.span(1, 1, last, len(state.source.line(last)) + 1)))
    except Exception as error:  # noqa: BLE001 - the one place where any fault becomes a diagnostic
        if os.environ.get("PIPEC_DEBUG"):
            from traceback import print_exc

            print_exc()
        state.sink.report(internal.fault(name, error))
