"""Judgements in terms of the source: verdicts, and messages that point at the waits that never end."""

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Literal

from pipec.checks.verdict import Verdict
from pipec.diag.catalogue.stages import protocol as messages
from pipec.diag.message import Message, Sink
from pipec.interface import BarrierRange, KernelInterface, PointerParameter
from pipec.kir.ir import Branch, Kernel, Role
from pipec.kir.plan.roles import operations
from pipec.kir.plan.types import Plan
from pipec.protocol.forms.conditions import with_conditions
from pipec.protocol.forms.ranges import TILES
from pipec.protocol.judge import judge
from pipec.protocol.judgement import Judgement, Side
from pipec.protocol.refuting.launches import LaunchesOf, names_of
from pipec.protocol.refuting.refute import Deadlock
from pipec.protocol.refuting.turns import TurnsLeft, refute_turns
from pipec.protocol.reporting.told import conditions_told
from pipec.protocol.search.undecided import Standing
from pipec.record import record
from pipec.sema import tree
from pipec.sema.tree import Pipeline
from pipec.source import Span
from pipec.verify.network import ASSUMED, OPEN, Arrive, Assumption, Network, Wait, edges_of
from pipec.verify.terms import Symbol
from pipec.vocabulary import Completion

_LOCATION = re.compile(r"\s*\.loc\s+\d+ (\d+) (\d+)")
_AWAITED = {"full": "filled", "empty": "given back"}
# What a block that ends leaves behind in stages that are filled, by how their tiles are; the first that applies.
_LEFT: tuple[tuple[Completion, str], ...] = (
    ("tma", "copies may still write its shared memory"),
    ("copies", "copies may still write its shared memory"),
    ("commit", "MMAs may still write its tensor memory"),
    ("threads", "what was written there is never used"),
)
_SIGNALS_LEFT = "no role has waited for what they signal, and signals of other blocks may still be on their way"
_NONE = Deadlock({}, (), ())


def sides_of(interface: KernelInterface, left_filled: Collection[Pipeline]) -> tuple[Side, ...]:
    """Of the pipelines that must be empty in the end: not of those whose stage may be `left_filled`."""
    names = {pipeline.name for pipeline in left_filled}
    return tuple(Side(row.pipeline, _side(row), row.offset) for row in interface.barriers if row.pipeline not in names)


def _side(row: BarrierRange) -> Literal["full", "empty"]:
    return "full" if row.side == "full" else "empty"


def verdict(
    ptx: str, plan: Plan, interface: KernelInterface, sink: Sink, most: int | None = None, before: Judgement | None = None
) -> tuple[Verdict, Judgement]:
    """Judges one kernel of a PTX text and reports a refutation. `most`, `before`: see `judge`."""
    kernel = plan.kernel
    found = judge(
        ptx,
        interface.name,
        sides_of(interface, plan.left_filled),
        LaunchesOf(interface),
        lambda assumed: with_conditions(interface, assumed) is not None,
        most,
        before,
    )
    if found.certificate is not None:
        told = proved(found, interface)
        return (told, found) if told.outcome == "proved" else (_open(ptx, kernel, interface, told, sink), found)
    if found.deadlock is not None and found.network is not None:
        message = Report(ptx, kernel, interface, found.network, found.deadlock).message()
        if message is not None:
            sink.report(message)
            return Verdict("refuted", "protocol: a deadlock was found"), found
    return undecided(found), found


def proved(found: Judgement, interface: KernelInterface) -> Verdict:
    """The verdict with all assumptions of the proof. What remains open depends on the program itself: whether the blocks that it waits
    for make progress."""
    assert found.network is not None
    unshown = [str(one) for one in found.network.assumptions if one.kind in OPEN]
    if unshown:
        return Verdict("open", f"protocol: no role waits for ever if {' and '.join(unshown)}, which is not decided")
    needed = [_assumed(one) for one in found.network.assumptions]
    given = f", if {' and '.join(needed)}" if needed else ""
    words = conditions_told(interface)
    sizes = f"all sizes with {words}" if words else "all sizes"
    situations = f"{found.situations} situation{'' if found.situations == 1 else 's'}"
    return Verdict("proved", f"protocol: no role waits for ever, for {sizes}{given}; proof of {situations} checked on the PTX")


def _assumed(one: Assumption) -> str:
    count = len(one.lines)
    return ASSUMED[one.kind] + (f" ({count} {'store' if count == 1 else 'stores'})" if one.kind == "stores" else "")


def _open(ptx: str, kernel: Kernel, interface: KernelInterface, told: Verdict, sink: Sink) -> Verdict:
    """Everything is proved except that a value polled in memory arrives: searches for a launch in which it does not, or the next one's
    would not."""
    met = refute_turns(ptx, interface)
    if met is None:
        return told
    block, when = f"({', '.join(map(str, met.block))})", _in_words(sorted(met.sizes.items()))
    at = Places(ptx, kernel).span(met.line)
    if isinstance(met, TurnsLeft):
        sink.report(messages.TurnsLeftOver(block=block, found=met.found, when=when, at=at))
        return Verdict("refuted", "protocol: turns are left over at the end of a launch")
    sink.report(messages.TurnMayNotCome(block=block, turn=met.turn, found=met.found, when=when, at=at))
    return Verdict("refuted", "protocol: a turn that need not come was found")


