"""The wording of the linearity check for each way to hold a stage: by a handle, between a wait and its step, or as a peek.

One class per way, one method per error; `pipec.checks.stages.linear` finds the errors and contains no wording.
"""

from typing import TypedDict

from pipec.checks.stages import sub_stages
from pipec.checks.summary import RoleSummary, StageSummary, Touch
from pipec.diag.catalogue.stages import explicit_signals as explicit_signals_messages
from pipec.diag.catalogue.stages import hardware_effects, peek, stepping
from pipec.diag.catalogue.stages import linear as messages
from pipec.diag.message import Message
from pipec.kir import ir
from pipec.record import record
from pipec.sema import tree
from pipec.source import Span
from pipec.vocabulary import OTHER_SIDE, Form, Side, UseKind

USES: dict[UseKind, str] = {
    "load": "filled by a TMA load",
    "copy": "filled by `cp.async`",
    "write": "written",
    "accumulate": "used as an accumulator",
    "operand": "read by an MMA",
    "read": "read",
    "store": "stored by TMA",
    "index": "its index is read",
}


def truth(value: bool) -> str:
    return "true" if value else "false"


def span_of(operation: tree.Operation | None) -> Span | None:
    return operation.span if operation is not None else None


class StageName(TypedDict):
    """The fields that almost every message about a stage has."""

    stage: str
    pipeline: str


class PeekName(TypedDict):
    token: str
    pipeline: str


def stage_name(handle: tree.Handle) -> StageName:
    # A typed dictionary, so that `**` preserves what mypy knows about the fields.
    return {"stage": handle.name, "pipeline": handle.pipeline.name}


@record
class StageWords:
    """A stage with a name: linear, scoped, or consume_explicit."""

    role: RoleSummary
    handle: tree.Handle

    @property
    def summary(self) -> StageSummary:
        return self.role.summary_of(self.handle)

    @property
    def obtained(self) -> Span | None:
        sites = self.summary.acquires
        return sites[0].operation.span if sites else None

    @property
    def first_release(self) -> Span | None:
        releases = self.summary.releases
        return releases[0].operation.span if releases else None

    @property
    def release_text(self) -> str:
        first = self.first_release
        return first.text() if first is not None else sub_stages.release_call(self.handle)

    @property
    def leak(self) -> str:
        return hardware_effects.leak(*self._leak_arguments)

    @property
    def _leak_arguments(self) -> tuple[Side, str, int, bool]:
        sites = self.summary.acquires
        # Only a loop revisits the slot: outside a loop the leak blocks nobody, and the message must not claim so.
        looped = bool(sites) and self.role.innermost[sites[0].block] is not None
        return self.handle.side, self.handle.pipeline.name, self.handle.pipeline.stages, looped

    @property
    def _named(self) -> StageName:
        return stage_name(self.handle)

    def never_released(self, end: Span, ending: str) -> Message:
        call = sub_stages.release_call(self.handle)
        return messages.NeverReleased(
            **self._named, release=call, ending=ending, consequence=self.leak, at=self.obtained or end, end=end
        )

    def replaced(self, at: Span) -> Message | None:
        """Another stage is obtained under the same name."""
        return messages.Shadowed(**self._named, consequence=self.leak, at=at, obtained=self.obtained)

    def released_twice(self, at: Span, first: Span | None) -> Message:
        consequence = hardware_effects.second_phase(self.handle.side, self.handle.pipeline.name)
        return messages.ReleasedTwice(**self._named, consequence=consequence, at=at, first=first, obtained=self.obtained)

    def released_not_held(self, at: Span) -> Message:
        """The release names no stage and means the one obtained last in the source, on another path."""
        return messages.ReleasedNotHeld(**self._named, at=at, obtained=self.obtained)

    def released_without_signal(self, at: Span) -> Message:
        consequence = self.leak
        if self.handle.form == "explicit":
            return explicit_signals_messages.ExplicitNeverSignals(**self._named, consequence=consequence, at=self.obtained or at)
        return explicit_signals_messages.ReleasedWithoutSignal(
            **self._named, consequence=consequence, at=at, obtained=self.obtained
        )

    def used_after_release(self, use: str, at: Span, touch: Touch | None, released: Span | None) -> Message:
        variable = touch.variable.name if touch and touch.variable else None
        fix = f"release `{self._named['stage']}` after this"
        return messages.UsedAfterRelease(
            **self._named,
            use=use,
            variable=variable,
            fix=f"{fix}, or take the values out before: `{variable} = registers(...)`" if variable else fix,
            consequence=hardware_effects.overrun(self.handle.side, self.handle.pipeline.name),
            at=at,
            defined=touch.defined if touch else None,
            released=released,
            obtained=self.obtained,
        )

    def released_on_one_branch(self, branch: ir.Branch, when: bool, released: Span | None) -> Message:
        return messages.ReleasedOnOneBranch(
            **self._named,
            yes=truth(when),
            no=truth(not when),
            release=self.release_text,
            consequence=hardware_effects.other_path_leak(*self._leak_arguments),
            at=branch.span,
            released=released,
            obtained=self.obtained,
        )

    def obtained_on_one_branch(self, branch: ir.Branch, when: bool) -> Message:
        return messages.ObtainedOnOneBranch(
            **self._named,
            yes=truth(when),
            no=truth(not when),
            at=self.obtained or branch.span,
            branch=branch.span,
            released=self.first_release,
        )

    def released_inside_loop(self, loop: ir.Loop, released: Span | None) -> Message:
        return messages.ReleasedInsideLoop(
            **self._named, release=self.release_text, at=released or loop.span, loop=loop.span, obtained=self.obtained
        )

    def carried(self, loop: ir.Loop) -> Message:
        return messages.CarriedOutOfLoop(
            **self._named,
            release=self.release_text,
            consequence=self.leak,
            at=self.obtained or loop.span,
            loop=loop.span,
            released=self.first_release,
        )


