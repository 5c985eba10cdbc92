"""The kernel's parameters and launch configuration, derived from what its code accesses."""

from collections.abc import Iterator, Mapping

from pipec.interface import (
    BarrierRange,
    DimensionParameter,
    KernelInterface,
    LaunchExpression,
    Parameter,
    PointerParameter,
    RoleWarps,
    ScalarArgument,
    ScalarParameter,
    StrideParameter,
    TensorArgument,
    TensorMapParameter,
)
from pipec.kir.clusters import Line, line
from pipec.kir.global_memory.accesses import RoleAccesses
from pipec.kir.global_memory.counters import counters_in_range
from pipec.kir.global_memory.starts import starts_in_range
from pipec.kir.ir import Kernel
from pipec.kir.plan.memory import MOST_BOX_ELEMENTS, SharedPlan
from pipec.kir.plan.roles import expressions, operations
from pipec.kir.plan.scales import element_type, scale_box, stored_bits, unpacked_tiles
from pipec.kir.plan.steps import steps_in_range
from pipec.kir.plan.types import PANEL_ALIGNMENT, RolePlan, SideSignals, Staging, TileLayout, TmaPlan
from pipec.sema import tree
from pipec.sema.tree import Buffer, Pipeline, TensorParameter
from pipec.verify.conditions import condition_data
from pipec.verify.terms import Formula
from pipec.vocabulary import BARRIER_SIDE, Side, Swizzle

Symbols = dict[tuple[str, str, int], str]
Copies = dict[tree.TmaLoad | tree.TmaStore, TmaPlan]
Stored = dict[tree.Store, dict[TileLayout, TmaPlan]]


class _Parameters:
    """Collects the parameters that the code needs; each once, tensor maps first."""

    def __init__(self, kernel: Kernel) -> None:
        self.kernel = kernel
        self.maps: dict[tuple[str, tuple[int, ...], str, str], TensorMapParameter] = {}
        self.plain: dict[tuple[str, str, int], Parameter] = {}

    def tensor_map(self, tensor: TensorParameter, box: tuple[int, ...], swizzle: Swizzle, element: str) -> str:
        key = (tensor.name, box, swizzle, element)
        # A tensor has one map for each box and swizzle it is copied with: both are properties of the map, not of the instruction.
        if key not in self.maps:
            same = sum(1 for row in self.maps.values() if row.tensor == tensor.name)
            # The number precedes the name: a name that ends in a number may belong to another tensor.
            symbol = f"{self.kernel.name}_map{same + 1 if same else ''}_{tensor.name}"
            self.maps[key] = TensorMapParameter(symbol, tensor.name, element, box, swizzle)
        return self.maps[key].symbol

    def address(self, tensor: TensorParameter) -> None:
        """Pointer, strides and sizes of a tensor that threads access by address."""
        name = self.kernel.name
        self.plain["pointer", tensor.name, 0] = PointerParameter(f"{name}_ptr_{tensor.name}", tensor.name)
        # The innermost dimension is contiguous, which the launcher requires of every array.
        for axis in range(len(tensor.shape) - 1):
            self.plain["stride", tensor.name, axis] = StrideParameter(f"{name}_stride_{tensor.name}_{axis}", tensor.name, axis)
        for size in tensor.shape:
            if isinstance(size, str):
                self.dimension(size)

    def dimension(self, name: str) -> None:
        self.plain["dimension", name, 0] = DimensionParameter(f"{self.kernel.name}_dim_{name}", name)

    def scalar(self, parameter: tree.ScalarParameter) -> None:
        symbol = f"{self.kernel.name}_scalar_{parameter.name}"
        self.plain["scalar", parameter.name, 0] = ScalarParameter(symbol, parameter.name, parameter.type.name)

    def ordered(self) -> tuple[Parameter, ...]:
        kinds = ("pointer", "stride", "dimension", "scalar")
        plain = sorted(self.plain, key=lambda key: kinds.index(key[0]))  # stable: in order of first use
        return (*self.maps.values(), *(self.plain[key] for key in plain))


