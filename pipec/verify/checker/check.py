"""Checks a certificate against a network: that no process ever waits for ever, for all sizes. See docs/proof.md for why this suffices.

Per case: the first steps lead from the start to node 0; every step is possible when it is taken (a wait only for a use that is complete);
all ways into a node agree on where the processes stand and what has arrived; the facts of a node follow from those before it; an outcome
without an edge contradicts the facts; in a node without a test every process has ended. Beside that, parities mean the phases they are
meant for (see knowledge.py), no arithmetic wraps (Edge.requires), the cases cover all sizes, and no process starves another.
"""

from dataclasses import dataclass

from pipec.verify.checker.certificate import Case, Certificate, Moves
from pipec.verify.checker.configuration import Configuration, Key, Layout, Refused, need
from pipec.verify.checker.knowledge import Entries, Knowledge
from pipec.verify.checker.progress import ends, loops
from pipec.verify.logic import System
from pipec.verify.network import Arrive, Edge, End, Network, Test, Wait, edges_of
from pipec.verify.terms import Both, Linear, Symbol, atom, negate, substitute, substituted, symbols_in

_MOST_ROUNDS = 50  # visits of a node while what its processes know shrinks


@dataclass(slots=True)
class _Reached:
    """A node as the first way into it found it, and what every way into it knows."""

    configuration: Configuration
    key: Key
    known: Knowledge
    visits: int = 0


def check(network: Network, certificate: Certificate) -> None:
    """Raises Refused."""
    need(certificate.kernel == network.name, f"the certificate is for kernel `{certificate.kernel}`")
    need(bool(certificate.cases), "the certificate has no case")
    need(len({*certificate.cases}) == len(certificate.cases), "a case stands there twice")
    registers = _registers(network)
    sizes = System(network.facts)
    need(sizes.extended([negate(Both(case.when)) for case in certificate.cases]).impossible(), "the cases do not cover all sizes")
    for case in certificate.cases:
        need(not any(symbols_in(one) & registers for one in case.when), "a case is told apart by a register")
        _Checker(network, case, sizes.extended(case.when)).run()


def _registers(network: Network) -> set[Symbol]:
    """What changes its value: it can tell no sizes apart."""
    actions = [state.action for process in network.processes for state in process.states]
    return {symbol for action in actions for edge in edges_of(action) for symbol, _ in edge.values}


def _distances(case: Case) -> dict[int, int]:
    """Nodes in an order in which, loops aside, each comes after all that lead to it."""
    finished: dict[int, int] = {}
    stack: list[tuple[int, bool]] = [(case.begin.node, False)]
    seen: set[int] = set()
    while stack:
        number, done = stack.pop()
        if done:
            finished[number] = -len(finished)
        elif number not in seen and 0 <= number < len(case.nodes):
            seen.add(number)
            stack.append((number, True))
            stack += [(moves.node, False) for moves in (case.nodes[number].yes, case.nodes[number].no) if moves is not None]
    return finished