class SteppedWords(StageWords):
    """The current stage between `wait_...()` and `..._step()`."""

    __slots__ = ()

    @property
    def _step(self) -> str:
        return f"{self.handle.pipeline.name}.{self.handle.side}_step()"

    @property
    def _wait(self) -> str:
        return f"{self.handle.pipeline.name}.wait_{OTHER_SIDE[self.handle.side]}()"

    def never_released(self, end: Span, ending: str) -> Message:
        return stepping.NeverStepped(
            pipeline=self.handle.pipeline.name,
            ending="ends here, and the stage is still current",
            step=self._step,
            consequence=stepping.never_stepped(self.handle.side),
            at=self.obtained or end,
            end=end,
        )

    def replaced(self, at: Span) -> Message | None:
        return stepping.WaitedTwice(
            side=self.handle.side, pipeline=self.handle.pipeline.name, step=self._step, at=at, first=self.obtained
        )

    def released_twice(self, at: Span, first: Span | None) -> Message:
        return self._stepped_again(at, f"remove it, or write `{self._wait}` before it", None, first)

    def released_not_held(self, at: Span) -> Message:
        return self._stepped_again(at, f"write `{self._wait}` before it, on the same path", None, None)

    def released_inside_loop(self, loop: ir.Loop, released: Span | None) -> Message:
        return self._stepped_again(released or loop.span, "move it below the loop, or the wait into the loop", loop.span, None)

    def _stepped_again(self, at: Span, edit: str, loop: Span | None, first: Span | None) -> Message:
        return stepping.SteppedAgain(
            step=at.text(), pipeline=self.handle.pipeline.name, edit=edit, at=at, loop=loop, first=first, obtained=self.obtained
        )

    def released_without_signal(self, at: Span) -> Message:
        name, side = self.handle.pipeline.name, self.handle.side
        # Asynchronous work must signal by itself: an arrive would precede the end of the MMAs.
        commits = self.summary.kinds() & {"accumulate", "operand"}
        return stepping.SteppedWithoutSignal(
            pipeline=name,
            consequence=self.leak,
            signal=f"{'mma.commit' if commits else 'arrive'}({name}.{side}_mbar({name}.{side}_stage()))",
            at=at,
            obtained=self.obtained,
        )

    def used_after_release(self, use: str, at: Span, touch: Touch | None, released: Span | None) -> Message:
        return stepping.UsedAfterStep(
            pipeline=self.handle.pipeline.name,
            # With steps the stage has no name, only the number returned by `..._stage()`.
            use="its number is read" if touch is not None and touch.kind == "index" else use,
            variable=touch.variable.name if touch and touch.variable else None,
            step=self._step,
            consequence=hardware_effects.overrun(self.handle.side, self.handle.pipeline.name),
            at=at,
            defined=touch.defined if touch else None,
            released=released,
            obtained=self.obtained,
        )

    def released_on_one_branch(self, branch: ir.Branch, when: bool, released: Span | None) -> Message:
        return stepping.SteppedOnOneBranch(
            pipeline=self.handle.pipeline.name,
            yes=truth(when),
            no=truth(not when),
            step=self._step,
            consequence=stepping.never_stepped(self.handle.side),
            at=branch.span,
            released=released,
            obtained=self.obtained,
        )

    def obtained_on_one_branch(self, branch: ir.Branch, when: bool) -> Message:
        return stepping.WaitedOnOneBranch(
            pipeline=self.handle.pipeline.name,
            yes=truth(when),
            no=truth(not when),
            wait=self._wait,
            at=self.obtained or branch.span,
            branch=branch.span,
            released=self.first_release,
        )

    def carried(self, loop: ir.Loop) -> Message:
        return stepping.SteppedAfterLoop(
            pipeline=self.handle.pipeline.name,
            step=self._step,
            consequence=stepping.never_stepped(self.handle.side),
            at=self.obtained or loop.span,
            loop=loop.span,
            released=self.first_release,
        )


