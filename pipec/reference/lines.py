"""What a kernel is compared with: the NumPy line of its docstring, evaluated in float64.

\"\"\"D = relu(A @ B.T + bias).

numpy: d = maximum(a @ b.T + bias, 0)
shapes: M=256, N=512, K=128; M=200, N=136, K=72
\"\"\"
"""

import re
from collections.abc import Collection, Mapping, Sequence
from typing import Any

import numpy as np

from pipec.interface import KernelInterface
from pipec.isa.dtypes import DTYPES
from pipec.reference.bounded import Bounded, Precision, bounded, constant
from pipec.reference.evaluator import Evaluator
from pipec.reference.packed_arrays import values_of
from pipec.reference.precision import rounding_to
from pipec.reference.problem import ReferenceProblem
from pipec.reference.reasons import Trace
from pipec.runtime.arguments.tensors import numpy_dtype


def reference_lines(document: str) -> list[str]:
    """The `numpy:` lines of a docstring, without the word."""
    return _lines(document, "numpy:")


def given_lines(document: str) -> list[str]:
    """The `given:` lines of a docstring, without the word."""
    return _lines(document, "given:")


def _lines(document: str, word: str) -> list[str]:
    return [line.strip().removeprefix(word).strip() for line in document.splitlines() if line.strip().startswith(word)]


def shape_sets(document: str) -> list[dict[str, str]]:
    """The `shapes:` lines: one mapping per set, sets separated by semicolons."""
    sets = []
    for line in document.splitlines():
        if line.strip().startswith("shapes:"):
            for part in line.split(":", 1)[1].split(";"):
                found = dict(re.findall(r"(\w+)\s*=\s*([-+.\w]+)", part))
                if found:
                    sets.append(found)
    return sets


def apply_given(
    document: str,
    arguments: Mapping[str, Any],
    sizes: Mapping[str, object],
    dtypes: Mapping[str, str] | None = None,
) -> frozenset[str]:
    """Fills arguments according to the `given:` lines, from sizes and other arguments: `given: begins = offsets(M // 2, 0, M - M // 2)`.

    `sizes`: also the kernel's compile-time parameters, of which a line may use the numbers and conditions; `dtypes` as in
    `expected_values`. Returns the names of the arguments it filled. Raises ReferenceProblem.
    """
    numbers = {name: size for name, size in sizes.items() if isinstance(size, bool | int | float)}
    evaluator = Evaluator({name: bounded(size) for name, size in numbers.items()}, Precision(whole=2.0**53))
    filled = set()
    for line in given_lines(document):
        read = arguments.keys() & set(re.findall(r"\w+", line))  # converting all of them would cost as much as the reference
        evaluator.names |= {name: _argument(arguments[name], (dtypes or {}).get(name)) for name in read}
        target, value = evaluator.assignment(line)
        if not isinstance(arguments.get(target), np.ndarray):
            raise ReferenceProblem(f"there is no tensor `{target}`").within(line)
        try:
            with np.errstate(over="ignore", invalid="ignore"):
                arguments[target][...] = value.value
        except (TypeError, ValueError):
            shapes = f"of shape {np.shape(value.value)}, and `{target}` is of shape {arguments[target].shape}"
            raise ReferenceProblem(f"the value given for `{target}` is {shapes}").within(line) from None
        filled.add(target)
    return frozenset(filled)


def expected_values(
    lines: Sequence[str],
    arguments: Mapping[str, Any],
    dtypes: Mapping[str, str] | None = None,
    constants: Mapping[str, object] | None = None,
    *,
    precision: Precision | None = None,
    unread: Collection[str] = (),
    trace: Trace | None = None,
) -> dict[str, Bounded]:
    """Output name -> float64 values and allowed errors. Raises ReferenceProblem.

    `arguments` have their values before the launch. `dtypes` gives the element types of arguments that do not have them; `constants` are
    the kernel's compile-time parameters and sizes, whose numbers and conditions a line may use. A line that reads an argument of `unread`
    is rejected: their contents before the launch are undefined. `trace` is told of all parts of the lines.
    """
    precision = precision or Precision()
    known = {
        name: constant(value, precision) for name, value in (constants or {}).items() if isinstance(value, bool | int | float)
    }
    kinds = dtypes or {}
    known |= {name: _argument(value, kinds.get(name)) for name, value in arguments.items() if name not in unread}
    evaluator = Evaluator(known, precision, frozenset(unread), trace.observe if trace else None)
    outputs: dict[str, Bounded] = {}
    for line in lines:
        target, value = evaluator.assignment(line)
        if target in arguments:
            try:
                outputs[target] = _shaped(target, value, arguments[target])
            except ReferenceProblem as problem:
                raise problem.within(line) from None
        evaluator.names[target] = _read_back(value, kinds.get(target))
        if trace:
            trace.assigned(target, line)
    if not outputs:
        raise ReferenceProblem("it assigns to no argument of the kernel")
    return outputs


def _read_back(value: Bounded, dtype: str | None) -> Bounded:
    """A later line may read an output: it has been rounded to its type."""
    kind = DTYPES[dtype] if dtype else None
    if kind is None or not kind.is_float or kind.bits >= 32:
        return value
    return bounded(value.value, value.error + rounding_to(str(kind.numpy)).of(value.value))


def _shaped(name: str, expected: Bounded, output: Any) -> Bounded:
    if not isinstance(output, np.ndarray):
        raise ReferenceProblem(f"`{name}` is a scalar, which a kernel cannot write")
    try:
        return Bounded(np.broadcast_to(expected.value, output.shape), np.broadcast_to(expected.error, output.shape))
    except (TypeError, ValueError):
        raise ReferenceProblem(f"its value for `{name}` has shape {expected.value.shape}, the argument {output.shape}") from None


def dtypes_of(interface: KernelInterface) -> dict[str, str]:
    """The element type of each argument of a kernel."""
    return {argument.name: argument.dtype for argument in interface.arguments}


def _argument(value: Any, dtype: str | None) -> Bounded:
    """The value of an argument: scalars as the kernel gets them, in their own type."""
    if not isinstance(value, np.ndarray):
        return bounded(_stored_scalar(value, dtype))
    # ml_dtypes arrays convert through float32, which represents all of their values.
    return bounded(value.astype(np.float64) if dtype is None else values_of(value, dtype))


def _stored_scalar(value: float, dtype: str | None) -> float:
    if dtype is None or not DTYPES[dtype].is_float:
        return value
    with np.errstate(over="ignore"):
        return float(np.array(value).astype(numpy_dtype(DTYPES[dtype])))