class _Checker:
    def __init__(self, network: Network, case: Case, sizes: System) -> None:
        self.network, self.case, self.sizes = network, case, sizes
        self.layout = Layout(network)
        self.reached: dict[int, _Reached] = {}
        self.systems: dict[int, System] = {}
        self.proved: set[tuple[int | None, bool]] = set()
        self.unknowns = 0

    def run(self) -> None:
        start, known = Configuration(self.layout), Knowledge.start(self.layout, Entries(self.layout))
        self._follow(None, True, self.case.begin, self.sizes, start, known, None)
        # Nodes in front first, so that most is known of a node before it is left.
        order = _distances(self.case)
        work = {self.case.begin.node}
        while work:
            number = min(work, key=lambda node: order.get(node, 0))
            work.remove(number)
            work |= {moves.node for moves in self._leave(number) if moves is not None}
        need(len(self.reached) == len(self.case.nodes), "a node that no way leads to")
        self._fair()

    def _leave(self, number: int) -> list[Moves | None]:
        """Follows the edges of a node; gives those after which the next node knows less than it seemed to."""
        node, reached = self.case.nodes[number], self.reached[number]
        reached.visits += 1
        need(reached.visits <= _MOST_ROUNDS, "what the processes know of each other does not settle")
        at = reached.configuration
        if node.test is None:
            need(at.ended(), "a schedule ends before all processes have")
            need(at.settled(), "a barrier is left with some of its arrivals when all processes have ended")
            return []
        need(0 <= node.test < len(self.network.processes), "a test of a process that does not exist")
        action = at.action(node.test)
        if not isinstance(action, Test):
            raise Refused("a test where a process does not stand at a branch")
        given = self._system(number)
        changed: list[Moves | None] = []
        for outcome, condition, edge, moves in (
            (True, action.condition, action.yes, node.yes),
            (False, negate(action.condition), action.no, node.no),
        ):
            if moves is None:
                if (number, outcome) not in self.proved:
                    need(given.extended([condition]).impossible(), f"line {at.line(node.test)}: an outcome is missing")
                    self.proved.add((number, outcome))
                continue
            after, known = at.copy(), reached.known.copy()
            having = given if (number, outcome) in self.proved else given.extended([condition])
            if self._follow(number, outcome, moves, having, after, known, (node.test, edge)):
                changed.append(moves)
        return changed

    def _system(self, number: int) -> System:
        found = self.systems.get(number)
        if found is None:
            found = self.systems[number] = self.sizes.extended(self.case.nodes[number].facts)
        return found

    def _follow(
        self, source: int | None, outcome: bool, moves: Moves, having: System, at: Configuration, known: Knowledge,
        branch: tuple[int, Edge] | None,
    ) -> bool:  # fmt: skip
        """Takes the steps to the next node; whether it has to be followed (again)."""
        proving = (source, outcome) not in self.proved
        values: dict[Symbol, Linear] = {}
        if branch is not None:
            at.enter(*branch)
            if proving:
                self._assign(branch[1], values, having)
        for process in moves.steps:
            need(0 <= process < len(self.network.processes), "a step of a process that does not exist")
            edge = self._step(process, at, known)
            at.enter(process, edge)
            if proving:
                self._assign(edge, values, having)
        need(0 <= moves.node < len(self.case.nodes), "a node that does not exist")
        if proving:
            for fact in self.case.nodes[moves.node].facts:
                need(having.entails(substituted(fact, values)), "the facts of a node do not follow from those before it")
            self.proved.add((source, outcome))
        return self._arrive(moves.node, at, known)

    def _step(self, process: int, at: Configuration, known: Knowledge) -> Edge:
        action = at.action(process)
        match action:
            case Wait(use=use):
                number = at.use(process, use)
                at.need(process, at.rings[use.ring].complete(number), "a step waits for what has not come")
                at.wait(process, use)
                known.wait(at, process, use.ring, number)
            case Arrive(use=use):
                number = at.use(process, use)
                completed = at.arrive(process, action)
                known.arrive(at, process, action, completed, number)
            case _:
                raise Refused(f"line {at.line(process)}: not a step without a decision")
        return action.edge

    def _assign(self, edge: Edge, values: dict[Symbol, Linear], having: System) -> None:
        for required in edge.requires:
            need(having.entails(substituted(required, values)), "arithmetic may wrap at 32 bits")
        made = {}
        for symbol, value in edge.values:
            if value is None:
                self.unknowns += 1
                made[symbol] = atom(Symbol(f"unknown {self.unknowns}"))
            else:
                made[symbol] = substitute(value, values)
        values.update(made)

    def _arrive(self, number: int, at: Configuration, known: Knowledge) -> bool:
        known.lower(at.lower())
        key, before = at.key(), self.reached.get(number)
        if before is None:
            self.reached[number] = _Reached(at, key, known)
            return True
        need(before.key == key, "two ways into a node find the processes or what has arrived different")
        return before.known.weaken(known)

    # --------------------------------------------------------------------------------------------------------- fairness

    def _fair(self) -> None:
        """Where a process may loop for ever, no other one is left standing meanwhile."""
        processes = self.network.processes
        endless = {number for number, process in enumerate(processes) if not ends(process, self.sizes)}
        if not endless:
            return
        arrows = []
        for number in self.reached:
            node = self.case.nodes[number]
            for moves in (node.yes, node.no):
                if moves is not None and node.test is not None:
                    arrows.append((number, moves.node, {node.test, *moves.steps}))
        for process in range(len(processes)):
            without = [(one, other) for one, other, moved in arrows if process not in moved]
            for loop in loops(without):
                turning = {each for one, other, moved in arrows if one in loop and other in loop for each in moved}
                ended = isinstance(self.reached[min(loop)].configuration.action(process), End)
                need(ended or not turning & endless, f"`{processes[process].role}` may be left standing while others loop")
