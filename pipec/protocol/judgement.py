"""What is known of a kernel's protocol: a proof, a deadlock or neither; and the checker's word on a proof that was found."""

from collections.abc import Sequence
from typing import Literal

from pipec.diag.shown import counted
from pipec.protocol.refuting.refute import Deadlock
from pipec.protocol.search.undecided import Standing
from pipec.record import record, replace
from pipec.verify.checker.certificate import Certificate
from pipec.verify.checker.check import check
from pipec.verify.checker.configuration import Refused
from pipec.verify.network import Network
from pipec.verify.reader.read import Reading
from pipec.verify.reader.text.interface import facts_of
from pipec.verify.terms import Formula


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


def with_conditions(reading: Reading, conditions: Sequence[Formula]) -> Network:
    """The network of the text with further conditions of its launches, behind those that it states."""
    stated = len(facts_of(reading.interface, reading.kernel.parameters)) - len(reading.interface.unread)
    facts = reading.network.facts
    return replace(reading.network, facts=(*facts[:stated], *conditions, *facts[stated:]))


def as_found(reading: Reading, certificate: Certificate) -> Judgement:
    """What the checker says of a proof; of one with conditions `as_accepted` tells, which adds them to the facts of the network."""
    return (
        Judgement(reading.network, certificate, reading=reading)
        if certificate.assumes
        else as_checked(reading.network, certificate)
    )


def as_accepted(found: Judgement, reading: Reading) -> Judgement:
    """The same if the checker accepts the proof of launches that satisfy its conditions; of another reading it may accept one."""
    if found.accepted is not None or found.certificate is None or not found.certificate.assumes:
        return found
    network = with_conditions(reading, found.certificate.assumes)
    checked = as_checked(network, replace(found.certificate, assumes=()))
    if checked.certificate is None or checked.network is None or found.network is None:
        return checked
    return replace(found, network=replace(found.network, assumptions=checked.network.assumptions), accepted=network)


def confirmed(ptx: str, judgement: Judgement) -> Judgement:
    """The same proof for a text whose launches satisfy its assumptions."""
    assert judgement.certificate is not None and judgement.reading is not None and judgement.network is not None
    network, certificate = judgement.reading.again(ptx), replace(judgement.certificate, assumes=())
    if network != judgement.accepted:
        return as_checked(network, certificate)
    return Judgement(replace(network, assumptions=judgement.network.assumptions), certificate)


def as_checked(network: Network, certificate: Certificate) -> Judgement:
    """What the checker says of a proof without conditions."""
    try:
        return Judgement(check(network, certificate), certificate)
    except Refused as why:
        return Judgement(network, why=f"the checker does not accept the proof: {why}")
