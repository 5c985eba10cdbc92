"""Runs clusters of a launch in the simulator, and records what each warp did that takes time.

Branches, the targets of branches, and all that touches memory, barriers or engines is watched; between two of them a warp executes
straight-line code, which `regions.py` reads from the text. Values are those of the launch: trip counts, addresses, descriptors and tensor
maps need no analysis.
"""

from collections.abc import Callable, Mapping
from collections.abc import Set as AbstractSet

from pipec.predict.executed.happenings import Passes, Recording, Stream, averaged
from pipec.predict.executed.log import Log
from pipec.predict.executed.regions import awaited_loads, read_by, written_by
from pipec.predict.executed.watched_barriers import (
    watch_arrive,
    watch_meet,
    watch_meet_cluster,
    watch_sleep,
    watch_tell_with_fetches,
    watch_tell_with_products,
    watch_wait,
)
from pipec.predict.executed.watched_memory import passes, watch_bulk, watch_fetch, watch_global, watch_group
from pipec.predict.executed.watched_products import watch_allocate, watch_copied_scales, watch_tcgen05, watch_wgmma
from pipec.sim.machine.machine import Machine
from pipec.sim.machine.program import Execute, Program
from pipec.sim.machine.threads.cta import Warp
from pipec.sim.machine.threads.divergence import Outcome, Wait
from pipec.sim.ptx.tree import Instruction

_SEEN = 64  # executions of an access after which the average of its passes is known


class Recorder:
    """Watches one program; `take` returns what has been recorded of the cluster that ran."""

    def __init__(self) -> None:
        self._log = Log()
        self.silent: set[int] = set()  # program counters of what is watched without being recorded

    def prepare(self, machine: Machine, program: Program) -> None:
        """For the simulator, before the run."""
        self._log.machine = machine
        items = program.image.function.instructions
        targets = {
            target
            for index, item in enumerate(items)
            if item.root in ("bra", "brx")
            for target in program.image.successors[index]
        }
        uses = awaited_loads(items, targets)
        read = {register for item in items for register in read_by(item)}
        for pc, step in enumerate(program.code):
            item = step.item
            if item is None:
                continue
            watch = self._watch_of(item, pc, read)
            if watch is not None:
                step.execute, step.watched = watch(step.execute), True
            elif pc in targets or item.root in ("bra", "brx", "exit", "ret"):
                step.execute, step.watched = self._stepping(step.execute, pc), True
            count = passes(item)
            if count is not None:
                if not step.watched and pc not in uses:
                    self.silent.add(pc)
                step.execute, step.watched = self._counting(step.execute, pc, count), True
            if pc in uses:
                step.execute, step.watched = self._using(step.execute, pc, uses[pc]), True

    def take(self) -> Recording:
        assert self._log.machine is not None
        streams = tuple(Stream(rank, index, found) for (rank, index), found in sorted(self._log.streams.items()))
        touched = self._log.traffic.totals(self._log.machine.memory)
        return Recording(streams, dict(self._log.expected), touched, self._log.columns, self._passes())

    def _passes(self) -> dict[int, Passes]:
        return {pc: averaged(each) for pc, each in self._log.passes.items() if each}

    def _stepping(self, execute: Execute, pc: int) -> Execute:
        def stepping(warp: Warp) -> Outcome:
            outcome = execute(warp)
            if not (isinstance(outcome, Wait) and outcome.retry):
                self._log.add(warp, pc, "step")
            return outcome

        return stepping

    def _counting(self, execute: Execute, pc: int, count: Callable[[Warp], Passes]) -> Execute:
        seen = self._log.passes[pc]

        def counting(warp: Warp) -> Outcome:
            if len(seen) < _SEEN:
                seen.append(count(warp))
            return execute(warp)

        return counting

    def _using(self, execute: Execute, pc: int, loads: tuple[int, ...]) -> Execute:
        def using(warp: Warp) -> Outcome:
            self._log.add(warp, pc - 1, "use", pcs=loads)
            return execute(warp)

        return using

    def _watch_of(self, item: Instruction, pc: int, read: AbstractSet[int]) -> Callable[[Execute], Execute] | None:
        if item.root == "atom" and read.isdisjoint(written_by(item)):
            return watch_global(self._log, item, pc, used=False)
        for start, make in _WATCHES.items():
            if item.opcode == start or item.opcode.startswith(start + "."):
                return make(self._log, item, pc)
        return None


# By the start of the opcode, the longest first.
_WATCHES: Mapping[str, Callable[[Log, Instruction, int], Callable[[Execute], Execute] | None]] = {
    "cp.async.bulk.commit_group": watch_group,
    "cp.async.bulk.wait_group": watch_group,
    "cp.async.commit_group": watch_group,
    "cp.async.wait_group": watch_group,
    "cp.async.wait_all": watch_group,
    "cp.async.mbarrier.arrive": watch_tell_with_fetches,
    "cp.async.bulk": watch_bulk,
    "cp.reduce.async.bulk": watch_bulk,
    "cp.async": watch_fetch,
    "ld": watch_global,
    "st": watch_global,
    "atom": watch_global,
    "red": watch_global,
    "mbarrier.arrive": watch_arrive,
    "mbarrier.arrive_drop": watch_arrive,
    "mbarrier.expect_tx": watch_arrive,
    "mbarrier.try_wait": watch_wait,
    "mbarrier.test_wait": watch_wait,
    "barrier.cluster": watch_meet_cluster,
    "bar.warp": lambda log, item, pc: None,
    "bar": watch_meet,
    "barrier": watch_meet,
    "wgmma.commit_group": watch_group,
    "wgmma.wait_group": watch_group,
    "wgmma.mma_async": watch_wgmma,
    "tcgen05.commit": watch_tell_with_products,
    "tcgen05.mma": watch_tcgen05,
    "tcgen05.cp": watch_copied_scales,
    "tcgen05.alloc": watch_allocate,
    "nanosleep": watch_sleep,
}
