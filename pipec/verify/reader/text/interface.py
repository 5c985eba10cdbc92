"""The interface that pipec writes for a kernel, on the line `// pipec.kernel {json}`: the only place where the reader knows pipec's
conventions.

It provides the launcher's guarantees about parameters (sizes, boxes of tensor maps), and hints: the names of roles, and which barriers
are the stages of one ring. A wrong hint leads to a network that is not proved, never to a wrong proof.
"""

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from math import inf
from types import MappingProxyType
from typing import Any

from pipec.record import field, record
from pipec.verify.conditions import GRID, names_in
from pipec.verify.data import Malformed, formula_of
from pipec.verify.network import Unreadable
from pipec.verify.terms import RANGES, Apply, Both, Compare, Formula, Linear, Symbol, add, atom, choose, floor, scale, substituted

_MARK = "// pipec.kernel "
_MARKED = re.compile(f"{_MARK}[^\\n]*")
# Element sizes in shared memory in bits, by the tensor map's type name.
_BITS = {
    "u8": 8,
    "u16": 16,
    "f16": 16,
    "bf16": 16,
    "u32": 32,
    "s32": 32,
    "f32": 32,
    "tf32": 32,
    "u64": 64,
    "s64": 64,
    "f64": 64,
    "b4x16": 4,
    "b4x16_p64": 4,
    "b6x16_p32": 6,
}
LARGEST_SIZE = (1 << 31) - 1


@record
class Hint:
    """`stages` barriers of 8 bytes from `offset`, one every `step` bytes. `other`: the number of the ring of the same pipeline's other
    side."""

    name: str
    offset: int
    stages: int
    other: int | None
    step: int = 8


@record
class Interface:
    """`boxes`: how many axes a tensor map has, and the bytes delivered by one copy through it. `sizes`: parameters that are dimensions.
    `roles`: name, first warp, warps. `names`: source names of parameters, for messages. `cluster`: as the kernel itself states it, how
    many CTAs along each axis."""

    boxes: dict[str, tuple[int, int]] = field(default_factory=dict)
    sizes: frozenset[str] = frozenset()
    roles: tuple[tuple[str, int, int], ...] = ()
    hints: tuple[Hint, ...] = ()
    grid: tuple[int, int, int] = (LARGEST_SIZE, 65535, 65535)  # maximum number of CTAs along each axis
    names: dict[str, str] = field(default_factory=dict)
    launch: tuple[Linear | None, ...] = (None, None, None)  # exact number of CTAs, if it is linear
    most: tuple[tuple[Linear, ...], ...] = (
        (),
        (),
        (),
    )  # along each axis, what the number of CTAs is no larger than, if it is not exact
    scalars: dict[str, tuple[str, str]] = field(default_factory=dict)  # by name: symbol, type
    conditions: tuple[Formula, ...] = ()  # satisfied by every launch, over names of the source
    unread: dict[str, Symbol] = field(default_factory=dict)  # the sizes in conditions that the kernel itself does not read
    tensors: dict[str, str] = field(
        default_factory=dict
    )  # the tensor of which a parameter is a map, a pointer or a stride; else ""
    cluster: tuple[int, int, int] = (1, 1, 1)

    def blocks(self, axis: str) -> Linear:
        """How many CTAs the grid has along an axis: whole clusters, or it is not launched (PTX ISA, .reqnctapercluster)."""
        if self.cluster == (1, 1, 1):
            return atom(Symbol(f"%nctaid.{axis}"))
        return scale(atom(Symbol(f"%nclusterid.{axis}")), self.cluster["xyz".index(axis)])

    def role(self, warp: int) -> str:
        return next((name for name, first, count in self.roles if first <= warp < first + count), f"warp {warp}")


