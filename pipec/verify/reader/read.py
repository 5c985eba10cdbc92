"""PTX text to a network: what the threads of a kernel wait for, and what they signal.

`read` follows every instruction on which a wait or an arrival depends and never guesses: anything it does not understand makes the
kernel Unreadable. The steps: text to instructions (text), the relevant slice of the control flow (flow), the barriers initialised before
the first synchronisation of all threads, then one walk per class of threads with the same behaviour (values, processes), whose automata
are the network's processes. The CTAs of a cluster are walked one by one; those with equal results are merged (processes/assembly.py).

Anything else that could make a thread wait is named (processes/assumptions.py).
"""

from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from contextlib import suppress
from functools import partial

from pipec.record import replace
from pipec.verify.network import Network, Ring, Unreadable
from pipec.verify.reader.flow.graph import Graph
from pipec.verify.reader.flow.idle import Decides, check_idle, idle
from pipec.verify.reader.flow.overwritten import Places, check_overwritten
from pipec.verify.reader.flow.slice import Flow
from pipec.verify.reader.processes.answers import check_answers
from pipec.verify.reader.processes.assembly import Assembly, Cta, ThreadClass
from pipec.verify.reader.processes.assumptions import assumptions, check_given_up
from pipec.verify.reader.processes.fitting import adds_up, with_numbers_that_fit
from pipec.verify.reader.processes.leaps import leaps
from pipec.verify.reader.processes.ring_liveness import Used
from pipec.verify.reader.processes.tensor_memory import check_loops, check_tensor_memory, slots_of
from pipec.verify.reader.processes.tidy import tidied
from pipec.verify.reader.processes.together import check_together
from pipec.verify.reader.processes.turns import walks
from pipec.verify.reader.processes.unbounded import unbounded
from pipec.verify.reader.processes.walk import TooManyStates, Walk
from pipec.verify.reader.text.interface import (
    LARGEST_SIZE,
    Interface,
    checked_by_launch,
    facts_of,
    interface_of,
    signed_as_declared,
    without_interfaces,
)
from pipec.verify.reader.text.opcodes import Kind
from pipec.verify.reader.text.statements import Kernel, kernel_of
from pipec.verify.reader.text.writes import Writes
from pipec.verify.reader.values.arithmetic import LIMITS, WHOLE, Arithmetic
from pipec.verify.reader.values.machine import Machine
from pipec.verify.reader.values.parts import PLACES
from pipec.verify.reader.values.surroundings import Barriers, Later, Surroundings, ThreadsDiffer
from pipec.verify.reader.values.tables import Hints
from pipec.verify.reader.values.values import Table
from pipec.verify.terms import RANGES, Compare, Linear, Symbol

MOST_THREADS = 1024
MOST_CTAS = 16
Ranges = dict[str, tuple[int, int]]  # inclusive, by symbol

_MOST_TOLD = 6  # readings in which other conditions tell ranges
_ANY = -(1 << 64), 1 << 64
# Determines which barriers are initialised, and when all threads have synchronised.
_PROLOGUE = frozenset({Kind.INIT, Kind.SYNC, Kind.VOTE, Kind.SIGN, Kind.CLUSTER_ARRIVE, Kind.CLUSTER_WAIT})
_GRID = {"x": (1 << 31) - 1, "y": 65535, "z": 65535}


def read(
    ptx: str,
    kernel: str | None = None,
    limit: int | None = None,
    *,
    as_read: bool = False,
    near: bool = False,
    branches: bool = False,
    fitting: bool = False,
    wraps: frozenset[str] = frozenset(),
    stated: int | None = None,
) -> Network:
    """The network of an entry of the text (the only one, if no name is given). Raises only Unreadable.

    `limit`: of arithmetic.LIMITS, or WHOLE, beyond which forms are folded; `as_read`, `near`: see Arithmetic. Each choice gives a sound
    model of the text. `branches`: with those around others that decide nothing but how much code is executed. `fitting`: under the
    assumption that arithmetic on loaded numbers does not wrap around (processes/fitting.py). `wraps`: registers that are not required
    to fit, see Arithmetic. `stated`: how many of the conditions of
    launches tell the least values of sizes and scalars; all, where it is not given.
    """
    made = reading_of(
        ptx, kernel, limit, as_read=as_read, near=near, branches=branches, fitting=fitting, wraps=wraps, stated=stated
    )
    return made.network


