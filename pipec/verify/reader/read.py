"""PTX text to a network: what the threads of a kernel wait for, and what they signal.

`read` follows every instruction on which a wait or an arrival depends and never guesses: anything it does not understand makes the
kernel Unreadable. The steps: text to instructions (text), the relevant slice of the control flow (flow), the barriers initialised before
the first synchronisation of all threads, then one walk per class of threads with the same behaviour (values, processes), whose automata
are the network's processes. The CTAs of a cluster are walked one by one; those with equal results are merged (processes/assembly.py).

Anything else that could make a thread wait is named (processes/assumptions.py).
"""

from collections.abc import Collection

from pipec.record import replace
from pipec.verify.network import Network, Unreadable
from pipec.verify.reader.flow.graph import Graph
from pipec.verify.reader.flow.idle import Decides, check_idle, idle
from pipec.verify.reader.flow.overwritten import Places, check_overwritten
from pipec.verify.reader.flow.slice import Flow
from pipec.verify.reader.processes.answers import check_answers
from pipec.verify.reader.processes.assembly import Assembly
from pipec.verify.reader.processes.assumptions import assumptions, check_given_up
from pipec.verify.reader.processes.classes import Classes, Cta
from pipec.verify.reader.processes.fitting import with_numbers_that_fit
from pipec.verify.reader.processes.made_ready import PROLOGUE, made_ready, rings_of
from pipec.verify.reader.processes.tensor_memory import check_loops, check_tensor_memory, slots_of
from pipec.verify.reader.processes.tidy import tidied
from pipec.verify.reader.processes.together import check_together
from pipec.verify.reader.processes.turns import walks
from pipec.verify.reader.processes.walk import Walk
from pipec.verify.reader.text.interface import Interface, checked_by_launch, facts_of, interface_of, without_interfaces
from pipec.verify.reader.text.opcodes import Kind
from pipec.verify.reader.text.statements import Kernel, kernel_of
from pipec.verify.reader.text.writes import Writes
from pipec.verify.reader.values.arithmetic import Arithmetic
from pipec.verify.reader.values.interpretation import FIRST, LIMITS, WHOLE, Interpretation
from pipec.verify.reader.values.parameters import ranges_of, ranges_stated
from pipec.verify.reader.values.surroundings import Barriers, Surroundings

MOST_THREADS = 1024
MOST_CTAS = 16


def read(ptx: str, kernel: str | None = None, how: Interpretation = FIRST) -> Network:
    """The network of an entry of the text (the only one, if no name is given). Raises only Unreadable."""
    return reading_of(ptx, kernel, how).network


def reading_of(ptx: str, kernel: str | None = None, how: Interpretation = FIRST) -> "Reading":
    """The same, with the state for re-reading the text cheaply when launches satisfy further conditions."""
    try:
        if not how.fitting or how.branches:
            return Reading(ptx, kernel, how)
        deciding: set[int] | None = set()
        while True:
            try:
                return Reading(ptx, kernel, how, deciding)
            except Decides as one:
                deciding = deciding | one.lines if one.lines and deciding is not None else None
    except Unreadable:
        raise
    except RecursionError as error:
        raise Unreadable(1, "it is nested too deeply") from error
    except Exception as error:
        raise Unreadable(1, f"the reader failed: {type(error).__name__} {error}") from error


def turns_of(ptx: str, kernel: str) -> tuple[Surroundings, list[Walk]]:
    """How the classes of threads of an entry use turns (processes/turns.py); none for clusters. Raises Unreadable."""
    reading = Reading(ptx, kernel)
    return reading.around, list(walks(Graph(reading.kernel), reading.around)) if reading.around.ranks == 1 else []


def _block(kernel: Kernel) -> tuple[int, int, int]:
    """The shape of a CTA."""
    stated = kernel.directives.get("reqntid", ())
    if not stated:
        raise Unreadable(kernel.line, "the number of threads is not stated (.reqntid)")
    x, y, z = (*stated, 1, 1)[:3]
    if not 0 < x * y * z <= MOST_THREADS:
        raise Unreadable(kernel.line, f"a CTA of {x * y * z} threads")
    return x, y, z


def _cluster(kernel: Kernel) -> tuple[int, int, int]:
    """The shape of a cluster."""
    x, y, z = (*kernel.directives.get("reqnctapercluster", ()), 1, 1, 1)[:3]
    if "explicitcluster" in kernel.directives and "reqnctapercluster" not in kernel.directives:
        raise Unreadable(kernel.line, "the size of the cluster is not stated (.reqnctapercluster)")
    if not 0 < x * y * z <= MOST_CTAS:
        raise Unreadable(kernel.line, f"a cluster of {x * y * z} CTAs")
    return x, y, z


