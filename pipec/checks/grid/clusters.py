"""The CTAs of a cluster: roles on the leader of a pair, multicast loads, and uniform control flow (E045x, E053x, E0603).

The deadlock-freedom proof (pipec.protocol) represents CTAs with the same behaviour by one. That is sound if all CTAs of a cluster
perform the same operations on the pipelines they share, wherever they are in the grid.
"""

from collections.abc import Iterator, Sequence
from math import gcd

from pipec.diag.catalogue.grid import clusters as messages
from pipec.diag.message import Sink
from pipec.isa.specials import AXES, family_and_axis
from pipec.kir.clusters import Sharing, line, mask, sharing
from pipec.kir.statements import statements
from pipec.kir.values.analysis import Values
from pipec.kir.values.sameness import of_ctas
from pipec.kir.walk import nodes, subexpressions
from pipec.sema import tree
from pipec.sema.language.operation import SCHEDULER
from pipec.source import Span
from pipec.vocabulary import DRAINING, Axis

_PLACE = 128  # alignment of a copy in bytes; swizzles depend on addresses (hardware.md 2.2, 2.3)


def check(kernel: tree.Kernel, values: Sequence[Values], sink: Sink) -> None:
    """`values`: those of each role."""
    paired = _shape(kernel, sink)
    loads = [load for role in kernel.roles for load in _loads(role.body)]
    for load in loads:
        _multicast(kernel, load, sink)
    if paired:
        _leaders(kernel, sink)
    # Who shares what is derived from the cluster's shape, which must be valid for that.
    if sink.failed:
        return
    shared_by = sharing(kernel.cluster, kernel.pipelines, kernel.roles, loads)
    for role, own in zip(kernel.roles, values, strict=True):
        _Walk(kernel, role, own, shared_by, sink).statements(role.body, None)


def _loads(body: tuple[tree.Statement, ...]) -> Iterator[tree.TmaLoad]:
    return (statement for statement in statements(body) if isinstance(statement, tree.TmaLoad))


def _shape(kernel: tree.Kernel, sink: Sink) -> bool:
    """Whether the cluster can be divided into pairs, if there are any."""
    cluster = kernel.cluster
    width, height, depth = cluster.shape
    for axis, blocks, extent in zip(AXES, kernel.grid, cluster.shape, strict=True):
        # A grid known only at launch is checked there.
        if isinstance(blocks, tree.Constant) and int(blocks.value) % extent:
            sink.report(
                messages.GridOfClusters(blocks=int(blocks.value), axis=axis, extent=extent, at=blocks.span, cluster=cluster.span)
            )
    for pipeline in kernel.pipelines:
        if pipeline.cta_group == 2 and width % 2:
            sink.report(
                messages.PairCluster(
                    pipeline=pipeline.name,
                    width=width,
                    even=width + 1,
                    height=height,
                    depth=depth,
                    at=pipeline.span,
                    cluster=cluster.span,
                )
            )
            # Pairs are the ranks 2i and 2i + 1, neighbours along x: an odd width would split one.
            return False
    return True


# ---------------------------------------------------------------------------------------------------------------- pairs


def _leaders(kernel: tree.Kernel, sink: Sink) -> None:
    for role in kernel.roles:
        if role.leader and kernel.cluster.shape[0] % 2:
            sink.report(
                messages.LeaderOfNothing(role=role.name, width=kernel.cluster.shape[0], at=role.span, cluster=kernel.cluster.span)
            )
        for pipeline in dict.fromkeys((*role.produces, *role.consumes)):
            if role.leader and pipeline.cta_group == 1 and pipeline.kind != SCHEDULER:
                fix = (
                    "let the role run in both CTAs"
                    if pipeline.scope == "cluster"
                    else f"declare `{pipeline.name}` with `cta_group=2`"
                )
                sink.report(
                    messages.LeaderAlone(role=role.name, pipeline=pipeline.name, fix=fix, at=role.span, declared=pipeline.span)
                )
    _one_group(kernel, sink)
    _halves(kernel, sink)
    for pipeline in kernel.pipelines:
        if pipeline.cta_group == 2 and pipeline.scope == "cluster":
            sink.report(messages.ClusterOfPairs(pipeline=pipeline.name, at=pipeline.span))
        if pipeline.cta_group == 2:
            for side in ("produces", "consumes"):
                _one_place(pipeline, [role for role in kernel.roles if pipeline in getattr(role, side)], sink)


