"""Records accesses of threads to global memory, copies, and groups of them."""

from collections.abc import Callable, Mapping
from math import inf
from typing import Any

import numpy as np

from pipec.predict.executed.happenings import Kind, Passes, Signal
from pipec.predict.executed.log import Log, plain
from pipec.predict.executed.operands import values
from pipec.predict.ptx.accesses import access_bytes
from pipec.predict.workload import ROW_BYTES, SECTOR_BYTES
from pipec.sim.machine.program import Execute
from pipec.sim.machine.threads.cta import Warp
from pipec.sim.machine.threads.divergence import Outcome, Wait
from pipec.sim.ptx.tree import Address, Immediate, Instruction, Register

_NOT_KEPT = inf  # bytes: past the cache of the multiprocessor
_WORD, _BANKS, _WIDEST = 4, 32, 16
_MATRIX_ROW, _MATRIX_ROWS = 16, 8


def watch_global(log: Log, item: Instruction, pc: int, used: bool = True) -> Callable[[Execute], Execute] | None:
    parts = item.opcode.split(".")
    if any(part.startswith(("shared", "param", "local", "const")) for part in parts[1:]):
        return None
    store = item.root in ("st", "red")
    atomic = item.root in ("atom", "red")
    kind: Kind = "exchange" if item.root == "atom" and used else "store" if store or atomic else "load"
    where = item.operands[0 if item.root in ("st", "red") else 1]
    width = access_bytes(item.opcode)

    def tell(warp: Warp) -> None:
        addresses = values(warp, where)
        assert log.machine is not None
        memory = log.machine.memory
        addresses = memory.placed(addresses)
        first, last = addresses // SECTOR_BYTES, (addresses + width - 1) // SECTOR_BYTES
        spread = int((last - first).max()) + 1
        sectors = np.unique((first[:, None] + np.arange(spread))[(first[:, None] + np.arange(spread)) <= last[:, None]])
        if not log.traffic.add_sectors(memory, sectors, int(addresses[0]), written=store or atomic):
            log.add(warp, pc, "step")  # shared memory by a generic address
            return
        more: dict[str, float] = {}
        if kind == "load":
            more["again"], more["since"] = log.loads(warp.cta.rank, sectors.tolist())
        elif kind == "store":
            written = addresses.size * width // SECTOR_BYTES
            more["atoms" if atomic else "partial"] = float(sectors.size if atomic else max(0, sectors.size - written))
        log.add(
            warp,
            pc,
            kind,
            size=float(sectors.size * SECTOR_BYTES),
            rows=float(np.unique(sectors * SECTOR_BYTES // ROW_BYTES).size),
            **more,
        )

    return plain(tell)


def watch_fetch(log: Log, item: Instruction, pc: int) -> Callable[[Execute], Execute] | None:
    if ".shared" not in item.opcode or ".global" not in item.opcode:
        return None
    source, size = item.operands[1], item.operands[2]
    given = item.operands[3] if len(item.operands) > 3 else None
    cached = ".ca" in item.opcode

    def tell(warp: Warp) -> None:
        assert log.machine is not None
        addresses, width = log.machine.memory.placed(values(warp, source)), int(values(warp, size)[0])
        real = values(warp, given) if isinstance(given, (Register, Immediate)) else np.full(addresses.size, width)
        addresses = addresses[real > 0]
        if not addresses.size:
            log.add(warp, pc, "step")
            return
        sectors = np.unique(np.concatenate([addresses // SECTOR_BYTES, (addresses + width - 1) // SECTOR_BYTES]))
        log.traffic.add_sectors(log.machine.memory, sectors, int(addresses[0]), written=False)
        again, since = log.loads(warp.cta.rank, sectors.tolist())
        log.add(
            warp,
            pc,
            "fetch",
            again=again,
            since=since if cached else _NOT_KEPT,
            size=float(sectors.size * SECTOR_BYTES),
            rows=float(np.unique(sectors * SECTOR_BYTES // ROW_BYTES).size),
        )

    return plain(tell)


def passes(item: Instruction) -> Callable[[Warp], Passes] | None:
    """How often an access of a warp to shared memory goes through its banks: those of one bank follow each other unless they are the same
    word; a matrix of ldmatrix has a pass of its own."""
    matrices = item.root in ("ldmatrix", "stmatrix")
    if not matrices and (item.root not in ("ld", "st", "atom", "red") or ".shared" not in item.opcode):
        return None
    where = item.operands[0 if item.root in ("st", "red", "stmatrix") else 1]
    width = _MATRIX_ROW if matrices else access_bytes(item.opcode)
    words = np.arange(max(1, width // _WORD))

    offset = where.offset if isinstance(where, Address) and isinstance(where.base, Register) else 0

    def count(warp: Warp) -> Passes:
        addresses = values(warp, where)
        first = addresses // _WORD
        groups = [first[at : at + _MATRIX_ROWS] for at in range(0, first.size, _MATRIX_ROWS)] if matrices else [first]
        most = sum(int(np.bincount(np.unique(one[:, None] + words) % _BANKS).max(initial=0)) for one in groups)
        return Passes(most, not np.any((addresses - offset) % _WIDEST))

    return count


def watch_group(log: Log, item: Instruction, pc: int) -> Callable[[Execute], Execute]:
    family = "bulk" if item.opcode.startswith("cp.async.bulk") else "wgmma" if item.root == "wgmma" else "fetch"
    if ".commit_group" in item.opcode:
        return plain(lambda warp: log.add(warp, pc, "commit", group=family))
    pending = item.operands[0].value if item.operands and isinstance(item.operands[0], Immediate) else 0
    everything = ".wait_all" in item.opcode
    group = family + (".read" if ".read" in item.opcode else "")

    def tell(warp: Warp) -> None:
        if everything:
            log.add(warp, pc, "commit", group=family)
        log.add(warp, pc, "await", group=group, pending=pending)

    return plain(tell, after=True)


def watch_bulk(log: Log, item: Instruction, pc: int) -> Callable[[Execute], Execute] | None:
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
                    _told_of_copy(log, warp, pc, details, phases)
                elif event.kind == "store_issued":
                    _told_of_put(log, warp, pc, details)
            del machine.trace[:]
            return outcome

        return watched

    return make


def _told_of_copy(log: Log, warp: Warp, pc: int, details: Mapping[str, Any], phases: Mapping[tuple[int, int], int]) -> None:
    size, row = float(details["bytes"]), float(details.get("row_bytes", 0) or details["bytes"])
    holder = details.get("holder", details.get("destination", warp.cta.rank))
    barrier = warp.cta.cluster.ctas[holder].mbarriers[details["barrier"]]
    signal: Signal = "phase", barrier.actor, phases[holder, details["barrier"]]
    _moved(log, details, size, written=False)
    log.add(warp, pc, "copy", size=size, rows=size / min(row, float(ROW_BYTES)), signals=log.expect([signal]))


def _told_of_put(log: Log, warp: Warp, pc: int, details: Mapping[str, Any]) -> None:
    size = float(details["bytes"])
    _moved(log, details, size, written=True)
    log.add(warp, pc, "put", size=size, rows=size / min(float(details.get("row_bytes", 0) or size), float(ROW_BYTES)))


def _moved(log: Log, details: Mapping[str, Any], size: float, *, written: bool) -> None:
    assert log.machine is not None
    tensor = details.get("tensor")
    if tensor is not None:
        log.traffic.add_box(log.machine.memory, int(tensor), tuple(details["coordinates"]), size, written=written)
