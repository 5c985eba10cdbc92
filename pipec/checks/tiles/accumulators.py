"""Accumulators in registers: whether the target supports them, and whether the role can divide their rows (E0741, E0902, E0903)."""

from pipec.checks.summary import Summary
from pipec.diag.catalogue.language import target as target_messages
from pipec.diag.catalogue.tiles import multiplications as messages
from pipec.diag.message import Sink
from pipec.diag.shown import counted
from pipec.isa.targets import WARPGROUP_WARPS, Target
from pipec.kir import ir
from pipec.sema import tree

_BLOCK_ROWS = 64  # of one wgmma


def check(summary: Summary, target: Target, sink: Sink) -> None:
    for role in summary.kernel.roles:
        operations = [operation for block in role.blocks for operation in block.operations]
        cleared = [operation for operation in operations if isinstance(operation, tree.ClearAccumulator)]
        if target.tensor_columns:
            _not_here(target, cleared, operations, sink)
            continue
        for operation in operations:
            if isinstance(operation, tree.Signal) and operation.how == "commit":
                sink.report(target_messages.NoCommit(target=target.name, stage=operation.handle.name, at=operation.span))
        if role.warps > 0 and role.warps % WARPGROUP_WARPS == 0:  # E0703 tells of other numbers
            _shared_out(role, cleared, sink)


def _not_here(target: Target, cleared: list[tree.ClearAccumulator], operations: list[tree.Operation], sink: Sink) -> None:
    for clear in cleared:
        accumulator = clear.accumulator
        uses = [one.span for one in operations if isinstance(one, tree.RegisterMma) and one.accumulator is accumulator]
        sink.report(
            target_messages.NoRegisterMma(
                target=target.name,
                accumulator=accumulator.name,
                dtype=accumulator.dtype.name,
                rows=accumulator.rows,
                columns=accumulator.columns,
                at=clear.span,
                uses=tuple(uses),
            )
        )


def _shared_out(role: ir.Role, cleared: list[tree.ClearAccumulator], sink: Sink) -> None:
    groups = role.warps // WARPGROUP_WARPS
    # Each warpgroup multiplies blocks of 64 rows (hardware.md 8), and all take the same number of them.
    unit = _BLOCK_ROWS * groups
    for clear in cleared:
        rows = clear.accumulator.rows
        if rows % unit == 0:
            continue
        sink.report(
            messages.AccumulatorShare(
                accumulator=clear.accumulator.name,
                rows=rows,
                groups=counted(groups, "warpgroup"),
                fitting=-(-rows // unit) * unit,
                at=clear.span,
                declared=role.span,
            )
        )
