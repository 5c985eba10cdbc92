"""The functions of `numpy:` lines, one row each: how it is called, what its operands must be, and its bounded value."""

import itertools
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import numpy as np

from pipec.isa.scaling import CHUNK_BYTES, CHUNK_ROWS, CHUNK_SCALES
from pipec.reference import choices, copies
from pipec.reference.arithmetic import ARITHMETIC, TANH_APPROX, Arithmetic
from pipec.reference.bounded import MOST_NUMBERS, Bounded, bounded
from pipec.reference.packed_arrays import scaled
from pipec.reference.problem import ReferenceProblem
from pipec.reference.shapes import fitting, listed
from pipec.sema.language.functions import FUNCTIONS

_UNARY, _AXIS, _AXES = "x", "x, *, axis=None", "x, *, axis=None, keepdims=False"


@dataclass(frozen=True, slots=True)
class Function:
    """`signature`: its parameters as Python writes them; their names say what each takes (pipec.reference.arguments). `ranks`: the least
    number of dimensions of an operand, for those that are not any. `elementwise`: the shapes of the operands fit each other.
    `several_axes`: `axis` may be a tuple. `advice`: what is written for a call with too many operands."""

    name: str
    signature: str
    value: Callable[..., Bounded]
    ranks: Mapping[str, int] = field(default_factory=dict)
    elementwise: bool = False
    several_axes: bool = False
    advice: str = ""

    @property
    def shown(self) -> str:
        return f"{self.name}({self.signature})"


def functions(arithmetic: Arithmetic) -> dict[str, Function]:
    """The functions by name. Monotone element functions need only their row."""
    numbers = {row.name: arithmetic.element_function(row) for row in FUNCTIONS.values() if row.monotone}
    numbers |= {name: arithmetic.logarithm(getattr(np, name)) for name in ("log", "log2")}
    numbers |= {name: arithmetic.to_whole(of) for name, of in (("floor", np.floor), ("ceil", np.ceil), ("round", np.rint))}
    numbers |= {name: arithmetic.circular(name) for name in ("sin", "cos")}
    numbers |= {
        "sqrt": arithmetic.monotone(np.sqrt, ARITHMETIC),
        "tanh_approx": arithmetic.monotone(np.tanh, TANH_APPROX),
        "abs": arithmetic.abs,
        "erf": arithmetic.erf,
        "gelu": arithmetic.gelu,
        "relu": choices.relu,
    }
    pairs = {"maximum": choices.maximum, "minimum": choices.minimum, "fmax": choices.fmax, "fmin": choices.fmin}
    rows = (
        *(Function(name, _UNARY, value) for name, value in numbers.items()),
        *(Function(name, "a, b", value, elementwise=True) for name, value in pairs.items()),
        Function("where", "condition, yes, no", choices.where, elementwise=True),
        Function("clip", "x, low, high", choices.clip, elementwise=True),
        Function("sum", _AXES, arithmetic.sum, several_axes=True),
        Function("max", _AXES, choices.max, several_axes=True, advice="; of two values it is `maximum(a, b)`"),
        Function("min", _AXES, choices.min, several_axes=True, advice="; of two values it is `minimum(a, b)`"),
        Function("argmax", _AXIS, choices.argmax),
        Function("argmin", _AXIS, choices.argmin),
        Function("cumsum", _AXIS, arithmetic.cumsum),
        Function("softmax", "x, causal=None", arithmetic.softmax, {"x": 1}),
        Function("causal", "x, applied", arithmetic.causal, {"x": 2}),
        Function("block_scale", "x, scales, rows, columns", _Scaling(arithmetic).by_blocks, {"x": 2, "scales": 2}),
        Function("scaled", "operand, chunks, block", _Scaling(arithmetic).by_chunks, {"operand": 2, "chunks": 3}),
        Function("grouped", "a, b, begins, rest=None", _Groups(arithmetic).product, {"a": 2, "b": 3, "begins": 1}),
        Function("offsets", "*sizes", offsets),
        Function("arange", "count", arange),
        Function("stack", "arrays, *, axis=0", copies.stack),
        Function("concatenate", "arrays, *, axis=0", copies.concatenate),
        Function("pad", 'x, width, *, mode="constant", constant_values=0', copies.pad, {"x": 1}),
        Function("roll", "x, shift, *, axis=None", copies.roll),
    )
    return {row.name: row for row in rows}


def arange(count: int) -> Bounded:
    """0 to count - 1: numbers of rows, columns or keys, to compare them or to index with."""
    return bounded(np.arange(count))


