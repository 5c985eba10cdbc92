"""The ways in which one reading of a text is proved, each with what the checker says of its result."""

from collections.abc import Callable, Sequence
from functools import cache, partial

from pipec.protocol.effort import Effort, steps_so_far
from pipec.protocol.folding import folded_proof
from pipec.protocol.forms.everywhere import askable_formula
from pipec.protocol.judgement import Judgement, Side, as_accepted, as_checked, as_found, with_conditions
from pipec.protocol.pairs import pairs_of
from pipec.protocol.prove import Undecided, prove
from pipec.protocol.refuting.launches import Launches
from pipec.protocol.refuting.refute import Deadlock, refute
from pipec.protocol.refuting.refute_by_memory import refute_by_memory
from pipec.protocol.refuting.unfold import unfolded
from pipec.protocol.restating.nested import nested
from pipec.protocol.restating.once import once
from pipec.protocol.restating.opaque import Opaque
from pipec.protocol.restating.restate import Restated, one_behind_the_other, restate, worded
from pipec.protocol.schedules.aligned import Alignment
from pipec.protocol.search.attempts import in_step
from pipec.protocol.walks import proofs_in_pieces
from pipec.record import field, mutable, replace
from pipec.verify.checker.certificate import Certificate
from pipec.verify.network import Network
from pipec.verify.reader.processes.fitting import adds_up
from pipec.verify.reader.processes.leaps import leaps
from pipec.verify.reader.read import Reading
from pipec.verify.reader.values.interpretation import LIMITS, WHOLE
from pipec.verify.terms import Compare, Formula, Symbol, symbols_in

_AS_SIZES = 400_000  # steps of a search with loaded numbers as sizes
_IN_STEP = 1_200_000  # steps of a search that follows loops turn by turn


@mutable
class Earlier:
    """What is known from earlier readings of the text. `refuting`: whether deadlocks are looked for. `settled`: no numbers in memory were
    found with which processes wait for ever, and each run told how it ends. Another reading writes the same values differently, so that
    its runs end in the same way. `searched`: the results of searches that were not cut off, which another reading with the same network
    would repeat; `nested`: the networks that have been searched with loops inside each other. `lacking`: what no schedule of an earlier
    search got past, by the names of registers, which are the same in each reading; `lacks_it_again`: nor one of another reading.
    `unbounded`: of what searches did not get past that know nothing of what is made of counters, the constant and the symbols."""

    refuting: bool = True
    settled: bool = False
    lacking: set[Formula] = field(default_factory=set)
    lacks_it_again: bool = False
    unbounded: set[tuple[int, frozenset[Symbol]]] = field(default_factory=set)
    searched: list[tuple[Network, bool, Judgement]] = field(default_factory=list)
    nested: list[Network] = field(default_factory=list)

    def found(self, network: Network, *, any_conditions: bool) -> Judgement | None:
        """What a search of this network told."""
        return next((told for of, any_, told in self.searched if any_ == any_conditions and of == network), None)


def by_pieces(reading: Reading, sides: Sequence[Side], asked: Callable[[Sequence[Formula]], bool]) -> Judgement | None:
    """With a proof that the checker accepts, of roles that go on from numbers they compute; None if none is found."""
    of = reading.arithmetic
    if of.loads or of.widest > reading.how.limit or reading.how.as_read or not leaps(reading.network):
        return None  # where numbers are folded up, nothing is known of how far they are apart
    for certificate in proofs_in_pieces(reading.network, pairs_of(reading.network, sides)):
        if asked(certificate.assumes):
            found = _if_accepted(reading, certificate)
            if found is not None:
                return found
    return None


def by_folding(
    reading: Reading,
    sides: Sequence[Side],
    asked: Callable[[Sequence[Formula]], bool],
    earlier: Earlier,
    *,
    counted: bool = False,
) -> Judgement | None:
    """With a proof that the checker accepts, under conditions that a launch can be required to satisfy; None if none is found soon.
    `counted`: with numbers that are made of counters folded up, too."""
    network = reading.network
    try:
        certificate = folded_proof(network, reading.arithmetic.bounds, pairs_of(network, sides), counted=counted)
    except Undecided as why:
        if counted and isinstance(why.required, Compare):
            # (Where loaded numbers are added up, hardly anything bounds what is compared with them. Functions have other names there.)
            lack = why.required.form.constant, symbols_in(why.required)
            earlier.lacks_it_again |= lack in earlier.unbounded and adds_up(network)
            earlier.unbounded.add(lack)
        return None
    if certificate is None or not asked(certificate.assumes):
        return None
    of_such_launches = with_conditions(reading, certificate.assumes)
    checked = as_checked(of_such_launches, replace(certificate, assumes=()))
    if checked.certificate is None or checked.network is None:
        return None
    needed = replace(network, assumptions=checked.network.assumptions)
    return Judgement(needed, certificate, reading=reading, accepted=of_such_launches)


