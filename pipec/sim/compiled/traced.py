"""Stand-ins for lane values: the operations that a meaning applies to them are emitted as LLVM IR (`operations` has the rules)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NoReturn

import numpy as np

from . import LANES
from .code import Code, NotTraced, element_type, literal, vector_type
from .library import converts_halves
from .runner import IMMEDIATE

# Filled by `operations`: NumPy's functions as LLVM IR.
Row = Callable[..., str]
OPERATIONS: dict[np.ufunc, Row] = {}
FUNCTIONS: dict[Any, Callable[..., Any]] = {}


class Traced(np.lib.mixins.NDArrayOperatorsMixin):
    """Lanes whose values are not known yet. `shape` is the array's."""

    def __init__(self, code: Code, name: str, dtype: np.dtype[Any], shape: tuple[int, ...] = (LANES,)) -> None:
        self.code, self.name, self.dtype, self.shape = code, name, dtype, shape

    @property
    def size(self) -> int:
        return int(np.prod(self.shape))

    @property
    def ndim(self) -> int:
        return len(self.shape)

    @property
    def kind(self) -> str:
        return vector_type(self.dtype, self.size)

    def __bool__(self) -> NoReturn:
        raise NotTraced("a look at values")

    __iter__ = __len__ = __int__ = __float__ = __index__ = __array__ = __bool__

    def __getitem__(self, source: object) -> Traced:
        """The value of another lane, whose number is given per lane."""
        if not isinstance(source, Traced) or self.shape != (LANES,) or source.kind != vector_type(np.dtype(np.int64), LANES):
            raise NotTraced("a part of the lanes")
        code, element = self.code, element_type(self.dtype)
        buffer = code.emit(f"alloca {self.kind}, align 64")
        code.lines.append(f"  store {self.kind} {self.name}, ptr {buffer}, align 64")
        places = code.emit(f"getelementptr {element}, ptr {buffer}, {source.kind} {source.name}")
        name, pointers, all_lanes = (
            f"llvm.masked.gather.v{LANES}i{8 * self.dtype.itemsize}.v{LANES}p0",
            f"<{LANES} x ptr>",
            f"<{LANES} x i1>",
        )
        if self.dtype.kind not in "iu":
            raise NotTraced("other lanes' floating-point numbers")
        code.intrinsics.add(f"declare {self.kind} @{name}({pointers}, i32, {all_lanes}, {self.kind})")
        every = f"{all_lanes} splat (i1 true)"
        return self.made(
            code.emit(f"call {self.kind} @{name}({pointers} {places}, i32 1, {every}, {self.kind} poison)"), self.dtype
        )

    def made(self, name: str, dtype: Any, shape: tuple[int, ...] | None = None) -> Traced:
        return Traced(self.code, name, np.dtype(dtype), shape or self.shape)

    def copy(self) -> Traced:
        return self

    def view(self, dtype: Any) -> Traced:
        dtype = np.dtype(dtype)
        if dtype == self.dtype:
            return self
        if np.bool_ in (dtype, self.dtype) or len(self.shape) > 1:
            raise NotTraced("a view of predicates")
        count = self.size * self.dtype.itemsize // dtype.itemsize
        return self.made(self.code.emit(f"bitcast {self.kind} {self.name} to {vector_type(dtype, count)}"), dtype, (count,))

    def reshape(self, *shape: Any) -> Traced:
        whole = shape[0] if len(shape) == 1 and isinstance(shape[0], tuple) else shape
        return self.made(self.name, self.dtype, np.empty(self.shape, np.uint8).reshape(whole).shape)

    def astype(self, dtype: Any, **_: Any) -> Traced:
        dtype = np.dtype(dtype)
        if dtype == self.dtype:
            return self
        if dtype == np.bool_:
            zero = literal([0] * self.size, self.dtype)
            compared = "fcmp une" if self.dtype.kind == "f" else "icmp ne"
            return self.made(self.code.emit(f"{compared} {self.kind} {self.name}, {zero}"), dtype)
        return self.made(converted(self, dtype), dtype)

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, **options: Any) -> Any:
        row = OPERATIONS.get(ufunc)
        if method == "reduce" and len(inputs) == 1 and options.get("dtype", inputs[0].dtype) == inputs[0].dtype:
            return _reduced(ufunc, inputs[0])
        if method != "__call__" or options or row is None:
            raise NotTraced(f"{ufunc.__name__} {method}")
        weak = [type(one) if type(one) in (int, float) else dtype_of(one) for one in inputs]
        *wanted, result = ufunc.resolve_dtypes((*weak, None))
        shape = np.broadcast_shapes(*(one.shape for one in inputs if isinstance(one, Traced)))
        operands = [lanes_of(self.code, one, dtype, shape) for one, dtype in zip(inputs, wanted, strict=True)]
        return self.made(row(self.code, *operands), result, shape)

    def __array_function__(self, function: Any, types: Any, inputs: Any, options: Any) -> Any:
        row = FUNCTIONS.get(function)
        if row is None or options:
            raise NotTraced(function.__name__)
        return row(self.code, *inputs)


