"""What becomes of a mutant of a PTX text that is held against the certificate of the right one, and why some are not refused.

A mutant may be as good as the original: nobody can wait for ever in it either. Each that is accepted must have a row here.
"""

import re
from dataclasses import dataclass, replace
from typing import Literal

from pipec.verify.certificate import Certificate
from pipec.verify.checker import check
from pipec.verify.configuration import Refused
from pipec.verify.network import Network, Unreadable
from pipec.verify.reader import read
from tests.verify.mutations import Mutant

Outcome = Literal["not read", "refused", "accepted"]
Likeness = Literal["the same", "other names", "another"]  # of the network read, beside that of the original


@dataclass(frozen=True)
class Reason:
    """Why mutants of an instruction (its text) by a change are accepted whose network is so like the original's."""

    instruction: str
    change: str
    likeness: Likeness
    words: str


_MOVES = "removed|twice|moved .*"
REASONS = (
    Reason(
        r"bar\.warp\.sync|bar\.sync\s+[1-9]",
        rf"{_MOVES}|(not )?by lane 0.*|branch .*",
        "the same",
        "only threads of one process meet there, all of them each time: nobody else waits for them. What the meeting orders is data",
    ),
    Reason(
        r"bar\.sync",
        "barrier named otherwise",
        "other names",
        "all who meet there meet under the other name, which nobody else uses",
    ),
    Reason(r"bar\.sync", "barrier named otherwise", "the same", "threads of one process meet there, under whatever name"),
    Reason(r".", "by lane 0 alone", "the same", "no other lane comes there"),
    Reason(r".", "not by lane 0", "the same", "lane 0 does not come there"),
    Reason(r"^@", "predicate left out", "the same", "the predicate always holds there"),
    Reason(r"mapa", "twice", "the same", "an address is computed twice"),
    Reason(r"mapa", r"CTA 0", "the same", "it is CTA 0 anyway"),
    Reason(
        r"try_wait",
        r"barrier at .*",
        "another",
        "the wait is for a use before the first, at another barrier: it passes at once, and the certificate shows that this barrier "
        "completes no phase before",
    ),
)


def judged(mutant: Mutant, certificate: Certificate) -> tuple[Outcome, Network | None]:
    """`certificate`: of the text that was changed."""
    try:
        network = read(mutant.text, certificate.kernel)
    except Unreadable:
        return "not read", None
    try:
        check(replace(network, facts=(*network.facts, *certificate.assumes)), certificate)
    except Refused:
        return "refused", network
    return "accepted", network


def reason_for(mutant: Mutant, instruction: str, mutated: Network, original: Network) -> str | None:
    likeness = likeness_of(mutated, original)
    for row in REASONS:
        if row.likeness == likeness and re.search(row.instruction, instruction) and re.fullmatch(row.change, mutant.change):
            return row.words
    return None


def likeness_of(network: Network, other: Network) -> Likeness:
    if plain(network) == plain(other):
        return "the same"
    return "other names" if plain(network, names=False) == plain(other, names=False) else "another"


def plain(network: Network, names: bool = True) -> Network:
    """Without line numbers, and without the names of named barriers."""
    processes = tuple(replace(one, states=tuple(replace(state, line=0) for state in one.states)) for one in network.processes)
    rings = tuple(ring if names or ring.kind != "named" else replace(ring, instances=(0,)) for ring in network.rings)
    return replace(network, processes=processes, rings=rings, assumptions=())
