"""The value analysis: symbolic values of the scalars of a role.

A walk over the statements of a role assigns every scalar expression a term, at the point where it is evaluated. After a branch, a
variable is a select between the values of both sides; a loop-carried variable is a leaf, with its values in the first and in the next
iteration (`Recurrence`). The terms determine equality (one term is one value), ranges, residues (`multiple_of`), and which threads, CTAs
or iterations see the same value (pipec.kir.values.sameness).
"""

from collections.abc import Iterable, Iterator, Mapping, MutableMapping
from functools import cached_property, partial

from pipec.isa.dtypes import DType
from pipec.isa.targets import WARP
from pipec.kir.statements import inside
from pipec.kir.values.reader import LARGEST, Environment, Key, Launch, Loop, Reader, bounded, unknown
from pipec.kir.walk import operands, references
from pipec.record import record
from pipec.sema import tree
from pipec.sema.types import BOOL, I32, TileType, dtype_of
from pipec.terms import machine
from pipec.terms.arithmetic import known_where, select
from pipec.terms.residues import ANY, Residue, Residues, either, reduced, where
from pipec.terms.term import LEAVES, Atom, Operator, Term, atom_of, leaf, number
from pipec.terms.walk import Substitution, is_launch_value, leaves

# The value of such a leaf is that at one time: what stands for it may be computed or loaded again.
_OF_ONE_EVALUATION = frozenset((Operator.UNKNOWN, Operator.WRITTEN_ELEMENT))
_MOST_ROUNDS = 50  # rounds of the search for loop invariants; values that need more are not tracked


@record
class Count:
    """A counted loop. `wraps`: the number of values of its variable's type, if the variable may pass its end; else 0."""

    start: Term
    stop: Term
    step: int
    wraps: int
    least: int
    largest: int


@record(eq=False)
class Recurrence:
    """The value of a variable at the start of an iteration of `loop`: `initial` in the first, `following` in the one after the current."""

    loop: Loop
    initial: Term
    following: Term


class _Overlay(MutableMapping[Key, Term]):
    """The changes of a branch to the environment around it."""

    def __init__(self, around: Mapping[Key, Term]) -> None:
        self._around = around
        self.changed: dict[Key, Term] = {}

    def __getitem__(self, key: Key) -> Term:
        return self.changed[key] if key in self.changed else self._around[key]

    def __contains__(self, key: object) -> bool:
        return key in self.changed or key in self._around

    def __setitem__(self, key: Key, term: Term) -> None:
        self.changed[key] = term

    def __delitem__(self, key: Key) -> None:
        raise TypeError("a variable keeps having a value")

    def __iter__(self) -> Iterator[Key]:
        return iter((*self._around, *(key for key in self.changed if key not in self._around)))

    def __len__(self) -> int:
        return sum(1 for _ in self)


