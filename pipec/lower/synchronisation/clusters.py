"""Signals to other CTAs: computes the destinations at run time, and arrives there (see pipec.kir.clusters)."""

from collections.abc import Iterator
from math import prod

from pipec.isa.specials import AXES, family_and_axis
from pipec.kir.clusters import EVERY, FIRST, LEADER, PAIR, Line, Reach
from pipec.lower.context import RoleContext
from pipec.lower.emit.value import TRUE, Value, integer
from pipec.sema import tree
from pipec.vocabulary import SIDES, Side

_WRITTEN_BY_THREADS = frozenset(("threads", "met"))
_OWN_BARRIER_OF_LEADER = (
    0xFEFFFFFF  # clears the lowest bit of the CTA's rank in an address of the cluster window (hardware.md 5.1)
)


def start(role: RoleContext) -> None:
    """Computes the CTA masks of the role's commits and arrivals, once."""
    for side, pipelines in zip(SIDES, (role.plan.role.produces, role.plan.role.consumes), strict=True):
        for pipeline in pipelines:
            reach = reach_of(role, pipeline, side)
            if reach.lines or reach.to in (PAIR, EVERY):
                role.masks[pipeline, side] = _mask(role, reach)


def reach_of(role: RoleContext, pipeline: tree.Pipeline, side: Side) -> Reach:
    return role.kernel.plan.sharing[pipeline].of(side)


def try_wait(role: RoleContext, pipeline: tree.Pipeline, pointer: Value, parity: Value, limit: Value | None = None) -> Value:
    """One try_wait on a barrier, for at most `limit` nanoseconds."""
    name = "mbarrier.try_wait.parity" if limit is None else "mbarrier.try_wait.parity.limit"
    return role.builder.call(f"{name}{_scope(role, pipeline)}", pointer, parity, *([] if limit is None else [limit]))


def _scope(role: RoleContext, pipeline: tree.Pipeline) -> str:
    """Whether data written by threads of other CTAs is read: then signals need cluster scope, at the cost of a fence of all memory. For
    tiles filled by TMA and read by MMAs the barrier itself orders memory, in every CTA, and tcgen05 fences order tensor memory."""
    plan = role.kernel.plan
    told = any(fill.pipeline is pipeline and fill.flag_offset is not None for fill in plan.zero_fills.values())
    sharing = plan.sharing[pipeline]
    filled = (kind for how in plan.signals[pipeline, "producer"].how.values() for kind in how)
    written = (
        not sharing.producer.local and any(kind in _WRITTEN_BY_THREADS for kind in filled) and pipeline not in plan.tensor_only
    )
    return ".cluster" if pipeline.scope == "cluster" or written or (told and not sharing.local) else ""


def rank(role: RoleContext) -> Value:
    """The rank of this CTA in its cluster."""
    return role.builder.call("cta.rank")


def coordinate(role: RoleContext, axis: str) -> Value:
    """The coordinate of this CTA in its cluster: of its rank, in which x runs fastest. ptxas divides for `%cluster_ctaid`, in about 20
    instructions, as if the cluster's shape were not known."""
    shape = role.kernel.plan.kernel.cluster.shape
    number = AXES.index(axis)
    if shape[number] == 1:
        return integer(0)
    place = rank(role)
    if (inner := prod(shape[:number])) > 1:
        place = role.builder.bits("udiv", place, inner)
    return role.builder.bits("urem", place, shape[number]) if prod(shape[number + 1 :]) > 1 else place


def of_grid(role: RoleContext, name: str) -> Value:
    """`cluster.x`, the number of this cluster, or `clusters.x`, how many there are: of the block's number, or how many blocks there are, as
    a grid is made of whole clusters. ptxas computes `%clusterid` in floating point, and reads the size of the cluster for either."""
    family, axis = family_and_axis(name)
    blocks = role.builder.call(f"{'block' if family == 'cluster' else 'grid'}.{axis}")
    width = role.kernel.plan.kernel.cluster.shape[AXES.index(axis)]
    return blocks if width == 1 else role.builder.bits("udiv", blocks, width)


def leader_rank(role: RoleContext) -> Value:
    """The rank of the leader of this CTA's pair: the even one of the ranks 2i and 2i + 1."""
    return role.builder.bits("and", rank(role), -2)


def leads(role: RoleContext) -> Value:
    """Whether this CTA is the leader of its pair."""
    return role.builder.compare("eq", role.builder.bits("and", rank(role), 1), integer(0))


def others_ask(role: RoleContext, pipeline: tree.Pipeline) -> Value | None:
    """Whether another CTA of the cluster requests the responses of a tile scheduler; None if each requests its own."""
    if reach_of(role, pipeline, "consumer").to != FIRST:
        return None
    return role.builder.compare("ne", rank(role), integer(0))


def in_leader(role: RoleContext, pointer: Value) -> Value:
    """The same address in the leader of this CTA's pair."""
    address = role.builder.cast("ptrtoint", pointer, "i32")
    return role.builder.shared_pointer(role.builder.bits("and", address, _OWN_BARRIER_OF_LEADER - (1 << 32)))


