"""What the reader makes of machine arithmetic, against numbers: random chains of instructions on symbols whose values are known."""

import random
from hashlib import sha256
from types import SimpleNamespace

import pytest
from verify.interpret import holds, value

from pipec.verify.reader.text.operations import Operation, number_of, operation, wrapped
from pipec.verify.reader.values.arithmetic import Arithmetic
from pipec.verify.reader.values.merged import merged
from pipec.verify.reader.values.values import Lanes
from pipec.verify.terms import (
    Apply,
    Both,
    Choose,
    Compare,
    Either,
    Floor,
    Formula,
    Linear,
    Symbol,
    add,
    atom,
    choose,
    floor,
    is_smaller,
    scale,
    summed,
)

RANGES = {"x": (0, 2**31 - 1), "y": (0, 40), "z": (-(2**31), 2**31 - 1), "w": (1, 7)}
ONE = ("neg.s32", "abs.s32", "not.b32", "cvt.u64.u32", "cvt.s64.s32", "cvt.u32.u64")
TWO = (
    *("add.s32", "sub.s32", "mul.lo.s32", "mul.lo.u32", "mul.wide.u32", "mul.hi.u32", "and.b32", "or.b32", "xor.b32", "min.s32"),
    *("max.s32", "min.u32", "max.u32", "div.s32", "div.u32", "rem.s32", "rem.u32", "shl.b32", "shr.u32", "shr.s32"),
    *("min.relu.s32", "max.relu.s32"),
)
COMPARED = [f"setp.{how}.{kind}" for how in ("eq", "ne", "lt", "le", "gt", "ge") for kind in ("s32", "u32")]
INTERESTING = (0, 1, 2, 3, 4, 5, 7, 8, 16, 31, 32, 63, 64, 255, 0x7FFFFFFF, -1, -2, -4, -8, -64, -(2**31), 2**31 - 2)


def numbers(draw: random.Random) -> dict[str, int]:
    return {
        name: draw.choice((low, high, draw.randint(low, min(high, low + 9)), draw.randint(low, high)))
        for name, (low, high) in RANGES.items()
    }


@pytest.mark.parametrize("seed", range(40))
def test_forms_are_what_the_machine_computes(seed: int) -> None:
    draw = random.Random(seed)
    at = numbers(draw)
    arithmetic = Arithmetic(RANGES)
    known: list[tuple[object, int, int]] = [(atom(Symbol(name)), number, 32) for name, number in at.items()]
    known += [(number, number, 32) for number in draw.sample(INTERESTING, 8)]
    flags: list[tuple[object, int]] = []
    for _ in range(60):
        kind = draw.random()
        words = [one for one in known if one[2] == 32]
        if kind < 0.15:
            opcode, chosen = draw.choice(ONE), [draw.choice(known)]
            if opcode == "cvt.u32.u64":
                chosen = [draw.choice([one for one in known if one[2] == 64] or words)]
        elif kind < 0.25:
            opcode, chosen = draw.choice(COMPARED), draw.choices(words, k=2)
        elif kind < 0.35 and flags:
            opcode, chosen = "selp.b32", draw.choices(words, k=2)
        else:
            opcode, chosen = draw.choice(TWO), draw.choices(words, k=2)
        op = operation(opcode)
        assert op is not None
        if any(one[2] != op.width for one in chosen) or op.name in ("div", "rem") and not chosen[1][1]:
            continue
        values, given = [one[0] for one in chosen], [wrapped(one[1], 32 if one[2] == 32 else 64) for one in chosen]
        if opcode == "selp.b32":
            flag = draw.choice(flags)
            values, given = [*values, flag[0]], [*given, flag[1]]
        found, requires = arithmetic.apply(op, values)  # type: ignore[arg-type]
        machine = number_of(op)(given)
        if not all(holds(one, at) for one in requires) or not isinstance(found, (int, Linear, Compare, Both, Either)):
            continue
        if (
            isinstance(found, Linear)
            and _folded(found)
            or isinstance(found, (Compare, Both, Either))
            and _folded_condition(found)
        ):
            continue
        if op.to == 1:
            assert bool(found if isinstance(found, int) else holds(found, at)) == bool(machine), (opcode, values, given, found)
            flags.append((found, machine))
            continue
        assert isinstance(found, (int, Linear))
        number = found if isinstance(found, int) else value(found, at)
        assert wrapped(number, op.to) == wrapped(machine, op.to), (opcode, values, given, found)
        if isinstance(found, Linear):
            low, high = arithmetic.bounds(found)
            assert low <= number <= high, (found, at)
        known.append((found, wrapped(machine, op.to), op.to))


