"""The compile-time parameters of a kernel in its source: their values, and what each of them affects."""

from collections import Counter
from collections.abc import Iterator, Mapping

from pipec.driver import Compilation
from pipec.predict.tile_loops import written
from pipec.predict.work import read
from pipec.record import record
from pipec.sema import tree
from pipec.syntax import ast


def integers(state: Compilation, name: str) -> Mapping[str, int]:
    """The compile-time parameters that are numbers in the file or set from outside, not derived from others."""
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


def shared_with(state: Compilation, name: str) -> Mapping[str, tuple[str, ...]]:
    """Parameter -> other kernels of the file that have it too, and that read what this one writes or write what it reads: if they agree
    about the work, they need the same value, and a value that is set for the file is theirs as well."""
    kernels = state.trees or ()
    this = next(one for one in kernels if one.name == name)
    reads, writes = read(this), written(this)
    found: dict[str, tuple[str, ...]] = {}
    for other in kernels:
        if other is not this and (reads & written(other) or writes & read(other)):
            for parameter in integers(state, other.name):
                found[parameter] = (*found.get(parameter, ()), other.name)
    return found


def stages_parameter(state: Compilation, name: str, pipeline: tree.Pipeline) -> str | None:
    """The parameter that a pipeline's declaration uses as its number of stages."""
    kernel = _kernel(state, name)
    for target, word in _stages_of_rings(kernel) if kernel is not None else ():
        if target == pipeline.name:
            return word if word in integers(state, name) else None
    return None


@record
class Mentions:
    """Where a kernel's source mentions a name, and how often: in tensor types, in the grid, in roles and functions, anywhere. `rings`:
    the name for a pipeline's number of stages, by pipeline."""

    tensors: Counter[str]
    grid: Counter[str]
    roles: Counter[str]
    anywhere: Counter[str]
    rings: Mapping[str, str]

    def only_stages_of(self, parameter: str) -> frozenset[str] | None:
        """The pipelines whose number of stages the parameter is; None if it has other uses."""
        rings = frozenset(ring for ring, word in self.rings.items() if word == parameter)
        asked = any(self.anywhere[word] for word in _ASKED)
        return None if asked or self.anywhere[parameter] != len(rings) else rings

    @property
    def only_in_roles(self) -> frozenset[str]:
        """Names that affect only how roles compute, not what passes between them."""
        return frozenset(word for word, count in self.roles.items() if count == self.anywhere[word])


_ASKED = ("num_stages", "num_group_stages")  # other names for the same number


def mentions(state: Compilation, name: str) -> Mentions:
    kernel = _kernel(state, name)
    if kernel is None:
        return Mentions(Counter(), Counter(), Counter(), Counter(), {})
    assert state.file is not None
    bodies = (*(one.body for one in _roles(kernel)), *(one.body for one in state.file.functions))
    tensors, roles = Counter(_words(kernel.parameters)), Counter(_words(bodies))
    grid = Counter(word for one in kernel.body if isinstance(one, ast.ExpressionStatement) for word in _of_grid(one.value))
    around = Counter(_words(tuple(one for one in kernel.body if not isinstance(one, ast.Role))))
    around.update(_words(tuple(one.default for one in kernel.constants)))
    around.update(_words(tuple((one.arguments, one.clauses) for one in _roles(kernel))))
    return Mentions(tensors, grid, roles, tensors + roles + around, dict(_stages_of_rings(kernel)))


def _roles(kernel: ast.Kernel) -> list[ast.Role]:
    return [one for one in kernel.body if isinstance(one, ast.Role)]


def _of_grid(call: ast.Expression) -> Iterator[str]:
    match call:
        case ast.Call(callee=ast.Name(name="grid"), arguments=arguments):
            yield from _words(arguments)
        case _:
            pass


def without_tuning(file: ast.File) -> ast.File:
    """Drops the lists of candidate values, which have been read; combining them again for each value would dominate the cost."""

    def without(kernel: ast.Kernel) -> ast.Kernel:
        body = tuple(one for one in kernel.body if not isinstance(one, ast.Tune))
        return ast.Kernel(kernel.name, kernel.constants, kernel.parameters, body, kernel.span)

    return ast.File(tuple(map(without, file.kernels)), file.functions, file.constants)


def _kernel(state: Compilation, name: str) -> ast.Kernel | None:
    assert state.file is not None
    return next((one for one in without_tuning(state.file).kernels if one.name.name == name), None)


def _stages_of_rings(kernel: ast.Kernel) -> Iterator[tuple[str, str]]:
    """Pipelines whose number of stages is a name, with that name."""
    for statement in kernel.body:
        match statement:
            case ast.Assign(target=ast.Name(name=target), value=ast.Call(arguments=arguments)):
                for argument in arguments:
                    if argument.name == "stages" and isinstance(argument.value, ast.Name):
                        yield target, argument.value.name
            case _:
                pass


def _words(node: object) -> list[str]:
    """Names and attributes in a part of the syntax tree, with repetitions."""
    found: list[str] = []
    stack = [node]
    while stack:
        one = stack.pop()
        kind = type(one)
        if kind is ast.Name or kind is ast.Attribute:
            assert isinstance(one, ast.Name | ast.Attribute)
            found.append(one.name)
        if isinstance(one, tuple):
            stack += one
        elif kind.__module__ == ast.__name__:
            stack += [getattr(one, field) for field in kind.__match_args__]  # type: ignore[attr-defined]  # a record
    return found