class Values:
    """The values of one role: `of(expression)` is the term of an expression of its statements at its point of evaluation."""

    def __init__(self, role: tree.Role, launch: Launch) -> None:
        self.role, self.launch = role, launch
        self._threads = role.warps * WARP
        # By unit: launch values are assumed to be multiples of it, so each unit has residues of its own.
        self._multiples: dict[int, Residues] = {}
        self._assigned: dict[Loop, dict[Key, None]] = {}
        self._collect(role.body, ())
        self._ranges: dict[tuple[Loop, Key], tuple[int, int]] = {}
        self._walk()
        # A loop-carried variable may have any value of its type until the loop has been walked once.
        self._ranges = {
            (row.loop, key): (min(row.initial.least, row.following.least), max(row.initial.largest, row.following.largest))
            for atom, row in self.recurrences.items()
            for key in (atom.operands[1],)
            if isinstance(key, tree.Variable | tree.Handle)
        }
        # A second walk with the ranges found in the first. A third could narrow them further; no check has needed it.
        if any((term.least, term.largest) != self._ranges[key] for key, term in self._loop_carried.items()):
            self._walk()

    def of(self, expression: tree.Expression) -> Term:
        """An expression outside the role's statements is evaluated where the role starts."""
        return self._terms.get(expression) or Reader(self.launch, {}, self._threads)(expression)

    @cached_property
    def numbered(self) -> dict[Atom, tuple[int, int]]:
        """The counters of loops with constant bounds, and the ends of their ranges."""
        return {
            atom: (count.least, count.largest)
            for atom, count in self.counts.items()
            if count.start.number is not None and count.stop.number is not None
        }

    @cached_property
    def ends(self) -> dict[Atom, tuple[Term, Term]]:
        """The lowest and the highest value of counters inside their loops, in terms of what stands around these."""
        return {atom: _ends(count) for atom, count in self.counts.items() if not count.wraps}

    def blocks(self, atom: Atom) -> Term | None:
        """The number of blocks along the axis of which an atom is the block index."""
        return self.launch.blocks(str(atom.operands[0])) if atom.operator is Operator.SPECIAL else None

    def is_multiple(self, expression: tree.Expression, unit: int) -> bool:
        """Whether the value is always a multiple, assuming that launch values are: those are checked at launch."""
        residue = self.residue(expression, unit)
        return residue is None or (residue[0] % unit == 0 and residue[1] % unit == 0)

    def residue(self, expression: tree.Expression, unit: int) -> Residue | None:
        """That of the value under the conditions around it, assuming that launch values are multiples of a unit; None: it has no value."""
        if unit not in self._multiples:
            self._multiples[unit] = self._residues(unit)
        return where(self._multiples[unit], self.of(expression), self._zero.get(expression, ()), unit)

    def in_first_iteration(self, loops: Iterable[Loop]) -> Substitution:
        """Substitutes the values of variables in the first iteration of the loops for those in any iteration."""
        chosen = frozenset(loops)
        first: dict[Atom, Term] = {}

        def replace(atom: Atom) -> Term | None:
            if atom not in first:
                initial = self._initial(atom, chosen)
                if initial is None:
                    return None
                first[atom] = substitution(initial)
            return first[atom]

        substitution = Substitution(replace)
        return substitution

    def in_second_iteration(self, loop: Loop, others: Iterable[Loop]) -> Substitution:
        """Substitutes the values in the second iteration of a loop, and in the first one of the others around it or inside."""
        chosen, first = frozenset(others), self.in_first_iteration((loop,))

        def replace(atom: Atom) -> Term | None:
            if atom in self.counts and atom.operands[0] is loop:
                count = self.counts[atom]
                return substitution(count.start + count.step)
            row = self.recurrences.get(atom)
            following = first(row.following) if row is not None and row.loop is loop else self._initial(atom, chosen)
            return None if following is None else substitution(following)

        substitution = Substitution(replace)
        return substitution

    def _initial(self, atom: Atom, loops: frozenset[Loop]) -> Term | None:
        if atom in self.counts and atom.operands[0] in loops:
            return self.counts[atom].start
        row = self.recurrences.get(atom)
        return row.initial if row is not None and row.loop in loops else None

    # ---------------------------------------------------------------------------------------------------------- residues

    def _residues(self, unit: int) -> Residues:
        """Loop-carried values start undefined; each round joins the value after an iteration, up to a fixed point. A launch checks values
        that are made of launch values alone; not those that a loop carries on, so that these are what they are made of."""
        carried: dict[Atom, Residue | None] = {}

        def known(atom: Atom, *, checked: bool = True) -> Residue | None:
            match atom.operator:
                case Operator.DIMENSION | Operator.PARAMETER:
                    return unit, 0
                case Operator.COUNTER:
                    count = self.counts[atom]
                    return reduced(either(residues(count.start), residues(count.start + count.step)), count.wraps)
                case Operator.LOOP_CARRIED:
                    return carried.get(atom)
                case Operator.LOOP_EXIT:
                    return residues(self.left[atom])
                case operator if checked and operator not in LEAVES and is_launch_value(atom):
                    return unit, 0
                case _:
                    return (residues if checked else carried_on).follows(atom)

        for _ in range(_MOST_ROUNDS):
            residues, carried_on = Residues(known), Residues(partial(known, checked=False))
            joined = {
                atom: either(carried.get(atom), either(carried_on(row.initial), carried_on(row.following)))
                for atom, row in self.recurrences.items()
            }
            if joined == carried:  # steps can only shrink to a divisor
                return residues
            carried = joined
        # The search was cut off: its intermediate result would claim multiples that later rounds may refute.
        carried = dict.fromkeys(self.recurrences, ANY)
        residues, carried_on = Residues(known), Residues(partial(known, checked=False))
        return residues

    def may_wrap(self, loop: tree.For) -> bool:
        """Whether the counter may pass the end of its type behind the last turn."""
        counter = atom_of(self.counters[loop]) if loop in self.counters else None
        return counter is not None and self.counts[counter].wraps != 0

    # -------------------------------------------------------------------------------------------------------------- walk

    def _collect(self, body: Iterable[tree.Statement], around: tuple[Loop, ...]) -> None:
        """Collects the variables that each loop assigns, and the stages that it obtains."""
        for statement in body:
            key: Key | None = None
            match statement:
                case tree.Assign(variable=variable) if not isinstance(variable.type, TileType):
                    key = variable
                case tree.Peek(ready=found) | tree.Vote(result=found):
                    key = found
                case tree.Acquire(handle=handle):
                    key = handle
                case tree.For() | tree.While():
                    self._assigned[statement] = {}
                    self._collect(statement.body, (*around, statement))
                    if isinstance(statement, tree.For):
                        key = statement.variable
                case _:
                    self._collect(inside(statement), around)
            if key is not None:
                for loop in around:
                    self._assigned[loop][key] = None

    def _walk(self) -> None:
        self._terms: dict[tree.Expression, Term] = {}
        self._zero: dict[
            tree.Expression, tuple[Term, ...]
        ] = {}  # terms that are 0 where it is evaluated, by the conditions around it
        self._under: tuple[Term, ...] = ()
        self._loop_carried: dict[tuple[Loop, Key], Term] = {}
        self.counts: dict[Atom, Count] = {}
        self.counters: dict[Loop, Term] = {}
        self.recurrences: dict[Atom, Recurrence] = {}
        self.left: dict[Atom, Term] = {}  # the loop-carried leaves
        self.controls: dict[Loop, tuple[Term, ...]] = {}  # what determines the trip count
        self._body(self.role.body, {})

    def _read(self, environment: Environment, *expressions: tree.Expression) -> tuple[Term, ...]:
        reader = Reader(self.launch, environment, self._threads)
        for expression in expressions:
            reader.scalars(expression)
        for expression, term in reader.terms.items():
            under = self._zero.setdefault(expression, self._under)
            if under != self._under:
                self._zero[expression] = tuple(one for one in under if one in self._under)
            known = self._terms.setdefault(expression, term)
            if known is not term:  # a node that is evaluated at two points, with different values
                self._terms[expression] = unknown(expression, dtype_of(expression.type))
        return tuple(reader.terms.get(expression, number(0)) for expression in expressions)

    def _body(self, body: Iterable[tree.Statement], environment: Environment) -> None:
        for statement in body:
            self._statement(statement, environment)

    def _statement(self, statement: tree.Statement, environment: Environment) -> None:
        match statement:
            case tree.Assign(variable=variable, value=value):
                (term,) = self._read(environment, value)
                if not isinstance(variable.type, TileType):
                    environment[variable] = term
            case tree.If():
                (condition,) = self._read(environment, statement.condition)
                self._branch(condition, statement.then, statement.otherwise, environment)
            case tree.Elect():
                self._branch(leaf(Operator.ELECTED, statement, least=0, largest=1), statement.body, (), environment)
            case tree.For():
                self._for(statement, environment)
            case tree.While():
                self._loop(statement, environment)
            case tree.Peek(ready=found):
                environment[found] = unknown(statement, BOOL)
            case tree.Vote(condition=condition, result=found):
                self._read(environment, condition)
                environment[found] = unknown(statement, BOOL)
            case _:
                ranks = (reference.cta for reference in references(statement))
                mask = statement.mask if isinstance(statement, tree.TmaLoad) else None
                self._read(environment, *operands(statement), *(one for one in (*ranks, mask) if one is not None))
                if isinstance(statement, tree.Acquire):
                    # -1: no tile is left.
                    environment[statement.handle] = leaf(Operator.SCHEDULER_ANSWER, statement, least=-1, largest=LARGEST)

    def _branch(
        self,
        condition: Term,
        then: tuple[tree.Statement, ...],
        otherwise: tuple[tree.Statement, ...],
        environment: Environment,
    ) -> None:
        one, other = _Overlay(environment), _Overlay(environment)
        around = self._under
        for body, holds, within in ((then, True, one), (otherwise, False, other)):
            self._under = (*around, *_zero_where(condition, holds))
            self._body(body, within)
        self._under = around
        for key in {**one.changed, **other.changed}:
            if key in one and key in other:  # a variable of only one side is undefined after the branch
                environment[key] = bounded(select(condition, one[key], other[key]))

    def _for(self, loop: tree.For, environment: Environment) -> None:
        start, stop = self._read(environment, loop.start, loop.stop)
        variable = loop.variable
        count = _count(start, stop, loop.step, dtype_of(variable.type))
        self.controls[loop] = start, stop
        # The loop variable has this value even if the body assigns it, and is then carried like any other variable.
        environment[variable] = start
        if variable in self._assigned[loop]:  # the body modifies the loop variable
            self._loop(loop, environment)
            return
        term = environment[variable] = leaf(Operator.COUNTER, loop, least=count.least, largest=count.largest)
        counter = atom_of(term)
        self.counters[loop] = term
        if counter is not None:
            self.counts[counter] = count
        self._loop(loop, environment)
        self._leave(loop, variable, term, *machine.range_of(dtype_of(variable.type)), environment)

    def _leave(self, loop: Loop, key: Key, carried: Term, least: int, largest: int, environment: Environment) -> None:
        behind = environment[key] = leaf(Operator.LOOP_EXIT, loop, key, least=least, largest=largest)
        atom = atom_of(behind)
        if atom is not None:
            self.left[atom] = carried

    def _loop(self, loop: Loop, environment: Environment) -> None:
        # A variable first assigned inside the loop is not carried from earlier iterations.
        carried = {key: self._carry(loop, key) for key in self._assigned[loop] if key in environment}
        initial = {key: environment[key] for key in carried}
        body = _Overlay(environment)
        body.changed.update(carried)
        if isinstance(loop, tree.While):
            self.controls[loop] = self._read(body, loop.condition)
        self._body(loop.body, body)
        if isinstance(loop, tree.For) and loop.variable in carried:
            body[loop.variable] = machine.binary("+", dtype_of(loop.variable.type), body[loop.variable], number(loop.step))
        for key, term in carried.items():
            atom = atom_of(term)
            if atom is not None:
                self.recurrences[atom] = Recurrence(loop, initial[key], body[key])
            self._leave(loop, key, term, term.least, term.largest, environment)

    def _carry(self, loop: Loop, key: Key) -> Term:
        least, largest = machine.range_of(dtype_of(key.type) if isinstance(key, tree.Variable) else I32)
        least, largest = self._ranges.get((loop, key), (least, largest))
        self._loop_carried[loop, key] = leaf(Operator.LOOP_CARRIED, loop, key, least=least, largest=largest)
        return self._loop_carried[loop, key]


