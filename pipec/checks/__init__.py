"""The checks: `check_kernel` on kernel IR, `check_plan` on what was derived from it.

Each check reports every independent mistake it finds. A check module holds one `check` function; to add one, call it here and
put its messages into the catalogue.
"""

from pipec.checks import (
    accumulators,
    global_order,
    grids,
    lifetime,
    linear,
    mma,
    registers,
    resources,
    roles,
    scheduling,
    shapes,
    signals,
    stated,
    sub_stages,
    tensor_tiles,
    turns,
)
from pipec.checks.facts import collect
from pipec.diag.message import Sink
from pipec.isa.targets import Target
from pipec.kir.ir import Kernel
from pipec.kir.plan_types import Plan


def check_kernel(kernel: Kernel, target: Target, sink: Sink) -> None:
    facts = collect(kernel)
    linear.check(facts, sink)
    roles.check(facts, sink)
    signals.check(facts, sink)
    lifetime.check(facts, sink)
    sub_stages.check(facts, sink)
    turns.check(kernel, sink)
    grids.check(kernel, sink)
    scheduling.check(kernel, target, sink)
    wrong = shapes.check(facts, target, sink)
    accumulators.check(facts, target, sink)
    mma.check(facts, wrong, sink)
    tensor_tiles.check(facts, wrong, sink)
    shapes.check_copies(facts, wrong, sink)
    shapes.check_proxies(facts, sink)


def check_plan(plan: Plan, sink: Sink) -> None:
    """What only a whole plan can tell; the kernel has passed `check_kernel`."""
    resources.check(plan, sink)
    stated.check(plan, sink)
    registers.check(plan, sink)
    global_order.check(plan, sink)