@pytest.mark.parametrize("seed", range(20))
def test_products_are_alike_in_any_order(seed: int) -> None:
    draw = random.Random(seed)
    arithmetic = Arithmetic(RANGES)
    symbols = [atom(Symbol(name)) for name in RANGES]
    factors = [*draw.choices([*symbols, add(symbols[0], Linear(1)), floor(symbols[1], 64)], k=draw.randint(3, 5))]
    opcodes = [_known("mul.lo.s32"), _known("mul.lo.u32")]

    def multiplied() -> object:
        left = draw.sample(factors, len(factors))
        while len(left) > 1:
            one, other = left.pop(draw.randrange(len(left))), left.pop(draw.randrange(len(left)))
            left.append(arithmetic.apply(draw.choice(opcodes), [one, other])[0])  # type: ignore[arg-type]
        return left[0]

    assert len({multiplied() for _ in range(8)}) == 1


@pytest.mark.parametrize("seed", range(60))
def test_the_smaller_of_two_numbers_of_which_one_counts(seed: int) -> None:
    """A bound in blocks: of a size, and of the place of a tile, which a counter is divided for."""
    draw = random.Random(seed)
    arithmetic = Arithmetic(RANGES)
    divisor, times, more = draw.choice((2, 3, 64)), draw.choice((1, 2, 64)), draw.randint(-3, 64)
    size = add(floor(add(atom(Symbol("x")), Linear(draw.randint(0, divisor))), divisor), Linear(draw.randint(-2, 2)))
    row, required = arithmetic.apply(_known("div.u32"), [atom(Symbol("0:%t")), atom(Symbol("w"))])
    assert isinstance(row, Linear) and required, "that the counter is not negative"
    operands = draw.sample([size, add(scale(row, times), Linear(more))], 2)
    opcode, which = draw.choice((("min.s32", min), ("max.s32", max)))
    found, further = arithmetic.apply(_known(opcode), list(operands))
    assert is_smaller(_chosen_in(found)) == (which is min)
    _, again = arithmetic.apply(_known("setp.ge.s32"), [found, draw.randint(0, 9)])
    for _ in range(60):
        t = draw.choice((0, 1, draw.randint(0, 99), draw.randint(0, 2**31 - 1), 2**32 - 1, 2**33, -1))
        at = numbers(draw) | {"0:%t": t}
        if all(holds(one, at) for one in (*required, *further)):
            assert isinstance(found, Linear)
            number = which(value(one, at) for one in operands)
            assert value(found, at) == number == wrapped(number, 32) and arithmetic.bounds(found)[0] <= number
            assert all(holds(one, at) for one in again), "nothing else is required of it"
            assert value(row, at) == t // at["w"] and 0 <= t < 2**32


def _chosen_in(value_: object) -> Choose:
    """The number that is chosen, which a size is no quotient in any more."""
    assert isinstance(value_, Linear)
    ((one, _),) = value_.terms
    if isinstance(one, Floor):
        ((one, _),) = one.form.terms
    assert isinstance(one, Choose) and not any(isinstance(part, Floor) for form in (one.yes, one.no) for part, _ in form.terms)
    return one


DIVIDENDS = [
    atom(Symbol("z")),
    add(atom(Symbol("y")), atom(Symbol("w")), -1),
    add(atom(Symbol("w")), atom(Symbol("y")), -1),
    add(add(atom(Symbol("y")), Linear(-9)), atom(Symbol("w")), -3),
]
#: How much a quotient rounded towards zero is corrected by, and in which ways compilers ask whether it is.
CORRECTED = {"up": (1, ["left > 0", "left >= 1", "left != 0, number >= 0"]), "down": (-1, ["left < 0", "left != 0, number < 0"])}
OPCODES = {">": "gt", ">=": "ge", "!=": "ne", "<": "lt"}


