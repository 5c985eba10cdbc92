"""Records arrivals at barriers and waits for them: mbarriers, barriers of threads and of a cluster."""

from collections.abc import Callable

from pipec.predict.executed.happenings import Signal
from pipec.predict.executed.log import Log, plain
from pipec.predict.executed.operands import barriers_at, phase_of, values
from pipec.sim.machine.program import Execute
from pipec.sim.machine.threads.cta import Warp
from pipec.sim.ptx.tree import Address, Instruction, Register


def watch_arrive(log: Log, item: Instruction, pc: int) -> Callable[[Execute], Execute]:
    where = next(one for one in item.operands if isinstance(one, Address))
    local = ".shared::cluster" not in item.opcode

    def tell(warp: Warp) -> None:
        barriers = barriers_at(warp, where, local)
        signals = [phase for place in barriers if (phase := phase_of(warp, *place)) is not None]
        log.add(warp, pc, "arrive", signals=log.expect(signals), size=float(".expect_tx" in item.opcode))

    return plain(tell)


def watch_wait(log: Log, item: Instruction, pc: int) -> Callable[[Execute], Execute]:
    where, answer = item.operands[1], item.operands[0]

    def tell(warp: Warp) -> None:
        if isinstance(answer, Register) and not warp.registers[answer.index][warp.active].any():
            return
        signals = []
        for rank, offset in barriers_at(warp, where, True):
            barrier = warp.cta.cluster.ctas[rank].mbarriers[offset]
            signals.append(("phase", barrier.actor, barrier.state.phase - 1))
        log.add(warp, pc, "wait", signals=tuple(signals))

    return plain(tell, after=True)


def watch_tell_with_fetches(log: Log, item: Instruction, pc: int) -> Callable[[Execute], Execute]:
    where = next(one for one in item.operands if isinstance(one, Address))

    def tell(warp: Warp) -> None:
        signals = [phase for place in barriers_at(warp, where, True) if (phase := phase_of(warp, *place)) is not None]
        log.add(warp, pc, "arrive_fetches", signals=log.expect(signals))

    return plain(tell)


def watch_tell_with_products(log: Log, item: Instruction, pc: int) -> Callable[[Execute], Execute]:
    where = next((one for one in item.operands if isinstance(one, (Address, Register))), None)
    multicast = "multicast" in item.opcode

    def tell(warp: Warp) -> None:
        assert where is not None
        barriers = barriers_at(warp, where, True)
        ranks = [warp.cta.rank]
        if multicast:
            mask = int(values(warp, item.operands[-1])[0])
            ranks = [rank for rank in range(len(warp.cta.cluster.ctas)) if mask >> rank & 1]
        elif "shared::cluster" in item.opcode:
            barriers = barriers_at(warp, where, False)
            ranks = []
        places = [*barriers] if not ranks else [(rank, offset) for rank in ranks for _, offset in barriers]
        signals = [phase for place in places if (phase := phase_of(warp, *place)) is not None]
        log.add(warp, pc, "arrive_products", signals=log.expect(signals))

    return plain(tell)


def watch_meet(log: Log, item: Instruction, pc: int) -> Callable[[Execute], Execute]:
    after = item.operands[1:] if ".red" in item.opcode else item.operands
    number, threads = after[0], after[1] if len(after) > (2 if ".red" in item.opcode else 1) else None
    arrives = ".arrive" in item.opcode

    def tell(warp: Warp) -> None:
        cta = warp.cta
        place = cta.rank, int(values(warp, number)[0])
        count = int(values(warp, threads)[0]) if threads is not None else 32 * len(cta.warps)
        turn = log.met[place] // count
        log.met[place] += 32
        signal: Signal = "meet", *place, turn, count
        log.add(warp, pc, "meet", signals=log.expect([signal]), pending=int(arrives))

    return plain(tell)


def watch_meet_cluster(log: Log, item: Instruction, pc: int) -> Callable[[Execute], Execute]:
    def tell(warp: Warp) -> None:
        phase = warp.cta.cluster.barrier_phase
        if ".arrive" in item.opcode:
            log.add(warp, pc, "arrive", signals=log.expect([("cluster", phase)]))
        else:
            log.add(warp, pc, "wait", signals=(("cluster", phase - 1),))

    return plain(tell, after=".wait" in item.opcode)


def watch_sleep(log: Log, item: Instruction, pc: int) -> Callable[[Execute], Execute]:
    return plain(lambda warp: log.add(warp, pc, "sleep", size=float(values(warp, item.operands[0])[0])))
