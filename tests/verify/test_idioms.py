"""What compilers make of divisions, shares and parts of numbers, against numbers: of every range that a divisor or a dividend may have.

Two texts were called proved and hang: with a divisor that is negative to the machine, and with 32 bits of what is left of 64 (`attacked`).
"""

import random
from typing import Any

import pytest
from samples import some, volume
from verify.interpret import holds, value
from verify.test_arithmetic import _folded, _folded_condition

from pipec.verify.reader.text.operations import number_of, operation, wrapped
from pipec.verify.reader.values.arithmetic import Arithmetic
from pipec.verify.reader.values.interpretation import WHOLE, Interpretation
from pipec.verify.reader.values.values import Value
from pipec.verify.terms import Apply, Both, Compare, Either, Linear, Symbol, atom, is_quotient, is_remainder

LARGEST = 2**31 - 1
RANGES = {
    "x": (0, LARGEST), "y": (0, 40), "d": (1, LARGEST), "z": (-LARGEST - 1, LARGEST), "u": (0, 2**32 - 1), "long": (-(2**63), 2**63 - 1),
    "%nctaid.x": (1, LARGEST), "%ctaid.x": (0, LARGEST - 1), "0:%t": (-LARGEST - 1, 2**32 - 1),
}  # fmt: skip
WIDE = {"long"}
EDGES = [*range(-8, 9), *(sign * 2**bits + near for sign in (1, -1) for bits in (6, 16, 31, 32, 33) for near in (-1, 0, 1))]
#: Ways of reading, and which symbols a launch can ask more of.
READINGS: tuple[dict[str, Any], ...] = (
    {},
    {"how": Interpretation(as_read=True)},
    {"how": Interpretation(near=True)},
    {"how": Interpretation(WHOLE)},
    {"checked": frozenset({"x", "y", "d"}), "how": Interpretation(near=True)},
)
Known = tuple[Value, int, int]  # what the reader knows, the machine's number, its width


class Unlike(Exception):
    """The machine does something that is not defined, or the launch would be refused, or a form is folded up."""


class Machine:
    """Computes as the reader does, and as the machine does, and compares."""

    def __init__(self, draw: random.Random) -> None:
        self.draw, self.at = draw, {name: _number(draw, *ends) for name, ends in RANGES.items()}
        self.at["%ctaid.x"] = min(self.at["%ctaid.x"], self.at["%nctaid.x"] - 1)
        self.reader = Arithmetic(RANGES, **draw.choice(READINGS))
        self.known: list[Known] = []
        for name, number in self.at.items():
            width = 64 if name in WIDE else 32
            self.known.append((atom(Symbol(name)), wrapped(number, width), width))
        self.read = 0  # quotients and remainders by what is no constant

    def any(self, width: int = 32) -> Known:
        return self.draw.choice([one for one in self.known if one[2] == width][-16:])

    def __call__(self, opcode: str, *operands: Known | int) -> Known:
        op = operation(opcode)
        assert op is not None, opcode
        given = [(one, one, 0) if isinstance(one, int) else one for one in operands]
        numbers = [number for _, number, _ in given]
        if op.name in ("div", "rem") and numbers[1] % (1 << op.width) == 0:
            raise Unlike
        found, required = self.reader.apply(op, [known for known, _, _ in given])
        if not all(holds(one, self.at) for one in required):
            raise Unlike
        machine = number_of(op)(numbers)
        if isinstance(found, (Compare, Both, Either)):
            if _folded_condition(found):
                raise Unlike
            assert holds(found, self.at) == bool(machine), (opcode, given, found, self.at)
        else:
            assert isinstance(found, (int, Linear)), (opcode, given)
            self._same(found, machine, op.to, (opcode, given, found, self.at))
        made = found, wrapped(machine, op.to), op.to
        self.known += [made] if op.to > 1 else []
        return made

    def _same(self, found: int | Linear, machine: int, width: int, said: object) -> None:
        if isinstance(found, int):
            assert wrapped(found, width) == wrapped(machine, width), said
            return
        if _folded(found):
            raise Unlike
        number = value(found, self.at)
        assert wrapped(number, width) == wrapped(machine, width), said
        assert self.reader.bounds(found)[0] <= number <= self.reader.bounds(found)[1], said
        self.read += any(is_quotient(one) or is_remainder(one) for one, _ in found.terms)


def _number(draw: random.Random, low: int, high: int) -> int:
    edges = [one for one in (*EDGES, low, high) if low <= one <= high]
    return draw.choice((draw.choice(edges), draw.randint(low, min(high, low + 99)), draw.randint(low, high)))


