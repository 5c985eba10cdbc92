"""The sizes and scalars to run a kernel with: from the command line, or from its docstring."""

from collections.abc import Iterator, Mapping

from pipec.diag.catalogue.commands import run as messages
from pipec.diag.message import Failure
from pipec.interface import KernelInterface, TensorArgument
from pipec.reference import shape_sets

_LONGEST_NUMBER = 40  # characters of a number that are parsed, and repeated in messages


def check_names(shapes: list[tuple[str, str]], interfaces: list[KernelInterface]) -> None:
    """Raises Failure for a name that is no size or scalar of any kernel."""
    known = {name for interface in interfaces for name in _names(interface)}
    for name, value in shapes:
        if name not in known:
            listed = ", ".join(sorted(known)) or "none"
            raise Failure(messages.BadShape(name=name, value=value, problem=f"names no dimension or scalar; there is {listed}"))


def _names(interface: KernelInterface) -> Iterator[str]:
    for argument in interface.arguments:
        if isinstance(argument, TensorArgument):
            yield from (size for size in argument.shape if isinstance(size, str))
        else:
            yield argument.name


def sizes_to_run(interface: KernelInterface, document: str, given: list[tuple[str, str]]) -> list[dict[str, float]]:
    """The sizes to run with: the given ones, completed by the docstring's first set; otherwise all sets of the docstring."""
    sets: list[dict[str, str]] = shape_sets(document) or [{}]
    if given:
        sets = [{**sets[0], **dict(given)}]
    return [_numbers(interface, values) for values in sets]


def _numbers(interface: KernelInterface, values: Mapping[str, str]) -> dict[str, float]:
    dimensions = {
        size
        for argument in interface.arguments
        if isinstance(argument, TensorArgument)
        for size in argument.shape
        if isinstance(size, str)
    }
    missing = sorted(dimensions - values.keys())
    if missing:
        raise Failure(
            messages.MissingShape(
                kernel=interface.name,
                names=", ".join(f"`{name}`" for name in missing),
                example=" ".join(f"{name}=256" for name in missing),
            )
        )
    numbers: dict[str, float] = {}
    for name in _names(interface):
        if name in values:
            numbers[name] = _number(name, values[name], name in dimensions)
    return numbers


def _number(name: str, text: str, dimension: bool) -> float:
    short = text if len(text) <= _LONGEST_NUMBER else f"{text[:_LONGEST_NUMBER]}..."
    value: float
    try:
        if not text.isascii() or "_" in text:  # Python accepts more number syntax than the language
            raise ValueError
        value = int(text) if len(text) <= _LONGEST_NUMBER and text.lstrip("+-").isdecimal() else float(text)
    except ValueError:
        problem = "is not a number" + (": sizes are separated by spaces, as in `--shape M=64 N=64`" if "," in text else "")
        raise Failure(messages.BadShape(name=name, value=short, problem=problem)) from None
    if dimension and (not isinstance(value, int) or not 0 <= value < 2**31):
        raise Failure(messages.BadShape(name=name, value=short, problem="must be a whole number from 0 to 2147483647"))
    return value
