"""How long a block of a PTX kernel takes, from its barriers: the network that proofs are about (pipec.verify), with a time for each event.

Every process goes through its states with numbers for sizes and block numbers; waits, arrivals, bytes and the code between them
(`code.py`) cost what `device.py` says. CTAs of a cluster have engines of their own; those that the network takes for one are followed
once, and each of them loads its part of what all receive. The text does not say how wide the boxes of a tensor map are, how large tensors
are, or how many blocks a launch has: rows of 128 bytes are assumed, inputs in memory, and the number of blocks is given.
"""

from collections import defaultdict
from collections.abc import Mapping
from heapq import heappop, heappush
from math import ceil, inf, prod
from typing import NamedTuple

from pipec.predict.device import Device
from pipec.predict.following.run import MOST_EVENTS
from pipec.predict.following.uses import Stretch
from pipec.predict.occupancy import BLOCK_BYTES, REGISTERS, SHARED_BYTES
from pipec.predict.ptx.answers import AT_ONCE, LAUNCHED, answered
from pipec.predict.ptx.code import Code, Group, Multiply, Unclear
from pipec.predict.ptx.code import Stretch as Between
from pipec.predict.work import LINE, product_cycles
from pipec.protocol.sample import evaluate, known_function
from pipec.protocol.sample import holds as is_true
from pipec.record import record
from pipec.verify.network import Arrive, Edge, End, Network, Process, Test, Use, Wait
from pipec.verify.terms import Apply, Choose, Floor, Formula, Linear, Symbol, symbols_in, symbols_of

_WARPGROUP = 128
_BARRIER_BYTES = 8
_ALL = -1  # blocks

# Parts of a form beyond which the reader gives it a name of its own, which a proof compares by, and which has no value here: how many
# tiles a block has takes 60.
FORMS = 2000

_UNIFORM = {"%ctaid": 0, "%clusterid": 0, "%cluster_ctaid": 0, "%cluster_ctarank": 0}


@record
class PtxPrediction:
    """Of one launch. `busy`: cycles of each engine for one block; `moved`: bytes that it loads; `flops`: its products, in 16-bit ones.

    `differ`: what a block does depends on its number; those of the first numbers were followed.
    """

    kernel: str
    device: Device
    clock: float
    given: Mapping[str, int]
    blocks: int
    held: int
    cycles: float
    seconds: float
    bounds: Mapping[str, float]
    busy: Mapping[str, float]
    moved: float
    flops: float
    stretches: tuple[Stretch, ...]
    differ: bool

    @property
    def bound_by(self) -> str:
        return max(self.bounds, key=self.bounds.__getitem__)

    @property
    def waits_for(self) -> str:
        """The engine that is busy longest, if most of the time, else the way round the rings."""
        engine, cycles = max(self.busy.items(), key=lambda item: item[1], default=("", 0.0))
        return engine if cycles >= _MOST * self.cycles else "latency"


_MOST = 0.9


def names_of(network: Network) -> list[str]:
    """What a block's way depends on: parameters, and numbers that the launch has."""
    found = {
        symbol.name
        for process in network.processes
        for state in process.states
        if isinstance(state.action, Test)
        for symbol in symbols_in(state.action.condition)
        if ":" not in symbol.name and symbol.name.partition(".")[0] not in _UNIFORM
    }
    return sorted(found)


def _differ(network: Network) -> bool:
    """Whether how a block goes on depends on its number."""
    found: set[Symbol] = set()
    for process in network.processes:
        for state in process.states:
            match state.action:
                case Test(condition=condition, yes=yes, no=no):
                    found |= symbols_in(condition)
                    edges = [yes, no]
                case Wait(edge=edge) | Arrive(edge=edge):
                    edges = [edge]
                case _:
                    edges = []
            found.update(*(symbols_of(value) for edge in edges for _, value in edge.values if value is not None))
    return any(symbol.name.partition(".")[0] in ("%ctaid", "%clusterid") for symbol in found)


