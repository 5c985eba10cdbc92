"""What a role waits for before the block may exit.

The commit of an MMA arrives on its barrier asynchronously; an arrival on a barrier of a block that has exited is undefined behaviour
(PTX ISA 9.7.16.12). A commit completes after everything committed earlier by the same role, so it suffices that someone waits for a
role's last commit. Usually that is the epilogue, which waits for the accumulator. If the last commit releases an input stage, nobody
waits for it: the producer of that pipeline then waits until all its stages have been released. It also does so if MMAs of other CTAs
release its stages.

All other signals to another CTA are given by threads, before they synchronise with the cluster at the end. That is a fence of all
memory in each thread, lest a signal still be on its way when its destination exits. A CTA pair does without: the leader, which multiplies
for both, waits until all accumulators have been released before it ends, and then no signal is on its way.
"""

from collections.abc import Callable, Iterable
from typing import TypeVar

from pipec.kir.clusters import LEADER, Sharing
from pipec.kir.ir import Exit as RoleExit
from pipec.kir.ir import Kernel, Role, successors
from pipec.kir.plan.roles import operations
from pipec.kir.plan.types import SideSignals
from pipec.record import record
from pipec.sema import tree
from pipec.vocabulary import SIDES, Completion, Side

_WAITED_FOR: frozenset[Completion] = frozenset(("tma", "commit"))
_BY_THREADS: frozenset[Completion] = frozenset(("threads", "met"))  # what they have signalled has come when they end


@record
class Exit:
    """`drains`: role name -> the pipelines that it drains at its end; `all_arrived`: no signal to another CTA is on its way when all
    roles have ended. `left_filled`: the pipelines whose stages may be full then."""

    drains: dict[str, tuple[tree.Pipeline, ...]]
    all_arrived: bool
    left_filled: frozenset[tree.Pipeline]


def plan_exit(
    kernel: Kernel,
    signals: dict[tuple[tree.Pipeline, Side], SideSignals],
    sharing: dict[tree.Pipeline, Sharing],
    noting: Iterable[tree.Pipeline],
) -> Exit:
    """`noting`: pipelines that also hand over whether an MMA ran, by an arrival of a thread."""
    found: dict[str, tuple[tree.Pipeline, ...]] = {}
    last_given = [last for role in kernel.roles for last in _given_back_last(role, signals)]
    released = _released_to_leaders(kernel, signals, sharing, frozenset(noting))
    for pipeline in dict.fromkeys([*last_given, *_committed_by_others(kernel, signals, sharing), *(released or ())]):
        for producer in kernel.roles:
            if pipeline in producer.produces and _may_end_undrained(producer, pipeline):
                found[producer.name] = (*found.get(producer.name, ()), pipeline)
    return Exit(found, all_arrived=released is not None, left_filled=_left_filled(kernel, signals, sharing))


def _left_filled(
    kernel: Kernel, signals: dict[tuple[tree.Pipeline, Side], SideSignals], sharing: dict[tree.Pipeline, Sharing]
) -> frozenset[tree.Pipeline]:
    """Those of one stage, which holds nothing that would be lost, and that threads of the CTA alone signal, so that nothing is under way.

    One stage without a tile is a baton: each side has it in turn, and whoever has it last passes it to nobody. Several are a queue, of
    which each entry stands for work that the other side would not have done.
    """
    holding = {use.tile.handle.pipeline for role in kernel.roles for one in operations(role) for use in one.effects.filling}
    return frozenset(
        pipeline
        for pipeline in kernel.pipelines
        if pipeline.stages == 1
        and pipeline not in holding
        and sharing[pipeline].local
        and all(_completions(signals, pipeline, side) <= _BY_THREADS for side in SIDES)
    )


def _released_to_leaders(
    kernel: Kernel,
    signals: dict[tuple[tree.Pipeline, Side], SideSignals],
    sharing: dict[tree.Pipeline, Sharing],
    noting: frozenset[tree.Pipeline],
) -> list[tree.Pipeline] | None:
    """The pipelines whose stages threads of a pair release to its leader; None if threads give other signals to other CTAs."""
    found = []
    for pipeline in kernel.pipelines:
        producer, consumer = sharing[pipeline].producer, sharing[pipeline].consumer
        filled, released = (_completions(signals, pipeline, side) - _WAITED_FOR for side in SIDES)
        if not producer.local and (filled or pipeline in noting):
            return None
        if not consumer.local and released:
            if consumer.to != LEADER or consumer.lines:
                return None
            found.append(pipeline)
    return found


def _completions(
    signals: dict[tuple[tree.Pipeline, Side], SideSignals], pipeline: tree.Pipeline, side: Side
) -> frozenset[Completion]:
    return frozenset(kind for how in signals[pipeline, side].how.values() for kind in how)


def _committed_by_others(
    kernel: Kernel, signals: dict[tuple[tree.Pipeline, Side], SideSignals], sharing: dict[tree.Pipeline, Sharing]
) -> list[tree.Pipeline]:
    """Pipelines whose stages are released by MMAs of other CTAs, which may still run when the roles of this CTA have ended."""
    return [
        pipeline
        for pipeline in kernel.pipelines
        if not sharing[pipeline].consumer.local and any("commit" in how for how in signals[pipeline, "consumer"].how.values())
    ]


def _given_back_last(role: Role, signals: dict[tuple[tree.Pipeline, Side], SideSignals]) -> list[tree.Pipeline]:
    """The pipelines whose stages the role's last commit may release; not those of accumulators that it hands over."""

    def after(last: frozenset[tree.Pipeline], operation: tree.Operation) -> frozenset[tree.Pipeline]:
        match operation:
            case tree.Signal(handle=handle, how="commit"):
                pass
            case tree.Signal(handle=handle) | tree.Release(handle=handle, signals=True):
                if "commit" not in signals[handle.pipeline, handle.side].how.get(role.name, ()):
                    return last
            case _:
                return last
        return frozenset([handle.pipeline]) if handle.side == "consumer" else frozenset()

    found = _at_the_end(role, after)
    return [pipeline for pipeline in role.consumes if pipeline in found]


def _may_end_undrained(role: Role, pipeline: tree.Pipeline) -> bool:
    """Whether a path leads to the role's end on which it fills stages after it has last drained the pipeline, if it ever has."""

    def after(filled: frozenset[tree.Pipeline], operation: tree.Operation) -> frozenset[tree.Pipeline]:
        match operation:
            case tree.Acquire(handle=handle) if handle.pipeline is pipeline and handle.side == "producer":
                return frozenset([pipeline])
            case tree.Drain(pipeline=drained) if drained is pipeline:
                return frozenset()
            case _:
                return filled

    return bool(_at_the_end(role, after))


_Fact = TypeVar("_Fact")


def _at_the_end(role: Role, after: Callable[[frozenset[_Fact], tree.Operation], frozenset[_Fact]]) -> frozenset[_Fact]:
    """What may hold where the role ends, nothing at its start: `after` gives what holds behind an operation."""
    entries: list[frozenset[_Fact] | None] = [None] * len(role.blocks)
    entries[0] = frozenset()
    at_end: frozenset[_Fact] = frozenset()
    work = [0]
    while work:
        number = work.pop()
        holds = entries[number]
        assert holds is not None
        for operation in role.blocks[number].operations:
            holds = after(holds, operation)
        terminator = role.blocks[number].terminator
        if isinstance(terminator, RoleExit):
            at_end |= holds
        for target in successors(terminator):
            before = entries[target]
            joined = holds if before is None else before | holds
            if joined != before:
                entries[target] = joined
                work.append(target)
    return at_end
