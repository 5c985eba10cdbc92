"""Sizes of a launch from the command line, for commands that analyse a launch without making it."""

from collections.abc import Mapping, Sequence
from math import isfinite

from pipec.diag.catalogue.language.tuning import UnknownSize
from pipec.diag.message import Failure
from pipec.interface import KernelInterface, ScalarArgument, TensorArgument
from pipec.verify.condition_text import condition_words
from pipec.verify.conditions import met, names_in
from pipec.verify.data import formula_of


def of_each(interfaces: Sequence[KernelInterface], given: Mapping[str, str]) -> list[dict[str, str]]:
    """What is given for the dimensions and scalars of each kernel of a file. Raises Failure for a name that none of them has."""
    names = [{*_dimensions(one), *_scalars(one)} for one in interfaces]
    for name in given:
        if not any(name in own for own in names):
            dimensions = dict.fromkeys(one for interface in interfaces for one in _dimensions(interface))
            raise unknown(f"there is no dimension `{name}`", [one.name for one in interfaces], [*dimensions])
    return [{name: value for name, value in given.items() if name in own} for own in names]


def _dimensions(interface: KernelInterface) -> list[str]:
    tensors = (argument for argument in interface.arguments if isinstance(argument, TensorArgument))
    return list(dict.fromkeys(name for tensor in tensors for name in tensor.shape if isinstance(name, str)))


def _scalars(interface: KernelInterface) -> list[str]:
    return [argument.name for argument in interface.arguments if isinstance(argument, ScalarArgument)]


def sizes_of(interface: KernelInterface, given: Mapping[str, str]) -> dict[str, int]:
    """A number for each dimension that the launch binds, and for the given scalars. Raises Failure."""
    names, scalars = _dimensions(interface), _scalars(interface)

    def failure(what: str, rule: str | None = None) -> Failure:
        return unknown(what, [interface.name], names, rule)

    fractions = {name for name in scalars if _of_fractions(interface, name) and name not in names}
    for name, value in given.items():
        if name not in names and name not in scalars:
            raise failure(f"there is no dimension `{name}`")
        if name in fractions:
            if not _is_number(value):
                raise failure(f"`{name}={value[:20]}` is no number")
        elif not (value.isascii() and value.isdecimal() and len(value) <= 10 and 0 < int(value) <= _MOST):
            raise failure(f"`{name}={value[:20]}` is no size", f"sizes are integers from 1 to {_MOST}")
    absent = [name for name in names if name not in given]
    if absent:
        raise failure(f"no size of {', '.join(f'`{name}`' for name in absent)} is given")
    sizes = {name: int(value) for name, value in given.items() if name not in fractions}
    for condition in map(formula_of, interface.conditions):
        # Conditions on the grid or on scalars that are not given can only be checked at launch.
        if {*names_in(condition)} <= sizes.keys() and not met(condition, sizes):
            values = ", ".join(f"{name} = {sizes[name]}" for name in names_in(condition))
            raise failure(f"no launch has {values}: {condition_words(condition)} must hold")
    return sizes


_MOST = 2**31 - 1


def unknown(what: str, kernels: Sequence[str], dimensions: Sequence[str], rule: str | None = None) -> Failure:
    """With the dimensions as they are to be given."""
    known, example = ", ".join(f"`{name}`" for name in dimensions), " ".join(f"{name}=4096" for name in dimensions)
    advice = f"its dimensions are {known}: `--shape {example}`" if dimensions else "it has no dimensions: leave out `--shape`"
    return Failure(UnknownSize(what=what, kernel="`, `".join(kernels), advice=advice, rule=rule))


def _of_fractions(interface: KernelInterface, name: str) -> bool:
    """Whether a scalar is a floating-point number, on which no time depends."""
    return any(isinstance(one, ScalarArgument) and one.name == name and "f" in one.dtype for one in interface.arguments)


def _is_number(value: str) -> bool:
    try:
        return value.isascii() and isfinite(float(value))
    except ValueError:
        return False
