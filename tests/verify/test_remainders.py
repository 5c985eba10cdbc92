"""What a division by a number leaves that is no constant: the instructions that make it, and what the checker knows of it."""

import random

import pytest
from verify.interpret import holds, value

from pipec.verify import terms
from pipec.verify.logic import System
from pipec.verify.reader.text.operations import number_of, operation, wrapped
from pipec.verify.reader.values.arithmetic import Arithmetic
from pipec.verify.reader.values.forms import as_formula
from pipec.verify.terms import (
    Apply,
    Both,
    Compare,
    Either,
    Linear,
    Symbol,
    add,
    atom,
    negate,
    quotient,
    remainder,
    scale,
)

RANGES = {"i": (-(2**31), 2**31 - 1), "n": (0, 2**31 - 1), "d": (1, 2**31 - 1)}
INTERESTING = (0, 1, 2, 3, 7, 8, 63, 64, 65, 1000, 2**31 - 1, 2**31 - 2, -1, -2, -7, -8, -64, -65, -(2**31), -(2**31) + 1)
I, N, D = (atom(Symbol(name)) for name in "ind")

# As compilers write a division that is rounded down: `r` is the remainder, with the sign of what is divided.
ROUNDED = [
    ("rem.s32", "r", "i", "by"),
    ("setp.ne.s32", "some", "r", 0),
    ("xor.b32", "signs", "i", "by"),
    ("setp.lt.s32", "apart", "signs", 0),
    ("add.s32", "more", "r", "by"),
]
CHOSEN = {
    "one after the other": [("selp.b32", "first", "more", "r", "apart"), ("selp.b32", "left", "first", "r", "some")],
    "both at once": [("and.pred", "both", "some", "apart"), ("selp.b32", "left", "more", "r", "both")],
    "both at once, the other way round": [("and.pred", "both", "apart", "some"), ("selp.b32", "left", "more", "r", "both")],
}
BY = {"what may be 0": [("max.u32", "by", "n", 1)], "what is at least 1": [("mov.b32", "by", "d")]}
Steps = list[tuple[object, ...]]


def followed(steps: Steps, at: dict[str, int]) -> tuple[dict[str, object], dict[str, int], list[object]]:
    """What the reader makes of the steps, what the machine makes of them, and what the reader requires."""
    arithmetic = Arithmetic(RANGES)
    values: dict[object, object] = {name: atom(Symbol(name)) for name in at}
    machine: dict[object, int] = {name: wrapped(number, 32) for name, number in at.items()}
    required: list[object] = []
    for opcode, into, *operands in steps:
        op = operation(str(opcode))
        assert op is not None
        values[into], more = arithmetic.apply(op, [values.get(one, one) for one in operands])  # type: ignore[list-item]
        required += more
        machine[into] = number_of(op)([machine.get(one, one) for one in operands])  # type: ignore[misc]
    return values, machine, required  # type: ignore[return-value]


@pytest.mark.parametrize("by", BY)
@pytest.mark.parametrize("how", CHOSEN)
def test_a_remainder_is_read_as_one(by: str, how: str) -> None:
    draw = random.Random(f"{by} {how}")
    for _ in range(300):
        at = {"i": draw.choice(INTERESTING), "n": abs(draw.choice(INTERESTING[:12])), "d": draw.choice(INTERESTING[1:12])}
        values, machine, required = followed([*BY[by], *ROUNDED, *CHOSEN[how]], at)
        found = values["left"]
        assert isinstance(found, Linear) and terms.is_remainder(found.terms[0][0]) and not required
        assert wrapped(value(found, at), 32) == wrapped(machine["left"], 32), at


