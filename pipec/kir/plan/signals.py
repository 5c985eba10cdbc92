"""Who signals a pipeline's barriers, how, and how often: arrival counts and expected bytes."""

from collections.abc import Iterator, Mapping

from pipec.isa.targets import WARP
from pipec.kir.clusters import FIRST, LEADER, Reach, Sharing
from pipec.kir.ir import Kernel, Participation, Role, successors
from pipec.kir.plan.roles import expressions, operations
from pipec.kir.plan.types import RESPONSE_BYTES, RolePlan, SideSignals, TileLayout
from pipec.sema import tree
from pipec.sema.tree import Buffer, Handle, Pipeline
from pipec.vocabulary import FILLING, SIDES, Completion, Side, SignalKind

# In which a release completes them, where there are several.
_ORDER: tuple[Completion, ...] = ("tma", "copies", "commit", "warps", "read", "threads", "met")


def plan_signals(
    kernel: Kernel,
    roles: tuple[RolePlan, ...],
    expected: Mapping[Handle, int],
    unwritten: Mapping[Buffer, tuple[Pipeline, object]],
    sharing: Mapping[Pipeline, Sharing],
) -> dict[tuple[Pipeline, Side], SideSignals]:
    signals: dict[tuple[Pipeline, Side], SideSignals] = {}
    # Only the MMA role knows whether an MMA ran, where launch values do not tell: its note needs an arrival, since a commit
    # publishes no store of its thread.
    noting = {pipeline for pipeline, condition in unwritten.values() if condition is None}
    for pipeline in kernel.pipelines:
        for side in SIDES:
            how: dict[str, tuple[Completion, ...]] = {}
            counts: dict[str, int] = {}
            for row in roles:
                if pipeline not in (row.role.produces if side == "producer" else row.role.consumes):
                    continue
                reach = sharing[pipeline].of(side)
                kinds = _kinds(row, pipeline, side, reach)
                how[row.role.name] = tuple(kinds)
                counts[row.role.name] = sum(_count(row, pipeline, side, kind) * _senders(row.role, kind, reach) for kind in kinds)
                if side == "producer" and pipeline in noting:
                    counts[row.role.name] += 1  # the note that tells whether an MMA ran
            bytes_ = [count for handle, count in expected.items() if handle.pipeline is pipeline]
            # Handles of one pipeline may expect different numbers; a barrier's description has room for one, and the largest
            # decides whether tx can hold it.
            transaction = max(bytes_, default=0) if side == "producer" else 0
            signals[pipeline, side] = SideSignals(how, sum(counts.values()), transaction, counts)
    return signals


_COMPLETED_BY: dict[SignalKind, Completion] = {"arrive": "threads", "commit": "commit"}
_BY_ONE_THREAD: frozenset[Completion] = frozenset(("tma", "commit", "read"))  # "met" meets by itself


def plan_meetings(
    roles: tuple[RolePlan, ...], signals: Mapping[tuple[Pipeline, Side], SideSignals]
) -> dict[str, frozenset[tuple[Pipeline, Side]]]:
    """Role name -> the pipelines and sides in which its warps wait together but one thread signals.

    Where all signals stand in blocks of one thread, the role meets before those blocks.
    """
    found: dict[str, frozenset[tuple[Pipeline, Side]]] = {}
    for row in roles:
        # The lanes of one warp wait together, so none of them is left behind.
        if row.role.warps == 1:
            continue
        found[row.role.name] = frozenset(
            (pipeline, side)
            for side, pipelines in zip(SIDES, (row.role.produces, row.role.consumes), strict=True)
            for pipeline in pipelines
            if _speaks_alone(row.role, pipeline, side, signals[pipeline, side].how[row.role.name])
        )
    return found


def _speaks_alone(role: Role, pipeline: Pipeline, side: Side, kinds: tuple[Completion, ...]) -> bool:
    if not _BY_ONE_THREAD.issuperset(kinds):
        return False
    if "tma" in kinds:  # announced where the stage is obtained
        return True
    return any(
        operation.handle.pipeline is pipeline and operation.handle.side == side and block.participation.threads != "one"
        for block in role.blocks
        for operation in block.operations
        if isinstance(operation, tree.Signal) or (isinstance(operation, tree.Release) and operation.signals)
    )


def _kinds(row: RolePlan, pipeline: Pipeline, side: Side, reach: Reach) -> list[Completion]:
    """What a role does with a stage decides how it signals; an explicit signal in the source comes first.

    What threads of a pair write for the leader, or have read of what it multiplied, is told to another CTA: the threads meet, and one
    arrival speaks for all. Each of theirs would be a message between CTAs, 256 for an accumulator, and a release at the scope of the
    cluster where they wrote.
    """
    role = row.role
    # A set: the check of signals has refused roles that signal stages of one pipeline in two ways.
    explicit = {
        operation.how
        for operation in operations(role)
        if isinstance(operation, tree.Signal) and operation.handle.pipeline is pipeline and operation.handle.side == side
        if operation.how != "own"
    }
    found = _fills(role, pipeline) if side == "producer" else _drains(role, pipeline)
    # The loads keep their arrival that announces the bytes; the threads' arrivals come on top.
    if "tma" in found and "arrive" in explicit:
        return ["tma", "threads"]
    if explicit:
        return [_COMPLETED_BY[how] for how in sorted(explicit)]
    kinds: list[Completion] = found or ["threads"]
    if kinds == ["threads"] and reach.to == LEADER and _participation(role, pipeline, side).threads == "all":
        return ["met"]
    return kinds


