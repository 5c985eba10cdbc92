"""Signals that leave the CTA: which CTAs they go to, at run time, and the arrivals there (see pipec.kir.clusters)."""

from collections.abc import Iterator

from pipec.kir.clusters import EVERY, FIRST, LEADER, PAIR, Line, Reach
from pipec.lower.context import RoleContext
from pipec.lower.emit.value import TRUE, Value, integer
from pipec.sema import tree
from pipec.vocabulary import SIDES, Side

_WRITTEN_BY_THREADS = frozenset(("threads", "met"))
_OWN_BARRIER_OF_LEADER = (
    0xFEFFFFFF  # without the last bit of the CTA's rank in an address of the cluster's window (hardware.md 5.1)
)


def start(role: RoleContext) -> None:
    """Computes the masks of CTAs that the role's commits and arrivals go to, once."""
    for side, pipelines in zip(SIDES, (role.plan.role.produces, role.plan.role.consumes), strict=True):
        for pipeline in pipelines:
            reach = reach_of(role, pipeline, side)
            if reach.lines or reach.to in (PAIR, EVERY):
                role.masks[pipeline, side] = _mask(role, reach)


def reach_of(role: RoleContext, pipeline: tree.Pipeline, side: Side) -> Reach:
    return role.kernel.plan.sharing[pipeline].of(side)


def try_wait(role: RoleContext, pipeline: tree.Pipeline, pointer: Value, parity: Value, limit: Value | None = None) -> Value:
    """One look at a barrier, for at most `limit` nanoseconds."""
    name = "mbarrier.try_wait.parity" if limit is None else "mbarrier.try_wait.parity.limit"
    return role.builder.call(f"{name}{_scope(role, pipeline)}", pointer, parity, *([] if limit is None else [limit]))


def _scope(role: RoleContext, pipeline: tree.Pipeline) -> str:
    """Whether somebody reads what threads of other CTAs wrote: then signals order memory across the cluster, at the cost of a fence of all
    memory. Tiles that TMA brings and MMAs read are ordered by the barrier itself, in every CTA, and tensor memory by tcgen05 fences."""
    plan = role.kernel.plan
    told = any(fill.pipeline is pipeline and fill.flag_offset is not None for fill in plan.zero_fills.values())
    sharing = plan.sharing[pipeline]
    filled = (kind for how in plan.signals[pipeline, "producer"].how.values() for kind in how)
    written = (
        not sharing.producer.local and any(kind in _WRITTEN_BY_THREADS for kind in filled) and pipeline not in plan.tensor_only
    )
    return ".cluster" if pipeline.scope == "cluster" or written or (told and not sharing.local) else ""


def rank(role: RoleContext) -> Value:
    """Of this CTA in its cluster."""
    return role.builder.call("cta.rank")


def leader_rank(role: RoleContext) -> Value:
    """Of the leader of this CTA's pair: the even one of the ranks 2i and 2i + 1."""
    return role.builder.bits("and", rank(role), -2)


def leads(role: RoleContext) -> Value:
    """Whether this CTA is the leader of its pair."""
    return role.builder.compare("eq", role.builder.bits("and", rank(role), 1), integer(0))


def others_ask(role: RoleContext, pipeline: tree.Pipeline) -> Value | None:
    """Whether a CTA of the cluster other than this one asks for the answers of a tile scheduler; None where each asks for itself."""
    if reach_of(role, pipeline, "consumer").to != FIRST:
        return None
    return role.builder.compare("ne", rank(role), integer(0))


def in_leader(role: RoleContext, pointer: Value) -> Value:
    """The same place in the leader of this CTA's pair."""
    address = role.builder.cast("ptrtoint", pointer, "i32")
    return role.builder.shared_pointer(role.builder.bits("and", address, _OWN_BARRIER_OF_LEADER - (1 << 32)))


def line_mask(role: RoleContext, line: Line, members: int) -> Value:
    """The line through this CTA, `members` bits wide at each place (i32)."""
    builder = role.builder
    place = line_coordinate(role, line)
    # The first CTA of the line through this one: its rank less the steps to it. The line's own bits then follow from there.
    first = builder.binary("sub", rank(role), builder.multiply(place, line.stride))
    base = line.base if members == 1 else line.base | line.base << 1
    return builder.binary("shl", integer(base), first)


