"""One multiprocessor with blocks whose warps do what was recorded: a time for each event.

Every warp advances through its own recording. Schedulers, the path to shared memory, the copy engine, the path to the L2 and the tensor
cores serve requests in the order of time. What a region of code takes is the largest of its longest chain of results, of what its
scheduler issues for it, and of what it asks of shared memory.
"""

from collections import defaultdict
from collections.abc import Sequence
from heapq import heappop, heappush
from typing import NamedTuple

from pipec.predict.device import Device
from pipec.predict.executed.costs import ATOM, LOAD, NEAR_LOAD, PARTIAL, TURN_OVER
from pipec.predict.executed.happenings import Happening, Recording, Signal, Stream
from pipec.predict.executed.pieces import Piece, Program
from pipec.predict.following.uses import Stretch
from pipec.predict.work import LINE, SCHEDULERS, product_cycles

_NANO = 1e-9


class Stuck(Exception):
    """Warps wait for what does not happen in these blocks; for the instruction at `pc`."""

    def __init__(self, pc: int) -> None:
        super().__init__(pc)
        self.pc = pc


class Waited(NamedTuple):
    """A warp at an instruction, from `start` to `end` (cycles)."""

    block: int
    rank: int
    warp: int
    pc: int
    start: float
    end: float


class _Signalled:
    __slots__ = ("left", "time", "waiting")

    def __init__(self, left: int) -> None:
        self.left, self.time = left, 0.0
        self.waiting: list[_Running] = []


class _Running:
    """A warp of one of the blocks that share the multiprocessor."""

    def __init__(self, block: int, stream: Stream, pieces: list[Piece]) -> None:
        self.block, self.rank, self.index, self.pieces = block, stream.rank, stream.index, pieces
        self.track = f"warp {stream.index}" if not stream.rank else f"warp {stream.index} of CTA {stream.rank}"
        self.at, self.now = 0, 0.0
        self.engine = stream.rank  # each CTA of a cluster has a multiprocessor of its own
        self.arrived: dict[int, float] = {}  # by the load's program counter
        self.open: dict[str, float] = defaultdict(float)  # when what belongs to no group yet is complete
        self.groups: dict[str, list[object]] = defaultdict(list)
        self.products = 0.0
        self.fetches = 0.0
        self.last_wgmma: Signal | None = None
        self.ended = self.met = (
            False  # the code of the piece is done, not what ends it; it has arrived at the barrier that ends it
        )


class Conditions(NamedTuple):
    """Cycles of a load from memory in addition to those from the L2: `farther` of a copy, `from_memory` of threads; `rate`: bytes per
    cycle from there; `cache`: bytes of the multiprocessor's cache for each block; `apart`: cycles between two blocks that start."""

    farther: float
    from_memory: float
    rate: float
    cache: float
    apart: float
    in_registers: bool


