"""Tiles in registers, against the registers that a thread has (E0733, E0734, E0742, E0743).

The tiles that are needed at one time are those whose values some later operation reads before they are assigned again. Registers
cannot be indexed, so what does not fit would go to memory: that is refused, with the numbers.
"""

from collections.abc import Iterator

from pipec.diag.catalogue import kept as messages
from pipec.diag.catalogue import resources
from pipec.diag.message import Sink
from pipec.kir import ir
from pipec.kir.plan_roles import lazy_tiles, operations
from pipec.kir.plan_types import Plan, RolePlan
from pipec.kir.walk import evaluated_tile, operands, subexpressions
from pipec.sema import tree
from pipec.sema.types import TileType

_MOST_PER_THREAD = 255
_LARGEST_BUDGET = 248
_STEP = 8
# For addresses, counters and the elements being computed; an estimate, since ptxas decides.
RESERVE = 24

_Live = frozenset[tree.Variable]


def check(plan: Plan, sink: Sink) -> None:
    for row in plan.roles:
        _odd_columns(plan, row, sink)
        _odd_fragments(row, sink)
        if row.flight is not None:
            _accumulators(plan, row, sink)
        if any(isinstance(operation, tree.Assign) and operation.variable.kept for operation in operations(row.role)):
            _Pressure(plan, row).check(sink)


def _odd_columns(plan: Plan, row: RolePlan, sink: Sink) -> None:
    """The halves of a warp share the rows of a 64-row accumulator, so the columns of every tile beside it divide in two."""
    for operation in operations(row.role):
        value = evaluated_tile(operation)
        if value is None or not isinstance(value.type, TileType):
            continue
        row_map = plan.row_maps[row.role.name, id(operation)]
        columns = value.type.columns
        if row_map.kept and row_map.half_warps and columns > 1 and columns % 2:
            sink.report(messages.OddKeptColumns(columns=columns, at=operation.span))
            return


def _odd_fragments(row: RolePlan, sink: Sink) -> None:
    """Beside accumulators in registers, kept tiles are spread as those are."""
    unit = 16 * row.role.warps
    told: set[tree.Variable] = set()
    for operation in operations(row.role):
        if row.flight is None or not (isinstance(operation, tree.Assign) and operation.variable.kept):
            continue
        if operation.variable in told:
            continue
        told.add(operation.variable)
        tile = operation.variable.type
        assert isinstance(tile, TileType)
        if tile.rows % unit or (tile.columns > 1 and tile.columns % 8):
            sink.report(messages.OddKeptFragment(tile=operation.variable.name, type=str(tile), unit=unit, at=operation.span))


