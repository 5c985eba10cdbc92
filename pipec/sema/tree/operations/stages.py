"""Stages obtained, signalled and released; explicit byte counts; tile requests to the hardware."""

from pipec.record import record
from pipec.sema.tree.effects import ANY_THREADS, AllThreads, Effects, OneThread, WhoRuns
from pipec.sema.tree.operations.operation import Operation
from pipec.sema.tree.symbols import Handle, Pipeline, Variable
from pipec.source import Span
from pipec.vocabulary import OTHER_SIDE, SignalKind

_NOT_WAITED = "the other threads do not wait: they go on before the stage is theirs, and their stage count falls behind"


@record(eq=False)
class Acquire(Operation):
    """Waits for the other side, then holds the stage. All forms are one operation.

    `sub_stage` is one of the other side's. `first` marks the wait that obtains the stage; the others wait for its further sub-stages.
    `token` is the peek that this wait completes: it waits only if the peek found the stage not ready, as `ready` tells.
    """

    handle: Handle
    span: Span
    sub_stage: int = 0
    first: bool = True
    token: Handle | None = None
    ready: Variable | None = None

    def declared(self) -> Effects:
        return Effects(AllThreads(f"obtaining stage `{self.handle.name}`", _NOT_WAITED), hands_over=self.handle)

    def text(self) -> str:
        handle = self.handle
        if not self.first:
            return f"wait for {handle.name} sub-stage {self.sub_stage}"
        how = handle.form + (f", peeked {self.token.name}" if self.token else "")
        part = _sub_stage(self.sub_stage, handle.pipeline.sub_stages(OTHER_SIDE[handle.side]))
        return f"{handle.name} = acquire {handle.pipeline.name} as {handle.side} ({how}){part}"


@record(eq=False)
class Peek(Operation):
    """Tests, without waiting, whether the stage that the next acquire takes is ready; the result is stored in `ready` (bool)."""

    token: Handle
    ready: Variable
    span: Span

    def declared(self) -> Effects:
        otherwise = "the other threads do not look, and wait for a stage by a result they never got"
        return Effects(AllThreads(f"looking at `{self.token.pipeline.name}`", otherwise))

    def text(self) -> str:
        return f"{self.ready.name} = peek {self.token.pipeline.name} as {self.token.side}"


@record(eq=False)
class Signal(Operation):
    """A signal on the handle's own barrier: how "arrive" (each calling thread), "commit" (when prior MMAs finish) or "own".

    "own" is what the use of the stage requires, as at a release: an MMA commit, an arrival of the threads, or the copy's bytes.
    `sub_stage` is one of the handle's own side.
    """

    handle: Handle
    how: SignalKind
    span: Span
    sub_stage: int = 0

    def declared(self) -> Effects:
        threads: WhoRuns = AllThreads(
            f"arriving on `{self.handle.name}`", "the barrier waits for the arrivals of the other threads for ever"
        )
        if self.how == "commit":
            threads = OneThread(
                "mma.commit", "the barrier receives one arrival per thread and completes phases that nothing filled"
            )
        return Effects(threads, hands_over=self.handle)

    def text(self) -> str:
        part = _sub_stage(self.sub_stage, self.handle.pipeline.sub_stages(self.handle.side))
        return f"signal {self.handle.name}{part} by {self.how}"


@record(eq=False)
class Release(Operation):
    """Releases the stage and steps. It signals if there was no signal before, unless `signals` is False (release_without_signal)."""

    handle: Handle
    signals: bool
    span: Span

    def declared(self) -> Effects:
        otherwise = "the other threads do not step on: from here on they wait for another stage than this one"
        return Effects(AllThreads(f"releasing stage `{self.handle.name}`", otherwise), hands_over=self.handle)

    def text(self) -> str:
        return f"release {self.handle.name}" + ("" if self.signals else " without signal")


@record(eq=False)
class Move(Operation):
    """The stage that a consumer holds under the name of `source` is held under that of `target` from here on, in the next iteration of a
    loop as well."""

    target: Handle
    source: Handle
    span: Span

    def declared(self) -> Effects:
        otherwise = "the other threads keep the stage that the name stood for, and release it a second time"
        return Effects(AllThreads(f"giving the stage of `{self.source.name}` to `{self.target.name}`", otherwise))

    def text(self) -> str:
        return f"{self.target.name} = stage of {self.source.name}"


@record(eq=False)
class Drain(Operation):
    """The producer waits until every stage it filled has been released."""

    pipeline: Pipeline
    span: Span

    def declared(self) -> Effects:
        return Effects(AllThreads(f"draining `{self.pipeline.name}`", _NOT_WAITED), hands_over=self.pipeline)

    def text(self) -> str:
        return f"drain {self.pipeline.name}"


@record(eq=False)
class Skip(Operation):
    """A consumer steps past its next stage, which another consumer of the pipeline takes: it neither waits nor signals."""

    pipeline: Pipeline
    span: Span

    def declared(self) -> Effects:
        otherwise = "the other threads do not step on: from here on they wait for another stage than this one"
        return Effects(AllThreads(f"skipping a stage of `{self.pipeline.name}`", otherwise), hands_over=self.pipeline)

    def text(self) -> str:
        return f"skip {self.pipeline.name}"


@record(eq=False)
class ExpectBytes(Operation):
    """The stated number of bytes that loads into a producer's stage transfer; checked against the derived number."""

    handle: Handle
    bytes: int
    span: Span

    def declared(self) -> Effects:
        return Effects(ANY_THREADS)

    def text(self) -> str:
        return f"expect {self.handle.name} {self.bytes} bytes"


@record(eq=False)
class RequestTile(Operation):
    """Requests the tile of a cluster that has not started. The bytes of the response complete on the full barrier of the handle. One
    thread."""

    handle: Handle
    span: Span

    def declared(self) -> Effects:
        return Effects(ANY_THREADS, hands_over=self.handle, fills=(self.handle, "tma"))

    def text(self) -> str:
        return f"request a tile into {self.handle.name}"


def _sub_stage(number: int, of: int) -> str:
    return f" sub-stage {number}" if of != 1 else ""