@pytest.mark.parametrize("by", BY)
def test_what_is_divided_without_a_sign_may_be_any_bits(by: str) -> None:
    """Also a product, of which nothing is known, and what is next to it."""
    divided = [("mul.lo.s32", "some", "i", "i"), ("add.s32", "more", "some", 1), ("rem.u32", "left", "more", "by")]
    asked = [("setp.eq.s32", "none", "left", 0)]
    draw = random.Random(by)
    for _ in range(300):
        at = {"i": draw.choice(INTERESTING), "n": abs(draw.choice(INTERESTING[:12])), "d": draw.choice(INTERESTING[1:12])}
        values, machine, required = followed([*BY[by], *divided, *asked], at)
        assert not required
        left = values["left"]
        assert isinstance(left, Linear) and wrapped(value(left, at), 32) == wrapped(machine["left"], 32), at
        none = values["none"]
        assert isinstance(none, (Compare, Both, Either))
        assert holds(none, at) == bool(machine["none"])


#: The size by which a counter is divided, and the one by which its quotient is multiplied.
MULTIPLES = {
    "the divisor": ("max.u32", "n", "by"),
    "a size that may be 0": ("max.u32", "n", "n"),
    "another size": ("max.u32", "n", "d"),
    "a number that may be negative": ("max.s32", "i", "i"),
}


@pytest.mark.parametrize("which", MULTIPLES)
def test_a_multiple_is_taken_from_a_counter(which: str) -> None:
    """`t - t // n * n`, where the division is by 1 if n is 0."""
    opcode, size, times = MULTIPLES[which]
    steps: Steps = [
        (opcode, "by", size, 1),
        ("div.u32", "whole", "0:%t", "by"),
        ("mul.lo.s32", "multiple", "whole", times),
        ("sub.s32", "left", "0:%t", "multiple"),
        ("setp.lt.u32", "less", "left", "d"),
    ]
    draw, read = random.Random(which), set()
    for _ in range(300):
        t = draw.choice((*INTERESTING, 2**32 - 1, 2**32, 2**31 + 5))
        at = {
            "0:%t": t,
            "i": draw.choice(INTERESTING),
            "n": abs(draw.choice(INTERESTING[:12])),
            "d": draw.choice(INTERESTING[1:12]),
        }
        values, machine, required = followed(steps, at)
        left, less = values["left"], values["less"]
        assert isinstance(left, Linear)
        if all(holds(one, at) for one in required):  # type: ignore[arg-type]
            assert wrapped(value(left, at), 32) == wrapped(machine["left"], 32), at
            assert isinstance(less, Compare) and holds(less, at) == bool(machine["less"]), at
        read.add(_leaves_a_rest(left))
    assert read == {which in ("the divisor", "a size that may be 0")}


#: The number of tiles of a plane, which may be any bits, and by what the counter's quotient is multiplied.
PLANES = {"the divisor": "by", "the number of tiles": "tiles", "the rows": "n", "the columns": "i"}


@pytest.mark.parametrize("times", PLANES)
def test_a_divisor_may_be_beyond_signed_numbers(times: str) -> None:
    """`t - t // max(n * i, 1) * max(n * i, 1)`, without signs: what is left of a counter of 32 bits is less than the divisor."""
    steps: Steps = [
        ("mul.lo.s32", "tiles", "n", "i"),
        ("max.u32", "by", "tiles", 1),
        ("div.u32", "plane", "0:%t", "by"),
        ("mul.lo.s32", "multiple", "plane", PLANES[times]),
        ("sub.s32", "left", "0:%t", "multiple"),
        ("setp.lt.u32", "less", "left", "d"),
        ("max.u32", "rows", "n", 1),
        ("div.u32", "column", "left", "rows"),
        ("mul.lo.s32", "above", "column", "rows"),
        ("sub.s32", "row", "left", "above"),
        ("setp.lt.s32", "early", "row", "d"),
    ]
    draw, read = random.Random(times), set()
    for _ in range(400):
        at = {
            "0:%t": draw.choice((*INTERESTING, 2**32 - 1, 2**32 - 7, 2**31 + 5)),
            "i": draw.choice(INTERESTING),
            "n": abs(draw.choice(INTERESTING[:12])),
            "d": draw.choice(INTERESTING[1:12]),
        }
        values, machine, required = followed(steps, at)
        left, row = values["left"], values["row"]
        assert isinstance(left, Linear) and isinstance(row, Linear)
        if all(holds(one, at) for one in required):  # type: ignore[arg-type]
            assert wrapped(value(left, at), 32) == wrapped(machine["left"], 32), at
            assert wrapped(value(row, at), 32) == wrapped(machine["row"], 32), at
            assert holds(values["less"], at) == bool(machine["less"]), at  # type: ignore[arg-type]
            assert holds(values["early"], at) == bool(machine["early"]), at  # type: ignore[arg-type]
        read.add(_leaves_a_rest(left))
    assert read == {times == "the divisor"}


