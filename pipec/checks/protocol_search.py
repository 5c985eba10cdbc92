"""The search for sizes at which roles wait for each other for ever: for given sizes one greedy run of the roles is exact."""

import heapq
import itertools
from collections.abc import Callable, Generator, Iterator

from pipec.budgets import Meter
from pipec.checks.protocol_model import TILES, Choice, Item, Repeat, differs_between_threads, event_of
from pipec.checks.protocol_proof import Programs, State
from pipec.record import record
from pipec.sema import tree
from pipec.sema.tree import Event

# Bounds of the search, so that it ends soon whatever the kernel.
_MOST_RUNS = 150
_MOST_EVENTS = 20_000
_BLOCK = ("block.x", "block.y", "block.z")
_GRID = ("grid.x", "grid.y", "grid.z")


class Undecided(Exception):
    """The roles depend on values that are known neither here nor at launch."""


@record
class Blocked:
    """A role that waits for ever, and what for."""

    role: str
    event: Event


@record
class Failure:
    """`sizes` is the smallest failing assignment found; `blocked` is empty when all roles end but `uneven` pipelines are left filled."""

    sizes: dict[str, int]
    blocked: tuple[Blocked, ...]
    ended: tuple[str, ...]
    uneven: tuple[tuple[tree.Pipeline, int, str, int], ...]


def search(kernel: tree.Kernel, programs: Programs) -> tuple[Failure | None, int]:
    """The smallest failing sizes found, and how many assignments were run. Raises Undecided."""
    names = _sizes(kernel, programs)
    deepest = max((pipeline.stages for pipeline in kernel.pipelines), default=1)
    # Two blocks per axis show what a condition on the block's place can do.
    candidates = [[count * unit for count in _counts(name, deepest)] for name, unit in names.items()]
    spent, runs, meter = 0, 0, Meter("protocol steps")
    for values in itertools.islice(_smallest_first(candidates), _MOST_RUNS):
        sizes = dict(zip(names, values, strict=True))
        failure, used = _run(kernel, sizes, meter)
        spent, runs = spent + used, runs + 1
        if failure is not None:
            return failure, runs
        if spent > _MOST_EVENTS:
            break
    return None, runs


def _smallest_first(candidates: list[list[int]]) -> Iterator[tuple[int, ...]]:
    """One number of each list, in the order of their sum, then of the numbers; there may be far too many to make them all."""
    first = (0,) * len(candidates)
    waiting = [(sum(values[0] for values in candidates), tuple(values[0] for values in candidates), first)]
    seen = {first}
    while waiting:
        _, chosen, places = heapq.heappop(waiting)
        yield chosen
        for axis, values in enumerate(candidates):
            place = places[axis] + 1
            after = (*places[:axis], place, *places[axis + 1 :])
            if place < len(values) and after not in seen:
                seen.add(after)
                numbers = (*chosen[:axis], values[place], *chosen[axis + 1 :])
                heapq.heappush(waiting, (sum(numbers), numbers, after))


def _counts(name: str, deepest: int) -> range:
    if name == TILES:
        return range(1, deepest + 3)  # the block's own at least
    return range(2 if name in _BLOCK else deepest + 3)


def _sizes(kernel: tree.Kernel, programs: Programs) -> dict[str, int]:
    """The dimensions and scalars that control the roles, each with the tile size that divides it (1 when none does)."""
    units: dict[str, int] = {}
    text = " ".join(_keys(items) for items in programs.values())
    dimensions = {size for tensor in kernel.tensors for size in tensor.shape if isinstance(size, str)}
    for role in kernel.roles:
        for expression in _expressions(role.body):
            _units(expression, units)
    controlling = [name for name in sorted(dimensions) if name in text]
    scalars = [
        f"parameter {scalar.name}" for scalar in kernel.scalars if scalar.type.is_integer and f"parameter {scalar.name}" in text
    ]
    others = (name for name in (*_BLOCK, TILES) if name in text)
    return {name: units.get(name, 1) for name in (*controlling, *scalars, *others)}


def _keys(items: tuple[Item, ...]) -> str:
    parts = []
    for item in items:
        match item:
            case Repeat():
                parts += [item.key, _keys(item.body)]
            case Choice():
                parts += [item.key, _keys(item.then), _keys(item.otherwise)]
    return " ".join(parts)


def _expressions(statements: tuple[tree.Statement, ...]) -> Iterator[tree.Expression]:
    for statement in statements:
        match statement:
            case tree.For():
                yield from (statement.start, statement.stop)
                yield from _expressions(statement.body)
            case tree.If():
                yield statement.condition
                yield from _expressions(statement.then)
                yield from _expressions(statement.otherwise)
            case tree.While() | tree.Elect():
                yield from _expressions(statement.body)
            case tree.Assign() if isinstance(statement.value, tree.Expression):
                yield statement.value


def _units(expression: tree.Expression, units: dict[str, int]) -> None:
    """Finds `ceildiv(K, 64)` and `K // 64`: K counts in steps of 64."""
    match expression:
        case tree.Call("ceildiv", (tree.ReadDimension(name=name), tree.Constant(value=int() as unit))) if unit > 0:
            units[name] = max(unit, units.get(name, 1))
        case tree.Binary("//", tree.ReadDimension(name=name), tree.Constant(value=int() as unit)) if unit > 0:
            units[name] = max(unit, units.get(name, 1))
        case tree.Call(arguments=arguments):
            for argument in arguments:
                _units(argument, units)
        case tree.Binary(left=left, right=right):
            _units(left, units)
            _units(right, units)


