"""Roles that perform the same operations on other stages and tiles: their code is emitted once, and parametrised by numbers.

Two query tiles in flight have one softmax role each, the largest part of an attention kernel. Sharing the code halves the time to
compile and assemble it, and its footprint in the instruction cache. The roles may differ in the addresses of barriers and tiles, the
named barrier of their threads, and numbers known when the role starts. Everything else that the lowering queries about a role is
compared here: the operations with the source locations by which they are reported, the values, and what was derived for them.
"""

from collections.abc import Container, Mapping
from typing import TypeVar

from pipec.isa.dtypes import DType
from pipec.kir import ir
from pipec.kir.plan.roles import operations
from pipec.kir.plan.types import GlobalOrder, Plan, RolePlan, Twin
from pipec.record import is_record
from pipec.sema import tree
from pipec.sema.types import TileType
from pipec.source import Span
from pipec.vocabulary import SIDES

# Operations of threads; copies and MMAs are issued by one-warp roles, whose code is short.
_COMPARED = (tree.Acquire, tree.Signal, tree.Release, tree.Move, tree.Assign, tree.Write, tree.Vote)
Symbol = TypeVar("Symbol", tree.Pipeline, tree.Buffer, tree.Handle)
_SYMBOLS = (tree.Pipeline, tree.Buffer, tree.Handle, tree.Variable)
_PLAIN = frozenset((int, float, bool, str, type(None), Span, TileType, DType))  # compared by equality; they contain no symbols
_UNSAID = frozenset(("name", "span"))  # of a symbol: its name and location in the source
_NUMBERS = (tree.Constant, tree.ReadDimension, tree.ReadParameter, tree.Special, tree.Unary, tree.Binary, tree.Convert)
_OWN_NUMBERS = frozenset(("lane_id", "role_thread", "role_warp"))  # of a thread: these are not numbers of the role


def plan_twins(plan: Plan) -> dict[str, tuple[Twin, ...]]:
    """The roles that share code, by the name of the first of them."""
    found: dict[str, list[Twin]] = {}
    taken: set[str] = set()
    rows = [row for row in plan.roles if _may_share(plan, row)]
    for at, first in enumerate(rows):
        for other in rows[at + 1 :]:
            if not {first.role.name, other.role.name} & taken and (twin := _twin(plan, first, other)) is not None:
                found.setdefault(first.role.name, []).append(twin)
                taken.add(other.role.name)
    return {name: tuple(twins) for name, twins in found.items()}


def _may_share(plan: Plan, row: RolePlan) -> bool:
    """Whether everything that the lowering queries about the role is compared."""
    return (
        row.role.warps > 1
        and not row.single_thread
        and row.mma_waits is None
        and not row.stores_bulk
        and not row.drains
        and row.global_order == GlobalOrder()
        and row.role.name not in plan.exchanges
        and all(isinstance(one, _COMPARED) for one in operations(row.role))
    )


def _twin(plan: Plan, first: RolePlan, other: RolePlan) -> Twin | None:
    compared = _Comparison()
    if not compared.roles(first, other):
        return None
    pipelines, buffers = compared.of_kind(tree.Pipeline), compared.of_kind(tree.Buffer)
    alike = (
        _budget(plan, first) == _budget(plan, other)
        and all(_signalled_alike(plan, (one, first), (same, other)) for one, same in pipelines.items())
        and all(_laid_out_alike(plan, one, same) for one, same in buffers.items())
        and all(
            plan.expected_bytes.get(one) == plan.expected_bytes.get(same) for one, same in compared.of_kind(tree.Handle).items()
        )
        and all(
            plan.row_maps.get(one) == plan.row_maps.get(same)
            for one, same in zip(operations(first.role), operations(other.role), strict=True)
        )
    )
    return Twin(other, pipelines, buffers, compared.numbers) if alike else None


def _budget(plan: Plan, row: RolePlan) -> int | None:
    """The register budget of its warpgroup: the assembler compiles the code for the budget of the threads that reach it."""
    return next((group.registers for group in plan.register_groups if 0 <= row.first_warp - group.first_warp < group.warps), None)


def _signalled_alike(plan: Plan, *sides: tuple[tree.Pipeline, RolePlan]) -> bool:
    """Barriers with equal counts and reach, to which the two roles contribute equally; no accumulators that a role clears."""
    (one, _), (other, _) = sides
    if one is not other and any(fill.pipeline in (one, other) for fill in plan.zero_fills.values()):
        return False
    mine, its = (_signals(plan, *side) for side in sides)
    return mine == its


