"""Each obtained stage is signalled once and released once on every path, and not touched afterwards (E03xx).

A stage with sub-stages is waited for once and signalled once in each of them; see pipec.checks.stages.sub_stages.

One pass over each role's blocks in order. A loop must leave every stage as it found it, a rule of the language that makes a fixed point
unnecessary. A handle with an error is poisoned: nothing more is reported about it.
"""

from pipec.checks.stages import sub_stages
from pipec.checks.stages.joins import Joins
from pipec.checks.stages.phrases import USES, PeekWords, StageWords, span_of, stage_name, truth, words_for
from pipec.checks.stages.states import FREE, POISONED, State, States
from pipec.checks.summary import COPY, INDEX, LOAD, RoleSummary, Summary, Touch
from pipec.diag.catalogue.stages import explicit_signals as explicit_signals_messages
from pipec.diag.catalogue.stages import hardware_effects
from pipec.diag.catalogue.stages import linear as messages
from pipec.diag.message import Message, Sink
from pipec.diag.shown import counted
from pipec.kir import ir
from pipec.record import replace
from pipec.sema import tree
from pipec.sema.language.operation import ROLE
from pipec.source import Span
from pipec.vocabulary import Side


def check(summary: Summary, sink: Sink) -> None:
    for role in summary.roles:
        _RoleCheck(role, summary, sink).run()


