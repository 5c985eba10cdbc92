"""Where the threads of a role synchronise so that its accesses to global memory take effect in program order.

A forward pass over the role's graph propagates the accesses that have not been ordered yet, with the loops whose ends they have crossed.
Before an access that may conflict with one of them the role is ordered: it waits for bulk stores, executes a proxy fence, and
synchronises. For a block that fewer threads run, the role is ordered before the branch to it.
"""

from collections.abc import Collection, Iterator
from functools import cached_property

from pipec.kir import ir
from pipec.kir.global_memory.accesses import (
    BULK,
    THREADS,
    Access,
    RoleAccesses,
    may_meet,
    not_compared,
    own_elements,
)
from pipec.kir.global_memory.nearby import nearby
from pipec.kir.walk import subexpressions
from pipec.record import record
from pipec.sema import tree

# The index of an access and the outermost enclosing loop whose end has been crossed since: the loops inside it start anew.
_One = tuple[int, int | None]
_Pending = frozenset[_One]


@record
class Clash:
    """Two accesses of a role that no synchronisation can order: those of one statement, or a copy that may be `under_way` and a later
    access."""

    under_way: bool
    first: Access
    second: Access


@record
class Ordering:
    """`before`: operations before which the role is ordered; `at_end`: blocks at whose end, before the branch. `taken`: the tensors of
    which the role is assumed, without proof, to store different elements each time, in tiles distributed over blocks."""

    before: frozenset[tree.Operation]
    at_end: frozenset[int]
    waits: bool  # for the role's bulk stores
    fences: bool  # between the proxies
    clashes: tuple[Clash, ...]
    taken: frozenset[str] = frozenset()


NOTHING = Ordering(frozenset(), frozenset(), False, False, ())


def order(row: RoleAccesses, again: Collection[tuple[Access, Access]] = ()) -> Ordering:
    """`again`: pairs of stores that are known to overlap although their terms do not show it."""
    return _Walk(row, again).ordering() if any(access.writes for access in row.accesses) else NOTHING


