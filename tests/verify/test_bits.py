"""Forms that stand for bits, divisions by multiplication and signs have the values that the machine computes."""

import random

import pytest

from pipec.protocol.forms.sample import evaluate, holds
from pipec.verify.reader.text.operations import Operation, number_of, operation, wrapped
from pipec.verify.reader.values.arithmetic import Arithmetic
from pipec.verify.terms import RANGES, Compare, Linear, Symbol, add, atom, floor

X, Y = Symbol("x"), Symbol("y")
EDGES = (0, 1, -1, 2, -2, 5, 6, -6, 35, -36, 2**30, -(2**30), 2**31 - 1, -(2**31), -(2**31) + 1)


def op(opcode: str) -> Operation:
    found = operation(opcode)
    assert found is not None
    return found


def follow(steps: list[tuple[str, object]], x: int) -> tuple[object, int]:
    """What the reader makes of the steps on x, and what the machine does. A string among operands is the number of a step, "0" is x."""
    arithmetic = Arithmetic({"x": RANGES["s32"], "y": RANGES["s32"]})
    forms: list[object] = [atom(X)]
    numbers: list[int] = [x]
    for opcode, operands in steps:
        operation_ = op(opcode)
        values = [one if isinstance(one, int) else forms[int(one)] for one in operands]  # type: ignore[attr-defined]
        forms.append(arithmetic.apply(operation_, values)[0])
        numbers.append(number_of(operation_)([one if isinstance(one, int) else numbers[int(one)] for one in operands]))  # type: ignore[attr-defined]
    return forms[-1], numbers[-1]


# Divisions by 3, 5, 6, 10 and 9 as compilers write them: the upper half of a product, shifted, and 1 more below 0.
DIVISIONS = ((3, 1431655766, 0), (5, 1717986919, 1), (6, 715827883, 0), (10, 1717986919, 2), (9, 954437177, 1))


@pytest.mark.parametrize(("divisor", "factor", "shift"), DIVISIONS)
def test_a_division_is_known_as_one(divisor: int, factor: int, shift: int) -> None:
    steps = [("mul.hi.s32", ("0", factor)), ("shr.u32", ("1", 31)), ("shr.s32", ("1", shift)), ("add.s32", ("3", "2"))]
    for x in (*EDGES, *(random.Random(divisor).randrange(-(2**31), 2**31) for _ in range(300))):
        form, number = follow(steps, x)
        assert isinstance(form, Linear) and "Apply" not in repr(form)
        assert evaluate(form, {X: x}) == number == abs(x) // divisor * (1 if x >= 0 else -1), x


# By 7, 14, 224 and 23: the factor is 2^31 or more, so the dividend is added once more.
WHOLE = ((7, -1840700269, 2), (14, -1840700269, 3), (224, -1840700269, 7), (23, -1307163959, 4))


@pytest.mark.parametrize(("divisor", "factor", "shift"), WHOLE)
def test_a_division_by_a_large_factor_is_known_as_one(divisor: int, factor: int, shift: int) -> None:
    steps = [
        ("mul.hi.s32", ("0", factor)),
        ("add.s32", ("1", "0")),
        ("shr.u32", ("2", 31)),
        ("shr.s32", ("2", shift)),
        ("add.s32", ("4", "3")),
    ]
    for x in (*EDGES, *(random.Random(divisor).randrange(-(2**31), 2**31) for _ in range(300))):
        form, number = follow(steps, x)
        assert isinstance(form, Linear) and "Apply" not in repr(form)
        assert evaluate(form, {X: x}) == number == abs(x) // divisor * (1 if x >= 0 else -1), x


