"""Clusters of CTAs: their size (E079x), roles on one CTA of a pair (E045x), what differs between CTAs (E053x, E0603)."""

from pipec.diag.message import Message, primary, remove_argument, secondary, set_keyword
from pipec.source import Span


class ClusterSize(Message):
    """A cluster is 1 to 8 CTAs, stated as compile-time numbers along x, y and z. Up to 8 run on every part that has clusters; more
    need a part and a launch that allow it, and fewer of them fit on the GPU at once."""

    code = "E0791"
    title = "a cluster of {shape} is {ctas} CTAs; it must be 1 to {most}"
    labels = (primary("at", "declared here"),)
    note = "the launch fails when no group of SMs can hold the cluster"
    shape: str
    ctas: int
    most: int
    at: Span


class PairCluster(Message):
    """With `cta_group=2` two CTAs with neighbouring ranks work as a pair: ranks 0 and 1, 2 and 3, and so on. The rank counts along x
    first, so the cluster must be a multiple of 2 wide."""

    code = "E0792"
    title = "pipeline `{pipeline}` works in pairs of CTAs, but the cluster is {width} wide"
    labels = (primary("at", "declared with `cta_group=2`"), secondary("cluster", "the cluster"))
    note = "the instructions of a pair address the CTA whose rank differs in the last bit: there is none, or it is in another row"
    help = "declare `cluster({even}, {height}, {depth})`"
    pipeline: str
    width: int
    even: int
    height: int
    depth: int
    at: Span
    cluster: Span | None


class GridOfClusters(Message):
    """The grid counts CTAs, and is launched in whole clusters: along each axis it must be a multiple of the cluster's extent.

    Divide what a cluster does first, then count its CTAs:

        cluster(2)
        grid(2 * ceildiv(M, 2 * BM), ceildiv(N, BN))
    """

    code = "E0793"
    title = "a grid of {blocks} CTAs along {axis} is not a whole number of clusters of {extent}"
    labels = (primary("at", "the grid"), secondary("cluster", "the cluster"))
    note = "the launch is refused"
    help = "round it up, for example `{extent} * ceildiv(..., {extent})`"
    blocks: int
    axis: str
    extent: int
    at: Span
    cluster: Span | None


class MulticastRows(Message):
    """In a multicast, each CTA loads an equal part of the tile's rows and sends it to all of them. A part starts at a multiple of 128
    bytes: any row where rows have 128 bytes, every other one where they have 64."""

    code = "E0794"
    title = "tile `{tile}` of {rows} rows cannot be divided among {ctas} CTAs"
    labels = (primary("at", "each of {ctas} CTAs would load {part} rows"), secondary("declared", "declared here"))
    note = "a copy stands at a multiple of 128 bytes in shared memory, so a part does as well"
    help = "use a tile of {fitting} rows"
    tile: str
    rows: int
    ctas: int
    part: str
    fitting: int
    at: Span
    declared: Span


class MulticastTile(Message):
    """A tile of scale factors is a few hundred bytes, already in the layout that tensor memory takes, and cannot be divided by rows as a
    multicast would. Each CTA loads its own.
    """

    code = "E0795"
    title = "tile `{tile}` of scale factors cannot be loaded by multicast"
    labels = (primary("at", "loaded by multicast here"),)
    note = "it is small: each CTA loads its own"
    help = "remove `multicast=...`"
    edits = (set_keyword("at", "multicast", ""),)
    tile: str
    at: Span


class MixedGroups(Message):
    """All tcgen05 instructions of a kernel use the same CTA group (PTX ISA 9.7.16): every MMA belongs either to one CTA or to a
    pair."""

    code = "E0796"
    title = "`{one}` and `{other}` multiply in different groups of CTAs"
    labels = (primary("at", "`cta_group={group}` here"), secondary("first", "`cta_group={first_group}` here"))
    note = "ptxas rejects a kernel with tcgen05 instructions of both kinds"
    help = "declare both with `cta_group={most}`"
    one: str
    other: str
    group: int
    first_group: int
    most: int
    at: Span
    first: Span


class NeedsLeader(Message):
    """An MMA of a pair of CTAs is issued once, by the leader (the CTA with the even rank), and uses the memory of both."""

    code = "E0451"
    title = "role `{role}` multiplies for a pair of CTAs but runs in both"
    labels = (primary("at", "one `mma` uses the tiles of both CTAs"), secondary("role_at", "this role runs in every CTA"))
    note = "each CTA would issue the whole product of the pair, so that every product is added twice"
    help = 'declare the role `on="leader"`'
    role: str
    at: Span
    role_at: Span