#: By what the counter that is divided by 7 is set apart from the one that is added, and what is multiplied by the quotient.
SEVENTHS = {"as compilers do": ("apart", 7), "of another number": ("i", 7), "less of it": ("apart", 6)}


@pytest.mark.parametrize("which", SEVENTHS)
def test_what_is_divided_by_seven_is_read_with_a_sign(which: str) -> None:
    """Also a difference that may wrap: its bits are added to the upper half of a product, and the multiple is taken from them."""
    added, times = SEVENTHS[which]
    steps: Steps = [
        ("sub.s32", "apart", "d", "0:%t"),
        ("mul.hi.s32", "upper", "apart", -1840700269),
        ("add.s32", "sum", "upper", added),
        ("shr.u32", "sign", "sum", 31),
        ("shr.s32", "part", "sum", 2),
        ("add.s32", "whole", "part", "sign"),
        ("mul.lo.s32", "multiple", "whole", times),
        ("sub.s32", "left", "apart", "multiple"),
        ("setp.ne.s32", "some", "left", 0),
        ("setp.lt.s32", "early", "left", 3),
    ]
    draw = random.Random(which)
    for _ in range(400):
        at = {
            "0:%t": draw.choice((*INTERESTING, draw.randrange(-(2**31), 2**31))),
            "i": draw.choice(INTERESTING),
            "d": draw.choice(INTERESTING[1:12]),
        }
        values, machine, required = followed(steps, at)
        if all(holds(one, at) for one in required):  # type: ignore[arg-type]
            for name in ("whole", "left"):
                assert wrapped(value(values[name], at), 32) == wrapped(machine[name], 32), (name, at)  # type: ignore[arg-type]
            for name in ("some", "early"):
                assert holds(values[name], at) == bool(machine[name]), (name, at)  # type: ignore[arg-type]
        if which == "as compilers do":
            # What is left is known to be in the range of its type, whatever is divided.
            assert not required and machine["left"] == (at["d"] - at["0:%t"] + 2**31) % 2**32 - 2**31 - 7 * int(
                wrapped(machine["whole"], 32)
            )


def _leaves_a_rest(form: Linear) -> bool:
    """Also where it is chosen."""
    for one, _ in form.terms:
        inside = [part for each in (one.yes, one.no) for part, _ in each.terms] if isinstance(one, terms.Choose) else [one]
        if any(map(terms.is_remainder, inside)):
            return True
    return False


def test_what_the_machine_multiplies_of_a_counter_is_divided_as_it_is_read() -> None:
    """A block's tile is `block.x + turn * grid.x`, of which a role may want the row."""
    steps: Steps = [("mul.lo.s32", "beyond", "0:%t", "n"), ("add.s32", "tile", "beyond", "d"), ("div.u32", "row", "tile", "d")]
    draw = random.Random(1)
    for _ in range(300):
        at = {"0:%t": draw.choice(INTERESTING), "n": abs(draw.choice(INTERESTING[:12])), "d": draw.choice(INTERESTING[1:12])}
        values, machine, required = followed(steps, at)
        row = values["row"]
        assert isinstance(row, Linear) and terms.is_quotient(row.terms[0][0])
        assert not all(holds(one, at) for one in required) or wrapped(value(row, at), 32) == wrapped(machine["row"], 32), at  # type: ignore[arg-type]


