"""The plan of a kernel with bounded waits: the same, with a parameter for the records and the data for reports."""

from pipec.interface import Watchdog, WatchdogParameter
from pipec.kir.plan.types import Plan
from pipec.record import replace


def watched(plan: Plan, nanoseconds: int) -> Plan:
    """`plan` with a limit of `nanoseconds` for each barrier wait."""
    sides = tuple(
        (
            pipeline.name,
            tuple(row.role.name for row in plan.roles if pipeline in row.role.produces),
            tuple(row.role.name for row in plan.roles if pipeline in row.role.consumes),
        )
        for pipeline in plan.kernel.pipelines
    )
    name = plan.kernel.span.source.name
    interface = replace(
        plan.interface,
        parameters=(*plan.interface.parameters, WatchdogParameter(f"{plan.kernel.name}_watchdog")),
        watchdog=Watchdog(nanoseconds, name, sides),
    )
    return replace(plan, interface=interface, twins={})  # waits identify their role