def _one_place(pipeline: tree.Pipeline, roles: list[tree.Role], sink: Sink) -> None:
    where = {True: "the leader", False: "both CTAs"}
    for role in roles[1:]:
        if role.leader != roles[0].leader:
            sink.report(
                messages.SideInBoth(
                    one=role.name,
                    other=roles[0].name,
                    pipeline=pipeline.name,
                    where=where[role.leader],
                    first_where=where[roles[0].leader],
                    at=role.span,
                    first=roles[0].span,
                )
            )


def _one_group(kernel: tree.Kernel, sink: Sink) -> None:
    """All MMAs use the same number of CTAs, and the leader issues the MMAs of a pair."""
    first: tree.Pipeline | None = None
    told: set[tree.Pipeline | tree.Role] = set()
    for role in kernel.roles:
        for mma in (statement for statement in statements(role.body) if isinstance(statement, tree.Mma)):
            if mma.accumulator.handle.pipeline.cta_group == 2 and not role.leader and role not in told:
                told.add(role)
                sink.report(messages.NeedsLeader(role=role.name, at=mma.span, role_at=role.span))
            for pipeline in (operand.handle.pipeline for operand in (mma.accumulator, mma.a, mma.b)):
                first = first or pipeline
                if pipeline.cta_group != first.cta_group and pipeline not in told:
                    told.add(pipeline)
                    sink.report(
                        messages.MixedGroups(
                            one=pipeline.name,
                            other=first.name,
                            group=pipeline.cta_group,
                            first_group=first.cta_group,
                            most=2,
                            at=pipeline.span,
                            first=first.span,
                        )
                    )


def _halves(kernel: tree.Kernel, sink: Sink) -> None:
    """The roles that fill the operands of a pair's MMA or read its accumulator must run in both CTAs, and those that fill what is read in
    both."""
    mmas = [mma for role in kernel.roles for mma in statements(role.body) if isinstance(mma, tree.Mma)]
    paired = [mma for mma in mmas if mma.accumulator.handle.pipeline.cta_group == 2]
    # Each CTA of a pair loads its own half of the operands and stores its own half of the rows (hardware.md 3.6).
    operands_ = {operand.buffer for mma in paired for operand in (mma.a, mma.b, *mma.scales)}
    sums = {mma.accumulator.buffer for mma in paired}
    elsewhere = {buffer for role in kernel.roles if not role.leader for buffer in _read(role)} - operands_ - sums
    for role in (role for role in kernel.roles if role.leader):
        half = next(_reached(role, operands_ | elsewhere, sums), None)
        if half is not None:
            tile, at, filled = half
            sink.report(
                messages.HalfOfPair(
                    role=role.name,
                    does="fills a tile" if filled else "reads an accumulator",
                    tile=tile.label,
                    consequence=_HALF["sums" if not filled else "operands" if tile in operands_ else "elsewhere"],
                    at=at,
                    role_at=role.span,
                )
            )


_HALF = {
    "operands": "the MMAs read what nobody wrote",
    "elsewhere": "a role that runs in both reads there what nobody wrote",
    "sums": "half of the rows are never read",
}


def _read(role: tree.Role) -> Iterator[tree.Buffer]:
    """The tiles of a pair that the role reads in its own CTA."""
    for statement in statements(role.body):
        if isinstance(statement, tree.Operation):
            read = [use.tile for use in statement.effects.uses if use.kind in DRAINING]
            read += [node.source for node in nodes(statement) if isinstance(node, tree.ReadBuffer)]
            yield from (tile.buffer for tile in read if tile.handle.pipeline.cta_group == 2)


