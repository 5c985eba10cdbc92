"""What the protocol check sees of a kernel: per role, the pipeline operations in order, inside the loops and branches that hold them.

Everything else is dropped. Two loops of different roles are the same loop to the proof when their bounds are the same expression of
launch values and of the loops around them; `key` writes such an expression down.
"""

from collections.abc import Iterator

from pipec.checks.protocol_carried import Carried, bodies, short
from pipec.record import record
from pipec.sema import tree
from pipec.sema.tree import Event
from pipec.source import Span

_MOST_WRITTEN_OUT = 8
_MOST_COPIES = 64  # of what stands inside of several such loops
TILES = "tiles per block"  # of a block that is handed one tile after the other: the same number for all of its roles
THREAD_VALUES = ("lane_id", "role_thread", "role_warp")


def event_of(statement: tree.Statement) -> Event | None:
    """The event of an operation; None for what neither waits nor signals. That all loads of a stage are issued is checked apart (E05xx)."""
    return statement.effects.event if isinstance(statement, tree.Operation) else None


@record
class Repeat:
    """A counted loop, or one over the tiles that a scheduler hands out.

    `key` is equal for loops that run equally often, with equal values of their variable. `name` is what keys in the body call the
    variable. It runs `least` times at least.
    """

    key: str
    loop: tree.For | tree.While
    body: tuple["Item", ...]
    name: str
    least: int = 0


@record
class Compare:
    """The iteration of the loop `loop`, counted from 0, or from the last backwards (`from_end`), compared with a number."""

    loop: str
    from_end: bool
    operator: str
    number: int


@record
class Choice:
    """A branch; `key` is equal for conditions that come out alike in every role. `test` is the condition, where it is about the
    iteration of a loop around it."""

    key: str
    branch: tree.If
    then: tuple["Item", ...]
    otherwise: tuple["Item", ...]
    test: Compare | None = None


@record
class Opaque:
    """Pipeline operations under a condition that cannot be followed: a `while`."""

    span: Span


Item = Event | Repeat | Choice | Opaque


def programs(kernel: tree.Kernel) -> dict[str, tuple[Item, ...]]:
    """Role name -> its items."""
    written = _written(kernel)
    return {role.name: _Reader(role, written).items(role.body, 0) for role in kernel.roles}


def _written(kernel: tree.Kernel) -> set[str]:
    """The tensors whose elements may change while the kernel runs."""
    found: set[str] = set()
    unseen: list[tree.Statement] = [statement for role in kernel.roles for statement in role.body]
    while unseen:
        statement = unseen.pop()
        if isinstance(statement, tree.Operation) and statement.effects.memory is not None and statement.effects.memory.writes:
            found.add(statement.effects.memory.place.tensor.name)
        unseen += [inner for body in bodies(statement) for inner in body]
    return found


# Operator of the comparison with its sides exchanged.
MIRRORED = {"<": ">", ">": "<", "<=": ">=", ">=": "<=", "==": "==", "!=": "!="}


def _shifted(expression: tree.Expression) -> tuple[tree.Variable | None, int]:
    """`variable + number`; None where it is something else."""
    match expression:
        case tree.ReadVariable(variable=variable):
            return variable, 0
        case tree.Binary(operator="+", left=tree.ReadVariable(variable=variable), right=tree.Constant(value=int() as number)):
            return variable, number
        case tree.Binary(operator="+", left=tree.Constant(value=int() as number), right=tree.ReadVariable(variable=variable)):
            return variable, number
        case tree.Binary(operator="-", left=tree.ReadVariable(variable=variable), right=tree.Constant(value=int() as number)):
            return variable, -number
        case _:
            return None, 0


