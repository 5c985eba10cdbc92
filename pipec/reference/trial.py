"""A trial run of a kernel: generated arguments, poisoned outputs, and the reference for these arguments."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from pipec.interface import TensorArgument
from pipec.kir.ir import Kernel
from pipec.kir.plan.types import Plan
from pipec.reference.bounded import Bounded
from pipec.reference.compare import Comparison, compare, poisoned
from pipec.reference.lines import apply_given, dtypes_of, expected_values, reference_lines
from pipec.reference.precision import precision_of
from pipec.reference.problem import ReferenceProblem
from pipec.reference.reasons import Lost, Trace, unbounded, zeros_pass
from pipec.runtime import random_arguments
from pipec.sema.tree import PassTurn

_EXACT = 2.0**53


@dataclass(frozen=True, slots=True)
class Trial:
    """`arguments` are to be passed to the kernel; `expected` is the reference, by output ({} without one); `poison` the initial contents
    of outputs that it does not read; `unjudged`: the outputs that the reference does not mention."""

    arguments: dict[str, Any]
    expected: Mapping[str, Bounded]
    poison: Mapping[str, np.ndarray]
    unjudged: tuple[str, ...] = ()

    def judged(self) -> list[Comparison]:
        """After the launch: compares each output with its reference."""
        return [compare(name, self.arguments[name], expected, self.poison.get(name)) for name, expected in self.expected.items()]


def trial_of(plan: Plan, values: Mapping[str, float], seed: int = 0) -> Trial:
    """Arguments with the sizes `values`. The reference is evaluated here, so nothing that the kernel does can change it.

    Raises ReferenceProblem, and ArgumentError if a dimension has no size.
    """
    kernel, interface = plan.kernel, plan.interface
    arguments = random_arguments(interface, values, seed)
    known = {**kernel.constants, **values}
    given = apply_given(kernel.document, arguments, known, dtypes_of(interface))
    unread = _only_written(plan) - given
    lines = reference_lines(kernel.document)
    expected: dict[str, Bounded] = {}
    if lines:
        evaluated = partial(
            expected_values, lines, arguments, dtypes_of(interface), known, precision=precision_of(kernel), unread=unread
        )
        expected = evaluated()
        for name, wanted in expected.items():
            _refuse(name, wanted, arguments[name], evaluated)
    poison = {name: poisoned(arguments[name], expected.get(name)) for name in sorted(unread)}
    for name, bits in poison.items():
        arguments[name][...] = bits
    left = [one.name for one in _outputs(plan) if one.name not in expected]
    return Trial(arguments, expected, poison, tuple(left) if expected else ())


def _only_written(plan: Plan) -> frozenset[str]:
    """The outputs whose initial values do not matter; turn counters are zero, and thus inputs."""
    return frozenset(one.name for one in _outputs(plan) if not one.accumulated)


def _outputs(plan: Plan) -> list[TensorArgument]:
    """The tensors that the kernel writes, but for turn counters, which are zero before and after a launch."""
    tensors = [argument for argument in plan.interface.arguments if isinstance(argument, TensorArgument)]
    counters = _counters(plan.kernel)
    return [one for one in tensors if one.written and one.name not in counters]


def _counters(kernel: Kernel) -> set[str]:
    operations = (operation for role in kernel.roles for block in role.blocks for operation in block.operations)
    return {operation.counter.tensor.name for operation in operations if isinstance(operation, PassTurn)}


def _refuse(name: str, wanted: Bounded, output: np.ndarray, evaluated: Callable[..., object]) -> None:
    """Refuses a reference that nothing could contradict."""
    integers = output.dtype.kind in "iu"
    value = np.abs(wanted.value)

    def lost_by(lost: Lost, said: str) -> ReferenceProblem:
        trace = Trace()
        evaluated(trace=trace)
        return trace.problem(name, lost, said)

    if unbounded(wanted, None):
        place = [int(i) for i in np.argwhere(~np.isfinite(wanted.error))[0]]
        said = f"rounding may change `{name}` at {place} by any amount, so that no result could be called wrong there"
        raise lost_by(unbounded, said)
    if integers and np.any(value > _EXACT):
        place = [int(i) for i in np.argwhere(value > _EXACT)[0]]
        # Integers must be equal, but neighbours beyond 2**53 are one number in float64.
        raise ReferenceProblem(
            f"`{name}` is {value.max():.3g} at {place}: references are computed in float64, which has not all integers beyond 2**53, so "
            "that a wrong one could not be told from the right one there"
        )
    if not integers and output.dtype.kind != "b" and zeros_pass(wanted, None):
        sizes = f"the largest is {value.max():.3g}, and {np.max(wanted.error):.3g} is allowed"
        raise lost_by(
            zeros_pass, f"rounding may change each element of `{name}` by more than its value ({sizes}): zeros would pass, too"
        )
