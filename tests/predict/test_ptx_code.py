"""What the code between two places of a PTX kernel does: trips of loops, sides of branches, elements that are stored."""

import pytest

from pipec.predict.ptx.code import Code, Stretch

HEAD = """.visible .entry k(.param .u64 k_a) .reqntid 128
{
  mov.b32 %r0, 0;
"""


def between(body: str) -> Stretch:
    text = HEAD + body + "  mov.b32 %r99, 0;\n  ret;\n}\n"
    last = text.count("\n") - 2
    return Code(text, "k", 128).between(3, last, frozenset((3, last)), 128)


def loop(body: str, start: int, end: int, compare: str = "lt", step: int = 1) -> str:
    return f"""
  mov.b32 %r1, {start};
$L1:
{body}
  add.s32 %r1, %r1, {step};
  setp.{compare}.s32 %p1, %r1, {end};
  @%p1 bra $L1;
"""


READ = "  mapa.shared::cluster.u32 %r5, %r4, %r1;\n  ld.shared::cluster.v4.b32 {%r6, %r7, %r8, %r9}, [%r5];\n"


@pytest.mark.parametrize(
    ("start", "end", "compare", "step", "trips"),
    [(0, 4, "lt", 1, 4), (1, 4, "lt", 1, 3), (0, 8, "ne", 2, 4), (0, 7, "lt", 2, 4), (5, 3, "lt", 1, 1)],
)
def test_a_loop_between_constants_counts_each_trip(start: int, end: int, compare: str, step: int, trips: int) -> None:
    assert between(loop(READ, start, end, compare, step)).remote == 16 * 128 * trips


@pytest.mark.parametrize("bound", ["%r50", "4"])
def test_a_loop_whose_bounds_are_not_in_the_text_counts_once(bound: str) -> None:
    body = loop(READ, 0, 4).replace("%r1, 4;", f"%r1, {bound};")
    body = body if bound == "%r50" else body.replace("mov.b32 %r1, 0", "mov.b32 %r1, %r51")
    assert between(body).remote == 16 * 128


def test_loops_multiply_and_a_trip_that_one_cta_does_counts_once() -> None:
    inner = loop(READ, 0, 3).replace("$L1", "$L2").replace("%r1", "%r2").replace("%p1", "%p2")
    assert between(loop(inner, 0, 4)).remote == 16 * 128 * 12
    guarded = f"  setp.ne.b32 %p3, %r60, %r1;\n  @%p3 bra $L3;\n{inner}\n$L3:"
    assert between(loop(guarded, 0, 4)).remote == 16 * 128 * 3
    of_the_loop = guarded.replace("setp.ne.b32 %p3, %r60", "add.s32 %r60, %r60, 5;\n  setp.ne.b32 %p3, %r60")
    assert between(loop(of_the_loop, 0, 4)).remote == 16 * 128 * 12


def test_the_first_cta_reads_its_own_memory_for_nothing() -> None:
    own = READ.replace("%r4, %r1", "%r4, 0")
    assert between(own).remote == 0 and between(READ).remote == 16 * 128


@pytest.mark.parametrize("order", [1, -1])
def test_the_costlier_side_of_a_branch_counts(order: int) -> None:
    wide, narrow = ("  st.global.v4.b32 [%rd1], {%r6, %r7, %r8, %r9};", "  st.global.b32 [%rd1], %r6;")[::order]
    sides = f"  @%p5 bra $L5;\n{wide}\n  bra.uni $L6;\n$L5:\n{narrow}\n$L6:\n"
    assert between(sides).stored == 4 * 128
    skipped = f"  @%p5 bra $L6;\n{wide}\n$L6:\n{narrow}\n"
    assert between(skipped).stored == 5 * 128
    assert between(loop(sides, 0, 3)).stored == 12 * 128


def test_what_follows_a_loop_that_ends_at_its_head_counts() -> None:
    body = f"""
$L1:
  setp.ge.s32 %p1, %r1, %r50;
  @%p1 bra $L2;
{READ}
  add.s32 %r1, %r1, 1;
  bra.uni $L1;
$L2:
  st.global.b32 [%rd1], %r6;
"""
    found = between(body)
    assert (found.remote, found.stored) == (16 * 128, 128)


@pytest.mark.parametrize(
    ("packing", "elements"),
    [
        ("cvt.rn.bf16x2.f32 %r6, %r10, %r11;", 2),
        ("add.rn.f32 %r6, %r10, %r11;", 1),
        (
            "cvt.rn.satfinite.e4m3x2.f32 %rs1, %r10, %r11;\n  cvt.rn.satfinite.e4m3x2.f32 %rs2, %r12, %r13;\n  mov.b32 %r6, {%rs1, %rs2};",
            4,
        ),
    ],
)
def test_elements_are_what_was_packed(packing: str, elements: int) -> None:
    assert between(f"  {packing}\n  st.global.b32 [%rd1], %r6;\n").stored == elements * 128
    leaves = "  cp.async.bulk.tensor.2d.global.shared::cta.tile.bulk_group [%rd1, {%r7, %r4}], [%r6];\n"
    staged = between(f"  {packing}\n  st.shared.b32 [%r5], %r6;\n{leaves}")
    assert staged.stored == elements * 128