class Replay:
    def __init__(
        self, recordings: Sequence[Recording], beside: int, program: Program, device: Device, conditions: Conditions
    ) -> None:
        """`recordings`: of the clusters in the order in which they start, `beside` of them at a time."""
        self._device, self._farther, self._rate = device, conditions.farther, conditions.rate
        self._program, self._slower = program, device.dependent if conditions.in_registers else 1.0
        self._from_memory = conditions.from_memory
        self._cache, self._apart = conditions.cache, conditions.apart
        self._waiting = [*recordings]
        self._left: dict[int, int] = {}  # by block, its warps that run
        self._latest: dict[int, float] = defaultdict(float)
        self.ends: list[float] = []  # of blocks, in this order
        self._signals: dict[tuple[int, Signal], _Signalled] = {}
        self._expected = [one.expected for one in recordings]
        self._schedulers: dict[tuple[int, int], float] = defaultdict(float)
        self._shared: dict[int, float] = defaultdict(float)
        self._path: dict[int, float] = defaultdict(float)
        self._walking: dict[int, float] = defaultdict(float)
        self._tensor: dict[int, float] = defaultdict(float)
        self.busy: dict[str, float] = defaultdict(float)
        self.moved = self.stored = self.flops = 0.0
        self.stretches: list[Stretch] = []
        self.worked = 0.0  # cycles of all warps in which they execute code
        self.waits: list[Waited] = []
        self.trips: dict[tuple[int, int, int], list[float]] = defaultdict(
            list
        )  # (rank, warp, branch back) of the first block: when
        self._queue: list[tuple[float, int, _Running]] = []
        self._turn = 0
        self.cycles = 0.0
        self._warps: list[_Running] = []
        for _ in recordings[:beside]:
            self._begin(0.0)

    def run(self) -> float:
        """Cycles until everything has ended. Raises Stuck."""
        while self._queue:
            _, _, one = heappop(self._queue)
            if one.at >= len(one.pieces):
                self._leave(one)
            elif self._step(one):
                self._push(one)
        for one in self._warps:
            if one.at < len(one.pieces):
                ending = one.pieces[one.at].ending
                raise Stuck(ending.pc if ending is not None else 0)
        return max(max(one.now for one in self._warps), *self._path.values())  # what is written is waited for as well

    def _begin(self, at: float) -> None:
        """The next block, not before all in front of it have begun, on other multiprocessors as well."""
        block = len(self._left)
        recording = self._waiting[block]
        at = max(at, block * self._apart)
        self._left[block] = len(recording.streams)
        for stream in recording.streams:
            one = _Running(block, stream, self._program.pieces_of(stream))
            one.now = at
            self._warps.append(one)
            self._push(one)

    def _leave(self, one: _Running) -> None:
        """The last warp of a block makes room for another one."""
        block = one.block
        self._left[block] -= 1
        self._latest[block] = max(self._latest[block], one.now)
        if not self._left[block]:
            self.ends.append(self._latest[block])
            if len(self._left) < len(self._waiting):
                self._begin(self._latest[block] + TURN_OVER)

    def _push(self, one: _Running) -> None:
        self._turn += 1
        heappush(self._queue, (one.now, self._turn, one))

    def _step(self, one: _Running) -> bool:
        """The next piece of a warp, or what ends it; False if it waits for others."""
        piece = one.pieces[one.at]
        if not one.ended:
            self._code(one, piece)
            one.ended = True
            if piece.ending is not None and piece.ending.kind != "step":
                return True  # others may do something earlier than what comes now
        if piece.ending is not None and not self._end(one, piece.ending):
            return False
        if piece.returns and piece.ending is not None and not one.block:
            self.trips[one.rank, one.index, piece.ending.pc].append(one.now)
        one.at, one.ended, one.met = one.at + 1, False, False
        return True

    # ---- code

    def _code(self, one: _Running, piece: Piece) -> None:
        code, begun = piece.region, one.now
        scheduler = one.engine, one.index % SCHEDULERS
        start = max(begun, self._schedulers[scheduler])
        self._schedulers[scheduler] = start + code.busy
        alone = max(code.chain, code.busy * self._slower)
        if code.shared:
            through = max(start, self._shared[one.engine]) + code.shared
            self._shared[one.engine] = through
            self.busy["shared memory"] += code.shared
            alone = max(alone, through - start)
        self.busy["threads"] += code.busy / SCHEDULERS
        issued = 0.0
        for happening in piece.on_the_way:
            at = start + alone * code.places.get(happening.pc, 1.0) + issued
            issued += self._happen(one, happening, at)
        one.now = start + alone + issued
        if one.now > begun:
            self.stretches.append(Stretch(one.block, one.track, "work", begun, one.now))
            self.worked += one.now - begun

    def _happen(self, one: _Running, what: Happening, at: float) -> float:
        """Something on the way, at this time; returns cycles that it takes from the warp."""
        device = self._device
        match what.kind:
            case "load":
                one.arrived[what.pc] = self._fetched(one, what, at)
            case "fetch":
                self._shared[one.engine] = max(at, self._shared[one.engine]) + what.size / device.machine.operand_bytes
                one.open["fetch"] = one.fetches = max(one.fetches, self._fetched(one, what, at))
            case "store":
                self._shared[one.engine] = max(at, self._shared[one.engine]) + what.rows
                self._path[one.engine] = max(at, self._path[one.engine]) + what.partial * PARTIAL + what.atoms * ATOM
                self.stored += what.size
            case "copy":
                return self._copy(one, what, at)
            case "put":
                walking = max(what.rows * device.row, what.size / self._rate)
                self._walking[one.engine] = max(at, self._walking[one.engine]) + walking
                self.stored += what.size
                self.busy["copies"] += walking
                one.open["bulk"] = self._walking[one.engine] + device.load
                return device.issue
            case "commit":
                family = what.group
                one.groups[family].append(one.last_wgmma if family == "wgmma" else one.open[family])
            case "multiply":
                self._multiply(one, what, at)
            case "arrive":
                if what.size:
                    self.busy["issue"] += device.turn
                for signal in what.signals:
                    self._contribute(one, signal, at + device.arrive)
                return device.turn if what.size else 0.0
            case "arrive_products":
                for signal in what.signals:
                    self._contribute(one, signal, max(at, one.products))
            case "arrive_fetches":
                for signal in what.signals:
                    self._contribute(one, signal, max(at + device.arrive, one.fetches))
            case _:
                raise AssertionError(what.kind)
        return 0.0

    def _fetched(self, one: _Running, what: Happening, at: float) -> float:
        """When bytes asked for by threads are there: out of the cache of the multiprocessor, the L2, or memory."""
        near = what.again if what.since <= self._cache else 0.0
        size = what.size - near
        if not size:
            return at + NEAR_LOAD
        moving = size / self._rate
        end = self._path[one.engine] = max(at, self._path[one.engine]) + moving
        self.busy["copies"] += moving
        self.moved += size
        return end + LOAD + (self._from_memory if what.again < what.size else 0.0)

    def _copy(self, one: _Running, what: Happening, at: float) -> float:
        device = self._device
        walking = max(what.rows * device.row, what.size / self._rate)
        begin = max(at, self._walking[one.engine], self._path[one.engine])
        end = self._walking[one.engine] = self._path[one.engine] = begin + walking
        self.stretches.append(Stretch(one.block, "copies", "load", begin, end))
        self.busy["copies"] += walking
        self.moved += what.size
        issue = device.issue + device.issue_row * what.rows
        self.busy["issue"] += issue
        lines = what.size / LINE
        for signal in what.signals:
            self._contribute(
                one, signal, end + device.load + self._farther + what.rows * device.load_row + lines * device.load_line
            )
        return issue

    def _multiply(self, one: _Running, what: Happening, at: float) -> None:
        assert what.product is not None
        if what.signals:  # wgmma: of four warps together
            (signal,) = what.signals
            one.last_wgmma = signal
            state = self._signal(one, signal)
            state.left -= 1
            state.time = max(state.time, at)
            if state.left > 0:
                return
            state.time = self._product(one, what, state.time)
            self._wake(state)
        else:
            one.products = self._product(one, what, at)

    def _product(self, one: _Running, what: Happening, at: float) -> float:
        of = what.product
        assert of is not None
        cycles, latency = product_cycles(of, self._device)
        # A pair's tensor cores work together.
        engines = (one.engine, one.engine ^ 1) if of.group > 1 else (one.engine,)
        begin = max(at + latency, *(self._tensor[engine] for engine in engines))
        end = begin + cycles
        for engine in engines:
            self._tensor[engine] = end
        self.busy["products"] += cycles * len(engines)
        self.flops += of.count * of.rows * of.columns * 32 * of.group  # 16-bit operations of 32 bytes of K
        self.stretches.append(Stretch(one.block, "products", "multiply", begin, end))
        return end

    # ---- signals

    def _signal(self, one: _Running, signal: Signal) -> _Signalled:
        key = one.block, signal
        found = self._signals.get(key)
        if found is None:
            found = self._signals[key] = _Signalled(self._expected[one.block].get(signal, 0))
        return found

    def _contribute(self, one: _Running, signal: Signal, time: float) -> None:
        state = self._signal(one, signal)
        state.left, state.time = state.left - 1, max(state.time, time)
        if state.left <= 0:
            self._wake(state)

    def _wake(self, state: _Signalled) -> None:
        for other in state.waiting:
            self._push(other)
        state.waiting.clear()

    def _end(self, one: _Running, what: Happening) -> bool:
        begun = one.now
        match what.kind:
            case "step":
                pass
            case "use":
                one.now = max([one.now, *(one.arrived.get(pc, 0.0) for pc in what.pcs)])
            case "await":
                return self._await(one, what)
            case "wait":
                for signal in what.signals:
                    state = self._signal(one, signal)
                    if state.left > 0:
                        state.waiting.append(one)
                        return False
                    one.now = max(one.now, state.time)
            case "meet":
                (signal,) = what.signals
                state = self._signal(one, signal)
                if not one.met:
                    one.met = True
                    self._contribute(one, signal, one.now + (0.0 if what.pending else self._device.arrive))
                if not what.pending:
                    if state.left > 0:
                        state.waiting.append(one)
                        return False
                    one.now = max(one.now, state.time)
            case "exchange":
                one.now = self._fetched(one, what, one.now)
            case "sleep":
                one.now += what.size * _NANO * self._device.clock
            case _:
                raise AssertionError(what.kind)
        self._waited(one, what.pc + (what.kind == "use"), begun)  # a use is recorded before the instruction
        return True

    def _await(self, one: _Running, what: Happening) -> bool:
        family, begun = what.group.partition(".")[0], one.now
        groups = one.groups[family]
        done = groups[: len(groups) - what.pending] if what.pending < len(groups) else []
        for group in done:
            if isinstance(group, tuple):
                state = self._signal(one, group)
                if state.left > 0:
                    state.waiting.append(one)
                    return False
                one.now = max(one.now, state.time)
            elif isinstance(group, float):
                one.now = max(one.now, group + (0.0 if what.group != "bulk" else self._farther))
        del groups[: len(done)]
        self._waited(one, what.pc, begun)
        return True

    def _waited(self, one: _Running, pc: int, begun: float) -> None:
        if one.now > begun:
            self.waits.append(Waited(one.block, one.rank, one.index, pc, begun, one.now))
            self.stretches.append(Stretch(one.block, one.track, "wait", begun, one.now))
