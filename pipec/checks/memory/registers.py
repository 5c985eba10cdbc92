"""Register tiles, against the registers that a thread has (E0236, E0733, E0734, E0742, E0743, E0745).

A tile or an accumulator is live while a later operation reads its values before they are reassigned. Registers cannot be indexed, so what
does not fit would spill to local memory: it is rejected, with the numbers.
"""

from collections.abc import Collection, Iterator

from pipec.diag.catalogue.tiles import multiplications as resources
from pipec.diag.catalogue.tiles import register_tiles as messages
from pipec.diag.message import Sink
from pipec.kir import ir
from pipec.kir.lazy_tiles import lazy_tiles
from pipec.kir.plan.roles import operations
from pipec.kir.plan.types import Plan, RolePlan, round_up
from pipec.kir.walk import evaluated_tile, operands, subexpressions
from pipec.sema import tree
from pipec.sema.types import TileType

# setmaxnreg accepts 256 (hardware.md 7), but an instruction can address at most 255 registers, and the step is 8.
_LARGEST_BUDGET = 248
_STEP = 8
_MMA_COLUMNS = 8  # granularity of N
# For addresses, counters and the elements being computed; an estimate, since ptxas allocates.
RESERVE = 24
# In addition to the registers of a wgmma. Found by lowering the limit for kernels of every type and shape until ptxas 13.0 rejected them
# (C7602); below the same number it serialises the MMAs of a role (C7512).
MMA_RESERVE = 26
_OPERAND_REGISTERS = 4  # of one instruction, if `a` is in registers

_Held = tree.Variable | tree.Accumulator
_Live = frozenset[_Held]


def check(plan: Plan, sink: Sink) -> None:
    for row in plan.roles:
        _odd_columns(plan, row, sink)
        _odd_fragments(row, sink)
        _without_rows(plan, row, sink)
        if row.mma_waits is not None:
            if _accumulators(plan, row, sink):
                continue  # with less than they need nothing else fits
            _instructions(plan, row, sink)
        if any(isinstance(operation, tree.Assign) and operation.variable.in_registers for operation in operations(row.role)):
            _Pressure(plan, row).check(sink)


def _odd_columns(plan: Plan, row: RolePlan, sink: Sink) -> None:
    """The halves of a warp share the rows of a 64-row accumulator, so the columns of every tile used with it must be even."""
    for operation in operations(row.role):
        value = evaluated_tile(operation)
        if value is None or not isinstance(value.type, TileType):
            continue
        row_map = plan.row_maps[operation]
        columns = value.type.columns
        # A tile stored directly from the accumulator may have an odd last column; a register-resident one has no place for it in either
        # half.
        if row_map.in_registers and row_map.half_warps and columns > 1 and columns % 2:
            sink.report(messages.OddKeptColumns(columns=columns, at=operation.span))
            return


def _without_rows(plan: Plan, row: RolePlan, sink: Sink) -> None:
    """A register-resident one-row tile that is not distributed over the threads: each of them would hold all of it."""
    told: set[tree.Variable] = set()
    for operation in operations(row.role):
        if not (isinstance(operation, tree.Assign) and operation.variable.in_registers) or operation.variable in told:
            continue
        told.add(operation.variable)
        tile = operation.variable.type
        assert isinstance(tile, TileType)
        if tile.rows == 1 and not plan.row_maps[operation].vector:
            sink.report(messages.KeptWithoutRows(type=str(tile), at=operation.value.span))


def _odd_fragments(row: RolePlan, sink: Sink) -> None:
    """Register-resident tiles are distributed like the accumulators in registers."""
    unit = 16 * row.role.warps
    told: set[tree.Variable] = set()
    for operation in operations(row.role):
        if row.mma_waits is None or not (isinstance(operation, tree.Assign) and operation.variable.in_registers):
            continue
        tile = operation.variable.type
        assert isinstance(tile, TileType)
        if operation.variable in told or tile.rows == 1:
            continue
        told.add(operation.variable)
        if tile.rows % unit or (tile.columns > 1 and tile.columns % 8):
            sink.report(messages.OddKeptFragment(tile=operation.variable.name, type=str(tile), unit=unit, at=operation.span))


def _accumulators(plan: Plan, row: RolePlan, sink: Sink) -> bool:
    """Whether too many were found."""
    pressure = _Pressure(plan, row)
    live = pressure.accumulators()
    registers, budget = pressure.registers_of(live), plan.registers_of(row)
    if registers + MMA_RESERVE <= budget:
        return False
    cleared = {one.accumulator: one for one in operations(row.role) if isinstance(one, tree.ClearAccumulator)}
    first, *others = (one.span for accumulator, one in cleared.items() if accumulator in live)
    fitting = round_up(registers + MMA_RESERVE, _STEP)
    sink.report(
        resources.AccumulatorRegisters(
            role=row.role.name,
            registers=registers,
            budget=budget,
            reserve=MMA_RESERVE,
            warps=row.role.warps,
            hint=f"{_raised(plan, row, fitting)}share",
            at=first,
            others=tuple(others),
            declared=row.role.span,
        )
    )
    return True


