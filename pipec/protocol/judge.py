"""What holds of a kernel's protocol, found on the PTX that is emitted: proved and checked, refuted at some sizes, or not decided."""

from collections.abc import Callable, Sequence
from functools import cache
from typing import Literal

from pipec.diag.shown import counted
from pipec.protocol.prove import Undecided, prove
from pipec.protocol.refute import Deadlock, refute
from pipec.protocol.tried import Launches
from pipec.protocol.unfold import unfolded
from pipec.record import record, replace
from pipec.verify.checker.certificate import Certificate
from pipec.verify.checker.check import check
from pipec.verify.checker.configuration import Refused
from pipec.verify.network import Arrive, Network, Unreadable
from pipec.verify.reader.read import Reading, readings_of
from pipec.verify.terms import Formula


@record
class Side:
    """One row of barriers of a pipeline: `offset` of the first in shared memory."""

    pipeline: str
    side: Literal["full", "empty"]
    offset: int


@record
class Judgement:
    """`certificate`: with it the protocol is proved, as the checker says; one that assumes something is no proof before `confirmed`.
    `deadlock`: it is refuted. Neither: `why` says what stopped the search, and `runs` at how many small sizes no deadlock was met.
    `network`: None where the PTX could not be read. `reading`: of the text, for the same with the conditions that are assumed."""

    network: Network | None
    certificate: Certificate | None = None
    deadlock: Deadlock | None = None
    why: str = ""
    runs: int = 0
    reading: Reading | None = None

    @property
    def tried(self) -> str:
        """What runs at small sizes have shown, if there were any."""
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
) -> Judgement:
    """Reads, proves and checks one kernel of a PTX text. `sides`: pipelines whose two sides must have moved equally far at the end;
    `launches`: which sizes a launch can have; `asked`: whether a launch can be asked to keep to conditions."""
    first: Judgement | None = None
    try:
        for reading in readings_of(ptx, kernel):
            # It takes longer, and tells apart what wraps around and what is only read with another sign.
            if reading.arithmetic.as_read and first is not None and not _may_wrap(first):
                break
            found = _judged(reading, sides, launches)
            # Another reading may need no condition that a launch cannot check.
            if found.certificate is not None and asked(found.certificate.assumes):
                return found
            if reading.arithmetic.as_read:
                # Which condition it is that a proof would need says more than that there is none.
                return found if found.deadlock is not None or first is None or first.certificate is None else first
            first = first or found
            if found.deadlock is not None and found.deadlock.wraps is None:
                break
    except Unreadable as why:
        return first or Judgement(None, why=str(why))
    assert first is not None
    return first


def _judged(reading: Reading, sides: Sequence[Side], launches: Launches) -> Judgement:
    network = reading.network
    pairs = pairs_of(network, sides)
    plain = cache(lambda: unfolded(network, reading.arithmetic.folds))
    runs = cache(lambda: refute(plain(), pairs, launches))
    try:
        certificate = prove(network, pairs=pairs, refuted=lambda: runs()[0] is not None)
    except Undecided as why:
        deadlock, ended = runs()
        # Sizes near 2^31 only now: a proof could have asked the launch for smaller ones.
        if deadlock is None:
            deadlock, _ = refute(plain(), pairs, launches, large=True)
        return Judgement(network, None, deadlock, str(why), ended)
    # What is missing from the facts is checked once they have it, see `confirmed`: to add it here would be another network.
    return Judgement(network, certificate, reading=reading) if certificate.assumes else _checked(network, certificate)


def _may_wrap(found: Judgement) -> bool:
    """Whether arithmetic leaves 32 bits at some sizes, or a proof would need sizes that no launch can be asked for."""
    return found.certificate is not None or found.deadlock is not None and found.deadlock.wraps is not None


def confirmed(ptx: str, judgement: Judgement) -> Judgement:
    """The same proof for a text whose launches keep to what it assumes."""
    assert judgement.certificate is not None and judgement.reading is not None
    return _checked(judgement.reading.again(ptx), replace(judgement.certificate, assumes=()))


def _checked(network: Network, certificate: Certificate) -> Judgement:
    try:
        check(network, certificate)
    except Refused as why:
        return Judgement(network, why=f"the checker does not accept the proof: {why}")
    return Judgement(network, certificate)


def pairs_of(network: Network, sides: Sequence[Side]) -> tuple[tuple[int, int], ...]:
    """Per pipeline the rings of its full and its empty barriers; a side may have several, of CTAs that do different things."""
    ring_of = {(ring.instances[0], ring.ranks): number for number, ring in enumerate(network.rings) if ring.kind == "mbarrier"}
    ranks = sorted({ring.ranks for ring in network.rings})
    offset = {(one.pipeline, one.side): one.offset for one in sides}
    pairs = []
    for pipeline in dict.fromkeys(one.pipeline for one in sides):
        for each in ranks:
            full = ring_of.get((offset.get((pipeline, "full"), -1), each))
            empty = ring_of.get((offset.get((pipeline, "empty"), -1), each))
            if full is None or empty is None or not _used(network, full):
                continue
            # Who reads in another CTA of the cluster gives back there.
            if _used(network, empty) or len(ranks) == 1:
                pairs.append((full, empty))
    return tuple(pairs)


def _used(network: Network, ring: int) -> bool:
    """Whether anybody arrives there: barriers of one CTA of a pair may stand idle."""
    actions = (state.action for process in network.processes for state in process.states)
    return any(isinstance(action, Arrive) and action.use.ring == ring for action in actions)
