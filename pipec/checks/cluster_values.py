"""What an expression is in each CTA of a cluster, in a form by which two CTAs can be compared.

A form is a sum of terms with whole coefficients. Everything that the CTAs of a cluster have in common is a term of its own: sizes, the
cluster's number, a stage's index. Where a CTA stands in its cluster is a number. Equal forms are equal values; forms that differ may
still be equal values, in expressions beyond sums, products with constants, `//` and `%`.
"""

from collections.abc import Collection, Hashable, Iterable
from functools import lru_cache

from pipec.isa.specials import AXES, SPECIALS
from pipec.sema import tree

Form = frozenset[tuple[Hashable, int]]
Place = tuple[int, int, int]
_ONE = "1"  # the term of the constant part


@lru_cache(maxsize=1 << 16)
def _one(form: Form) -> Form:
    """The same object for equal forms: they stand inside each other, and comparing them part by part would take all the ways down."""
    return form


def _form(terms: dict[Hashable, int]) -> Form:
    return _one(frozenset((term, factor) for term, factor in terms.items() if factor))


def _terms(form: Form) -> dict[Hashable, int]:
    return dict(form)


def number(form: Form) -> int | None:
    """The value of a form without other terms."""
    terms = _terms(form)
    return terms.get(_ONE, 0) if set(terms) <= {_ONE} else None


def _constant(value: int) -> Form:
    return _form({_ONE: value})


def _atom(*what: Hashable) -> Form:
    return _form({what: 1})


def _sum(left: Form, right: Form, sign: int = 1) -> Form:
    terms = _terms(left)
    for term, factor in right:
        terms[term] = terms.get(term, 0) + sign * factor
    return _form(terms)


def _scaled(form: Form, factor: int) -> Form:
    return _form({term: factor * own for term, own in form})


def _is_plain(expression: tree.Expression) -> bool:
    """A type in which sizes and places are counted, and which is taken not to overflow; smaller and unsigned ones wrap around."""
    return str(expression.type) in ("i32", "i64", "bool")


def _fitting(form: Form, expression: tree.Expression, place: Place) -> Form:
    """What overflows for certain is known of no CTA."""
    value = number(form)
    return form if value is None or -(2**31) <= value < 2**31 else _atom("overflow", expression, place)


class ClusterValues:
    """Values of one role's expressions. Variables that differ between the CTAs of a cluster are found at the start.

    `written`: the tensors that the kernel writes. One CTA may load from them before another CTA's store, and one after it.
    """

    def __init__(self, cluster: tree.Cluster, role: tree.Role, written: Collection[str] = ()) -> None:
        self.cluster = cluster
        self._written = written
        self._definitions: dict[tree.Variable, tree.Expression] = {}
        self._differing: set[tree.Variable] = set()
        self._forms: dict[tuple[tree.Variable, Place], Form] = {}  # of variables with a definition
        assigned: dict[tree.Variable, int] = {}
        for variable, value in _assignments(role.body):
            assigned[variable] = assigned.get(variable, 0) + 1
            if value is not None:
                self._definitions[variable] = value
        self._definitions = {one: value for one, value in self._definitions.items() if assigned[one] == 1}
        size = -1
        while size != len(self._differing):
            size = len(self._differing)
            self._forms.clear()  # a round in which nothing was added leaves what is true
            self._collect(role.body, differs=False)

    def forms(self, expression: tree.Expression) -> tuple[Form, ...]:
        """By rank."""
        return tuple(self.form(expression, place) for place in self.cluster.places())

    def differs(self, expression: tree.Expression, along: Iterable[int] | None = None) -> bool:
        """Whether it may differ between CTAs: any of the cluster, or those of some ranks."""
        forms = self.forms(expression)
        return len({forms[rank] for rank in (range(len(forms)) if along is None else along)}) > 1

    def _collect(self, statements: tuple[tree.Statement, ...], *, differs: bool) -> None:
        """Marks variables whose assignments differ, or are made in some CTAs only."""
        for statement in statements:
            match statement:
                case tree.Assign(variable=variable, value=value):
                    if variable not in self._definitions and (differs or self.differs(value)):
                        self._differing.add(variable)
                    elif differs:
                        self._definitions.pop(variable, None)
                        self._differing.add(variable)
                    elif variable in self._definitions:
                        for place in self.cluster.places():
                            self._variable(variable, place)  # in the order of the text: the variables in it are known already
                case tree.If():
                    inner = differs or self.differs(statement.condition)
                    self._collect(statement.then, differs=inner)
                    self._collect(statement.otherwise, differs=inner)
                case tree.For():
                    inner = differs or self.differs(statement.start) or self.differs(statement.stop)
                    if inner:
                        self._differing.add(statement.variable)
                    self._collect(statement.body, differs=inner)
                case tree.While():
                    self._collect(statement.body, differs=differs or self.differs(statement.condition))
                case tree.Elect():
                    self._collect(statement.body, differs=differs)
                case _:
                    pass

    def form(self, expression: tree.Expression, place: Place) -> Form:
        match expression:
            case tree.Constant(value=bool() | int() as value):
                return _constant(int(value))
            case tree.Constant(value=value):
                return _atom("constant", value)
            case tree.ReadDimension(name=name):
                return _atom("dimension", name)
            case tree.ReadParameter(parameter=parameter):
                return _atom("parameter", parameter.name)
            case tree.Special(name=name):
                return self._special(name, place)
            case tree.ReadResponse(handle=handle):
                return _atom("answer", handle)  # sent to all CTAs of the cluster
            case tree.ReadVariable(variable=variable):
                return self._variable(variable, place)
            case tree.Unary(operator="-", operand=operand):
                return _scaled(self.form(operand, place), -1)
            case tree.Unary(operator=operator, operand=operand):
                return _atom(operator, self.form(operand, place))
            case tree.Binary(operator=operator, left=left, right=right) if _is_plain(left):
                return _fitting(_binary(operator, self.form(left, place), self.form(right, place)), expression, place)
            case tree.Binary(operator=operator, left=left, right=right):
                return _atom(operator, self.form(left, place), self.form(right, place))
            case tree.Call(function="ceildiv", arguments=(left, right)):
                divisor = self.form(right, place)
                return _binary("//", _sum(_sum(self.form(left, place), divisor), _constant(1), -1), divisor)
            case tree.Call(function=function, arguments=arguments):
                forms = [self.form(argument, place) for argument in arguments]
                known = [one for form in forms if (one := number(form)) is not None]
                if function in _CHOICES and len(known) == len(forms):
                    return _constant(_CHOICES[function](known))
                return _atom(function, *forms)
            case tree.Select(condition=condition, when_true=one, when_false=other):
                return self._select(self.form(condition, place), self.form(one, place), self.form(other, place))
            case tree.Convert(operand=operand, type=value_type):
                inner = self.form(operand, place)
                return inner if _is_plain(operand) and str(value_type) == "i64" else _atom("convert", str(value_type), inner)
            case tree.ReadTensor(source=source) | tree.ReadElement(source=source) if source.tensor.name not in self._written:
                return _atom("tensor", source.tensor.name, *(self.form(one, place) for one in source.coordinates))
            case _:
                return _atom("own", expression, place)

    def _special(self, name: str, place: Place) -> Form:
        family, _, axis = name.partition(".")
        if name == "cta.rank":
            return _constant(self.cluster.rank(place))
        if name not in SPECIALS:
            return _atom("thread", name)
        index = AXES.index(axis)
        extent = self.cluster.shape[index]
        match family:
            case "cta":
                return _constant(place[index])
            case "block":
                return _sum(_scaled(_atom("cluster", axis), extent), _constant(place[index]))
            case "grid":
                return _scaled(_atom("clusters", axis), extent)
            case _:
                return _atom(family, axis)

    def _variable(self, variable: tree.Variable, place: Place) -> Form:
        if variable in self._definitions:
            if (variable, place) not in self._forms:
                self._forms[variable, place] = self.form(self._definitions[variable], place)
            return self._forms[variable, place]
        if variable in self._differing:
            return _atom("variable", variable, place)
        return _atom("variable", variable)

    def _select(self, condition: Form, one: Form, other: Form) -> Form:
        decided = number(condition)
        if one == other:
            return one
        return _atom("select", condition, one, other) if decided is None else one if decided else other


