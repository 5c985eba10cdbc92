"""What launches are asked for, so that what walks in pieces rest on follows (pieces.py)."""

from collections.abc import Iterator, Sequence

from pipec.protocol.facts.products import exact, needed, widened
from pipec.protocol.forms.everywhere import Everywhere, askable_formula
from pipec.protocol.forms.rewriting import Rewriting
from pipec.protocol.program.program import registers_of
from pipec.protocol.restating.piece_runs import atoms_in
from pipec.verify.logic import System
from pipec.verify.network import Network
from pipec.verify.terms import (
    RANGES,
    Apply,
    Both,
    Compare,
    Either,
    Formula,
    Linear,
    Symbol,
    add,
    atom,
    forms_of,
    is_quotient,
    product,
)

_LARGEST = RANGES["s32"][1]


class Asking:
    """What is to be asked of launches so that premises follow."""

    def __init__(self, network: Network) -> None:
        self.network, self.facts = network, System(network.facts)
        self.everywhere = Everywhere(network.facts)
        _, exactly = exact(network, registers_of(network))
        of_products = [(one, self.everywhere.condition(one)) for one in exactly]
        sizes = self.facts.extended(condition for one, condition in of_products if condition == one)
        of_shares = {one: found for one in exactly if (found := _of_shares(one, sizes)) is not None}
        of_products = [(one, of_shares[one][0] if one in of_shares else condition) for one, condition in of_products]
        self.exact = [(one, condition) for one, condition in of_products if askable_formula(condition)]
        self.shares = tuple(dict.fromkeys(why for _, reasons in of_shares.values() for why in reasons))
        # (Of products that fit, what bounds them in all blocks is said in fewer words.)
        self.fitting = Everywhere((*network.facts, *(condition for _, condition in self.exact)))
        self.asked: list[Formula] = []
        self.shown: list[Formula] = []  # one after the other

    def grants(self, premise: Formula) -> bool:
        """Whether launches can be asked for something so that it follows."""
        if self.facts.entails(premise) or System(self.shown).entails(premise):
            self.shown.append(premise)
            return True
        for condition, exactly in self._tries(premise):
            asked = [*(each for _, each in exactly), *((condition,) if askable_formula(condition) else ())]
            having = System([*self.network.facts, *asked]) if asked else self.facts
            for shown in self._ways(premise, [one for one, _ in exactly]):
                if all(having.extended(shown[:at]).entails(one) for at, one in enumerate(shown)):
                    self.asked += asked
                    self.shown += [one for one in shown if one not in asked]
                    return True
        return False

    def _tries(self, premise: Formula) -> Iterator[tuple[Formula, Sequence[tuple[Formula, Formula]]]]:
        """What a launch may be asked for, and what is exact then."""
        plain = self.everywhere.condition(premise)
        if askable_formula(plain):
            yield plain, ()
        for one in (premise, *self._stronger(premise)):
            yield self.fitting.condition(widened(one)), self.exact
        if not askable_formula(plain):
            yield plain, ()

    def _ways(self, premise: Formula, exactly: Sequence[Formula]) -> Iterator[Sequence[Formula]]:
        """What is shown one after the other: each takes longer than the one before."""
        yield (premise,)
        fits = (*self.shares, *exactly) if exactly else ()
        yield (*fits, _undivided(premise), premise)
        yield (*fits, *self._natural(premise), premise)

    def _stronger(self, premise: Formula) -> Iterator[Formula]:
        """With all tiles in place of where a block's portion of them ends."""
        for fact in self.network.facts:
            match premise, fact:
                case Compare("ge", form), Either((_, Both((_, Compare(_, behind))))):
                    made = add(form, behind, -1)
                    if not {one for one, times in behind.terms if times < 0} & {one for one, _ in made.terms}:
                        yield Compare("ge", made)
                case _:
                    pass

    def _natural(self, premise: Formula) -> list[Formula]:
        """That what the premise is computed of is not negative, the parts of each number before it, as far as that follows."""
        having, found = self.facts.extended(each for each, _ in self.exact), list[Formula]()
        for one in reversed([*dict.fromkeys(atoms_in(forms_of(premise)))]):
            natural = Compare("ge", atom(one))
            if not isinstance(one, Symbol) and having.extended(found).entails(natural):
                found.append(natural)
        return found

    def conditions(self) -> tuple[Formula, ...] | None:
        """None if no launch satisfies them."""
        if System([*self.network.facts, *self.asked]).impossible():
            return None
        return needed(self.network.facts, dict.fromkeys(self.asked))


def _of_shares(formula: Formula, sizes: System) -> tuple[Formula, tuple[Formula, ...]] | None:
    """What a launch is asked so that the product of a block's place and its share fits, and why it follows: all shares together are not
    much more than what is shared, so that it is enough if this fits together with the number of blocks. None if that is not so."""
    computed = [one for one in atoms_in(forms_of(formula)) if isinstance(one, Apply)]
    for whole in dict.fromkeys(one for one in computed if one.function == "mul.lo.s64"):
        place, share = whole.arguments
        for shared, blocks in [one.arguments for one, _ in share.terms if isinstance(one, Apply) and is_quotient(one)]:
            asked = Compare("ge", add(add(Linear(_LARGEST), shared, -1), blocks, -1))
            behind = add(add(blocks, place, -1), Linear(-1))
            natural = Compare("ge", share)
            if not all(map(sizes.entails, (natural, Compare("ge", behind)))):
                continue
            why = (natural, Compare("ge", product(behind, share)))
            if sizes.extended([asked, *why]).entails(formula):
                return asked, why
    return None


def _undivided(formula: Formula) -> Formula:
    """With what is divided in place of quotients by sizes, which are no larger."""
    return Rewriting(lambda one: one.arguments[0] if is_quotient(one) else None).formula(formula)