class PeekWords(StageWords):
    """The result of `try_acquire_...()`, "obtained" by the peek and "released" by the wait that consumes it."""

    __slots__ = ()

    @property
    def _right(self) -> str:
        return f"{self.handle.pipeline.name}.wait_{OTHER_SIDE[self.handle.side]}_if_needed({self.handle.name})"

    @property
    def _peek(self) -> PeekName:
        return {"token": self.handle.name, "pipeline": self.handle.pipeline.name}

    def never_released(self, end: Span, ending: str) -> Message:
        return peek.PeekNeverUsed(
            **self._peek, ending="ends here without the wait", right=self._right, at=self.obtained or end, end=end
        )

    def replaced(self, at: Span) -> Message | None:
        return None  # the name of a peek does not name a stage

    def overtaken(self, what: str, at: Span) -> Message:
        return peek.PeekOvertaken(**self._peek, what=what, right=self._right, at=at, obtained=self.obtained)

    def released_twice(self, at: Span, first: Span | None) -> Message:
        return self.used_again(at, None, first)

    def released_inside_loop(self, loop: ir.Loop, released: Span | None) -> Message:
        return self.used_again(released or loop.span, loop.span, None)

    def used_again(self, at: Span, loop: Span | None, first: Span | None, *, alone: bool = True) -> Message:
        """`alone`: whether it is so on all ways to this wait."""
        name = self.handle.name
        look = f"`{name} = {self.obtained.text() if self.obtained is not None else '...'}`"
        where = "after the step, at the end of the loop" if loop is not None else "before this wait"
        fix = f"look again {where}: {look}; or wait without a peek"
        if not alone:
            fix = f"where nothing is looked at, write `{name} = False`: the next wait then waits"
        return peek.PeekUsedTwice(**self._peek, fix=fix, at=at, loop=loop, first=first, obtained=self.obtained)

    def released_on_one_branch(self, branch: ir.Branch, when: bool, released: Span | None) -> Message:
        return self._one_branch("completed", branch, when, released)

    def obtained_on_one_branch(self, branch: ir.Branch, when: bool) -> Message:
        return self._one_branch("made", branch, when, None)

    def _one_branch(self, what: str, branch: ir.Branch, when: bool, released: Span | None) -> Message:
        yes, no = truth(when), truth(not when)
        return peek.PeekOnOneBranch(
            **self._peek, what=what, yes=yes, no=no, at=branch.span, released=released, obtained=self.obtained
        )

    def carried(self, loop: ir.Loop) -> Message:
        return self.never_released(loop.span, "")


# Forms that are not listed have a named stage and share their wording.
_FORMS: dict[Form, type[StageWords]] = {"stepped": SteppedWords, "token": PeekWords}


def words_for(role: RoleSummary, handle: tree.Handle) -> StageWords:
    return _FORMS.get(handle.form, StageWords)(role, handle)