def facts_of(interface: Interface, parameters: Mapping[str, str]) -> tuple[Formula, ...]:
    """The conditions on values available in the kernel, in terms of its symbols. `parameters`: their types, by symbol."""
    values: dict[Symbol, Linear] = {Symbol(here): interface.blocks(axis) for here, axis in zip(GRID, "xyz", strict=True)}
    values |= {Symbol(interface.names[symbol]): atom(Symbol(symbol)) for symbol in interface.sizes if symbol in parameters}
    values |= {Symbol(name): atom(symbol) for name, symbol in interface.unread.items()}
    for name, (symbol, dtype) in interface.scalars.items():
        if form := _scalar(symbol, dtype, parameters.get(symbol, "")):
            values[Symbol(name)] = form
    known = {symbol.name for symbol in values}
    not_negative = (Compare("ge", atom(symbol)) for symbol in interface.unread.values())
    # (The kernel may not read all that a condition is about, but of what is joined by `and` each part holds by itself.)
    told = [one for one in _parts(interface.conditions) if {*names_in(one)} <= known]
    return (*(substituted(one, values) for one in told), *not_negative)


def _parts(conditions: Iterable[Formula]) -> Iterator[Formula]:
    for one in conditions:
        yield from _parts(one.parts) if isinstance(one, Both) else (one,)


def signed_as_declared(dtype: str, kind: str) -> bool:
    """Whether a scalar's symbol represents a signed number although the parameter's type has no sign: a register with all its bits can
    be interpreted either way."""
    return dtype in ("i32", "i64") and kind[1:] == dtype[1:]


def checked_by_launch(interface: Interface, parameters: Mapping[str, str]) -> frozenset[str]:
    """The symbols that a launch condition can restrict."""
    kinds = [(symbol, dtype, parameters.get(symbol, "")) for symbol, dtype in interface.scalars.values()]
    return interface.sizes.union(symbol for symbol, dtype, kind in kinds if signed_as_declared(dtype, kind) or dtype == kind)


def _scalar(symbol: str, dtype: str, kind: str) -> Linear | None:
    """The value of a scalar; its symbol represents the bits as interpreted by the parameter's type, or by the source."""
    signed, width = dtype[:1] == "i", dtype[1:]
    if dtype[:1] not in ("i", "u") or kind[1:] != width or not width.isdigit():
        return None
    form, all_ = atom(Symbol(symbol)), 1 << int(width)
    if signed_as_declared(dtype, kind):
        return form
    match signed, kind[0] in "sb":
        case True, False:
            return choose(Compare("ge", add(form, Linear(-(all_ >> 1)))), add(form, Linear(-all_)), form)
        case False, True:
            return choose(Compare("ge", form), form, add(form, Linear(all_)))
        case _:
            return form


def without_interfaces(ptx: str) -> str:
    """The text without interface lines."""
    return _MARKED.sub("", ptx)


def interface_of(ptx: str, kernel: str, parameters: Mapping[str, str] = MappingProxyType({})) -> Interface:
    """The interface of a kernel; an empty one for PTX that pipec did not write. `parameters`: their types in the text, by symbol."""
    described: Interface | None = None
    at = ptx.find(_MARK)
    while at >= 0:
        end = ptx.find("\n", at)
        line = ptx[at + len(_MARK) : end if end >= 0 else len(ptx)]
        try:
            found = json.loads(line)
            mine = isinstance(found, dict) and found.get("kernel") == kernel
            # The launcher must see the same: a single description, at the start of a line.
            if mine and (described is not None or ptx[at - 1 : at] not in ("", "\n")):
                raise Unreadable(ptx.count("\n", 0, at) + 1, "the kernel is described twice, or in the middle of a line")
            if mine and parameters and not _fits(found["parameters"], parameters):
                raise Unreadable(ptx.count("\n", 0, at) + 1, "the kernel is described with other parameters than it has")
            described = _interface(found, parameters) if mine else described
        except (ValueError, LookupError, TypeError, AttributeError, ArithmeticError, RecursionError, Malformed) as error:
            raise Unreadable(ptx.count("\n", 0, at) + 1, "the line that describes the kernel is damaged") from error
        at = ptx.find(_MARK, at + 1)
    return described or Interface()


