"""Whether the first MMA into a freshly obtained accumulator overwrites it: `accumulate` at that point, followed symbolically.

One pass in block order per accumulator, back edges left out, sees every first iteration: a variable has the value it had before
the loop. Where an iteration may end with the accumulator still untouched, the next one is the first for it, so what that loop
assigns is unknown in it.
"""

from collections.abc import Iterator

from pipec.checks.facts import RoleFacts
from pipec.kir import ir
from pipec.record import record
from pipec.sema import tree
from pipec.sema.operations import ROLE
from pipec.sema.types import TileType

# A linear form: the constant under None, coefficients under opaque terms.
Linear = dict[object, int]
_Key = tuple[tree.Handle, tree.Buffer]


@record
class FirstMma:
    """An MMA that may be the first, and whether it then adds: None when that cannot be told."""

    mma: tree.Mma
    handle: tree.Handle
    adds: bool | None


def first_mmas(role: RoleFacts) -> Iterator[FirstMma]:
    """The MMAs with an `accumulate` of their own that may be the first after the acquire."""
    keys: dict[_Key, None] = {}
    for block in role.role.blocks:
        for operation in block.operations:
            if isinstance(operation, tree.Mma) and operation.accumulate is not None:
                keys[operation.accumulator.handle, operation.accumulator.buffer] = None
    for key in keys:
        fresh = _Walk(role, key, frozenset()).run()
        repeated = frozenset(index for index, loop in enumerate(role.role.loops) if _latch(role, loop) in fresh)
        walk = _Walk(role, key, repeated)
        walk.run()
        yield from walk.found


def _latch(role: RoleFacts, loop: ir.Loop) -> int:
    """The block whose end is the end of an iteration."""
    return max(block for block in role.predecessors[loop.header] if block >= loop.header)


class _Walk:
    def __init__(self, role: RoleFacts, key: _Key, repeated: frozenset[int]) -> None:
        self._role = role
        self._key = key
        self._repeated = repeated  # loops of which a later iteration may be the first to write
        # With one stage the accumulator that comes back is the one that was handed over: only the role's first MMA meets an empty one.
        self._kept = key[0].pipeline.kind == ROLE and key[0].pipeline.stages == 1
        self._fresh: list[bool] = []
        self._values: list[dict[tree.Variable, Linear]] = []
        self.found: list[FirstMma] = []

    def run(self) -> set[int]:
        """Numbers of the blocks at whose end the accumulator may still be untouched."""
        for number, block in enumerate(self._role.role.blocks):
            fresh, values = self._enter(number)
            for operation in block.operations:
                match operation:
                    case tree.Acquire(handle) if handle is self._key[0] and not self._kept:
                        fresh = True
                    case tree.Assign(variable, value) if not isinstance(variable.type, TileType):
                        values[variable] = linear(value, values)
                    case tree.Mma(accumulator) if self._is_meant(accumulator):
                        if fresh and operation.accumulate is not None:
                            self.found.append(FirstMma(operation, self._key[0], truth(operation.accumulate, values)))
                        fresh = False
                    case _:
                        pass
            self._fresh.append(fresh)
            self._values.append(values)
        return {number for number, fresh in enumerate(self._fresh) if fresh}

    def _enter(self, number: int) -> tuple[bool, dict[tree.Variable, Linear]]:
        before = [block for block in self._role.predecessors[number] if block < number]
        if not before:
            return self._kept, {}
        first, *others = before
        values = dict(self._values[first])
        for other in others:
            for variable in list(values):
                if self._values[other].get(variable) != values[variable]:
                    del values[variable]
        for index, loop in enumerate(self._role.role.loops):
            if loop.header == number and (index in self._repeated or self._acquires_in(loop)):
                for variable in self._assigned_in(loop):
                    values.pop(variable, None)
        return any(self._fresh[block] for block in before), values

    def _is_meant(self, accumulator: tree.BufferRef) -> bool:
        handle, buffer = self._key
        same = accumulator.handle is handle or (self._kept and accumulator.handle.pipeline is handle.pipeline)
        return same and accumulator.buffer is buffer

    def _acquires_in(self, loop: ir.Loop) -> bool:
        return not self._kept and any(site.block in loop.blocks for site in self._role.handles[self._key[0]].acquires)

    def _assigned_in(self, loop: ir.Loop) -> Iterator[tree.Variable]:
        for block in loop.blocks:
            for operation in self._role.role.blocks[block].operations:
                if isinstance(operation, tree.Assign):
                    yield operation.variable


def linear(expression: tree.Expression, values: dict[tree.Variable, Linear]) -> Linear:
    """What is not linear is a term of its own, equal only to itself."""
    match expression:
        case tree.Constant(value):
            return {None: int(value)} if int(value) == value else {expression: 1}
        case tree.ReadVariable(variable):
            return values.get(variable, {variable: 1})
        case tree.ReadDimension(name):
            return {name: 1}
        case tree.ReadParameter(parameter):
            return {parameter: 1}
        case tree.Special(name):
            return {("special", name): 1}
        case tree.Unary("-", operand):
            return _scaled(linear(operand, values), -1)
        case tree.Binary("+" | "-" as operator, left, right):
            return _sum(linear(left, values), _scaled(linear(right, values), 1 if operator == "+" else -1))
        case tree.Binary("*", left, right):
            one, two = linear(left, values), linear(right, values)
            for factor, other in ((one, two), (two, one)):
                if set(factor) <= {None}:
                    return _scaled(other, factor.get(None, 0))
            return {expression: 1}
        case _:
            return {expression: 1}


def _scaled(form: Linear, factor: int) -> Linear:
    return {term: factor * count for term, count in form.items() if factor * count}


def _sum(one: Linear, two: Linear) -> Linear:
    total = dict(one)
    for term, count in two.items():
        total[term] = total.get(term, 0) + count
    return {term: count for term, count in total.items() if count}


def truth(condition: tree.Expression, values: dict[tree.Variable, Linear]) -> bool | None:
    """The condition's value where it is the same whatever the opaque terms are; None otherwise."""
    match condition:
        case tree.Constant(value):
            return bool(value)
        case tree.ReadVariable(variable):
            form = values.get(variable)
            return bool(form.get(None, 0)) if form is not None and set(form) <= {None} else None
        case tree.Unary("not", operand):
            inner = truth(operand, values)
            return None if inner is None else not inner
        case tree.Binary("and" | "or" as operator, left, right):
            sides = truth(left, values), truth(right, values)
            decides = operator == "or"
            return decides if decides in sides else (None if None in sides else not decides)
        case tree.Binary("==" | "!=" | "<" | "<=" | ">" | ">=" as operator, left, right):
            difference = _sum(linear(left, values), _scaled(linear(right, values), -1))
            return _compare(operator, difference.get(None, 0)) if set(difference) <= {None} else None
        case _:
            return None


def _compare(operator: str, difference: int) -> bool:
    return {
        "==": difference == 0,
        "!=": difference != 0,
        "<": difference < 0,
        "<=": difference <= 0,
        ">": difference > 0,
        ">=": difference >= 0,
    }[operator]