def _accumulators(plan: Plan, row: RolePlan, sink: Sink) -> None:
    pressure = _Pressure(plan, row)
    registers, budget = pressure.accumulators(), pressure.budget()
    if registers + RESERVE <= budget:
        return
    cleared = {one.accumulator: one for one in operations(row.role) if isinstance(one, tree.ClearAccumulator)}
    first, *others = (one.span for one in cleared.values())
    fitting = -(-(registers + RESERVE) // _STEP) * _STEP
    sink.report(
        resources.AccumulatorRegisters(
            role=row.role.name,
            registers=registers,
            budget=budget,
            reserve=RESERVE,
            warps=row.role.warps,
            hint=f"give the role `registers={fitting}`, or share" if fitting <= _LARGEST_BUDGET else "share",
            at=first,
            others=tuple(others),
            declared=row.role.span,
        )
    )


class _Pressure:
    """Which tiles are needed where: a walk backwards over the role's graph, repeated until nothing changes."""

    def __init__(self, plan: Plan, row: RolePlan) -> None:
        self._plan = plan
        self._row = row
        self._lets = lazy_tiles(row.role)
        self._operands = row.flight.operands if row.flight is not None else frozenset[tree.Variable]()
        self._assigned: dict[tree.Variable, list[tree.Assign]] = {}
        for operation in operations(row.role):
            if isinstance(operation, tree.Assign):
                self._assigned.setdefault(operation.variable, []).append(operation)
        self._sizes = {variable: self._size(variable) for variable in self._assigned if isinstance(variable.type, TileType)}

    def check(self, sink: Sink) -> None:
        live, operation = self._peak()
        needed = self.accumulators() + sum(self._sizes[variable] for variable in live)
        budget = self.budget()
        if operation is None or needed + RESERVE <= budget:
            return
        largest = sorted(live, key=lambda variable: (-self._sizes[variable], variable.span.line, variable.span.column))
        fitting = -(-(needed + RESERVE) // _STEP) * _STEP
        role = self._row.role
        raised = f"give the role `registers={fitting}`" if role.registers is not None and fitting <= _LARGEST_BUDGET else None
        sink.report(
            messages.KeptTiles(
                role=role.name,
                needed=needed,
                budget=budget,
                reserve=RESERVE,
                list=", ".join(f"`{variable.name}` {self._sizes[variable]}" for variable in largest if self._sizes[variable]),
                hint=raised or "use narrower tiles, more warps with fewer rows each, or keep fewer tiles at a time",
                at=operation.span,
                tiles=tuple(dict.fromkeys(variable.span for variable in largest if variable.span.line != operation.span.line)),
            )
        )

    def budget(self) -> int:
        for group in self._plan.register_groups:
            if group.first_warp <= self._row.first_warp < group.first_warp + group.warps:
                return min(_MOST_PER_THREAD, group.registers or self._plan.launch_registers or 0)
        return min(_MOST_PER_THREAD, self._plan.target.registers // self._plan.threads // _STEP * _STEP)

    def accumulators(self) -> int:
        """Registers of a thread that hold accumulators and operands of MMAs, all through the role."""
        cleared = {
            operation.accumulator for operation in operations(self._row.role) if isinstance(operation, tree.ClearAccumulator)
        }
        own = [
            operation.a.type
            for operation in operations(self._row.role)
            if isinstance(operation, tree.RegisterMma) and isinstance(operation.a, tree.ReadVariable)
            if operation.a.variable not in self._operands
        ]
        tiles = [*(one.type for one in cleared), *(one.type for one in self._operands), *own]
        return (
            sum(one.rows * one.columns * one.dtype.bits // 32 for one in tiles if isinstance(one, TileType)) // self._row.threads
        )

    def _size(self, variable: tree.Variable) -> int:
        """Registers of a thread. A lazy tile takes some where it had to copy a kept tile that changes afterwards."""
        if variable in self._operands:
            return 0  # counted all through the role
        if variable.is_lazy:
            return sum(self._size(read) for read in self._copied(variable))
        assert isinstance(variable.type, TileType)
        row_map = self._plan.row_maps[self._row.role.name, id(self._assigned[variable][0])]
        per_element = 2 if variable.type.dtype.bits == 64 else 1
        return row_map.blocks * row_map.columns_of_thread(variable.type.columns) * per_element

    def _copied(self, lazy: tree.Variable) -> Iterator[tree.Variable]:
        for node in subexpressions(self._lets[lazy]):
            if isinstance(node, tree.ReadVariable) and node.variable.kept and len(self._assigned[node.variable]) > 1:
                yield node.variable

    def _reads(self, value: tree.Expression) -> set[tree.Variable]:
        found: set[tree.Variable] = set()
        open_values = [value]
        while open_values:
            for node in subexpressions(open_values.pop()):
                if isinstance(node, tree.ReadVariable) and node.variable in self._sizes and node.variable not in found:
                    found.add(node.variable)
                    if node.variable.is_lazy:
                        open_values.append(self._lets[node.variable])
        return found

    def _peak(self) -> tuple[_Live, tree.Operation | None]:
        blocks = self._row.role.blocks
        at_entry: list[_Live] = [frozenset()] * len(blocks)
        changed = True
        while changed:
            changed = False
            for number in reversed(range(len(blocks))):
                *_, (live, _) = self._block(blocks[number], at_entry)
                changed = changed or live != at_entry[number]
                at_entry[number] = live
        points = [
            (live, operation)
            for block in blocks
            for live, operation in self._block(block, at_entry)
            if operation is not None and evaluated_tile(operation) is not None
        ]
        return max(points, key=lambda point: sum(self._sizes[variable] for variable in point[0]), default=(frozenset(), None))

    def _block(self, block: ir.Block, at_entry: list[_Live]) -> Iterator[tuple[_Live, tree.Operation | None]]:
        """What is needed after and before each operation, from the last to the first."""
        live: set[tree.Variable] = set().union(*(at_entry[target] for target in ir.successors(block.terminator)))
        yield frozenset(live), None
        for operation in reversed(block.operations):
            defined = operation.variable if isinstance(operation, tree.Assign) and operation.variable in self._sizes else None
            if defined is not None:
                yield frozenset(live | {defined}), operation
                live.discard(defined)
            if defined is None or defined.kept:
                for value in operands(operation):
                    live |= self._reads(value)
            else:
                live |= set(self._copied(defined))
            yield frozenset(live), operation