def plan_parameters(
    kernel: Kernel, layouts: Mapping[Buffer, TileLayout], staging: Mapping[tree.Store, Staging]
) -> tuple[tuple[Parameter, ...], Symbols, Copies, Stored]:
    wanted = _Parameters(kernel)
    tma: Copies = {}
    stored: Stored = {}
    unpacked = unpacked_tiles(kernel)
    for role in kernel.roles:
        for operation in operations(role):
            match operation:
                case tree.TmaLoad(destination, source, multicast=axis):
                    shared = None if axis is None else line(kernel.cluster, axis, destination.handle.pipeline.cta_group)
                    tma[operation] = _tile_copy(
                        wanted, source.tensor, destination.buffer, layouts, unpacked, shared, destination.part
                    )
                case tree.TmaStore(destination, source):
                    tma[operation] = _tile_copy(wanted, destination.tensor, source.buffer, layouts, unpacked)
                case tree.Store() if operation.path == "tma":
                    tensor = operation.destination.tensor
                    used = dict.fromkeys(panel.layout for panel in staging[operation].panels)
                    stored[operation] = {layout: _tma(wanted, tensor, layout) for layout in used}
                    # Threads store the rows of a partial tile.
                    if operation.rows is not None:
                        wanted.address(operation.destination.tensor)
                case _ if operation.effects.memory is not None:
                    wanted.address(operation.effects.memory.place.tensor)
                case _:
                    pass
        for node in expressions(role):
            match node:
                case tree.ReadTensor() | tree.ReadElement():
                    wanted.address(node.source.tensor)
                case tree.ReadDimension():
                    wanted.dimension(node.name)
                case tree.ReadParameter():
                    wanted.scalar(node.parameter)
                case _:
                    pass
    symbols = {key: row.symbol for key, row in wanted.plain.items()}
    return wanted.ordered(), symbols, tma, stored


def _tile_copy(
    wanted: _Parameters,
    tensor: TensorParameter,
    buffer: Buffer,
    layouts: Mapping[Buffer, TileLayout],
    unpacked: set[Buffer],
    shared: Line | None = None,
    part: tuple[int, int] | None = None,
) -> TmaPlan:
    layout = layouts[buffer]
    if buffer.dtype.is_scale:
        symbol = wanted.tensor_map(tensor, scale_box(buffer, len(tensor.shape)), "none", element_type(tensor.dtype, False))
        return TmaPlan(symbol, layout, layout.rows, 1, layout.span_bytes)
    return _tma(wanted, tensor, layout, stored_bits(buffer, unpacked), shared, part)