def offsets(*sizes: Bounded) -> Bounded:
    """The starts of consecutive runs of these sizes, and the end of the last one."""
    return bounded(np.cumsum([0.0, *(float(size.value) for size in sizes)]))


@dataclass(frozen=True, slots=True)
class _Scaling:
    arithmetic: Arithmetic

    def by_blocks(self, x: Bounded, scales: Bounded, rows: int, columns: int) -> Bounded:
        """Each block of `rows` x `columns` elements of the last two axes times its scale."""
        *outer, height, width = x.value.shape
        found = scales.value.shape[-2] * rows, scales.value.shape[-1] * columns
        if found[0] < height or found[1] < width:
            raise ReferenceProblem(
                f"`block_scale`: scales of shape {scales.value.shape} for blocks of {rows} x {columns} elements reach to {found[0]} x "
                f"{found[1]} elements, and the array has {height} x {width}"
            )
        fitting((tuple(outer), scales.value.shape[:-2]))

        def spread(factors: np.ndarray) -> np.ndarray:
            # The blocks that are used first: what lies behind them may be large.
            used = factors[..., : -(-height // rows), : -(-width // columns)]
            return np.repeat(np.repeat(used, rows, axis=-2), columns, axis=-1)[..., :height, :width]

        return self.arithmetic.multiply(x, Bounded(spread(scales.value), spread(scales.error)))

    def by_chunks(self, operand: Bounded, chunks: Bounded, block: int) -> Bounded:
        """The products of elements and scale factors are exact."""
        shape, of = operand.value.shape, chunks.value.shape
        if of[-1] != CHUNK_BYTES:
            raise ReferenceProblem(
                f"`scaled`: the last axis of scale factors is one chunk of {CHUNK_BYTES}, and here it has {of[-1]}"
            )
        rows, depth = of[-3] * CHUNK_ROWS, of[-2] * CHUNK_SCALES * block
        if rows < shape[-2] or depth < shape[-1]:
            raise ReferenceProblem(
                f"`scaled`: {of[-3]} x {of[-2]} chunks are for {rows} rows and, by blocks of {block}, {depth} columns, and the operand has "
                f"{shape[-2]} x {shape[-1]}"
            )
        fitting((shape[:-2], of[:-3]))
        return bounded(scaled(operand.value, chunks.value, block), scaled(operand.error, np.abs(chunks.value), block))


@dataclass(frozen=True, slots=True)
class _Groups:
    arithmetic: Arithmetic

    def product(self, a: Bounded, b: Bounded, begins: Bounded, rest: Bounded | None = None) -> Bounded:
        """Rows begins[g] to begins[g + 1] of `a` times the transposed b[g]; rows without a group are those of `rest`, or zeros."""
        self._check(a, b, begins)
        shape = a.value.shape[0], b.value.shape[1]
        rest = rest or bounded(0.0)
        if fitting((shape, rest.value.shape)) != shape:
            raise ReferenceProblem(f"`grouped` gives the shape {shape}, and what it leaves has {listed([rest.value.shape])}")
        out, error = (np.array(np.broadcast_to(part, shape)) for part in (rest.value, rest.error))
        for group, (first, last) in enumerate(itertools.pairwise(begins.value.astype(int))):
            rows = Bounded(a.value[first:last], a.error[first:last])
            product = self.arithmetic.matmul(rows, Bounded(b.value[group].T, b.error[group].T))
            out[first:last], error[first:last] = product.value, product.error
        return bounded(out, error)

    def _check(self, a: Bounded, b: Bounded, begins: Bounded) -> None:
        ranks = tuple(one.value.ndim for one in (a, b, begins))
        if ranks != (2, 3, 1):
            raise ReferenceProblem(
                f"`grouped` takes arrays of 2, 3 and 1 dimensions, rows, matrices and begins, and these have {ranks}"
            )
        if a.value.shape[1] != b.value.shape[2]:
            raise ReferenceProblem(f"`grouped`: rows of {a.value.shape[1]} elements times matrices of {b.value.shape[2]} columns")
        groups = len(begins.value) - 1
        if groups > len(b.value):
            raise ReferenceProblem(
                f"`grouped`: {groups + 1} begins are those of {groups} groups, and there are {len(b.value)} matrices"
            )
        if not begins.whole.all() or (begins.value < 0).any() or (begins.value > MOST_NUMBERS).any():
            raise ReferenceProblem(f"`grouped`: groups begin at whole numbers from 0 to {MOST_NUMBERS}")