class Offset:
    """An address offset: a constant of the instruction, plus `more`."""

    def __init__(self, more: int = 0) -> None:
        self.more = more

    def __add__(self, more: int) -> Offset:
        return Offset(self.more + more)

    __radd__ = __add__


def dtype_of(value: Any) -> np.dtype[Any]:
    if isinstance(value, Offset):
        return np.dtype(np.int64)
    if isinstance(value, (Traced, np.ndarray, np.generic)):
        return value.dtype
    if isinstance(value, bool):
        return np.dtype(bool)
    raise NotTraced(f"an operand that is a {type(value).__name__}")


def lanes_of(code: Code, value: Any, dtype: np.dtype[Any], shape: tuple[int, ...]) -> Traced:
    """An operand as lanes of a type."""
    if isinstance(value, Traced):
        if value.shape != shape:
            raise NotTraced("lanes of several shapes")
        return value.astype(dtype)
    if isinstance(value, Offset) and not value.more:
        return Traced(code, code.splat(code.constant(IMMEDIATE, 64), "i64"), np.dtype(np.int64), shape)
    values = np.broadcast_to(np.asarray(value).astype(dtype), shape).reshape(-1)
    return Traced(code, literal(list(values), dtype), dtype, shape)


def converted(value: Traced, dtype: np.dtype[Any]) -> str:
    """Converts a value to another type, as NumPy's astype does."""
    old, target = value.dtype, vector_type(dtype, value.size)
    if 2 in (old.itemsize * (old.kind == "f"), dtype.itemsize * (dtype.kind == "f")) and not converts_halves():
        raise NotTraced("f16 without instructions for it")
    if {old.kind, dtype.kind} == {"f"} and {2, 8} == {old.itemsize, dtype.itemsize}:
        if dtype.itemsize == 2:
            raise NotTraced("f64 to f16")
        value = value.astype(np.float32)
        old = value.dtype
    match old.kind, dtype.kind:
        case "b", "i" | "u":
            operation = "zext"
        case "i" | "u", "i" | "u":
            if old.itemsize == dtype.itemsize:
                return value.name
            operation = "trunc" if old.itemsize > dtype.itemsize else "sext" if old.kind == "i" else "zext"
        case "f", "f":
            operation = "fptrunc" if old.itemsize > dtype.itemsize else "fpext"
        case "b" | "i" | "u", "f" if dtype.itemsize > 2:
            operation = "sitofp" if old.kind == "i" else "uitofp"
        case "f", "i" | "u" if old.itemsize > 2:
            # NumPy does not define out-of-range conversions either; callers select another value for such lanes.
            operation = "fptosi" if dtype.kind == "i" else "fptoui"
        case _:
            raise NotTraced(f"{old} to {dtype}")
    return value.code.emit(f"{operation} {value.kind} {value.name} to {target}")


_REDUCTIONS: dict[np.ufunc, str] = {
    np.minimum: "min",
    np.maximum: "max",
    np.add: "add",
    np.bitwise_and: "and",
    np.bitwise_or: "or",
    np.bitwise_xor: "xor",
    np.logical_and: "and",
    np.logical_or: "or",
}


def _reduced(ufunc: np.ufunc, value: Traced) -> Traced:
    """The reduction over all lanes, available in each of them."""
    name, code, kind = _REDUCTIONS.get(ufunc), value.code, value.dtype.kind
    if name is None or kind not in "iub" or value.shape != (LANES,):
        raise NotTraced(f"{ufunc.__name__} of all lanes")
    if name in ("min", "max"):
        name = ("s" if kind == "i" else "u") + name
    element = element_type(value.dtype)
    full = f"llvm.vector.reduce.{name}.v{LANES}{element}"
    code.intrinsics.add(f"declare {element} @{full}({value.kind})")
    found = code.emit(f"call {element} @{full}({value.kind} {value.name})")
    return value.made(code.splat(found, element), value.dtype)


class Elements:
    """The elements that each lane loads or stores: [lanes, elements]."""

    def __init__(self, columns: Sequence[Traced]) -> None:
        self.columns = columns

    def __getitem__(self, place: tuple[slice, int]) -> Traced:
        lanes, number = place
        if lanes != slice(None):
            raise NotTraced("some of the lanes")
        return self.columns[number]
