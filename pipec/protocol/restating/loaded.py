"""Numbers that are loaded, in registers of their own.

How often a loop runs may be loaded for each tile. What is loaded, and what it is bounded by, is then a large number that each role makes of
its own counters in its own words, and every test of the loop has all of it. Here a register is added that is given this number where the
counters move on, in one form whatever the words; the tests ask about the register. It is like a size, but for each tile another one, and
equal in two roles where they are in the same tile.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial

from pipec.protocol.forms.extents import Between, range_of, ranges_in, sizes_beyond
from pipec.protocol.forms.rewriting import Rewriting, is_machine_product
from pipec.protocol.program.program import registers_of
from pipec.protocol.restating.distances import Measured
from pipec.protocol.restating.wording import Worded, asked_to_divide, has, loads, parts_of
from pipec.record import replace
from pipec.verify.network import Edge, Network, Process, State, Test, edges_of
from pipec.verify.reader.processes.tidy import with_edges
from pipec.verify.terms import (
    RANGES,
    Apply,
    Atom,
    Choose,
    Compare,
    Floor,
    Formula,
    Linear,
    Symbol,
    add,
    atom,
    computed_in,
    forms_of,
    is_computed,
    is_larger,
    is_quotient,
    is_remainder,
    is_smaller,
    scale,
    size_of,
    symbols_of,
)

_MOST = 4  # numbers of one process
_REDUCED = ("s32", "u32")


def with_numbers(network: Network, *, parted: bool, tiles: bool = False) -> tuple[Measured, ...]:
    """The processes with their loaded numbers in registers. `parted`: also what these numbers are made of, where that is in other words
    or may be reduced by the machine. `tiles`: also numbers that depend on the tile otherwise."""
    registers, between = registers_of(network), ranges_in(network.facts)
    which = _by_tile if tiles else _is_number
    numbers = [list(dict.fromkeys(_numbers(one, registers, which))) for one in network.processes]
    divisors = [*{each: None for some in numbers for one in some for each in asked_to_divide(one)}]
    return tuple(
        [
            _Naming(number, one, some, divisors, registers, between, parted).made() if 0 < len(some) <= _MOST else Measured(one)
            for number, (one, some) in enumerate(zip(network.processes, numbers, strict=True))
        ]
    )


_Which = Callable[[Atom, frozenset[Symbol]], bool]


def _numbers(process: Process, registers: frozenset[Symbol], which: _Which) -> Iterator[Atom]:
    """What is loaded where a register says, with the bounds around it; or `which`, in tests."""
    for state in process.states:
        if which is not _is_number:
            for form in forms_of(state.action.condition) if isinstance(state.action, Test) else ():
                yield from _in_form(form, registers, which)
            continue
        for formula in _formulas(state):
            for form in forms_of(formula):
                yield from _in_form(form, registers, which)
        for edge in edges_of(state.action):
            for _, value in edge.values:
                if value is not None:
                    yield from _in_form(value, registers, which)


def _formulas(state: State) -> Iterator[Formula]:
    if isinstance(state.action, Test):
        yield state.action.condition
    for edge in edges_of(state.action):
        yield from edge.requires


def _in_form(form: Linear, registers: frozenset[Symbol], which: _Which) -> Iterator[Atom]:
    for one, _ in form.terms:
        if symbols_of(atom(one)).isdisjoint(registers) or which is _is_number and not loads(one):
            continue
        if which(one, registers):
            yield one
        else:
            for each in parts_of(one):
                yield from _in_form(each, registers, which)


def _by_tile(one: Atom, registers: frozenset[Symbol]) -> bool:
    """Whether it is such a number, or how far a loop reaches in a tile: the smaller or larger one of a size and of a number of tiles, or
    in which row a tile is."""
    match one:
        case Choose(_, yes, no) if is_smaller(one) or is_larger(one):
            return all(_is_bound(form, registers) or _is_row(form, registers) for form in (yes, no))
        case _:
            return _is_number(one, registers) or is_quotient(one) or is_remainder(one)


def _is_row(form: Linear, registers: frozenset[Symbol]) -> bool:
    """Whether it is made of quotients and remainders of a tile's number by sizes."""
    return all(
        symbols_of(atom(one)).isdisjoint(registers)
        or _by_tile(one, registers)
        or isinstance(one, Floor)
        and _is_row(one.form, registers)
        or is_computed(one)
        and all(_is_row(each, registers) for each in one.arguments)
        for one, _ in form.terms
    )


