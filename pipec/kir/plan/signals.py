"""Who signals a pipeline's barriers, how, and how often: arrival counts and expected bytes."""

from collections.abc import Mapping

from pipec.isa.targets import WARP
from pipec.kir.clusters import FIRST, LEADER, Reach, Sharing
from pipec.kir.ir import Kernel, Participation, Role, successors
from pipec.kir.plan.roles import expressions, operations
from pipec.kir.plan.types import RESPONSE_BYTES, RolePlan, SideSignals
from pipec.record import field, mutable
from pipec.sema import tree
from pipec.sema.tree import Buffer, BufferRef, Handle, Pipeline
from pipec.vocabulary import FILLING, SIDES, Completion, Side, SignalKind

# The order in which a release completes them, if there are several.
_ORDER: tuple[Completion, ...] = ("tma", "copies", "commit", "warps", "read", "threads", "met")


_Stage = tuple[Pipeline, Side]


@mutable
class _Uses:
    """A role's uses of its stages, by pipeline. Collected in one pass: searching the role for each of its pipelines would take quadratic
    time."""

    fills: dict[Pipeline, set[Completion]] = field(default_factory=dict)
    drains: dict[Pipeline, set[Completion]] = field(default_factory=dict)
    skips: set[Pipeline] = field(default_factory=set)
    # In source order, with their participation.
    signals: dict[_Stage, list[tuple[tree.Signal | tree.Release, Participation]]] = field(default_factory=dict)


def _uses_of(role: Role) -> _Uses:
    found = _Uses()
    for block in role.blocks:
        for operation in block.operations:
            effects = operation.effects
            if effects.fills is not None:
                handle, kind = effects.fills
                found.fills.setdefault(handle.pipeline, set()).add(kind)
            for use in effects.uses:
                by = found.fills if use.kind in FILLING else found.drains
                by.setdefault(use.tile.handle.pipeline, set()).add(use.completes)
            if isinstance(operation, tree.Signal | tree.Release):
                stage = operation.handle.pipeline, operation.handle.side
                found.signals.setdefault(stage, []).append((operation, block.participation))
            elif isinstance(operation, tree.Skip):
                found.skips.add(operation.pipeline)
    # Reads inside tile expressions are not operations, so no effect lists them.
    for node in expressions(role):
        if isinstance(node, tree.ReadBuffer):
            found.drains.setdefault(node.source.handle.pipeline, set()).add("threads")
    return found


def plan_signals(
    kernel: Kernel,
    roles: tuple[RolePlan, ...],
    expected: Mapping[Handle, int],
    unwritten: Mapping[Buffer, tuple[Pipeline, object]],
    sharing: Mapping[Pipeline, Sharing],
) -> dict[_Stage, SideSignals]:
    signals: dict[_Stage, SideSignals] = {}
    uses = {row.role.name: _uses_of(row.role) for row in roles}
    # If launch values do not determine whether an MMA ran, only the MMA role knows: its flag needs an arrival, since a commit does not
    # publish stores of its thread.
    noting = {pipeline for pipeline, condition in unwritten.values() if condition is None}
    announced = _announced(kernel, expected)
    for pipeline in kernel.pipelines:
        for side in SIDES:
            how: dict[str, tuple[Completion, ...]] = {}
            counts: dict[str, int] = {}
            for row in roles:
                if pipeline not in (row.role.produces if side == "producer" else row.role.consumes):
                    continue
                reach, used = sharing[pipeline].of(side), uses[row.role.name]
                kinds = _kinds(used, pipeline, side, reach)
                how[row.role.name] = tuple(kinds)
                counts[row.role.name] = sum(
                    _count(row, used, (pipeline, side), kind) * _senders(row.role, kind, reach) for kind in kinds
                )
                if side == "producer" and pipeline in noting:
                    counts[row.role.name] += 1  # for the flag that records whether an MMA ran
            transaction = announced.get(pipeline, 0) if side == "producer" else 0
            # With alternating consumers, one of them has the stage, and a check rejects those whose signals differ.
            in_turn = side == "consumer" and any(pipeline in used.skips for used in uses.values())
            count = max(counts.values(), default=0) if in_turn else sum(counts.values())
            signals[pipeline, side] = SideSignals(how, count, transaction, counts, in_turn)
    return signals


