"""The mbarriers that a kernel makes ready before its threads first meet, and the rings that they form."""

from collections.abc import Mapping, Sequence

from pipec.record import record
from pipec.verify.network import Ring, Unreadable
from pipec.verify.reader.flow.slice import Flow
from pipec.verify.reader.processes.walk import Walk
from pipec.verify.reader.text.opcodes import Kind
from pipec.verify.reader.values.machine import Machine
from pipec.verify.reader.values.surroundings import Barriers, Later, Surroundings, ThreadsDiffer

# Determines which barriers are initialised, and when all threads have synchronised.
PROLOGUE = frozenset({Kind.INIT, Kind.SYNC, Kind.VOTE, Kind.SIGN, Kind.CLUSTER_ARRIVE, Kind.CLUSTER_WAIT})


@record
class MadeReady:
    """By place in shared memory: the number of arrivals, for each CTA of the cluster, and the instruction."""

    counts: tuple[Mapping[int, int], ...]
    made_at: Mapping[int, int]


def made_ready(prologue: Flow, around: Surroundings) -> MadeReady:
    """`prologue`: what PROLOGUE depends on, up to where all threads first meet."""
    counts: list[dict[int, int]] = []
    made_at: dict[int, int] = {}
    for rank in range(around.ranks):
        found = _made_ready_by(prologue, around, rank)
        made_at |= {offset: at for offset, (_, at, _) in found.items()}
        counts.append({offset: count for offset, (count, _, _) in found.items()})
    return MadeReady(tuple(counts), made_at)


def _made_ready_by(flow: Flow, around: Surroundings, rank: int) -> dict[int, tuple[int, int, tuple[int, ...]]]:
    """The barriers that a CTA initialises before its threads first synchronise, by offset: see Machine.inits."""
    found: dict[int, tuple[int, int, tuple[int, ...]]] = {}
    work = [tuple(range(around.threads))]
    while work:
        machine = Machine(around, work.pop(), rank)
        machine.prologue, machine.partial = True, False
        walk = Walk(flow, machine, "")
        try:
            walk.run()
        except ThreadsDiffer as split:
            work += split.groups
            continue
        except Later:
            raise Unreadable(around.kernel.line, "which barriers are made ready depends on shared memory") from None
        if machine.inits and any(node.condition is not None for node in walk.nodes):
            raise Unreadable(around.kernel.line, "which barriers are made ready depends on the sizes")
        for offset, init in machine.inits.items():
            if found.setdefault(offset, init) is not init:
                raise Unreadable(flow.code[init[1]].line, "two threads make the same barrier ready")
    known = {at for _, at, _ in found.values()}
    for at, kind in flow.graph.notable.items():
        if kind is Kind.INIT and at not in known:
            raise Unreadable(flow.code[at].line, "a barrier is made ready after threads have met, or never")
    return found


def rings_of(around: Surroundings, inits: Sequence[Mapping[int, int]], base: int) -> tuple[list[Ring], Barriers]:
    """The rings of barriers named by the interface, if they are initialised alike; each remaining barrier is a ring of its own.
    `inits`: the number of arrivals by offset, for each CTA. `base`: the base address of the interface's offsets."""
    counts = {offset: tuple(mine.get(offset) for mine in inits) for offset in inits[0]}
    if any(mine.keys() != counts.keys() for mine in inits):
        raise Unreadable(around.kernel.line, "the CTAs of a cluster make different barriers ready")
    rings: list[Ring] = []
    other: list[int | None] = []
    numbers: dict[int, int] = {}
    left = dict(counts)
    for number, hint in enumerate(around.interface.hints):
        offsets = tuple(base + hint.offset + hint.step * stage for stage in range(hint.stages))
        if offsets[0] in left and all(left.get(offset) == left[offsets[0]] for offset in offsets):
            numbers[number] = len(rings)
            rings.append(Ring("mbarrier", tuple(offset - base for offset in offsets), inits[0][offsets[0]]))
            for offset in offsets:
                del left[offset]
    for number in numbers:
        partner = around.interface.hints[number].other
        other.append(numbers.get(partner) if partner is not None else None)
    for offset in sorted(left):
        rings.append(Ring("mbarrier", (offset - base,), inits[0][offset]))
        other.append(None)
    places = {offset + base: (number, stage) for number, ring in enumerate(rings) for stage, offset in enumerate(ring.instances)}
    return rings, Barriers(places, tuple(ring.stages for ring in rings), tuple(other), tuple(sorted(places)))
