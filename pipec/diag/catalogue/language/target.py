"""E09xx: features that a target lacks."""

from pipec.diag.message import Message, primary, remove_line, secondary
from pipec.source import Span


class NoTensorMemory(Message):
    """The target has no tensor memory and no tcgen05 instructions, so it cannot run this kernel.

    Tensor memory came with Blackwell (sm_100a). On Hopper (sm_90a) accumulators live in the registers of the role that reads the
    operands: it declares `acc = accumulator(f32, rows, columns)` with 4 warps for 64 rows or a multiple, calls `mma(acc, s.a, s.b)` with
    all of its threads, and stores `acc` itself. There is no second role and no pipeline between the MMAs and the epilogue. Kernels
    without `mma` (TMA pipelines, elementwise work) compile for both.
    """

    code = "E0901"
    title = "target {target} has no tensor memory for `{buffer}`"
    labels = (primary("at", "an accumulator in tensor memory"), secondary("uses", "used by this `mma`"))
    note = "{target} multiplies with `wgmma`, whose accumulators are registers of the role that reads the operands"
    help = "in that role, with `warps=4` or more, write `acc = accumulator({dtype}, {rows}, {columns})`; or compile with `--arch sm_100a`"
    target: str
    buffer: str
    dtype: str
    rows: int
    columns: int
    at: Span
    uses: tuple[Span, ...]


class NoRegisterMma(Message):
    """The target has no MMA that accumulates in registers, so it cannot run this kernel.

    `accumulator(...)` is for Hopper (sm_90a, `wgmma`). On Blackwell (sm_100a) accumulators live in tensor memory: an
    `OutputTilePipeline(tmem[f32, rows, columns], stages=n)` hands them from a role of one warp, which issues the MMAs, to a role of four,
    which reads them.
    """

    code = "E0902"
    title = "target {target} has no MMA that accumulates in registers, for accumulator `{accumulator}`"
    labels = (primary("at", "an accumulator in registers"), secondary("uses", "used by this `mma`"))
    note = "{target} accumulates in tensor memory, which a pipeline hands from the role with the MMAs to the role that reads"
    help = "declare `output = OutputTilePipeline(tmem[{dtype}, {rows}, {columns}], stages=1)`; or compile with `--arch sm_90a`"
    target: str
    accumulator: str
    dtype: str
    rows: int
    columns: int
    at: Span
    uses: tuple[Span, ...]


class NoCommit(Message):
    """The target has no commit that lets finished MMAs signal a barrier.

    On Hopper (sm_90a) the threads themselves wait for their MMAs; releasing the stage waits for them, and then each warp arrives.
    """

    code = "E0903"
    title = "target {target} has no `mma.commit` for stage `{stage}`"
    labels = (primary("at", "MMAs signal no barrier here"),)
    note = "on {target} the role's warps wait for their own MMAs and then arrive"
    help = "remove it: `{stage}.release()` waits and signals"
    edits = (remove_line("at"),)
    target: str
    stage: str
    at: Span


class NoPairs(Message):
    """The target has no pairs of CTAs.

    With `cta_group=2` the copies of both CTAs complete a barrier of the leader, whose MMAs work on the memory of both. That came with
    Blackwell (sm_100a). On Hopper (sm_90a) the CTAs of a cluster share tiles by `multicast`, and read each other's with `scope="cluster"`.
    """

    code = "E0904"
    title = "target {target} has no pairs of CTAs for `{pipeline}`"
    labels = (primary("at", "declared with `cta_group=2`"),)
    note = "a copy on {target} completes a barrier of the CTA that it writes to, and an MMA reads the tiles of one CTA"
    help = 'leave `cta_group=2` out, and load what both CTAs read with `multicast="x"`; or compile with `--arch sm_100a`'
    target: str
    pipeline: str
    at: Span
