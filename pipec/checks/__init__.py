"""The checks: `check_kernel` on kernel IR, `check_plan` on what was derived from it.

Each check reports every independent mistake it finds. A check module holds one `check` function; to add one, call it here and
put its messages into the catalogue.
"""

from pipec.checks.grid import blocks, grids, scheduling, semaphores
from pipec.checks.memory import assumed, global_order, registers, resources
from pipec.checks.stages import in_turn, linear, roles, signals, stated_counts, sub_stages
from pipec.checks.summary import collect
from pipec.checks.tiles import accumulators, aliases, copies, lifetime, mma, shapes, tensor_tiles
from pipec.diag.message import Sink
from pipec.isa.targets import Target
from pipec.kir.global_memory import accesses
from pipec.kir.ir import Kernel
from pipec.kir.plan.types import Plan


def check_kernel(kernel: Kernel, target: Target, sink: Sink) -> None:
    summary = collect(kernel)
    # The order is that of a reader who mends his kernel: whose stage it is, then what it holds, then whether the hardware takes
    # it. Nothing here relies on it, since each check is silent about what another one tells.
    linear.check(summary, sink)
    roles.check(summary, sink)
    in_turn.check(summary, sink)
    signals.check(summary, sink)
    lifetime.check(summary, sink)
    sub_stages.check(summary, sink)
    semaphores.check(kernel, sink)
    grids.check(kernel, sink)
    scheduling.check(kernel, target, sink)
    # From here on a tile that does not fit is reported once: what would follow from its
    # size in every copy and MMA that touches it is left out.
    wrong = shapes.check(summary, target, sink)
    accumulators.check(summary, target, sink)
    mma.check(summary, wrong, sink)
    tensor_tiles.check(summary, wrong, sink)
    aliases.check(summary, wrong, sink)
    copies.check_copies(summary, wrong, sink)
    copies.check_proxies(summary, sink)


def check_plan(plan: Plan, sink: Sink) -> tuple[str, ...]:
    """What only a whole plan can tell; the kernel has passed `check_kernel`. Sentences about what is taken for granted."""
    resources.check(plan, sink)
    stated_counts.check(plan, sink)
    in_turn.check_counts(plan, sink)
    registers.check(plan, sink)
    rows = accesses.collect(plan.kernel)
    partners = global_order.check(plan, rows, sink)
    shared = blocks.check(plan.kernel, rows, sink)
    return tuple(assumed.sentences(plan, rows, shared, partners))
