"""Which parameter of a kernel buys most: each is moved by one step, and the time predicted anew."""

from collections.abc import Iterator, Mapping

from pipec.diag.message import Failure
from pipec.driver import Compilation, compile_source
from pipec.predict.launch import Prediction, prediction
from pipec.record import record, replace
from pipec.sema import tree
from pipec.syntax import ast

_MOST = 16  # other kernels that are looked at
_FEW = 16  # counts below it move by one, extents from there on are doubled and halved


@record
class Variation:
    """`gain`: how much faster the launch is with this value, as a part; negative where it is slower."""

    parameter: str
    value: int
    seconds: float
    gain: float


def variations(state: Compilation, name: str, found: Prediction) -> tuple[Variation, ...]:
    """The best first. Values that the checks refuse are left out."""
    seen = []
    for parameter, value in list(_steps(state, name))[:_MOST]:
        options = replace(state.options, constants={**state.options.constants, parameter: value}, kernel=name)
        other = compile_source(state.source, options, "limits", state.file)
        if other.failed or not other.plans:
            continue
        try:
            seconds = prediction(other, name, found.sizes, None, found.clock, alone=True).seconds
        except Failure:
            continue
        seen.append(Variation(parameter, value, seconds, found.seconds / seconds - 1))
    return tuple(sorted(seen, key=lambda one: one.seconds))


def _steps(state: Compilation, name: str) -> Iterator[tuple[str, int]]:
    for parameter, value in integers(state, name).items():
        steps = (value + 1, value - 1) if value < _FEW else (value * 2, value // 2)
        yield from ((parameter, step) for step in steps if step > 0)


def integers(state: Compilation, name: str) -> Mapping[str, int]:
    """The compile-time parameters that are numbers in the file or set from outside; those worked out from others follow them."""
    kernel = _kernel(state, name)
    found = {}
    for constant in kernel.constants if kernel is not None else ():
        given = state.options.constants.get(constant.name.name)
        value = given if given is not None else constant.default.value if isinstance(constant.default, ast.Number) else None
        if isinstance(value, str) and value.isdecimal():
            value = int(value)
        if isinstance(value, int) and not isinstance(value, bool) and value > 0:
            found[constant.name.name] = value
    return found


def stages_parameter(state: Compilation, name: str, pipeline: tree.Pipeline) -> str | None:
    """The parameter that the declaration of a pipeline takes as the number of its stages."""
    kernel = _kernel(state, name)
    for statement in kernel.body if kernel is not None else ():
        match statement:
            case ast.Assign(target=ast.Name(name=target), value=ast.Call(arguments=arguments)) if target == pipeline.name:
                for argument in arguments:
                    if argument.name == "stages" and isinstance(argument.value, ast.Name):
                        word = argument.value.name
                        return word if word in integers(state, name) else None
            case _:
                pass
    return None


def _kernel(state: Compilation, name: str) -> ast.Kernel | None:
    return next((one for one in state.file.kernels if one.name.name == name), None) if state.file is not None else None
