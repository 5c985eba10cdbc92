"""Peeks whose results are carried over the edge of a loop, or given from name to name (E0341, E0342, E0345, E0349).

A name that is given what several peeks found, or False, is followed through all paths: where it completes a wait, it may hold only what a
peek found of the stage that this wait takes, or False, with which the wait waits. What no wait completes is dropped: a peek holds nothing.
A name that has a single peek obeys the stricter rule of stages: see pipec.checks.stages.linear.
"""

from typing import Literal

from pipec.checks.stages.phrases import PeekWords
from pipec.checks.summary import RoleSummary, Summary
from pipec.diag.catalogue.stages import peek as messages
from pipec.diag.message import Message, Sink
from pipec.record import record
from pipec.sema import tree
from pipec.source import Span
from pipec.vocabulary import Side


@record
class Held:
    """What a name may hold. "found": what `by` (a peek) has found of the stage that is next. "past": what one has found of a stage that
    `by` has taken or gone past. "used": the same, where `by` was the wait that it completed. "nothing": False. "other": another value."""

    kind: Literal["found", "past", "used", "nothing", "other"]
    by: tree.Operation | None = None


# By variable. One that is missing holds whatever is in its register.
_States = dict[tree.Variable, frozenset[Held]]
_UNSET = frozenset((Held("other"),))
_NOTHING = frozenset((Held("nothing"),))


def check(summary: Summary, sink: Sink) -> None:
    for role in summary.roles:
        if role.carried:
            _Follower(role, sink).run()


class _Follower:
    def __init__(self, role: RoleSummary, sink: Sink) -> None:
        self._role = role
        self._sink = sink
        self._tokens = role.carried
        self._reporting = False

    def run(self) -> None:
        blocks = self._role.role.blocks
        out: list[_States | None] = [None] * len(blocks)
        changed = True
        while changed:
            changed = False
            for number in range(len(blocks)):
                states = self._through(number, out)
                changed = changed or states != out[number]
                out[number] = states
        self._reporting = True
        for number in range(len(blocks)):
            self._through(number, out)
        self._unused()

    def _through(self, number: int, out: list[_States | None]) -> _States:
        states: _States = {}
        before = [found for found in (out[block] for block in self._role.predecessors[number]) if found is not None]
        for variable in self._tokens if before else ():
            states[variable] = frozenset().union(*(found.get(variable, _UNSET) for found in before))
        for operation in self._role.role.blocks[number].operations:
            self._operation(operation, states)
        return states

    def _operation(self, operation: tree.Operation, states: _States) -> None:
        match operation:
            case tree.Peek(ready=ready) if ready in self._tokens:
                states[ready] = frozenset((Held("found", operation),))
            case tree.Assign(variable=variable, value=value) if variable in self._tokens:
                states[variable] = self._assigned(operation, value, states)
            case tree.Acquire(first=True):
                if operation.ready in self._tokens and self._reporting:
                    self._complete(operation, states.get(operation.ready, _UNSET))
                self._move_on(operation, operation.handle.pipeline, operation.handle.side, states)
            case tree.Skip():
                self._move_on(operation, operation.pipeline, "consumer", states)
            case tree.Drain():
                self._move_on(operation, operation.pipeline, "producer", states)
            case _:
                pass

    def _assigned(self, operation: tree.Operation, value: tree.Expression, states: _States) -> frozenset[Held]:
        match value:
            case tree.Constant(value=False):
                return _NOTHING
            case tree.ReadVariable(variable=other) if other in self._tokens:
                return states.get(other, _UNSET)
            case _:
                return frozenset((Held("other", operation),))

    def _move_on(self, operation: tree.Operation, pipeline: tree.Pipeline, side: Side, states: _States) -> None:
        """The next stage is another one from here on."""
        for ready, token in self._tokens.items():
            if (token.pipeline, token.side) == (pipeline, side) and ready in states:
                own = isinstance(operation, tree.Acquire) and operation.ready is ready
                gone = Held("used" if own else "past", operation)
                states[ready] = frozenset(gone if held.kind == "found" else held for held in states[ready])

    # ------------------------------------------------------------------------------------------------------- messages

    def _complete(self, operation: tree.Acquire, found: frozenset[Held]) -> None:
        assert operation.token is not None
        # In the order of the source, so that the message is the same in each run.
        wrong = sorted((held for held in found if held.kind not in ("found", "nothing")), key=_place)
        if wrong:
            self._sink.report(self._message(operation, operation.token, wrong[0], alone=len(found) == 1))

    def _message(self, operation: tree.Acquire, token: tree.Handle, held: Held, *, alone: bool) -> Message:
        words = PeekWords(self._role, token)
        if held.kind == "past" and held.by is not None:
            return words.overtaken(_GOES_ON.get(type(held.by), "takes"), held.by.span)
        if held.kind == "used" and held.by is not None:
            loop = self._loop_of(operation, token) if held.by is operation else None
            return words.used_again(operation.span, loop, None if held.by is operation else held.by.span, alone=alone)
        return messages.NotAPeek(
            token=token.name,
            pipeline=token.pipeline.name,
            at=operation.span,
            given=held.by.span if held.by is not None else None,
        )

    def _loop_of(self, operation: tree.Acquire, token: tree.Handle) -> Span | None:
        number = next(site.block for site in self._role.tokens[token].releases if site.operation is operation)
        loop = self._role.innermost[number]
        return self._role.role.loops[loop].span if loop is not None else None

    def _unused(self) -> None:
        """A name that completes no wait, and is given to no other that does."""
        completing = {token for token in self._tokens.values() if self._role.tokens[token].releases}
        for ready, token in self._tokens.items():
            sites = self._role.tokens[token].acquires
            if sites and token not in completing and not self._given_on(ready):
                self._sink.report(PeekWords(self._role, token).never_released(sites[0].operation.span, ""))

    def _given_on(self, ready: tree.Variable) -> bool:
        return any(
            isinstance(operation, tree.Assign)
            and isinstance(operation.value, tree.ReadVariable)
            and operation.value.variable is ready
            and operation.variable in self._tokens
            for block in self._role.role.blocks
            for operation in block.operations
        )


_GOES_ON: dict[type[tree.Operation], str] = {tree.Skip: "goes past", tree.Drain: "waits past"}


def _place(held: Held) -> tuple[int, int, str]:
    return (held.by.span.line, held.by.span.column, held.kind) if held.by is not None else (0, 0, held.kind)