def _fits(rows: list[dict[str, Any]], parameters: Mapping[str, str]) -> bool:
    """Whether a launch, which gives values to the first parameters in the order of the rows, gives each to the one that the row names.
    (A dimension has 32 bits; of a scalar of another width nothing is known: see `_scalar`.)"""
    dimensions = [parameters.get(row["symbol"], "") for row in rows if row["kind"] == "dimension"]
    return [row["symbol"] for row in rows] == [*parameters][: len(rows)] and all(kind[1:] == "32" for kind in dimensions)


Bounds = tuple[float, float]
_ANYTHING: Bounds = (-inf, inf)


def _between(expression: Any, known: Mapping[str, Bounds]) -> Bounds:
    """Between which numbers a launch expression lies. `known`: by name, sizes and parameters. (A parameter may be negative.)"""
    if isinstance(expression, int):
        return expression, expression
    match expression:
        case str(name):
            return known.get(name, _ANYTHING)
        case ["ceildiv" | "//" as operator, one, int(divisor)] if divisor > 0:
            more = divisor - 1 if operator == "ceildiv" else 0
            low, high = _between(one, known)
            return low if low == -inf else (low + more) // divisor, high if high == inf else (high + more) // divisor
        case [str(operator), one, other] if operator in _COMBINED:
            return _COMBINED[operator](_between(one, known), _between(other, known))
        case _:
            return _ANYTHING


def _ends(found: dict[str, Any]) -> dict[str, Bounds]:
    """Between which numbers the sizes of tensors and the parameters lie, by name: also those that the kernel itself does not read."""
    sizes = {row["dimension"] for row in found["parameters"] if row["kind"] == "dimension"}
    ends: dict[str, Bounds] = dict.fromkeys(("gpu.multiprocessors", *map(str, sizes)), (0, LARGEST_SIZE))
    for row in found.get("arguments", []):
        if row["kind"] == "scalar":
            ends[str(row["name"])] = RANGES.get(str(row["dtype"]).replace("i", "s"), _ANYTHING)
        else:
            ends.update(dict.fromkeys(map(str, row["shape"]), (0, LARGEST_SIZE)))
    return ends


def _multiplied(one: Bounds, other: Bounds) -> Bounds:
    # (In floating point, zero times infinity is NaN.)
    corners = [left * right if left and right else 0 for left in one for right in other]
    return min(corners), max(corners)


_COMBINED: dict[str, Callable[[Bounds, Bounds], Bounds]] = {
    "+": lambda one, other: (one[0] + other[0], one[1] + other[1]),
    "-": lambda one, other: (one[0] - other[1], one[1] - other[0]),
    "*": _multiplied,
    "min": lambda one, other: (min(one[0], other[0]), min(one[1], other[1])),
    "max": lambda one, other: (max(one[0], other[0]), max(one[1], other[1])),
}


def _exactly(expression: Any, symbols: dict[str, Symbol]) -> Linear | None:
    """A launch expression as a form over sizes and scalars; None if it is not linear."""
    match expression:
        case int(number):
            return Linear(number)
        case str(name):
            return atom(symbols[name]) if name in symbols else None
        case [str(sign), one, other]:
            left, right = _exactly(one, symbols), _exactly(other, symbols)
            return None if left is None or right is None else _combined(sign, left, right)
        case _:
            return None


def _at_most(expression: Any, symbols: dict[str, Symbol], ends: Mapping[str, Bounds]) -> Iterator[Linear]:
    """Forms than which a launch expression is no larger: of the smaller one of two numbers each of them; products that fit in 64 bits."""
    match expression:
        case ["min", one, other]:
            yield from _at_most(one, symbols, ends)
            yield from _at_most(other, symbols, ends)
        case ["*", one, other]:
            left, right = _exactly(one, symbols), _exactly(other, symbols)
            if left is None or right is None or not (left.terms and right.terms):
                return
            low, high = _between(expression, ends)
            if RANGES["s64"][0] <= low and high <= RANGES["s64"][1]:
                yield atom(Apply("mul.lo.s64", (left, right)))
        case _:
            exact = _exactly(expression, symbols)
            if exact is not None and exact.terms:
                yield exact


