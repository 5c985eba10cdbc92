"""Records products of tensor cores."""

from collections.abc import Callable
from typing import Any

from pipec.predict.executed.happenings import Signal
from pipec.predict.executed.log import Log, Unrecorded, plain
from pipec.predict.executed.operands import values
from pipec.predict.ptx.products import Unknown, copied_scales, tcgen05_product, wgmma_product
from pipec.sim.machine.program import Execute
from pipec.sim.machine.threads.cta import Warp
from pipec.sim.ptx.tree import Address, Instruction, Vector

_WARPS = 4  # of a warpgroup


def watch_wgmma(log: Log, item: Instruction, pc: int) -> Callable[[Execute], Execute]:
    vectors = sum(isinstance(one, Vector) for one in item.operands)
    product = _known(item, lambda: wgmma_product(item.opcode, vectors > 1))

    def tell(warp: Warp) -> None:
        number = log.products[warp.cta.rank, warp.index]
        log.products[warp.cta.rank, warp.index] = number + 1
        signal: Signal = "wgmma", warp.cta.rank, warp.index // _WARPS, number
        log.add(warp, pc, "multiply", product=product, signals=log.expect([signal]))

    return plain(tell, after=True)


def watch_tcgen05(log: Log, item: Instruction, pc: int) -> Callable[[Execute], Execute]:
    near = isinstance(item.operands[1], Address)

    def tell(warp: Warp) -> None:
        descriptor = int(values(warp, item.operands[3])[0]) & 0xFFFFFFFF
        product = _known(item, lambda: tcgen05_product(item.opcode, descriptor, near))
        log.add(warp, pc, "multiply", product=product)

    return plain(tell)


def watch_copied_scales(log: Log, item: Instruction, pc: int) -> Callable[[Execute], Execute]:
    product = _known(item, lambda: copied_scales(item.opcode))
    return plain(lambda warp: log.add(warp, pc, "multiply", product=product))


def _known(item: Instruction, find: Callable[[], Any]) -> Any:
    try:
        return find()
    except Unknown as unknown:
        raise Unrecorded(item.line, unknown.what) from None


def watch_allocate(log: Log, item: Instruction, pc: int) -> Callable[[Execute], Execute]:
    def tell(warp: Warp) -> None:
        if warp.cta.rank == 0:
            log.columns += int(values(warp, item.operands[1])[0])
        log.add(warp, pc, "step")

    return plain(tell)
