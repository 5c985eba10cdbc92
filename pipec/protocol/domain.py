"""What holds of the registers in a situation: equations between affine forms (kept by Karr's join) and inequalities.

Facts of the first way into a situation are weakened by each further one until nothing changes. Equations that fail are combined into
those that still hold, and what they turn into (`k = 0` into `k >= 0`) is proposed as an inequality; inequalities stay while every way
implies them.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from math import gcd

from pipec.verify.logic import System
from pipec.verify.network import Edge
from pipec.verify.terms import Atom, Compare, Formula, Linear, Symbol, add, atom, scale, substitute, substituted, symbols_of

_MOST_PROPOSALS = 20  # ways into a situation after which no new inequality is taken up
_MOST_DIRECTIONS = 40
_SLACK = 3  # by how much a bound may be relaxed before it is given up

Values = dict[Symbol, Linear]


def composed(edges: Iterable[Edge], fresh: list[int]) -> tuple[Values, list[Formula]]:
    """What registers hold after the edges, and what must hold before, both in terms of the registers before."""
    values: Values = {}
    required: list[Formula] = []
    for edge in edges:
        required += [substituted(one, values) for one in edge.requires]
        made: Values = {}
        for symbol, value in edge.values:
            if value is None:
                fresh[0] += 1
                made[symbol] = atom(Symbol(f"unknown {fresh[0]}"))
            else:
                made[symbol] = substitute(value, values)
        values.update(made)
    return values, required


@dataclass(slots=True)
class Image:
    """The state after an edge, in terms of the state before: `forms[d]` is the value of dimension d there, solved."""

    system: System
    values: Values
    forms: dict[Atom, Linear]

    def value(self, form: Linear) -> Linear:
        """The value of a form over dimensions, in terms of the state before."""
        made = Linear(form.constant)
        for one, coefficient in form.terms:
            known = self.forms.get(one)
            made = add(made, substitute(atom(one), self.values) if known is None else known, coefficient)
        return self.system.solved(made)

    def entails(self, formula: Formula) -> bool:
        return self.system.entails(substituted(formula, self.values))


def image(system: System, values: Values, dimensions: Sequence[Atom]) -> Image:
    forms = {one: system.solved(substitute(atom(one), values)) for one in dimensions}
    return Image(system, values, forms)


Direction = tuple[tuple[Atom, int], ...]  # the terms of an inequality


@dataclass(slots=True)
class Facts:
    """Of one node. `equations`: forms that are 0. `bounds`: for each direction the least constant with which it is >= 0, as far as known;
    a bound is relaxed a few times before its direction is given up, so that the facts settle."""

    dimensions: tuple[Atom, ...]
    equations: list[Linear] = field(default_factory=list)
    bounds: dict[Direction, int] = field(default_factory=dict)
    relaxed: dict[Direction, int] = field(default_factory=dict)
    joins: int = 0

    @property
    def inequalities(self) -> list[Linear]:
        return [Linear(constant, direction) for direction, constant in self.bounds.items()]

    def formulas(self) -> list[Formula]:
        return [*(Compare("eq", one) for one in self.equations), *(Compare("ge", one) for one in self.inequalities)]

    def propose(self, form: Linear) -> None:
        """Takes up an inequality that is known to hold, where its direction is new or it is stronger."""
        known = self.bounds.get(form.terms)
        if form.terms and (known is None and len(self.bounds) < _MOST_DIRECTIONS or known is not None and form.constant < known):
            self.bounds[form.terms] = form.constant

    @classmethod
    def first(
        cls, way: Image, dimensions: tuple[Atom, ...], inequalities: Iterable[Linear], registers: frozenset[Symbol]
    ) -> "Facts":
        basis = Basis(way.forms)
        made = cls(dimensions, basis.equations)
        for one in dimensions:
            # Most counters start at a number that is not negative, and stay so.
            if isinstance(one, Symbol) and one in registers and way.entails(Compare("ge", atom(one))):
                made.propose(atom(one))
        for form in carried(way, basis, inequalities):
            made.propose(form)
        return made

    def join(self, way: Image, inequalities: Iterable[Linear], base: System) -> bool:
        """Weakens the facts to what holds on this way too; whether that changed anything. `base`: what holds of the sizes."""
        self.joins += 1
        old = base.extended(self.formulas()) if self.joins <= _MOST_PROPOSALS else None
        equations, suggested = self._combined(way)
        bounds: dict[Direction, int] = {}
        for direction, constant in self.bounds.items():
            bound = self._bound(way, direction, constant)
            if bound is not None:
                bounds[direction] = bound
        if equations == self.equations and bounds == self.bounds:
            return False
        if old is not None:
            for form in [*suggested, *carried(way, Basis(way.forms), inequalities)]:
                if form.terms in self.bounds or form.terms in bounds or len(bounds) >= _MOST_DIRECTIONS:
                    continue
                for constant in range(form.constant, form.constant + _SLACK):
                    relaxed = Compare("ge", Linear(constant, form.terms))
                    if old.entails(relaxed):
                        if way.entails(relaxed):
                            bounds[form.terms] = constant
                        break
        changed = equations != self.equations or bounds != self.bounds
        self.equations, self.bounds = equations, bounds
        return changed

    def _bound(self, way: Image, direction: Direction, constant: int) -> int | None:
        """The bound that holds on this way too, if it has not been relaxed too often."""
        if way.entails(Compare("ge", Linear(constant, direction))):
            return constant
        times = self.relaxed[direction] = self.relaxed.get(direction, 0) + 1
        if times > _SLACK:
            return None
        value = way.value(Linear(0, direction))
        # A number is exactly known; otherwise a little less is tried, and that what is counted is not negative.
        tries = (constant + 1, constant + 2, *((0,) if constant < -2 else ())) if value.terms else (-value.constant,)
        return next((one for one in tries if way.entails(Compare("ge", Linear(one, direction)))), None)

    def _combined(self, way: Image) -> tuple[list[Linear], list[Linear]]:
        """The equations that hold on this way too; the inequalities that those suggest which do not."""
        holding: list[Linear] = []
        failing: list[tuple[Linear, Linear]] = []
        for one in self.equations:
            rest = way.value(one)
            if rest.terms or rest.constant:
                failing.append((one, rest))
            else:
                holding.append(one)
        proposals = []
        for one, rest in failing:
            if not rest.terms:
                proposals.append(one if rest.constant > 0 else scale(one, -1))
        while failing:
            one, rest = min(failing, key=lambda row: (len(row[1].terms), len(row[0].terms)))
            failing.remove((one, rest))
            pivot = rest.terms[0][0] if rest.terms else None
            weight = _coefficient(rest, pivot)
            remaining = []
            for other, other_rest in failing:
                factor = _coefficient(other_rest, pivot)
                if factor:
                    other, other_rest = _eliminated(other, one, weight, factor), _eliminated(other_rest, rest, weight, factor)
                if other_rest.terms or other_rest.constant:
                    remaining.append((other, other_rest))
                elif other.terms:
                    holding.append(primitive(other))
            failing = remaining
        return holding, proposals


def carried(way: Image, basis: "Basis", inequalities: Iterable[Linear]) -> Iterator[Linear]:
    """Inequalities of the state before, in terms of the state after: as they are written, with the registers that were counted on (so
    that `k < n` stays a relation of the two, whatever number k is at the moment), and as their values allow."""
    seen = set()
    for found in (
        *written(way.values, way.forms, inequalities),
        *(basis.express(way.system.solved(form)) for form in inequalities),
    ):
        if found is not None and found.terms and found not in seen:
            seen.add(found)
            yield found


def written(values: Values, dimensions: Iterable[Atom], forms: Iterable[Linear]) -> Iterator[Linear]:
    """Forms over registers before an edge as forms over those after it, where all of theirs were only counted on."""
    before: Values = {}
    for one in dimensions:
        if isinstance(one, Symbol):
            value = values.get(one, atom(one))
            if len(value.terms) == 1 and value.terms[0][1] == 1 and isinstance(value.terms[0][0], Symbol):
                before.setdefault(value.terms[0][0], add(atom(one), Linear(value.constant), -1))
    for form in forms:
        if form.terms and symbols_of(form) <= before.keys():
            yield substitute(form, before)


def _coefficient(form: Linear, one: Atom | None) -> int:
    return form.constant if one is None else next((c for a, c in form.terms if a == one), 0)


def _eliminated(form: Linear, by: Linear, weight: int, factor: int) -> Linear:
    return add(scale(form, weight), by, -factor)


def primitive(form: Linear) -> Linear:
    divisor = gcd(form.constant, *(c for _, c in form.terms))
    return form if divisor in (0, 1) else Linear(form.constant // divisor, tuple((a, c // divisor) for a, c in form.terms))


class Basis:
    """Values of dimensions, written over what they are values of: which depend on each other, and what can be written over them."""

    def __init__(self, forms: Mapping[Atom, Linear]) -> None:
        self.equations: list[Linear] = []
        self._rows: list[tuple[Atom, Linear, Linear]] = []  # pivot, value, the same over dimensions
        for dimension, value in forms.items():
            rest, over = self._reduced(value, atom(dimension))
            if rest.terms:
                self._rows.append((rest.terms[0][0], rest, over))
            else:
                self.equations.append(primitive(add(over, Linear(rest.constant), -1)))

    def _reduced(self, form: Linear, over: Linear) -> tuple[Linear, Linear]:
        for pivot, row, written in self._rows:
            coefficient = _coefficient(form, pivot)
            if coefficient:
                lead = _coefficient(row, pivot)
                common = gcd(lead, coefficient)
                up, down = abs(lead) // common, coefficient // common * (1 if lead > 0 else -1)
                form = add(scale(form, up), row, -down)
                over = add(scale(over, up), written, -down)
        return form, over

    def express(self, form: Linear) -> Linear | None:
        """A positive multiple of the form over dimensions (rounded: of `form >= 0`); None where they do not determine it."""
        rest, over = self._reduced(form, Linear(0))
        return None if rest.terms else _primitive_bound(add(Linear(rest.constant), over, -1))


def _primitive_bound(form: Linear) -> Linear:
    """`form >= 0` divided by the common factor of its coefficients, rounded towards what is possible."""
    divisor = gcd(*(c for _, c in form.terms)) if form.terms else 1
    return form if divisor <= 1 else Linear(form.constant // divisor, tuple((a, c // divisor) for a, c in form.terms))