_COMPLETED_BY: dict[SignalKind, Completion] = {"arrive": "threads", "commit": "commit"}
_BY_ONE_THREAD: frozenset[Completion] = frozenset(("tma", "commit", "read"))  # "met" implies a synchronisation


def plan_meetings(roles: tuple[RolePlan, ...], signals: Mapping[_Stage, SideSignals]) -> dict[str, frozenset[_Stage]]:
    """Role name -> the pipelines and sides for which its warps wait together but one thread signals.

    If all signals are in one-thread blocks, the role synchronises before those blocks.
    """
    found: dict[str, frozenset[_Stage]] = {}
    for row in roles:
        # The lanes of one warp wait together, so none of them is left behind.
        if row.role.warps == 1:
            continue
        uses = _uses_of(row.role)
        found[row.role.name] = frozenset(
            (pipeline, side)
            for side, pipelines in zip(SIDES, (row.role.produces, row.role.consumes), strict=True)
            for pipeline in pipelines
            if _speaks_alone(uses.signals.get((pipeline, side), []), signals[pipeline, side].how[row.role.name])
        )
    return found


def _speaks_alone(signals: list[tuple[tree.Signal | tree.Release, Participation]], kinds: tuple[Completion, ...]) -> bool:
    if not _BY_ONE_THREAD.issuperset(kinds):
        return False
    if "tma" in kinds:  # announced where the stage is obtained
        return True
    return any(
        participation.threads != "one"
        for operation, participation in signals
        if isinstance(operation, tree.Signal) or operation.signals
    )


def _kinds(uses: _Uses, pipeline: Pipeline, side: Side, reach: Reach) -> list[Completion]:
    """The use of a stage determines how a role signals it; an explicit signal in the source takes precedence.

    For writes of a pair's threads for the leader, and reads of its products, the signal goes to another CTA: the threads synchronise,
    and one arrives for all. Otherwise each arrival would be a message between CTAs, 256 for an accumulator, with release semantics at
    cluster scope after writes.
    """
    # A set: the check of signals has rejected roles that signal stages of one pipeline in two ways.
    explicit: set[SignalKind] = {
        operation.how
        for operation, _ in uses.signals.get((pipeline, side), ())
        if isinstance(operation, tree.Signal) and operation.how != "own"
    }
    found = sorted((uses.fills if side == "producer" else uses.drains).get(pipeline, ()), key=_ORDER.index)
    # The loads keep the arrival that announces their bytes; the threads' arrivals are added.
    if "tma" in found and "arrive" in explicit:
        return ["tma", "threads"]
    if explicit:
        return [_COMPLETED_BY[how] for how in sorted(explicit)]
    kinds: list[Completion] = found or ["threads"]
    if kinds == ["threads"] and reach.to == LEADER and _participation(uses, (pipeline, side)).threads == "all":
        return ["met"]
    return kinds


def _count(row: RolePlan, uses: _Uses, stage: _Stage, kind: Completion) -> int:
    if kind == "warps":
        return row.role.warps
    if kind == "copies":
        return row.threads
    # Bytes, a commit, a completed store and a synchronised role signal once, whichever thread did the work.
    if kind != "threads":
        return 1
    if row.single_thread:
        return 1
    return _arriving(_participation(uses, stage), row.role.warps)


def _senders(role: Role, kind: Completion, reach: Reach) -> int:
    """The number of CTAs whose signals a barrier counts. The leader alone announces the bytes of both CTAs of a pair."""
    if reach.to == FIRST and role.leader:
        return reach.senders // 2
    return 1 if kind == "tma" else reach.senders


def _arriving(participation: Participation, warps: int) -> int:
    """Each thread for itself: that costs no more than one lane for its warp (hardware.md 1)."""
    match participation.threads:
        case "one":
            return 1
        case "some":
            return len(participation.chosen or ())
        case _:
            return warps * WARP


