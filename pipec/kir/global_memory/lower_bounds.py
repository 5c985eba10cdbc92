"""Numbers that are never negative where a role comes to: by the loops and branches around, and the conditions of the kernel."""

from collections.abc import Iterator, Sequence

from pipec.kir.global_memory.access_pairs import Answer, Terms, Workers
from pipec.kir.global_memory.equations import Fact, Facts
from pipec.kir.global_memory.paths import Known, conditions
from pipec.kir.ir import Kernel, Role
from pipec.sema import tree
from pipec.terms.term import LAUNCH, Atom, Term, as_term
from pipec.terms.walk import leaves
from pipec.verify.terms import Both, Compare, Formula, Linear, Symbol

LARGEST = (1 << 31) - 1  # a coordinate is an i32


class LowerBounds:
    """What is known of the numbers in some terms of a role, where it gets to a block of its graph."""

    def __init__(self, kernel: Kernel, role: Role, at: int, asked: Sequence[Term]) -> None:
        self._workers, self._known = Workers(kernel), conditions(role, at)
        self._terms = Terms(role, None, self._workers, dict(_at_least(kernel, role, at, asked, self._known)))

    def never_negative(self, asked: Term) -> Answer:
        """Whether it is not negative, and fits in a register."""
        terms = self._terms
        sought = terms.of(asked)
        zeros = [Fact(terms.of(zero), 0, 0) for zero in self._known.zeros]
        tops: dict[Term, tuple[Term, ...]] = {}
        for term, highs in (*terms.above(self._known), *terms.tops.items()):
            tops[term] = *tops.get(term, ()), *highs
        for wrapping in (False, True):
            facts = Facts(zeros, tops, wrapping=wrapping)
            if facts.never_negative(sought):
                fits = not (facts.wrapping or self._workers.wrapping or terms.wraps) and facts.most(sought) <= LARGEST
                return "shown" if fits else "fitting"
        return "open"


def _at_least(kernel: Kernel, role: Role, at: int, asked: Sequence[Term], known: Known) -> Iterator[tuple[Atom, int]]:
    """Lower bounds of sizes and parameters: from conditions of the kernel, branches on the way to the store, and the loops around it,
    which have an iteration."""
    signs = list(known.signs)
    for loop in role.loops:
        counter = role.values.counters.get(loop.statement) if at in loop.blocks else None
        count = role.values.counts.get(counter.parts[0][0]) if counter is not None and counter.parts else None
        if count is not None:
            signs.append((count.stop - count.start if count.step > 0 else count.start - count.stop) - 1)
    stated = dict(_stated(Both(tuple(one.formula for one in kernel.assumptions))))
    found = {
        atom: stated.get(_name(atom), atom.least) for sign in (*asked, *signs) for atom in leaves(sign) if atom.operator in LAUNCH
    }
    for sign in signs:
        for atom, factor in sign.parts:
            if factor == 1 and atom in found:
                found[atom] = max(found[atom], -(sign - as_term(atom)).largest)
    return ((atom, least) for atom, least in found.items() if least > atom.least)


def _stated(condition: Formula) -> Iterator[tuple[str, int]]:
    match condition:
        case Compare("ge", Linear(constant, ((Symbol(name), 1),))):
            yield name, -constant
        case Both(parts):
            for part in parts:
                yield from _stated(part)
        case _:
            pass


def _name(atom: Atom) -> str:
    about = atom.operands[0]
    return about.name if isinstance(about, tree.ScalarParameter) else str(about)
