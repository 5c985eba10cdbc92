"""The line of a PTX text that describes a kernel's arguments: it may have been edited, and describes nothing then."""

from types import NoneType, UnionType
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

from pipec.interface import (
    HOST_FUNCTIONS,
    HOST_OPERATORS,
    MULTIPROCESSORS,
    DimensionParameter,
    KernelInterface,
    Parameter,
    PointerParameter,
    ScalarArgument,
    ScalarParameter,
    StrideParameter,
    TensorArgument,
    TensorMapParameter,
    from_json,
)
from pipec.isa.dtypes import DTYPES
from pipec.isa.targets import TARGETS
from pipec.verify.conditions import GRID, names_in
from pipec.verify.data import Malformed, formula_of

_OPERATORS = frozenset((*HOST_OPERATORS, *HOST_FUNCTIONS))
_MOST_THREADS = max(target.max_threads for target in TARGETS.values())
_DEEPEST = 100  # nesting of a launch expression


def described(text: str) -> KernelInterface | None:
    """What the line says, if a launch can make use of it."""
    try:
        found = from_json(text)
        return found if fits(found, KernelInterface) and _agrees(found) else None
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError, Malformed):
        return None


def fits(value: object, kind: Any) -> bool:
    """Whether a value is of an annotated type, with all that it consists of."""
    origin, inside = get_origin(kind), get_args(kind)
    if kind is Any:
        return True
    if kind is None or kind is NoneType:
        return value is None
    if origin is Literal:
        return value in inside
    if origin in (Union, UnionType):
        return any(fits(value, one) for one in inside)
    if origin is tuple:
        if not isinstance(value, tuple):
            return False
        kinds = inside[:1] * len(value) if inside[-1] is ... else inside
        return len(value) == len(kinds) and all(map(fits, value, kinds))
    if not isinstance(value, kind) or isinstance(value, bool) and kind is not bool:
        return False
    hints = get_type_hints(kind) if getattr(kind, "_is_record", False) else {}
    return all(fits(getattr(value, name), one) for name, one in hints.items() if name != "_is_record")


def _agrees(found: KernelInterface) -> bool:
    """Whether its parts mean each other, and are numbers that a launch may have."""
    tensors = {one.name: one for one in found.arguments if isinstance(one, TensorArgument)}
    scalars = {one.name: one.dtype for one in found.arguments if isinstance(one, ScalarArgument)}
    sizes = [size for one in tensors.values() for size in one.shape]
    dimensions = {size for size in sizes if isinstance(size, str)}
    integers = {name for name, dtype in scalars.items() if dtype in DTYPES and not DTYPES[dtype].is_float}
    known = dimensions | integers
    numbers = [*(size for size in sizes if isinstance(size, int)), found.shared_bytes, found.tensor_columns]
    return (
        len(tensors) + len(scalars) == len(found.arguments)
        and all(dtype in DTYPES for dtype in (*(one.dtype for one in tensors.values()), *scalars.values()))
        and all(number >= 0 for number in numbers)
        and all(size >= 1 for size in found.cluster)
        and 1 <= found.threads <= _MOST_THREADS
        and all(_computes(one, known | {MULTIPROCESSORS}) for one in found.grid)
        and all(known.union(GRID).issuperset(names_in(formula_of(one))) for one in found.conditions)
        and all(_is_given(one, tensors, scalars, dimensions) for one in found.parameters)
        and (found.timestamps is None or found.timestamps.argument in tensors)
    )


def _computes(expression: object, known: set[str], depth: int = 0) -> bool:
    match expression:
        case bool():
            return False
        case int():
            return True
        case str():
            return expression in known
        case (str(operator), left, right):
            inner = (_computes(one, known, depth + 1) for one in (left, right))
            return operator in _OPERATORS and depth < _DEEPEST and all(inner)
        case _:
            return False


def _is_given(one: Parameter, tensors: dict[str, TensorArgument], scalars: dict[str, str], dimensions: set[str]) -> bool:
    match one:
        case TensorMapParameter():
            return one.tensor in tensors and len(one.box) >= len(tensors[one.tensor].shape) and all(size >= 1 for size in one.box)
        case PointerParameter():
            return one.tensor in tensors
        case StrideParameter():
            return one.tensor in tensors and 0 <= one.axis < len(tensors[one.tensor].shape)
        case DimensionParameter():
            return one.dimension in dimensions
        case ScalarParameter():
            return scalars.get(one.scalar) == one.dtype
    return True
