"""Tiles in tensor memory that alias the columns of another one: the columns have one owner at a time (E0746 to E0748).

A stage of the tile below (scores, say) goes from the role that multiplies it to the role that reads it. While that role holds the stage,
it writes the tiles above (probabilities) and hands them over; only then does it release the stage. The first role reads the tiles above
before it obtains the next stage of the tile below. With one stage each, the two alternate: no write overwrites data that is still to be
read. One pass over each of the two roles, with the set of states in which a path may reach a block, enforces that order.
"""

from collections.abc import Callable
from typing import Literal

from pipec.checks.summary import ACCUMULATE, OPERAND, READ, WRITE, RoleSummary, Summary, Touch
from pipec.diag.catalogue.tiles import aliases as messages
from pipec.diag.message import Message, Sink
from pipec.isa.targets import WARP
from pipec.kir import ir
from pipec.kir.plan.memory import packed_buffers, tensor_width
from pipec.record import record
from pipec.sema import tree

# A role, what it does to a tile, and through which pipeline.
_Use = tuple[RoleSummary, str, tree.Pipeline]


@record
class _Pair:
    """A tile, one that aliases its columns, and the pipelines that hand them over."""

    base: tree.Buffer
    alias: tree.Buffer
    below: tree.Pipeline
    above: tree.Pipeline


def check(summary: Summary, wrong: set[tree.Buffer], sink: Sink) -> None:
    """Ignores the tiles in `wrong`."""
    packed = packed_buffers(summary.kernel)
    aliases = [buffer for buffer in summary.kernel.buffers if buffer.alias is not None]
    for alias in aliases:
        base = alias.alias
        assert base is not None
        if alias in wrong or base in wrong:
            continue
        problem = _misplaced(alias, base, aliases, packed)
        if problem is not None:
            sink.report(
                messages.AliasPlace(buffer=alias.name, base=base.name, problem=problem, at=alias.span, declared=base.span)
            )
        else:
            _owners(summary, alias, base, sink)


def _misplaced(alias: tree.Buffer, base: tree.Buffer, aliases: list[tree.Buffer], packed: frozenset[tree.Buffer]) -> str | None:
    first, end = alias.alias_column, alias.alias_column + tensor_width(alias, packed)
    if base.alias is not None:
        return f"`{base.name}` uses the columns of another tile itself"
    # A row is a lane, and a warp can access only a quarter of the lanes (hardware.md 3.9): with different row counts, different warps
    # would write and read.
    if alias.rows != base.rows:
        return f"it has {alias.rows} rows, `{base.name}` has {base.rows}"
    # With a second stage the multiplying role could be one ahead, and overwrite probabilities that are still to be read with scores.
    if alias.count != 1 or base.count != 1:
        return f"{alias.count} and {base.count} tiles: it takes one of each, which take turns"
    if first < 0 or end > tensor_width(base, packed):
        return f"it takes the columns {first} to {end - 1} of {tensor_width(base, packed)}"
    for other in aliases:
        if other is alias:
            break
        from_, to = other.alias_column, other.alias_column + tensor_width(other, packed)
        if other.alias is base and first < to and from_ < end:
            return f"its columns {first} to {end - 1} overlap those of `{other.name}`, {from_} to {to - 1}"
    return None


def _owners(summary: Summary, alias: tree.Buffer, base: tree.Buffer, sink: Sink) -> None:
    below, above = _uses(summary, base), _uses(summary, alias)
    multiplies = {role.role.name: role for role, kind, _ in below if kind == ACCUMULATE}
    writes = {role.role.name: role for role, kind, _ in above if kind == WRITE}
    pipelines = {pipeline for _, _, pipeline in below}, {pipeline for _, _, pipeline in above}
    readers = (
        {role.role.name for role, kind, _ in below if kind != ACCUMULATE},
        {role.role.name for role, kind, _ in above if kind != WRITE},
    )
    problem = None
    if len(multiplies) != 1 or len(writes) != 1 or any(len(found) != 1 for found in pipelines):
        problem = f"it takes one role that multiplies `{base.name}` and one that writes `{alias.name}`, each through one pipeline"
    elif readers != ({*writes}, {*multiplies}) or any(kind not in (ACCUMULATE, READ) for _, kind, _ in below):
        problem = (
            f"the role that writes `{alias.name}` reads `{base.name}`; the one that multiplies `{base.name}` reads `{alias.name}`"
        )
    elif any(kind not in (WRITE, OPERAND) for _, kind, _ in above):
        problem = f"`{alias.name}` has to be operand `a` of an MMA"
    if problem is None:
        pair = _Pair(base, alias, *pipelines[0], *pipelines[1])
        (writer,), (multiplier,) = writes.values(), multiplies.values()
        if writer.role.warps * WARP != base.rows:
            # Warps that share lanes would have to synchronise between reading one tile and writing the other.
            problem = (
                f"role `{writer.role.name}` has {writer.role.warps} warps: it takes a thread for each of the {base.rows} rows"
            )
    if problem is not None:
        sink.report(messages.AliasPlace(buffer=alias.name, base=base.name, problem=problem, at=alias.span, declared=base.span))
        return
    _flow(writer, "away", lambda *event: _writer(pair, *event), sink)
    _flow(multiplier, "free", lambda *event: _multiplier(pair, *event), sink)