@pytest.mark.parametrize(("which", "asked"), [(which, asked) for which, (_, ways) in CORRECTED.items() for asked in ways])
@pytest.mark.parametrize("divisor", [2, 3, 8, 132])
@pytest.mark.parametrize("dividend", DIVIDENDS, ids=range(len(DIVIDENDS)))
def test_a_division_with_its_correction_is_one_quotient(dividend: Linear, divisor: int, which: str, asked: str) -> None:
    arithmetic = Arithmetic(RANGES)

    def made(opcode: str, *values: object) -> object:
        found, requires = arithmetic.apply(_known(opcode), list(values))  # type: ignore[arg-type]
        assert not requires
        return found

    towards_zero = made("div.s32", dividend, divisor)
    left = made("sub.s32", dividend, made("mul.lo.s32", towards_zero, divisor))
    flag: object = 1
    for condition in asked.split(", "):
        name, how, other = condition.split()
        compared = made(f"setp.{OPCODES[how]}.s32", left if name == "left" else dividend, int(other))
        flag = compared if flag == 1 else made("and.pred", flag, compared)
    found = made("add.s32", towards_zero, made("selp.b32", CORRECTED[which][0], 0, flag))
    assert isinstance(found, Linear)
    assert not any(isinstance(one, Choose) for one, _ in found.terms), found
    draw = random.Random(divisor)
    for _ in range(40):
        at = numbers(draw)
        number = value(dividend, at)
        assert value(found, at) == (-(-number // divisor) if which == "up" else number // divisor), at


@pytest.mark.parametrize("seed", range(60))
def test_comparing_what_a_division_leaves_is_a_difference_of_quotients(seed: int) -> None:
    draw = random.Random(seed)
    divisor, sign = draw.randint(2, 7), draw.choice((1, -1))
    divided = add(
        add(Linear(draw.randint(-9, 9)), atom(Symbol("y")), draw.choice((-2, -1, 1, 3))),
        atom(Symbol("w")),
        draw.choice((-1, 0, 1)),
    )
    quotient = floor(divided, divisor)
    left = add(divided, quotient, -divisor)
    asked = Compare("ge", add(Linear(draw.randint(-8, 8)), left, sign))
    # The choice between negative and other numbers is what the reader looks into.
    form = choose(Compare("ge", divided), choose(asked, Linear(1), Linear(0)), choose(asked, Linear(1), Linear(0)))
    outer = add(choose(asked, Linear(5), Linear(2)), quotient)
    for one in (form, outer):
        found = merged(one, lambda _: True)
        for _ in range(30):
            at = numbers(draw)
            assert value(found, at) == value(one, at), (one, found, at)


def _folded(form: Linear) -> bool:
    """Whether a part of it is a number without a meaning of its own."""
    return any(_folded_atom(one) for one, _ in form.terms)


def _folded_atom(one: object) -> bool:
    match one:
        case Apply(function, arguments):
            return len(function.split(".")[0]) == 64 or any(map(_folded, arguments))
        case Floor(form, _):
            return _folded(form)
        case Choose(condition, yes, no):
            return _folded(yes) or _folded(no) or _folded_condition(condition)
    return False


def _folded_condition(formula: Formula) -> bool:
    match formula:
        case Compare(_, form):
            return _folded(form)
        case Both(parts) | Either(parts):
            return any(map(_folded_condition, parts))


def test_a_large_unsigned_number_is_negative_to_signed_instructions() -> None:
    arithmetic = Arithmetic(RANGES)
    larger, _ = arithmetic.apply(_known("max.u32"), [-1, atom(Symbol("x"))])
    assert arithmetic.apply(_known("setp.lt.s32"), [larger, 5]) == (1, ())
    assert arithmetic.apply(_known("setp.lt.u32"), [larger, 5]) == (0, ())


@pytest.mark.parametrize(("largest", "wraps"), [(299, False), (300, True), (1 << 20, True)])
def test_bounds_are_exact_at_the_largest_number(largest: int, wraps: bool) -> None:
    """A float has 53 bits: near 2^63 it is off by hundreds."""
    arithmetic = Arithmetic({"a": (0, largest), "b": (0, 300)})
    near = Linear((1 << 63) - 600, ((Symbol("a"), 1), (Symbol("b"), 1)))
    value_, requires = arithmetic.apply(_known("setp.ge.s64"), [near, 0])
    assert (value_ == 1 and not requires) is not wraps


def test_numbers_whose_hashes_begin_alike_are_told_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of two texts whose hashes agree in 64 bits, which are found within hours, one bound would count as the other."""

    def begins_alike(text: bytes) -> SimpleNamespace:
        return SimpleNamespace(hexdigest=lambda: "0" * 16 + sha256(text).hexdigest()[16:])

    monkeypatch.setattr("hashlib.sha256", begins_alike)
    large = [summed(times, [(floor(atom(Symbol("x")), divisor), times) for divisor in range(2, 40)]) for times in (1, 2)]
    one, other = (Arithmetic(RANGES).apply(_known("add.s32"), [form, 0])[0] for form in large)
    assert isinstance(one, Linear) and isinstance(other, Linear)
    assert _folded(one) and _folded(other) and one != other


def _known(opcode: str) -> Operation:
    op = operation(opcode)
    assert op is not None
    return op


@pytest.mark.parametrize("divisor", [2, 3, 5, 7, 10, 48])
@pytest.mark.parametrize("shift", [0, 3, -1])
def test_quotients_of_signed_numbers_are_floors(divisor: int, shift: int) -> None:
    """`//` and `%` as compilers make them of a division that rounds towards zero."""
    arithmetic = Arithmetic(RANGES, frozenset({"z"}))

    def made(opcode: str, *values: object) -> object:
        return arithmetic.apply(_known(opcode), list(values))[0]  # type: ignore[arg-type]

    dividend = made("add.s32", atom(Symbol("z")), shift)
    towards_zero = made("div.s32", dividend, divisor)
    rest = made("sub.s32", dividend, made("mul.lo.s32", towards_zero, divisor))
    leaves, negative = made("setp.ne.s32", rest, 0), made("setp.lt.s32", dividend, 0)
    quotient = made("add.s32", towards_zero, made("selp.b32", -1, 0, made("and.pred", leaves, negative)))
    inside = made("selp.b32", made("add.s32", rest, divisor), rest, negative)
    remainder = made("selp.b32", inside, rest, leaves)
    for number in (*range(-100, 100), -(2**31) + 9, 2**31 - 9):
        assert isinstance(quotient, Linear) and value(quotient, {"z": number}) == (number + shift) // divisor
        assert isinstance(remainder, Linear) and value(remainder, {"z": number}) == (number + shift) % divisor
    assert all(isinstance(one, (Floor, Symbol)) for form in (quotient, remainder) for one, _ in form.terms)


@pytest.mark.parametrize("kind", ["s32", "u32"])
@pytest.mark.parametrize("shift", [1, 2, 3, 5])
def test_high_parts_of_products_of_counters(kind: str, shift: int) -> None:
    """Of a register without known bounds: the quotient is what the machine computes wherever what is required for it holds."""
    draw = random.Random(f"{kind} {shift}")
    inverses = [-(-(1 << (32 + shift)) // divisor) for divisor in (3, 5, 7, 9, 10, 11, 25, 100, 641)]
    for factor in (*(one for one in inverses if one < 1 << 31), 2, 3, 1 << 30, (1 << 31) - 1, draw.randrange(2, 1 << 31)):
        arithmetic = Arithmetic({})
        high, required = arithmetic.apply(_known(f"mul.hi.{kind}"), [atom(Symbol("0:%r1")), factor])
        made, further = arithmetic.apply(_known(f"shr.{kind}"), [high, shift])
        conditions = (*required, *further)
        for number in (*INTERESTING, *(draw.randrange(-(2**31), 2**32) for _ in range(200)), *(n * 641 - 1 for n in range(50))):
            if isinstance(made, Linear) and all(holds(one, {"0:%r1": number}) for one in conditions):
                read = wrapped(number, 32) if kind == "s32" else number % (1 << 32)
                assert (value(made, {"0:%r1": number}) - (read * factor >> (32 + shift))) % (1 << 32) == 0, (factor, number)


@pytest.mark.parametrize(("first", "divisor"), [(64, 8), (64, 64), (3, 8), (1, 8)])
def test_a_division_rounded_up_is_one_quotient_also_of_a_quotient(first: int, divisor: int) -> None:
    x = Symbol("x")
    divided = floor(add(atom(x), Linear(first - 1)), first)
    quotient = floor(divided, divisor)
    rest = add(divided, quotient, -divisor)
    made = add(quotient, choose(Compare("ne", rest), Linear(1), Linear(0)))
    assert [type(one) for one, _ in made.terms] == [Floor]
    for number in (*range(3 * first * divisor), 2**31 - 1):
        assert value(made, {"x": number}) == -(-number // (first * divisor))


@pytest.mark.parametrize("kind", ["u32", "s32", "u64", "s64"])
def test_bit_fields_are_extracted_bit_by_bit(kind: str) -> None:
    """The pseudo-code of `bfe` in the PTX ISA: of a position and a length 8 bits count, and the sign comes from the field's last bit."""
    width = int(kind[1:])
    extract = number_of(_known(f"bfe.{kind}"))
    for field in (0, 1, -1, 0x55AA33CC, -(2 ** (width - 1)), 2 ** (width - 1) - 1):
        for start in (0, 1, 7, width - 1, width, 200, 256, 263, -1):
            for length in (0, 1, 8, width - 1, width, 255, 256, 264, -1):
                first, count = start & 255, length & 255
                sign = kind[0] == "s" and count > 0 and field >> min(first + count - 1, width - 1) & 1
                bits = (field >> (first + at) & 1 if at < count and first + at < width else int(sign) for at in range(width))
                expected = wrapped(sum(bit << at for at, bit in enumerate(bits)), width)
                assert extract((field, start, length)) == expected, (field, start, length)


@pytest.mark.parametrize("threads", [33, 64, 70])
@pytest.mark.parametrize("lane", [0, 1, 31])
def test_lanes_of_a_warp_read_what_one_of_them_has(threads: int, lane: int) -> None:
    """(Of a last warp with fewer lanes, what the last one has.)"""
    found = Arithmetic({}).shuffled(Lanes(tuple(range(threads))), lane)
    assert found == Lanes(tuple(min(thread // 32 * 32 + lane, threads - 1) for thread in range(threads)))