def test_a_choice_is_0_where_only_one_operand_can_be() -> None:
    arithmetic = Arithmetic(RANGES)
    last = Compare("ge", add(atom(Symbol("i")), Linear(-5)))
    equal = operation("setp.eq.s32")
    assert equal is not None
    for yes, no, when in ((0, 3, last), (3, 0, negate(last)), (7, 9, terms.FALSE), (0, -2, last)):
        chosen = atom(terms.Choose(last, Linear(yes), Linear(no)))
        assert as_formula(arithmetic.apply(equal, [chosen, 0])[0]) == when
    # Both can be.
    either = atom(terms.Choose(last, Linear(0), atom(Symbol("n"))))
    assert as_formula(arithmetic.apply(equal, [either, 0])[0]) == Compare("eq", either)


@pytest.mark.parametrize("seed", range(30))
def test_quotients_by_a_number_and_its_multiple(seed: int) -> None:
    """`(x + m * d) // (n * d)` is `(x // d + m) // n`."""
    draw = random.Random(seed)
    times, more = draw.randint(2, 4), draw.randint(-3, 3)
    fine, coarse = quotient(I, D), atom(Apply(terms.QUOTIENT, (add(I, D, more), scale(D, times))))
    left = add(add(fine, Linear(more)), coarse, -times)
    known = System([Compare("ge", add(D, Linear(-1)))])
    assert known.entails(Compare("ge", left)) and known.entails(Compare("ge", add(Linear(times - 1), left, -1)))
    assert not known.entails(Compare("ge", add(left, Linear(-1)))) and not known.entails(
        Compare("ge", add(Linear(times - 2), left, -1))
    )
    # Of a divisor that may be 0 nothing is known, nor of another dividend or divisor.
    assert not System([Compare("ge", D)]).entails(Compare("ge", left))
    for form, divisor in (
        (add(I, D, more), add(scale(D, times), Linear(1))),
        (add(add(I, D, more), Linear(times)), scale(D, times)),
    ):
        assert not known.entails(Compare("ge", add(left, add(coarse, atom(Apply(terms.QUOTIENT, (form, divisor))), -1), times)))
    for i in range(-30, 30):
        for d in range(1, 6):
            at = {"i": i, "d": d}
            assert 0 <= value(left, at) < times


@pytest.mark.parametrize(
    ("place", "instead"),
    [
        (1, ("setp.eq.s32", "some", "r", 0)),
        (2, ("xor.b32", "signs", "r", "d")),
        (3, ("setp.ge.s32", "apart", "signs", 0)),
        (4, ("sub.s32", "more", "r", "by")),
        (4, ("add.s32", "more", "r", "i")),
    ],
)
@pytest.mark.parametrize("how", CHOSEN)
def test_what_differs_in_one_instruction_is_none(how: str, place: int, instead: tuple[object, ...]) -> None:
    steps = [*BY["what is at least 1"], *ROUNDED, *CHOSEN[how]]
    steps[1 + place] = instead
    found = followed(steps, {"i": 5, "n": 3, "d": 3})[0]["left"]
    assert not (isinstance(found, Linear) and any(terms.is_remainder(one) for one, _ in found.terms))


@pytest.mark.parametrize("ahead", [-1, 0, 1])
def test_a_share_is_read_as_one_where_the_rest_reaches_the_block(ahead: int) -> None:
    """And not where it is asked of the block before or behind this one: that block gets another share."""
    steps: Steps = [
        ("div.u32", "share", "n", "blocks"),
        ("rem.u32", "left", "n", "blocks"),
        ("add.s32", "more", "share", 1),
        ("add.s32", "place", "at", ahead),
        ("setp.gt.s32", "reached", "left", "place"),
        ("selp.b32", "mine", "more", "share", "reached"),
    ]
    blocks, at = atom(Symbol("%nctaid.x")), atom(Symbol("%ctaid.x"))
    arithmetic = Arithmetic({"n": (0, 99), "%nctaid.x": (1, 9), "%ctaid.x": (0, 8)})
    values: dict[object, object] = {"n": N, "blocks": blocks, "at": at}
    for opcode, into, *operands in steps:
        op = operation(str(opcode))
        assert op is not None
        values[into], _ = arithmetic.apply(op, [values.get(one, one) for one in operands])  # type: ignore[list-item]
    mine = values["mine"]
    assert isinstance(mine, Linear)
    for number in range(30):
        for among in range(1, 6):
            for place in range(among):
                left = number % among
                known = {"n": number, "%nctaid.x": among, "%ctaid.x": place}
                assert value(mine, known) == number // among + (left > place + ahead)
    assert any(isinstance(one, terms.Choose) for one, _ in mine.terms) == (ahead != 0)


