"""What the arguments of a function are: arrays, or whole numbers, axes and words, by the name of the parameter."""

import ast
from collections.abc import Callable, Iterable, Mapping
from typing import Any, get_args

from pipec.reference.bounded import MOST_NUMBERS, Bounded
from pipec.reference.copies import Mode
from pipec.reference.functions import Function
from pipec.reference.problem import ReferenceProblem
from pipec.reference.shapes import axes_within, fitting

Evaluate = Callable[[ast.expr], Bounded]


def arguments_of(function: Function, call: ast.Call, evaluate: Evaluate) -> tuple[list[Any], dict[str, Any]]:
    """The arguments of a call of `function.value`, and its options. Raises ReferenceProblem where they are not those that it takes."""
    bound = _Binding(function, call)
    read = {name: _KINDS.get(name, _array)(node, evaluate) for name, node in bound.named.items()}
    rest = [_number(node, evaluate) for node in bound.rest]
    _check(function, read)
    operands = [read.pop(name) for name in bound.positional if name in read]
    return [*operands, *rest], read


class _Binding:
    """The expression of each parameter, as in a call of a Python function: `named`, of which those in `positional` may do without a
    name; and `rest`, if it takes any number of arguments."""

    def __init__(self, function: Function, call: ast.Call) -> None:
        (definition,) = ast.parse(f"def of({function.signature}): pass").body
        assert isinstance(definition, ast.FunctionDef)
        parameters = definition.args
        self._function = function
        self.positional = positional = [one.arg for one in parameters.args]
        options = [one.arg for one in parameters.kwonlyargs]
        if len(call.args) > len(positional) and not parameters.vararg:
            named = "".join(f", and `{option}=` is written out" for option in options[:1])
            raise self._refused(f"there are {len(call.args)} arguments for {len(positional) or 'none'}{named}{function.advice}")
        self.named = dict(zip(positional, call.args, strict=False))
        self.rest = call.args[len(positional) :]
        for keyword in call.keywords:
            if keyword.arg not in positional + options:
                raise self._refused(f"it has no `{keyword.arg}`" if keyword.arg else "its arguments are written one by one")
            if keyword.arg in self.named:
                raise self._refused(f"`{keyword.arg}` is given twice")
            self.named[keyword.arg] = keyword.value
        needed = positional[: len(positional) - len(parameters.defaults)]
        missing = [f"`{name}`" for name in needed if name not in self.named]
        if missing:
            raise self._refused(f"{', '.join(missing)} {'is' if len(missing) == 1 else 'are'} missing")

    def _refused(self, text: str) -> ReferenceProblem:
        return ReferenceProblem(f"`{self._function.name}` is called as `{self._function.shown}`: {text}")


def _check(function: Function, read: Mapping[str, Any]) -> None:
    for name, rank in function.ranks.items():
        if name in read and read[name].value.ndim < rank:
            raise ReferenceProblem(
                f"`{function.name}`: `{name}` has at least {rank} dimension{'s' * (rank > 1)}, and here it has {read[name].value.ndim}"
            )
    if function.elementwise:
        fitting([one.value.shape for one in read.values()])
    axis = read.get("axis")
    if axis is None and "axis" in read and "axis=None" not in function.signature:
        raise ReferenceProblem(f"`{function.name}` needs an axis")
    if isinstance(axis, tuple) and not function.several_axes:
        raise ReferenceProblem(f"`{function.name}` takes one axis")
    if "x" in read:
        axes_within(axis, read["x"].value.ndim)


def _array(node: ast.expr, evaluate: Evaluate) -> Bounded:
    return evaluate(node)


def _number(node: ast.expr, evaluate: Evaluate) -> Bounded:
    value = evaluate(node)
    if value.value.ndim:
        raise ReferenceProblem(f"`{ast.unparse(node)}` is an array of shape {value.value.shape}: here stands one number")
    return value


def _whole(least: int) -> Callable[[ast.expr, Evaluate], int]:
    def read(node: ast.expr, evaluate: Evaluate) -> int:
        value = _number(node, evaluate)
        if not value.whole or not least <= value.value <= MOST_NUMBERS:
            raise ReferenceProblem(f"`{ast.unparse(node)}` is no whole number from {least} to {MOST_NUMBERS}")
        return int(value.value)

    return read


def _parts(node: ast.expr) -> list[ast.expr] | None:
    return node.elts if isinstance(node, ast.Tuple | ast.List) else None


def _arrays(node: ast.expr, evaluate: Evaluate) -> tuple[Bounded, ...]:
    parts = _parts(node)
    if not parts:
        raise ReferenceProblem(f"`{ast.unparse(node)}` is no list of arrays: they are written `(a, b)`")
    return tuple(map(evaluate, parts))


_WIDTHS = "of `pad` is a whole number, `(before, after)`, or such a pair for each axis, `((1, 1), (0, 2))`"


def _widths(node: ast.expr, evaluate: Evaluate) -> tuple[tuple[int, int], ...]:
    pairs = _parts(node)
    if pairs is None:
        width = _width(node, evaluate)
        return ((width, width),)
    return tuple(_pair(part, evaluate) for part in ([node] if not any(map(_parts, pairs)) else pairs))


def _pair(node: ast.expr, evaluate: Evaluate) -> tuple[int, int]:
    match _parts(node):
        case [before, after]:
            return _width(before, evaluate), _width(after, evaluate)
        case _:
            raise ReferenceProblem(f"`{ast.unparse(node)}` is no width: that {_WIDTHS}")


def _width(node: ast.expr, evaluate: Evaluate) -> int:
    if _parts(node) is not None:
        raise ReferenceProblem(f"`{ast.unparse(node)}` is no width: that {_WIDTHS}")
    return _whole(0)(node, evaluate)


def _axis(node: ast.expr, evaluate: Evaluate) -> int | tuple[int, ...] | None:
    literal = _literal(node)
    if literal is None:
        return None
    axes: tuple[Any, ...] = literal if isinstance(literal, tuple) else (literal,)
    if not all(isinstance(axis, int) and not isinstance(axis, bool) for axis in axes):
        raise ReferenceProblem(f"`{ast.unparse(node)}` is no axis: one is a number, as in `axis=1` or `axis=-1`")
    return axes if isinstance(literal, tuple) else int(literal)


def _one_of(words: Iterable[object]) -> Callable[[ast.expr, Evaluate], Any]:
    allowed = tuple(words)
    shown = ", ".join(f'`"{word}"`' if isinstance(word, str) else f"`{word}`" for word in allowed)

    def read(node: ast.expr, evaluate: Evaluate) -> Any:
        literal = _literal(node)
        if not any(literal is word or isinstance(literal, str) and literal == word for word in allowed):
            raise ReferenceProblem(f"`{ast.unparse(node)}` is none of {shown}")
        return literal

    return read


def _literal(node: ast.expr) -> Any:
    try:
        return ast.literal_eval(node)
    except (ValueError, TypeError, SyntaxError, MemoryError, RecursionError):
        return Ellipsis  # which is none of them


_KINDS: dict[str, Callable[[ast.expr, Evaluate], Any]] = {
    "applied": _number,
    "arrays": _arrays,
    "axis": _axis,
    "block": _whole(1),
    "causal": _number,
    "columns": _whole(1),
    "constant_values": _number,
    "count": _whole(0),
    "keepdims": _one_of((False, True)),
    "mode": _one_of(get_args(Mode)),
    "rows": _whole(1),
    "shift": _whole(-MOST_NUMBERS),
    "width": _widths,
}
