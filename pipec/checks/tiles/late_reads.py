"""A tile variable stands for an expression that is read where the variable is used: what it reads must not have changed by then (E0298)."""

from collections.abc import Iterator

from pipec.diag.catalogue.language import names as messages
from pipec.diag.message import Sink
from pipec.kir import ir
from pipec.kir.global_memory.accesses import Access, RoleAccesses, may_meet, reads_of
from pipec.kir.lazy_tiles import TileNames, lazy_tiles
from pipec.kir.walk import operands, subexpressions
from pipec.record import record
from pipec.sema import tree
from pipec.source import Span

_Stale = dict[tree.Variable, Span]  # what has changed, and where


def check(kernel: ir.Kernel, rows: tuple[RoleAccesses, ...], sink: Sink) -> None:
    stores = {row.role.name: [one for one in row.accesses if one.writes] for row in rows}
    for role in kernel.roles:
        names = lazy_tiles(role)
        if names:
            _Walk(role, names, stores.get(role.name, []), sink).check()


@record(eq=False)
class _Reads:
    accumulators: frozenset[tree.Accumulator]
    buffers: frozenset[tuple[tree.Buffer, tree.Handle]]
    stages: frozenset[tree.Handle]
    elements: tuple[Access, ...]


class _Walk:
    """Carries forward which names have changed since they were given."""

    def __init__(self, role: ir.Role, names: TileNames, stores: list[Access], sink: Sink) -> None:
        self._role, self._names, self._sink = role, names, sink
        self._reads = {variable: self._of(value, bool(stores)) for variable, value in names.items()}
        self._stores: dict[tuple[int, int], list[Access]] = {}
        for store in stores:
            self._stores.setdefault((store.block, store.site), []).append(store)
        self._told: set[tree.Variable] = set()

    def _of(self, value: tree.Expression, stores: bool) -> _Reads:
        nodes = list(subexpressions(value, self._names))
        buffers = [node.source for node in nodes if isinstance(node, tree.ReadBuffer)]
        return _Reads(
            frozenset(node.accumulator for node in nodes if isinstance(node, tree.ReadAccumulator)),
            frozenset((one.buffer, one.handle) for one in buffers),
            frozenset(stage for node in nodes if (stage := _stage_of(node)) is not None),
            tuple(reads_of(self._role, value, self._names)) if stores else (),
        )

    def check(self) -> None:
        changed = {
            (number, site): found
            for number, block in enumerate(self._role.blocks)
            for site, operation in enumerate(block.operations)
            if (found := tuple(self._changed(number, site, operation)))
        }
        if not changed:
            return
        entries: list[_Stale | None] = [None for _ in self._role.blocks]
        entries[0] = {}
        unseen = [0]
        while unseen:
            number = unseen.pop()
            stale = dict(entries[number] or {})
            block = self._role.blocks[number]
            for site, operation in enumerate(block.operations):
                self._use(operands(operation), stale)
                stale.update(dict.fromkeys(changed.get((number, site), ()), operation.span))
                if isinstance(operation, tree.Assign):
                    stale.pop(operation.variable, None)
            # (Conditions are numbers; what a vote tells of a tile is an operation of its own.)
            for target in ir.successors(block.terminator):
                before = entries[target]
                if before is None or not before.keys() >= stale.keys():
                    entries[target] = {**stale, **(before or {})}
                    unseen.append(target)

    def _changed(self, number: int, site: int, operation: tree.Operation) -> Iterator[tree.Variable]:
        stores = self._stores.get((number, site), ())
        for variable, reads in self._reads.items():
            match operation:
                # (Nothing clears an accumulator while a tile that reads it has its name.)
                case tree.RegisterMma() | tree.WriteAccumulator():
                    changes = operation.accumulator in reads.accumulators
                case tree.Move(target=stage):
                    changes = stage in reads.stages
                case tree.Write(destination=there):
                    changes = (there.buffer, there.handle) in reads.buffers
                case _:
                    changes = any(may_meet(read, store) for read in reads.elements for store in stores)
            if changes:
                yield variable

    def _use(self, values: tuple[tree.Expression, ...], stale: _Stale) -> None:
        if not stale:
            return
        for node in (node for value in values for node in subexpressions(value)):
            if isinstance(node, tree.ReadVariable) and node.variable in stale and node.variable not in self._told:
                self._told.add(node.variable)
                variable = node.variable
                self._sink.report(
                    messages.ChangedTile(name=variable.name, at=node.span, changed=stale[variable], named=variable.span)
                )


def _stage_of(node: tree.Expression) -> tree.Handle | None:
    """The stage that an expression reads, or whose number it is."""
    match node:
        case tree.ReadBuffer(source=source):
            return source.handle
        case tree.StageIndex(handle=handle) | tree.ReadResponse(handle=handle):
            return handle
        case _:
            return None