def _fills(role: Role, pipeline: Pipeline) -> list[Completion]:
    found = dict.fromkeys(
        kind for operation in operations(role) for handle, kind in _filled(operation.effects) if handle.pipeline is pipeline
    )
    return sorted(found, key=_ORDER.index)


def _filled(effects: tree.Effects) -> Iterator[tuple[Handle, Completion]]:
    if effects.fills is not None:
        yield effects.fills
    for use in effects.uses:
        if use.kind in FILLING:
            yield use.tile.handle, use.completes


def _drains(role: Role, pipeline: Pipeline) -> list[Completion]:
    found = {
        use.completes
        for operation in operations(role)
        for use in operation.effects.uses
        if use.kind not in FILLING and use.tile.handle.pipeline is pipeline
    }
    # Reads inside of tile expressions are no operations of their own, so no effect lists them.
    for node in expressions(role):
        if isinstance(node, tree.ReadBuffer) and node.source.handle.pipeline is pipeline:
            found.add("threads")
    return sorted(found, key=_ORDER.index)


def _count(row: RolePlan, pipeline: Pipeline, side: Side, kind: Completion) -> int:
    if kind == "warps":
        return row.role.warps
    if kind == "copies":
        return row.threads
    # Bytes, a commit, a finished store and a role that has met speak once, whoever did the work.
    if kind != "threads":
        return 1
    if row.single_thread:
        return 1
    return _arriving(_participation(row.role, pipeline, side), row.role.warps)


def _senders(role: Role, kind: Completion, reach: Reach) -> int:
    """Of how many CTAs a barrier counts the signal. The bytes of both CTAs of a pair are announced by the leader alone."""
    if reach.to == FIRST and role.leader:
        return reach.senders // 2
    return 1 if kind == "tma" else reach.senders


def _arriving(participation: Participation, warps: int) -> int:
    match participation.threads:
        case "one":
            return 1
        case "lanes":
            return (participation.lanes or WARP) * warps
        case _:
            return warps * WARP


def _participation(role: Role, pipeline: Pipeline, side: Side) -> Participation:
    """Who runs the signal: the block of an explicit arrive, else that of the first release."""
    release: Participation | None = None
    for block in role.blocks:
        for operation in block.operations:
            match operation:
                case tree.Signal(how="arrive" | "own") if operation.handle.pipeline is pipeline and operation.handle.side == side:
                    return block.participation
                case tree.Release() if operation.handle.pipeline is pipeline and operation.handle.side == side:
                    release = release or block.participation
                case _:
                    pass
    return release or Participation("all")


def expected_bytes(
    kernel: Kernel, layouts: Mapping[Buffer, TileLayout], sharing: Mapping[Pipeline, Sharing]
) -> dict[Handle, int]:
    """Per producer's handle, the bytes of the loads between its acquire and its release: the most that any path issues.

    Where the barrier is the leader's, those of both CTAs of the pair. A multicast brings every CTA the whole tile.
    """
    expected: dict[Handle, int] = {}
    for role in kernel.roles:
        # A dictionary for its order: the plan must not depend on hashes of objects.
        handles = {operation.destination.handle: None for operation in operations(role) if isinstance(operation, tree.TmaLoad)}
        for handle in handles:
            expected[handle] = _most_bytes(role, handle, layouts) * sharing[handle.pipeline].producer.senders
        expected |= {one.handle: RESPONSE_BYTES for one in operations(role) if isinstance(one, tree.RequestTile)}
    return expected


def _most_bytes(role: Role, handle: Handle, layouts: Mapping[Buffer, TileLayout]) -> int:
    """The heaviest path through the blocks, back edges left out; a load in an inner loop counts once per (constant) trip."""
    acquired = _block_of_acquire(role, handle)
    weights = []
    for number, block in enumerate(role.blocks):
        loads = [
            operation
            for operation in block.operations
            if isinstance(operation, tree.TmaLoad) and operation.destination.handle is handle
        ]
        trips = _trips(role, number, acquired)
        weights.append(sum(tile_bytes(operation.destination.buffer) for operation in loads) * trips)
    # The barrier expects one number for every path; a check refuses kernels in which a path brings fewer bytes.
    heaviest = [0] * len(role.blocks)
    for number in reversed(range(len(role.blocks))):
        # Blocks are numbered so that a forward edge goes up; see pipec.kir.build.
        after = [heaviest[next_] for next_ in successors(role.blocks[number].terminator) if next_ > number]
        heaviest[number] = weights[number] + max(after, default=0)
    return heaviest[0]


def tile_bytes(buffer: Buffer) -> int:
    """What loading the whole tile completes on its barrier: the box bytes, without padding (hardware.md 2.4)."""
    return buffer.rows * buffer.columns * buffer.dtype.bits // 8


def _block_of_acquire(role: Role, handle: Handle) -> int:
    for number, block in enumerate(role.blocks):
        if any(isinstance(operation, tree.Acquire) and operation.handle is handle for operation in block.operations):
            return number
    return 0


def _trips(role: Role, block: int, acquired: int) -> int:
    trips = 1
    for loop in role.loops:
        if block not in loop.blocks or acquired in loop.blocks:
            continue
        if isinstance(loop.start, tree.Constant) and isinstance(loop.stop, tree.Constant) and loop.step:
            trips *= len(range(int(loop.start.value), int(loop.stop.value), loop.step))
    return trips