class LeaderAlone(Message):
    """A role that runs only on the leader can use pipelines of the pair, whose barriers are in the leader's CTA. In any other
    pipeline, the CTA without the role would have nobody on that side."""

    code = "E0452"
    title = "role `{role}` runs in the leader of each pair only, but `{pipeline}` is not a pipeline of the pair"
    labels = (primary("at", "the other CTA of the pair has no such role"), secondary("declared", "declared with `cta_group=1`"))
    note = "in the CTA without the role, the other side of `{pipeline}` waits for ever"
    help = "{fix}"
    role: str
    pipeline: str
    fix: str
    at: Span
    declared: Span


class ClusterOfPairs(Message):
    """A pipeline belongs to a pair of CTAs (`cta_group=2`), whose leader may keep its barriers, or to the whole cluster
    (`scope="cluster"`), where every CTA is signalled by every other."""

    code = "E0459"
    title = "`{pipeline}` is declared for a pair of CTAs and for the whole cluster"
    labels = (primary("at", '`cta_group=2` and `scope="cluster"`'),)
    note = "its barriers would count the signals of CTAs that do not run the role"
    help = "remove one of them"
    pipeline: str
    at: Span


class HalfOfPair(Message):
    """Both CTAs of a pair hold tiles of the pair's pipelines: halves of the operands, of the accumulator, and of what roles that run in
    both read there. A role on the leader alone reaches the leader's half only."""

    code = "E0460"
    title = "role `{role}` {does} in the leader only, but the other CTA of the pair holds half of it"
    labels = (primary("at", "the leader's half of `{tile}`"), secondary("role_at", "this role runs in the leader"))
    note = "{consequence}"
    help = 'leave `on="leader"` out: the role then runs in both CTAs'
    role: str
    does: str
    tile: str
    consequence: str
    at: Span
    role_at: Span


class RemoteOperand(Message):
    """With `.of(rank)`, the threads of a role read a tile of another CTA as values. Copies and MMAs take tiles of their own CTA (an
    MMA of a pair takes those of both)."""

    code = "E0461"
    title = "{what} cannot be the tile of another CTA"
    labels = (primary("at", "`.of(rank)` is read as values only"),)
    note = "a copy or an MMA of this CTA cannot address a tile of another one"
    help = "let the other CTA do it, or read the tile and write the values"
    what: str
    at: Span


class LeaderOfNothing(Message):
    """A role with `on="leader"` runs in the CTA of each pair that issues the pair's MMAs, so it needs pairs: a cluster
    whose width is even.
    """

    code = "E0453"
    title = "role `{role}` runs in the leader of each pair of CTAs, but the cluster is {width} wide"
    labels = (primary("at", "this role"), secondary("cluster", "the cluster"))
    note = "the leader is the CTA with the even rank of the ranks 2i and 2i + 1"
    help = "declare `cluster(2)`"
    role: str
    width: int
    at: Span
    cluster: Span | None


class SideInBoth(Message):
    """The roles of one side of a pipeline all run in both CTAs of the pair, or all in the leader: the barrier counts one or the other."""

    code = "E0454"
    title = "`{one}` and `{other}` are on the same side of `{pipeline}`, but run in different CTAs"
    labels = (primary("at", "this role runs in {where}"), secondary("first", "this one in {first_where}"))
    note = "all of them use one barrier, which is in one place"
    one: str
    other: str
    pipeline: str
    where: str
    first_where: str
    at: Span
    first: Span


class RemoteCopies(Message):
    """A pipeline whose stages go to another CTA of the cluster is filled by `cp.async`, whose completion signals a barrier of its
    own CTA only (PTX ISA 9.7.13.15, `cp.async.mbarrier.arrive`). The other CTA would wait for ever.
    """

    code = "E0455"
    title = "`{pipeline}` is filled by cp.async, which cannot signal another CTA"
    labels = (primary("at", "filled here"), secondary("declared", "its stages are handed to another CTA"))
    note = "the instruction that signals the completion of copies takes a barrier in the thread's own shared memory"
    help = "fill it with `tma.load`"
    pipeline: str
    at: Span
    declared: Span


class OwnTile(Message):
    """`tile.of(rank)` reads the tile of another CTA. That CTA must have filled it, and must not fill it again before it was read. A
    pipeline with `scope="cluster"` ensures both: its full barriers count the producers of every CTA, its empty barriers the consumers."""

    code = "E0456"
    title = "`{tile}` of another CTA cannot be used: {reason}"
    labels = (
        primary("at", "this needs a held stage of the whole cluster, in shared memory"),
        secondary("obtained", "held by this role"),
        secondary("declared", "declared here"),
    )
    note = "nothing ensures that the other CTA has filled its stage, or still holds it"
    help = "{fix}"
    tile: str
    reason: str
    fix: str
    at: Span
    declared: Span
    obtained: Span


