"""What requires whole warpgroups: reading tensor memory, and multiplying in registers (E04xx)."""

from pipec.checks.summary import READ, WRITE, RoleSummary
from pipec.diag.catalogue.stages import participation as messages
from pipec.diag.message import Sink
from pipec.diag.shown import counted
from pipec.isa.targets import WARPGROUP_WARPS
from pipec.sema import tree


# A warp can access the 32 lanes given by its number modulo four (hardware.md 3.9): fewer than four leave rows of the accumulator unread.
def check_tensor_memory(role: RoleSummary, sink: Sink) -> None:
    if role.role.warps % 4 == 0:
        return
    for handle in role.handles.values():
        for _, touch in handle.touches:
            if touch.kind in (READ, WRITE) and touch.buffer is not None and touch.buffer.space == "tensor":
                warps = counted(role.role.warps, "warp")
                reads = touch.kind == READ
                sink.report(
                    messages.TensorMemoryReader(
                        role=role.role.name,
                        warps=warps,
                        verb="reads" if reads else "writes",
                        done="read from" if reads else "written to",
                        word="read" if reads else "written",
                        at=touch.span,
                        declared=role.role.span,
                    )
                )
                return


# wgmma is an instruction of four warps, the first a multiple of four (hardware.md 8).
def check_warpgroups(role: RoleSummary, sink: Sink) -> None:
    if role.role.warps % WARPGROUP_WARPS == 0:
        return
    for block in role.role.blocks:
        for operation in block.operations:
            if isinstance(operation, tree.ClearAccumulator):
                warps = counted(role.role.warps, "warp")
                accumulator = operation.accumulator
                fitting = -(-role.role.warps // WARPGROUP_WARPS) * WARPGROUP_WARPS
                sink.report(
                    messages.NotWarpgroups(
                        role=role.role.name,
                        accumulator=accumulator.name,
                        warps=warps,
                        fitting=fitting,
                        at=operation.span,
                        declared=role.role.span,
                    )
                )
                return