class _RoleCheck:
    def __init__(self, role: RoleSummary, summary: Summary, sink: Sink) -> None:
        self._role = role
        self._summary = summary
        self._sink = sink
        self._out: list[States] = []
        self._joins = Joins(role, sink, self._out)
        # Indices of the handles that may conflict: scanning all stages of the role at each acquire would take quadratic time.
        self._same_name: dict[str, list[tree.Handle]] = {}
        self._same_side: dict[tuple[tree.Pipeline, Side], list[tree.Handle]] = {}
        self._peeks: dict[tuple[tree.Pipeline, Side], list[tree.Handle]] = {}
        for handle in role.handles:
            self._same_name.setdefault(handle.name, []).append(handle)
            self._same_side.setdefault((handle.pipeline, handle.side), []).append(handle)
        self._followed = set(role.carried.values())  # pipec.checks.stages.carried_peeks follows them
        for token in (one for one in role.tokens if one not in self._followed):
            self._same_name.setdefault(token.name, []).append(token)
            self._peeks.setdefault((token.pipeline, token.side), []).append(token)

    def run(self) -> None:
        blocks = self._role.role.blocks
        for number, block in enumerate(blocks):
            states = self._joins.enter(number)
            # An operation reads its operands before it changes their ownership, so its touches come first.
            for operation, touches in zip(block.operations, self._role.touches[number], strict=True):
                for touch in touches:
                    self._touch(touch, states)
                self._operation(operation, states)
            for touch in self._role.condition_touches[number]:
                self._touch(touch, states)
            self._out.append(states)
            if isinstance(block.terminator, ir.Jump) and block.terminator.target <= number:
                self._end_iteration(number, block.terminator.target)
        self._end_role()
        self._unused()

    # ---------------------------------------------------------------------------------------------------- operations

    def _operation(self, operation: tree.Operation, states: States) -> None:
        match operation:
            case tree.Acquire():
                if operation.token is not None and operation.token not in self._followed:
                    self._take_up(operation.token, operation, states)
                self._overtake(operation.handle, "takes", operation.span, states)
                self._acquire(operation, states)
            case tree.Peek() if operation.token not in self._followed:
                # A peek refers to the phase at the cursor. Another peek, or moving the cursor, leaves the first result about a stage that
                # can no longer be named.
                self._overtake(operation.token, "looks again at", operation.span, states)
                states[operation.token] = State("yes")
            case tree.Signal():
                self._signal(operation, states)
            case tree.Release():
                self._release(operation, states)
            case tree.Move():
                self._move(operation, states)
            case tree.Skip():
                self._overtake_of(operation.pipeline, "consumer", "skip goes past", operation.span, states)
            case tree.Drain():
                self._overtake_of(operation.pipeline, "producer", "drain waits past", operation.span, states)
                self._drain(operation, states)
            case _:
                pass

    def _drain(self, operation: tree.Drain, states: States) -> None:
        """Waits for every slot, so the role itself must hold none."""
        # An open peek holds no slot; `_overtake_of` has reported that it is never consumed.
        for handle in self._same_side.get((operation.pipeline, "producer"), ()):
            if states.get(handle, FREE).is_held:
                self._sink.report(
                    messages.DrainedWhileHeld(
                        stage=handle.name,
                        pipeline=handle.pipeline.name,
                        at=operation.span,
                        obtained=self._obtained(handle),
                    )
                )
                return

    def _acquire(self, operation: tree.Acquire, states: States) -> None:
        handle = operation.handle
        if not operation.first:
            self._wait_for_more(operation, states)
            return
        for other in self._same_name.get(handle.name, ()):
            # Each acquire in the source has a handle of its own: reusing the name means that the earlier handle can no longer be released
            # by it.
            if other is not handle and states.get(other, FREE).is_held:
                message = self._words(other).replaced(operation.span)
                if message is not None:
                    self._report(message, other, states)
        held = [
            other
            for other in self._same_side.get((handle.pipeline, handle.side), ())
            if other is not handle and states.get(other, FREE).is_held
        ]
        stages = handle.pipeline.stages
        # The ring has no free slot, and the role that would free one is the one that waits: it blocks for ever, whatever the other roles
        # do.
        if held and len(held) >= stages:
            self._sink.report(
                messages.TooManyHeld(
                    role=self._role.role.name,
                    pipeline=handle.pipeline.name,
                    count=counted(stages, "stage"),
                    wanted=len(held) + 1,
                    first=held[0].name,
                    at=operation.span,
                    held=tuple(span for span in map(self._obtained, held) if span),
                    declared=handle.pipeline.span,
                )
            )
        states[handle] = State("yes", awaited=(operation,))

    def _wait_for_more(self, operation: tree.Acquire, states: States) -> None:
        handle = operation.handle
        state = states.get(handle, FREE)
        if state.held == "poisoned":
            return
        if not state.is_held:
            self._report(sub_stages.on_one_branch(handle, operation.sub_stage, operation.span, None, None), handle, states)
        elif operation.sub_stage in state.awaited_sub_stages():
            self._report(sub_stages.awaited_twice(operation, state.awaited), handle, states)
        else:
            states[handle] = replace(state, awaited=(*state.awaited, operation))

    def _take_up(self, token: tree.Handle, operation: tree.Acquire, states: States) -> None:
        """A wait completes a peek."""
        state = states.get(token, FREE)
        if state.held == "released":
            self._report(self._words(token).released_twice(operation.span, span_of(state.released)), token, states)
        elif state.is_held:
            states[token] = State("released", released=operation)

    def _overtake(self, handle: tree.Handle, what: str, at: Span, states: States) -> None:
        self._overtake_of(handle.pipeline, handle.side, what, at, states, handle)

    def _overtake_of(
        self, pipeline: tree.Pipeline, side: Side, what: str, at: Span, states: States, own: tree.Handle | None = None
    ) -> None:
        """The cursor moves, or is peeked at again, while a peek is open."""
        for token in self._peeks.get((pipeline, side), ()):
            if token is not own and states.get(token, FREE).is_held:
                words = self._words(token)
                assert isinstance(words, PeekWords)
                self._report(words.overtaken(what, at), token, states)

    def _signal(self, operation: tree.Signal, states: States) -> None:
        handle = operation.handle
        state = states.get(handle, FREE)
        if state.held == "released":
            self._used_after_release(handle, "signalled", operation.span, None, state, states)
        # An extra arrival counts towards the next phase (hardware.md 1.1), which then completes before its work is done.
        elif state.is_held and (state.signal_of(operation.sub_stage) or state.signal == "mixed"):
            first = state.signal_of(operation.sub_stage) or state.signalled
            alone = handle.pipeline.kind != ROLE  # there, the signalling call may step as well
            self._report(
                explicit_signals_messages.SignalledTwice(
                    which="the second" if alone else "one",
                    alone=operation.span if alone else None,
                    stage=handle.name,
                    pipeline=handle.pipeline.name,
                    consequence=hardware_effects.second_phase(handle.side, handle.pipeline.name),
                    at=operation.span,
                    first=first.span if first else None,
                    obtained=self._obtained(handle),
                ),
                handle,
                states,
            )
        elif state.is_held:
            given = (*state.given, operation)
            # Each sub-stage has its own barrier, so a stage is handed over once all of them have been signalled.
            whole = len(given) == handle.pipeline.sub_stages(handle.side)
            states[handle] = replace(state, signal="yes" if whole else "part", given=given)

    def _release(self, operation: tree.Release, states: States) -> None:
        handle = operation.handle
        state = states.get(handle, FREE)
        obtained = self._obtained(handle)
        scoped = handle.form in ("scoped", "explicit")
        if state.is_held and obtained is not None and scoped and not _same_start(operation.span, obtained):
            self._report(
                messages.ReleasedInsideWith(
                    stage=handle.name,
                    pipeline=handle.pipeline.name,
                    release=operation.span.text(),
                    consequence=hardware_effects.second_phase(handle.side, handle.pipeline.name),
                    at=operation.span,
                    obtained=obtained,
                ),
                handle,
                states,
            )
        elif state.held == "released":
            moved = self._moved(handle, "released", operation.span, state)
            self._report(moved or self._words(handle).released_twice(operation.span, span_of(state.released)), handle, states)
        elif state.is_held:
            message = self._wrong_signal(operation, state)
            if message is not None:
                self._sink.report(message)
            states[handle] = State("released", released=operation) if message is None else POISONED
        elif state.held == "no":
            # The forms without a stage name mean the one obtained last in the source, possibly in another branch.
            self._report(self._words(handle).released_not_held(operation.span), handle, states)

    def _move(self, operation: tree.Move, states: States) -> None:
        """The state of the one goes to the other."""
        target, source = operation.target, operation.source
        if states.get(target, FREE).is_held:
            message = self._words(target).replaced(operation.span)
            if message is not None:
                self._report(message, target, states)
        found = states.get(source, FREE)
        if found.held == "released":
            self._used_after_release(source, "given to another name", operation.span, None, found, states)
        states[target] = found if found.is_held else POISONED
        states[source] = State("released", released=operation) if found.is_held else POISONED

    def _wrong_signal(self, operation: tree.Release, state: State) -> Message | None:
        """Why the signals given so far do not fit this release; None if they do."""
        handle = operation.handle
        if state.signal == "mixed":
            assert state.branch is not None and state.signalled is not None
            branch, when = state.branch
            return explicit_signals_messages.SignalledOnOneBranch(
                **stage_name(handle),
                yes=truth(when),
                no=truth(not when),
                signal=state.signalled.span.text(),
                at=branch.span,
                signalled=state.signalled.span,
                released=operation.span,
                obtained=self._obtained(handle),
            )
        missing = sub_stages.missing(operation, state.given, state.awaited, self._role.handles[handle])
        # Forms whose release carries the signal cannot forget it; the stepped and explicit ones only move a cursor.
        if missing is not None or operation.signals or state.signal == "yes" or handle.pipeline.kind == ROLE:
            return missing
        if handle.form == "stepped" and self._signals_itself(handle):
            return None
        return self._words(handle).released_without_signal(operation.span)

    def _signals_itself(self, handle: tree.Handle) -> bool:
        """Copies signal when they complete."""
        return not self._role.handles[handle].kinds().isdisjoint((LOAD, COPY))

    def _touch(self, touch: Touch, states: States) -> None:
        state = states.get(touch.handle, FREE)
        if state.held == "released":
            self._used_after_release(touch.handle, USES[touch.kind], touch.span, touch, state, states)
        # Reading the index touches no memory: it is the position of the slot, which does not change while it is held.
        elif state.is_held and touch.kind != INDEX:
            self._touch_held(touch, state, states)

    def _touch_held(self, touch: Touch, state: State, states: States) -> None:
        handle = touch.handle
        # Data that was not waited for may not have arrived, or may still be read: the wait for one sub-stage does not cover another.
        early = sub_stages.used_before_wait(touch, USES[touch.kind], state.awaited)
        if early is not None:
            self._report(early, handle, states)
        over = sub_stages.covered(touch, handle.side) & state.signalled_sub_stages()
        if early is None and over and state.signal != "mixed":
            signalled = state.signal_of(max(over))
            self._report(
                explicit_signals_messages.UsedAfterSignal(
                    stage=handle.name,
                    pipeline=handle.pipeline.name,
                    use=USES[touch.kind],
                    variable=touch.variable.name if touch.variable else None,
                    consequence=hardware_effects.overrun(handle.side, handle.pipeline.name),
                    at=touch.span,
                    defined=touch.defined,
                    signalled=signalled.span if signalled else None,
                    obtained=self._obtained(handle),
                ),
                handle,
                states,
            )

    def _used_after_release(
        self, handle: tree.Handle, use: str, at: Span, touch: Touch | None, state: State, states: States
    ) -> None:
        moved = self._moved(handle, use, at, state)
        self._report(moved or self._words(handle).used_after_release(use, at, touch, span_of(state.released)), handle, states)

    def _moved(self, handle: tree.Handle, use: str, at: Span, state: State) -> Message | None:
        """If the stage was not released, but given to another name."""
        if not isinstance(state.released, tree.Move):
            return None
        move = state.released
        return messages.UsedAfterMove(
            stage=handle.name, target=move.target.name, use=use, at=at, moved=move.span, obtained=self._obtained(handle)
        )

    # -------------------------------------------------------------------------------------------------- control flow

    def _end_iteration(self, latch: int, header: int) -> None:
        """Compares the states at the end of an iteration with those at its start."""
        loop = next(loop for loop in self._role.role.loops if loop.header == header)
        found, left = self._out[header], self._out[latch]
        for handle, after in left.items():
            before = found.get(handle, FREE)
            if "poisoned" in (before.held, after.held):
                found[handle] = POISONED
            elif before.is_held != after.is_held:
                self._report(self._carried(self._words(handle), after, loop), handle, found)
            elif after.is_held and after.awaited_sub_stages() != before.awaited_sub_stages():
                wait = after.awaited[-1]
                message = sub_stages.on_one_branch(handle, wait.sub_stage, wait.span, loop.span, self._obtained(handle))
                self._report(message, handle, found)
            elif after.is_held and after.signalled is not None and after.signal != before.signal:
                self._report(
                    explicit_signals_messages.SignalledInLoop(
                        stage=handle.name,
                        pipeline=handle.pipeline.name,
                        signal=after.signalled.span.text(),
                        consequence=hardware_effects.second_phase(handle.side, handle.pipeline.name),
                        at=after.signalled.span,
                        loop=loop.span,
                        obtained=self._obtained(handle),
                    ),
                    handle,
                    found,
                )

    def _carried(self, words: StageWords, after: State, loop: ir.Loop) -> Message:
        if not after.is_held:
            return words.released_inside_loop(loop, span_of(after.released))
        if not words.summary.releases:
            return words.never_released(loop.span, hardware_effects.iteration_ends(words.handle.name))
        return words.carried(loop)

    def _end_role(self) -> None:
        for handle, state in self._out[-1].items():
            if state.is_held:
                ending = hardware_effects.role_ends(self._role.role.name, handle.name)
                self._sink.report(self._words(handle).never_released(self._role.role.end, ending))

    # ------------------------------------------------------------------------------------------------------- helpers

    # Legal for the hardware, which hands over an untouched slot like any other; but its readers then see its previous contents, or what
    # it holds is dropped. (Where others read it, nothing is: one of several consumers may only give it back.)
    def _unused(self) -> None:
        for summary in self._role.stages:
            handle = summary.handle
            if summary.kinds() or not summary.releases or not summary.acquires or handle.pipeline not in self._summary.carriers:
                continue
            producer = handle.side == "producer"
            if not producer and self._summary.read_by_others(self._role, handle.pipeline):
                continue
            alike = [
                one for one in self._role.stages if one.handle.pipeline is handle.pipeline and one.handle.side == handle.side
            ]
            read = next((one.handle.name for one in alike if one.kinds()), None)
            obtained, released = summary.acquires[0].operation.span, summary.releases[0].operation.span
            name = handle.pipeline.name
            self._sink.report(
                messages.NotUsed(
                    stage=handle.name,
                    pipeline=name,
                    verb="fills" if producer else "reads",
                    consequence=hardware_effects.unused(handle.side, name),
                    at=obtained,
                    released=None if handle.form in ("scoped", "explicit") or released == obtained else released,
                    read=None if producer else read,
                )
            )

    def _words(self, handle: tree.Handle) -> StageWords:
        return words_for(self._role, handle)

    def _obtained(self, handle: tree.Handle) -> Span | None:
        return self._words(handle).obtained

    def _report(self, message: Message, handle: tree.Handle, states: States) -> None:
        self._sink.report(message)
        states[handle] = POISONED


def _same_start(one: Span, two: Span) -> bool:
    """The release at the end of a `with` has the location of the `with`."""
    return (one.source, one.line, one.column) == (two.source, two.line, two.column)
