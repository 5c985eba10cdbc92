"""A predicate that is false in a loop's first turn comes from the loop's test, where nobody else can tell."""

import pytest

from pipec.ptx.first_turns import from_tests

LOOP = """\
.visible .entry k(
)
{
	mov.b32 	%r1, 0;
	mov.pred 	%p1, 0;
	bra.uni 	$L_turn;
$L_end:
	add.s32 	%r1, %r1, 64;
	setp.lt.u32 	%p2, %r1, %r2;
	mov.pred 	%p1, -1;
	@%p2 bra 	$L_turn;
	bra.uni 	$L_behind;
$L_turn:
	.loc	1 2 3	// mma(acc, s.a, s.b)
	@%p3 bra 	$L_end;
	tcgen05.mma.cta_group::1.kind::f16 [%r3], %rd1, %rd2, %r4, %p1;
	bra.uni 	$L_end;
$L_behind:
	ret;
}
"""


def test_the_test_says_it() -> None:
    assert from_tests(LOOP).splitlines()[3:18] == [
        "\tmov.b32 \t%r1, 0;",
        "\tmov.pred \t%p2, -1;",
        "\tbra.uni \t$L_turn;",
        "$L_end:",
        "\tadd.s32 \t%r1, %r1, 64;",
        "\tsetp.ge.u32 \t%p2, %r1, %r2;",
        "\t@!%p2 bra \t$L_turn;",
        "\tbra.uni \t$L_behind;",
        "$L_turn:",
        "\t.loc\t1 2 3\t// mma(acc, s.a, s.b)",
        "\t@%p3 bra \t$L_end;",
        "\tnot.pred \t%p1, %p2;",
        "\ttcgen05.mma.cta_group::1.kind::f16 [%r3], %rd1, %rd2, %r4, %p1;",
        "\tbra.uni \t$L_end;",
        "$L_behind:",
    ]


@pytest.mark.parametrize(
    ("before", "after"),
    [
        pytest.param("\tret;", "\tselp.b32 \t%r5, 1, 0, %p1;\n\tret;", id="read behind the loop"),
        pytest.param("\tret;", "\tselp.b32 \t%r5, 1, 0, %p2;\n\tret;", id="the test is read behind the loop"),
        pytest.param("$L_turn:\n", "$L_turn:\n\tmov.pred \t%p1, -1;\n", id="set elsewhere"),
        pytest.param("\tbra.uni \t$L_end;\n", "\tsetp.eq.s32 \t%p1, %r1, 0;\n\tbra.uni \t$L_end;\n", id="computed elsewhere"),
        pytest.param("\tmov.pred \t%p1, 0;", "\tmov.pred \t%p1, %p4;", id="not cleared"),
        pytest.param("setp.lt.u32", "setp.lt.f32", id="no opposite, of a NaN"),
        pytest.param(
            "\tsetp.lt.u32 \t%p2, %r1, %r2;\n", "\tsetp.lt.u32 \t%p2, %r1, %r2;\n$L_other:\n", id="another way to the end"
        ),
        pytest.param("\tmov.pred \t%p1, -1;", "\tselp.b32 \t%r5, 1, 0, %p1;\n\tmov.pred \t%p1, -1;", id="read behind the test"),
        pytest.param("\t@%p2 bra \t$L_turn;", "\t@!%p2 bra \t$L_turn;", id="the test is negated"),
    ],
)
def test_nothing_else_is_changed(before: str, after: str) -> None:
    text = LOOP.replace(before, after, 1)
    assert text != LOOP and from_tests(text) == text


def test_a_loop_in_a_loop_is_cleared_in_each_turn() -> None:
    text = LOOP.replace("\tmov.b32 \t%r1, 0;\n", "$L_tile:\n\tmov.b32 \t%r1, 0;\n").replace(
        "\tret;", "\tbra.uni \t$L_tile;\n\tret;"
    )
    assert "not.pred" in from_tests(text)
