"""Joins the states of stages where paths meet: equal on all paths, or an error on one of them (E03xx)."""

from collections.abc import Sequence

from pipec.checks.stages import sub_stages
from pipec.checks.stages.phrases import StageWords, span_of, words_for
from pipec.checks.stages.states import FREE, POISONED, State, States, more_signals
from pipec.checks.summary import RoleSummary
from pipec.diag.catalogue.stages import hardware_effects
from pipec.diag.message import Message, Sink
from pipec.kir import ir
from pipec.record import replace
from pipec.sema import tree


class Joins:
    """`out`: the states at the ends of the blocks visited so far, by number."""

    def __init__(self, role: RoleSummary, sink: Sink, out: Sequence[States]) -> None:
        self._role = role
        self._sink = sink
        self._out = out

    def enter(self, number: int) -> States:
        """The states at the start of a block: the join over its predecessors, except latches."""
        # Back edges add nothing: `_end_iteration` requires an iteration to leave the stages as it found them, and reports violations.
        before = [block for block in self._role.predecessors[number] if block < number]
        if not before:
            return {}
        if len(before) == 1:
            return dict(self._out[before[0]])
        return self._join(number, *before)

    def _join(self, number: int, one: int, two: int) -> States:
        head = self._role.dominators[number]
        terminator = self._role.role.blocks[head].terminator
        # `one` comes from the true side: its block is dominated by the branch's target, or the branch has no other side.
        if isinstance(terminator, ir.Branch | ir.ElectBranch) and (one == head or not self._role.dominates(terminator.then, one)):
            one, two = two, one
        joined: States = {}
        for handle in {**self._out[one], **self._out[two]}:
            yes, no = self._out[one].get(handle, FREE), self._out[two].get(handle, FREE)
            # Equal states need no reason; different ones are an error, unless fewer threads took one of the two sides.
            joined[handle] = yes if yes == no else self._join_state(handle, yes, no, head)
        return joined

    def _join_state(self, handle: tree.Handle, yes: State, no: State, head: int) -> State:
        # Report an error once: joining poison with a good state would report it again at every later branch.
        if "poisoned" in (yes.held, no.held):
            return POISONED
        terminator = self._role.role.blocks[head].terminator
        if yes.is_held != no.is_held:
            return self._held_on_one_branch(handle, yes, no, head)
        if not yes.is_held:
            return yes if yes.held == "released" else no
        if yes.awaited_sub_stages() != no.awaited_sub_stages():
            odd = min(yes.awaited_sub_stages() ^ no.awaited_sub_stages())
            span = terminator.span if isinstance(terminator, ir.Branch | ir.ElectBranch) else handle.span
            wait = next(acquire for acquire in (*yes.awaited, *no.awaited) if acquire.sub_stage == odd)
            self._sink.report(sub_stages.on_one_branch(handle, odd, wait.span, span, words_for(self._role, handle).obtained))
            return POISONED
        # Under `elect()` one thread signals for the role, whichever side the others are on.
        if not isinstance(terminator, ir.Branch):
            return more_signals(yes, no)
        if "mixed" in (yes.signal, no.signal):
            return yes if yes.signal == "mixed" else no
        if yes.signalled_sub_stages() == no.signalled_sub_stages():
            return yes
        signals = more_signals(yes, no)
        if self._role.narrows(head):
            return signals  # some threads arrive: pipec.checks.stages.participation and .arrivals count them
        return replace(signals, signal="mixed", branch=(terminator, signals is yes))

    def _held_on_one_branch(self, handle: tree.Handle, yes: State, no: State, head: int) -> State:
        terminator = self._role.role.blocks[head].terminator
        if self._role.narrows(head) or not isinstance(terminator, ir.Branch):
            return POISONED  # only some threads: pipec.checks.stages.participation reports it
        words = words_for(self._role, handle)
        if not self._out[head].get(handle, FREE).is_held:
            self._sink.report(self._obtained_on_one_branch(words, yes.is_held, terminator))
            return POISONED
        released = no if yes.is_held else yes
        self._sink.report(words.released_on_one_branch(terminator, not yes.is_held, span_of(released.released)))
        return POISONED

    def _obtained_on_one_branch(self, words: StageWords, when: bool, branch: ir.Branch) -> Message:
        if not words.summary.releases:
            return words.never_released(branch.span, hardware_effects.branch_ends(words.handle.name))
        return words.obtained_on_one_branch(branch, when)
