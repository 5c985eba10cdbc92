"""Runs clusters of a launch in the simulator, and records what each warp did that takes time.

Branches, the targets of branches, and all that touches memory, barriers or engines is watched; between two of them a warp executes
straight-line code, which `regions.py` reads from the text. Values are those of the launch: trip counts, addresses, descriptors and tensor
maps need no analysis.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import numpy as np

from pipec.predict.executed.happenings import Happening, Kind, Recording, Signal, Stream
from pipec.predict.executed.regions import awaited_loads
from pipec.predict.executed.traffic import Traffic
from pipec.predict.ptx.accesses import access_bytes
from pipec.predict.ptx.products import Unknown, copied_scales, tcgen05_product, wgmma_product
from pipec.predict.workload import ROW_BYTES, SECTOR_BYTES
from pipec.sim.machine.machine import Machine
from pipec.sim.machine.memory.spaces import OFFSET_MASK, RANK_SHIFT
from pipec.sim.machine.program import Execute, Program
from pipec.sim.machine.threads.cta import Warp
from pipec.sim.machine.threads.divergence import Outcome, Wait
from pipec.sim.ptx.tree import Address, Immediate, Instruction, Operand, Register, Symbol, Vector

_WARPS = 4  # of a warpgroup


class Unrecorded(Exception):
    """The time of this instruction is not known; in which line, and what."""

    def __init__(self, line: int, what: str) -> None:
        super().__init__(what)
        self.line, self.what = line, what


class Recorder:
    """Watches one program; `take` returns what has been recorded of the cluster that ran."""

    def __init__(self) -> None:
        self._streams: dict[tuple[int, int], list[Happening]] = {}
        self._expected: dict[Signal, int] = defaultdict(int)
        self._met: dict[tuple[int, int], int] = defaultdict(int)  # (rank, barrier) -> threads that have arrived so far
        self._products: dict[tuple[int, int], int] = defaultdict(int)  # (rank, warp) -> its wgmma so far
        self._traffic = Traffic()
        self._columns = 0
        self._machine: Machine | None = None

    def prepare(self, machine: Machine, program: Program) -> None:
        """For the simulator, before the run."""
        self._machine = machine
        items = program.image.function.instructions
        targets = {
            target
            for index, item in enumerate(items)
            if item.root in ("bra", "brx")
            for target in program.image.successors[index]
        }
        uses = awaited_loads(items, targets)
        for pc, step in enumerate(program.code):
            item = step.item
            if item is None:
                continue
            watch = self._watch_of(item, pc)
            if watch is not None:
                step.execute, step.watched = watch(step.execute), True
            elif pc in targets or item.root in ("bra", "brx", "exit", "ret"):
                step.execute, step.watched = self._stepping(step.execute, pc), True
            if pc in uses:
                step.execute, step.watched = self._using(step.execute, pc, uses[pc]), True

    def take(self) -> Recording:
        assert self._machine is not None
        streams = tuple(Stream(rank, index, found) for (rank, index), found in sorted(self._streams.items()))
        return Recording(streams, dict(self._expected), self._traffic.totals(self._machine.memory), self._columns)

    # ---- watching

    def _add(self, warp: Warp, pc: int, kind: Kind, **more: Any) -> None:
        key = warp.cta.rank, warp.index
        found = self._streams.get(key)
        if found is None:
            found = self._streams[key] = []
        found.append(Happening(pc, kind, **more))

    def _stepping(self, execute: Execute, pc: int) -> Execute:
        def stepping(warp: Warp) -> Outcome:
            outcome = execute(warp)
            if not (isinstance(outcome, Wait) and outcome.retry):
                self._add(warp, pc, "step")
            return outcome

        return stepping

    def _using(self, execute: Execute, pc: int, loads: tuple[int, ...]) -> Execute:
        def using(warp: Warp) -> Outcome:
            self._add(warp, pc - 1, "use", pcs=loads)
            return execute(warp)

        return using

    def _watch_of(self, item: Instruction, pc: int) -> Callable[[Execute], Execute] | None:
        for start, make in _WATCHES.items():
            if item.opcode == start or item.opcode.startswith(start + "."):
                return make(self, item, pc)
        return None

    def _plain(
        self, item: Instruction, pc: int, tell: Callable[[Warp], None], after: bool = False
    ) -> Callable[[Execute], Execute]:
        """`tell` records, before the instruction or after it; of one that blocks and is executed again, once."""

        def make(execute: Execute) -> Execute:
            def watched(warp: Warp) -> Outcome:
                if not after:
                    tell(warp)
                    return execute(warp)
                outcome = execute(warp)
                if not (isinstance(outcome, Wait) and outcome.retry):
                    tell(warp)
                return outcome

            return watched

        return make

    # ---- values

    def _values(self, warp: Warp, operand: Operand) -> np.ndarray[Any, Any]:
        """Of the active lanes."""
        if isinstance(operand, Register):
            return warp.registers[operand.index][warp.active].astype(np.int64)
        if isinstance(operand, Immediate):
            return np.full(int(np.count_nonzero(warp.active)), operand.value, np.int64)
        if isinstance(operand, Address):
            if isinstance(operand.base, int):
                return np.full(int(np.count_nonzero(warp.active)), operand.base + operand.offset, np.int64)
            return self._values(warp, operand.base) + operand.offset
        if isinstance(operand, Symbol):
            image = warp.cta.image
            rank = warp.cta.rank << RANK_SHIFT if image.spaces.get(operand.name) == "shared" else 0
            return np.full(int(np.count_nonzero(warp.active)), image.addresses[operand.name] + operand.offset + rank, np.int64)
        raise TypeError(operand)

    def _barriers(self, warp: Warp, operand: Operand, local: bool) -> dict[tuple[int, int], int]:
        """(rank, offset) of the mbarriers that the lanes name -> how many of them."""
        found: dict[tuple[int, int], int] = defaultdict(int)
        for address in self._values(warp, operand).tolist():
            rank = warp.cta.rank if local else address >> RANK_SHIFT & 0xFF
            if rank >= len(warp.cta.cluster.ctas):
                rank = warp.cta.rank
            found[rank, address & OFFSET_MASK] += 1
        return found

    def _phase(self, warp: Warp, rank: int, offset: int) -> Signal | None:
        barrier = warp.cta.cluster.ctas[rank].mbarriers.get(offset)
        return None if barrier is None else ("phase", barrier.actor, barrier.state.phase)

    def _expect(self, signals: Iterable[Signal]) -> tuple[Signal, ...]:
        found = tuple(signals)
        for signal in found:
            self._expected[signal] += 1
        return found

    # ---- global memory

    def _global(self, item: Instruction, pc: int) -> Callable[[Execute], Execute] | None:
        parts = item.opcode.split(".")
        if any(part.startswith(("shared", "param", "local", "const")) for part in parts[1:]):
            return None
        store = item.root in ("st", "red")
        atomic = item.root in ("atom", "red")
        where = item.operands[0 if store else 1]
        width = access_bytes(item.opcode)

        def tell(warp: Warp) -> None:
            addresses = self._values(warp, where)
            assert self._machine is not None
            memory = self._machine.memory
            addresses = memory.placed(addresses)
            first, last = addresses // SECTOR_BYTES, (addresses + width - 1) // SECTOR_BYTES
            spread = int((last - first).max()) + 1
            sectors = np.unique((first[:, None] + np.arange(spread))[(first[:, None] + np.arange(spread)) <= last[:, None]])
            if not self._traffic.add_sectors(memory, sectors, int(addresses[0]), written=store or atomic):
                return
            kind: Kind = "exchange" if item.root == "atom" else "store" if store else "load"
            self._add(
                warp,
                pc,
                kind,
                size=float(sectors.size * SECTOR_BYTES),
                rows=float(np.unique(sectors * SECTOR_BYTES // ROW_BYTES).size),
            )

        return self._plain(item, pc, tell)

    def _fetch(self, item: Instruction, pc: int) -> Callable[[Execute], Execute] | None:
        if ".shared" not in item.opcode or ".global" not in item.opcode:
            return None
        source, size = item.operands[1], item.operands[2]
        given = item.operands[3] if len(item.operands) > 3 else None

        def tell(warp: Warp) -> None:
            assert self._machine is not None
            addresses, width = self._machine.memory.placed(self._values(warp, source)), int(self._values(warp, size)[0])
            real = self._values(warp, given) if isinstance(given, (Register, Immediate)) else np.full(addresses.size, width)
            addresses = addresses[real > 0]
            if not addresses.size:
                self._add(warp, pc, "step")
                return
            sectors = np.unique(np.concatenate([addresses // SECTOR_BYTES, (addresses + width - 1) // SECTOR_BYTES]))
            self._traffic.add_sectors(self._machine.memory, sectors, int(addresses[0]), written=False)
            self._add(
                warp,
                pc,
                "fetch",
                size=float(sectors.size * SECTOR_BYTES),
                rows=float(np.unique(sectors * SECTOR_BYTES // ROW_BYTES).size),
            )

        return self._plain(item, pc, tell)

    def _group(self, item: Instruction, pc: int) -> Callable[[Execute], Execute]:
        family = "bulk" if item.opcode.startswith("cp.async.bulk") else "wgmma" if item.root == "wgmma" else "fetch"
        if ".commit_group" in item.opcode:
            return self._plain(item, pc, lambda warp: self._add(warp, pc, "commit", group=family))
        pending = item.operands[0].value if item.operands and isinstance(item.operands[0], Immediate) else 0
        everything = ".wait_all" in item.opcode
        group = family + (".read" if ".read" in item.opcode else "")

        def tell(warp: Warp) -> None:
            if everything:
                self._add(warp, pc, "commit", group=family)
            self._add(warp, pc, "await", group=group, pending=pending)

        return self._plain(item, pc, tell, after=True)

    # ---- the copy engine

    def _bulk(self, item: Instruction, pc: int) -> Callable[[Execute], Execute] | None:
        if "prefetch" in item.opcode:
            return None

        def make(execute: Execute) -> Execute:
            def watched(warp: Warp) -> Outcome:
                machine = warp.cta.machine
                before = len(machine.trace)
                phases = {
                    (cta.rank, offset): one.state.phase for cta in warp.cta.cluster.ctas for offset, one in cta.mbarriers.items()
                }
                outcome = execute(warp)
                if isinstance(outcome, Wait) and outcome.retry:
                    return outcome
                for event in machine.trace[before:]:
                    details: Mapping[str, Any] = event.details
                    if event.kind == "tma_issued":
                        self._told_of_copy(warp, pc, details, phases)
                    elif event.kind == "store_issued":
                        self._told_of_put(warp, pc, details)
                del machine.trace[:]
                return outcome

            return watched

        return make

    def _told_of_copy(self, warp: Warp, pc: int, details: Mapping[str, Any], phases: Mapping[tuple[int, int], int]) -> None:
        size, row = float(details["bytes"]), float(details.get("row_bytes", 0) or details["bytes"])
        holder = details.get("holder", details.get("destination", warp.cta.rank))
        barrier = warp.cta.cluster.ctas[holder].mbarriers[details["barrier"]]
        signal: Signal = "phase", barrier.actor, phases[holder, details["barrier"]]
        self._moved(details, size, written=False)
        self._add(warp, pc, "copy", size=size, rows=size / min(row, float(ROW_BYTES)), signals=self._expect([signal]))

    def _told_of_put(self, warp: Warp, pc: int, details: Mapping[str, Any]) -> None:
        size = float(details["bytes"])
        self._moved(details, size, written=True)
        self._add(warp, pc, "put", size=size, rows=size / min(float(details.get("row_bytes", 0) or size), float(ROW_BYTES)))

    def _moved(self, details: Mapping[str, Any], size: float, *, written: bool) -> None:
        assert self._machine is not None
        tensor = details.get("tensor")
        if tensor is not None:
            self._traffic.add_box(self._machine.memory, int(tensor), tuple(details["coordinates"]), size, written=written)

    # ---- mbarriers and barriers of threads

    def _arrive(self, item: Instruction, pc: int) -> Callable[[Execute], Execute]:
        where = next(one for one in item.operands if isinstance(one, Address))
        local = ".shared::cluster" not in item.opcode

        def tell(warp: Warp) -> None:
            barriers = self._barriers(warp, where, local)
            signals = [phase for place in barriers if (phase := self._phase(warp, *place)) is not None]
            self._add(warp, pc, "arrive", signals=self._expect(signals), size=float(".expect_tx" in item.opcode))

        return self._plain(item, pc, tell)

    def _wait(self, item: Instruction, pc: int) -> Callable[[Execute], Execute]:
        where, answer = item.operands[1], item.operands[0]

        def tell(warp: Warp) -> None:
            if isinstance(answer, Register) and not warp.registers[answer.index][warp.active].any():
                return
            signals = []
            for rank, offset in self._barriers(warp, where, True):
                barrier = warp.cta.cluster.ctas[rank].mbarriers[offset]
                signals.append(("phase", barrier.actor, barrier.state.phase - 1))
            self._add(warp, pc, "wait", signals=tuple(signals))

        return self._plain(item, pc, tell, after=True)

    def _tell_with_fetches(self, item: Instruction, pc: int) -> Callable[[Execute], Execute]:
        where = next(one for one in item.operands if isinstance(one, Address))

        def tell(warp: Warp) -> None:
            signals = [phase for place in self._barriers(warp, where, True) if (phase := self._phase(warp, *place)) is not None]
            self._add(warp, pc, "arrive_fetches", signals=self._expect(signals))

        return self._plain(item, pc, tell)

    def _tell_with_products(self, item: Instruction, pc: int) -> Callable[[Execute], Execute]:
        where = next((one for one in item.operands if isinstance(one, (Address, Register))), None)
        multicast = "multicast" in item.opcode

        def tell(warp: Warp) -> None:
            assert where is not None
            barriers = self._barriers(warp, where, True)
            ranks = [warp.cta.rank]
            if multicast:
                mask = int(self._values(warp, item.operands[-1])[0])
                ranks = [rank for rank in range(len(warp.cta.cluster.ctas)) if mask >> rank & 1]
            elif "shared::cluster" in item.opcode:
                barriers = self._barriers(warp, where, False)
                ranks = []
            places = [*barriers] if not ranks else [(rank, offset) for rank in ranks for _, offset in barriers]
            signals = [phase for place in places if (phase := self._phase(warp, *place)) is not None]
            self._add(warp, pc, "arrive_products", signals=self._expect(signals))

        return self._plain(item, pc, tell)

    def _meet(self, item: Instruction, pc: int) -> Callable[[Execute], Execute]:
        after = item.operands[1:] if ".red" in item.opcode else item.operands
        number, threads = after[0], after[1] if len(after) > (2 if ".red" in item.opcode else 1) else None
        arrives = ".arrive" in item.opcode

        def tell(warp: Warp) -> None:
            cta = warp.cta
            place = cta.rank, int(self._values(warp, number)[0])
            count = int(self._values(warp, threads)[0]) if threads is not None else 32 * len(cta.warps)
            turn = self._met[place] // count
            self._met[place] += 32
            signal: Signal = "meet", *place, turn, count
            self._add(warp, pc, "meet", signals=self._expect([signal]), pending=int(arrives))

        return self._plain(item, pc, tell)

    def _meet_cluster(self, item: Instruction, pc: int) -> Callable[[Execute], Execute]:
        def tell(warp: Warp) -> None:
            phase = warp.cta.cluster.barrier_phase
            if ".arrive" in item.opcode:
                self._add(warp, pc, "arrive", signals=self._expect([("cluster", phase)]))
            else:
                self._add(warp, pc, "wait", signals=(("cluster", phase - 1),))

        return self._plain(item, pc, tell, after=".wait" in item.opcode)

    # ---- tensor cores

    def _wgmma(self, item: Instruction, pc: int) -> Callable[[Execute], Execute]:
        vectors = sum(isinstance(one, Vector) for one in item.operands)
        product = self._known(item, lambda: wgmma_product(item.opcode, vectors > 1))

        def tell(warp: Warp) -> None:
            number = self._products[warp.cta.rank, warp.index]
            self._products[warp.cta.rank, warp.index] = number + 1
            signal: Signal = "wgmma", warp.cta.rank, warp.index // _WARPS, number
            self._add(warp, pc, "multiply", product=product, signals=self._expect([signal]))

        return self._plain(item, pc, tell, after=True)

    def _tcgen05(self, item: Instruction, pc: int) -> Callable[[Execute], Execute]:
        near = isinstance(item.operands[1], Address)

        def tell(warp: Warp) -> None:
            descriptor = int(self._values(warp, item.operands[3])[0]) & 0xFFFFFFFF
            product = self._known(item, lambda: tcgen05_product(item.opcode, descriptor, near))
            self._add(warp, pc, "multiply", product=product)

        return self._plain(item, pc, tell)

    def _copied_scales(self, item: Instruction, pc: int) -> Callable[[Execute], Execute]:
        product = self._known(item, lambda: copied_scales(item.opcode))
        return self._plain(item, pc, lambda warp: self._add(warp, pc, "multiply", product=product))

    def _known(self, item: Instruction, find: Callable[[], Any]) -> Any:
        try:
            return find()
        except Unknown as unknown:
            raise Unrecorded(item.line, unknown.what) from None

    def _allocate(self, item: Instruction, pc: int) -> Callable[[Execute], Execute]:
        def tell(warp: Warp) -> None:
            if warp.cta.rank == 0:
                self._columns += int(self._values(warp, item.operands[1])[0])
            self._add(warp, pc, "step")

        return self._plain(item, pc, tell)

    def _sleep(self, item: Instruction, pc: int) -> Callable[[Execute], Execute]:
        return self._plain(
            item, pc, lambda warp: self._add(warp, pc, "sleep", size=float(self._values(warp, item.operands[0])[0]))
        )


# By the start of the opcode, the longest first.
_WATCHES: Mapping[str, Callable[[Recorder, Instruction, int], Callable[[Execute], Execute] | None]] = {
    "cp.async.bulk.commit_group": Recorder._group,
    "cp.async.bulk.wait_group": Recorder._group,
    "cp.async.commit_group": Recorder._group,
    "cp.async.wait_group": Recorder._group,
    "cp.async.wait_all": Recorder._group,
    "cp.async.mbarrier.arrive": Recorder._tell_with_fetches,
    "cp.async.bulk": Recorder._bulk,
    "cp.reduce.async.bulk": Recorder._bulk,
    "cp.async": Recorder._fetch,
    "ld": Recorder._global,
    "st": Recorder._global,
    "atom": Recorder._global,
    "red": Recorder._global,
    "mbarrier.arrive": Recorder._arrive,
    "mbarrier.arrive_drop": Recorder._arrive,
    "mbarrier.expect_tx": Recorder._arrive,
    "mbarrier.try_wait": Recorder._wait,
    "mbarrier.test_wait": Recorder._wait,
    "barrier.cluster": Recorder._meet_cluster,
    "bar.warp": lambda recorder, item, pc: None,
    "bar": Recorder._meet,
    "barrier": Recorder._meet,
    "wgmma.commit_group": Recorder._group,
    "wgmma.wait_group": Recorder._group,
    "wgmma.mma_async": Recorder._wgmma,
    "tcgen05.commit": Recorder._tell_with_products,
    "tcgen05.mma": Recorder._tcgen05,
    "tcgen05.cp": Recorder._copied_scales,
    "tcgen05.alloc": Recorder._allocate,
    "nanosleep": Recorder._sleep,
}
