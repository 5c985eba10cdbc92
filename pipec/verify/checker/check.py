"""Checks a certificate against a network: that no process ever waits for ever, for all sizes. See docs/proof.md for why this suffices.

Per case: the first steps lead from the start to node 0; every step is enabled when it is taken (a wait only for a completed use, a
branch only with a known outcome); all ways into a node agree on the places of the processes and on what has arrived; the facts of a node
follow from those of its predecessors; an outcome without an edge contradicts the facts; in a node without a test every process has
ended. In addition, parities identify the intended phases (see knowledge.py), no arithmetic wraps (Edge.requires), the cases cover all
sizes, and the schedule terminates (see progress.py).
"""

from collections.abc import Mapping

from pipec.record import field, mutable
from pipec.verify.checker.certificate import Case, Certificate, Moves
from pipec.verify.checker.configuration import Configuration, Key, Layout, Refused, need
from pipec.verify.checker.knowledge import OVERWRITTEN, Event, NodeTransition, check_parities
from pipec.verify.checker.outlived import drained, signalled, without_peers
from pipec.verify.checker.progress import Arrow, bounded, ends, order_from
from pipec.verify.checker.restated import restated
from pipec.verify.checker.unknown import unknown
from pipec.verify.inequalities import allowed, combined
from pipec.verify.logic import System
from pipec.verify.network import Arrive, Edge, Network, Test, Use, Wait, edges_of
from pipec.verify.terms import (
    MOST_WRITTEN,
    Both,
    Formula,
    Linear,
    Symbol,
    negate,
    size_in,
    size_of,
    size_with,
    substitute,
    substituted,
    symbols_in,
)

TOO_LARGE = "a value grows too large on the way from one node to the next"
MAY_LOOP = "may loop for ever"
OUTCOME_NOT_KNOWN = "a step past a test whose outcome is not known"
_MOST_STEPS = 1_000_000  # arithmetic steps, of some microseconds each: beyond this the certificate is refused
_MOST_PARTS = 200  # parts of the sizes considered in the proof that the cases cover them


def check(network: Network, certificate: Certificate) -> Network:
    """The network with the assumptions that the proof still needs. Raises Refused, also if the check takes too many steps."""
    before, allowed.value = allowed.value, min(allowed.value, combined.value + _MOST_STEPS)
    try:
        return without_peers(network, _check(network, certificate))
    except Refused as why:
        raise Refused(f"{why} (after {_MOST_STEPS:,} steps)" if combined.value > allowed.value else str(why)) from None
    finally:
        allowed.value = before


def _check(network: Network, certificate: Certificate) -> frozenset[int]:
    """The rings that others signal, and of which the last uses have been waited for in the end (see outlived.py)."""
    # A proof of another kernel may hold for this network by accident, but that is never intended.
    need(certificate.kernel == network.name, f"the certificate is for kernel `{certificate.kernel}`")
    need(bool(certificate.cases), "the certificate has no case")
    need(len({*certificate.cases}) == len(certificate.cases), "a case stands there twice")
    sizes = System(network.facts).closed()
    network = restated(network, certificate.restated, sizes)
    registers, layout = _registers(network), Layout(network)
    rings = signalled(network)
    need(_covered(sizes, [case.when for case in certificate.cases], [_MOST_PARTS]), "the cases do not cover all sizes")
    for case in certificate.cases:
        # Cases partition launches. A register has many values in one launch, so a case could hold at one moment and not at the next.
        need(not any(symbols_in(one) & registers for one in case.when), "a case is told apart by a register")
        rings &= _Case(layout, case, sizes.extended(case.when).closed(), rings).check()
    return rings


def _covered(sizes: System, cases: list[tuple[Formula, ...]], left: list[int]) -> bool:
    """Whether the cases cover all sizes: what the first one leaves open is up to the others. `left`: parts that may be considered."""
    left[0] -= 1
    if left[0] < 0:
        return False
    if sizes.impossible():
        return True
    if not cases:
        return False
    for condition in cases[0]:
        # Where the condition fails, cases that require it are excluded: keeping them would be sound, but double the time at each level.
        others = [case for case in cases[1:] if condition not in case]
        # (That two numbers are equal may follow though no contradiction is found where they differ.)
        if not _covered(sizes.extended([negate(condition)]), others, left) and not sizes.entails(condition):
            return False
        sizes = sizes.extended([condition])
    return True