def rounded(run: Machine) -> None:
    """A signed quotient and its correction, down or up; sometimes with another number in one place."""
    draw, width = run.draw, run.draw.choice((32, 32, 64))
    number, divisor = run.any(width), _divisor(run, width)
    other = divisor if draw.random() < 0.8 else run.any(width)
    quotient = run(f"div.s{width}", number, divisor)
    left = run(f"rem.s{width}", number, divisor)
    some_left = run(f"setp.ne.s{width}", left, 0)
    signs = run(f"setp.{draw.choice(('lt', 'ge'))}.s{width}", run(f"xor.b{width}", number, other), 0)
    both = run("and.pred", *draw.sample((some_left, signs), 2))
    run(f"add.s{width}", quotient, run(f"selp.b{width}", draw.choice((1, -1)), 0, both))
    run(f"selp.b{width}", run(f"add.s{width}", left, other), left, both)


def multiplied_out(run: Machine) -> None:
    """A signed number by a constant, without a division; and what is left, and the quotient rounded down or up. Sometimes with another
    number in one place."""
    draw, number = run.draw, run.any()
    divisor = draw.choice((2, 3, 7, 132, 148, draw.randint(2, 200), draw.randint(2, LARGEST)))
    factor, shift = inverse_of(divisor)
    quotient = run("mul.hi.s32", *draw.sample((number, wrapped(factor, 32)), 2))
    if factor >> 31:
        quotient = run("add.s32", *draw.sample((quotient, number if draw.random() < 0.9 else run.any()), 2))
    parts = [run("shr.s32", quotient, shift) if shift else quotient, run("shr.u32", quotient, 31)]
    quotient = run("add.s32", *draw.sample(parts, 2))
    left = run("sub.s32", number, run("mul.lo.s32", quotient, divisor + draw.choice((0, 0, 0, 0, 0, 0, 0, 0, -1, 1))))
    if draw.random() < 0.5:
        asked = run(f"setp.{draw.choice(('lt', 'gt', 'ge'))}.s32", left, 0)
    else:
        signs = run(f"setp.{draw.choice(('lt', 'gt', 'ge'))}.s32", number if draw.random() < 0.9 else run.any(), 0)
        asked = run("and.pred", *draw.sample((run("setp.ne.s32", left, 0), signs), 2))
    run("add.s32", quotient, run("selp.b32", draw.choice((1, -1)), 0, asked))
    run("selp.b32", run("add.s32", left, divisor), left, asked)


