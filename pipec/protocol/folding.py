"""A proof that need not know what is computed from sizes alone.

Where all roles have the same loops, it matters that their bounds are equal, not how these are computed. So each quotient by a size and
each choice among sizes is replaced by a number of its own, of which the least and the largest value are known; the certificate is then
put in terms of the network, and checked for that.

Where the loops and guards of all are about numbers that are made of counters, such as what memory holds for the tile, it matters that the
roles are in the same tile. So each of these numbers is replaced by a function of the counters, of which nothing else is known.
"""

from collections.abc import Callable
from math import isinf

from pipec.protocol.effort import Effort, Spent, steps_so_far
from pipec.protocol.facts.products import needed
from pipec.protocol.forms.everywhere import askable_formula
from pipec.protocol.forms.rewriting import Rewriting, in_terms_of, is_machine_product
from pipec.protocol.forms.sample import number_below
from pipec.protocol.program.naming import Names, canonical, in_names_of, renamed
from pipec.protocol.program.program import Program, registers_of
from pipec.protocol.program.structure import orders
from pipec.protocol.restating.opaque import Opening, argument_at
from pipec.protocol.schedules.aligned import Aligned, Alignment
from pipec.protocol.schedules.schedule import Pairs
from pipec.protocol.search.attempts import Attempt
from pipec.protocol.search.cases import Parts, Splitter
from pipec.record import replace
from pipec.verify.checker.certificate import Certificate
from pipec.verify.network import Edge, Network, State
from pipec.verify.reader.processes.tidy import with_edges
from pipec.verify.terms import (
    RANGES,
    Apply,
    Atom,
    Compare,
    Floor,
    Formula,
    Linear,
    Symbol,
    add,
    applied,
    atom,
    substitute,
    symbols_of,
)

Bounds = Callable[[Linear], tuple[float, float]]
# It is found soon, or not so: steps in all, at the beginning, and for each situation.
_EFFORT = Effort(visits=400, runs=400, combinations=250_000)
_FIRST, _EACH = 60_000, 15_000
_BELOW = 4  # values of functions of counters at samples


def folded_proof(network: Network, bounds: Bounds, pairs: Pairs, *, counted: bool = False) -> Certificate | None:
    """Of the network itself, not yet checked. None where the roles have loops of their own, nothing is folded, or what the proof found so
    needs cannot be asked of a launch. Raises Undecided. `bounds`: the least and the largest value of a form of sizes. `counted`: what is
    made of counters is folded, too; None if nothing is."""
    folding = _Folding(registers_of(network), bounds, counted=counted)
    plain = renamed(network, folding)
    if counted:
        plain = _without(plain, folding.is_counted)
    if not (folding.meaning if counted else folding.number):
        return None
    plain, names = canonical(replace(plain, facts=(*network.facts, *folding.facts)))
    alignment = Alignment(plain)
    if not alignment.whole:
        return None
    consumers, _ = orders(plain)
    for products in (False, True):
        program, spent = Program(plain, products=products), _Paced(_EFFORT)
        attempt = Attempt(Aligned(plain, consumers, alignment), 100, products=products, roomy=True)
        case = Splitter(Parts(program), attempt, _EFFORT, pairs, spent).whole()
        found = in_names_of(Certificate(network.name, (case,), needed(plain.facts, program.assumed)), names)
        unfolded = folding.unfolded(found)
        # (If products of sizes are no numbers of their own, launches can be asked of these, and not of what is made of them.)
        if all(map(askable_formula, unfolded.assumes)):
            return unfolded
    return None


def _without(network: Network, left: Callable[[Formula], bool]) -> Network:
    """The network without these requirements, which the checker will look for."""

    def edge(one: Edge) -> Edge:
        return replace(one, requires=tuple(each for each in one.requires if not left(each)))

    def state(one: State) -> State:
        return replace(one, action=with_edges(one.action, edge))

    processes = tuple(replace(one, states=tuple(map(state, one.states))) for one in network.processes)
    return replace(network, processes=processes)


class _Paced(Spent):
    """Gives up where the situations take many steps each: their relations are not as simple as equal bounds make them."""

    def __init__(self, effort: Effort) -> None:
        super().__init__(effort)
        self._begun, self._visits = steps_so_far(), effort.visits

    def paused(self) -> bool:
        steps, visited = steps_so_far() - self._begun, self._visits - self.visits
        return super().paused() or steps > _FIRST + _EACH * visited


class _Folding(Names):
    """`number`: the symbol of each folded form; `facts` about these. `meaning`: of the functions of counters, of the symbols in place of
    their arguments."""

    def __init__(self, registers: frozenset[Symbol], bounds: Bounds, *, counted: bool) -> None:
        super().__init__()
        self.number: dict[Linear, Symbol] = {}
        self.facts: list[Formula] = []
        self.meaning: dict[str, Linear] = {}
        self._names: dict[Linear, str] = {}
        self._registers, self._bounds, self._counted = registers, bounds, counted

    def _atom(self, one: Atom) -> Linear:
        form = atom(one)
        inside = not self._registers.isdisjoint(symbols_of(form))
        if inside and self._counted and not _plain(one, products=False):
            return self._function(form)
        if inside or _plain(one):
            return super()._atom(one)
        if form not in self.number:
            symbol = self.number[form] = Symbol(f"folded {len(self.number):03}")
            least, most = self._bounds(form)
            if not isinf(least):
                self.facts.append(Compare("ge", add(atom(symbol), Linear(-int(least)))))
            if not isinf(most):
                self.facts.append(Compare("ge", add(Linear(int(most)), atom(symbol), -1)))
        return atom(self.number[form])

    def _function(self, form: Linear) -> Linear:
        opening = Opening(self._registers)
        skeleton = opening.linear(form)
        name = self._names.setdefault(skeleton, number_below(len(self._names), _BELOW))
        self.meaning[name] = skeleton
        return applied(name, tuple(opening.arguments))

    def is_counted(self, formula: Formula) -> bool:
        """Whether a condition is about functions of counters: the checker is asked for those."""
        without = Rewriting(lambda one: Linear(0) if isinstance(one, Apply) and one.function in self.meaning else None)
        return without.formula(formula) != formula

    def unfolded(self, certificate: Certificate) -> Certificate:
        """In terms of the network."""
        sizes = {symbol: form for form, symbol in self.number.items()}

        def meant(one: Atom) -> Linear | None:
            match one:
                case Symbol():
                    return sizes.get(one)
                case Apply(name, arguments) if name in self.meaning:
                    given = map(rewriting.form, arguments)
                    return substitute(self.meaning[name], {argument_at(place): form for place, form in enumerate(given)})
                case _:
                    return None

        rewriting = Rewriting(meant)
        return in_terms_of(certificate, rewriting)


def _plain(one: Atom, *, products: bool = True) -> bool:
    """Whether it is made of sums, of products if these are allowed, and of quotients by numbers alone, of which launches can be asked."""
    match one:
        case Symbol():
            return True
        case Floor(form, _):
            return all(_plain(part, products=products) for part, _ in form.terms)
        case Apply(function, arguments):
            computed = is_machine_product(one) or function in RANGES and len(arguments) == 1
            return products and computed and all(_plain(part) for form in arguments for part, _ in form.terms)
        case _:
            return False
