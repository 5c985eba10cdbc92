"""`tune BM in (64, 128), STAGES in (3, 4) where ...`: the candidate combinations of compile-time parameters.

Conditions and values see only what is the same for every combination: names of the file and the compile-time parameters. What the kernel
computes from parameters is known only for the combination being compiled, and is out of scope.
"""

from collections.abc import Callable, Iterator, Mapping
from itertools import product
from math import prod
from typing import Any

from pipec.budgets import BUDGETS
from pipec.diag.catalogue.language import tuning as messages
from pipec.record import fields_of, is_record, mutable, replace
from pipec.sema import tree
from pipec.sema.context import Context
from pipec.sema.meanings import Known, KnownValue
from pipec.sema.scope import Scope
from pipec.sema.values.expected import known
from pipec.source import Span
from pipec.syntax import ast

# The value of one compile-time parameter, given those before it.
Evaluate = Callable[[Context, ast.Constant], KnownValue]


@mutable
class _List:
    """The candidate values of a parameter, with their span."""

    values: tuple[KnownValue, ...]
    span: Span


class Tuning:
    """Collects the `tune` statements of a kernel. `current` are the values being compiled, `pinned` the parameters set from outside."""

    def __init__(self, context: Context, node: ast.Kernel, pinned: frozenset[str], evaluate: Evaluate) -> None:
        self._context, self._node, self._pinned, self._evaluate = context, node, pinned, evaluate
        self._lists: dict[str, _List] = {}
        self._conditions: list[ast.Expression] = []
        self._statements: list[Span] = []
        self._wrong = 0  # statements with an error
        assigned = (statement for statement in node.body if isinstance(statement, ast.Assign | ast.Comptime))
        self._later = {statement.target.name for statement in assigned}

    def read(self, statement: ast.Tune, current: Mapping[str, KnownValue]) -> None:
        """Checks one statement; reports its errors and raises Reported."""
        self._wrong += 1  # until all of it has been checked
        self._statements.append(statement.span)
        known_names = {constant.name.name for constant in self._node.constants}
        around = self._around(current)
        for one in statement.parameters:
            name = one.name.name
            if name not in known_names:
                listed = ", ".join(f"`{other}`" for other in sorted(known_names)) or "none"
                self._context.fail(messages.NotTunable(name=name, kernel=self._node.name.name, known=listed, at=one.name.span))
            if name in self._lists:
                self._context.fail(
                    messages.TunedTwice(what=f"`{name}` is listed", at=one.name.span, first=self._lists[name].span)
                )
            if name in current:  # its default may have been wrong, which has been reported
                self._lists[name] = _List(self._values(around, one, current[name]), one.name.span)
        if statement.condition is not None:
            self._refuse_later_names(around, statement.condition)
            self._holds(around, statement.condition)
            self._conditions.append(statement.condition)
        self._wrong -= 1

    def _values(self, context: Context, one: ast.Tuned, default: KnownValue) -> tuple[KnownValue, ...]:
        kind: Any = type(default)
        found: dict[object, Span] = {}
        values: list[KnownValue] = []
        for node in one.values:
            self._refuse_later_names(context, node)
            what, like = f"a value of `{one.name.name}`", f"of the type of its default, {_shown(default)}"
            value: KnownValue = known(context, node, kind, what, like)
            # A duplicate would be measured twice, and counted twice against the limit on combinations.
            if value in found:
                what = f"{_shown(value)} is listed for `{one.name.name}`"
                self._context.fail(messages.TunedTwice(what=what, at=node.span, first=found[value]))
            found[value] = node.span
            values.append(value)
        return tuple(values)

    def _around(self, values: Mapping[str, KnownValue]) -> Context:
        """A context with only the file's names and the parameters."""
        scope = Scope(self._context.scope.parent)
        for constant in self._node.constants:
            if constant.name.name in values:
                scope.bind(constant.name.name, Known(values[constant.name.name], constant.name.span), constant.name.span)
        return replace(self._context, scope=scope)

    def _holds(self, context: Context, condition: ast.Expression) -> bool:
        return known(context, condition, bool, "what follows `where`", "a condition")

    def _refuse_later_names(self, context: Context, node: object) -> None:
        """Names of the kernel that have no value here deserve a better message than "not defined"."""
        for name in _names(node):
            if context.scope.find(name.name) is not None:
                continue
            bound = self._context.scope.find(name.name)
            if isinstance(bound and bound.meaning, tree.ReadDimension):
                self._context.fail(messages.NotKnownWhenTuning(name=name.name, what="a size, known at the launch", at=name.span))
            if bound is not None or name.name in self._later:
                what = "made from parameters, for one candidate at a time"
                self._context.fail(messages.NotKnownWhenTuning(name=name.name, what=what, at=name.span))

    def finish(self, current: Mapping[str, KnownValue]) -> tree.Tuning | None:
        """All combinations of the parameters that are not pinned, the current one first; None if the kernel tunes nothing."""
        # A parameter without a value has been reported at its declaration.
        if not self._lists or self._wrong or any(constant.name.name not in current for constant in self._node.constants):
            return None
        free = {name: row.values for name, row in self._lists.items() if name not in self._pinned}
        count, most = prod(len(values) for values in free.values()), BUDGETS["tuned combinations"].limit
        kernel, places = self._node.name.name, tuple(self._statements)
        if count > most:
            self._context.fail(messages.TooManyCandidates(kernel=kernel, count=count, most=most, at=places))
        first = tuple(current[name] for name in free)
        chosen = list(self._chosen(free, current))
        # Pinned values may satisfy none of the conditions; then there are no other candidates.
        if not chosen and free and not self._pinned:
            shown = ", ".join(f"{name}={_shown(current[name])}" for name in free)
            at = tuple(condition.span for condition in self._conditions)
            self._context.fail(messages.NoCandidates(kernel=kernel, values=shown, at=at))
        return tree.Tuning(tuple(free), (first, *(one for one in chosen if one != first)), count, places[0])

    def _chosen(
        self, free: Mapping[str, tuple[KnownValue, ...]], current: Mapping[str, KnownValue]
    ) -> Iterator[tuple[KnownValue, ...]]:
        context = self._around({})
        for combination in product(*free.values()):
            context.scope.names.clear()
            self._bind_following(context, dict(zip(free, combination, strict=True)), current)
            if all(self._holds(context, condition) for condition in self._conditions):
                yield combination

    def _bind_following(self, context: Context, chosen: dict[str, KnownValue], current: Mapping[str, KnownValue]) -> None:
        """Binds every parameter to its value for a choice, in order: a default may depend on earlier parameters."""
        for constant in self._node.constants:
            name, at = constant.name.name, constant.name.span
            if name in chosen:
                value = chosen[name]
            # A literal default is the same for every choice; evaluating it thousands of times would dominate the cost.
            elif name in self._pinned or constant.default is None or isinstance(constant.default, ast.Number | ast.Boolean):
                value = current[name]
            else:
                value = self._evaluate(context, constant)
            context.scope.bind(name, Known(value, at), at)


def _names(node: object) -> Iterator[ast.Name]:
    """Every name in an expression."""
    if isinstance(node, ast.Name):
        yield node
    elif isinstance(node, tuple):
        for item in node:
            yield from _names(item)
    elif is_record(node) and not isinstance(node, Span):
        for value in fields_of(node).values():
            yield from _names(value)


def _shown(value: KnownValue) -> str:
    return str(value)
