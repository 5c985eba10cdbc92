"""Which CTAs of a cluster a pipeline's signals reach.

Three things spread a pipeline over CTAs. With `cta_group` 2 the two CTAs of a pair share it: a role that runs only on the leader keeps
the barriers of its side for both. A multicast load along an axis writes into every CTA of that line, so a stage is free once all of them
have released it. With scope "cluster" every CTA receives the signals of all. A tile scheduler's responses are requested by the first CTA
and sent to all: each CTA waits for its own copy and releases it to the first.
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
    """The CTAs that differ along one axis only. For the CTA of rank r with coordinate c on the line, these are the `count` ranks whose
    bits are set in `base << (r - c * stride)`. With pairs along x, a line joins CTAs of the same parity."""

    axis: Axis
    stride: int
    count: int
    base: int

    def coordinate(self, place: tuple[int, int, int]) -> int:
        index = place[AXES.index(self.axis)]
        return index // 2 if self.axis == "x" and self.stride == 2 else index


def line(cluster: Cluster, axis: Axis, group: int) -> Line | None:
    """The lines along an axis; None if each consists of one CTA."""
    x, y, z = cluster.shape
    stride, count = {"x": (1, x), "y": (x, y), "z": (x * y, z)}[axis]
    if axis == "x" and group == 2:
        # The two CTAs of a pair load different halves of a tile, so every other CTA shares a half.
        stride, count = 2, x // 2
    return Line(axis, stride, count, sum(1 << index * stride for index in range(count))) if count > 1 else None


def mask(line_: Line, cluster: Cluster, rank: int) -> int:
    """The line through the CTA of that rank, as a mask with one bit per rank."""
    return line_.base << rank - line_.coordinate(cluster.places()[rank]) * line_.stride


@record
class Reach:
    """The destinations of the signals of one side of a pipeline.

    `to`: the "own" CTA, the "leader" of the pair, both of the "pair", "every" CTA of the cluster or its "first"; `lines`: likewise in
    each CTA along these. `senders`: the number of CTAs that signal one barrier, a factor on the arrivals of one CTA's roles.
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
    """How the CTAs of a cluster share one pipeline: the reach of the signals of both sides."""

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
    """The sharing of every pipeline; `loads` are all loads of the kernel."""
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
    # One request obtains a tile for a whole cluster (hardware.md 6), so only one CTA may issue it.
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
    """The destination of a signal, and the number of CTAs of the pair that send it."""
    if to_leader:
        return (OWN, 1) if from_leader else (LEADER, 2)
    return (PAIR, 1) if from_leader else (OWN, 1)