def _combined(sign: str, left: Linear, right: Linear) -> Linear | None:
    if sign in ("+", "-"):
        return add(left, right, 1 if sign == "+" else -1)
    if sign == "*" and not (left.terms and right.terms):
        return scale(left, right.constant) if not right.terms else scale(right, left.constant)
    if sign in ("//", "ceildiv") and not right.terms and right.constant > 0:
        return floor(add(left, Linear(right.constant - 1 if sign == "ceildiv" else 0)), right.constant)
    return None


def _interface(found: dict[str, Any], parameters: Mapping[str, str]) -> Interface:
    boxes, sizes, names, scalars = {}, set(), dict[str, str](), dict[str, tuple[str, str]]()
    tensors = {str(row["symbol"]): str(row.get("tensor", "")) for row in found["parameters"]}
    for row in found["parameters"]:
        if row["kind"] == "tensor_map":
            boxes[str(row["symbol"])] = len(row["box"]), _bytes(row)
        elif row["kind"] == "dimension":
            sizes.add(str(row["symbol"]))
            names[str(row["symbol"])] = str(row["dimension"])
        elif row["kind"] == "scalar":
            names[str(row["symbol"])] = str(row["scalar"])
            scalars[str(row["scalar"])] = str(row["symbol"]), str(row["dtype"])
    roles = tuple((str(row["name"]), int(row["first_warp"]), int(row["warps"])) for row in found["roles"])
    hints = _hints(found["barriers"])
    conditions = tuple(formula_of(one) for one in found.get("conditions", []))
    ends = _ends(found)
    most = [_between(one, ends)[1] for one in found["grid"]]
    grid = tuple(int(min(limit, max(one, 1))) for limit, one in zip((LARGEST_SIZE, 65535, 65535), most, strict=True))
    dimensions = {names[symbol]: Symbol(symbol) for symbol in sizes}
    # The symbol of a scalar is its value if the text reads exactly its bits.
    values = {
        name: Symbol(symbol)
        for name, (symbol, dtype) in scalars.items()
        if dtype == "i32" and signed_as_declared(dtype, parameters.get(symbol, ""))
    }
    asked = dict.fromkeys(name for one in conditions for name in names_in(one))
    shapes = {str(size) for row in found.get("arguments", []) for size in row.get("shape", ())}
    # What an `assume` says of a size may say how many blocks there are, also if no thread needs the size.
    unread = {name: Symbol(f"size {name}") for name in asked if name in shapes and name not in dimensions}
    symbols = dimensions | unread | values
    launch = tuple(_exactly(one, symbols) for one in found["grid"])
    most_blocks = tuple(
        tuple(_at_most(one, symbols, ends)) if exact is None else () for one, exact in zip(found["grid"], launch, strict=True)
    )
    return Interface(
        boxes,
        frozenset(sizes),
        roles,
        hints,
        grid=(grid[0], grid[1], grid[2]),
        names=names,
        scalars=scalars,
        conditions=conditions,
        unread=unread,
        launch=launch,
        most=most_blocks,
        tensors=tensors,
    )


def _hints(barriers: list[dict[str, Any]]) -> tuple[Hint, ...]:
    """A ring for each sub-stage of a side; the same sub-stage of the other side, if it has as many, is its partner."""
    rows: dict[tuple[str, str, int], tuple[int, int, int]] = {}
    for row in barriers:
        subs = int(row.get("sub_stages", 1))
        if not (0 < int(row["stages"]) <= 4096 and 0 < subs <= 4096):
            return ()
        for sub in range(subs):
            rows[str(row["pipeline"]), str(row["side"]), sub] = int(row["offset"]) + 8 * sub, int(row["stages"]), 8 * subs
    numbers = {key: number for number, key in enumerate(rows)}
    turned = {"full": "empty", "empty": "full"}
    return tuple(
        Hint(f"{pipeline}.{side}", offset, stages, numbers.get((pipeline, turned.get(side, ""), sub)), step)
        for (pipeline, side, sub), (offset, stages, step) in rows.items()
    )


def _bytes(row: dict[str, Any]) -> int:
    elements = 1
    for extent in row["box"]:
        elements *= int(extent)
    return elements * _BITS[str(row["dtype"])] // 8