def _reached(role: tree.Role, filled: set[tree.Buffer], read: set[tree.Buffer]) -> Iterator[tuple[tree.Buffer, Span, bool]]:
    for statement in statements(role.body):
        if not isinstance(statement, tree.Operation):
            continue
        for use in statement.effects.uses:
            if use.kind in ("load", "copy", "write") and use.tile.buffer in filled:
                yield use.tile.buffer, statement.span, True
        for node in nodes(statement):
            if isinstance(node, tree.ReadBuffer) and node.source.buffer in read:
                yield node.source.buffer, node.span, False


# ------------------------------------------------------------------------------------------------------------ multicast


def _multicast(kernel: tree.Kernel, load: tree.TmaLoad, sink: Sink) -> None:
    if load.multicast is None:
        return
    buffer, pipeline = load.destination.buffer, load.destination.handle.pipeline
    sharers = line(kernel.cluster, load.multicast, pipeline.cta_group)
    if sharers is None:
        return
    # Chunks of scale factors are copied to tensor memory whole, so CTAs cannot load parts of a tile.
    if buffer.dtype.is_scale:
        sink.report(messages.MulticastTile(tile=buffer.label, at=load.span))
        return
    # Each CTA loads some of the rows. Rows within a swizzle span are dense, and a span is a power of two of bytes.
    step = _PLACE // gcd(_PLACE, buffer.columns * buffer.dtype.bits // 8) * sharers.count
    if buffer.rows % step:
        sink.report(
            messages.MulticastRows(
                tile=buffer.label,
                rows=buffer.rows,
                ctas=sharers.count,
                part=f"{buffer.rows / sharers.count:g}",
                fitting=step * -(-buffer.rows // step),
                at=load.span,
                declared=buffer.span,
            )
        )


# ------------------------------------------------------------------------------------------------------- the way through


class _Walk:
    """Walks one role's body; carries the condition, or the bound of a loop, that makes control flow diverge between CTAs."""

    def __init__(
        self, kernel: tree.Kernel, role: tree.Role, values: Values, shared_by: dict[tree.Pipeline, Sharing], sink: Sink
    ) -> None:
        self._kernel, self._shared_by, self._sink = kernel, shared_by, sink
        self._ctas = of_ctas(values)
        self._runs_in = [rank for rank in range(kernel.cluster.size) if not role.leader or rank % 2 == 0]
        self._told: set[tree.Pipeline] = set()

    def statements(self, body: tuple[tree.Statement, ...], control: tree.Expression | None) -> None:
        for statement in body:
            self._statement(statement, control)

    def _statement(self, statement: tree.Statement, control: tree.Expression | None) -> None:
        self._ranks(statement)
        match statement:
            case tree.If():
                # The outermost cause: an inner branch on the same value would only repeat it.
                inner = control or self._differing(statement.condition)
                self.statements(statement.then, inner)
                self.statements(statement.otherwise, inner)
            case tree.For():
                inner = control or self._differing(statement.start) or self._differing(statement.stop)
                self.statements(statement.body, inner)
            case tree.While():
                self.statements(statement.body, control or self._differing(statement.condition))
            case tree.Elect():
                self.statements(statement.body, control)
            case tree.CopyAsync():
                self._copies(statement)
            case tree.TmaLoad() if statement.destination.handle.pipeline.scope == "cluster":
                pipeline = statement.destination.handle.pipeline
                self._sink.report(messages.LocalBytes(pipeline=pipeline.name, at=statement.span, declared=pipeline.span))
            case tree.TmaLoad():
                self._shared(statement.destination.handle.pipeline, statement.span, control)
                if statement.multicast is not None and control is None:
                    self._load(statement, statement.multicast)
            case tree.RequestTile():
                pass  # every CTA waits for the response; pipec.lower.synchronisation.clusters decides which one sends the request
            case tree.Operation() if statement.effects.hands_over is not None:
                handed = statement.effects.hands_over
                self._shared(handed if isinstance(handed, tree.Pipeline) else handed.pipeline, statement.span, control)
            case _:
                pass

    def _differing(self, expression: tree.Expression) -> tree.Expression | None:
        return expression if self._ctas.differs(expression, self._runs_in) else None

    def _shared(self, pipeline: tree.Pipeline, at: Span, control: tree.Expression | None) -> None:
        # A pipeline local to a CTA may be used by some CTAs only.
        if control is None or self._shared_by[pipeline].local or pipeline in self._told:
            return
        self._told.add(pipeline)
        advice = _common(control)
        self._sink.report(
            messages.ClusterDiverges(pipeline=pipeline.name, advice=advice, at=at, control=control.span, declared=pipeline.span)
        )

    def _ranks(self, statement: tree.Statement) -> None:
        size = self._kernel.cluster.size
        for node in nodes(statement) if isinstance(statement, tree.Operation) else ():
            rank = node.source.cta if isinstance(node, tree.ReadBuffer) else None
            if rank is None:
                continue
            seen = self._ctas.seen(rank)
            outside = next((term.number for term in seen if term.number is not None and not 0 <= term.number < size), None)
            if outside is not None:
                self._sink.report(messages.RankOutside(rank=outside, size=size, at=rank.span, cluster=self._kernel.cluster.span))
            elif not all(0 <= term.least and term.largest < size for term in seen):
                text = rank.span.text()
                self._sink.report(
                    messages.RankUnknown(rank=text, size=size, largest=size - 1, at=rank.span, cluster=self._kernel.cluster.span)
                )

    def _copies(self, copy: tree.CopyAsync) -> None:
        pipeline = copy.destination.handle.pipeline
        if not self._shared_by[pipeline].producer.local:
            self._sink.report(messages.RemoteCopies(pipeline=pipeline.name, at=copy.span, declared=pipeline.span))

    def _load(self, load: tree.TmaLoad, axis: Axis) -> None:
        cluster, group = self._kernel.cluster, load.destination.handle.pipeline.cta_group
        sharers = line(cluster, axis, group)
        if sharers is None:
            return
        for rank in range(cluster.size):
            # For every CTA, since each has its own line: two CTAs that load the same data do not help a third.
            derived = mask(sharers, cluster, rank)
            ranks = [other for other in range(cluster.size) if derived >> other & 1]
            for coordinate in load.source.coordinates:
                if self._ctas.differs(coordinate, ranks):
                    self._sink.report(messages.MulticastDiffers(axis=axis, at=coordinate.span, load=load.span))
                    return
        if load.mask is None:
            return
        for rank, term in enumerate(self._ctas.seen(load.mask)):
            derived, stated = mask(sharers, cluster, rank), term.number
            if stated != derived:
                self._sink.report(
                    messages.MulticastMask(
                        stated="not a number of the CTA's place alone" if stated is None else f"{stated:#b}",
                        derived=f"{derived:#b}",
                        rank=rank,
                        axis=axis,
                        at=load.mask.span,
                        load=load.span,
                    )
                )
                return


def _common(control: tree.Expression) -> str:
    """How the CTAs of a cluster come to take equally many stages, although they differ in the value of a condition or bound."""
    read = [*subexpressions(control)]
    places = {node.name for node in read if isinstance(node, tree.Special)}
    axes = [axis for axis in AXES if f"block.{axis}" in places]
    if axes:
        instead = " and ".join(
            f"`cluster.{axis}` and `clusters.{axis}` instead of `block.{axis}` and `grid.{axis}`" for axis in axes
        )
        return f"iterate over the work of the whole cluster: {instead}"
    if any(family_and_axis(name)[0] == "cta" for name in places):
        return "take each stage equally often in all CTAs: the place of a CTA in its cluster may decide only what it does with a stage"
    if any(isinstance(node, tree.ReadElement) for node in read):
        return "load the number from a tensor that the kernel does not write"
    return "compute it from what all CTAs of the cluster have in common: sizes, parameters, `cluster.x` and `clusters.x`"