class RankOutside(Message):
    """The CTAs of a cluster have the ranks 0 to size - 1."""

    code = "E0457"
    title = "there is no CTA of rank {rank} in a cluster of {size}"
    labels = (primary("at", "this rank"), secondary("cluster", "the cluster"))
    note = "the address would lie outside the cluster's memory: the kernel traps"
    rank: int
    size: int
    at: Span
    cluster: Span | None


class RankUnknown(Message):
    """The address of another CTA's tile is computed from its rank without a check. The compiler must be able to see that the rank lies
    in the cluster: an expression of `cta.rank`, numbers and variables of loops with constant bounds, or a remainder modulo the
    cluster size."""

    code = "E0462"
    title = "the rank of the CTA whose tile is read may lie outside the cluster"
    labels = (primary("at", "not known to be between 0 and {largest}"), secondary("cluster", "the cluster"))
    note = "the address would lie outside the cluster's memory: the kernel traps"
    help = "write `({rank}) % {size}`"
    rank: str
    size: int
    largest: int
    at: Span
    cluster: Span | None


class LocalBytes(Message):
    """The bytes of a TMA load complete a barrier of the CTA that they land in. A pipeline with `scope="cluster"` signals every CTA when a
    stage is full."""

    code = "E0458"
    title = "`{pipeline}` is shared by the cluster but filled by `tma.load`, whose bytes the other CTAs do not see"
    labels = (primary("at", "filled here"), secondary("declared", 'declared with `scope="cluster"`'))
    note = "the barriers of the other CTAs would wait for ever"
    help = "load into a pipeline of the CTA, with `multicast` if several CTAs need the tile; use `{pipeline}` for tiles that threads write"
    pipeline: str
    at: Span
    declared: Span


class MulticastDiffers(Message):
    """A multicast loads one tile into all CTAs in a line of the cluster, so the coordinates of the tile must be the same in all of them:
    computed from values that the CTAs of the line have in common."""

    code = "E0531"
    title = "the tile loaded by multicast along {axis} is not the same in the CTAs of that line"
    labels = (primary("at", "differs between CTAs that differ in {axis} only"), secondary("load", "loaded once for all of them"))
    note = "each CTA loads a part of the tile for all of them: the result would be a mixture of different tiles"
    help = "load it without `multicast`, or remove `block.{axis}` and `cta.{axis}` from its coordinates"
    axis: str
    at: Span
    load: Span


class MulticastMask(Message):
    """A mask that was written by hand is compared with the one that follows from the cluster: bit i stands for the CTA of rank i."""

    code = "E0532"
    title = "the mask is {stated} in the CTA of rank {rank}; the tile goes to {derived}"
    labels = (primary("at", "stated here"), secondary("load", "loaded for the CTAs along {axis}"))
    note = "a CTA missing from the mask waits for bytes that never come; an extra CTA gets bytes that it does not expect"
    help = "remove the mask: it is derived"
    edits = (remove_argument("at"),)
    stated: str
    derived: str
    rank: int
    axis: str
    at: Span
    load: Span


class CompleteMask(Message):
    """`mma_complete_mask` says which CTAs of the group are signalled when an accumulator is finished: all of them, since each reads a
    part."""

    code = "E0533"
    title = "`mma_complete_mask` is {stated}; with `cta_group={group}` it is {derived}"
    labels = (primary("at", "stated here"),)
    note = "a CTA missing from the mask never learns that its part of the accumulator is finished"
    help = "remove it: it is derived"
    edits = (remove_argument("at"),)
    stated: str
    derived: str
    group: int
    at: Span


class ClusterDiverges(Message):
    """The CTAs of a cluster share this pipeline: what one of them hands over, others wait for. All of them must therefore execute the
    same operations, equally often: loop bounds and conditions around them may depend on what the CTAs have in common (`cluster.x`, sizes,
    constants), but not on `block.x` or `cta.x`, nor on elements of a tensor that the kernel writes, since one CTA may load them before
    another CTA's store, and one after it."""

    code = "E0603"
    title = "the CTAs of a cluster do not all reach this operation on `{pipeline}` equally often"
    labels = (
        primary("at", "others of the cluster wait for this"),
        secondary("control", "this differs between the CTAs of a cluster"),
        secondary("declared", "shared by them"),
    )
    note = "the CTA that executes it more often waits for ever for one that has stopped"
    help = "{advice}"
    pipeline: str
    advice: str
    at: Span
    control: Span
    declared: Span