def predict_ptx(
    network: Network,
    text: str,
    device: Device,
    given: Mapping[str, int],
    blocks: int | tuple[int, int, int] | None,
    clock: float | None,
) -> PtxPrediction:
    """`given`: values of `names_of`; `blocks`: of the launch, along x if one number, one on each multiprocessor if None. Raises Unclear."""
    threads = sum(process.threads for process in network.processes if 0 in process.ranks)
    count = device.machine.multiprocessors
    grid = blocks if isinstance(blocks, tuple) else (count if blocks is None else blocks, 1, 1)
    launched = prod(grid)
    last = max((at + _BARRIER_BYTES for ring in network.rings if ring.kind == "mbarrier" for at in ring.instances), default=0)
    code = Code(text, network.name, threads)
    by_registers = REGISTERS // max(1, threads * code.registers)
    held = max(1, min(SHARED_BYTES // (last + BLOCK_BYTES), 2048 // max(1, threads), by_registers))
    size = prod(code.cluster)
    places = device.machine.at_a_time(size)
    each = min(held, ceil(launched / places))
    taking_over = answered(network, code.cluster)
    running = launched if taking_over is None else min(launched, places * each)
    clusters, at_once = max(1, launched // size), max(1, running // size)
    several = taking_over is None and running > places * each and _differ(network)
    firsts = _all_over(grid, code.cluster) if several else [0]
    busy_part = min(1.0, launched / count)
    runs = [
        _Multiprocessor(taking_over or network, code, device, given, each, busy_part, grid, running, first) for first in firsts
    ]
    ends = [run.run() for run in runs]
    waves = running / (places * each)
    longest = runs[ends.index(max(ends))]
    if min(ends) > _EVEN * max(ends):
        cycles = max(ends) * ceil(waves)
    else:  # blocks follow each other without waiting for the longest, and at the end some places idle
        cycles = max(max(ends), sum(ends) / len(ends) * (waves + _IDLE))
    moved, flops = sum(run.moved for run in runs), sum(run.flops for run in runs)
    if not moved and not flops:
        raise Unclear(
            0, "no barrier of it carries copies or products: its threads take the time, and what they compute is not followed"
        )
    clock = clock or device.clock
    # Of all that is launched, the part that was followed: blocks, or the tiles that these took over.
    followed = each * len(runs) if taking_over is None else sum(ceil((clusters - number) / at_once) for number in range(each))
    part = followed / clusters
    bounds = {"multiprocessors": cycles / clock, "power": flops / part / device.machine.flops}
    seconds = device.launch + max(bounds.values())
    busy = {name: found / each / size for name, found in longest.busy.items()}
    return PtxPrediction(
        network.name, device, clock, given, launched, each, cycles, seconds, bounds, busy, moved / part / launched,
        flops / part / launched, tuple(longest.stretches), taking_over is None and not several and _differ(network),
    )  # fmt: skip


def _all_over(grid: tuple[int, int, int], cluster: tuple[int, int, int]) -> list[int]:
    """Numbers of clusters, one from each quarter of each axis."""
    x, y, z = (max(1, blocks // extent) for blocks, extent in zip(grid, cluster, strict=True))
    at = ((extent * (2 * quarter + 1) // 8 for extent, quarter in zip((x, y, z), each, strict=True)) for each in _QUARTERS)
    return [here + x * (row + y * layer) for here, row, layer in at]


_QUARTERS = ((0, 1, 2), (1, 3, 0), (2, 0, 3), (3, 2, 1))
_EVEN = 0.99
_IDLE = 0.5  # of an average block's time


class _Phase:
    """A use of a ring: what has come of it, and when the last of it did."""

    __slots__ = ("arrived", "complete", "expected", "time")

    def __init__(self) -> None:
        self.arrived, self.expected, self.time = 0, 0, 0.0
        self.complete = False


class _Key(NamedTuple):
    block: int
    ring: int
    number: int


class _Running:
    """A process of one block, at `state` and `now`; of several warpgroups, which go through it each at its own pace, one of `groups`."""

    def __init__(self, process: Process, block: int, numbers: Mapping[Symbol, int], groups: int) -> None:
        self.process, self.block, self.state, self.now = process, block, process.start, 0.0
        self.rank, self.alike = process.ranks[0], len(process.ranks)
        self.share = groups
        self.threads = process.threads // groups
        self.numbers = dict(numbers)
        self.unknown: set[Symbol] = set()
        self.cursors = [0] * process.cursors
        self.products = 0.0  # when those issued so far have ended
        self.groups: list[float] = []
        self.places = frozenset(state.line for state in process.states)


class _Multiprocessor:
    def __init__(
        self,
        network: Network,
        code: Code,
        device: Device,
        given: Mapping[str, int],
        held: int,
        busy: float,
        grid: tuple[int, int, int],
        running: int,
        first: int,
    ) -> None:
        """`running`: of the launch's blocks, those that ever start; `first`: the number of the first cluster that is followed."""
        self._network, self._code, self._device = network, code, device
        self._farther = device.memory + device.loaded * busy
        self._rate = device.loaded_rate / busy if busy else inf
        self._copies: dict[int, float] = defaultdict(float)  # by CTA of a cluster: until when its engines are busy
        self._products: dict[int, float] = defaultdict(float)
        self._phases: dict[_Key, _Phase] = defaultdict(_Phase)
        self._waiting: dict[_Key, list[_Running]] = defaultdict(list)
        self._between: dict[tuple[int, int, int], Between] = {}
        self.busy: dict[str, float] = defaultdict(float)
        self.moved = self.flops = 0.0
        self.stretches: list[Stretch] = []
        self._running = [
            _Running(process, block, self._numbers(given, first + block, process.ranks[0], grid, running), groups)
            for block in range(held)
            for process in network.processes
            for groups in (_groups(process),)
            for _ in range(groups)
        ]
        self._working: dict[tuple[int, int, str], float] = defaultdict(
            float
        )  # until when warpgroups of a process issue instructions
        self._queue: list[tuple[float, int, _Running]] = []
        self._turn = 0

    def _numbers(
        self, given: Mapping[str, int], number: int, rank: int, grid: tuple[int, int, int], running: int
    ) -> dict[Symbol, int]:
        """Of a CTA of the cluster with this number."""
        found: dict[str, int] = {}
        place = rank
        for axis, extent, blocks in zip("xyz", self._code.cluster, grid, strict=True):
            here, place = place % extent, place // extent
            count = max(1, blocks // extent)
            at, number = number % count, number // count
            found |= {f"%cluster_ctaid.{axis}": here, f"%cluster_nctaid.{axis}": extent}
            found |= {f"%clusterid.{axis}": at, f"%nclusterid.{axis}": count}
            found |= {f"%ctaid.{axis}": at * extent + here, f"%nctaid.{axis}": count * extent}
        size = prod(self._code.cluster)
        found |= {"%cluster_ctarank": rank, "%cluster_nctarank": size, **given}
        found |= {AT_ONCE.name: max(1, running // size), LAUNCHED.name: max(1, prod(grid) // size)}
        return {Symbol(name): number for name, number in found.items()}

    def run(self) -> float:
        """Cycles until all processes have ended."""
        for one in self._running:
            self._push(one)
        while self._queue:
            _, _, one = heappop(self._queue)
            if self._turn > MOST_EVENTS:
                raise Unclear(0, "it does too much to be followed event by event")
            self._step(one)
        stuck = next((one for one in self._running if not isinstance(one.process.states[one.state].action, End)), None)
        if stuck is not None:
            raise Unclear(stuck.process.states[stuck.state].line, f"`{stuck.process.role}` waits for ever with these sizes")
        return max([one.now for one in self._running] + [*self._copies.values(), *self._products.values()])

    def _push(self, one: _Running) -> None:
        self._turn += 1
        heappush(self._queue, (one.now, self._turn, one))

    def _step(self, one: _Running) -> None:
        state = one.process.states[one.state]
        match state.action:
            case End():
                return
            case Wait(use=use, edge=edge):
                key = self._key(one, use)
                if key.number >= 0 and not self._phases[key].complete:
                    self._waiting[key].append(one)
                    return
                ready = self._phases[key].time if key.number >= 0 else 0.0
                if ready > one.now:
                    self._stretch(one, "wait", one.now, ready)
                    one.now = ready
                self._follow(one, edge)
            case Arrive() as action:
                self._arrive(one, action, state.line)
                self._follow(one, action.edge)
            case Test(condition=condition, yes=yes, no=no):
                self._certain(one, condition, state.line)
                self._follow(one, yes if is_true(condition, one.numbers) else no)
        self._push(one)

    def _key(self, one: _Running, use: Use) -> _Key:
        ring = self._network.rings[use.ring]
        return _Key(one.block, use.ring, one.cursors[use.cursor] + use.shift if ring.stages else 0)

    def _certain(self, one: _Running, condition: Formula, line: int) -> None:
        for symbol in sorted(symbols_in(condition), key=lambda symbol: symbol.name):
            if symbol in one.unknown or symbol not in one.numbers:
                known = symbol.name.partition(":")[2] or symbol.name
                raise Unclear(line, f"which way `{one.process.role}` goes depends on `{known}`, of which nothing is known here")
        if any(not known_function(one) for one in _functions(condition)):
            raise Unclear(line, f"which way `{one.process.role}` goes follows from memory, or from what is not worked out here")

    def _arrive(self, one: _Running, action: Arrive, line: int) -> None:
        device, opcodes = self._device, self._code.opcodes(line)
        begun, at = one.now, one.now + device.arrive
        if action.expects:
            one.now += device.turn
            self.busy["issue"] += device.turn
            at = one.now
        if action.delivers:
            senders = len({sender for sender, _ in action.targets}) if one.alike > 1 else 1
            at = self._copy(one, action.delivers / max(1, senders))
        elif "tcgen05.commit" in opcodes:
            at = max(one.now, one.products)
        elif "cp.async" in opcodes:
            at = one.now + device.load + self._farther
        if one.now > begun:
            self._stretch(one, "issue", begun, one.now)
        key = self._key(one, action.use)
        phase, ring = self._phases[key], self._network.rings[action.use.ring]
        phase.arrived += action.count // one.share
        phase.expected += action.expects - action.delivers
        phase.time = max(phase.time, at)
        if phase.arrived >= ring.count and phase.expected == 0 and not phase.complete:
            phase.complete = True
            for other in self._waiting.pop(key, ()):
                self._push(other)

    def _copy(self, one: _Running, size: float) -> float:
        """When the bytes have come that this CTA asks for."""
        device, rows = self._device, max(1.0, size / LINE)
        walking = max(rows * device.row, size / self._rate)
        begin = max(one.now, self._copies[one.rank])
        end = self._copies[one.rank] = begin + walking
        self.stretches.append(Stretch(one.block, "copies", "load", begin, end))
        issue = device.issue + device.issue_row * rows
        one.now += issue
        self.busy["copies"] += walking * one.alike
        self.busy["issue"] += issue * one.alike
        self.moved += size * one.alike
        return end + device.load + self._farther + rows * (device.load_row + device.load_line)

    def _follow(self, one: _Running, edge: Edge) -> None:
        source, target = one.process.states[one.state].line, one.process.states[edge.target].line
        unknown = {symbol for symbol, value in edge.values if value is None}
        values = {symbol: evaluate(value, one.numbers) for symbol, value in edge.values if value is not None}
        for symbol, value in edge.values:
            if value is not None and any(other in one.unknown for other in symbols_of(value)):
                unknown.add(symbol)
        one.numbers |= values
        one.unknown = (one.unknown - values.keys()) | unknown
        for cursor, uses in edge.advances:
            one.cursors[cursor] += uses
        one.state = edge.target
        if source != target or isinstance(one.process.states[edge.target].action, Test):
            self._work(one, self._code_between(one, source, target))

    def _code_between(self, one: _Running, source: int, target: int) -> Between:
        key = id(one.process), source, target
        if key not in self._between:
            self._between[key] = self._code.between(source, target, one.places, one.threads)
        return self._between[key]

    def _work(self, one: _Running, between: Between) -> None:
        cycles = 0.0
        if one.threads >= _WARPGROUP:  # what one warp issues beside copies and products is part of their figures
            cycles = between.slots.cycles(self._device)
        if between.stored:
            cycles += self._device.tile / one.share + self._device.element * between.stored / 2
        if cycles:
            # In turn with other groups and blocks, whose instructions the same schedulers issue; a warp alone waits for its own results.
            key = (one.block, one.rank, one.process.role) if between.stored else (_ALL, one.rank, "")
            begun = one.now
            start = max(one.now, self._working[key])
            self._working[key] = start + cycles
            one.now = start + cycles * (self._device.dependent if one.share > 1 else 1.0)
            self.busy["threads"] += cycles * one.alike
            self._stretch(one, "work", begun, one.now)
        for product in between.products:
            self._multiply(one, product)

    def _multiply(self, one: _Running, product: Multiply | Group) -> None:
        if isinstance(product, Group):
            if product.commit:
                one.groups.append(one.products)
            elif len(one.groups) > product.pending:
                one.now = max(one.now, one.groups[-1 - product.pending])
                del one.groups[: len(one.groups) - product.pending]
            return
        cycles, latency = product_cycles(product.instructions, self._device)
        of = product.instructions
        ranks = (one.rank, one.rank ^ 1) if of.group > 1 else (one.rank,)  # a pair's tensor cores work together
        begin = max(one.now + latency, *(self._products[rank] for rank in ranks))
        one.products = begin + cycles
        self._products |= dict.fromkeys(ranks, one.products)
        several = len(ranks) * one.alike
        self.busy["products"] += cycles * several
        self.flops += of.rows * of.columns * 32 * several  # 16-bit operations of 32 bytes of K
        self.stretches.append(Stretch(one.block, "products", one.process.role, begin, one.products))

    def _stretch(self, one: _Running, what: str, start: float, end: float) -> None:
        self.stretches.append(Stretch(one.block, one.process.role, what, start, end))


def _groups(process: Process) -> int:
    return max(1, process.threads // _WARPGROUP) if process.threads % _WARPGROUP == 0 else 1


def _functions(part: object) -> list[str]:
    """Names of the functions in a formula, outermost first."""
    match part:
        case Apply(function, arguments):
            return [function, *(name for argument in arguments for name in _functions(argument))]
        case Floor(form, _):
            return _functions(form)
        case Choose(condition, yes, no):
            return [*_functions(condition), *_functions(yes), *_functions(no)]
        case Linear(_, terms):
            return [name for one, _ in terms for name in _functions(one)]
        case Symbol():
            return []
        case _:
            inner = getattr(part, "parts", None) or ((part.form,) if hasattr(part, "form") else ())
            return [name for one in inner for name in _functions(one)]


def parameter_of(name: str, names: list[str], kernel: str) -> str | None:
    """The parameter that a size names: itself, or as pipec calls the dimension of a kernel."""
    return next((one for one in names if one in (name, f"{kernel}_dim_{name}", f"{kernel}_{name}")), None)
