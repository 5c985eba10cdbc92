"""E09xx: what a target lacks."""

from pipec.diag.message import Message, primary, secondary
from pipec.source import Span


class TwoCtaRolePipeline(Message):
    """A RolePipeline between the two CTAs of a pair, for which no code is generated yet.

    With `cta_group=2` the commit of one CTA completes the barriers of both. The declaration is understood and carried through;
    a kernel that uses such a pipeline cannot be generated yet.
    """

    code = "E0905"
    title = "`{pipeline}` hands stages over in a pair of CTAs, which is not generated yet"
    labels = (primary("at", "declared with `cta_group=2`"), secondary("uses", "obtains a stage of it"))
    note = "its commits would have to complete the barriers of both CTAs of the pair"
    help = "declare it with `cta_group=1`"
    pipeline: str
    at: Span
    uses: tuple[Span, ...]


class NoTensorMemory(Message):
    """The target has no tensor memory and no tcgen05 instructions, so it cannot run this kernel.

    Tensor memory came with Blackwell (sm_100a). On Hopper (sm_90a) accumulators live in the registers of a warpgroup (`wgmma`), which
    this version of pipec does not generate. Kernels without `mma` (TMA pipelines, elementwise work) compile for both.
    """

    code = "E0901"
    title = "target {target} has no tensor memory for `{buffer}`"
    labels = (primary("at", "an accumulator in tensor memory"), secondary("uses", "used by this `mma`"))
    note = "{target} multiplies with `wgmma`, whose accumulators are registers; pipec does not generate it yet"
    help = "compile with `--arch sm_100a`"
    target: str
    buffer: str
    at: Span
    uses: tuple[Span, ...]