@pytest.mark.parametrize(("first", "added", "second"), [(6, 0, 32), (3, -7, 64), (11, 5, 16)])
def test_a_quotient_of_a_quotient_is_one_division(first: int, added: int, second: int) -> None:
    """By 192 compilers divide as by 6 and then by 32; the size is asked for by one division."""
    x = atom(X)
    form = floor(add(floor(x, first), Linear(added)), second)
    assert repr(form).count("Floor") == 1
    for number in (*EDGES, *range(-200, 200)):
        assert evaluate(form, {X: number}) == (number // first + added) // second


@pytest.mark.parametrize("seed", range(60))
def test_a_number_asked_for_without_a_few_of_its_bits_is_one_of_a_few(seed: int) -> None:
    """Compilers make `x & -3 == 1` of `x == 1 or x == 3`."""
    draw = random.Random(seed)
    low, bits = draw.choice((2, 4, 8, 64)), draw.choice((1, 1, 2))
    mask, added, asked = ~(low * (2**bits - 1)), draw.choice((0, 0, 5, -1, 64, -1000)), draw.randrange(-100, 200)
    arithmetic = Arithmetic({"x": RANGES["s32"]})
    form: object = atom(X)
    for opcode, operand in (("add.s32", added), ("and.b32", mask), ("setp.eq.s32", asked)):
        form = arithmetic.apply(op(opcode), [form, operand])[0]  # type: ignore[list-item]
    assert "Floor" not in repr(form)
    for x in (*EDGES, *range(-300, 300)):
        found = bool(form) if isinstance(form, int) else holds(form, {X: x})  # type: ignore[arg-type]
        assert found == (wrapped(x + added, 32) & mask == asked), x


@pytest.mark.parametrize("how", ["lt", "le", "gt", "ge"])
@pytest.mark.parametrize(("less", "most"), [(4, 1), (1, 2), (7, 2**31 - 9), (2**31 - 3, 1)])
def test_a_number_that_is_compared_without_a_sign_lies_between_two(less: int, most: int, how: str) -> None:
    """Compilers make `x - 4 < 2` without signs of `x == 4 or x == 5`: nothing has to hold for it."""
    arithmetic = Arithmetic({"x": RANGES["s32"]})
    form, no_needs = arithmetic.apply(op("add.s32"), [atom(X), -less])
    compared, needs = arithmetic.apply(op(f"setp.{how}.u32"), [form, wrapped(most, 32)])
    assert not no_needs and not needs and "Apply" not in repr(compared) and "Choose" not in repr(compared)
    for x in (*EDGES, *range(-20, 20)):
        distance = (x - less) % 2**32
        machine = {"lt": distance < most, "le": distance <= most, "gt": distance > most, "ge": distance >= most}[how]
        assert (bool(compared) if isinstance(compared, int) else holds(compared, {X: x})) == machine, x  # type: ignore[arg-type]


@pytest.mark.parametrize("seed", range(200))
def test_any_upper_half_and_mask_is_what_the_machine_computes(seed: int) -> None:
    draw = random.Random(seed)
    number = draw.choice((draw.randrange(1, 2**31), 2 ** draw.randrange(31), draw.randrange(1, 100), draw.randrange(-100, 0)))
    first = draw.choice(("mul.hi.s32", "and.b32", "or.b32", "xor.b32"))
    steps: list[tuple[str, object]] = [(first, ("0", number))]
    if first == "mul.hi.s32":
        steps += draw.choice(([], [("shr.u32", ("1", 31))], [("shr.s32", ("1", draw.randrange(31)))]))
    for x in (*EDGES, *(draw.randrange(-(2**31), 2**31) for _ in range(20)), *range(-9, 9)):
        form, expected = follow(steps, x)
        if isinstance(form, int):
            assert form == expected
            continue
        assert isinstance(form, Linear)
        if "Apply" not in repr(form):
            assert wrapped(evaluate(form, {X: x}), 32) == expected, (steps, x)


@pytest.mark.parametrize(("start", "length"), [(0, 8), (4, 3), (31, 1), (0, 32), (24, 8), (5, 0)])
def test_a_bit_field_is_known(start: int, length: int) -> None:
    for x in (*EDGES, *(random.Random(start).randrange(-(2**31), 2**31) for _ in range(50))):
        form, number = follow([("bfe.u32", ("0", start, length))], x)
        assert wrapped(number, 32) == wrapped((x % 2**32 >> start) % 2**length, 32)
        known = form if isinstance(form, int) else evaluate(form, {X: x})  # type: ignore[arg-type]
        assert "Apply" not in repr(form) and wrapped(known, 32) == wrapped(number, 32), (x, form)


@pytest.mark.parametrize(("start", "length"), [(0, 8), (4, 3), (31, 1), (0, 32), (24, 8), (5, 0), (2, 29), (0, 31), (1, 30)])
def test_a_signed_bit_field_is_known(start: int, length: int) -> None:
    """Compilers make one of `n * 2 // 8`: the bits below the sign, which is copied."""
    for x in (*EDGES, *(random.Random(start).randrange(-(2**31), 2**31) for _ in range(50))):
        form, number = follow([("bfe.s32", ("0", start, length))], x)
        field = (x % 2**32 >> start) % 2**length
        assert wrapped(number, 32) == (field - 2**length if length and field >> length - 1 else field)
        known = form if isinstance(form, int) else evaluate(form, {X: x})  # type: ignore[arg-type]
        assert "bfe" not in repr(form) and known == wrapped(number, 32), (x, form)


@pytest.mark.parametrize("seed", range(60))
def test_parts_are_shifted_exactly(seed: int) -> None:
    """Masks, bit fields and shifts of sums whose parts have something in common with the divisor, or are larger."""
    draw = random.Random(seed)
    steps: list[tuple[str, object]] = [("shr.s32", ("0", draw.randrange(1, 4)))]
    for number in range(1, 5):
        one, other = draw.choice(("0", str(number))), str(number)
        opcode, operands = draw.choice(
            (
                ("mul.lo.s32", (one, draw.randrange(-9, 10))),
                ("add.s32", (one, other)),
                ("sub.s32", (other, one)),
                ("and.b32", (one, -(1 << draw.randrange(1, 5)))),
                ("shr.s32", (one, draw.randrange(1, 5))),
                ("bfe.s32", (one, draw.randrange(3), draw.randrange(20, 29))),
            )
        )
        steps.append((opcode, operands))
    for x in (*EDGES, *(draw.randrange(-(2**31), 2**31) for _ in range(40))):
        form, number = follow(steps, x)
        known = form if isinstance(form, int) else evaluate(form, {X: x})  # type: ignore[arg-type]
        assert wrapped(known, 32) == wrapped(number, 32), (steps, x)


def test_places_of_blocks_are_in_the_range_that_a_grid_has() -> None:
    assert RANGES["ctaid"] == (0, 2**31 - 2)  # a grid has at most 2^31 - 1 blocks along an axis


@pytest.mark.parametrize("how", ["lt", "ge", "gt", "le"])
@pytest.mark.parametrize("opcode", ["or.b32", "and.b32"])
@pytest.mark.parametrize("bound", [0, -1])
def test_signs_of_two_numbers_at_once(opcode: str, how: str, bound: int) -> None:
    arithmetic = Arithmetic({"x": RANGES["s32"], "y": RANGES["s32"]})
    both = arithmetic.apply(op(opcode), [atom(X), atom(Y)])[0]
    condition = arithmetic.apply(op(f"setp.{how}.s32"), [both, bound])[0]
    for x in (-5, -1, 0, 3):
        for y in (-7, -1, 0, 9):
            value = number_of(op(opcode))([x, y])
            expected = {"lt": value < bound, "ge": value >= bound, "gt": value > bound, "le": value <= bound}[how]
            if (how, bound) in (("lt", 0), ("ge", 0), ("gt", -1), ("le", -1)):
                assert not isinstance(condition, Compare) and "Apply" not in repr(condition)
                assert holds(condition, {X: x, Y: y}) is expected  # type: ignore[arg-type]
