"""Where a tile lies in its tensor, as sums of terms, so that two tiles can be compared.

A form is a sum of terms with whole coefficients. A term is a launch value, the variable of a loop, something computed from these that is
no sum, or what is not followed (a variable assigned several times, a value from memory), which equals nothing, not even itself at another
time.
"""

from collections.abc import Collection, Hashable, Iterator, Mapping
from functools import lru_cache

from pipec.kir.ir import Role
from pipec.record import record
from pipec.sema import tree

Term = tuple[Hashable, ...]
Form = frozenset[tuple[Term, int]]

_ONE: Term = ("1",)
_LOOP, _UNKNOWN = "loop", "unknown"
_MOST_TERMS = 64  # of a form; longer ones are not followed
_DEEPEST = 24  # of what is computed from what is computed


@record
class Place:
    """The corner of a tile by axis, and its extent along each; None where it is not known. `ranges`: the least and the largest value of
    loop variables whose bounds are numbers."""

    corner: tuple[Form, ...]
    extent: tuple[int | None, ...]
    ranges: Mapping[tree.Variable, tuple[int, int]]


def constant(form: Form) -> int | None:
    """The number that a form is, if it has no other terms."""
    terms = dict(form)
    return terms.get(_ONE, 0) if set(terms) <= {_ONE} else None


def difference(left: Form, right: Form) -> Form:
    terms = dict(left)
    for term, factor in right:
        terms[term] = terms.get(term, 0) - factor
    return _form(terms)


def loops_in(form: Form) -> frozenset[tree.Variable]:
    """The variables of loops that a form depends on."""
    return _leaves(form)[0]


def is_followed(form: Form) -> bool:
    """Whether nothing in it is unknown: equal forms are then equal values, in the same iteration of the loops in them."""
    return _leaves(form)[1]


def factor_of(form: Form, variable: tree.Variable) -> int:
    return dict(form).get((_LOOP, variable), 0)


def without(form: Form, variable: tree.Variable) -> Form:
    return _form({term: factor for term, factor in form if term != (_LOOP, variable)})


def renamed(form: Form, names: Mapping[tree.Variable, tree.Variable]) -> Form:
    """With loops of another role in place of those of this one."""
    return frozenset((_renamed(term, names), factor) for term, factor in form)


def _renamed(term: Term, names: Mapping[tree.Variable, tree.Variable]) -> Term:
    if term[0] == _LOOP:
        return (_LOOP, names.get(term[1], term[1]))  # type: ignore[call-overload]
    return tuple(renamed(part, names) if isinstance(part, frozenset) else part for part in term)


@lru_cache(maxsize=1 << 12)
def _leaves(form: Form) -> tuple[frozenset[tree.Variable], bool]:
    """The variables of loops in it, and whether nothing in it is unknown; forms share parts, so each is looked at once."""
    loops: set[tree.Variable] = set()
    followed = True
    for term, _ in form:
        followed = followed and term[0] != _UNKNOWN
        if term[0] == _LOOP and isinstance(term[1], tree.Variable):
            loops.add(term[1])
        for part in term:
            if isinstance(part, frozenset):
                inner, known = _leaves(part)
                loops |= inner
                followed = followed and known
    return frozenset(loops), followed


def _form(terms: Mapping[Term, int]) -> Form:
    return frozenset((term, factor) for term, factor in terms.items() if factor)


def _term(*parts: Hashable) -> Form:
    return frozenset(((parts, 1),))


class Places:
    """The forms of one role's scalars."""

    def __init__(self, role: Role) -> None:
        self._loops = {loop.variable for loop in role.loops if loop.variable is not None}
        assigned: dict[tree.Variable, list[tree.Expression]] = {}
        for block in role.blocks:
            for operation in block.operations:
                if isinstance(operation, tree.Assign):
                    assigned.setdefault(operation.variable, []).append(operation.value)
        self._values = {variable: values[0] for variable, values in assigned.items() if len(values) == 1}
        self._forms: dict[tree.Expression, Form] = {}
        self._depth = 0
        self.ranges: dict[tree.Variable, tuple[int, int]] = {}
        for loop in role.loops:
            bounds = [None if bound is None else constant(self.of(bound)) for bound in (loop.start, loop.stop)]
            if loop.variable is not None and loop.step and bounds[0] is not None and bounds[1] is not None:
                values = range(bounds[0], bounds[1], loop.step)
                if values:
                    self.ranges[loop.variable] = min(values[0], values[-1]), max(values[0], values[-1])

    def of(self, expression: tree.Expression) -> Form:
        if expression not in self._forms:
            self._depth += 1
            form = self._of(expression) if self._depth < _DEEPEST else _term(_UNKNOWN, expression)
            self._depth -= 1
            self._forms[expression] = form if len(form) <= _MOST_TERMS else _term(_UNKNOWN, expression)
        return self._forms[expression]

    def _of(self, expression: tree.Expression) -> Form:
        match expression:
            case tree.Constant(value=bool() | int() as value):
                return _form({_ONE: int(value)})
            case tree.ReadDimension(name=name):
                return _term("dimension", name)
            case tree.ReadParameter(parameter=parameter):
                return _term("parameter", parameter.name)
            case tree.Special(name=name) if "." in name:  # of the block, not of the thread
                return _term("special", name)
            case tree.ReadVariable(variable=variable) if variable in self._loops:
                return _term(_LOOP, variable)
            case tree.ReadVariable(variable=variable) if variable in self._values:
                return self.of(self._values[variable])
            case tree.Unary(operator="-", operand=operand):
                return difference(frozenset(), self.of(operand))
            case tree.Binary(operator=operator, left=left, right=right):
                return _binary(operator, self.of(left), self.of(right))
            case tree.Call(function=function, arguments=arguments):
                return _term(function, *(self.of(argument) for argument in arguments))
            case tree.Select(condition=condition, when_true=one, when_false=other):
                return _term("select", self.of(condition), self.of(one), self.of(other))
            case _:
                return _term(_UNKNOWN, expression)