def _participation(uses: _Uses, stage: _Stage) -> Participation:
    """The participation of the signal: that of an explicit arrive, else that of the first release."""
    signals = uses.signals.get(stage, ())
    arrives = (who for operation, who in signals if isinstance(operation, tree.Signal) and operation.how in ("arrive", "own"))
    releases = (who for operation, who in signals if isinstance(operation, tree.Release))
    return next(arrives, None) or next(releases, None) or Participation("all")


def _announced(kernel: Kernel, expected: Mapping[Handle, int]) -> dict[Pipeline, int]:
    """The bytes of one use of a pipeline's full barriers.

    Handles of one role may expect different numbers of them; a barrier's description has only one, and the largest decides whether the
    tx-count can hold it. Several producers each announce their own.
    """
    found: dict[Pipeline, int] = {}
    for role in kernel.roles:
        most: dict[Pipeline, int] = {}
        for handle in [one.handle for one in operations(role) if isinstance(one, tree.Acquire | tree.RequestTile)]:
            most[handle.pipeline] = max(expected.get(handle, 0), most.get(handle.pipeline, 0))
        for pipeline, count in most.items():
            found[pipeline] = found.get(pipeline, 0) + count
    return found


def expected_bytes(kernel: Kernel, sharing: Mapping[Pipeline, Sharing]) -> dict[Handle, int]:
    """Per producer handle, the bytes of the loads between acquire and release: the maximum over all paths.

    If the barrier is the leader's, it counts the bytes of both CTAs of the pair. A multicast delivers the whole tile to every CTA.
    """
    expected: dict[Handle, int] = {}
    for role in kernel.roles:
        # Dictionaries preserve order: the plan must not depend on hashes of objects.
        loaded: dict[Handle, dict[int, int]] = {}  # bytes by block
        acquired: dict[Handle, int] = {}
        for number, block in enumerate(role.blocks):
            for operation in block.operations:
                match operation:
                    case tree.Acquire(handle):
                        acquired.setdefault(handle, number)
                    case tree.TmaLoad(destination):
                        blocks = loaded.setdefault(destination.handle, {})
                        blocks[number] = blocks.get(number, 0) + loaded_bytes(destination)
                    case tree.RequestTile(handle):
                        expected[handle] = RESPONSE_BYTES
                    case _:
                        pass
        for handle, blocks in loaded.items():
            expected[handle] = _most_bytes(role, blocks, acquired.get(handle, 0)) * sharing[handle.pipeline].producer.senders
    return expected


def _most_bytes(role: Role, loaded: Mapping[int, int], acquired: int) -> int:
    """The heaviest path from the acquire on, without back edges; a load in an inner loop counts once per (constant) iteration."""
    heaviest: dict[int, int] = {}
    # The barrier expects the same number on every path; a check rejects kernels in which a path delivers fewer bytes.
    for number in range(max(loaded), acquired - 1, -1):
        # Blocks are numbered so that forward edges go up; see pipec.kir.build.
        after = [heaviest.get(next_, 0) for next_ in successors(role.blocks[number].terminator) if next_ > number]
        own = loaded[number] * _trips(role, number, acquired) if number in loaded else 0
        heaviest[number] = own + max(after, default=0)
    return heaviest[acquired]


def tile_bytes(buffer: Buffer) -> int:
    """The bytes that loading the whole tile completes on its barrier: the box bytes, without padding (hardware.md 2.4)."""
    return buffer.rows * buffer.columns * buffer.dtype.bits // 8


def loaded_bytes(tile: BufferRef) -> int:
    """The same of a load of some of its rows."""
    return tile_bytes(tile.buffer) // tile.buffer.rows * tile.rows


def _trips(role: Role, block: int, acquired: int) -> int:
    trips = 1
    for loop in role.loops:
        if block not in loop.blocks or acquired in loop.blocks:
            continue
        if isinstance(loop.start, tree.Constant) and isinstance(loop.stop, tree.Constant) and loop.step:
            trips *= len(range(int(loop.start.value), int(loop.stop.value), loop.step))
    return trips