def _tma(
    wanted: _Parameters, tensor: TensorParameter, layout: TileLayout, bits: int | None = None, shared: Line | None = None,
    of_rows: tuple[int, int] | None = None,
) -> TmaPlan:  # fmt: skip
    """`bits` is the size of a stored element, if different from the tensor's. The CTAs of `shared` copy a part each. `of_rows`: the first
    row and the number of rows that are copied, if not all."""
    first, count = of_rows or (0, layout.rows)
    part = count // shared.count if shared else count
    rows = box_rows(part, layout.span_bytes)
    assert rows is not None, "pipec.checks.tiles.shapes lets no such tile pass"
    stored = bits or 8 * tensor.dtype.bytes
    inner = layout.span_bytes * 8 // stored
    box = (*(1,) * (max(2, len(tensor.shape)) - 2), rows, inner)
    symbol = wanted.tensor_map(tensor, box, layout.swizzle, element_type(tensor.dtype, stored > tensor.dtype.bits > 1))
    return TmaPlan(symbol, layout, rows, part // rows, inner, shared, first)


def box_rows(rows: int, span_bytes: int) -> int | None:
    """The largest number of rows per box such that equal boxes cover the tile and each starts at an address TMA can write; None if there
    is none."""
    if rows <= MOST_BOX_ELEMENTS:
        return rows
    fitting = (part for part in range(1, MOST_BOX_ELEMENTS + 1) if rows % part == 0 and part * span_bytes % PANEL_ALIGNMENT == 0)
    return max(fitting, default=None)


def plan_interface(
    kernel: Kernel,
    roles: tuple[RolePlan, ...],
    threads: int,
    signals: Mapping[tuple[Pipeline, Side], SideSignals],
    shared: SharedPlan,
    tensor_columns: int,
    parameters: tuple[Parameter, ...],
    accesses: tuple[RoleAccesses, ...],
) -> KernelInterface:
    barriers = tuple(
        BarrierRange(
            pipeline.name,
            name,
            pipeline.stages,
            shared.barrier_offsets[pipeline, side],
            signals[pipeline, side].count,
            pipeline.sub_stages(side),
        )
        for pipeline in kernel.pipelines
        for side, name in BARRIER_SIDE.items()
    )
    x, y, z = (launch_expression(expression) for expression in kernel.grid)
    return KernelInterface(
        name=kernel.name,
        arguments=_arguments(kernel, parameters),
        parameters=parameters,
        grid=(x, y, z),
        cluster=kernel.cluster.shape,
        threads=threads,
        shared_bytes=shared.bytes,
        tensor_columns=tensor_columns,
        roles=tuple(RoleWarps(row.role.name, row.first_warp, row.role.warps, row.registers) for row in roles),
        barriers=barriers,
        source=kernel.span.source.name,
        programmatic_launch=kernel.programmatic is not None,
        conditions=tuple(map(condition_data, _conditions(kernel, accesses))),
    )


def _conditions(kernel: Kernel, accesses: tuple[RoleAccesses, ...]) -> tuple[Formula, ...]:
    stated = (one.formula for one in kernel.assumptions)
    return tuple(dict.fromkeys((*stated, *counters_in_range(kernel), *starts_in_range(accesses), *steps_in_range(kernel))))


def _arguments(kernel: Kernel, parameters: tuple[Parameter, ...]) -> tuple[TensorArgument | ScalarArgument, ...]:
    mapped = {row.tensor for row in parameters if isinstance(row, TensorMapParameter)}
    addressed = {row.tensor for row in parameters if isinstance(row, PointerParameter)}
    writes = [access for access in _accesses(kernel) if access.writes]
    stores = [access for access in writes if access.engine != "semaphore"]
    written = {store.place.tensor.name for store in stores}
    changed = {access.place.tensor.name for access in writes}
    accumulated = written - {store.place.tensor.name for store in stores if store.reduce is None}
    accumulated |= written & _read(kernel)
    rows: dict[str, TensorArgument | ScalarArgument] = {}
    for tensor in kernel.tensors:
        name = tensor.name
        reached = name in mapped, name in addressed
        rows[name] = TensorArgument(name, tensor.dtype.name, tensor.shape, name in changed, *reached, name in accumulated)
    for scalar in kernel.scalars:
        rows[scalar.name] = ScalarArgument(scalar.name, scalar.type.name)
    order = kernel.parameters or tuple(rows)
    return tuple(rows[name] for name in order)


def _accesses(kernel: Kernel) -> Iterator[tree.GlobalAccess]:
    for role in kernel.roles:
        for operation in operations(role):
            if operation.effects.memory is not None:
                yield operation.effects.memory


def _read(kernel: Kernel) -> set[str]:
    """The tensors from which the kernel loads elements."""
    names = {access.place.tensor.name for access in _accesses(kernel) if not access.writes and access.engine != "semaphore"}
    for role in kernel.roles:
        for node in expressions(role):
            if isinstance(node, tree.ReadTensor | tree.ReadElement):
                names.add(node.source.tensor.name)
    return names


def launch_expression(expression: tree.Expression) -> LaunchExpression:
    """A grid expression as data. The front end allows only these forms in `grid(...)`."""
    match expression:
        case tree.Constant(value):
            return int(value)
        case tree.ReadDimension(name):
            return name
        case tree.ReadParameter(parameter):
            return parameter.name
        case tree.Special(name):
            return name
        case tree.Convert(operand):
            return launch_expression(operand)
        case tree.Unary("-", operand):
            return ("-", 0, launch_expression(operand))
        case tree.Binary(operator, left, right):
            return (operator, launch_expression(left), launch_expression(right))
        case tree.Call(function, arguments):
            return (function, *(launch_expression(argument) for argument in arguments))
        case _:
            raise AssertionError(f"not a launch expression: {expression}")
