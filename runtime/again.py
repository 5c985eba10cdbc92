"""Repeated launches: the work that remains if the tensors are recognised as those of an earlier launch.

It holds what the signature of that launch determined, and no references to its caller's objects.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pipec.runtime.arguments.recognition import recogniser
from pipec.runtime.arguments.signatures import Reader, Select
from pipec.runtime.arguments.views import recording
from pipec.runtime.result import LaunchResult

if TYPE_CHECKING:
    from pipec.runtime.gpu.cuda import CudaKernel
    from pipec.runtime.gpu.plans import Plan


@dataclass(frozen=True, slots=True)
class Prepared:
    """Shared by all launches with one signature."""

    kernel: "CudaKernel"
    plan: "Plan"
    result: LaunchResult


@dataclass(frozen=True, slots=True)
class Again:
    """`launch` takes arguments and a stream; it returns None, without launching, for arguments unlike those of the earlier launch.
    `made`: the number of recognisers created for this signature: torch's comparison depends on global state, such as inference mode,
    which makes the same tensors compare differently."""

    device: str
    launch: Callable[[tuple[Any, ...], Any], LaunchResult | None]
    made: int


_MOST_SHAPES = 256  # sets of shapes whose launches are kept per kernel


class Recent:
    """The launches of a kernel that can be repeated: the last one, and the last of each set of shapes, since a layer that is called with
    several shapes in turn would never repeat the last one."""

    def __init__(self, select: Select) -> None:
        """`select`: the tensors among the arguments."""
        self.last: Again | None = None
        self._select, self._by_shapes = select, dict[tuple[Any, ...], Again]()

    def launch(self, arguments: tuple[Any, ...], device: str, stream: Any) -> LaunchResult | None:
        """Repeats a launch with these arguments; None, without launching, if there was none like it."""
        last = self.last
        if last is not None and last.device == device:
            result = last.launch(arguments, stream)
            if result is not None:
                return result
        other = self._like(arguments, device)
        if other is None or other is last:
            return None
        result = other.launch(arguments, stream)
        if result is not None:
            self.last = other
        return result

    def tried(self, one: Again, arguments: Sequence[Any]) -> bool:
        """Whether `launch` has tried this one for these arguments, and it did not recognise them."""
        return one is self.last or one is self._like(arguments, one.device)

    def keep(self, one: Again | None, arguments: Sequence[Any]) -> None:
        """Remembers a launch just made with these arguments."""
        self.last = one
        shapes = self._shapes(arguments)
        if one is None or shapes is None:
            return
        if len(self._by_shapes) >= _MOST_SHAPES:
            self._by_shapes = {}  # not cleared: another thread may be reading
        self._by_shapes[one.device, shapes] = one

    def forget(self) -> None:
        self.last, self._by_shapes = None, {}

    def _like(self, arguments: Sequence[Any], device: str) -> Again | None:
        shapes = self._shapes(arguments) if self._by_shapes else None
        return None if shapes is None else self._by_shapes.get((device, shapes))

    def _shapes(self, arguments: Sequence[Any]) -> tuple[Any, ...] | None:
        """None for what has no shapes or too few arguments; the launch finds the message."""
        try:
            return tuple([one.shape for one in self._select(arguments)])
        except (AttributeError, IndexError, TypeError):
            return None


def again(
    prepared: Prepared, device: str, reader: Reader, arguments: Sequence[Any], shaping: Sequence[int], made: int
) -> Again | None:
    """For launches like one just made with these arguments; None if tensors cannot be recognised, or if their addresses are part of the
    signature. `shaping`: positions of the scalars whose values are part of it."""
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

    # The hot path of every launch: everything constant is a variable of the enclosing function.
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
        # Both can change from call to call. The slow path finds the message to refuse with.
        if (differentiable and recording()) or not separate(addresses):
            return None
        start(plan, addresses, numbers, stream)
        return result

    return Again(device, launch, made)