class Reading:
    """The result of reading an entry of a text: `network`."""

    def __init__(self, ptx: str, name: str | None, how: Interpretation = FIRST, deciding: Collection[int] | None = None) -> None:
        """`deciding`: lines of branches that are not idle, see flow/idle.py; None if none is to be taken for that."""
        self.ptx = ptx
        self.kernel = kernel_of(ptx, name)
        self.block = _block(self.kernel)
        self.threads = self.block[0] * self.block[1] * self.block[2]
        cluster = _cluster(self.kernel)
        self.interface = replace(interface_of(ptx, self.kernel.name, self.kernel.parameters), cluster=cluster)
        if how.stated is None:  # also of what may be added to the text when a proof has been found
            how = replace(how, stated=len(self.interface.conditions))
        self.how = how
        self.ranges = ranges_of(self.kernel, self.interface, ranges_stated(self.interface, self.kernel, how.stated))
        self.arithmetic = Arithmetic(self.ranges, checked_by_launch(self.interface, self.kernel.parameters), how)
        self.around = Surroundings(
            kernel=self.kernel,
            interface=self.interface,
            arithmetic=self.arithmetic,
            barriers=Barriers({}, (), ()),
            threads=self.threads,
            block=self.block,
            cluster=cluster,
            pointers=frozenset(name for name, kind in self.kernel.parameters.items() if kind in ("u64", "b64", "s64")),
            unwritten=Writes(self.kernel, self.interface.tensors).spares,
        )
        graph = Graph(self.kernel)
        prologue, flow = Flow(graph, PROLOGUE, prologue=True), Flow(graph)
        self.around.within |= prologue.within | flow.within
        self.made_ready = made_ready(prologue, self.around)
        base = self.kernel.shared.get("$shared", 0)
        self.rings, self.around.barriers = rings_of(self.around, self.made_ready.counts, base)
        check_loops(flow)
        if deciding is not None:
            self.around.idle = idle(flow, deciding)
        classes = Classes(flow, self.around)
        self.ctas = self._walked(classes, base)
        self.around.rounds = self._rounds()
        if self.around.rounds:
            classes.hints.clear()
            self.ctas = self._walked(classes, base)
        check_tensor_memory(flow, self.around, [[(one.machine, one.walk.held) for one in cta.classes] for cta in self.ctas])
        stores = self._stores(graph)
        check_given_up(flow)
        for cta in self.ctas:
            check_together(self.kernel, self.threads, [one.machine for one in cta.classes])
        self.assumed = assumptions(flow, self.around, self._signals(), stores)
        self.network = self._assembled(self.interface)
        if self.around.asks:
            check_answers(self.network)

    @property
    def others(self) -> bool:
        """Whether another one of `readings_of` may tell something else."""
        of = self.arithmetic
        narrower = self.how.limit != LIMITS[-1] and of.widest > min(LIMITS)
        whole = of.loads and (self.how.limit != WHOLE or self.how.near)
        return not self.how.as_read and (of.apart or of.placed and not self.how.near or narrower or whole)

    def _walked(self, classes: Classes, base: int) -> list[Cta]:
        return [
            Cta(rank, classes.of(rank), tuple(counts[ring.instances[0] + base] for ring in self.rings))
            for rank, counts in enumerate(self.made_ready.counts)
        ]

    def _stores(self, graph: Graph) -> list[int]:
        """The lines of those that may hit a barrier, or an address of tensor memory that is still to be read."""
        barriers = {} if Kind.GIVE_UP in graph.notable.values() else self.made_ready.made_at
        places = Places(barriers, slots_of(self.around), self.around.copied, self.around.sizes)
        return check_overwritten(graph, places, self.block, self.around.ranks)

    def _signals(self) -> set[int]:
        """The lines of those to barriers of other CTAs."""
        if len(self.ctas) == 1:
            return set()
        nodes = ((cta.rank, node) for cta in self.ctas for one in cta.classes for node in one.walk.nodes)
        return {node.line for rank, node in nodes if node.act is not None and any(to != rank for to, _ in node.act.targets)}

    def _rounds(self) -> dict[int, int]:
        """How often all arriving processes arrive at a ring in each phase, if none of them waits for it or for its other side, and one
        arrival each does not suffice. The checker decides which use an arrival belongs to; this only numbers them."""
        if len(self.ctas) > 1:
            return {}
        counts: dict[int, list[set[int]]] = {}
        alone = set(range(len(self.rings)))
        for one in self.ctas[0].classes:
            mine: dict[int, set[int]] = {}
            for act in [node.act for node in one.walk.nodes if node.act is not None and not node.act.waits and node.act.count]:
                if isinstance(act.ring, int):
                    mine.setdefault(act.ring, set()).add(act.count)
            for ring, found in mine.items():
                counts.setdefault(ring, []).append(found)
                alone -= set() if one.machine.signalled(ring) and len(found) == 1 else {ring}
        found_ = {}
        for ring in alone & counts.keys():
            times, rest = divmod(self.rings[ring].count, sum(map(sum, counts[ring])))
            if times > 1 and not rest:
                found_[ring] = times
        return found_

    def again(self, ptx: str) -> Network:
        """The network of a text; earlier results are reused if the text differs only in the conditions of launches, which only affect
        the facts about sizes."""
        interface = replace(interface_of(ptx, self.kernel.name, self.kernel.parameters), cluster=self.interface.cluster)
        same = replace(interface, conditions=()) == replace(self.interface, conditions=())
        same = same and interface.conditions[: self.how.stated] == self.interface.conditions[: self.how.stated]
        if not same or without_interfaces(ptx) != without_interfaces(self.ptx):
            return read(ptx, self.kernel.name, self.how)
        return self._assembled(interface)

    def _assembled(self, interface: Interface) -> Network:
        facts = facts_of(interface, self.kernel.parameters)
        of = self.arithmetic
        assembly = Assembly(
            self.kernel.name, interface, self.rings, self.threads, self.ranges, facts, near=self.how.near, ends=of.ends
        )
        network = tidied(assembly.network(self.ctas, self.assumed), branches=self.how.branches)
        check_idle(self.around.idle, network)
        return with_numbers_that_fit(network, self.ranges) if self.how.fitting else network