def _registers(network: Network) -> set[Symbol]:
    """The symbols that change their value: they cannot distinguish sizes."""
    actions = [state.action for process in network.processes for state in process.states]
    return {symbol for action in actions for edge in edges_of(action) for symbol, _ in edge.values}


@mutable
class _Way:
    """The way from one node to the next: the places of the processes, the events, and registers in terms of their values at the node."""

    at: Configuration
    having: System
    events: list[Event] = field(default_factory=list)
    values: dict[Symbol, Linear] = field(default_factory=dict)
    sizes: dict[Symbol, int] = field(default_factory=dict)  # of the values

    def now(self, formula: Formula) -> Formula:
        """In terms of the values at the node."""
        need(size_in(formula, self.sizes) <= MOST_WRITTEN, TOO_LARGE)
        return substituted(formula, self.values)

    def assign(self, changes: Mapping[Symbol, Linear]) -> None:
        """At the same time; the changes are in terms of the values before."""
        need(all(size_with(value, self.sizes) <= MOST_WRITTEN for value in changes.values()), TOO_LARGE)
        self.values |= {symbol: substitute(value, self.values) for symbol, value in changes.items()}
        self.sizes |= {symbol: size_of(self.values[symbol]) for symbol in changes}


class _Case:
    def __init__(self, layout: Layout, case: Case, sizes: System, rings: frozenset[int]) -> None:
        self.layout, self.network, self.case, self.sizes = layout, layout.network, case, sizes
        self.rings = rings
        self.seen: list[tuple[int | None, int, Configuration]] = []  # by way, where it matters
        self.reached: dict[int, tuple[Configuration, Key]] = {}
        self.passages: list[NodeTransition] = []
        self.arrows: list[Arrow] = []  # from one node to another
        self.unknowns = 0

    def check(self) -> frozenset[int]:
        """Those of the rings that are drained wherever the schedule ends."""
        self._follow(None, self.case.begin, _Way(Configuration(self.layout, self.rings), self.sizes))
        # In this order a node follows its predecessors, except for back edges, so that its facts settle early.
        ways = [(at, on.node) for at, node in enumerate(self.case.nodes) for on in (node.yes, node.no) if on is not None]
        order = order_from(self.case.begin.node, ways)
        need(len(order) == len(self.case.nodes), "a node that no way leads to, or one that does not exist")
        for number in order:
            self._leave(number)
        check_parities(self.layout, self.passages)
        # A terminating schedule executes all steps of all processes. Checking each process alone comes first, as it is cheaper.
        endless = [process.role for process in self.network.processes if not ends(process, self.sizes)]
        need(not endless or bounded(self.arrows, self.sizes), f"`{'`, `'.join(endless)}` {MAY_LOOP}")
        over = {number: self.reached[number][0] for number, node in enumerate(self.case.nodes) if node.test is None}
        return frozenset(ring for ring in self.rings if drained(ring, self.seen, over, self.layout.before))

    def _leave(self, number: int) -> None:
        node, (at, _) = self.case.nodes[number], self.reached[number]
        if node.test is None:
            need(node.yes is node.no is None, "a way on from where nothing is decided")
            need(at.ended(), "a schedule ends before all processes have")
            # The next user of the memory would find such a barrier in the middle of a phase.
            need(at.settled(), "a barrier is left with some of its arrivals when all processes have ended")
            return
        need(0 <= node.test < len(self.network.processes), "a test of a process that does not exist")
        action = at.action(node.test)
        if not isinstance(action, Test):
            raise Refused("a test where a process does not stand at a branch")
        given = self.sizes.extended(node.facts)
        for condition, edge, moves in ((action.condition, action.yes, node.yes), (negate(action.condition), action.no, node.no)):
            way = _Way(at.copy(), given.extended([condition]))
            if moves is None:
                # An outcome may be omitted only if the facts exclude it: the certificate is not trusted.
                need(way.having.impossible(), f"line {at.line(node.test)}: an outcome is missing")
                continue
            self._go(way, node.test, edge)
            self._follow(number, moves, way)
            self.arrows.append((number, Edge(moves.node, tuple(way.values.items())), Both((condition, *node.facts))))

    def _follow(self, source: int | None, moves: Moves, way: _Way) -> None:
        """Takes the steps to the next node."""
        for step in moves.steps:
            process = step if step >= 0 else ~step
            need(process < len(self.network.processes), "a step of a process that does not exist")
            self._go(way, process, self._step(process, way, outcome=step >= 0))
        need(0 <= moves.node < len(self.case.nodes), "a node that does not exist")
        facts = [way.now(fact) for fact in self.case.nodes[moves.node].facts]
        followed = [way.having.entails(fact) for fact in facts]
        if not all(followed):
            # Together with those that do follow: a product is known once its factors are.
            further = way.having.extended(fact for fact, follows in zip(facts, followed, strict=True) if follows)
            rest = (fact for fact, follows in zip(facts, followed, strict=True) if not follows)
            need(all(map(further.entails, rest)), "the facts of a node do not follow from those before it")
        # With the amounts by which the counts were lowered, so that events on both sides of a node can be matched to the same use.
        self.passages.append(NodeTransition(source, moves.node, way.events, way.at.lower()))
        found = self.reached.setdefault(moves.node, (way.at, way.at.key()))
        # The node represents both ways. Its statements about the processes must hold for each, or what follows would hold for one only.
        need(found[1] == way.at.key(), "two ways into a node find the processes or what has arrived different")
        if self.rings:
            self.seen.append((source, moves.node, way.at))

    def _step(self, process: int, way: _Way, *, outcome: bool) -> Edge:
        at, action = way.at, way.at.action(process)
        at.need(process, outcome or isinstance(action, Test), "an outcome where nothing is tested")
        match action:
            case Test(condition=condition, yes=yes, no=no):
                # No node is needed if the other outcome is impossible: then the process takes this branch for all sizes.
                known = way.now(condition if outcome else negate(condition))
                at.need(process, way.having.entails(known), OUTCOME_NOT_KNOWN)
                # Implied, but rounded to integers, which may imply more, like the facts of a node.
                way.having = way.having.extended([known])
                return yes if outcome else no
            case Wait(use=use, peeks=True):
                way.events.append(Event(at.line(process), process, action, at.use(process, use)))
            case Wait(use=use):
                stages, number = self.network.rings[use.ring].stages, at.use(process, use)
                at.need(process, at.complete(use.ring, number), "a step waits for what has not come")
                overtaken = at.complete(use.ring, number + stages)
                # A wait only tests a parity: two phases later it would mistake the next phase for its own and wait for ever (hardware.md
                # 1.1).
                at.need(process, not overtaken, "the phase after can complete before this wait sees its own")
                # (In another execution, as much as in this one.)
                at.need(process, not (action.reads and at.delivered(use.ring, number + stages)), OVERWRITTEN)
                at.wait(process, use)
                way.events.append(Event(at.line(process), process, action, number, last=at.all_waited(use.ring, number)))
            case Arrive(use=use):
                number, completes = at.use(process, use), at.arrive(process, action) is not None
                waited = at.waiting_before(use.ring, number) if completes else ()
                read = at.read_before(use.ring, number) if action.asks else ()
                way.events.append(Event(at.line(process), process, action, number, completes, waited, read))
            case _:
                raise Refused(f"line {at.line(process)}: a step of a process that has ended")
        return action.edge

    def _go(self, way: _Way, process: int, edge: Edge) -> None:
        for ring, use in way.at.gone_past(process, edge):
            way.events.append(Event(way.at.line(process), process, Wait(Use(ring, 0, 0), edge), use, passes=True))
        for ring, use in way.at.enter(process, edge):
            waited = way.at.waiting_before(ring, use)
            way.events.append(Event(way.at.line(process), process, Arrive(Use(ring, 0, 0), edge), use, True, waited, ends=True))
        for required in edge.requires:
            # The network counts with unbounded integers; the registers agree as long as they can hold the result.
            need(way.having.entails(way.now(required)), "arithmetic may wrap at 32 bits")
        way.assign({symbol: self._unknown() if value is None else value for symbol, value in edge.values})

    def _unknown(self) -> Linear:
        # A new symbol each time: two unknown values are not known to be equal.
        self.unknowns += 1
        return unknown(self.unknowns)
