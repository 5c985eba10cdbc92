"""Judges a kernel's protocol on the emitted PTX: proved and checked, refuted at some sizes, or not decided."""

from collections.abc import Callable, Container, Iterable, Iterator, Sequence
from functools import cache, partial
from typing import Literal

from pipec.budgets import BUDGETS
from pipec.diag.shown import counted
from pipec.protocol.effort import Effort, steps_so_far
from pipec.protocol.folding import folded_proof
from pipec.protocol.forms.everywhere import askable_formula
from pipec.protocol.prove import Undecided, prove
from pipec.protocol.refuting.refute import Deadlock, refute
from pipec.protocol.refuting.refute_by_memory import refute_by_memory
from pipec.protocol.refuting.tried import Launches
from pipec.protocol.refuting.unfold import unfolded
from pipec.protocol.restating.nested import nested
from pipec.protocol.restating.opaque import Opaque
from pipec.protocol.restating.restate import Restated, one_behind_the_other, restate, worded
from pipec.protocol.schedules.aligned import Alignment
from pipec.protocol.search.attempts import in_step
from pipec.protocol.search.undecided import Standing
from pipec.protocol.walks import proofs_in_pieces
from pipec.record import field, mutable, record, replace
from pipec.verify.checker.certificate import Certificate
from pipec.verify.checker.check import check
from pipec.verify.checker.configuration import Refused
from pipec.verify.network import Arrive, Network, Unreadable
from pipec.verify.reader.processes.fitting import adds_up
from pipec.verify.reader.processes.leaps import leaps
from pipec.verify.reader.read import Reading
from pipec.verify.reader.readings import readings_of
from pipec.verify.reader.text.interface import facts_of
from pipec.verify.reader.values.interpretation import LIMITS, WHOLE
from pipec.verify.terms import Compare, Formula, Symbol, symbols_in

_BRIEF = 300_000  # steps
_BRIEFEST = 40_000  # where loaded numbers are added up: what is not proved soon, mostly is not without assuming that they fit
_IN_STEP = 4 * _BRIEF  # of a search that follows loops turn by turn
_LEAST = 100_000  # of a reading, where the earlier ones have taken all steps: what is proved there mostly takes less


@record
class Side:
    """A row of barriers of a pipeline; `offset` of the first in shared memory."""

    pipeline: str
    side: Literal["full", "empty"]
    offset: int


@record
class Judgement:
    """`certificate`: the protocol is proved, according to the checker; a certificate with assumptions is not a proof until `confirmed`.
    `deadlock`: it is refuted. Neither: `why` is what stopped the search, `standing` the processes whose next step it did
    not find, `uneven` a ring of full barriers that it saw advance too far, `runs` the number of small sizes without a deadlock, and
    `by_memory` a deadlock with certain numbers in memory.
    `network`: None if the PTX could not be read. `reading`: of the text, for another round with the assumed conditions. `accepted`: the
    network of which the checker has accepted the proof, with these conditions among its facts."""

    network: Network | None
    certificate: Certificate | None = None
    deadlock: Deadlock | None = None
    why: str = ""
    runs: int = 0
    standing: tuple[Standing, ...] = ()
    uneven: int | None = None
    by_memory: Deadlock | None = None
    reading: Reading | None = None
    accepted: Network | None = None

    @property
    def tried(self) -> str:
        """The result of the runs at small sizes, if any."""
        if self.by_memory is not None:
            return "; refuted with certain numbers in memory"
        return f"; no deadlock in {counted(self.runs, 'small size')}" if self.runs else ""

    @property
    def situations(self) -> int:
        return sum(len(case.nodes) for case in self.certificate.cases) if self.certificate else 0


