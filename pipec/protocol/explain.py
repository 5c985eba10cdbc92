"""Judgements in the words of the source: verdicts, and messages that point at the waits that never end."""

import re
from collections.abc import Iterator
from typing import Literal

from pipec.checks.verdict import Verdict
from pipec.diag.catalogue.stages import protocol as messages
from pipec.diag.message import Sink
from pipec.interface import BarrierRange, DimensionParameter, KernelInterface, ScalarParameter
from pipec.kir.ir import Kernel
from pipec.protocol.judge import Judgement, Side, judge
from pipec.protocol.refute import Deadlock
from pipec.source import Source, Span
from pipec.verify.data import formula_of
from pipec.verify.network import ASSUMED, OPEN, Wait
from pipec.verify.words import conditions_words

_LOCATION = re.compile(r"\s*\.loc\s+\d+ (\d+) (\d+)")
_AWAITED = {"full": "filled", "empty": "given back"}


def sides_of(interface: KernelInterface) -> tuple[Side, ...]:
    return tuple(Side(row.pipeline, _side(row), row.offset) for row in interface.barriers)


def _side(row: BarrierRange) -> Literal["full", "empty"]:
    return "full" if row.side == "full" else "empty"


def verdict(ptx: str, kernel: Kernel, interface: KernelInterface, source: Source, sink: Sink) -> tuple[Verdict, Judgement]:
    """Judges one kernel of a PTX text and reports what refutes it."""
    found = judge(ptx, interface.name, sides_of(interface))
    if found.certificate is not None:
        return proved(found, interface), found
    if found.deadlock is not None and found.network is not None and not found.deadlock.why:
        _Report(ptx, kernel, interface, source, found, found.deadlock).to(sink)
        return Verdict("refuted", "protocol: a deadlock was found"), found
    return undecided(found), found


def proved(found: Judgement, interface: KernelInterface) -> Verdict:
    """With all on which the proof rests. What is left open is of the program itself: whether the blocks that it waits for go on."""
    assert found.network is not None
    unshown = [str(one) for one in found.network.assumptions if one.kind in OPEN]
    if unshown:
        return Verdict("open", f"protocol: no role waits for ever if {' and '.join(unshown)}, which is not decided")
    needed = [ASSUMED[one.kind] for one in found.network.assumptions]
    given = f", if {' and '.join(needed)}" if needed else ""
    words = conditions_words(map(formula_of, interface.conditions))
    sizes = f"all sizes with {words}" if words else "all sizes"
    return Verdict(
        "proved",
        f"protocol: no role waits for ever, for {sizes}{given}; proof of {found.situations} situations checked on the PTX",
    )


def undecided(found: Judgement) -> Verdict:
    return Verdict("open", f"protocol: not decided ({found.why}){found.tried}")


class _Report:
    def __init__(
        self, ptx: str, kernel: Kernel, interface: KernelInterface, source: Source, found: Judgement, deadlock: Deadlock
    ) -> None:
        assert found.network is not None
        self.kernel, self.interface, self.source = kernel, interface, source
        self.network, self.deadlock = found.network, deadlock
        self.lines = ptx.split("\n")
        self.spans = {(span.shown_line, span.shown_column): span for span in _spans(kernel)}

    def to(self, sink: Sink) -> None:
        when = self._when()
        if self.deadlock.uneven is not None:
            row = self._row(self.deadlock.uneven)
            assert row is not None
            pipeline = next(one for one in self.kernel.pipelines if one.name == row.pipeline)
            role = next((role.name for role in self.kernel.roles if pipeline in role.consumes), "")
            sink.report(
                messages.Uneven(
                    pipeline=row.pipeline,
                    filled=_times(self.deadlock.filled),
                    role=role,
                    consumed=_times(self.deadlock.given),
                    when=when,
                    at=pipeline.span,
                )
            )
            return
        if self.deadlock.wraps is not None:
            process, place = self.deadlock.wraps
            found = self.network.processes[process]
            sink.report(messages.Wraps(role=found.role, when=when, at=self._span(found.states[place].line)))
            return
        blocked = self._blocked()
        waits = "; ".join(
            f"`{role}` waits for a stage of `{row.pipeline}` to be {_AWAITED[_side(row)]}" for role, row, _ in blocked
        )
        names = [role for role, _, _ in blocked]
        ended = [role.name for role in self.kernel.roles if role.name not in names and self._has_ended(role.name)]
        if ended:
            waits += f"; {', '.join(f'`{name}`' for name in ended)} {'has' if len(ended) == 1 else 'have'} ended"
        many = len(names) > 1
        roles = f"role{'s' if many else ''} {', '.join(f'`{name}`' for name in names)} wait{'' if many else 's'}"
        (first, _, at), *others = blocked
        sink.report(
            messages.Deadlock(roles=roles, when=when, waits=waits, role=first, at=at, others=tuple(span for _, _, span in others))
        )

    def _blocked(self) -> list[tuple[str, BarrierRange, Span]]:
        """One wait of each role that stands at a barrier of a pipeline, in the order of the source."""
        found: dict[str, tuple[str, BarrierRange, Span]] = {}
        for process, place in self.deadlock.blocked:
            state = self.network.processes[process].states[place]
            if not isinstance(state.action, Wait):
                continue
            row = self._row(state.action.use.ring)
            if row is not None:
                role = self.network.processes[process].role
                found.setdefault(role, (role, row, self._span(state.line)))
        order = {role.name: number for number, role in enumerate(self.kernel.roles)}
        return sorted(found.values(), key=lambda one: order.get(one[0], len(order)))

    def _has_ended(self, role: str) -> bool:
        """Whether no thread of the role waits for a pipeline: it may stand at the barrier at the end of the kernel."""
        return role not in {name for name, _, _ in self._blocked()}

    def _row(self, ring: int) -> BarrierRange | None:
        kind = self.network.rings[ring]
        if kind.kind != "mbarrier":
            return None
        first = kind.instances[0]
        rows = self.interface.barriers
        return next((row for row in rows if row.offset <= first < row.offset + 8 * row.stages * row.sub_stages), None)

    def _when(self) -> str:
        """` when K = 64, block.x = 1`: the sizes of the run, by the names of the source."""
        names: dict[str, str] = {}
        for parameter in self.interface.parameters:
            if isinstance(parameter, DimensionParameter):
                names[parameter.symbol] = parameter.dimension
            elif isinstance(parameter, ScalarParameter):
                names[parameter.symbol] = parameter.scalar
        for axis in "xyz":
            names[f"%ctaid.{axis}"] = f"block.{axis}"
        sizes = [(names[symbol.name], value) for symbol, value in self.deadlock.sizes.items() if symbol.name in names]
        shown = ", ".join(f"{name} = {value}" for name, value in sorted(sizes))
        return f" when {shown}" if shown else ""

    def _span(self, line: int) -> Span:
        """Where the statement stands that became a line of PTX."""
        for text in reversed(self.lines[: line - 1]):
            location = _LOCATION.match(text)
            if location:
                return self.spans.get((int(location[1]), int(location[2])), self.kernel.span)
        return self.kernel.span


def _spans(kernel: Kernel) -> Iterator[Span]:
    for role in kernel.roles:
        yield role.span
        yield role.end
        for loop in role.loops:
            yield loop.span
        for block in role.blocks:
            for operation in block.operations:
                yield operation.span


def _times(count: int) -> str:
    return "once" if count == 1 else f"{count} times"