def reading_of(
    ptx: str,
    kernel: str | None = None,
    limit: int | None = None,
    *,
    as_read: bool = False,
    near: bool = False,
    branches: bool = False,
    fitting: bool = False,
    wraps: frozenset[str] = frozenset(),
    stated: int | None = None,
) -> "Reading":
    """The same, with the state for re-reading the text cheaply when launches satisfy further conditions."""
    made = partial(
        Reading, ptx, kernel, limit, as_read=as_read, near=near, branches=branches, fitting=fitting, wraps=wraps, stated=stated
    )
    try:
        if not fitting or branches:
            return made()
        deciding: set[int] | None = set()
        while True:
            try:
                return made(deciding=deciding)
            except Decides as one:
                deciding = deciding | one.lines if one.lines and deciding is not None else None
    except Unreadable:
        raise
    except RecursionError as error:
        raise Unreadable(1, "it is nested too deeply") from error
    except Exception as error:
        raise Unreadable(1, f"the reader failed: {type(error).__name__} {error}") from error


def readings_of(ptx: str, kernel: str | None = None, *, stated: int | None = None) -> Iterator["Reading"]:
    """Readings with successive limits, as long as that makes a difference, and behind the first one that for launches of few blocks and
    tiles, that with whole numbers from which loops go on, that with counters that may come round, those for loaded numbers that are added
    up and fit, and that with loaded numbers whole; then with machine interpretation of numbers, and last for loaded numbers that fit;
    if these make one. `stated`: see `read`."""
    read_so = partial(reading_of, ptx, kernel, stated=stated)
    first = read_so()
    yield first
    apart, placed, loads = first.arithmetic.apart, first.arithmetic.placed, first.arithmetic.loads
    if placed:
        yield read_so(near=True)
    if not loads and first.arithmetic.widest > LIMITS[0] and leaps(first.network):
        yield read_so(WHOLE)
    wraps = unbounded(first.network) if loads else frozenset()
    if wraps:
        yield read_so(wraps=wraps)
    if loads and adds_up(first.network):
        yield read_so(fitting=True)
        yield read_so(WHOLE, near=placed, fitting=True)
    if loads:
        yield read_so(WHOLE, near=placed)
    widest = first.arithmetic.widest
    for limit in LIMITS[1:]:
        if widest > min(LIMITS):
            reading = read_so(limit)
            yield reading
            apart |= reading.arithmetic.apart
            widest = reading.arithmetic.widest
    if loads and placed:
        yield read_so(WHOLE)
    if apart:
        yield read_so(as_read=True)
    if loads and not adds_up(first.network):
        last = read_so(WHOLE, near=placed, fitting=True)
        if last.network.assumptions != first.network.assumptions:
            yield last