def judge(
    ptx: str,
    kernel: str,
    sides: Sequence[Side] = (),
    launches: Launches = lambda _: True,
    asked: Callable[[Sequence[Formula]], bool] = lambda _: True,
    most: int | None = None,
    before: Judgement | None = None,
) -> Judgement:
    """Reads, proves and checks one kernel of a PTX text. `sides`: pipelines whose two sides must have advanced equally at the end;
    `launches`: whether a launch can have these sizes; `asked`: whether a launch can be required to satisfy the conditions. `most`: steps
    that each reading may take, and no other is begun behind twice as many. `before`: of the same text with more launches, whose
    deadlocks are not looked for again."""
    first: Judgement | None = None
    # Read so, it is proved by the first schedule, but under conditions that no launch can check: another reading is more likely to do
    # without them than another schedule.
    conditional: Reading | None = None
    earlier = _Earlier(refuting=before is None)
    looked_at: set[Reading] = set()
    folded: set[Reading] = set()
    ended: set[Reading] = set()
    first_begun = steps_so_far()
    try:
        for reading, steps in _each_with_effort(readings_of(ptx, kernel), ended):
            if most is not None and first is not None and steps_so_far() - first_begun > 2 * most:
                break
            # The slower reading, which distinguishes wrapping from mere reinterpretation of the sign.
            if reading.how.as_read and first is not None and not _may_wrap(before or first):
                continue
            if earlier.lacks_it_again and not (reading.how.as_read or reading.how.fitting):
                continue  # the others fold up more or less of a number, which does not bound what is read from memory
            if reading not in looked_at and (found := _in_pieces(reading, sides, asked)) is not None:
                return found
            if _is_for_pieces(reading):
                continue
            proof = None if reading in looked_at else _folded(reading, sides, asked, earlier)
            looked_at.add(reading)
            begun = steps_so_far()
            left = steps or max(_LEAST, BUDGETS["all proof steps"].limit - (begun - first_begun))
            left = left if most is None else min(left, most)
            if not (steps or reading.how.fitting) and adds_up(reading.network):
                left = min(left, _BRIEF)
            effort = None if left >= BUDGETS["proof steps"].limit else Effort(combinations=left)
            found = proof or _judged(reading, sides, launches, earlier, effort, counting=not steps, any_conditions=reading.others)
            if found.certificate is None and found.deadlock is None and reading not in folded:
                folded.add(reading)
                found = _folded(reading, sides, asked, earlier, counted=True) or found
            if 2 * (steps_so_far() - begun) < left:
                ended.add(reading)
            if found.certificate is not None and asked(found.certificate.assumes):
                found = _accepted(found, reading)
                if found.certificate is not None:
                    return found
            if reading.others and found.certificate is not None and not all(map(askable_formula, found.certificate.assumes)):
                conditional = conditional or reading
            # (The condition that a proof would need is more informative than that there is none.)
            if first is None or reading.how.as_read and (found.deadlock is not None or first.certificate is None):
                first = found
            if found.by_memory is not None or found.deadlock is not None and found.deadlock.wraps is None:
                break
    except Unreadable as why:
        first = first or Judgement(None, why=str(why))
    assert first is not None
    if conditional is not None and first.deadlock is None:
        found = _judged(conditional, sides, launches, earlier)
        if found.certificate is not None and asked(found.certificate.assumes):
            return _accepted(found, conditional)
    return first


def _each_with_effort(readings: Iterable[Reading], ended: Container[Reading]) -> Iterator[tuple[Reading, int]]:
    """The readings, with the steps that one may take, or 0 for what is left of all: the first ones briefly if one for launches of few
    blocks, or with loaded numbers whole, or with those from which loops go on, follows: walks over tiles, and bounds that are loaded, that
    are said in different ways are the same numbers only there, and whoever asks no more of a launch than the first readings do is found
    soon. `ended`: readings whose search has come to its end by itself."""
    brief: list[Reading] = []
    for reading in readings:
        of, how = reading.arithmetic, reading.how
        another = of.loads or of.placed and not how.near or of.widest > how.limit and leaps(reading.network)
        if how.limit == LIMITS[0] and not (how.as_read or how.fitting) and another:
            brief.append(reading)
            yield reading, _BRIEFEST if adds_up(reading.network) else _BRIEF
            continue
        yield reading, 0
        if reading.how.fitting:
            continue  # where these do not help, what is left of the earlier ones comes behind others
        for earlier in reversed(brief):
            if earlier not in ended:
                yield earlier, 0
        brief.clear()


def _is_for_pieces(reading: Reading) -> bool:
    """Whether it is read with whole numbers that are not loaded."""
    return reading.how.limit == WHOLE and not reading.arithmetic.loads


def _in_pieces(reading: Reading, sides: Sequence[Side], asked: Callable[[Sequence[Formula]], bool]) -> Judgement | None:
    """With a proof that the checker accepts, of roles that go on from numbers they compute; None if none is found."""
    of = reading.arithmetic
    if of.loads or of.widest > reading.how.limit or reading.how.as_read or not leaps(reading.network):
        return None  # where numbers are folded up, nothing is known of how far they are apart
    for certificate in proofs_in_pieces(reading.network, pairs_of(reading.network, sides)):
        if asked(certificate.assumes):
            found = _accepted(_found(reading, certificate), reading)
            if found.certificate is not None:
                return found
    return None