def by_search(
    reading: Reading, sides: Sequence[Side], launches: Launches, earlier: Earlier, effort: Effort | None = None, *, counting: bool = False,
    any_conditions: bool = False,
) -> Judgement:  # fmt: skip
    """What a search within the effort told. `counting`: with what is left of each tile, too; `any_conditions`: a proof may have
    conditions that a launch cannot be asked to satisfy."""
    network = reading.network
    pairs = pairs_of(network, sides)
    search = partial(prove, effort=effort, lacking=earlier.lacking)
    if counting and (certificate := _by_counting(reading, pairs, search)) is not None:
        return as_found(reading, certificate)
    if (nesting := _by_nesting(reading, pairs, earlier)) is not None:
        return nesting
    other = restate(network, numbers=reading.how.limit == WHOLE)
    if (before := earlier.found(other.network, any_conditions=any_conditions)) is not None:
        return before
    begun = steps_so_far()
    found = _searched(reading, other, pairs, search, launches, earlier, any_conditions=any_conditions)
    if effort is None or effort.combinations is None or 2 * (steps_so_far() - begun) < effort.combinations:
        earlier.searched.append((other.network, any_conditions, found))
    return found


def _searched(
    reading: Reading, other: Restated, pairs: Sequence[tuple[int, int]], search: Callable[..., Certificate], launches: Launches,
    earlier: Earlier, *, any_conditions: bool,
) -> Judgement:  # fmt: skip
    """The result of a search of the restated network, and of runs at small sizes where they are asked."""
    network = reading.network
    plain = cache(lambda: unfolded(network, reading.arithmetic.folds))
    runs = cache(lambda: refute(plain(), pairs, launches))

    @cache
    def by_memory() -> Deadlock | None:
        if earlier.settled or runs()[0] is not None:
            return None
        found, told = refute_by_memory(plain(), pairs, launches)
        earlier.settled = found is None and told
        return found

    def refuted() -> bool:
        if not earlier.refuting:
            return False
        return runs()[0] is not None or by_memory() is not None

    try:
        certificate = search(other.network, pairs=pairs, refuted=refuted, any_conditions=any_conditions)
    except Undecided as why:
        if why.lacks is not None:
            earlier.lacks_it_again |= why.lacks in earlier.lacking
            earlier.lacking.add(why.lacks)
        if not earlier.refuting:
            return Judgement(other.network, None, why=str(why), standing=why.standing, uneven=why.uneven)
        deadlock, ended = runs()
        # Sizes near 2^31 come last: a proof could have restricted the launch to smaller ones.
        if deadlock is None:
            deadlock, _ = refute(plain(), pairs, launches, large=True)
        return Judgement(other.network, None, deadlock, str(why), ended, why.standing, why.uneven, by_memory())
    return as_found(reading, replace(certificate, restated=other.others))


def by_numbers(reading: Reading, sides: Sequence[Side], asked: Callable[[Sequence[Formula]], bool]) -> Judgement | None:
    """With a proof that the checker accepts, of the network with numbers that a block loads once as sizes; None if there is no such number,
    or none is found so under conditions that a launch can be required to satisfy."""
    numbers = once(reading.network) if reading.arithmetic.loads else None
    if numbers is None:
        return None
    other = restate(numbers.network)
    try:
        certificate = prove(other.network, Effort(combinations=_AS_SIZES), pairs_of(reading.network, sides))
    except Undecided:
        return None
    certificate = numbers.unfolded(replace(certificate, restated=other.others))
    if not all(map(askable_formula, certificate.assumes)) or not asked(certificate.assumes):
        return None
    return _if_accepted(reading, certificate)


def _by_counting(reading: Reading, pairs: Sequence[tuple[int, int]], search: Callable[..., Certificate]) -> Certificate | None:
    """A proof of the network with what is left of each tile in registers; None if there is no such thing, or none is found so."""
    of, how = reading.arithmetic, reading.how
    if how.limit != (WHOLE if of.loads else LIMITS[0]) or of.placed and not how.near or how.as_read:
        return None  # what is loaded, or made of a tile, is folded up; or walks over tiles are other numbers in other words
    other = restate(reading.network, counting=True)
    if not other.left:
        return None
    opaque = Opaque(other.network, other.left)
    try:
        certificate = opaque.unfolded(search(opaque.network, pairs=pairs, tries=in_step))
    except Undecided:
        return None
    return replace(certificate, restated=other.others) if all(map(askable_formula, certificate.assumes)) else None


def _by_nesting(reading: Reading, pairs: Sequence[tuple[int, int]], earlier: Earlier) -> Judgement | None:
    """With a proof of the network with loops inside each other in place of a single one, that the checker accepts; None if there is no
    such loop, or none is found so."""
    # (Where numbers are loaded, the reading for which they are given registers says what is a turn in few words.)
    one = None if reading.arithmetic.loads and reading.how.limit != WHOLE else nested(reading.network)
    if one is None or reading.network in earlier.nested:
        return None
    earlier.nested.append(reading.network)
    of_such_launches = with_conditions(reading, one.conditions)
    others, network = one.others, worded(of_such_launches, one.others)
    # Loops may still be in other words, as those over distances.
    further = restate(network, numbers=reading.how.limit == WHOLE)
    if further.others and len(Alignment(further.network).askers) >= len(Alignment(network).askers):
        others = one_behind_the_other(others, further.others)
        network = worded(of_such_launches, others)
    try:
        certificate = prove(network, Effort(combinations=_IN_STEP), pairs, tries=in_step)
    except Undecided:
        return None
    certificate = replace(certificate, assumes=(*one.conditions, *certificate.assumes), restated=others)
    if not all(map(askable_formula, certificate.assumes)):
        return None
    return _if_accepted(reading, certificate)


def _if_accepted(reading: Reading, certificate: Certificate) -> Judgement | None:
    """With the proof, if the checker accepts it."""
    found = as_accepted(as_found(reading, certificate), reading)
    return found if found.certificate is not None else None
