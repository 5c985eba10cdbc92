"""Where a block's portion of things begins and ends, said in many ways and with mistakes, beside the machine's arithmetic."""

import random
from collections.abc import Callable

import pytest
from samples import some, volume
from verify.interpret import holds, value
from verify.test_idioms import RANGES, Known, Machine, Unlike

from pipec.protocol.forms.rewriting import Rewriting
from pipec.verify.reader.text.operations import number_of, operation, wrapped
from pipec.verify.reader.values.arithmetic import Arithmetic
from pipec.verify.reader.values.interpretation import LIMITS, Interpretation
from pipec.verify.terms import Apply, Atom, Both, Compare, Either, Linear, Symbol, atom

CONSTANT = 6  # blocks of a grid that is a number
LARGEST = 33_554_432  # blocks


class Dealing(Machine):
    """Also of numbers that the reader has folded up, as it does with the begins of portions."""

    def __init__(self, draw: random.Random) -> None:
        super().__init__(draw)
        few = draw.random() < 0.4
        self.at["%nctaid.x"] = draw.choice((1, 2, 3, CONSTANT, 132, min(self.at["%nctaid.x"], LARGEST)))
        self.at["%ctaid.x"] = draw.randrange(min(self.at["%nctaid.x"], CONSTANT if few else 1 << 31))
        ranges = RANGES | {"%nctaid.x": (1, LARGEST), "%ctaid.x": (0, (CONSTANT if few else LARGEST) - 1)}
        self.reader = Arithmetic(ranges, how=Interpretation(draw.choice((LIMITS[0], 24, 240))))
        self.known = [(atom(Symbol(name)), number, 32) for name, number in self.at.items() if name in ("x", "z", "y")]
        self.place: Known = (atom(Symbol("%ctaid.x")), self.at["%ctaid.x"], 32)
        # (A number that is one too small is not how many blocks there are.)
        self.blocks: Known | int = (
            draw.choice((CONSTANT - 1, CONSTANT, CONSTANT + 1)) if few else (atom(Symbol("%nctaid.x")), self.at["%nctaid.x"], 32)
        )
        self.unfolding = Rewriting(self._folded)

    def _folded(self, one: Atom) -> Linear | None:
        if isinstance(one, Apply):
            _, folded = self.reader.folds.get(one.function.partition(".")[0], ((), None))
            if isinstance(folded, Linear):
                return Linear(wrapped(value(self.unfolding.form(folded), self.at), 32))
            if folded is not None:
                return Linear(int(holds(self.unfolding.formula(folded), self.at)))
        return None

    def __call__(self, opcode: str, *operands: Known | int) -> Known:
        op = operation(opcode)
        assert op is not None
        given = [(one, one, 0) if isinstance(one, int) else one for one in operands]
        found, required = self.reader.apply(op, [known for known, _, _ in given])
        if not all(holds(self.unfolding.formula(one), self.at) for one in required):
            raise Unlike
        machine = number_of(op)([number for _, number, _ in given])
        said = opcode, given, found, self.at
        if isinstance(found, (Compare, Both, Either)):
            assert holds(self.unfolding.formula(found), self.at) == bool(machine), said
        else:
            assert isinstance(found, (int, Linear)), said
            number = found if isinstance(found, int) else value(self.unfolding.form(found), self.at)
            assert wrapped(number, op.to) == wrapped(machine, op.to), said
        return found, wrapped(machine, op.to), op.to


def divided(run: Dealing, number: Known) -> tuple[Known, Known]:
    """Quotient and remainder of any sign, rounded down, as compilers write it."""
    quotient, left = run("div.s32", number, run.blocks), run("rem.s32", number, run.blocks)
    apart = run("setp.lt.s32", run("xor.b32", number, run.blocks), 0)
    both = run("and.pred", run("setp.ne.s32", left, 0), apart)
    return run("add.s32", quotient, run("selp.b32", -1, 0, both)), run("selp.b32", run("add.s32", left, run.blocks), left, both)


def or_another(run: Dealing, one: Known) -> Known:
    """The number, or sometimes one beside it."""
    return one if run.draw.random() < 0.94 else run("add.s32", one, run.draw.choice((-1, 1)))


def first(run: Dealing, each: Known, more: Known, place: Known) -> Known:
    """Where the portion of a block begins, where the first ones get one more."""
    smaller = "min.s32" if run.draw.random() < 0.95 else "max.s32"
    match run.draw.randrange(4):
        case 0:
            return run("add.s32", run("mul.lo.s32", place, each), run(smaller, or_another(run, place), or_another(run, more)))
        case 1:
            reached = run(f"setp.{run.draw.choice(('lt', 'le'))}.s32", place, more)
            ahead = run("selp.b32", or_another(run, place), or_another(run, more), reached)
            return run("add.s32", run("mul.lo.s32", place, each), ahead)
        case 2:
            larger = run("add.s32", each, 1)
            beyond = run("mul.lo.s32", run("sub.s32", place, more), each)
            reached = run("setp.lt.s32", place, more)
            other = run("add.s32", run("mul.lo.s32", more, larger), beyond)
            return run("selp.b32", run("mul.lo.s32", place, or_another(run, larger)), other, reached)
        case _:
            left = run("max.s32", run("sub.s32", place, or_another(run, more)), 0)
            return run("sub.s32", run("mul.lo.s32", place, run("add.s32", each, 1)), left)


def last(run: Dealing, each: Known, more: Known, place: Known) -> Known:
    """The same, where the last ones do."""
    from_ = run("sub.s32", run("add.s32", run("add.s32", place, 0), or_another(run, more)), run.blocks)
    return run("add.s32", run("mul.lo.s32", place, each), run("max.s32", from_, 0))


def one_more(run: Dealing, each: Known, more: Known, how: Callable[..., Known]) -> Known:
    if how is first:
        reached = run(f"setp.{'lt' if run.draw.random() < 0.9 else 'le'}.s32", run.place, more)
    else:
        reached = run(f"setp.{'ge' if run.draw.random() < 0.9 else 'gt'}.s32", run("add.s32", run.place, more), run.blocks)
    return run("selp.b32", run("add.s32", each, 1), each, reached)


def portion(run: Dealing) -> None:
    each, more = divided(run, run.draw.choice(run.known))
    how = run.draw.choice((first, last))
    begin = how(run, each, more, run.place)
    if run.draw.random() < 0.5:
        end = how(run, each, more, or_another(run, run("add.s32", run.place, 1)))
    else:
        end = run("add.s32", begin, one_more(run, each, more, how))
    run("setp.lt.s32", begin, end)
    mine = run("sub.s32", end, begin)
    run("setp.lt.s32", mine, one_more(run, each, more, how))
    run("setp.ge.s32", mine, 1)
    run("setp.lt.s32", run("add.s32", begin, 1), end)


@pytest.mark.parametrize("seed", some("portions", range(30), 0.5))
def test_they_are_what_the_machine_computes(seed: int) -> None:
    draw, seen = random.Random(seed), 0
    for _ in range(volume(15, 300)):
        run = Dealing(draw)
        try:
            portion(run)
        except Unlike:
            continue
        for begin, (end, whole) in run.reader.ends.items():
            seen += 1
            number, beyond, most = (value(run.unfolding.form(one), run.at) for one in (begin, end, whole))
            assert most < 0 or 0 <= number <= beyond <= most, (begin, end, run.at)
            low, high = -(1 << 31), (1 << 31) - 1
            assert low <= number <= high and low <= beyond <= high, (begin, end, run.at)
    assert seen > 4
