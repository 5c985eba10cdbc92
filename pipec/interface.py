"""The call interface of a compiled kernel: written by the compiler, read by the runtime, the simulator's launcher and reports.

Everything here is plain data, so that it can also be embedded in the PTX text as JSON.
"""

import json
from typing import Any, Final

from pipec.arithmetic import MEANINGS
from pipec.record import fields_of, record
from pipec.vocabulary import BarrierSide, Swizzle

# A launch expression: an int, a name (dimension, scalar parameter or MULTIPROCESSORS), or (operator, operand, ...); see `evaluate`.
LaunchExpression = Any
MULTIPROCESSORS = "gpu.multiprocessors"  # the number of multiprocessors of the GPU that runs the kernel

# Computed by the host; the launch code of bundles has the same operators in C (pipec.bundle.programs).
HOST_OPERATORS: Final = ("+", "-", "*", "//", "%")
HOST_FUNCTIONS: Final = ("min", "max", "ceildiv")


def evaluate(expression: LaunchExpression, bindings: dict[str, int]) -> int:
    """The value of a launch expression under `bindings` (name -> int). Raises ZeroDivisionError and KeyError as Python does."""
    if isinstance(expression, int):
        return expression
    if isinstance(expression, str):
        return bindings[expression]
    operator, *operands = expression
    return int(MEANINGS[operator](*(evaluate(operand, bindings) for operand in operands)))


@record
class TensorArgument:
    """A tensor the caller passes: `shape` holds dimension names or literal sizes, outermost first."""

    name: str
    dtype: str  # a name of pipec.isa.dtypes
    shape: tuple[str | int, ...]
    written: bool
    # How the kernel accesses it: through tensor maps, which require 16-byte strides, or by address.
    through_tensor_map: bool
    through_pointer: bool
    # The kernel writes it only by reductions, or reads it as well: its contents at the launch may affect the result.
    accumulated: bool = False


@record
class ScalarArgument:
    """A scalar the caller passes by value."""

    name: str
    dtype: str


@record
class TensorMapParameter:
    """A 128-byte tensor map over `tensor`, passed by value (64-byte aligned, __grid_constant__).

    `box` is in elements, innermost last (the order of the tensor's shape); `swizzle` is "none", "32B", "64B", "128B" or "128B_ATOM_32B";
    `dtype` is the tensor-map element type. A tensor with fewer than two dimensions gets leading ones.
    """

    symbol: str
    tensor: str
    dtype: str
    box: tuple[int, ...]
    swizzle: Swizzle


@record
class PointerParameter:
    """The 64-bit global address of a tensor's first element."""

    symbol: str
    tensor: str


@record
class StrideParameter:
    """A tensor's stride of dimension `axis`, in elements, as i64."""

    symbol: str
    tensor: str
    axis: int


@record
class DimensionParameter:
    """A launch-bound dimension, as i32."""

    symbol: str
    dimension: str


@record
class ScalarParameter:
    """A scalar argument by value; `dtype` as in ScalarArgument."""

    symbol: str
    scalar: str
    dtype: str


@record
class WatchdogParameter:
    """The 64-bit address of the records that the watchdog writes (pipec.watchdog)."""

    symbol: str


Parameter = TensorMapParameter | PointerParameter | StrideParameter | DimensionParameter | ScalarParameter | WatchdogParameter


@record
class Watchdog:
    """A kernel compiled with bounded waits: the time limit of one, and the data for its reports.

    `sides`: pipeline, roles that produce it, roles that consume it. `file` is the name in the PTX's `.file`.
    """

    nanoseconds: int
    file: str
    sides: tuple[tuple[str, tuple[str, ...], tuple[str, ...]], ...]


@record
class Timestamps:
    """A kernel that records the clock in a tensor of its own, `argument`, before and after the operations in `marks` (pipec.timestamps).

    `marks`: role, operation, source line.
    """

    argument: str
    roles: tuple[str, ...]
    marks: tuple[tuple[str, str, int], ...]


@record
class BarrierRange:
    """The barriers of one side of a pipeline in dynamic shared memory, each expecting `count` arrivals.

    Sub-stage j of stage i is at `offset` + 8 * (i * sub_stages + j).
    """

    pipeline: str
    side: BarrierSide
    stages: int
    offset: int
    count: int
    sub_stages: int = 1


@record
class RoleWarps:
    """The warps first_warp .. first_warp + warps - 1 of the CTA run the role."""

    name: str
    first_warp: int
    warps: int
    registers: int | None


