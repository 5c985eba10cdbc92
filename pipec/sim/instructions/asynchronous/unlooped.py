"""Each `mbarrier.try_wait` whose failure the text does not obviously answer by testing again.

It may fail although the phase would be complete soon. Where a program takes no notice of that, as if it were a wait, it goes on too early.
Here such a test fails once, so that what follows a failure is executed as well.
"""

from __future__ import annotations

from collections.abc import Sequence

from ...ptx.tree import Immediate, Instruction, Negated, Operand, Register

_WAIT = "mbarrier.try_wait"  # what is taken for a wait; `test_wait` looks, and the next instruction takes note of what it saw
_TESTS = (_WAIT, "mbarrier.test_wait")
_MOST = 64  # instructions from a test to its repetition
_UNKNOWN = None
Values = dict[int, int | None]


def unlooped_tests(items: Sequence[Instruction], successors: Sequence[Sequence[int]]) -> frozenset[int]:
    """Each `try_wait`, by number, from whose failure no path that is known leads back to it, or to other tests of the same mbarrier again
    and again."""
    tests = [index for index, item in enumerate(items) if item.opcode.startswith(_TESTS)]
    following = {index: _next_test(index, items, successors) for index in tests}
    return frozenset(index for index in tests if items[index].opcode.startswith(_WAIT) and not _for_ever(index, following))


def _for_ever(test: int, following: dict[int, int | None]) -> bool:
    at: int | None = test
    for _ in range(len(following)):
        at = following.get(at) if at is not None else None
    return at is not None


def _next_test(start: int, items: Sequence[Instruction], successors: Sequence[Sequence[int]]) -> int | None:
    """The test that follows where this one fails, of the same mbarrier; itself where a trap does."""
    tested, values = items[start].operands[0], Values()
    if not isinstance(tested, Register):
        return None
    values[tested.index] = 0
    index: int | None = start + 1
    for _ in range(_MOST):
        if index is None or index >= len(items):
            return None
        item = items[index]
        if item.opcode.startswith(_TESTS) and item.operands[1:] == items[start].operands[1:]:
            return index
        if item.root == "trap":
            return start
        runs = 1 if item.guard is None else _guard(item, values)
        if item.root in ("bra", "brx"):
            index = _following(index, item, runs, successors)
            continue
        if item.root in ("ret", "exit"):
            return None
        if runs != 0:
            _execute(item, values, runs is _UNKNOWN)
        index += 1
    return None


def _guard(item: Instruction, values: Values) -> int | None:
    assert item.guard is not None
    value = values.get(item.guard.register.index)
    return value if value is _UNKNOWN else value ^ item.guard.negated


def _following(index: int, item: Instruction, runs: int | None, successors: Sequence[Sequence[int]]) -> int | None:
    """The next instruction; None if it is not known."""
    following = successors[index]
    if item.root == "brx" or not following:
        return None
    if len(set(following)) == 1:
        return following[0]
    return None if runs is _UNKNOWN else following[0] if runs else index + 1


def _execute(item: Instruction, values: Values, perhaps: bool) -> None:
    if not item.operands or not isinstance(item.operands[0], Register):
        return
    given = [_value(operand, values) for operand in item.operands[1:]]
    values[item.operands[0].index] = _UNKNOWN if perhaps else _result(item, given)


def _value(operand: Operand | int, values: Values) -> int | None:
    match operand:
        case Immediate(value=value, float_bits=0):
            return value
        case Register():
            return values.get(operand.index)
        case Negated(operand=Register() as inner):
            inverted = values.get(inner.index)
            return inverted if inverted is _UNKNOWN else 1 - inverted
    return _UNKNOWN


def _result(item: Instruction, given: Sequence[int | None]) -> int | None:
    """What compilers make of a predicate until they branch: numbers, comparisons with 0, and predicates again."""
    match item.root, given:
        case (("mov" | "cvt"), [one]):
            return one
        case "selp", [one, other, int() as chosen]:
            return one if chosen else other
        case "setp", [int() as one, int() as other] if item.opcode.startswith(("setp.eq.", "setp.ne.")):
            return int((one == other) == item.opcode.startswith("setp.eq."))
        case "not", [int() as one] if item.opcode == "not.pred":
            return 1 - one
        case "xor", [int() as one, int() as other]:
            return one ^ other
        case "and", [int() as one, int() as other]:
            return one & other
        case "and", [0, _] | [_, 0]:
            return 0
        case "or", [int() as one, int() as other]:
            return one | other
    return _UNKNOWN