def _assignments(statements: tuple[tree.Statement, ...]) -> Iterable[tuple[tree.Variable, tree.Expression | None]]:
    """Each assignment with its value; None for what is counted, looked at, or assigned inside a loop or branch."""
    for statement in statements:
        match statement:
            case tree.Assign(variable=variable, value=value):
                yield variable, value if not isinstance(value, tree.ReadVariable) or value.variable is not variable else None
            case tree.Peek(ready=ready):
                yield ready, None
            case tree.If():
                yield from _assignments(statement.then)
                yield from _assignments(statement.otherwise)
            case tree.For():
                yield statement.variable, None
                yield from _assignments(statement.body)
            case tree.While() | tree.Elect():
                yield from _assignments(statement.body)
            case _:
                pass


_COMPARISONS = {
    "<": lambda a, b: a < b, "<=": lambda a, b: a <= b, ">": lambda a, b: a > b, ">=": lambda a, b: a >= b,
    "==": lambda a, b: a == b, "!=": lambda a, b: a != b, "and": lambda a, b: a and b, "or": lambda a, b: a or b,
    "&": lambda a, b: a & b, "|": lambda a, b: a | b, "^": lambda a, b: a ^ b, "<<": lambda a, b: a << b, ">>": lambda a, b: a >> b,
}  # fmt: skip
_MOST_SHIFT = 31
_CHOICES = {"min": min, "max": max}


def _binary(operator: str, left: Form, right: Form) -> Form:
    a, b = number(left), number(right)
    match operator:
        case "+":
            return _sum(left, right)
        case "-":
            return _sum(left, right, -1)
        case "*" if b is not None:
            return _scaled(left, b)
        case "*" if a is not None:
            return _scaled(right, a)
        case "*":
            return _atom("*", frozenset((left, right)))
        case "//" | "%" if b is not None and b > 0:
            return _divided(operator, left, b)
        case ">>" if b is not None and 0 <= b <= _MOST_SHIFT:
            return _divided("//", left, 1 << b)
        case "&" if b is not None and b >= 0 and b & b + 1 == 0:  # a mask of the lowest bits
            return _divided("%", left, b + 1)
        case _ if (
            a is not None and b is not None and operator in _COMPARISONS and (operator[0] not in "<>" or _fits(operator, b))
        ):
            return _constant(int(_COMPARISONS[operator](a, b)))
        case _:
            return _atom(operator, left, right)


def _fits(operator: str, amount: int) -> bool:
    return operator not in ("<<", ">>") or 0 <= amount <= _MOST_SHIFT


def _divided(operator: str, form: Form, divisor: int) -> Form:
    """Terms that the divisor divides leave the division; what is left of it is a number, or a term of its own."""
    whole = _form({term: factor // divisor for term, factor in form if factor % divisor == 0 and term != _ONE})
    rest = _form({term: factor for term, factor in form if factor % divisor or term == _ONE})
    value = number(rest)
    if value is not None:
        return _sum(whole, _constant(value // divisor)) if operator == "//" else _constant(value % divisor)
    quotient = _atom("//", rest, divisor)
    return _sum(whole, quotient) if operator == "//" else _atom("%", rest, divisor)
