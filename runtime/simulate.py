"""Launches a kernel on the simulator, in place on the caller's memory."""

from typing import TYPE_CHECKING

import numpy as np

from pipec.interface import KernelInterface
from pipec.runtime.arguments.binding import Bound
from pipec.runtime.arguments.parameters import STAND_IN_BYTES, PointerValue, RecordsValue, TensorMapValue, Value, values_of
from pipec.runtime.arguments.tensors import tensors
from pipec.runtime.hangs import hang
from pipec.watchdog import BYTES

if TYPE_CHECKING:
    from pipec.sim import Argument, Options, Result


def simulate(
    interface: KernelInterface, ptx: str, bound: Bound, grid: tuple[int, int, int], options: "Options | None"
) -> "Result":
    """Runs the kernel to its end; raises pipec.sim.SimulationError for behaviour undefined on hardware, HangError if a watchdog trapped."""
    from pipec import sim

    written = {argument.name: argument.written for argument in tensors(interface)}
    memory = {
        name: np.zeros(STAND_IN_BYTES, np.uint8) if view.empty else view.bytes_in_place() for name, view in bound.views.items()
    }

    records = np.zeros(BYTES if interface.watchdog else 0, np.uint8)

    def argument(value: Value) -> "Argument":
        match value:
            case TensorMapValue(tensor=tensor):
                tensor_map = sim.TensorMap(
                    dtype=value.dtype, dims=value.dims, strides=value.strides, box=value.box, swizzle=value.swizzle
                )
                return sim.TensorMapArgument(tensor_map, memory[tensor], written[tensor], name=tensor)
            case PointerValue(tensor=tensor):
                return sim.ArrayArgument(memory[tensor], written[tensor], name=tensor)
            case RecordsValue():
                return sim.ArrayArgument(records, True)
            case _:
                return sim.ScalarArgument(value)

    try:
        return sim.launch(
            ptx,
            interface.name,
            grid=grid,
            block=(interface.threads, 1, 1),
            cluster=interface.cluster if interface.cluster != (1, 1, 1) else None,
            programmatic=None if interface.programmatic_launch else False,
            dynamic_smem=interface.shared_bytes,
            arguments=[argument(value) for value in values_of(interface, bound)],
            options=options,
        )
    except sim.SimulationError as error:
        if error.kind == "trap" and (found := hang(interface, records.tobytes(), lost=False)) is not None:
            raise found from None
        raise
