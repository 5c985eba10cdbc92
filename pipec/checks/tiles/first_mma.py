"""Whether the first MMA into a newly obtained accumulator overwrites it: the value of `accumulate` at that point.

One pass in block order per accumulator, without back edges, covers every first iteration. If an iteration may end with the accumulator
untouched, the next one is the first for it, so that loop may be in any iteration.
"""

from collections.abc import Iterator

from pipec.checks.summary import RoleSummary
from pipec.kir import ir
from pipec.record import record
from pipec.sema import tree
from pipec.sema.language.operation import ROLE

_Key = tuple[tree.Handle, tree.Buffer]


@record
class FirstMma:
    """An MMA that may be the first, and whether it then accumulates: None if unknown."""

    mma: tree.Mma
    handle: tree.Handle
    adds: bool | None


def first_mmas(role: RoleSummary) -> Iterator[FirstMma]:
    """The MMAs with an explicit `accumulate` that may be the first after the acquire."""
    keys: dict[_Key, None] = {}
    for block in role.role.blocks:
        for operation in block.operations:
            if isinstance(operation, tree.Mma) and operation.accumulate is not None:
                keys[operation.accumulator.handle, operation.accumulator.buffer] = None
    for key in keys:
        # Two passes: the first finds the loops that may end an iteration without an MMA, which the second assumes to be in any iteration.
        fresh = _Walk(role, key, frozenset()).run()
        repeated = frozenset(index for index, loop in enumerate(role.role.loops) if _latch(role, loop) in fresh)
        walk = _Walk(role, key, repeated)
        walk.run()
        yield from walk.found


def _latch(role: RoleSummary, loop: ir.Loop) -> int:
    """The latch: the block that ends an iteration."""
    return max(block for block in role.predecessors[loop.header] if block >= loop.header)


class _Walk:
    def __init__(self, role: RoleSummary, key: _Key, repeated: frozenset[int]) -> None:
        self._role = role
        self._key = key
        self._repeated = repeated  # loops of which a later iteration may be the first to write
        # With one stage the returned accumulator is the one that was handed over: only the role's first MMA meets an empty one.
        self._returns = key[0].pipeline.kind == ROLE and key[0].pipeline.stages == 1
        self._fresh: list[bool] = []
        self.found: list[FirstMma] = []

    def run(self) -> set[int]:
        """Numbers of the blocks at whose end the accumulator may still be untouched."""
        for number, block in enumerate(self._role.role.blocks):
            # Forward edges only: a later iteration brings an accumulator that was written, or a loop that is in `repeated`.
            before = [other for other in self._role.predecessors[number] if other < number]
            fresh = any(self._fresh[other] for other in before) if before else self._returns
            for operation in block.operations:
                match operation:
                    case tree.Acquire(handle) if handle is self._key[0] and not self._returns:
                        fresh = True
                    case tree.Mma(accumulator) if self._is_meant(accumulator):
                        if fresh and operation.accumulate is not None:
                            self.found.append(FirstMma(operation, self._key[0], self._adds(number, operation.accumulate)))
                        fresh = False
                    case _:
                        pass
            self._fresh.append(fresh)
        return {number for number, fresh in enumerate(self._fresh) if fresh}

    def _adds(self, block: int, accumulate: tree.Expression) -> bool | None:
        """The condition in the first iteration of the loops entered with an untouched accumulator; None if it varies."""
        first = [
            loop.statement
            for index, loop in enumerate(self._role.role.loops)
            if block in loop.blocks and index not in self._repeated and not self._acquires_in(loop)
        ]
        values = self._role.role.values
        adds = values.in_first_iteration(first)(values.of(accumulate)).number
        return None if adds is None else bool(adds)

    def _is_meant(self, accumulator: tree.BufferRef) -> bool:
        handle, buffer = self._key
        same = accumulator.handle is handle or (self._returns and accumulator.handle.pipeline is handle.pipeline)
        return same and accumulator.buffer is buffer

    def _acquires_in(self, loop: ir.Loop) -> bool:
        return not self._returns and any(site.block in loop.blocks for site in self._role.handles[self._key[0]].acquires)
