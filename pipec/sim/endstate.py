"""What must hold when a cluster has ended: nothing leaked, nothing still announced."""

from __future__ import annotations

from .errors import SimulationError


def check_end(program, cluster) -> None:
    """Raises byte_mismatch for a barrier with open bytes and leaked_tmem for tensor memory not given back."""
    names = program.names
    for cta in cluster.ctas:
        for offset, barrier in sorted(cta.mbarriers.items()):
            if barrier.state.tx:
                name = names.barrier(offset)
                what = f"{name} (shared 0x{offset:x})" if name else f"mbarrier at shared 0x{offset:x}"
                raise SimulationError(
                    "byte_mismatch",
                    f"{cta.name}: {what} ends in phase {barrier.state.phase} with {barrier.state.tx} bytes outstanding",
                    details={"address": offset, "tx": barrier.state.tx},
                )
        if cta.tensor is not None:
            cta.tensor.check_released(cta)
