"""Straight-line code between two places where a warp can wait: how long it keeps which units busy, and how long it takes at least."""

import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise

from pipec.predict.device import Device
from pipec.predict.executed.costs import cost_of
from pipec.predict.executed.happenings import Passes
from pipec.record import record
from pipec.sim.ptx.tree import Address, Instruction, Negated, Operand, Pair, Register, Vector

_ENDING = frozenset(("bra", "brx", "ret", "exit"))
_ORDERED = frozenset(("st", "red", "atom", "bar", "barrier", "membar", "fence", "mbarrier"))  # no load moves up over these
_WORD = re.compile(r"^ld\.shared(::cta)?\.[busf]32$")
# Nothing is written by these: all of their operands are read.
_WRITES_NOTHING = frozenset(("st", "red", "bra", "bar", "barrier", "stmatrix", "prefetch", "nanosleep"))


@record
class Region:
    """`issued` instructions on one scheduler, `units` cycles of its busiest unit, `shared` cycles of the path to shared memory;
    `chain`: the longest chain of results that need each other. `places`: by program counter, what part is over then."""

    issued: float
    units: float
    shared: float
    chain: float
    places: Mapping[int, float]

    @property
    def busy(self) -> float:
        """Cycles of the scheduler."""
        return max(self.issued, self.units)


def region(items: Sequence[Instruction], pcs: Sequence[int], passes: Mapping[int, Passes], device: Device) -> Region:
    issued, shared, chain = 0.0, 0.0, 0.0
    units: dict[str, float] = {}
    ready: dict[int, float] = {}
    merged = _merged(items, pcs, passes)
    over: dict[int, float] = {}
    for pc in pcs:
        if not 0 <= pc < len(items):
            continue
        item = items[pc]
        cost = cost_of(item.opcode, device)
        over[pc] = issued
        if cost is None:
            continue
        start = max((ready.get(register, 0.0) for register in read_by(item)), default=0.0)
        end = start + cost.latency
        for register in written_by(item):
            ready[register] = end
        chain, issued = max(chain, end), issued + cost.issued / merged.get(pc, 1)
        if cost.unit == "shared":
            shared += (passes[pc].number if pc in passes else cost.cycles) / merged.get(pc, 1)
        else:
            units[cost.unit] = units.get(cost.unit, 0.0) + cost.cycles
    places = {pc: before / issued if issued else 0.0 for pc, before in over.items()}
    return Region(issued, max(units.values(), default=0.0), shared, chain, places)


def _merged(items: Sequence[Instruction], pcs: Sequence[int], passes: Mapping[int, Passes]) -> dict[int, int]:
    """By program counter, how many loads of words from shared memory the assembler makes one of: neighbours that it knows to be aligned,
    with nothing between them that writes there. As one, they go through the banks as often as each of them did."""
    found: dict[int, int] = {}
    near: dict[tuple[int, int], dict[int, int]] = {}
    for pc in [*pcs, -1]:
        item = items[pc] if 0 <= pc < len(items) else None
        if item is None or (item.root in _ORDERED and not _elsewhere(item)):
            for words in near.values():
                for some in ((0, 4, 8, 12), (0, 4), (8, 12)):
                    if all(word in words for word in some) and words[some[0]] not in found:
                        found |= dict.fromkeys((words[word] for word in some), len(some))
            near.clear()
            continue
        where = item.operands[1] if len(item.operands) > 1 else None
        aligned = pc in passes and passes[pc].aligned and _WORD.search(item.opcode)
        if aligned and isinstance(where, Address) and isinstance(where.base, Register):
            near.setdefault((where.base.index, where.offset // 16), {})[where.offset % 16] = pc
    return found


def read_by(item: Instruction) -> Iterator[int]:
    if item.guard is not None:
        yield item.guard.register.index
    operands = item.operands if item.root in _WRITES_NOTHING else item.operands[1:]
    for operand in operands:
        yield from _registers(operand)
    if item.operands and isinstance(item.operands[0], Address):
        yield from _registers(item.operands[0])


def written_by(item: Instruction) -> Iterator[int]:
    if item.operands and item.root not in _WRITES_NOTHING and not isinstance(item.operands[0], Address):
        yield from _registers(item.operands[0])


def _registers(operand: Operand) -> Iterator[int]:
    match operand:
        case Register(index=index):
            yield index
        case Address(base=base, coordinates=coordinates):
            if isinstance(base, Register):
                yield base.index
            for one in coordinates:
                yield from _registers(one)
        case Vector(items=items):
            for one in items:
                yield from _registers(one)
        case Pair(first=first, second=second):
            yield from _registers(first)
            yield from _registers(second)
        case Negated(operand=inner):
            yield from _registers(inner)
        case _:
            pass


def _elsewhere(item: Instruction) -> bool:
    """It writes to global memory."""
    return item.root in ("st", "red") and ".global" in item.opcode


def from_global(item: Instruction) -> bool:
    return item.root in ("ld", "ldu", "atom") and not any(
        part.startswith(("shared", "param", "local", "const")) for part in item.opcode.split(".")[1:]
    )


def awaited_loads(items: Sequence[Instruction], targets: set[int]) -> dict[int, tuple[int, ...]]:
    """By program counter, the loads from global memory whose results are needed there. The assembler moves loads up as far as nothing
    orders them, so that the first use of one comes after the later loads of its block that do not depend on it."""
    found: dict[int, list[int]] = {}
    starts = sorted({0, len(items), *targets, *(pc + 1 for pc, item in enumerate(items) if item.root in _ENDING)})
    readers: dict[int, list[int]] = {}
    for pc, item in enumerate(items):
        for register in read_by(item):
            readers.setdefault(register, []).append(pc)
    for start, end in pairwise(starts):
        for pc in range(start, end):
            if not from_global(items[pc]):
                continue
            wanted = set(written_by(items[pc]))
            here = _needed(items, pc, end, wanted)
            if here is not None:
                found.setdefault(here, []).append(pc)
            # In other blocks, and in this one before it (in the next trip of a loop), at the first reader of each.
            for other, stop in pairwise(starts):
                first = min((at for register in wanted for at in readers.get(register, ()) if other <= at < stop), default=None)
                if first is not None and not start < first < end and first != pc:
                    found.setdefault(first, []).append(pc)
    return {pc: tuple(loads) for pc, loads in found.items()}


def _needed(items: Sequence[Instruction], load: int, end: int, wanted: set[int]) -> int | None:
    """Where in the rest of its block the load has to be complete."""
    tainted, use = set(wanted), None
    for pc in range(load + 1, end):
        item = items[pc]
        reads = tainted.intersection(read_by(item))
        if use is not None and item.root in _ORDERED and not (item.root == "st" and ".shared" in item.opcode):
            return use
        if from_global(item) and use is not None:
            if reads:
                return use
            use = pc + 1  # it goes first
        if reads:
            use = pc if use is None else use
            tainted.update(written_by(item))
    return use