def test_a_share_is_no_more_than_there_is() -> None:
    """Of what is dealt out to blocks, each gets 0 or more of it."""
    blocks, place = atom(Symbol("%nctaid.x")), atom(Symbol("%ctaid.x"))
    share = add(quotient(add(add(N, place, -1), Linear(-1)), blocks), Linear(1))
    for least, most in ((0, 5), (-4, -1), (-3, 6), (2, 9)):
        ranges = {"n": (least, most), "%nctaid.x": (1, 7), "%ctaid.x": (0, 6)}
        low, high = Arithmetic(ranges).bounds(share)
        for n in range(least, most + 1):
            for among in range(1, 8):
                for at in range(among):
                    assert low <= value(share, {"n": n, "%nctaid.x": among, "%ctaid.x": at}) <= high
        assert (low, high) == (min(least, 0), max(most, 0))


def test_one_more_leaves_one_more_or_nothing() -> None:
    left, next_ = remainder(I, D), remainder(add(I, Linear(1)), D)
    known = System([Compare("ge", add(D, Linear(-1))), Compare("ge", add(add(D, Linear(-2)), left, -1))])
    assert known.entails(Compare("eq", add(add(next_, left, -1), Linear(-1))))
    last = System([Compare("ge", add(D, Linear(-1))), Compare("eq", add(add(D, Linear(-1)), left, -1))])
    assert last.entails(Compare("eq", next_))
    either = System([Compare("ge", add(D, Linear(-1)))])
    assert not either.entails(Compare("eq", next_)) and not either.entails(Compare("ge", add(next_, left, -1)))


@pytest.mark.parametrize("least", [0, 1])
def test_it_is_less_than_what_is_at_least_1(least: int) -> None:
    known = System([Compare("ge", add(D, Linear(-least)))])
    assert known.entails(Compare("ge", remainder(I, D)))
    assert known.entails(Compare("ge", add(add(D, Linear(-1)), remainder(I, D), -1))) == (least == 1)


def test_multiples_and_remainders_are_taken_out() -> None:
    left = remainder(I, D)
    assert remainder(add(I, D, 3), D) == left
    assert remainder(left, D) == left
    assert remainder(add(add(I, N), left, -1), D) == remainder(N, D)
    assert remainder(add(add(I, D), left, -1), D) == Linear(0)
    assert remainder(add(I, left), D) == remainder(scale(I, 2), D)
    # By another number it is left as it is.
    assert remainder(left, N) == atom(Apply(terms.REMAINDER, (left, N)))


@pytest.mark.parametrize("seed", range(20))
def test_nothing_follows_that_does_not_hold(seed: int) -> None:
    """Of remainders by 0 and by negative numbers, too, which a file may name."""
    draw = random.Random(seed)
    for _ in range(40):
        at = {name: draw.randint(-4, 9) for name in "ind"}
        forms = [I, N, D]
        for _ in range(4):
            inner = add(add(draw.choice(forms), draw.choice(forms), draw.choice((-1, 1))), Linear(draw.randint(-1, 3)))
            by = draw.choice((D, D, N, Linear(draw.randint(0, 4))))
            made = remainder(inner, by)
            expected = value(inner, at) % value(by, at) if value(by, at) > 0 else 0
            assert value(made, at) == expected, (inner, by, at)
            forms.append(made)
        premises = []
        for form in draw.sample(forms, 4):
            apart = add(form, draw.choice(forms), -1)
            premises.append(Compare("ge", add(apart, Linear(-min(value(apart, at), draw.randint(0, 2))))))
        system = System(premises)
        assert all(holds(one, at) for one in premises) and not system.impossible(), (premises, at)
        asked = Compare("ge", add(draw.choice(forms), draw.choice(forms), -1))
        assert not system.entails(asked if not holds(asked, at) else negate(asked))
