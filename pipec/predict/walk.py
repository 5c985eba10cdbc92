"""Walks a role's statements for given sizes: how often each operation is executed in every block, and the values of expressions there.

Loops are walked once, times their trip count, with variables as in the first trip, or several times if inner loops depend on the trip. A
loop or branch that depends on data known only to the GPU (elements of tensors, responses of the tile scheduler) counts as one trip: the
description, and any figure derived from it, is then rough.

Expressions are evaluated with the numbers of one launch, for all blocks at once as arrays. Unlike the value analysis (pipec.kir.values),
which covers every launch and wrapping registers, nothing here affects whether a kernel is correct.
"""

from collections.abc import Iterator, Mapping
from math import ceil
from typing import Any, NamedTuple

import numpy as np

from pipec.interface import MULTIPROCESSORS
from pipec.kir.walk import subexpressions
from pipec.predict.many_blocks import Values, applied, first
from pipec.predict.tile_loops import counts, goes_over_tiles, operations_in, statements_in
from pipec.sema import tree


class Times(NamedTuple):
    """How often the reference block does something, and how often each of the others does."""

    first: float
    each: Values

    def times(self, trips: Values) -> "Times":
        return Times(self.first * float(first(trips)), self.each * trips)

    def and_then(self, more: "Times") -> "Times":
        return Times(self.first + more.first, self.each + more.each)

    @property
    def average(self) -> float:
        return float(np.add.reduce(self.each)) / self.each.size if isinstance(self.each, np.ndarray) else self.each