def _least(expression: tree.Expression) -> int:
    """A number that the value never falls below; sizes are 0 at least."""
    match expression:
        case tree.Constant(value=int() as value):
            return value
        case tree.ReadDimension():
            return 0
        case tree.Call(function="max", arguments=arguments):
            return max(_least(argument) for argument in arguments)
        case tree.Call(function="min", arguments=arguments):
            return min(_least(argument) for argument in arguments)
        case tree.Call(function="ceildiv", arguments=(left, tree.Constant(value=int() as right))) if right > 0:
            return -(-_least(left) // right)
        case tree.Binary(operator="+", left=left, right=right):
            return _least(left) + _least(right)
        case tree.Select(when_true=one, when_false=other):
            return min(_least(one), _least(other))
        case _:
            return -(2**31)


def differs_between_threads(expression: tree.Expression) -> bool:
    """Whether a condition depends on the thread (by `lane_id()` and the like; through variables it is not followed)."""
    match expression:
        case tree.Special(name=name):
            return name in THREAD_VALUES
        case tree.Unary(operand=operand) | tree.Convert(operand=operand):
            return differs_between_threads(operand)
        case tree.Binary(left=left, right=right):
            return differs_between_threads(left) or differs_between_threads(right)
        case tree.Call(arguments=arguments):
            return any(differs_between_threads(argument) for argument in arguments)
        case _:
            return False


def _known_range(loop: tree.For) -> range | None:
    match loop.start, loop.stop:
        case tree.Constant(value=int() as start), tree.Constant(value=int() as stop):
            values = range(start, stop, loop.step)
            return values if len(values) <= _MOST_WRITTEN_OUT else None
        case _:
            return None


class _Reader:
    """`_place` is the number of the statement at hand, `_around` those of the loops and branches around it."""

    def __init__(self, role: tree.Role, written: set[str]) -> None:
        self._role = role
        self._written = written
        self._carried = Carried(role, self._leaf)
        self._place = -1
        self._around: tuple[int, ...] = ()
        self._iterations: tuple[str, ...] = ()
        self._assignments: dict[tree.Variable, int] = {}
        self._written_out = 1  # copies of the statement at hand
        self._keys: dict[tree.Variable, str] = {}
        self._bounds: dict[tree.Variable, tuple[tree.Expression | None, str]] = {}  # of loops: start and the key of the end
        self._count(role.body)

    def _count(self, statements: tuple[tree.Statement, ...]) -> None:
        for statement in statements:
            match statement:
                case tree.Assign():
                    self._assignments[statement.variable] = self._assignments.get(statement.variable, 0) + 1
                case tree.If():
                    self._count(statement.then)
                    self._count(statement.otherwise)
                case tree.For() | tree.While() | tree.Elect():
                    self._count(statement.body)

    def items(self, statements: tuple[tree.Statement, ...], depth: int) -> tuple[Item, ...]:
        found: list[Item] = []
        outer = self._around, self._place
        self._around = (*self._around, self._place)
        for statement in statements:
            self._place = self._carried.number(statement)
            found.extend(self._item(statement, depth))
        self._around, self._place = outer
        return tuple(found)

    def _item(self, statement: tree.Statement, depth: int) -> Iterator[Item]:
        match statement:
            case tree.Assign() if self._assignments[statement.variable] == 1:
                self._keys[statement.variable] = self.key(statement.value)
            case tree.Operation():
                event = event_of(statement)
                if event is not None:
                    yield event
            case tree.Elect():
                yield from self.items(statement.body, depth)
            case tree.For():
                yield from self._repeat(statement, depth)
            case tree.While(tile=tile) if tile is not None:
                self._keys[tile] = f"tile of loop {depth}"
                yield Repeat(TILES, statement, self._iteration(statement.body, tile, depth + 1), self._keys[tile])
            case tree.While():
                if self.items(statement.body, depth):
                    yield Opaque(statement.span)
            case tree.If():
                condition = self.key(statement.condition)
                then, otherwise = self.items(statement.then, depth), self.items(statement.otherwise, depth)
                if differs_between_threads(statement.condition):
                    # Some threads go here, some there: together the role does both.
                    yield from (*then, *otherwise)
                elif then or otherwise:
                    yield Choice(condition, statement, then, otherwise, self._test(statement.condition))

    def _repeat(self, loop: tree.For, depth: int) -> Iterator[Item]:
        known = _known_range(loop)
        if known is not None and self._written_out * len(known) <= _MOST_COPIES:
            # A few known iterations are written out: they may line up with separate loops of another role.
            self._written_out *= max(1, len(known))
            for value in known:
                self._keys[loop.variable] = repr(value)
                yield from self._iteration(loop.body, loop.variable, depth)
            self._written_out //= max(1, len(known))
            return
        bounds = f"{self.key(loop.start)} to {self.key(loop.stop)} by {loop.step}"
        # Loops that are proved together stand at one depth, so a loop's variable is named by its depth.
        name = self._keys[loop.variable] = f"loop {depth}"
        self._bounds[loop.variable] = (loop.start, self.key(loop.stop)) if loop.step == 1 else (None, "")
        body = self._iteration(loop.body, loop.variable, depth + 1)
        if body:
            least = _least(loop.stop) - int(loop.start.value) if isinstance(loop.start, tree.Constant) and loop.step == 1 else 0
            yield Repeat(bounds, loop, body, name, max(0, least))

    def _test(self, condition: tree.Expression) -> Compare | None:
        """A comparison of a loop's variable, give or take a number, with the loop's end or with a number."""
        if not isinstance(condition, tree.Binary) or condition.operator not in MIRRORED:
            return None
        for one, other, operator in (
            (condition.left, condition.right, condition.operator),
            (condition.right, condition.left, MIRRORED[condition.operator]),
        ):
            variable, added = _shifted(one)
            start, stop = self._bounds.get(variable, (None, "")) if variable is not None else (None, "")
            if variable is None or not isinstance(start, tree.Constant):
                continue
            if self.key(other) == stop:  # variable = stop - 1 - iterations left
                return Compare(self._keys[variable], True, MIRRORED[operator], added - 1)
            if isinstance(other, tree.Constant):
                return Compare(self._keys[variable], False, operator, int(other.value) - added - int(start.value))
        return None

    def _iteration(self, body: tuple[tree.Statement, ...], counted: tree.Variable, depth: int) -> tuple[Item, ...]:
        outer = self._iterations
        self._iterations = (*outer, self._keys[counted])
        items = self.items(body, depth)
        self._iterations = outer
        return items

    def _leaf(self, expression: tree.Expression) -> str | None:
        """What has no operands of its own, where every role sees the same; of an element of a tensor, the tensor."""
        match expression:
            case tree.Constant(value=value):
                return repr(value)
            case tree.ReadDimension(name=name):
                return name
            case tree.ReadParameter(parameter=parameter):
                return f"parameter {parameter.name}"
            case tree.Special(name=name) if name not in THREAD_VALUES:
                return name
            case tree.ReadElement(source=source) if source.tensor.name not in self._written:
                return f"element of {source.tensor.name}"
            case _:
                return None

    def key(self, expression: tree.Expression) -> str:
        """The expression in words that do not depend on the role; unique where it cannot be the same elsewhere."""
        return short(self._words(expression))

    def _words(self, expression: tree.Expression) -> str:
        leaf = self._leaf(expression)
        if leaf is not None:
            if isinstance(expression, tree.ReadElement):
                return f"{leaf}[{', '.join(self.key(coordinate) for coordinate in expression.source.coordinates)}]"
            return leaf
        match expression:
            case tree.ReadVariable(variable=variable) if variable in self._keys:
                return self._keys[variable]
            case tree.ReadVariable(variable=variable):
                found = self._carried.key(variable, self._place, self._around, self._iterations)
                return found or self._own(expression)
            case tree.Unary(operator=operator, operand=operand):
                return f"({operator} {self.key(operand)})"
            case tree.Binary(operator=operator, left=left, right=right):
                return f"({self.key(left)} {operator} {self.key(right)})"
            case tree.Call(function=function, arguments=arguments):
                return f"{function}({', '.join(self.key(argument) for argument in arguments)})"
            case tree.Select(condition=condition, when_true=when_true, when_false=when_false):
                return f"({self.key(when_true)} if {self.key(condition)} else {self.key(when_false)})"
            case tree.Convert(operand=operand, type=value_type):
                return f"{value_type}({self.key(operand)})"
            case _:
                return self._own(expression)

    def _own(self, expression: tree.Expression) -> str:
        """A name that no other role has."""
        return f"{self._role.name} at {expression.span.line}:{expression.span.column}"