def _run(kernel: tree.Kernel, sizes: dict[str, int], meter: Meter) -> tuple[Failure | None, int]:
    state, spent = State(kernel, meter), 0
    environment = {name.removeprefix("parameter "): value for name, value in sizes.items()}
    roles = {role.name: _events(role.body, dict(environment), {}, meter) for role in kernel.roles if _has_events(role.body)}
    waiting = {role: next(steps, None) for role, steps in roles.items()}
    moved = True
    while moved:
        moved = False
        for role, steps in roles.items():
            event = waiting[role]
            while event is not None and state.allows(role, event):
                state.apply(role, event)
                event = waiting[role] = next(steps, None)
                moved, spent = True, spent + 1
                if spent > _MOST_EVENTS:
                    return None, spent
    blocked = tuple(Blocked(role, event) for role, event in waiting.items() if event is not None)
    uneven = tuple(
        (pipeline, filled, role, given.below)
        for pipeline, ring in state.rings.items()
        for filled in [max((given.below for given in ring.full.values()), default=0)]
        for (role, _), given in ring.empty.items()
        if given.below != filled
    )
    if not blocked and not uneven:
        return None, spent
    ended = tuple(role for role, event in waiting.items() if event is None)
    return Failure(sizes, blocked, ended, uneven), spent


def _events(
    statements: tuple[tree.Statement, ...], sizes: dict[str, int], values: dict[tree.Variable, object], meter: Meter
) -> Generator[Event, None, None]:
    """The events of a role in order, its scalars computed on the way."""
    for statement in statements:
        meter.spend()
        match statement:
            case tree.Assign():
                values[statement.variable] = _value_or_unknown(statement.value, sizes, values)
            case tree.Operation():
                event = event_of(statement)
                if event is not None:
                    yield event
            case tree.Elect():
                yield from _events(statement.body, sizes, values, meter)
            case tree.If() if differs_between_threads(statement.condition):
                yield from _events((*statement.then, *statement.otherwise), sizes, values, meter)
            case tree.If():
                try:
                    chosen = statement.then if _value(statement.condition, sizes, values) else statement.otherwise
                except Undecided:
                    if _has_events(statement.then) or _has_events(statement.otherwise):
                        raise
                    continue
                yield from _events(chosen, sizes, values, meter)
            case tree.For() if _has_events(statement.body):
                start, stop = _value(statement.start, sizes, values), _value(statement.stop, sizes, values)
                for count in range(int(start), int(stop), statement.step):
                    values[statement.variable] = count
                    yield from _events(statement.body, sizes, values, meter)
            case tree.While(tile=tile) if tile is not None:
                for count in range(sizes[TILES]):
                    values[tile] = count
                    yield from _events(statement.body, sizes, values, meter)
            case tree.While() if _has_events(statement.body):
                raise Undecided


def _has_events(statements: tuple[tree.Statement, ...]) -> bool:
    for statement in statements:
        match statement:
            case tree.Operation():
                if event_of(statement) is not None:
                    return True
            case tree.For() | tree.While() | tree.Elect():
                if _has_events(statement.body):
                    return True
            case tree.If():
                if _has_events(statement.then) or _has_events(statement.otherwise):
                    return True
    return False


def _value_or_unknown(expression: tree.Expression, sizes: dict[str, int], values: dict[tree.Variable, object]) -> object:
    try:
        return _value(expression, sizes, values)
    except Undecided:
        return None


_OPERATORS: dict[str, Callable[[int, int], int]] = {
    "+": lambda a, b: a + b, "-": lambda a, b: a - b, "*": lambda a, b: a * b, "//": lambda a, b: a // b, "%": lambda a, b: a % b,
    "<": lambda a, b: a < b, "<=": lambda a, b: a <= b, ">": lambda a, b: a > b, ">=": lambda a, b: a >= b,
    "==": lambda a, b: a == b, "!=": lambda a, b: a != b, "and": lambda a, b: a and b, "or": lambda a, b: a or b,
}  # fmt: skip
_FUNCTIONS: dict[str, Callable[..., int]] = {"min": min, "max": max, "abs": abs, "ceildiv": lambda a, b: -(-a // b)}


def _value(expression: tree.Expression, sizes: dict[str, int], values: dict[tree.Variable, object]) -> int | bool:
    match expression:
        case tree.Constant(value=int() | bool() as value):
            return value
        case tree.ReadDimension(name=name) if name in sizes:
            return sizes[name]
        case tree.ReadParameter(parameter=parameter) if parameter.name in sizes:
            return sizes[parameter.name]
        case tree.Special(name=name) if name in _BLOCK:
            return sizes.get(name, 0)
        case tree.Special(name=name) if name in _GRID:
            return 2  # the blocks that are tried
        case tree.ReadVariable(variable=variable) if isinstance(values.get(variable), int):
            return values[variable]  # type: ignore[return-value]
        case tree.Unary(operator="-", operand=operand):
            return -_value(operand, sizes, values)
        case tree.Unary(operator="not", operand=operand):
            return not _value(operand, sizes, values)
        case tree.Binary(operator=operator, left=left, right=right) if operator in _OPERATORS:
            a, b = _value(left, sizes, values), _value(right, sizes, values)
            if operator in ("//", "%") and b == 0:
                raise Undecided
            return _OPERATORS[operator](a, b)
        case tree.Call(function=function, arguments=arguments) if function in _FUNCTIONS:
            found = [_value(argument, sizes, values) for argument in arguments]
            if function == "ceildiv" and found[1] == 0:
                raise Undecided
            return _FUNCTIONS[function](*found)
        case tree.Select(condition=condition, when_true=when_true, when_false=when_false):
            return _value(when_true if _value(condition, sizes, values) else when_false, sizes, values)
        case tree.Convert(operand=operand, type=value_type) if getattr(value_type, "is_integer", False):
            return int(_value(operand, sizes, values))
        case _:
            raise Undecided
