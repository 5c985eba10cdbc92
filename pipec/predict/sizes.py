"""Sizes of a launch from the command line, for commands that analyse a launch without making it."""

from collections.abc import Mapping

from pipec.diag.catalogue.language.tuning import UnknownSize
from pipec.diag.message import Failure
from pipec.interface import KernelInterface, ScalarArgument, TensorArgument
from pipec.verify.condition_text import condition_words
from pipec.verify.conditions import met, names_in
from pipec.verify.data import formula_of


def sizes_of(interface: KernelInterface, given: Mapping[str, str]) -> dict[str, int]:
    """A number for each dimension that the launch binds, and for the given scalars. Raises Failure."""
    tensors = (argument for argument in interface.arguments if isinstance(argument, TensorArgument))
    names = list(dict.fromkeys(name for tensor in tensors for name in tensor.shape if isinstance(name, str)))
    scalars = [argument.name for argument in interface.arguments if isinstance(argument, ScalarArgument)]
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