def _folded(
    reading: Reading,
    sides: Sequence[Side],
    asked: Callable[[Sequence[Formula]], bool],
    earlier: "_Earlier",
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
    of_such_launches = _asking(reading, certificate.assumes)
    checked = _checked(of_such_launches, replace(certificate, assumes=()))
    if checked.certificate is None or checked.network is None:
        return None
    needed = replace(network, assumptions=checked.network.assumptions)
    return Judgement(needed, certificate, reading=reading, accepted=of_such_launches)


def _asking(reading: Reading, conditions: Sequence[Formula]) -> Network:
    """The network of the text with further conditions of its launches, behind those that it states."""
    stated = len(facts_of(reading.interface, reading.kernel.parameters)) - len(reading.interface.unread)
    facts = reading.network.facts
    return replace(reading.network, facts=(*facts[:stated], *conditions, *facts[stated:]))


@mutable
class _Earlier:
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


def _judged(
    reading: Reading, sides: Sequence[Side], launches: Launches, earlier: _Earlier, effort: Effort | None = None, *, counting: bool = False,
    any_conditions: bool = False,
) -> Judgement:  # fmt: skip
    network = reading.network
    pairs = pairs_of(network, sides)
    search = partial(prove, effort=effort, lacking=earlier.lacking)
    if counting and (certificate := _by_counting(reading, pairs, search)) is not None:
        return _found(reading, certificate)
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
    earlier: _Earlier, *, any_conditions: bool,
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
    return _found(reading, replace(certificate, restated=other.others))


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


def _by_nesting(reading: Reading, pairs: Sequence[tuple[int, int]], earlier: _Earlier) -> Judgement | None:
    """With a proof of the network with loops inside each other in place of a single one, that the checker accepts; None if there is no
    such loop, or none is found so."""
    # (Where numbers are loaded, the reading for which they are given registers says what is a turn in few words.)
    one = None if reading.arithmetic.loads and reading.how.limit != WHOLE else nested(reading.network)
    if one is None or reading.network in earlier.nested:
        return None
    earlier.nested.append(reading.network)
    of_such_launches = _asking(reading, one.conditions)
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
    found = _accepted(_found(reading, certificate), reading)
    return found if found.certificate is not None else None


def _found(reading: Reading, certificate: Certificate) -> Judgement:
    # Certificates with assumptions are checked once these are facts of the network, see `_accepted`: adding them here would change the
    # network.
    return (
        Judgement(reading.network, certificate, reading=reading)
        if certificate.assumes
        else _checked(reading.network, certificate)
    )


def _accepted(found: Judgement, reading: Reading) -> Judgement:
    """The same if the checker accepts the proof of launches that satisfy its conditions; of another reading it may accept one."""
    if found.accepted is not None or found.certificate is None or not found.certificate.assumes:
        return found
    network = _asking(reading, found.certificate.assumes)
    checked = _checked(network, replace(found.certificate, assumes=()))
    if checked.certificate is None or checked.network is None or found.network is None:
        return checked
    return replace(found, network=replace(found.network, assumptions=checked.network.assumptions), accepted=network)


def _may_wrap(found: Judgement) -> bool:
    """Whether arithmetic overflows 32 bits at some sizes, or a proof would need sizes that a launch cannot enforce."""
    return found.certificate is not None or found.deadlock is not None and found.deadlock.wraps is not None


def confirmed(ptx: str, judgement: Judgement) -> Judgement:
    """The same proof for a text whose launches satisfy its assumptions."""
    assert judgement.certificate is not None and judgement.reading is not None and judgement.network is not None
    network, certificate = judgement.reading.again(ptx), replace(judgement.certificate, assumes=())
    if network != judgement.accepted:
        return _checked(network, certificate)
    return Judgement(replace(network, assumptions=judgement.network.assumptions), certificate)


def _checked(network: Network, certificate: Certificate) -> Judgement:
    try:
        return Judgement(check(network, certificate), certificate)
    except Refused as why:
        return Judgement(network, why=f"the checker does not accept the proof: {why}")


def pairs_of(network: Network, sides: Sequence[Side]) -> tuple[tuple[int, int], ...]:
    """Per pipeline the rings of its full and empty barriers; a side may have several, for CTAs with different behaviour."""
    ring_of = {(ring.instances[0], ring.ranks): number for number, ring in enumerate(network.rings) if ring.kind == "mbarrier"}
    ranks = sorted({ring.ranks for ring in network.rings})
    offset = {(one.pipeline, one.side): one.offset for one in sides}
    used = _used(network)
    pairs = []
    for pipeline in dict.fromkeys(one.pipeline for one in sides):
        for each in ranks:
            full = ring_of.get((offset.get((pipeline, "full"), -1), each))
            empty = ring_of.get((offset.get((pipeline, "empty"), -1), each))
            if full is None or empty is None or full not in used:
                continue
            # A reader in another CTA of the cluster releases there.
            if empty in used or len(ranks) == 1:
                pairs.append((full, empty))
    return tuple(pairs)


def _used(network: Network) -> set[int]:
    """The rings at which anything arrives: barriers in one CTA of a pair may be unused."""
    actions = (state.action for process in network.processes for state in process.states)
    return {action.use.ring for action in actions if isinstance(action, Arrive)}
