"""Sizes of a launch from the command line, for commands that analyse a launch without making it."""

from collections.abc import Mapping, Sequence

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
            known = ", ".join(f"`{one}`" for one in dimensions) or "none"
            kernel = "`, `".join(one.name for one in interfaces)
            raise Failure(UnknownSize(what=f"there is no dimension `{name}`", kernel=kernel, known=known))
    return [{name: value for name, value in given.items() if name in own} for own in names]


def _dimensions(interface: KernelInterface) -> list[str]:
    tensors = (argument for argument in interface.arguments if isinstance(argument, TensorArgument))
    return list(dict.fromkeys(name for tensor in tensors for name in tensor.shape if isinstance(name, str)))


def _scalars(interface: KernelInterface) -> list[str]:
    return [argument.name for argument in interface.arguments if isinstance(argument, ScalarArgument)]


def sizes_of(interface: KernelInterface, given: Mapping[str, str]) -> dict[str, int]:
    """A number for each dimension that the launch binds, and for the given scalars. Raises Failure."""
    names, scalars = _dimensions(interface), _scalars(interface)
    known = ", ".join(f"`{name}`" for name in names) or "none"
    for name, value in given.items():
        if name not in names and name not in scalars:
            raise Failure(UnknownSize(what=f"there is no dimension `{name}`", kernel=interface.name, known=known))
        if not (value.isascii() and value.isdecimal() and len(value) <= 10 and 0 < int(value) < 2**31):
            raise Failure(UnknownSize(what=f"`{name}={value[:20]}` is no size", kernel=interface.name, known=known))
    absent = [name for name in names if name not in given]
    if absent:
        listed = ", ".join(f"`{name}`" for name in absent)
        raise Failure(UnknownSize(what=f"no size is given for {listed}", kernel=interface.name, known=known))
    sizes = {name: int(value) for name, value in given.items()}
    for condition in map(formula_of, interface.conditions):
        # Conditions on the grid or on scalars that are not given can only be checked at launch.
        if {*names_in(condition)} <= sizes.keys() and not met(condition, sizes):
            values = ", ".join(f"{name} = {sizes[name]}" for name in names_in(condition))
            raise Failure(
                UnknownSize(
                    what=f"no launch has {values}: {condition_words(condition)} must hold", kernel=interface.name, known=known
                )
            )
    return sizes