def undecided(found: Judgement) -> Verdict:
    return Verdict("open", f"protocol: not decided ({found.why}){found.tried}")


class Places:
    """Maps lines of a PTX text to source statements, and registers to variables."""

    def __init__(self, ptx: str, kernel: Kernel) -> None:
        self.kernel = kernel
        self.lines = ptx.split("\n")
        self.spans = {(span.shown_line, span.shown_column): span for span in _spans(kernel)}

    def variable(self, role: Role, register: str) -> str | None:
        """The variable of the role that a register of the kernel holds; None if statements about no variable, or several, compute it.
        (A move of a number that there is already may stand anywhere in front of a loop.)"""
        within = range(*self._entry())
        named = {one.span: one.variable.name for one in operations(role) if isinstance(one, tree.Assign)}
        named |= {loop.span: loop.variable.name for loop in role.loops if loop.variable is not None}
        defining = re.compile(rf"\s*(@\S+\s+)?(?!mov\b)[a-z][\w.]*\s+{re.escape(register)},")
        found = {named.get(self.span(number + 1)) for number in within if defining.match(self.lines[number])} - {None}
        return found.pop() if len(found) == 1 else None

    def _entry(self) -> tuple[int, int]:
        """The lines of the kernel's code, counted from 0: registers of other kernels have the same names."""
        starts = [number for number, line in enumerate(self.lines) if ".entry" in line]
        of = re.compile(rf"\.entry\s+{re.escape(self.kernel.name)}\b")
        first = next((number for number in starts if of.search(self.lines[number])), 0)
        return first, next((number for number in starts if number > first), len(self.lines))

    def span(self, line: int) -> Span:
        for text in reversed(self.lines[: line - 1]):
            location = _LOCATION.match(text)
            if location:
                return self.spans.get((int(location[1]), int(location[2])), self.kernel.span)
        return self.kernel.span


@record
class Blocked:
    """A role that is blocked for ever on a pipeline's stage; `at_end`: after its last statement, where it waits for what it filled."""

    role: str
    row: BarrierRange
    at: Span
    at_end: bool