@record
class KernelInterface:
    """Everything that a launcher needs to know about one kernel."""

    name: str
    arguments: tuple[TensorArgument | ScalarArgument, ...]
    parameters: tuple[Parameter, ...]  # in the order of the PTX entry
    grid: tuple[LaunchExpression, LaunchExpression, LaunchExpression]
    cluster: tuple[int, int, int]
    threads: int
    shared_bytes: int  # dynamic shared memory
    tensor_columns: int  # tensor memory allocated
    roles: tuple[RoleWarps, ...]
    barriers: tuple[BarrierRange, ...]
    source: str
    # The launch may start before the preceding grids of the stream have ended: the kernel waits for them itself
    # (griddepcontrol.wait; launch attribute CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION).
    programmatic_launch: bool = False
    watchdog: Watchdog | None = None
    timestamps: Timestamps | None = None
    # Conditions that a launch must satisfy, as formulas of pipec.verify.data, over dimensions, integer scalars and `grid.x` and the like.
    conditions: tuple[Any, ...] = ()


# ------------------------------------------------------------------------------------------------------------------- JSON

_ARGUMENT_KINDS: dict[str, type] = {"tensor": TensorArgument, "scalar": ScalarArgument}
_PARAMETER_KINDS: dict[str, type] = {
    "tensor_map": TensorMapParameter,
    "pointer": PointerParameter,
    "stride": StrideParameter,
    "dimension": DimensionParameter,
    "scalar": ScalarParameter,
    "watchdog": WatchdogParameter,
}


def to_json(interface: KernelInterface) -> str:
    """One line: the fields of KernelInterface, the name as "kernel"; arguments and parameters have a "kind"."""
    row = {"kernel": interface.name, **fields_of(interface)}
    del row["name"]
    if not interface.programmatic_launch:
        del row["programmatic_launch"]
    row["barriers"] = [_barrier_row(barrier) for barrier in interface.barriers]
    row["arguments"] = [_argument_row(argument) for argument in interface.arguments]
    row["parameters"] = [_tagged(parameter, _PARAMETER_KINDS) for parameter in interface.parameters]
    if interface.watchdog is None:
        del row["watchdog"]
    if interface.timestamps is None:
        del row["timestamps"]
    if not interface.conditions:
        del row["conditions"]
    return json.dumps(row, default=fields_of)


def from_json(text: str) -> KernelInterface:
    """The inverse of `to_json`. Raises ValueError, KeyError or TypeError on any other text."""
    row = json.loads(text)
    return KernelInterface(
        name=row["kernel"],
        arguments=tuple(_untagged(argument, _ARGUMENT_KINDS) for argument in row["arguments"]),
        parameters=tuple(_untagged(parameter, _PARAMETER_KINDS) for parameter in row["parameters"]),
        grid=_tuples(row["grid"]),
        cluster=_tuples(row["cluster"]),
        threads=row["threads"],
        shared_bytes=row["shared_bytes"],
        tensor_columns=row["tensor_columns"],
        roles=tuple(RoleWarps(**role) for role in row["roles"]),
        barriers=tuple(BarrierRange(**barrier) for barrier in row["barriers"]),
        source=row["source"],
        programmatic_launch=row.get("programmatic_launch", False),
        watchdog=_watchdog(row.get("watchdog")),
        timestamps=_timestamps(row.get("timestamps")),
        conditions=_tuples(row.get("conditions", [])),
    )


def _argument_row(argument: TensorArgument | ScalarArgument) -> dict[str, Any]:
    """`accumulated` is included only if true."""
    row = _tagged(argument, _ARGUMENT_KINDS)
    if not row.get("accumulated"):
        row.pop("accumulated", None)
    return row


def _timestamps(row: dict[str, Any] | None) -> Timestamps | None:
    return None if row is None else Timestamps(row["argument"], _tuples(row["roles"]), _tuples(row["marks"]))


def _watchdog(row: dict[str, Any] | None) -> Watchdog | None:
    return None if row is None else Watchdog(row["nanoseconds"], row["file"], _tuples(row["sides"]))


def _barrier_row(barrier: BarrierRange) -> dict[str, Any]:
    """Sub-stages are included only if there are several."""
    row = fields_of(barrier)
    if barrier.sub_stages == 1:
        del row["sub_stages"]
    return row


def _tagged(value: Any, kinds: dict[str, type]) -> dict[str, Any]:
    kind = next(kind for kind, type_ in kinds.items() if isinstance(value, type_))
    return {"kind": kind, **fields_of(value)}


def _untagged(row: dict[str, Any], kinds: dict[str, type]) -> Any:
    fields = {key: _tuples(value) for key, value in row.items() if key != "kind"}
    return kinds[row["kind"]](**fields)


def _tuples(value: Any) -> Any:
    return tuple(_tuples(item) for item in value) if isinstance(value, list) else value
