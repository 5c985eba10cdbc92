"""One multiprocessor with the blocks of a PTX kernel: every process goes through its states, with numbers for sizes and block indices."""

from collections import defaultdict
from collections.abc import Mapping
from heapq import heappop, heappush
from math import inf, prod
from typing import NamedTuple

from pipec.isa.targets import WARPGROUP_THREADS
from pipec.predict.device import Device
from pipec.predict.following.block import MOST_EVENTS
from pipec.predict.following.uses import Stretch
from pipec.predict.ptx.answers import AT_ONCE, LAUNCHED
from pipec.predict.ptx.code import Code, Fetch, Group, Multiply, Unclear
from pipec.predict.ptx.code import Stretch as Between
from pipec.predict.work import LINE, product_cycles
from pipec.protocol.forms.sample import evaluate, known_function
from pipec.protocol.forms.sample import holds as is_true
from pipec.verify.network import Arrive, Edge, End, Network, Process, Test, Use, Wait
from pipec.verify.terms import Apply, Choose, Floor, Formula, Linear, Symbol, symbols_in, symbols_of

_EARLY = 16  # bytes per thread: small loads, such as a factor or a bias, are issued before they are needed
_ALL = -1  # all blocks
_WORD = 4  # bytes

UNIFORM = {"%ctaid": 0, "%clusterid": 0, "%cluster_ctaid": 0, "%cluster_ctarank": 0}


class _Phase:
    """A use of a ring: its arrivals so far, and the time of the last one."""

    __slots__ = ("arrived", "complete", "expected", "time")

    def __init__(self) -> None:
        self.arrived, self.expected, self.time = 0, 0, 0.0
        self.complete = False


class _Key(NamedTuple):
    block: int
    ring: int
    number: int


class _Running:
    """A process of one block, at `state` and `now`; of several warpgroups, each with its own pace, one of `groups`."""

    def __init__(self, process: Process, block: int, numbers: Mapping[Symbol, int], groups: int, begin: float) -> None:
        self.process, self.block, self.state, self.now = process, block, process.start, begin
        self.rank, self.alike = process.ranks[0], len(process.ranks)
        self.share = groups
        self.threads = process.threads // groups
        self.numbers = dict(numbers)
        self.unknown: set[Symbol] = set()
        self.cursors = [0] * process.cursors
        self.products = 0.0  # when those issued so far have completed
        self.groups: list[float] = []
        self.fetched = 0.0  # when the `cp.async` copies issued so far have completed
        self.fetches: list[float] = []
        self.places = frozenset(state.line for state in process.states)


class Multiprocessor:
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
        """`running`: the number of the launch's blocks that ever start; `first`: the number of the first cluster that is followed."""
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
        self.carried = False  # whether a barrier has waited for copies
        self.stretches: list[Stretch] = []
        meeting = device.meet if prod(code.cluster) > 1 else 0.0  # the CTAs of a cluster know that all have started
        self._ending = device.meet if code.reads_from_others else 0.0  # and that all have read what they need of others
        self._running = [
            _Running(process, block, self._numbers(given, first + block, process.ranks[0], grid, running), groups, meeting)
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
        """The values of a CTA of the cluster with this number."""
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
        ends = [one.now for one in self._running]
        return max([*ends, *self._copies.values(), *self._products.values()]) + self._ending

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
        """When the bytes requested by this CTA arrive."""
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
        self.carried = True
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
        if between.loaded:
            begun, there = one.now, self._fetch(one, between.loaded)
            if between.loaded > _EARLY * one.threads:
                one.now = there
                self._stretch(one, "read", begun, one.now)
        computing = 0.0
        if one.threads >= WARPGROUP_THREADS:  # what a single warp issues in addition to copies and products is part of their cost
            computing = between.slots.cycles(self._device)
        storing = self._device.tile / one.share + self._device.element * between.stored if between.stored else 0.0
        cycles = computing + storing
        if cycles:
            # Interleaved with other groups and blocks, whose instructions the same schedulers issue; a single warp waits for its own
            # results.
            key = (one.block, one.rank, one.process.role) if between.stored else (_ALL, one.rank, "")
            begun = one.now
            start = max(one.now, self._working[key])
            self._working[key] = start + cycles
            one.now = start + computing * (self._device.dependent if one.share > 1 or self._code.in_registers else 1.0) + storing
            self.busy["threads"] += cycles * one.alike
            self._stretch(one, "work", begun, one.now)
        if between.remote:  # through the network between multiprocessors, which leaves the schedulers to others
            begun, one.now = one.now, one.now + between.remote / _WORD * self._device.remote
            self._stretch(one, "read from other CTAs", begun, one.now)
        for asked in between.asked:
            match asked:
                case Multiply():
                    self._multiply(one, asked)
                case Fetch(size):
                    one.fetched = self._fetch(one, size)
                case Group(commit=True, fetches=fetches):
                    (one.fetches if fetches else one.groups).append(one.fetched if fetches else one.products)
                case Group(pending=pending, fetches=fetches):
                    self._await_groups(one, one.fetches if fetches else one.groups, pending)

    def _fetch(self, one: _Running, size: float) -> float:
        """When bytes requested by threads arrive, through the L2 like those of the copy engine."""
        moving = size / self._rate
        end = self._copies[one.rank] = max(one.now, self._copies[one.rank]) + moving
        self.busy["copies"] += moving * one.alike
        self.moved += size * one.alike
        return end + self._device.load + self._farther

    def _await_groups(self, one: _Running, groups: list[float], pending: int) -> None:
        if len(groups) > pending:
            one.now = max(one.now, groups[-1 - pending])
            del groups[: len(groups) - pending]

    def _multiply(self, one: _Running, product: Multiply) -> None:
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
    return max(1, process.threads // WARPGROUP_THREADS) if process.threads % WARPGROUP_THREADS == 0 else 1


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
