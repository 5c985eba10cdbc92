"""The checks: `check_kernel` on kernel IR, `check_plan` on the plan derived from it.

Each check reports every independent error it finds. A check module has one `check` function; to add one, call it here and add its
messages to the catalogue.
"""

from pipec.checks.grid import blocks, grids, scheduling, semaphores, signs
from pipec.checks.memory import global_order, registers, resources
from pipec.checks.memory.findings import findings
from pipec.checks.memory.hand_overs import tells
from pipec.checks.stages import carried_peeks, in_turn, linear, roles, signals, stated_counts, sub_stages
from pipec.checks.summary import collect
from pipec.checks.tiles import accumulators, aliases, copies, late_reads, lifetime, mma, shapes, tensor_tiles
from pipec.checks.verdict import Findings
from pipec.diag.message import Sink
from pipec.isa.targets import Target
from pipec.kir.ir import Kernel
from pipec.kir.plan.types import Plan


def check_kernel(kernel: Kernel, target: Target, sink: Sink) -> None:
    summary = collect(kernel)
    # In the order in which an author fixes a kernel: who owns a stage, then its contents, then hardware limits. Correctness does not
    # depend on it, since no check reports what another one covers.
    linear.check(summary, sink)
    carried_peeks.check(summary, sink)
    roles.check(summary, sink)
    in_turn.check(summary, sink)
    signals.check(summary, sink)
    lifetime.check(summary, sink)
    sub_stages.check(summary, sink)
    semaphores.check(kernel, sink)
    grids.check(kernel, sink)
    scheduling.check(kernel, target, sink)
    signs.check(kernel, sink)
    # From here on a tile with an invalid size is reported once: consequences in the copies and MMAs that use it are suppressed.
    wrong = shapes.check(summary, target, sink)
    accumulators.check(summary, target, sink)
    mma.check(summary, wrong, sink)
    tensor_tiles.check(summary, wrong, sink)
    aliases.check(summary, wrong, sink)
    copies.check_copies(summary, wrong, sink)
    copies.check_proxies(summary, sink)


def check_plan(plan: Plan, sink: Sink) -> Findings:
    """What requires a whole plan; the kernel has passed `check_kernel`."""
    resources.check(plan, sink)
    stated_counts.check(plan, sink)
    in_turn.check_counts(plan, sink)
    registers.check(plan, sink)
    rows = plan.accesses
    late_reads.check(plan.kernel, rows, sink)
    if global_order.check_rows_anywhere(rows, sink):
        rows = ()  # what else could be said of them
    partners = global_order.check(plan, rows, sink)
    return findings(plan, rows, blocks.check(plan.kernel, rows, tells(plan), sink), partners)