def _raised(plan: Plan, row: RolePlan, fitting: int) -> str:
    """The help text about a larger budget, if one helps: it does not change the limit of a single instruction."""
    if fitting > _LARGEST_BUDGET or any(_beyond_start(plan, mma) > 0 for mma in _mmas(row)):
        return ""
    others = "" if plan.register_groups else " and those that only copy fewer"
    return f"give the role `registers={fitting}`{others}, or "


def _mmas(row: RolePlan) -> list[tree.RegisterMma]:
    return [operation for operation in operations(row.role) if isinstance(operation, tree.RegisterMma)]


def _instruction_registers(mma: tree.RegisterMma) -> tuple[int, int]:
    """Registers of one wgmma: for the sums (64 x columns elements over 128 threads), and all others."""
    operand = 0 if isinstance(mma.a, tree.BufferRef) else _OPERAND_REGISTERS
    return mma.accumulator.columns * mma.accumulator.dtype.bits // 64, operand + MMA_RESERVE


def _beyond_start(plan: Plan, mma: tree.RegisterMma) -> int:
    return sum(_instruction_registers(mma)) - plan.start_registers


def _instructions(plan: Plan, row: RolePlan, sink: Sink) -> None:
    """ptxas checks each instruction against the registers that a thread starts with: `setmaxnreg` does not raise that limit."""
    start = plan.start_registers
    for operation in _mmas(row):
        accumulator = operation.accumulator
        sums, others = _instruction_registers(operation)
        needed = sums + others
        if needed <= start:
            continue
        most = (start - others) * 64 // accumulator.dtype.bits // _MMA_COLUMNS * _MMA_COLUMNS
        sink.report(
            resources.MmaRegisters(
                needed=needed,
                columns=accumulator.columns,
                dtype=accumulator.dtype.name,
                start=start,
                threads=plan.threads,
                fitting=most,
                at=operation.span,
                declared=row.role.span,
            )
        )
        return