def line_mask(role: RoleContext, line: Line, members: int) -> Value:
    """The mask of the line through this CTA, `members` bits at each position (i32)."""
    builder = role.builder
    place = line_coordinate(role, line)
    # The first CTA of the line through this one: its rank minus the steps to it. The line's bits follow from there.
    first = builder.binary("sub", rank(role), builder.multiply(place, line.stride))
    base = line.base if members == 1 else line.base | line.base << 1
    return builder.binary("shl", integer(base), first)


def line_coordinate(role: RoleContext, line: Line) -> Value:
    place = coordinate(role, line.axis)
    paired = line.axis == "x" and line.stride == 2
    return role.builder.bits("lshr", place, 1) if paired else place


def _mask(role: RoleContext, reach: Reach) -> Value:
    """The mask of the CTAs that receive the signals, one bit each (i32)."""
    builder = role.builder
    size, members = role.kernel.plan.kernel.cluster.size, 2 if reach.to == PAIR else 1
    if reach.to == EVERY or size == members:
        return integer((1 << size) - 1)
    if not reach.lines:
        return builder.binary("shl", integer(0b11), leader_rank(role))
    masks = [line_mask(role, line, members) for line in reach.lines]
    total = masks[0]
    for mask in masks[1:]:
        total = builder.binary("or", total, mask)
    return total


def commit(role: RoleContext, handle: tree.Handle, pointer: Value) -> None:
    """Signals when the preceding MMAs are complete."""
    builder, group = role.builder, role.kernel.plan.cta_group
    mask = role.masks.get((handle.pipeline, handle.side))
    if mask is None:
        builder.call(f"tcgen05.commit.cg{group}", pointer)
    else:
        # One instruction arrives in all CTAs of the mask, at the same offset in each, which is why barriers have the same layout in every
        # CTA.
        builder.call(f"tcgen05.commit.multicast.cg{group}", pointer, builder.cast("trunc", mask, "i16"))


def arrive(role: RoleContext, handle: tree.Handle, pointer: Value) -> None:
    """The calling thread arrives at each destination of the handle's signal."""
    builder, reach = role.builder, reach_of(role, handle.pipeline, handle.side)
    if reach.local:
        builder.call("mbarrier.arrive", pointer, integer(1))
        return
    scope, targets = _scope(role, handle.pipeline), list(_targets(role, handle, reach))
    if scope and len(targets) > 1:
        # A release at cluster scope is a fence of all memory, which each arrival of each thread would repeat.
        builder.call("fence.cluster")
        scope = ".relaxed"
    for target, reached in targets:
        builder.call(f"mbarrier.arrive.remote{scope}.if", pointer, target, reached)


def tell(role: RoleContext, handle: tree.Handle, pointer: Value, word: Value) -> None:
    """Writes a word of shared memory at each destination of the handle's signal; an arrival there publishes it."""
    reach = reach_of(role, handle.pipeline, handle.side)
    if reach.local:
        role.builder.store(word, pointer, 4)
        return
    for target, reached in _targets(role, handle, reach):
        role.builder.call("store.remote.if", pointer, target, word, reached)


def arrive_per_warp(role: RoleContext, pipeline: tree.Pipeline, side: Side, pointer: Value, when: Value | None = None) -> None:
    """One lane of each warp arrives at each destination of the side's signal; branch-free, so that the warp does not diverge."""
    builder, reach = role.builder, reach_of(role, pipeline, side)
    mask = role.masks.get((pipeline, side))
    if mask is None:
        # A predicate instead of a branch: diverged lanes would have to reconverge before the next wgmma.
        chosen = builder.compare("eq", role.lane, integer(0))
        chosen = chosen if when is None else builder.binary("and", when, chosen)
        if reach.to == LEADER:
            builder.call(f"mbarrier.arrive.remote{_scope(role, pipeline)}.if", pointer, leader_rank(role), chosen)
        else:
            builder.call("mbarrier.arrive.if", pointer, chosen)
        return
    # The lane whose number is a CTA's rank arrives there.
    chosen = builder.compare("ne", builder.bits("and", builder.binary("lshr", mask, role.lane), 1), integer(0))
    chosen = builder.binary("and", chosen, builder.compare("ult", role.lane, integer(role.kernel.plan.kernel.cluster.size)))
    chosen = chosen if when is None else builder.binary("and", when, chosen)
    builder.call(f"mbarrier.arrive.remote{_scope(role, pipeline)}.if", pointer, role.lane, chosen)


def _targets(role: RoleContext, handle: tree.Handle, reach: Reach) -> Iterator[tuple[Value, Value]]:
    """The rank of each CTA to which the signal may go, and whether it does."""
    builder = role.builder
    if reach.to == LEADER:
        yield leader_rank(role), TRUE
        return
    if reach.to == FIRST:
        yield integer(0), TRUE
        return
    mask = role.masks[handle.pipeline, handle.side]
    # Unrolled: at most eight CTAs, and predicated arrivals keep the warp converged.
    for number in range(role.kernel.plan.kernel.cluster.size):
        if reach.to == EVERY:
            yield integer(number), TRUE
        else:
            yield integer(number), builder.compare("ne", builder.bits("and", mask, 1 << number), integer(0))
