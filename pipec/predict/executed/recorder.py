"""Runs clusters of a launch in the simulator, and records what each warp did that takes time.

Branches, the targets of branches, and all that touches memory, barriers or engines is watched; between two of them a warp executes
straight-line code, which `regions.py` reads from the text. Values are those of the launch: trip counts, addresses, descriptors and tensor
maps need no analysis.
"""

from collections.abc import Callable, Mapping

from pipec.predict.executed.happenings import Recording, Stream
from pipec.predict.executed.log import Log
from pipec.predict.executed.regions import awaited_loads
from pipec.predict.executed.watched_barriers import (
    watch_arrive,
    watch_meet,
    watch_meet_cluster,
    watch_sleep,
    watch_tell_with_fetches,
    watch_tell_with_products,
    watch_wait,
)
from pipec.predict.executed.watched_memory import watch_bulk, watch_fetch, watch_global, watch_group
from pipec.predict.executed.watched_products import watch_allocate, watch_copied_scales, watch_tcgen05, watch_wgmma
from pipec.sim.machine.machine import Machine
from pipec.sim.machine.program import Execute, Program
from pipec.sim.machine.threads.cta import Warp
from pipec.sim.machine.threads.divergence import Outcome, Wait
from pipec.sim.ptx.tree import Instruction


class Recorder:
    """Watches one program; `take` returns what has been recorded of the cluster that ran."""

    def __init__(self) -> None:
        self._log = Log()

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
        assert self._log.machine is not None
        streams = tuple(Stream(rank, index, found) for (rank, index), found in sorted(self._log.streams.items()))
        return Recording(streams, dict(self._log.expected), self._log.traffic.totals(self._log.machine.memory), self._log.columns)

    def _stepping(self, execute: Execute, pc: int) -> Execute:
        def stepping(warp: Warp) -> Outcome:
            outcome = execute(warp)
            if not (isinstance(outcome, Wait) and outcome.retry):
                self._log.add(warp, pc, "step")
            return outcome

        return stepping

    def _using(self, execute: Execute, pc: int, loads: tuple[int, ...]) -> Execute:
        def using(warp: Warp) -> Outcome:
            self._log.add(warp, pc - 1, "use", pcs=loads)
            return execute(warp)

        return using

    def _watch_of(self, item: Instruction, pc: int) -> Callable[[Execute], Execute] | None:
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
