"""A constant that a register has already is not moved there again, and nowhere else is a move left out."""

import pytest

from pipec.ptx.constants import once

SET = "\tmov.b32 \t%r1, 2;"
AROUND = "\t@%p1 bra \t$L_behind;"


def _moves(*between: str) -> int:
    """How many of two equal moves are left, with lines between them."""
    return once("\n".join([SET, *between, SET])).count(SET)


@pytest.mark.parametrize(
    "between", [(), (AROUND,), ("\tmov.b32 \t%r11, 3;", "\t.loc\t1 2 3\t// %r1"), ("\tadd.s32 \t%r2, %r10, 1;",)]
)
def test_a_move_is_left_out(between: tuple[str, ...]) -> None:
    assert _moves(*between) == 1


@pytest.mark.parametrize(
    "between",
    [
        ("$L_turn:",),  # from elsewhere, with another number
        ("\tadd.s32 \t%r1, %r1, 1;",),
        ("\tmov.b32 \t%r1, 3;",),
        ("\tmov.b64 \t{%r2, %r1}, %rd1;",),
        ("\telect.sync \t%r1|%p1, -1;",),
        ("}",),  # in the next kernel it is another register
    ],
)
def test_a_move_is_kept(between: tuple[str, ...]) -> None:
    assert _moves(*between) == 2


def test_the_second_of_two_numbers_is_the_one_it_has() -> None:
    other = "\tmov.b32 \t%r1, 3;"
    assert once(f"{SET}\n{other}\n{other}\n{SET}").split("\n") == [SET, other, SET]