def _signals(plan: Plan, pipeline: tree.Pipeline, row: RolePlan) -> tuple[object, ...]:
    """Everything that the lowering of a role queries about the signals of a pipeline."""
    rows = [plan.signals[pipeline, side] for side in SIDES]
    return (
        plan.sharing[pipeline],
        pipeline in plan.tensor_only,
        pipeline in row.proxied,
        pipeline in row.tensor_stages,
        [(pipeline, side) in row.meets for side in SIDES],
        [(of.count, of.transaction_bytes, of.in_turn, of.how.get(row.role.name), [*of.how.values()]) for of in rows],
    )


def _laid_out_alike(plan: Plan, one: tree.Buffer, other: tree.Buffer) -> bool:
    tables: tuple[Mapping[tree.Buffer, object], ...] = (plan.layouts, plan.buffer_strides, plan.column_stride)
    return (
        all(table.get(one) == table.get(other) for table in tables)
        and (one in plan.packed) == (other in plan.packed)
        and not {one, other} & plan.zero_fills.keys()
    )


class _Comparison:
    """A correspondence: symbols in `pairs`, and differing values in `numbers`."""

    def __init__(self) -> None:
        self.pairs: dict[object, object] = {}
        self.numbers: dict[tree.Expression, tree.Expression] = {}
        self._taken: dict[object, object] = {}  # the inverse
        self._alike: dict[
            tuple[tree.Expression, object], bool
        ] = {}  # expressions share subexpressions: each pair is compared once

    def roles(self, first: RolePlan, other: RolePlan) -> bool:
        one, same = first.role, other.role
        names = ("warps", "registers", "produces", "consumes", "blocks", "leader")
        derived = ("registers", "uses_tensor", "awaits_grids", "launches_dependents", "invariants", "in_step", "whole_warp")
        return (
            len(one.blocks) == len(same.blocks)
            and (first.named_barrier is None) == (other.named_barrier is None)
            and all(self._same(getattr(one, name), getattr(same, name)) for name in names)
            and all(self._same(getattr(first, name), getattr(other, name)) for name in derived)
        )

    def of_kind(self, kind: type[Symbol]) -> dict[Symbol, Symbol]:
        return {one: other for one, other in self.pairs.items() if isinstance(one, kind) and isinstance(other, kind)}

    def _same(self, one: object, other: object) -> bool:
        kind = type(one)
        if kind is not type(other):
            return self._numbers(one, other)
        if kind in _PLAIN:
            return one == other
        if isinstance(one, _SYMBOLS):
            return self._symbols(one, other)
        if isinstance(one, tuple) and isinstance(other, tuple):
            return len(one) == len(other) and all(map(self._same, one, other))
        if not is_record(one):
            return one == other
        if not isinstance(one, tree.Expression):
            return self._records(one, other)
        if (known := self._alike.get((one, other))) is None:
            known = self._alike[one, other] = self._records(one, other)
        return known

    def _records(self, one: object, other: object) -> bool:
        # Operations that wait, signal or branch are reported by their source location.
        told = isinstance(one, tree.Operation | ir.Branch | ir.ElectBranch) and not isinstance(one, tree.Assign)
        unsaid = () if told else ("span",)
        return self._fields(one, other, unsaid) or self._numbers(one, other)

    def _symbols(self, one: object, other: object) -> bool:
        if one in self.pairs or other in self._taken:
            return self.pairs.get(one) is other
        self.pairs[one], self._taken[other] = other, one
        return self._fields(one, other, _UNSAID)

    def _fields(self, one: object, other: object, unsaid: Container[str]) -> bool:
        """Compares two records of a class."""
        for name in one.__match_args__:  # type: ignore[attr-defined]  # a record
            if name not in unsaid and not self._same(getattr(one, name), getattr(other, name)):
                return False
        return True

    def _numbers(self, one: object, other: object) -> bool:
        """Whether the two are numbers of the same type that are known when a role starts."""
        if not (_is_number(one) and _is_number(other)):
            return False
        assert isinstance(one, tree.Expression) and isinstance(other, tree.Expression)
        if isinstance(one, tree.Constant) or isinstance(other, tree.Constant) or one.type != other.type:
            return False  # constants affect code generation
        return self.numbers.setdefault(one, other) is other


def _is_number(value: object) -> bool:
    if not isinstance(value, _NUMBERS) or isinstance(value.type, TileType):
        return False
    match value:
        case tree.Special(name):
            return name not in _OWN_NUMBERS
        case tree.Unary(operand=operand) | tree.Convert(operand=operand):
            return _is_number(operand)
        case tree.Binary(left=left, right=right):
            return _is_number(left) and _is_number(right)
        case _:
            return True
