"""Remainders of counters by a number, told by the quotients beside them: `floor((i + k) / d)` is one more than `floor(i / d)` where
`i % d >= d - k`.

A role that has every d-th turn counts `floor((i + k) / d)` of the turns i of another role. In the turn with the remainder that is tested
this quotient moves on, and in no other: if `(i + k + 1) % d` is not 0, it is the same for k and k + 1.
"""

from collections.abc import Iterator

from pipec.protocol.deduction.deduction import known_to_differ
from pipec.protocol.deduction.premises import Premises
from pipec.protocol.deduction.rows import ZERO, Row, Terms, negative, one, plus, scaled
from pipec.protocol.variables.variables import Variables
from pipec.record import record
from pipec.verify.network import Network, Test
from pipec.verify.terms import Floor, Linear, Symbol, add, floor, forms_of, symbols_of

_MOST = 32  # quotients by one number


@record
class Remainder:
    """`rest`: the remainder of a dividend by `divisor`. `beyond`: by how much more is divided, and by how much that quotient exceeds the
    one of the dividend itself, which is 0 or 1."""

    rest: Row
    divisor: int
    beyond: tuple[tuple[int, Row], ...]


def shares(network: Network, registers: frozenset[Symbol]) -> Iterator[Linear]:
    """The quotients that move on before or after the turns whose remainder is tested."""
    for quotient, constant in _tested(network, registers):
        counter = Linear(0, quotient.form.terms)
        for turn in (constant, constant - 1):
            yield Linear(0, floor(Linear(turn % quotient.divisor, counter.terms), quotient.divisor).terms)


class Remainders:
    """Of the dividends that tests divide, also in the turn that follows: they are named as the search goes on."""

    def __init__(self, network: Network, variables: Variables) -> None:
        self.variables = variables
        self.tested = [*dict.fromkeys(quotient for quotient, _ in _tested(network, variables.registers))]
        self.known = 0  # values that had a name when these were made
        self.found: tuple[Remainder, ...] = ()

    def all(self) -> tuple[Remainder, ...]:
        if self.tested and self.known < len(self.variables.number):
            self.known = len(self.variables.number)
            self.found = tuple(self._made())
        return self.found

    @property
    def rests(self) -> frozenset[Terms]:
        """The terms of remainders, in either sign."""
        rows = [each.rest for each in self.all()]
        return frozenset(row[1] for rest in rows for row in (rest, scaled(rest, -1)))

    def _made(self) -> Iterator[Remainder]:
        named = [each for each in self.variables.number if isinstance(each, Floor) and _counts(each, self.variables.registers)]
        further = [each for one_ in self.tested for each, _ in floor(add(one_.form, Linear(1)), one_.divisor).terms]
        for quotient in dict.fromkeys((*self.tested, *further)):
            if not isinstance(quotient, Floor) or quotient not in self.variables.number:
                continue
            divisor, itself = quotient.divisor, one(self.variables.number[quotient])
            beyond: dict[int, Row] = {}
            for other in named:
                if other.divisor == divisor and other.form.terms == quotient.form.terms and other != quotient:
                    more = (other.form.constant - quotient.form.constant) % divisor
                    whole = floor(add(quotient.form, Linear(more)), divisor)
                    beyond[more] = plus(self.variables.row(whole), itself, -1)
            rest = plus(self.variables.row(quotient.form), itself, -divisor)
            if beyond and len(beyond) <= _MOST:
                yield Remainder(rest, divisor, tuple(sorted(beyond.items())))


def resolve(premises: Premises, remainders: Remainders) -> None:
    """Adds by how much the quotients exceed each other, where the remainder is known well enough."""
    for each in remainders.all():
        before: tuple[int, Row] = 0, ZERO
        for more, exceeds in each.beyond:
            least = plus(each.rest, (more - each.divisor, ()))
            if premises.entails(least):
                premises.equal(plus(exceeds, (-1, ())))
            elif premises.entails(negative(least)):
                premises.equal(exceeds)
            elif before[0] == more - 1 and known_to_differ(premises, least):
                premises.equal(plus(exceeds, before[1], -1))
            before = more, exceeds


def _tested(network: Network, registers: frozenset[Symbol]) -> Iterator[tuple[Floor, int]]:
    """The quotients in tests of remainders of counters, and what the test adds to the counter: `i + 3 - 8 * floor(i / 8)`."""
    for process in network.processes:
        for state in process.states:
            for form in forms_of(state.action.condition) if isinstance(state.action, Test) else ():
                for part, times in form.terms:
                    if isinstance(part, Floor) and _counts(part, registers):
                        ((counter, _),) = part.form.terms
                        sign = dict(form.terms).get(counter, 0)
                        constant = form.constant * sign if sign in (1, -1) and times == -sign * part.divisor else 0
                        yield part, constant


def _counts(one_: Floor, registers: frozenset[Symbol]) -> bool:
    terms = one_.form.terms
    return len(terms) == 1 and terms[0][1] == 1 and isinstance(terms[0][0], Symbol) and symbols_of(one_.form) <= registers
