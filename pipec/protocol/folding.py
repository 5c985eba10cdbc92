"""A proof that need not know what is computed from sizes alone.

Where all roles have the same loops, it matters that their bounds are equal, not how these are computed. So each quotient by a size and
each choice among sizes is replaced by a number of its own, of which the least and the largest value are known; the certificate is then
put in terms of the network, and checked for that.
"""

from collections.abc import Callable
from math import isinf

from pipec.protocol.aligned import Aligned, Alignment
from pipec.protocol.effort import Effort, Spent, steps_so_far
from pipec.protocol.everywhere import askable_formula
from pipec.protocol.naming import Names, canonical, in_names_of, renamed
from pipec.protocol.products import needed
from pipec.protocol.program import Program, registers_of
from pipec.protocol.rewriting import Rewriting, is_machine_product
from pipec.protocol.schedule import Pairs
from pipec.protocol.search.attempts import Attempt
from pipec.protocol.search.cases import Parts, Splitter
from pipec.protocol.search.undecided import Undecided
from pipec.protocol.structure import orders
from pipec.record import replace
from pipec.verify.checker.certificate import Case, Certificate, Node
from pipec.verify.network import Network
from pipec.verify.terms import RANGES, Apply, Atom, Compare, Floor, Formula, Linear, Symbol, add, atom, symbols_of

Bounds = Callable[[Linear], tuple[float, float]]
# It is found soon, or not so: steps in all, at the beginning, and for each situation.
_EFFORT = Effort(visits=400, runs=400, combinations=250_000)
_FIRST, _EACH = 60_000, 15_000


def folded_proof(network: Network, bounds: Bounds, pairs: Pairs) -> Certificate | None:
    """Of the network itself, not yet checked. None where the roles have loops of their own, nothing is folded, or no proof is found so.
    `bounds`: the least and the largest value of a form of sizes."""
    folding = _Folding(registers_of(network), bounds)
    plain = renamed(network, folding)
    if not folding.number:
        return None
    plain, names = canonical(replace(plain, facts=(*network.facts, *folding.facts)))
    alignment = Alignment(plain)
    if not alignment.whole:
        return None
    consumers, _ = orders(plain)
    for products in (False, True):
        program, spent = Program(plain, products=products), _Paced(_EFFORT)
        attempt = Attempt(Aligned(plain, consumers, alignment), 100, products=products, roomy=True)
        try:
            case = Splitter(Parts(program), attempt, _EFFORT, pairs, spent).whole()
        except Undecided:
            return None
        found = in_names_of(Certificate(network.name, (case,), needed(plain.facts, program.assumed)), names)
        unfolded = _unfolded(found, {symbol: form for form, symbol in folding.number.items()})
        # (If products of sizes are no numbers of their own, launches can be asked of these, and not of what is made of them.)
        if all(map(askable_formula, unfolded.assumes)):
            return unfolded
    return None


class _Paced(Spent):
    """Gives up where the situations take many steps each: their relations are not as simple as equal bounds make them."""

    def __init__(self, effort: Effort) -> None:
        super().__init__(effort)
        self._begun, self._visits = steps_so_far(), effort.visits

    def paused(self) -> bool:
        steps, visited = steps_so_far() - self._begun, self._visits - self.visits
        return super().paused() or steps > _FIRST + _EACH * visited


class _Folding(Names):
    """`number`: the symbol of each folded form; `facts` about these."""

    def __init__(self, registers: frozenset[Symbol], bounds: Bounds) -> None:
        super().__init__()
        self.number: dict[Linear, Symbol] = {}
        self.facts: list[Formula] = []
        self._registers, self._bounds = registers, bounds

    def _atom(self, one: Atom) -> Linear:
        form = atom(one)
        if _plain(one) or not self._registers.isdisjoint(symbols_of(form)):
            return super()._atom(one)
        if form not in self.number:
            symbol = self.number[form] = Symbol(f"folded {len(self.number):03}")
            least, most = self._bounds(form)
            if not isinf(least):
                self.facts.append(Compare("ge", add(atom(symbol), Linear(-int(least)))))
            if not isinf(most):
                self.facts.append(Compare("ge", add(Linear(int(most)), atom(symbol), -1)))
        return atom(self.number[form])


def _plain(one: Atom) -> bool:
    """Whether it is made of sums, of products, and of quotients by numbers alone, of which launches can be asked."""
    match one:
        case Symbol():
            return True
        case Floor(form, _):
            return all(_plain(part) for part, _ in form.terms)
        case Apply(function, arguments):
            computed = is_machine_product(one) or function in RANGES and len(arguments) == 1
            return computed and all(_plain(part) for form in arguments for part, _ in form.terms)
        case _:
            return False


def _unfolded(certificate: Certificate, meaning: dict[Symbol, Linear]) -> Certificate:
    rewriting = Rewriting(lambda one: meaning.get(one) if isinstance(one, Symbol) else None)

    def formulas(given: tuple[Formula, ...]) -> tuple[Formula, ...]:
        return tuple(map(rewriting.formula, given))

    cases = tuple(
        Case(formulas(case.when), case.begin, tuple(Node(formulas(one.facts), one.test, one.yes, one.no) for one in case.nodes))
        for case in certificate.cases
    )
    return replace(certificate, cases=cases, assumes=formulas(certificate.assumes))