class Walk:
    """Walks roles with known variables, for several blocks at once: a value is a number, or one per block. The first block is the
    reference: it determines trip counts and branches."""

    def __init__(
        self,
        kernel: tree.Kernel,
        sizes: Mapping[str, int],
        multiprocessors: int,
        grid: tuple[int, int, int],
        places: np.ndarray[Any, Any],
    ) -> None:
        self.sizes = sizes
        self.specials: dict[str, Values] = {MULTIPROCESSORS: multiprocessors}
        self.together, place = len(places), places
        for axis, extent, blocks in zip("xyz", kernel.cluster.shape, grid, strict=True):
            here, place = place % max(1, blocks), place // max(1, blocks)
            self.specials |= {f"block.{axis}": here, f"grid.{axis}": blocks, f"cta.{axis}": here % extent}
            self.specials |= {f"cluster.{axis}": here // extent, f"clusters.{axis}": blocks // extent}
        x, y, z = (self.specials[f"cta.{axis}"] for axis in "xyz")
        self.specials["cta.rank"] = kernel.cluster.rank((x, y, z))  # type: ignore[arg-type]
        self._variables: dict[tree.Variable, Values | None] = {}
        self.at_last = False  # whether loop variables have their values of the last trip, except in loops over tiles
        self.unlike = False  # whether the role has loops, not over tiles, that some blocks leave earlier than others

    def walked(self, role: tree.Role) -> Iterator[tuple[tree.Operation, Times]]:
        self._variables, self.unlike = {}, False
        self._assigned = {one.variable: one.value for one in operations_in(role.body) if isinstance(one, tree.Assign)}
        return self._walk(role.body, Times(1.0, np.ones(self.together)))

    def _walk(self, body: tuple[tree.Statement, ...], times: Times) -> Iterator[tuple[tree.Operation, Times]]:
        for statement in body:
            match statement:
                case tree.For():
                    start, stop = self.value(statement.start), self.value(statement.stop)
                    trips = 1 if start is None or stop is None else _trips(start, stop, statement.step)
                    most = int(trips.max()) if isinstance(trips, np.ndarray) else trips
                    some = self._some(statement, trips) if most > 1 else ()
                    if some and start is not None:
                        for number, share in some:
                            self._variables[statement.variable] = start + number * statement.step
                            yield from self._walk(statement.body, times.times(share))
                    elif most:
                        over_tiles = goes_over_tiles(statement)
                        self.unlike |= not over_tiles and isinstance(trips, np.ndarray) and bool(np.any(trips != most))
                        behind = (
                            0 if over_tiles or start is None or not self.at_last else np.maximum(trips - 1, 0) * statement.step
                        )
                        self._variables[statement.variable] = None if start is None else start + behind
                        yield from self._walk(statement.body, times.times(trips))
                    self._variables[statement.variable] = None
                case tree.While() | tree.Elect():
                    yield from self._walk(statement.body, times)
                case tree.If():
                    yield from self._branch(statement, times)
                case tree.Assign():
                    self._variables[statement.variable] = self.value(statement.value)
                    yield statement, times
                case _:
                    yield statement, times

    def _branch(self, statement: tree.If, times: Times) -> Iterator[tuple[tree.Operation, Times]]:
        """If blocks end their loops at different trips, each takes its own branch; otherwise all take that of the first one: CTAs of a
        cluster share the work that one of them does for all."""
        holds = self.value(statement.condition)
        if isinstance(holds, np.ndarray) and counts(statement) and self._of_trips(statement.condition):
            before = dict(self._variables)
            yield from self._walk(statement.then, times.times(holds))
            taken, self._variables = self._variables, before
            yield from self._walk(statement.otherwise, times.times(~holds))
            for variable in [one for one, value in taken.items() if value is not self._variables.get(one)]:
                self._variables[variable] = None
            return
        yield from self._walk(statement.then if holds is None or first(holds) else statement.otherwise, times)

    def _of_trips(self, condition: tree.Expression) -> bool:
        """Whether it depends on the loop iteration, and not on the CTA's position in its cluster."""
        nodes = [*subexpressions(condition, self._assigned)]
        in_cluster = any(isinstance(node, tree.Special) and node.name.startswith("cta.") for node in nodes)
        return not in_cluster and any(isinstance(node, tree.ReadVariable) for node in nodes)

    def _some(self, loop: tree.For, trips: Values) -> tuple[tuple[Values, Values], ...]:
        """The trips that are walked, each with the number of trips that it represents in every block, if the work of the loop's body
        depends on the trip. Trip counts of inner loops may differ in each; branches differ where tiles run out."""
        inner = [*statements_in(loop.body)]
        bounds = (bound for one in inner if isinstance(one, tree.For) for bound in (one.start, one.stop))
        conditions = (one.condition for one in inner if isinstance(one, tree.If) and counts(one))
        if self._mentions(bounds, loop.variable):
            return tuple(
                (np.maximum(0, np.minimum(number, trips - 1)), (trips > number) * share)
                for number, share in _spread(int(np.max(trips)))
            )
        if self._mentions(conditions, loop.variable):
            most = int(np.max(trips))
            if most <= _LOOKED_AT:  # any one of them may be the only one that does something, as where CTAs share work
                return tuple((number, (trips > number) * 1) for number in range(most))
            last = np.maximum(0, trips - 1)
            return (0, last), (last, np.minimum(1, trips))
        return ()

    def _mentions(self, expressions: Iterator[tree.Expression], variable: tree.Variable) -> bool:
        nodes = (node for one in expressions for node in subexpressions(one, self._assigned))
        return any(isinstance(node, tree.ReadVariable) and node.variable == variable for node in nodes)

    # ---------------------------------------------------------------------------------------------------- expressions

    def value(self, expression: tree.Expression) -> Values | None:
        """None for values that only the GPU knows, and for values other than numbers."""
        match expression:
            case tree.Binary():  # the most frequent first
                return applied(expression.operator, self.value(expression.left), self.value(expression.right))
            case tree.Constant():
                return expression.value
            case tree.ReadVariable():
                return self._variables.get(expression.variable)
            case tree.ReadDimension():
                return self.sizes.get(expression.name)
            case tree.ReadParameter():
                return self.sizes.get(expression.parameter.name)
            case tree.Special():
                return self.specials.get(expression.name)
            case tree.Convert():
                return self.value(expression.operand)
            case tree.Unary("-"):
                return applied("-", 0, self.value(expression.operand))
            case tree.Unary("not"):
                return applied("==", 0, self.value(expression.operand))
            case tree.Select():
                holds = self.value(expression.condition)
                return None if holds is None else self.value(expression.when_true if first(holds) else expression.when_false)
            case tree.Call() if expression.function in ("min", "max", "ceildiv", "distance") and len(expression.arguments) == 2:
                left, right = (self.value(argument) for argument in expression.arguments)
                return applied(expression.function, left, right)
            case _:
                return None


def _trips(start: Values, stop: Values, step: int) -> Values:
    if isinstance(start, np.ndarray) or isinstance(stop, np.ndarray):
        return np.maximum(0, np.ceil((stop - start) / step))
    return max(0, ceil((stop - start) / step))


_LOOKED_AT = 8


def _spread(trips: int) -> tuple[tuple[int, float], ...]:
    """A few representatives of this many trips; the last one represents only itself, since fewer blocks may have it."""
    few = min(trips - 1, _LOOKED_AT)
    return (*(((2 * number + 1) * (trips - 1) // (2 * few), (trips - 1) / few) for number in range(few)), (trips - 1, 1.0))
