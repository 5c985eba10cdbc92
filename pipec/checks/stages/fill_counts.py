"""How often each tile of a stage is filled between acquire and release: minimum and maximum over all paths.

A tile may be filled some rows at a time, in other parts on another path. So rows are counted: each run of them that no fill divides.
"""

from itertools import pairwise

from pipec.checks.summary import COPY, LOAD, WRITE, RoleSummary, Touch
from pipec.kir import ir
from pipec.record import record
from pipec.sema import tree

# Multiplied by a trip count it stays an exact integer, unlike infinity, and no kernel fills a tile that often.
UNBOUNDED = 1 << 30
Rows = tuple[int, int]  # some rows of a tile: the first, and how many
_Key = tuple[tree.Handle, tree.Buffer, Rows]


@record
class Fills:
    """`branch` is the condition where the paths diverge, `loop` the loop that repeats the fill."""

    fewest: int = 0
    most: int = 0
    branch: ir.Branch | None = None
    loop: ir.Loop | None = None

    def plus(self, times: int) -> "Fills":
        return Fills(self.fewest + times, min(self.most + times, UNBOUNDED), self.branch, self.loop)


_NONE = Fills()
_Counts = dict[_Key, Fills]


def count_fills(role: RoleSummary) -> dict[tree.Handle, _Counts]:
    """For each producer handle that is released, the counts of its tiles at its first release."""
    return _Counter(role).run()


class _Counter:
    """One pass over the blocks in order, as in pipec.checks.stages.linear."""

    def __init__(self, role: RoleSummary) -> None:
        self._role = role
        self._runs = _undivided(role)
        self._out: list[_Counts] = []
        self._found: dict[tree.Handle, _Counts] = {}

    def run(self) -> dict[tree.Handle, _Counts]:
        for number, block in enumerate(self._role.role.blocks):
            counts = self._enter(number)
            for operation, touches in zip(block.operations, self._role.touches[number], strict=True):
                self._operation(operation, touches, counts)
            self._out.append(counts)
            if isinstance(block.terminator, ir.Jump) and block.terminator.target <= number:
                self._repeat(block.terminator.target, counts)
        return self._found

    def _operation(self, operation: tree.Operation, touches: tuple[Touch, ...], counts: _Counts) -> None:
        match operation:
            # Fills of an earlier iteration belong to the stage released there.
            case tree.Acquire(handle) if operation.first:
                for key in [key for key in counts if key[0] is handle]:
                    del counts[key]
            case tree.Release(handle):
                self._found.setdefault(handle, {key: fills for key, fills in counts.items() if key[0] is handle})
            case _:
                for touch in touches:
                    if touch.kind in (LOAD, COPY, WRITE) and touch.buffer is not None:
                        rows = range_of_rows(touch, touch.buffer)
                        for run in self._runs[touch.handle, touch.buffer]:
                            if run[0] in rows:
                                key = touch.handle, touch.buffer, run
                                counts[key] = counts.get(key, _NONE).plus(1)

    def _enter(self, number: int) -> _Counts:
        before = [block for block in self._role.predecessors[number] if block < number]
        if not before:
            return {}
        if len(before) == 1:
            return dict(self._out[before[0]])
        one, two = (self._out[block] for block in before)
        dominator = self._role.dominators[number]
        head = self._role.role.blocks[dominator].terminator
        # A fill under `elect()` is one fill; other guards are up to pipec.checks.stages.participation.
        narrowed = isinstance(head, ir.ElectBranch) or self._role.narrows(dominator)
        joined: _Counts = {}
        for key in {**one, **two}:
            left, right = one.get(key, _NONE), two.get(key, _NONE)
            if left == right or narrowed:
                joined[key] = max(left, right, key=lambda fills: fills.most)
                continue
            assert isinstance(head, ir.Branch)
            fewest, most = min(left.fewest, right.fewest), max(left.most, right.most)
            branch = left.branch or right.branch or head
            joined[key] = Fills(fewest, most, branch, left.loop or right.loop)
        return joined

    def _repeat(self, header: int, after: _Counts) -> None:
        """Adds the fills of one iteration into stages held since before the loop, times the trip count."""
        loop = next(loop for loop in self._role.role.loops if loop.header == header)
        # The header's counts are those at the loop's exit. Correcting them afterwards avoids a second pass over the body, since the code
        # after the loop has not been visited yet.
        before = self._out[header]
        trips = _trips(loop)
        for key, fills in after.items():
            if self._obtained_in(loop, key[0]):
                continue
            start = before.get(key, _NONE)
            fewest, most = fills.fewest - start.fewest, fills.most - start.most
            if fewest or most:  # the most may be unbounded already
                # Unless its bounds are constants, the loop may run zero times, which leaves the tile unfilled.
                few, many = (0, UNBOUNDED) if trips is None else (trips * fewest, trips * most)
                before[key] = Fills(start.fewest + few, min(start.most + many, UNBOUNDED), fills.branch, loop)

    def _obtained_in(self, loop: ir.Loop, handle: tree.Handle) -> bool:
        return any(site.block in loop.blocks for site in self._role.handles[handle].acquires)


def range_of_rows(touch: Touch, tile: tree.Buffer) -> range:
    """The rows of the tile that it is about."""
    first, count = touch.part or (0, tile.rows)
    return range(first, first + count)


def _undivided(role: RoleSummary) -> dict[tuple[tree.Handle, tree.Buffer], list[Rows]]:
    """The rows of each tile, divided wherever some fill begins or ends."""
    ends: dict[tuple[tree.Handle, tree.Buffer], set[int]] = {}
    for found in role.handles.values():
        for _, touch in found.touches:
            if touch.kind in (LOAD, COPY, WRITE) and touch.buffer is not None:
                rows = range_of_rows(touch, touch.buffer)
                ends.setdefault((touch.handle, touch.buffer), {0, touch.buffer.rows}).update((rows.start, rows.stop))
    return {tile: [(first, end - first) for first, end in pairwise(sorted(found))] for tile, found in ends.items()}


def _trips(loop: ir.Loop) -> int | None:
    if isinstance(loop.start, tree.Constant) and isinstance(loop.stop, tree.Constant) and loop.step:
        return len(range(int(loop.start.value), int(loop.stop.value), loop.step))
    return None