class _Pressure:
    """Liveness of tiles and accumulators: a backward data-flow pass over the role's graph, iterated to a fixed point."""

    def __init__(self, plan: Plan, row: RolePlan) -> None:
        self._plan = plan
        self._row = row
        self._lets = lazy_tiles(row.role)
        self._operands = row.mma_waits.operands if row.mma_waits is not None else frozenset[tree.Variable]()
        self._assigned: dict[tree.Variable, list[tree.Assign]] = {}
        for operation in operations(row.role):
            if isinstance(operation, tree.Assign):
                self._assigned.setdefault(operation.variable, []).append(operation)
        self._read_by: dict[tree.Expression, _Live] = {}  # each round of the data flow asks again
        self._sizes: dict[_Held, int] = {
            variable: self._size(variable) for variable in self._assigned if isinstance(variable.type, TileType)
        }
        self._sizes |= {
            operation.accumulator: self._share(operation.accumulator.type)
            for operation in operations(row.role)
            if isinstance(operation, tree.ClearAccumulator)
        }
        self._throughout = self._operands_of_mma()

    def check(self, sink: Sink) -> None:
        live, operation = self._peak(self._sizes)
        needed = self.registers_of(live)
        budget = self._plan.registers_of(self._row)
        if operation is None or needed + RESERVE <= budget:
            return
        tiles = [one for one in live if isinstance(one, tree.Variable)]
        # Also by position: the iteration order of a set varies between runs, and messages are compared with goldens.
        largest = sorted(tiles, key=lambda variable: (-self._sizes[variable], variable.span.line, variable.span.column))
        sizes = [(f"`{variable.name}`", self._sizes[variable]) for variable in largest if self._sizes[variable]]
        if accumulators := self.registers_of(live.difference(tiles)):
            sizes.insert(0, ("accumulators", accumulators))
        fitting = round_up(needed + RESERVE, _STEP)
        role = self._row.role
        raised = f"give the role `registers={fitting}`" if role.registers is not None and fitting <= _LARGEST_BUDGET else None
        sink.report(
            messages.KeptTiles(
                role=role.name,
                needed=needed,
                budget=budget,
                reserve=RESERVE,
                list=", ".join(f"{name} {size}" for name, size in sizes),
                hint=raised or "use narrower tiles, more warps with fewer rows each, or keep fewer tiles at a time",
                at=operation.span,
                tiles=tuple(dict.fromkeys(variable.span for variable in largest if variable.span.line != operation.span.line)),
            )
        )

    def accumulators(self) -> _Live:
        """Those that are live at the same time, where they take the most registers."""
        return self._peak([held for held in self._sizes if isinstance(held, tree.Accumulator)])[0]

    def registers_of(self, live: _Live) -> int:
        """Of a thread, with those that hold operands of MMAs throughout the role."""
        return self._throughout + sum(self._sizes[held] for held in live)

    def _operands_of_mma(self) -> int:
        own = [
            operation.a.type
            for operation in operations(self._row.role)
            if isinstance(operation, tree.RegisterMma) and isinstance(operation.a, tree.ReadVariable)
            if operation.a.variable not in self._operands
        ]
        return sum(self._share(one) for one in (*(one.type for one in self._operands), *own) if isinstance(one, TileType))

    def _share(self, tile: TileType) -> int:
        """Registers of a thread that hold its elements of a tile, which is divided evenly."""
        return tile.rows * tile.columns * tile.dtype.bits // 32 // self._row.threads

    def _size(self, variable: tree.Variable) -> int:
        """Registers of a thread. A lazy tile needs some if it had to copy a register-resident tile that changes later."""
        if variable in self._operands:
            return 0  # counted throughout the role
        if variable.is_lazy:
            return sum(self._size(read) for read in self._copied(variable))
        assert isinstance(variable.type, TileType)
        row_map = self._plan.row_maps[self._assigned[variable][0]]
        return row_map.blocks * row_map.registers_of_thread(variable.type.columns, variable.type.dtype)

    def _copied(self, lazy: tree.Variable) -> Iterator[tree.Variable]:
        for node in subexpressions(self._lets[lazy]):
            if isinstance(node, tree.ReadVariable) and node.variable.in_registers and len(self._assigned[node.variable]) > 1:
                yield node.variable

    def _reads(self, value: tree.Expression) -> _Live:
        found = self._read_by.get(value)
        if found is None:
            held = (_held_by(node) for node in subexpressions(value, self._lets))
            found = self._read_by[value] = frozenset(one for one in held if one in self._sizes)
        return found

    def _peak(self, counted: Collection[_Held]) -> tuple[_Live, tree.Operation | None]:
        """Which of the counted are live where they take the most registers; of several such places a tile is preferred."""
        blocks = self._row.role.blocks
        at_entry: list[_Live] = [frozenset()] * len(blocks)
        changed = True
        # The live sets only grow from round to round and are finite, so this terminates.
        while changed:
            changed = False
            for number in reversed(range(len(blocks))):
                *_, (live, _) = self._block(blocks[number], at_entry)
                changed = changed or live != at_entry[number]
                at_entry[number] = live
        points = [
            (live.intersection(counted), operation)
            for block in blocks
            for live, operation in self._block(block, at_entry)
            if operation is not None
        ]

        def pressure(point: tuple[_Live, tree.Operation]) -> tuple[int, bool]:
            return sum(self._sizes[held] for held in point[0]), evaluated_tile(point[1]) is not None

        return max(points, key=pressure, default=(frozenset(), None))

    def _block(self, block: ir.Block, at_entry: list[_Live]) -> Iterator[tuple[_Live, tree.Operation | None]]:
        """The live set after and before each operation, from the last to the first."""
        live: set[_Held] = set().union(*(at_entry[target] for target in ir.successors(block.terminator)))
        yield frozenset(live), None
        for operation in reversed(block.operations):
            defined = _defined_by(operation)
            if defined in self._sizes:
                yield frozenset(live | {defined}), operation
                live.discard(defined)
            # The assignment of a lazy tile reads nothing; only what it copied must stay live.
            if isinstance(defined, tree.Variable) and defined in self._sizes and not defined.in_registers:
                live |= set(self._copied(defined))
            else:
                if isinstance(operation, tree.RegisterMma):  # also where it does not add: as long as the role keeps it
                    live.add(operation.accumulator)
                for value in operands(operation):
                    live |= self._reads(value)
            yield frozenset(live), operation


def _held_by(node: tree.Expression) -> _Held | None:
    match node:
        case tree.ReadVariable(variable):
            return variable
        case tree.ReadAccumulator(accumulator):
            return accumulator
        case _:
            return None


def _defined_by(operation: tree.Operation) -> _Held | None:
    """What it gives a value to, none of which it keeps."""
    match operation:
        case tree.Assign(variable):
            return variable
        case tree.ClearAccumulator(accumulator) | tree.WriteAccumulator(accumulator):
            return accumulator
        case _:
            return None