def line_coordinate(role: RoleContext, line: Line) -> Value:
    place = role.builder.call(f"cta.{line.axis}")
    paired = line.axis == "x" and line.stride == 2
    return role.builder.bits("lshr", place, 1) if paired else place


def _mask(role: RoleContext, reach: Reach) -> Value:
    """One bit for each CTA that the signals go to (i32)."""
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
    """Signals when the MMAs before are complete."""
    builder, group = role.builder, role.kernel.plan.cta_group
    mask = role.masks.get((handle.pipeline, handle.side))
    if mask is None:
        builder.call(f"tcgen05.commit.cg{group}", pointer)
    else:
        # One instruction arrives in all CTAs of the mask, at the same place in each, which
        # is why barriers lie alike in every CTA.
        builder.call(f"tcgen05.commit.multicast.cg{group}", pointer, builder.cast("trunc", mask, "i16"))


def arrive(role: RoleContext, handle: tree.Handle, pointer: Value) -> None:
    """The calling thread arrives wherever the handle's signal goes."""
    builder, reach = role.builder, reach_of(role, handle.pipeline, handle.side)
    if reach.local:
        builder.call("mbarrier.arrive", pointer, integer(1))
        return
    scope, targets = _scope(role, handle.pipeline), list(_targets(role, handle, reach))
    if scope and len(targets) > 1:
        # A release to the cluster is a fence of all memory, and so many one after the other in each thread.
        builder.call("fence.cluster")
        scope = ".relaxed"
    for target, reached in targets:
        builder.call(f"mbarrier.arrive.remote{scope}.if", pointer, target, reached)


def tell(role: RoleContext, handle: tree.Handle, pointer: Value, word: Value) -> None:
    """Writes a word of shared memory wherever the handle's signal goes; an arrival there publishes it."""
    reach = reach_of(role, handle.pipeline, handle.side)
    if reach.local:
        role.builder.store(word, pointer, 4)
        return
    for target, reached in _targets(role, handle, reach):
        role.builder.call("store.remote.if", pointer, target, word, reached)


def arrive_per_warp(role: RoleContext, pipeline: tree.Pipeline, side: Side, pointer: Value, when: Value | None = None) -> None:
    """One lane of each warp arrives, at each place the side's signal goes to; without a branch, so that the warp stays together."""
    builder, reach = role.builder, reach_of(role, pipeline, side)
    mask = role.masks.get((pipeline, side))
    if mask is None:
        # A predicate in place of a branch: lanes that part would have to be brought together before the next wgmma.
        chosen = builder.compare("eq", role.lane, integer(0))
        chosen = chosen if when is None else builder.binary("and", when, chosen)
        if reach.to == LEADER:
            builder.call(f"mbarrier.arrive.remote{_scope(role, pipeline)}.if", pointer, leader_rank(role), chosen)
        else:
            builder.call("mbarrier.arrive.if", pointer, chosen)
        return
    # The lane with a CTA's rank arrives there.
    chosen = builder.compare("ne", builder.bits("and", builder.binary("lshr", mask, role.lane), 1), integer(0))
    chosen = builder.binary("and", chosen, builder.compare("ult", role.lane, integer(role.kernel.plan.kernel.cluster.size)))
    chosen = chosen if when is None else builder.binary("and", when, chosen)
    builder.call(f"mbarrier.arrive.remote{_scope(role, pipeline)}.if", pointer, role.lane, chosen)


def _targets(role: RoleContext, handle: tree.Handle, reach: Reach) -> Iterator[tuple[Value, Value]]:
    """Rank of each CTA the signal may go to, and whether it does."""
    builder = role.builder
    if reach.to == LEADER:
        yield leader_rank(role), TRUE
        return
    if reach.to == FIRST:
        yield integer(0), TRUE
        return
    mask = role.masks[handle.pipeline, handle.side]
    # Written out, not looped over: at most eight CTAs, and predicated arrivals keep the warp together.
    for number in range(role.kernel.plan.kernel.cluster.size):
        if reach.to == EVERY:
            yield integer(number), TRUE
        else:
            yield integer(number), builder.compare("ne", builder.bits("and", mask, 1 << number), integer(0))