class _Walk:
    def __init__(self, row: RoleAccesses, again: Collection[tuple[Access, Access]]) -> None:
        self._role, self._accesses, self._again = row.role, row.accesses, again
        self._at: dict[tuple[int, int], list[int]] = {}
        for number, access in enumerate(row.accesses):
            self._at.setdefault((access.block, access.site), []).append(number)
        self._in_block: dict[int, list[int]] = {}
        for (block, _), numbers in self._at.items():
            self._in_block.setdefault(block, []).extend(numbers)
        around: list[list[int]] = [[] for _ in row.role.blocks]
        for index, loop in enumerate(row.role.loops):
            for number in loop.blocks:
                around[number].append(index)
        self._around = [tuple(loops) for loops in around]
        self._in_loop = [[one for block in loop.blocks for one in self._in_block.get(block, ())] for loop in row.role.loops]
        self._nearby = nearby(row.accesses, again)
        self._copies: dict[tree.Pipeline, list[int]] = {}
        for number, access in enumerate(row.accesses):
            if access.handle is not None:
                self._copies.setdefault(access.handle.pipeline, []).append(number)
        # By block, the loops whose ends a pending access has crossed.
        self._crossed: list[set[int | None]] = [{None} for _ in row.role.blocks]
        self._before: set[tree.Operation] = set()
        self._at_end: set[int] = set()
        self._clashes: dict[tuple[int, int], Clash] = {}
        self._taken: set[str] = set()

    def ordering(self) -> Ordering:
        for numbers in self._at.values():
            self._statement(numbers)
        entries: list[_Pending] = [frozenset() for _ in self._role.blocks]
        walked: list[_Pending | None] = [None for _ in entries]
        changed = True
        while changed:
            changed = False
            for number in range(len(self._role.blocks)):
                if walked[number] is entries[number]:
                    continue
                walked[number] = entries[number]
                after = self._block(number, entries[number])
                for target in ir.successors(self._role.blocks[number].terminator):
                    joined = entries[target] | self._crossing(number, target, after)
                    if joined != entries[target]:
                        entries[target], changed = joined, True
        ordered = bool(self._before or self._at_end)
        return Ordering(
            frozenset(self._before),
            frozenset(self._at_end),
            waits=ordered and any(access.writes and access.engine == BULK for access in self._accesses),
            fences=ordered and any(access.engine != THREADS for access in self._accesses),
            clashes=tuple(self._clashes.values()),
            taken=frozenset(self._taken),
        )

    def _crossing(self, number: int, target: int, pending: _Pending) -> _Pending:
        """Along an edge, the end of a loop is crossed, or loops that are left become irrelevant."""
        around, loops = self._around, self._role.loops
        ended = {loop for loop in around[target] if target <= number and loops[loop].header == target}
        crossed = ended.union(around[number]).difference(set(around[target]) - ended)
        inside = {access for loop in crossed for access in self._in_loop[loop]}
        before = [one for access in inside for loop in self._crossed[number] if (one := (access, loop)) in pending]
        after = [(access, self._outermost(access, loop, ended, around[target])) for access, loop in before]
        self._crossed[target].update(self._crossed[number].intersection({None, *around[target]}), (loop for _, loop in after))
        return pending.difference(before).union(after) if before else pending

    def _outermost(self, access: int, crossed: int | None, ended: set[int], inside: tuple[int, ...]) -> int | None:
        own = self._around[self._accesses[access].block]
        return min((loop for loop in inside if loop in own and (loop == crossed or loop in ended)), default=None)

    def _statement(self, numbers: list[int]) -> None:
        for first in numbers:
            for second in numbers:
                read, write = self._accesses[first], self._accesses[second]
                if read.writes or not write.writes or not may_meet(read, write) or own_elements(read, write):
                    continue
                self._clashes[first, second] = Clash(False, read, write)

    def _block(self, number: int, pending: _Pending) -> _Pending:
        block = self._role.blocks[number]
        for site, operation in enumerate(block.operations):
            pending = self._completed(number, operation, pending)
            pending = self._step(number, self._at.get((number, site), []), pending, operation)
        own = self._at.get((number, len(block.operations)), [])
        guarded = [access for inner in self._guarded(number) for access in self._of_block(inner)]
        return self._step(number, own, pending, None, guarded)

    def _step(
        self,
        number: int,
        accesses: list[int],
        pending: _Pending,
        operation: tree.Operation | None,
        guarded: list[int] | None = None,
    ) -> _Pending:
        """Orders the role before `accesses` (and before those that only some threads execute next) if one of them requires it."""
        clashing = [
            (one, next_)
            for next_ in (*accesses, *(guarded or ()))
            for one in self._candidates(number, pending, next_)
            if self._meet(one, next_)
        ]
        if clashing:
            self._order(number, operation, clashing)
            pending = frozenset(one for one in pending if self._in_flight(one[0])) if self._copies else frozenset()
        return pending | frozenset((access, None) for access in accesses)

    def _candidates(self, number: int, pending: _Pending, next_: int) -> Collection[_One]:
        """The pending accesses, except those known not to conflict with this one."""
        near, crossed = self._nearby[next_], self._crossed[number]
        if near is None or len(near) * len(crossed) > len(pending):
            return pending
        return [one for access in near for loop in crossed if (one := (access, loop)) in pending]

    def _order(self, number: int, operation: tree.Operation | None, clashing: list[tuple[_One, int]]) -> None:
        """In blocks that not all threads run only one thread stores, so accesses there need no synchronisation among themselves."""
        for (first, _), second in clashing:
            if self._in_flight(first):
                self._clashes[first, second] = Clash(True, self._accesses[first], self._accesses[second])
        if operation is None:
            self._at_end.add(number)
        else:
            self._before.add(operation)

    def _in_flight(self, number: int) -> bool:
        """A copy into shared memory completes on a barrier, which synchronising the threads does not wait for."""
        return self._accesses[number].handle is not None

    def _completed(self, number: int, operation: tree.Operation, pending: _Pending) -> _Pending:
        """Waiting for the stage that a copy fills: with one stage, or if the role waits once for each copy, it is the copy's. A released
        stage was full: whoever fills the only stage again, or drains the pipeline, has waited for the earlier copies."""
        if isinstance(operation, tree.Drain):
            pipeline = operation.pipeline
        elif isinstance(operation, tree.Acquire):
            pipeline = operation.handle.pipeline
            each = operation.handle.side == "consumer" and self._waits_for_each(pipeline)
            if pipeline.stages > 1 and not each:
                return pending
        else:
            return pending
        copies, crossed = self._copies.get(pipeline, ()), self._crossed[number]
        complete = [one for access in copies for loop in crossed if (one := (access, loop)) in pending]
        return pending.difference(complete) if complete else pending

    def _waits_for_each(self, pipeline: tree.Pipeline) -> bool:
        """Whether in every turn of a loop the role obtains a stage to fill and then a full one, once each, and skips none: then it never
        runs ahead of a copy."""
        found = self._acquired.get(pipeline, [])
        if sorted(side for side, _, _ in found) != ["consumer", "producer"]:
            return False
        (_, taken, site), (_, filled, before) = sorted(found)
        around = self._around[filled]
        if around != self._around[taken]:
            return False
        every = not around or all(ir.in_every_turn(self._role, self._role.loops[around[-1]], one) for one in (filled, taken))
        return every and (filled, before) < (taken, site)

    @cached_property
    def _acquired(self) -> dict[tree.Pipeline, list[tuple[str, int, int]]]:
        """The sides on which the role acquires stages of a pipeline, and where: block and place in it; not of pipelines whose stages it
        skips."""
        found: dict[tree.Pipeline, list[tuple[str, int, int]]] = {}
        skipped: set[tree.Pipeline] = set()
        for number, block in enumerate(self._role.blocks):
            for site, operation in enumerate(block.operations):
                if isinstance(operation, tree.Acquire):
                    handle = operation.handle
                    found.setdefault(handle.pipeline, []).append((handle.side, number, site))
                elif isinstance(operation, tree.Skip):
                    skipped.add(operation.pipeline)
        return {pipeline: sides for pipeline, sides in found.items() if pipeline not in skipped}

    def _meet(self, one: _One, second: int) -> bool:
        first, crossed = one
        a, b = self._accesses[first], self._accesses[second]
        if (a, b) in self._again:
            return True
        if crossed is None:
            if may_meet(a, b):
                return True
            if not_compared(a, b):
                self._taken.add(a.tensor)
            return False
        common = [index for index in self._around[b.block] if index in self._around[a.block]]
        loops = [self._role.loops[index] for index in common[common.index(crossed) :]]
        steps = {loop.statement: loop.step for loop in loops if loop.variable is not None}
        followed = len(steps) == len(loops)
        if may_meet(a, b, steps, followed=followed) or (first == second and self._repeats(first, loops)):
            return True
        if not_compared(a, b, steps, followed=followed):
            self._taken.add(a.tensor)
        return False

    def _repeats(self, number: int, loops: list[ir.Loop]) -> bool:
        """Whether a store writes the same elements again, wherever they are: nothing that its coordinates read changes in the loops."""
        operation, blocks = self._accesses[number].operation, self._role.blocks
        if not isinstance(operation, tree.Store | tree.TmaStore) or operation.reduce is not None:
            return False
        inside = [blocks[number] for number in frozenset().union(*(loop.blocks for loop in loops))]
        assigned = {one.variable for block in inside for one in block.operations if isinstance(one, tree.Assign)}
        changed = assigned | {loop.variable for loop in loops}
        parts = [part for coordinate in operation.destination.coordinates for part in subexpressions(coordinate)]
        return not any(
            part.variable in changed
            if isinstance(part, tree.ReadVariable)
            else isinstance(part, tree.ReadElement | tree.ReadResponse | tree.StageIndex)
            for part in parts
        )

    def _guarded(self, number: int) -> Iterator[int]:
        """The blocks after a branch that run with fewer threads than the branch."""
        blocks = self._role.blocks
        whole = blocks[number].participation
        unseen = [target for target in ir.successors(blocks[number].terminator) if blocks[target].participation != whole]
        seen: set[int] = set()
        while unseen:
            block = unseen.pop()
            if block in seen or blocks[block].participation == whole or whole.threads != "all":
                continue
            seen.add(block)
            unseen += ir.successors(blocks[block].terminator)
        yield from seen

    def _of_block(self, number: int) -> list[int]:
        return self._in_block.get(number, [])


def hands_over(rows: tuple[RoleAccesses, ...], known: Collection[Access] = ()) -> dict[str, tuple[bool, bool]]:
    """For roles whose accesses may conflict with those of another role: whether bulk stores must complete before the role hands anything
    over, and whether it needs a proxy fence. `known`: accesses that are to be ordered whether or not their places show it."""
    found: dict[str, tuple[bool, bool]] = {}
    for row in rows:
        others = [access for other in rows if other is not row for access in other.accesses]
        met = [one for one in row.accesses if one in known or any(may_meet(one, other) for other in others)]
        if not met:
            continue
        tensors = {one.tensor for one in met}
        fences = any(one.engine != THREADS for other in rows for one in other.accesses if one.tensor in tensors)
        found[row.role.name] = any(one.writes and one.engine == BULK for one in met), fences
    return found