def inverse_of(divisor: int) -> tuple[int, int]:
    """A factor and a shift: the upper half of the product with a signed number of 32 bits, shifted, is the quotient rounded down, or one
    less for a negative one that is a multiple."""
    for shift in range(31):
        factor = -(-(1 << 32 + shift) // divisor)
        if (factor * divisor - (1 << 32 + shift)) << 31 <= 1 << 32 + shift and factor < 1 << 32:
            return factor, shift
    raise AssertionError(divisor)


def left_over(run: Machine) -> None:
    """A number without a multiple of what it is divided by."""
    draw, width = run.draw, run.draw.choice((32, 32, 64))
    number, divisor = run.any(width), _divisor(run, width)
    quotient = run(f"div.{draw.choice('us')}{width}", number, divisor)
    other = divisor if draw.random() < 0.8 else run.any(width)
    run(f"sub.s{width}", number, run(f"mul.lo.s{width}", *draw.sample((quotient, other), 2)))


def one_more_if_some_is_left(run: Machine) -> None:
    """Also of 64 bits, of which only the lower half is asked about."""
    draw, width = run.draw, run.draw.choice((32, 64))
    number, divisor = run.any(width), _divisor(run, width)
    parts = [run(f"{name}.u{width}", number, divisor) for name in ("div", "rem")]
    quotient, left = [run("cvt.u32.u64", one) for one in parts] if width == 64 else parts
    asked = run(f"setp.{draw.choice(('ne', 'eq', 'gt'))}.{draw.choice('su')}32", left, 0)
    run("add.s32", quotient, run("selp.b32", *draw.choice(((1, 0), (0, 1))), asked))


def dealt(run: Machine) -> None:
    """An equal share for each block, and one more for those that what is left reaches."""
    draw, (blocks, place) = run.draw, [(atom(Symbol(name)), run.at[name], 32) for name in ("%nctaid.x", "%ctaid.x")]
    number = run.any()
    share, left = (run(f"{name}.u32", number, blocks) for name in ("div", "rem"))
    asked = run(f"setp.{draw.choice(('lt', 'gt', 'le', 'ge'))}.{draw.choice('su')}32", *draw.sample((place, left), 2))
    run("selp.b32", *draw.sample((run("add.s32", share, 1), share), 2), asked)


def asked_of_parts(run: Machine) -> None:
    """Of bits, of signs, of whether a number lies between two others."""
    draw = run.draw
    bit = 1 << draw.randint(0, 8)
    masked = run("and.b32", run.any(), draw.choice((~bit, ~(bit | bit << 2), bit - 1, bit | 1)))
    run(f"setp.{draw.choice(('eq', 'ne'))}.b32", masked, draw.choice((0, 1, bit, bit << 1)))
    run(f"setp.{draw.choice(('lt', 'ge'))}.s32", run(draw.choice(("or.b32", "and.b32")), run.any(), run.any()), 0)
    beyond = run("add.s32", run.any(), draw.choice((-1, -5, -64)))
    run(f"setp.{draw.choice(('lt', 'le', 'gt', 'ge'))}.u32", beyond, draw.choice((0, 3, LARGEST, -2)))


def made(run: Machine) -> None:
    """Numbers for the others."""
    draw = run.draw
    name = draw.choice(("add.s32", "sub.s32", "mul.lo.s32", "min.s32", "max.u32", "shr.u32", "mul.wide.u32", "add.s64"))
    width = 64 if name == "add.s64" else 32
    run(name, run.any(width), run.any(width) if draw.random() < 0.6 and name != "shr.u32" else draw.choice((1, 2, 7, 31)))


def _divisor(run: Machine, width: int) -> Known:
    if run.draw.random() < 0.5:
        return run(f"max.{run.draw.choice('us')}{width}", run.any(width), run.draw.choice((1, 1, 2, 0)))
    return run.any(width)


IDIOMS = (rounded, multiplied_out, left_over, one_more_if_some_is_left, dealt, asked_of_parts, made)


@pytest.mark.parametrize("seed", some("idioms", range(40), 0.5))
def test_what_compilers_write_is_what_the_machine_computes(seed: int) -> None:
    draw, read = random.Random(seed), 0
    for _ in range(volume(6, 60)):
        run = Machine(draw)
        for _ in range(24):
            try:
                draw.choice(IDIOMS)(run)
            except Unlike:
                continue
        read += run.read
    assert read > 20


def test_a_product_is_a_quotient_where_it_is_one_for_every_number() -> None:
    """Also with factors beside the right one, and other shifts: compared where a quotient changes, next to the largest numbers."""
    draw, found = random.Random("factors"), 0
    for _ in range(volume(1500, 20_000)):
        divisor = draw.choice((draw.randint(2, 300), draw.randint(2, 1 << 16), draw.randint(2, LARGEST)))
        factor, shift = inverse_of(divisor)
        factor, shift = max(2, factor + draw.choice((-1, 0, 0, 1, 2, 9))), min(max(0, shift + draw.choice((-1, 0, 0, 0, 1))), 30)
        said = _said_to_be(factor, shift)
        found += said == divisor
        for number in _critical(said or divisor):
            half = (factor * number >> 32) if factor < 1 << 32 else None
            machine = None if half is None else (half >> shift) + (half < 0)
            if said is not None:
                assert machine == (abs(number) // said) * (1 if number >= 0 else -1), (factor, shift, said, number)
    assert found > 100


def _said_to_be(factor: int, shift: int) -> int | None:
    """By what the reader says that a number is divided."""
    if factor >= 1 << 32:
        return None
    reader, number = Arithmetic(RANGES), atom(Apply("mul.lo.s32", (atom(Symbol("z")), atom(Symbol("d")))))

    def run(opcode: str, *operands: Value) -> Value:
        op = operation(opcode)
        assert op is not None
        return reader.apply(op, [*operands])[0]

    half = run("mul.hi.s32", number, wrapped(factor, 32))
    half = run("add.s32", half, number) if factor >> 31 else half
    match run("add.s32", run("shr.s32", half, shift) if shift else half, run("shr.u32", half, 31)):
        case Linear(0, ((Apply("div.s32", (whole, Linear(divisor, ()))), 1),)) if whole == number:
            return divisor
    return None


def _critical(divisor: int) -> list[int]:
    most = LARGEST // divisor * divisor
    near = [sign * times + by for sign in (1, -1) for times in (0, divisor, most, most - divisor) for by in (-1, 0, 1)]
    return [one for one in (*near, LARGEST, -LARGEST - 1) if -LARGEST - 1 <= one <= LARGEST]