def _binary(operator: str, left: Form, right: Form) -> Form:
    one, other = constant(left), constant(right)
    match operator:
        case "+":
            return difference(left, difference(frozenset(), right))
        case "-":
            return difference(left, right)
        case "*" if other is not None:
            return _form({term: factor * other for term, factor in left})
        case "*" if one is not None:
            return _form({term: factor * one for term, factor in right})
        case "//" if one is not None and other is not None and other != 0:
            return _form({_ONE: one // other})
        case "%" if one is not None and other is not None and other != 0:
            return _form({_ONE: one % other})
        case _:
            return _term(operator, left, right)


def apart(one: Place, other: Place, crossed: Collection[tree.Variable] = ()) -> bool:
    """Whether the tiles have no element in common, in the same iteration of every loop that both stand in but for `crossed`."""
    return any(_far(distance, m, n) for distance, m, n in _distances(one, other, crossed))


def _distances(
    one: Place, other: Place, crossed: Collection[tree.Variable]
) -> Iterator[tuple[tuple[int, int] | None, int | None, int | None]]:
    """By axis the least and the largest distance of the corners, and both extents."""
    for (a, m), (b, n) in zip(_axes(one), _axes(other), strict=True):
        yield _between(a, b, {**one.ranges, **other.ranges}, crossed), m, n


def _between(
    one: Form, other: Form, ranges: Mapping[tree.Variable, tuple[int, int]], crossed: Collection[tree.Variable]
) -> tuple[int, int] | None:
    """The least and the largest value of one form less the other; `crossed` loops may be in different iterations."""
    if not (is_followed(one) and is_followed(other)):
        return None
    apart_now = {(_LOOP, variable) for variable in crossed}
    terms = [
        *((term, factor) for term, factor in one if term in apart_now),
        *((term, -factor) for term, factor in other if term in apart_now),
    ]
    rest = difference(frozenset((term, factor) for term, factor in one if term not in apart_now),
                      frozenset((term, factor) for term, factor in other if term not in apart_now))  # fmt: skip
    least = largest = 0
    for term, factor in (*terms, *rest):
        if term == _ONE:
            values = 1, 1
        elif term[0] == _LOOP and term[1] in ranges:
            values = ranges[term[1]]  # type: ignore[index]
        else:
            return None
        least += min(factor * value for value in values)
        largest += max(factor * value for value in values)
    nested = {
        variable
        for form in (one, other)
        for term, _ in form
        if term[0] != _LOOP
        for variable in loops_in(frozenset(((term, 1),)))
    }
    return None if nested & set(crossed) else (least, largest)


def _distance(one: Form, other: Form) -> int | None:
    """What is not followed equals nothing, not even itself at another time."""
    return constant(difference(one, other)) if is_followed(one) and is_followed(other) else None


def _axes(place: Place) -> Iterator[tuple[Form, int | None]]:
    return iter(zip(place.corner, place.extent, strict=True))


def _far(distance: tuple[int, int] | None, extent: int | None, other: int | None) -> bool:
    if distance is None:
        return False
    return (other is not None and distance[0] >= other) or (extent is not None and -distance[1] >= extent)


def apart_in_other_iterations(one: Place, other: Place, loops: Mapping[tree.Variable, int | None]) -> bool:
    """Whether the tiles have no element in common in any two different iterations of the loops (variable: step).

    Each loop alone must set them apart: along some axis no other of the loops counts, and from one iteration to the next the tile goes on
    by its extent at least. Loops that are not named are in the same iteration.
    """
    return bool(loops) and all(
        step is not None
        and any(_steps_over((a, m), (b, n), loop, step, loops) for (a, m), (b, n) in zip(_axes(one), _axes(other), strict=True))
        for loop, step in loops.items()
    )


def _steps_over(
    one: tuple[Form, int | None],
    other: tuple[Form, int | None],
    loop: tree.Variable,
    step: int,
    loops: Mapping[tree.Variable, int | None],
) -> bool:
    (a, m), (b, n) = one, other
    rests = without(a, loop), without(b, loop)
    factor, rest = factor_of(a, loop), _distance(*rests)
    if m is None or n is None or rest is None or factor_of(b, loop) != factor:
        return False
    if any(loops_in(form) & loops.keys() for form in rests):
        return False
    return abs(factor * step) - abs(rest) >= max(m, n)


def overlap_by_numbers(one: Place, other: Place, crossed: Collection[tree.Variable] = ()) -> bool:
    """Whether the distances of the tiles are known as numbers along every axis, and are not enough to keep them apart."""
    found = list(_distances(one, other, crossed))
    return all(distance is not None for distance, _, _ in found) and not any(_far(*axis) for axis in found)


def same(one: Place, other: Place) -> bool:
    """The same elements, in the same iteration of every loop that both stand in."""
    return one.extent == other.extent and one.corner == other.corner and all(is_followed(form) for form in one.corner)
