"""Two f32 operations per instruction (sm_100): each half is rounded like the scalar operation.

A softmax or an epilogue is limited by issue slots, and a pair takes only one. ptxas allocates the halves to adjacent registers, where
loads from tensor memory leave them anyway, so packing and unpacking cost nothing; a half that occurs twice needs only one register.
"""

from collections.abc import Sequence

from pipec.isa.dtypes import DType
from pipec.isa.targets import Target
from pipec.lower.emit.llvm import Builder
from pipec.lower.emit.value import Value

_FIRST_CAPABILITY = 100
OPERATORS = {"+": "fadd", "-": "fsub", "*": "fmul"}
_PAIR = "<2 x float>"


def applies(target: Target, dtype: DType, columns: Sequence[Sequence[Value]]) -> bool:
    """Whether the elements of these operands are computed in pairs: f32, an even number, and not all of them the same."""
    count = len(columns[0])
    repeats = all(column[index] is column[0] for column in columns for index in range(count))
    return target.capability >= _FIRST_CAPABILITY and dtype.name == "f32" and count % 2 == 0 and not repeats


def elementwise(builder: Builder, instruction: str, columns: Sequence[Sequence[Value]]) -> list[Value]:
    """`instruction` on the elements of its operands, two at a time."""
    results: list[Value] = []
    for first in range(0, len(columns[0]), 2):
        pairs = [_join(builder, column[first], column[first + 1]) for column in columns]
        results += _split(builder, _apply(builder, instruction, pairs))
    return results


def _apply(builder: Builder, operation: str, pairs: Sequence[Value]) -> Value:
    if operation != "fma":
        return builder.binary(operation, *pairs)
    return builder.emit(_PAIR, f"call {_PAIR} @llvm.fma.v2f32({', '.join(map(str, pairs))})")


def total(builder: Builder, values: Sequence[Value]) -> Value:
    """The sum of an even number of elements: a tree of pairs, whose halves are added last."""
    pairs = [_join(builder, values[index], values[index + 1]) for index in range(0, len(values), 2)]
    while len(pairs) > 1:
        odd = pairs[len(pairs) // 2 * 2 :]
        pairs = [builder.binary("fadd", pairs[index], pairs[index + 1]) for index in range(0, len(pairs) - 1, 2)] + odd
    return builder.binary("fadd", *_split(builder, pairs[0]))


def _join(builder: Builder, low: Value, high: Value) -> Value:
    """One register pair for each pair of values in a block: LLVM would merge duplicates, but has to parse each one first."""
    found = builder.pairs.get((low.name, high.name))
    if found is None:
        found = builder.pairs[low.name, high.name] = builder.vector([low, high])
    return found


def _split(builder: Builder, pair: Value) -> list[Value]:
    low, high = (builder.element(pair, index, "float") for index in (0, 1))
    builder.pairs[low.name, high.name] = pair
    return [low, high]