class Report:
    """The waits of a kernel that never end, or of which it is not known, in terms of its roles and pipelines."""

    def __init__(
        self, ptx: str, kernel: Kernel, interface: KernelInterface, network: Network, deadlock: Deadlock = _NONE
    ) -> None:
        self.kernel, self.interface = kernel, interface
        self.network, self.deadlock = network, deadlock
        self.places = Places(ptx, kernel)
        self.ends = [role.end for role in kernel.roles]
        self.pipelines = {one.name: one for one in kernel.pipelines}

    def message(self) -> Message | None:
        """None if threads wait, but none of them for a pipeline: that is not a deadlock of roles."""
        if self.deadlock.wraps is not None:
            process, place = self.deadlock.wraps
            found = self.network.processes[process]
            return messages.Wraps(role=found.role, when=self.when(), at=self.places.span(found.states[place].line))
        if self.deadlock.uneven is not None:
            row = self.row(self.deadlock.uneven)
            return None if row is None else self._uneven(row)
        blocked = self.blocked_roles()
        return self._deadlock(blocked) if blocked and not self.deadlock.why else None

    def _uneven(self, row: BarrierRange) -> Message:
        pipeline = self.pipelines.get(row.pipeline)
        role = next((role.name for role in self.kernel.roles if pipeline in role.consumes), "")
        taken = [each for one in self.kernel.roles for each in operations(one) if isinstance(each, tree.Acquire)]
        return messages.Uneven(
            pipeline=row.pipeline,
            filled=times(self.deadlock.filled),
            role=role,
            consumed=times(self.deadlock.given),
            when=self.when(),
            at=self.kernel.span if pipeline is None else pipeline.span,
            fills=tuple(one.span for one in taken if (one.handle.pipeline, one.handle.side) == (pipeline, "producer")),
            uses=tuple(one.span for one in taken if (one.handle.pipeline, one.handle.side) == (pipeline, "consumer")),
            left=self._left(pipeline),
        )

    def _left(self, pipeline: Pipeline | None) -> str:
        """What is the matter with stages of the pipeline that are filled when the block ends."""
        filled = {
            use.completes
            for role in self.kernel.roles
            for one in operations(role)
            for use in one.effects.filling
            if use.tile.handle.pipeline is pipeline
        }
        return next((left for how, left in _LEFT if how in filled), _SIGNALS_LEFT)

    def _deadlock(self, blocked: Sequence[Blocked]) -> Message:
        waits = "; ".join(
            f"`{one.role}` waits {'at its end ' if one.at_end else ''}for {self.awaited(one.row)}" for one in blocked
        )
        # A role that has done its work is not where the mistake is, and no statement of it waits.
        first, *others = [one for one in blocked if not one.at_end] or blocked
        ended = [f"`{role.name}`" for role in self.kernel.roles if self._has_ended(role.name)]
        if ended:
            waits += f"; {', '.join(ended)} {'has' if len(ended) == 1 else 'have'} ended"
        roles = ", ".join(f"`{one.role}`" for one in blocked)
        return messages.Deadlock(
            roles=f"roles {roles} wait" if len(blocked) > 1 else f"role {roles} waits",
            when=self.when(),
            waits=waits,
            role=first.role,
            at=first.at,
            others=tuple(one.at for one in others),
        )

    def blocked_roles(self) -> list[Blocked]:
        states = [(process, self.network.processes[process].states[place]) for process, place in self.deadlock.blocked]
        return self.blocked(
            [Standing(process, state.line, state.action.use.ring) for process, state in states if isinstance(state.action, Wait)]
        )

    def blocked(self, standing: Iterable[Standing]) -> list[Blocked]:
        """One wait of each role that is blocked on a barrier of a pipeline, in source order."""
        found: dict[str, Blocked] = {}
        for one in standing:
            row = None if one.ring is None else self.row(one.ring)
            if row is not None:
                role = self.network.processes[one.process].role
                at = self.places.span(one.line)
                found.setdefault(role, Blocked(role, row, at, _side(row) == "empty" and at in self.ends))
        order = {role.name: number for number, role in enumerate(self.kernel.roles)}
        return sorted(found.values(), key=lambda one: order.get(one.role, len(order)))

    def awaited(self, row: BarrierRange) -> str:
        """`a stage of `ring` to be filled by `load``."""
        roles = " and ".join(f"`{role}`" for role in self.signalling(row))
        return f"a stage of `{row.pipeline}` to be {_AWAITED[_side(row)]}{f' by {roles}' if roles else ''}"

    def signalling(self, row: BarrierRange) -> list[str]:
        """The roles that must fill or release a stage."""
        pipeline = self.pipelines.get(row.pipeline)
        filled = _side(row) == "full"
        return [role.name for role in self.kernel.roles if pipeline in (role.produces if filled else role.consumes)]

    def _has_ended(self, role: str) -> bool:
        """Whether its threads only have to meet the others at the end of the kernel."""
        return not any(
            self.network.processes[process].role == role and self._goes_on(process, place)
            for process, place in self.deadlock.blocked
        )

    def _goes_on(self, process: int, place: int) -> bool:
        """Whether a pipeline barrier is reachable from that place."""
        states = self.network.processes[process].states
        unseen, seen = [place], {place}
        while unseen:
            action = states[unseen.pop()].action
            if isinstance(action, (Wait, Arrive)) and self.network.rings[action.use.ring].kind == "mbarrier":
                return True
            unseen += [edge.target for edge in edges_of(action) if edge.target not in seen]
            seen.update(unseen)
        return False

    def row(self, ring: int) -> BarrierRange | None:
        kind = self.network.rings[ring]
        if kind.kind != "mbarrier":
            return None
        first = kind.instances[0]
        rows = self.interface.barriers
        return next((row for row in rows if row.offset <= first < row.offset + 8 * row.stages * row.sub_stages), None)

    def when(self) -> str:
        """` when K = 64, block.x = 1, begins[0] = 2`: the sizes of the run, and what it has assumed of memory, with the names of the
        source."""
        names = names_of(self.interface) | {TILES.name: TILES.name}
        for axis in "xyz":
            names[f"%ctaid.{axis}"] = f"block.{axis}"
        tensors = {row.symbol: row.tensor for row in self.interface.parameters if isinstance(row, PointerParameter)}
        held = [(f"{tensors.get(pointer.name, 'memory')}[{place}]", number) for pointer, place, number in self.deadlock.memory]
        return _sizes_in_words(self.deadlock.sizes, names, held)


def _sizes_in_words(numbers: Mapping[Symbol, int], names: Mapping[str, str], held: Sequence[tuple[str, int]] = ()) -> str:
    sizes = [(names[symbol.name], value) for symbol, value in numbers.items() if symbol.name in names]
    return _in_words((*sorted(sizes), *held))


def _in_words(values: Iterable[tuple[str, int]]) -> str:
    shown = ", ".join(f"{name} = {value}" for name, value in values)
    return f" when {shown}" if shown else ""


def _spans(kernel: Kernel) -> Iterator[Span]:
    for role in kernel.roles:
        yield role.span
        yield role.end
        for loop in role.loops:
            yield loop.span
        for block in role.blocks:
            for operation in block.operations:
                yield operation.span
            if isinstance(block.terminator, Branch):
                yield block.terminator.span


def times(count: int) -> str:
    return "once" if count == 1 else f"{count} times"
