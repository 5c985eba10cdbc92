"""A launch like an earlier one: what is left to do where its tensors are recognised as a whole.

It holds what the signature of that launch determined, and nothing of its caller's.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pipec.runtime.arguments.recognition import recogniser
from pipec.runtime.arguments.signatures import Reader
from pipec.runtime.arguments.views import recording
from pipec.runtime.result import LaunchResult

if TYPE_CHECKING:
    from pipec.runtime.gpu.cuda import CudaKernel
    from pipec.runtime.gpu.plans import Plan


@dataclass(frozen=True, slots=True)
class Prepared:
    """Of all launches with one signature."""

    kernel: "CudaKernel"
    plan: "Plan"
    result: LaunchResult


@dataclass(frozen=True, slots=True)
class Again:
    """`launch` takes arguments and a stream; it returns None for arguments that are not like those of the earlier launch, and has launched
    nothing then. `made`: how many there have been for this signature: what torch compares depends on its state, such as inference mode,
    in which tensors count as others."""

    device: str
    launch: Callable[[tuple[Any, ...], Any], LaunchResult | None]
    made: int


def again(
    prepared: Prepared, device: str, reader: Reader, arguments: Sequence[Any], shaping: Sequence[int], made: int
) -> Again | None:
    """For launches like one that was just made with these arguments; None where tensors cannot be recognised, or lie so that their
    addresses are part of the signature. `shaping`: places of the scalars whose values are part of it."""
    select, low_bits = reader.tensors, reader.low_bits
    tensors = select(arguments)
    recognise = recogniser(tensors)
    if recognise is None or any(not one.data_ptr() or one.data_ptr() & low_bits for one in tensors):
        return None
    plan, result = prepared.plan, prepared.result
    count, start, separate, differentiable = reader.count, prepared.kernel.launch, plan.separate, plan.differentiable
    select_numbers = reader.numbers
    first = () if select_numbers is None else select_numbers(arguments)
    kinds, values = [*map(type, first)], [(at, first[at]) for at in shaping]

    # On every launch, so written for speed: what is the same for all of them are variables of the function around it.
    def launch(arguments: tuple[Any, ...], stream: Any) -> LaunchResult | None:
        if len(arguments) != count:
            return None
        tensors = select(arguments)
        if not recognise(*tensors):
            return None
        addresses = [tensor.data_ptr() for tensor in tensors]
        if 0 in addresses:
            return None
        for address in addresses:
            if address & low_bits:
                return None
        numbers: Sequence[Any] = ()
        if select_numbers is not None:
            numbers = select_numbers(arguments)
            if [*map(type, numbers)] != kinds:
                return None
            for at, value in values:
                if numbers[at] != value:
                    return None
        # Both can change from call to call. The slow way finds the words to refuse it with.
        if (differentiable and recording()) or not separate(addresses):
            return None
        start(plan, addresses, numbers, stream)
        return result

    return Again(device, launch, made)