def _zero_where(condition: Term, holds: bool) -> Iterator[Term]:
    """Terms that are 0 in a branch. What is evaluated or loaded again there may have another value then."""
    for relation, term in known_where(condition, holds):
        if relation is Operator.IS_ZERO and not any(one.operator in _OF_ONE_EVALUATION for one in leaves(term)):
            yield term


def _ends(count: Count) -> tuple[Term, Term]:
    """Exact where a whole number of steps leads from the start to the end."""
    way = count.stop - count.start
    whole = all(factor % count.step == 0 for factor in (way.constant, *(factor for _, factor in way.parts)))
    last = count.stop - (count.step if whole else 1 if count.step > 0 else -1)
    return (count.start, last) if count.step > 0 else (last, count.start)


def _count(start: Term, stop: Term, step: int, dtype: DType) -> Count:
    """The counter is compared before each iteration, so inside the loop it has not reached the end."""
    lowest, highest = machine.range_of(dtype)
    if start.number is not None and stop.number is not None and (values := range(start.number, stop.number, step)):
        exact = lowest <= values[-1] + step <= highest
        ends = min(values[0], values[-1]), max(values[0], values[-1])
    elif step > 0:
        exact = stop.largest - 1 + step <= highest
        ends = start.least, stop.largest - 1
    else:
        exact = stop.least + 1 + step >= lowest
        ends = stop.least + 1, start.largest
    if ends[0] > ends[1]:  # the loop never runs
        return Count(start, stop, step, 0, start.least, start.largest)
    least, largest = ends if exact else (lowest, ends[1]) if step > 0 else (ends[0], highest)
    return Count(start, stop, step, 0 if exact else 1 << dtype.bits, least, largest)