def _is_number(one: Atom, registers: frozenset[Symbol]) -> bool:
    """Whether it is loaded, at times under a condition, or is the smaller or larger one of such a number and of sizes, or what the machine
    makes of several such numbers."""
    match one:
        case Apply(kind, (form,)) if kind in _REDUCED:
            return len(form.terms) > 1 and _is_bound(form, registers)
        case Apply(function, _):
            return function.startswith("ld.")
        case Choose(_, yes, no) if is_smaller(one) or is_larger(one):
            return all(_is_bound(form, registers) for form in (yes, no))
        case Choose(_, Linear(0, ((Apply() as loaded, 1),)), Linear(_, ())):
            return _is_number(loaded, registers)
        case _:
            return False


def _is_bound(form: Linear, registers: frozenset[Symbol]) -> bool:
    return all(
        symbols_of(atom(one)).isdisjoint(registers)
        or _is_number(one, registers)
        or isinstance(one, Floor)
        and _is_bound(one.form, registers)
        for one, _ in form.terms
    )


class _Naming:
    """Gives the numbers of a process registers."""

    def __init__(
        self, number: int, process: Process, numbers: Sequence[Atom], divisors: Iterable[Linear], registers: frozenset[Symbol],
        between: Between, parted: bool,
    ) -> None:  # fmt: skip
        self.process, self.divisors = process, [*divisors]
        self.registers, self.between = registers, between
        self.names = {one: Symbol(f"{number}:%loaded{count}") for count, one in enumerate(numbers)}
        parts = [*dict.fromkeys(part for one in numbers for part in self._named_parts(one))] if parted else []
        self.parts = {part: Symbol(f"{number}:%place{count}") for count, part in enumerate(parts)}
        self.made_of = {one: symbols_of(atom(one)) for one in (*numbers, *parts)}
        self.required: dict[Formula, None] = {}  # of sizes, by what has been named
        self._naming = Rewriting(self._named)
        self.held = {one: self._held(one) for one in numbers}
        self.held |= {part: frozenset().union(*(self.held[one] for one in numbers if has(atom(one), part))) for part in parts}

    def _named(self, one: Atom) -> Linear | None:
        if one in self.names:
            return atom(self.names[one])
        match one:
            case Apply(kind, (Linear(more, ((part, 1),)),)) if kind in _REDUCED and part in self.names:
                # (With what it is rounded up by a number that is bounded by a size is no larger than the type has room for.)
                least, most = RANGES[kind]
                for sign, end in ((1, most), (-1, least)):
                    reached = range_of(atom(part), self.between)[sign > 0] + more
                    beyond = sizes_beyond(atom(part), sign, self.registers, self.between)
                    if sign * reached > sign * end:
                        if not beyond:
                            return None
                        self.required[Compare("ge", scale(add(Linear(end - more), beyond[0], -1), sign))] = None
                return add(atom(self.names[part]), Linear(more))
            case _:
                return None

    def made(self) -> Measured:
        if any(self._unknown(one) for one in self.names):
            return Measured(self.process)
        states = []
        for at, state in enumerate(self.process.states):
            self.required.clear()
            asked = self._naming.formula(state.action.condition) if isinstance(state.action, Test) else None
            action = with_edges(state.action, partial(self._edge, at, [*self.required]))
            if isinstance(action, Test):
                action = replace(action, condition=asked)
            states.append(replace(state, action=action))
        meant: list[tuple[Symbol, tuple[Formula, ...]]] = [
            (name, (Compare("eq", add(atom(name), atom(one), -1)),)) for one, name in self.names.items()
        ]
        meant += [(name, ()) for name in self.parts.values()]
        held = [(name, self.held[one]) for one, name in (*self.names.items(), *self.parts.items())]
        made = replace(self.process, states=tuple(states))
        return Measured(made, tuple(meant), tuple(held), tuple(self._stages()), tuple(self.names.values()))

    def _stages(self) -> Iterator[tuple[Formula, ...]]:
        """What is known of the registers as one after another of the parts is replaced by what it is: what is made of equal parts is seen
        to be equal a step at a time."""
        named = {**self.parts, **self.names}
        depth: dict[Atom, int] = {}
        for one in sorted(named, key=lambda one: size_of(atom(one))):
            depth[one] = 1 + max((depth[part] for part in self.parts if part != one and has(atom(one), part)), default=0)
        for stage in range(1, max(depth.values())):
            yield tuple([self._is(one, name, stage, depth) for one, name in named.items()])

    def _is(self, one: Atom, name: Symbol, stage: int, depth: Mapping[Atom, int]) -> Formula:
        naming = Rewriting(
            lambda each: atom(self.parts[each]) if each in self.parts and each != one and depth[one] > stage else None
        )
        return Compare("eq", add(atom(name), naming.atom(one), -1))

    def _named_parts(self, one: Atom) -> Iterator[Atom]:
        """The parts without a loaded number that are something else in one form, or may be reduced by the machine; inner ones first."""
        for form in parts_of(one):
            for each, _ in form.terms:
                if symbols_of(atom(each)).isdisjoint(self.registers):
                    continue
                if loads(each):
                    yield from self._named_parts(each)
                elif is_computed(each) or Worded(self.divisors, self.between).form(atom(each)) != atom(each):
                    yield from self._computed_parts(each)
                    yield each

    def _computed_parts(self, one: Atom) -> Iterator[Atom]:
        for form in parts_of(one):
            for each, _ in form.terms:
                if symbols_of(atom(each)).isdisjoint(self.registers):
                    continue
                if not is_computed(each) or any(computed_in(form) for form in each.arguments if not is_machine_product(each)):
                    yield from self._computed_parts(each)
                if is_computed(each):
                    yield each

    def _held(self, one: Atom) -> frozenset[int]:
        """The states in which the number is needed, as the registers are there (a backward fixed point)."""
        held = {at for at, state in enumerate(self.process.states) if self._uses(state, one)}
        size = -1
        while size < len(held):
            size = len(held)
            for at, state in enumerate(self.process.states):
                if any(edge.target in held and not self._moves(edge, one) for edge in edges_of(state.action)):
                    held.add(at)
        # Where it is not known yet what the registers are, nothing is known of the number.
        return frozenset(held)

    def _uses(self, state: State, one: Atom) -> bool:
        forms = [form for formula in _formulas(state) for form in forms_of(formula)]
        forms += [value for edge in edges_of(state.action) for _, value in edge.values if value is not None]
        return any(has(form, one) for form in forms)

    def _moves(self, edge: Edge, one: Atom) -> bool:
        return any(symbol in self.made_of[one] for symbol, _ in edge.values)

    def _unknown(self, one: Atom) -> bool:
        """Whether the number is needed at the start, or where a register that it is made of is given an unknown value."""
        edges = [edge for state in self.process.states for edge in edges_of(state.action) if edge.target in self.held[one]]
        assigned = [row for edge in edges for row in edge.values if row[0] in self.made_of[one]]
        return self.process.start in self.held[one] or any(value is None for _, value in assigned)

    def _edge(self, at: int, required: Iterable[Formula], edge: Edge) -> Edge:
        self.required = dict.fromkeys(required)
        values = [(symbol, None if value is None else self._naming.form(value)) for symbol, value in edge.values]
        worded = Worded(self.divisors, self.between)
        moved = Rewriting(lambda one: known.get(one) if isinstance(one, Symbol) else None)
        known = {symbol: value for symbol, value in edge.values if value is not None}
        given = [
            one for one in self.names if edge.target in self.held[one] and (at not in self.held[one] or self._moves(edge, one))
        ]
        made_of = [part for part in self.parts if any(has(atom(one), part) for one in given)]
        values += [({**self.parts, **self.names}[one], worded.form(moved.form(atom(one)))) for one in (*made_of, *given)]
        required = dict.fromkeys((*map(self._naming.formula, edge.requires), *self.required, *worded.required))
        return replace(edge, values=tuple(values), requires=tuple(required))