def readings_as_stated(ptx: str, kernel: str | None = None) -> Iterator["Reading"]:
    """All readings of a text, and those that conditions from some place on tell nothing: these may have been added when a proof had been
    found."""
    of = kernel_of(ptx, kernel)
    interface = interface_of(ptx, of.name, of.parameters)
    told: list[Ranges] = []
    for count in reversed(range(len(interface.conditions) + 1)):
        stated_ = ranges_stated(interface, of, count)
        if stated_ not in told and len(told) < _MOST_TOLD:
            told.append(stated_)
            yield from readings_of(ptx, kernel, stated=count)


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

    def __init__(
        self,
        ptx: str,
        name: str | None,
        limit: int | None = None,
        *,
        as_read: bool = False,
        near: bool = False,
        branches: bool = False,
        fitting: bool = False,
        wraps: frozenset[str] = frozenset(),
        stated: int | None = None,
        deciding: Collection[int] | None = None,
    ) -> None:
        """`deciding`: lines of branches that are not idle, see flow/idle.py; None if none is to be taken for that."""
        self.ptx, self.branches, self.fitting = ptx, branches, fitting
        self.kernel = kernel_of(ptx, name)
        self.block = _block(self.kernel)
        self.threads = self.block[0] * self.block[1] * self.block[2]
        cluster = _cluster(self.kernel)
        self.interface = replace(interface_of(ptx, self.kernel.name, self.kernel.parameters), cluster=cluster)
        self.stated = len(self.interface.conditions) if stated is None else stated
        self.ranges = _ranges(self.kernel, self.interface, ranges_stated(self.interface, self.kernel, self.stated))
        self.arithmetic = Arithmetic(
            self.ranges,
            checked_by_launch(self.interface, self.kernel.parameters),
            limit,
            as_read=as_read,
            near=near,
            fitting=fitting,
            wraps=wraps,
        )
        nothing = Barriers({}, (), ())
        pointers = frozenset(name for name, kind in self.kernel.parameters.items() if kind in ("u64", "b64", "s64"))
        self.around = Surroundings(
            kernel=self.kernel,
            interface=self.interface,
            arithmetic=self.arithmetic,
            barriers=nothing,
            threads=self.threads,
            block=self.block,
            cluster=cluster,
            pointers=pointers,
            unwritten=Writes(self.kernel, self.interface.tensors).spares,
        )

        # The generalisations that the same threads of another CTA of the cluster required.
        self.hints: dict[tuple[str, tuple[int, ...], frozenset[int] | None], Hints] = {}
        # By CTA and threads: the rings that they signal at barriers of one CTA after the other.
        self.parted: dict[tuple[int, tuple[int, ...]], frozenset[int]] = {}
        self.crowded: set[tuple[int, ...]] = set()  # threads whose walk had many states
        self.used: dict[tuple[int, ...], Used | None] = {}  # the rings that their instructions use, if that helps

        self.made_at: dict[int, int] = {}  # by the place of a barrier, the instruction that initialises it

        graph = Graph(self.kernel)
        prologue, flow = Flow(graph, _PROLOGUE, prologue=True), Flow(graph)
        self.around.within |= prologue.within | flow.within
        inits = [self._inits(prologue, rank) for rank in range(self.around.ranks)]
        base = self.kernel.shared.get("$shared", 0)
        self.rings = self._barriers(inits, base)
        check_loops(flow)
        if deciding is not None:
            self.around.idle = idle(flow, deciding)
        self.ctas = self._walks(flow, inits, base)
        self.around.rounds = self._rounds()
        if self.around.rounds:
            self.hints.clear()
            self.ctas = self._walks(flow, inits, base)
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
        narrower = of.limit != LIMITS[-1] and of.widest > min(LIMITS)
        whole = of.loads and (of.limit != WHOLE or of.near)
        return not of.as_read and (of.apart or of.placed and not of.near or narrower or whole)

    def _walks(self, flow: Flow, inits: list[dict[int, int]], base: int) -> list[Cta]:
        return [
            Cta(rank, self._classes(flow, rank), tuple(counts[ring.instances[0] + base] for ring in self.rings))
            for rank, counts in enumerate(inits)
        ]

    def _stores(self, graph: Graph) -> list[int]:
        """The lines of those that may hit a barrier, or an address of tensor memory that is still to be read."""
        barriers = {} if Kind.GIVE_UP in graph.notable.values() else self.made_at
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
        same = same and interface.conditions[: self.stated] == self.interface.conditions[: self.stated]
        if not same or without_interfaces(ptx) != without_interfaces(self.ptx):
            return read(
                ptx,
                self.kernel.name,
                self.arithmetic.limit,
                as_read=self.arithmetic.as_read,
                near=self.arithmetic.near,
                branches=self.branches,
                fitting=self.fitting,
                wraps=self.arithmetic.wraps,
                stated=self.stated,
            )
        return self._assembled(interface)

    def _assembled(self, interface: Interface) -> Network:
        facts = facts_of(interface, self.kernel.parameters)
        of = self.arithmetic
        assembly = Assembly(self.kernel.name, interface, self.rings, self.threads, self.ranges, facts, near=of.near, ends=of.ends)
        network = tidied(assembly.network(self.ctas, self.assumed), branches=self.branches)
        check_idle(self.around.idle, network)
        return with_numbers_that_fit(network, self.ranges) if self.fitting else network

    def _classes(self, flow: Flow, rank: int) -> list[ThreadClass]:
        classes: list[ThreadClass] = []
        work, waiting = self._by_roles(), self.threads + 1
        later: list[tuple[int, ...]] = []
        while work:
            # In the order of their first threads, so that the number of a class is that of its process.
            work.sort(reverse=True)
            group = work.pop()
            try:
                classes.append(self._walked(flow, group, rank, f"{len(classes)}"))
            except ThreadsDiffer as split:
                work += split.groups
            except Later:
                later.append(group)
            if not work and later and len(later) < waiting:
                work, later, waiting = later, [], len(later)
        if later:
            raise Unreadable(self.kernel.line, "where the answers of the scheduler are read from is not understood")
        return sorted(classes, key=lambda one: one.threads)

    def _by_roles(self) -> list[tuple[int, ...]]:
        """Roles usually behave differently: they are walked separately from the start. Classes need not be maximal."""
        named: dict[str | None, list[int]] = {}
        role_of = {
            warp: name for name, first, count in self.interface.roles for warp in range(max(first, 0), min(first + count, 32))
        }
        for thread in range(self.threads):
            named.setdefault(role_of.get(thread // 32), []).append(thread)
        return [tuple(threads) for threads in named.values()]

    def _walked(self, flow: Flow, threads: tuple[int, ...], rank: int, name: str) -> ThreadClass:
        self._same_kind_of_warps(threads)
        waited: frozenset[int] | None = None
        before: Hints = {}
        while True:
            hints = self.hints.get((name, threads, waited), before)
            machine, walk, failure = self._attempt(flow, threads, rank, name, waited, hints)
            if failure is not None and hints:
                machine, walk, failure = self._attempt(flow, threads, rank, name, waited, {})
            if parted := {ring for ring, ranks in machine.signals.items() if len(ranks) > 1} - machine.parted:
                self.parted[rank, threads] = machine.parted | parted
                continue
            self.hints.setdefault((name, threads, waited), walk.hints())
            # If the class signals a ring without waiting for its other side, its arrivals are counted separately.
            found = frozenset(machine.waits) | (waited or frozenset())
            if failure is None and (machine.relied <= machine.waits or found == waited):
                return ThreadClass(threads, machine, walk)
            if found == waited or failure is not None and machine.relied <= machine.waits:
                raise failure or Unreadable(self.kernel.line, "what the threads wait for is not understood")
            waited = frozenset(found)
            before = _with_waited(walk.hints(), waited)

    def _attempt(
        self, flow: Flow, threads: tuple[int, ...], rank: int, name: str, waited: frozenset[int] | None, hints: Hints
    ) -> tuple[Machine, Walk, Unreadable | None]:
        machine = Machine(self.around, threads, rank, name)
        machine.waited, machine.parted = waited, self.parted.get((rank, threads), frozenset())
        used = self.used.get(threads)
        walk = Walk(flow, machine, name, hints, remembering=threads in self.crowded, used=used)
        try:
            walk.run()
        except TooManyStates:
            self.crowded.add(threads)
            self.used[threads] = self._used(flow, threads, rank, name, waited)
            return self._attempt(flow, threads, rank, name, waited, {})
        except Unreadable as failure:
            if used:
                self.used[threads] = None
                return self._attempt(flow, threads, rank, name, waited, {})
            return machine, walk, failure
        return machine, walk, None

    def _used(self, flow: Flow, threads: tuple[int, ...], rank: int, name: str, waited: frozenset[int] | None) -> Used:
        """The rings that the instructions of a class use, as far as one visit of each determines."""
        machine = Machine(self.around, threads, rank, name)
        machine.waited, machine.parted = waited, self.parted.get((rank, threads), frozenset())
        scout = Walk(flow, machine, name, scouting=True)
        with suppress(Unreadable, ThreadsDiffer, Later):
            scout.run()
        return scout.used

    def _same_kind_of_warps(self, threads: tuple[int, ...]) -> None:
        """Separates warps of which the class has all lanes from those of which it has some."""
        count = Counter([thread // 32 for thread in threads])
        whole = {warp for warp, lanes in count.items() if lanes == min(32, self.threads - 32 * warp)}
        if 0 < len(whole) < len(count):
            raise ThreadsDiffer([tuple(one for one in threads if (one // 32 in whole) == together) for together in (True, False)])

    def _inits(self, flow: Flow, rank: int) -> dict[int, int]:
        """The barriers that a CTA initialises before its threads first synchronise: arrival counts by offset."""
        found: dict[int, tuple[int, int, tuple[int, ...]]] = {}
        work = [tuple(range(self.threads))]
        while work:
            machine = Machine(self.around, work.pop(), rank)
            machine.prologue, machine.partial = True, False
            walk = Walk(flow, machine, "")
            try:
                walk.run()
            except ThreadsDiffer as split:
                work += split.groups
                continue
            except Later:
                raise Unreadable(self.kernel.line, "which barriers are made ready depends on shared memory") from None
            if machine.inits and any(node.condition is not None for node in walk.nodes):
                raise Unreadable(self.kernel.line, "which barriers are made ready depends on the sizes")
            for offset, init in machine.inits.items():
                if found.setdefault(offset, init) is not init:
                    raise Unreadable(flow.code[init[1]].line, "two threads make the same barrier ready")
        known = {at for _, at, _ in found.values()}
        for at, kind in flow.graph.notable.items():
            if kind is Kind.INIT and at not in known:
                raise Unreadable(flow.code[at].line, "a barrier is made ready after threads have met, or never")
        self.made_at.update({offset: at for offset, (_, at, _) in found.items()})
        return {offset: count for offset, (count, _, _) in found.items()}

    def _barriers(self, inits: list[dict[int, int]], base: int) -> list[Ring]:
        """The rings of barriers named by the interface, if they are initialised alike; each remaining barrier is a ring of its own.
        `base`: the base address of the interface's offsets."""
        counts = {offset: tuple(mine.get(offset) for mine in inits) for offset in inits[0]}
        if any(mine.keys() != counts.keys() for mine in inits):
            raise Unreadable(self.kernel.line, "the CTAs of a cluster make different barriers ready")
        rings: list[Ring] = []
        other: list[int | None] = []
        numbers: dict[int, int] = {}
        left = dict(counts)
        for number, hint in enumerate(self.interface.hints):
            offsets = tuple(base + hint.offset + hint.step * stage for stage in range(hint.stages))
            if offsets[0] in left and all(left.get(offset) == left[offsets[0]] for offset in offsets):
                numbers[number] = len(rings)
                rings.append(Ring("mbarrier", tuple(offset - base for offset in offsets), inits[0][offsets[0]]))
                for offset in offsets:
                    del left[offset]
        for number in numbers:
            partner = self.interface.hints[number].other
            other.append(numbers.get(partner) if partner is not None else None)
        for offset in sorted(left):
            rings.append(Ring("mbarrier", (offset - base,), inits[0][offset]))
            other.append(None)
        places = {
            offset + base: (number, stage) for number, ring in enumerate(rings) for stage, offset in enumerate(ring.instances)
        }
        self.around.barriers = Barriers(places, tuple(ring.stages for ring in rings), tuple(other), tuple(sorted(places)))
        return rings


def _with_waited(hints: Hints, waited: frozenset[int]) -> Hints:
    """Without the registers that cycle with a ring whose arrivals are counted separately: they have another period now. Loops that count,
    or turn with a ring that is waited for, do so as before."""
    return {
        block: {name: one for name, one in found.items() if not isinstance(one, Table) or one.cursor in waited}
        for block, found in hints.items()
    }


def _ranges(kernel: Kernel, interface: Interface, stated: Mapping[str, tuple[int, int]]) -> Ranges:
    """The guarantees of the launcher and the hardware about parameters and special registers. `stated`: by conditions of launches."""
    ranges: Ranges = {}
    for name, kind in kernel.parameters.items():
        if name in interface.sizes:
            ranges[name] = (0, LARGEST_SIZE)
        elif kind[1:] in ("8", "16", "32", "64") and kind[0] in "usb":
            width = int(kind[1:])
            ranges[name] = (0, (1 << width) - 1) if kind[0] == "u" else (-(1 << width - 1), (1 << width - 1) - 1)
    for symbol, dtype in interface.scalars.values():
        if symbol in kernel.parameters and signed_as_declared(dtype, kernel.parameters[symbol]):
            ranges[symbol] = RANGES[f"s{dtype[1:]}"]
    for symbol in stated.keys() & ranges.keys():
        ranges[symbol] = max(ranges[symbol][0], stated[symbol][0]), ranges[symbol][1]
    for (axis, limit), blocks, width in zip(_GRID.items(), interface.grid, interface.cluster, strict=True):
        for family, together in (("cta", 1), ("cluster", width)):
            most = max(1, min(min(limit, blocks) // together, stated.get(f"%n{family}id.{axis}", _ANY)[1]))
            ranges[f"%{family}id.{axis}"] = (0, most - 1)
            ranges[f"%n{family}id.{axis}"] = (1, most)
    return ranges


def ranges_stated(interface: Interface, kernel: Kernel, count: int) -> Ranges:
    """The ranges that the first `count` conditions of launches state of sizes and scalars, from which on a number by which is divided has a
    sign; and of the number of blocks, up to which a step of several for each block fits its type."""
    scalars = {symbol for symbol, _ in interface.scalars.values() if symbol in kernel.parameters}
    found: Ranges = {}
    for fact in facts_of(replace(interface, conditions=interface.conditions[:count]), kernel.parameters):
        match fact:
            case Compare("ge", Linear(more, ((Symbol(name), 1),))) if name in scalars or name in interface.sizes:
                low, high = found.get(name, _ANY)
                found[name] = max(low, -more), high
            case Compare("ge", Linear(more, ((Symbol(name), times),))) if times < 0 and name.startswith(PLACES):
                low, high = found.get(name, _ANY)
                found[name] = low, min(high, more // -times)
            case _:
                pass
    return found
