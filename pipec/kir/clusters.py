"""Which CTAs of a cluster a pipeline's signals reach.

Three things spread a pipeline over CTAs. With `cta_group` 2 the two CTAs of a pair share it: a role on the leader alone keeps the
barriers of its side for both. A load by multicast along an axis writes into every CTA of that line, so a stage is free when all of
them have given it back. With scope "cluster" every CTA hears from every other. A tile scheduler's answers are asked for by the first
CTA and come to all of them: each answer is awaited in its own CTA and given back to the first.
"""

from collections.abc import Iterable
from typing import Final, Literal

from pipec.isa.specials import AXES
from pipec.kir import ir
from pipec.record import record
from pipec.sema import tree
from pipec.sema.language.operation import SCHEDULER
from pipec.sema.tree import Cluster, Pipeline
from pipec.vocabulary import Axis, Side

Destination = Literal["own", "leader", "pair", "every", "first"]
OWN: Final = "own"
LEADER: Final = "leader"
PAIR: Final = "pair"
EVERY: Final = "every"
FIRST: Final = "first"


@record
class Line:
    """The CTAs that differ along one axis only: of the CTA of rank r with coordinate c on the line, the ranks whose bits are set in
    `base << (r - c * stride)`; `count` of them. With pairs along x the line joins CTAs of one parity."""

    axis: Axis
    stride: int
    count: int
    base: int

    def coordinate(self, place: tuple[int, int, int]) -> int:
        index = place[AXES.index(self.axis)]
        return index // 2 if self.axis == "x" and self.stride == 2 else index


def line(cluster: Cluster, axis: Axis, group: int) -> Line | None:
    """The lines along an axis; None where each is one CTA."""
    x, y, z = cluster.shape
    stride, count = {"x": (1, x), "y": (x, y), "z": (x * y, z)}[axis]
    if axis == "x" and group == 2:
        # The two CTAs of a pair load different halves of a tile, so those that share a half are every other one.
        stride, count = 2, x // 2
    return Line(axis, stride, count, sum(1 << index * stride for index in range(count))) if count > 1 else None


def mask(line_: Line, cluster: Cluster, rank: int) -> int:
    """The line through the CTA of that rank, one bit for each rank."""
    return line_.base << rank - line_.coordinate(cluster.places()[rank]) * line_.stride


@record
class Reach:
    """Where the signals of a side go, of one pipeline.

    `to`: "own" CTA, the "leader" of the pair, both of the "pair", "every" CTA of the cluster or its "first"; `lines`: and in the same
    way along these. `senders`: how many CTAs' signals one barrier hears, that many times the arrivals of one CTA's roles.
    """

    to: Destination
    lines: tuple[Line, ...]
    senders: int

    @property
    def local(self) -> bool:
        return self.to == OWN and not self.lines


LOCAL = Reach(OWN, (), 1)


@record
class Sharing:
    """How the CTAs of a cluster share one pipeline: the reach of either side's signals."""

    producer: Reach
    consumer: Reach

    @property
    def local(self) -> bool:
        return self.producer.local and self.consumer.local

    def of(self, side: Side) -> Reach:
        return self.producer if side == "producer" else self.consumer


def sharing(
    cluster: Cluster, pipelines: Iterable[Pipeline], roles: Iterable[ir.Role | tree.Role], loads: Iterable[tree.TmaLoad]
) -> dict[Pipeline, Sharing]:
    """Of every pipeline; `loads` are all loads of the kernel."""
    roles = tuple(roles)
    axes: dict[Pipeline, dict[Axis, None]] = {}
    for load in loads:
        if load.multicast is not None:
            axes.setdefault(load.destination.handle.pipeline, {})[load.multicast] = None
    return {pipeline: _sharing(cluster, pipeline, roles, tuple(axes.get(pipeline, ()))) for pipeline in pipelines}


def kernel_sharing(kernel: ir.Kernel) -> dict[Pipeline, Sharing]:
    loads = (
        operation
        for role in kernel.roles
        for block in role.blocks
        for operation in block.operations
        if isinstance(operation, tree.TmaLoad)
    )
    return sharing(kernel.cluster, kernel.pipelines, kernel.roles, loads)


def _sharing(cluster: Cluster, pipeline: Pipeline, roles: tuple[ir.Role | tree.Role, ...], axes: tuple[Axis, ...]) -> Sharing:
    lines = tuple(one for axis in axes if (one := line(cluster, axis, pipeline.cta_group)) is not None)
    # The lines cross in this CTA, which counts once.
    together = 1 + sum(one.count - 1 for one in lines)
    # One request hands out a tile to a cluster as a whole (hardware.md 6), so only one CTA may make it.
    if pipeline.kind == SCHEDULER and cluster.size > 1:
        return Sharing(LOCAL, Reach(FIRST, (), cluster.size))
    if pipeline.scope == "cluster":
        return Sharing(Reach(EVERY, (), cluster.size), Reach(EVERY, (), cluster.size))
    if pipeline.cta_group == 1:
        return Sharing(LOCAL, Reach(OWN, lines, together))
    produced_by_leader = any(role.leader for role in roles if pipeline in role.produces)
    consumed_by_leader = any(role.leader for role in roles if pipeline in role.consumes)
    producer, consumer = (
        _in_pair(produced_by_leader, consumed_by_leader),
        _in_pair(consumed_by_leader, produced_by_leader),
    )
    return Sharing(Reach(producer[0], (), producer[1]), Reach(consumer[0], lines, consumer[1] * together))


def _in_pair(from_leader: bool, to_leader: bool) -> tuple[Destination, int]:
    """Where a signal goes, and how many CTAs of the pair send it."""
    if to_leader:
        return (OWN, 1) if from_leader else (LEADER, 2)
    return (PAIR, 1) if from_leader else (OWN, 1)