def _uses(summary: Summary, buffer: tree.Buffer) -> list[_Use]:
    return [
        (role, touch.kind, handle.handle.pipeline)
        for role, handle in summary.handles()
        for _, touch in handle.touches
        if touch.buffer is buffer
    ]


# The state of the tiles of a pair, as seen by the role that writes the upper one and by the one that multiplies.
_State = Literal["away", "held", "written", "done", "free", "taken"]
# The transition of an operation: the next state, or an error.
_Step = Callable[[_State, tree.Operation, tuple[Touch, ...]], _State | Message]


def _flow(role: RoleSummary, start: _State, step: _Step, sink: Sink) -> None:
    """Propagates all states in which a path can reach each operation; the first error is reported."""
    # Sets, not single states: of two paths that join, one may hold the stage and the other have released it.
    states: list[set[_State]] = [set() for _ in role.role.blocks]
    followed = [*map(set, states)]
    states[0], changed = {start}, True
    while changed:
        changed = False
        for number, block in enumerate(role.role.blocks):
            if states[number] == followed[number]:
                continue
            now = followed[number] = set(states[number])
            for operation, touches in zip(block.operations, role.touches[number], strict=True):
                found = {step(state, operation, touches) for state in sorted(now)}
                now = set()
                for one in found:
                    if isinstance(one, Message):
                        sink.report(one)
                        return
                    now.add(one)
            for target in ir.successors(block.terminator):
                if not now <= states[target]:
                    states[target] |= now
                    changed = True


def _writer(pair: _Pair, state: _State, operation: tree.Operation, touches: tuple[Touch, ...]) -> _State | Message:
    """ "away": the stage below is not held; "held"; "written": a tile above has been written but not handed over; "done": it has been."""
    match operation:
        case tree.Acquire(handle) if handle.pipeline is pair.below and operation.first:
            return "held"
        case tree.Acquire(handle) if handle.pipeline is pair.above and operation.first and state == "done":
            return _not_owned(pair, "is obtained twice while one stage of `{base}` is held", operation)
        case tree.Release(handle) if handle.pipeline is pair.above:
            return "done" if state == "written" else state
        case tree.Signal(handle) | tree.Release(handle) if handle.pipeline is pair.below:
            if state == "written":
                return _not_owned(pair, "is handed over after `{base}` was given back", operation)
            return "away"
        case _:
            return _touched(pair, state, operation, touches)


def _touched(pair: _Pair, state: _State, operation: tree.Operation, touches: tuple[Touch, ...]) -> _State | Message:
    reads = any(touch.buffer is pair.base for touch in touches)
    writes = any(touch.buffer is pair.alias and touch.kind == WRITE for touch in touches)
    if reads and (writes or state in ("written", "done")):
        return _not_owned(pair, "is written before `{base}` was read", operation)
    if not writes:
        return state
    return (
        "written"
        if state in ("held", "written")
        else _not_owned(pair, "is written while no stage of `{base}` is held", operation)
    )


def _multiplier(pair: _Pair, state: _State, operation: tree.Operation, touches: tuple[Touch, ...]) -> _State | Message:
    """ "free": nothing is to be read; "taken": the stage below was handed out and will come to contain the tiles above."""
    match operation:
        case tree.Acquire(handle) if handle.pipeline is pair.below and operation.first:
            if state == "taken":
                return messages.AliasOverwritten(
                    buffer=pair.alias.name,
                    base=pair.base.name,
                    pipeline=pair.above.name,
                    at=operation.span,
                    declared=pair.alias.span,
                )
            return "taken"
        case tree.Release(handle) if handle.pipeline is pair.above:
            return "free"
        case _:
            return state


def _not_owned(pair: _Pair, problem: str, operation: tree.Operation) -> Message:
    base = pair.base.name
    return messages.AliasOwner(
        buffer=pair.alias.name, base=base, problem=problem.format(base=base), at=operation.span, declared=pair.alias.span
    )
