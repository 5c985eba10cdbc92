"""Variables that a role assigns more than once, told in words that do not depend on the role.

What such a variable holds follows from the statements that it is computed by, and from where it is read. Two roles that compute it by the
same statements, under the same loops and branches, hold the same value at the same place: behind as many of these statements, in
the same iteration of the loops around. So the words are those statements, with the variables renamed in the order of their
appearance, and the place.
"""

from collections.abc import Callable, Iterator
from hashlib import sha256

from pipec.kir.walk import subexpressions
from pipec.record import record
from pipec.sema import tree

_LONGEST_WORDS = 4000  # characters
_OUTER = (tree.If, tree.For, tree.While, tree.Elect)


class NotAlike(Exception):
    """It depends on something that other roles may see differently."""


@record
class _Site:
    """An assignment, its place in the text, and the statements around it, outermost first."""

    statement: tree.Assign
    number: int
    around: tuple[tree.Statement, ...]


@record
class _Words:
    """`numbers` are the places in the text of the statements that the words tell of, `outer` those of the loops and branches."""

    text: str
    numbers: tuple[int, ...]
    outer: tuple[int, ...]


class Carried:
    """`leaf` words what has no operands of its own (of an element of a tensor, the tensor); None where roles may see it differently."""

    def __init__(self, role: tree.Role, leaf: Callable[[tree.Expression], str | None]) -> None:
        self._leaf = leaf
        self._body = role.body
        self._sites: dict[tree.Variable, list[_Site]] = {}
        self._loops: set[tree.Variable] = set()
        self._numbers: dict[tree.Statement, int] = {}
        self._passing: dict[tree.Variable, bool] = {}
        self._texts: dict[tree.Variable, str] = {}  # of variables that only pass on, in the words that are being made
        self._words: dict[tree.Variable, _Words | None] = {}
        self._collect(role.body, ())

    def _collect(self, statements: tuple[tree.Statement, ...], around: tuple[tree.Statement, ...]) -> None:
        for statement in statements:
            self._numbers[statement] = len(self._numbers)
            if isinstance(statement, tree.Assign):
                site = _Site(statement, self._numbers[statement], around)
                self._sites.setdefault(statement.variable, []).append(site)
            counted = counted_by(statement)
            if counted is not None:
                self._loops.add(counted)
            for body in bodies(statement):
                self._collect(body, (*around, statement))

    def number(self, statement: tree.Statement) -> int:
        """The place of a statement in the text of the role."""
        return self._numbers[statement]

    def key(self, variable: tree.Variable, place: int, around: tuple[int, ...], iterations: tuple[str, ...]) -> str | None:
        """The value of the variable at a place of the text, inside the loops and branches `around`, in these iterations; None where
        roles may differ."""
        if variable not in self._words:
            self._words[variable] = self._tell(variable)
        words = self._words[variable]
        if words is None:
            return None
        behind = sum(number < place for number in words.numbers)
        inside = [index for index, number in enumerate(words.outer) if number in around]
        return f"<{words.text} behind {behind} in {inside} at {', '.join(iterations)}>"

    def _tell(self, variable: tree.Variable) -> _Words | None:
        self._texts.clear()
        try:
            needed = self._needed(variable)
            names: dict[tree.Variable, str] = {}
            numbers: list[int] = []
            outer: list[int] = []
            text = " ".join(self._statements(self._body, needed, names, numbers, outer))
        except NotAlike:
            return None
        return _Words(f"{names[variable]} of {text}", tuple(numbers), tuple(outer))

    def _needed(self, variable: tree.Variable) -> set[tree.Variable]:
        """The variables whose assignments go into it, itself included."""
        needed: set[tree.Variable] = set()
        seen: set[tree.Variable] = set()
        unseen = [variable]
        while unseen:
            one = unseen.pop()
            if one in seen or one in self._loops:
                continue
            seen.add(one)
            if one not in self._sites:
                raise NotAlike
            if not self._passes_on(one):
                needed.add(one)
            for site in self._sites[one]:
                for expression in (site.statement.value, *(e for outer in site.around for e in _control(outer))):
                    unseen += [node.variable for node in subexpressions(expression) if isinstance(node, tree.ReadVariable)]
        return needed

    def _passes_on(self, variable: tree.Variable) -> bool:
        """It is assigned once, and what it is made of does not change while it is in sight: its expression says as much."""
        if variable not in self._passing:
            self._passing[variable] = False
            self._passing[variable] = self._is_passing(variable)
        return self._passing[variable]

    def _is_passing(self, variable: tree.Variable) -> bool:
        sites = self._sites[variable]
        return len(sites) == 1 and all(
            node.variable in self._loops or (node.variable in self._sites and self._passes_on(node.variable))
            for node in subexpressions(sites[0].statement.value)
            if isinstance(node, tree.ReadVariable)
        )

    def _statements(
        self,
        statements: tuple[tree.Statement, ...],
        needed: set[tree.Variable],
        names: dict[tree.Variable, str],
        numbers: list[int],
        outer: list[int],
    ) -> Iterator[str]:
        for statement in statements:
            if isinstance(statement, tree.Assign) and statement.variable in needed:
                numbers.append(self.number(statement))
                value = self._text(statement.value, names)
                yield f"{names.setdefault(statement.variable, f'v{len(names)}')} = {value};"
            elif isinstance(statement, _OUTER) and self._holds(statement, needed):
                if isinstance(statement, tree.Elect):
                    raise NotAlike
                outer.append(self.number(statement))
                heads = [self._text(expression, names) for expression in _control(statement)]
                counted = counted_by(statement)
                if counted is not None:
                    heads = [names.setdefault(counted, f"v{len(names)}"), *heads]
                if isinstance(statement, tree.For):
                    heads.append(str(statement.step))
                parts = [" ".join(self._statements(body, needed, names, numbers, outer)) for body in bodies(statement)]
                yield f"{type(statement).__name__} {' '.join(heads)} {{ {' | '.join(parts)} }}"

    def _holds(self, outer: tree.Statement, needed: set[tree.Variable]) -> bool:
        return any(outer is one for variable in needed for site in self._sites[variable] for one in site.around)

    def _text(self, expression: tree.Expression, names: dict[tree.Variable, str]) -> str:
        match expression:
            case tree.ReadVariable(variable=variable):
                if variable in names:
                    return names[variable]
                if variable in self._loops or variable not in self._sites or not self._passes_on(variable):
                    raise NotAlike
                if variable not in self._texts:
                    self._texts[variable] = short(self._text(self._sites[variable][0].statement.value, names))
                return self._texts[variable]
            case tree.Unary(operator=operator, operand=operand):
                return f"({operator} {self._text(operand, names)})"
            case tree.Binary(operator=operator, left=left, right=right):
                return f"({self._text(left, names)} {operator} {self._text(right, names)})"
            case tree.Call(function=function, arguments=arguments):
                return f"{function}({', '.join(self._text(one, names) for one in arguments)})"
            case tree.Select(condition=condition, when_true=one, when_false=other):
                return f"({self._text(one, names)} if {self._text(condition, names)} else {self._text(other, names)})"
            case tree.Convert(operand=operand, type=value_type):
                return f"{value_type}({self._text(operand, names)})"
            case tree.ReadElement(source=source):
                found = self._leaf(expression)
                if found is None:
                    raise NotAlike
                return f"{found}[{', '.join(self._text(one, names) for one in source.coordinates)}]"
            case _:
                found = self._leaf(expression)
                if found is None:
                    raise NotAlike
                return found


def short(words: str) -> str:
    """Words that double from line to line, where a variable stands for its expression, are told by their digest."""
    return words if len(words) <= _LONGEST_WORDS else f"digest {sha256(words.encode()).hexdigest()}"


def bodies(statement: tree.Statement) -> tuple[tuple[tree.Statement, ...], ...]:
    match statement:
        case tree.If():
            return statement.then, statement.otherwise
        case tree.For() | tree.While() | tree.Elect():
            return (statement.body,)
        case _:
            return ()


def counted_by(statement: tree.Statement) -> tree.Variable | None:
    """What a loop counts, alike in all roles in the same iteration: its variable, or the tile that a scheduler hands out."""
    match statement:
        case tree.For():
            return statement.variable
        case tree.While():
            return statement.tile
        case _:
            return None


def _control(statement: tree.Statement) -> tuple[tree.Expression, ...]:
    match statement:
        case tree.While() if statement.tile is not None:
            return ()
        case tree.If() | tree.While():
            return (statement.condition,)
        case tree.For():
            return statement.start, statement.stop
        case _:
            return ()
