"""Roles that do the same to other stages and tiles: their code is written once, and each comes to it with numbers of its own.

Two query tiles in flight have a softmax each, the largest part of an attention kernel. Written once, it takes half of the time to compile
and to assemble, and half of the instruction cache. What may differ is where barriers and tiles lie, the barrier at
which the threads meet, and numbers that are known when the role begins. All else that the lowering asks of a role is compared here: the
operations with the places in the source that they are reported by, the values, and what was derived for them.
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

# What threads do; copies and MMAs are issued by roles of one warp, whose code is short.
_COMPARED = (tree.Acquire, tree.Signal, tree.Release, tree.Assign, tree.Write, tree.Vote)
Symbol = TypeVar("Symbol", tree.Pipeline, tree.Buffer, tree.Handle)
_SYMBOLS = (tree.Pipeline, tree.Buffer, tree.Handle, tree.Variable)
_PLAIN = frozenset((int, float, bool, str, type(None), Span, TileType, DType))  # equal or not, with no symbol in them
_UNSAID = frozenset(("name", "span"))  # of a symbol: how the source calls it, and where
_NUMBERS = (tree.Constant, tree.ReadDimension, tree.ReadParameter, tree.Special, tree.Unary, tree.Binary, tree.Convert)
_OWN_NUMBERS = frozenset(("lane_id", "role_thread", "role_warp"))  # of a thread: not numbers of the role


def plan_twins(plan: Plan) -> dict[str, tuple[Twin, ...]]:
    """By the name of the first of them, the roles that share its code."""
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
    """Whether all that the lowering asks of the role is among what is compared."""
    return (
        row.role.warps > 1
        and not row.single_thread
        and row.mma_waits is None
        and not row.stores_bulk
        and not row.drains
        and row.global_order == GlobalOrder()
        and row.role.name not in plan.exchange_offsets
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
    """Registers that its warpgroup takes: the assembler gives the code as many as the threads have that come to it."""
    return next((group.registers for group in plan.register_groups if 0 <= row.first_warp - group.first_warp < group.warps), None)


def _signalled_alike(plan: Plan, *sides: tuple[tree.Pipeline, RolePlan]) -> bool:
    """Barriers that count alike and reach as far, and to which the two roles' part is the same; no accumulators that a role clears."""
    (one, _), (other, _) = sides
    if one is not other and any(fill.pipeline in (one, other) for fill in plan.zero_fills.values()):
        return False
    mine, its = (_signals(plan, *side) for side in sides)
    return mine == its


def _signals(plan: Plan, pipeline: tree.Pipeline, row: RolePlan) -> tuple[object, ...]:
    """All that the lowering of a role asks about the signals of a pipeline."""
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
    """What stands in the place of what: symbols in `pairs`, and in `numbers` values that differ."""

    def __init__(self) -> None:
        self.pairs: dict[object, object] = {}
        self.numbers: dict[tree.Expression, tree.Expression] = {}
        self._taken: dict[object, object] = {}  # the other way round
        self._alike: dict[tuple[tree.Expression, object], bool] = {}  # expressions share parts: each is compared once

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
        # What waits, signals or branches is reported by its place in the source.
        told = isinstance(one, tree.Operation | ir.Branch | ir.ElectBranch) and not isinstance(one, tree.Assign)
        unsaid = () if told else ("span",)
        return self._fields(one, other, unsaid) or self._numbers(one, other)

    def _symbols(self, one: object, other: object) -> bool:
        if one in self.pairs or other in self._taken:
            return self.pairs.get(one) is other
        self.pairs[one], self._taken[other] = other, one
        return self._fields(one, other, _UNSAID)

    def _fields(self, one: object, other: object, unsaid: Container[str]) -> bool:
        """Of two records of a class."""
        for name in one.__match_args__:  # type: ignore[attr-defined]  # a record
            if name not in unsaid and not self._same(getattr(one, name), getattr(other, name)):
                return False
        return True

    def _numbers(self, one: object, other: object) -> bool:
        """Whether the two are numbers of the same type that are known when a role begins."""
        if not (_is_number(one) and _is_number(other)):
            return False
        assert isinstance(one, tree.Expression) and isinstance(other, tree.Expression)
        if isinstance(one, tree.Constant) or isinstance(other, tree.Constant) or one.type != other.type:
            return False  # a constant decides what code there is
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
