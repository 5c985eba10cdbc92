"""What PTX of other origins is made of: function calls, constant expressions, vector registers, initial values, debug data."""

from __future__ import annotations

import struct

import numpy as np
import pytest

from pipec.sim import ArrayArgument, ScalarArgument, SimulationError, launch

HEAD = ".version 9.0\n.target sm_100a, debug\n.address_size 64\n"
LANE = np.arange(32)


def run(body: str, before: str = "", value: int = 0, block: int = 32):
    """Words `out[tid]` of a kernel whose `%out` points at the thread's own word; the result of the launch."""
    out = np.zeros(block, np.uint32)
    text = f"""{HEAD}{before}
.visible .entry k(.param .u64 .ptr .global .align 4 k_out, .param .u32 k_value)
.maxntid 1024, 1, 1
.pragma "nounroll";
.minnctapersm 1
{{
  .reg .b64 %out, %scaled; .reg .b32 %tid, %value;
  mov.u32 %tid, %tid.x;
  ld.param.u64 %out, [k_out];
  ld.param.u32 %value, [k_value];
  mul.wide.u32 %scaled, %tid, 4;
  add.s64 %out, %out, %scaled;
{body}
  ret;
}}
"""
    arguments = [ArrayArgument(out), ScalarArgument(struct.pack("<I", value))]
    result = launch(text, "k", block=block, arguments=arguments)
    return out, result


CLAMP = """
.visible .func (.param .b32 result) clamp(.param .b32 a, .param .align 8 .b8 range[8])
{
  .reg .pred %p; .reg .b32 %r<4>;
  ld.param.b32 %r0, [a];
  ld.param.v2.b32 {%r1, %r2}, [range];
  setp.ge.s32 %p, %r0, %r1;
  @%p bra HIGH;
  st.param.b32 [result], %r1;
  ret;
HIGH:
  min.s32 %r3, %r0, %r2;
  st.param.b32 [result+0], %r3;
  ret;
}
"""
CALL = """
  { .reg .b32 %low, %got;
    .param .b32 param0; .param .align 8 .b8 param1[8]; .param .b32 retval0;
    st.param.b32 [param0+0], %tid;
    mov.u32 %low, 5;
    st.param.v2.b32 [param1+0], {%low, %value};
    call.uni (retval0), clamp, (param0, param1);
    ld.param.b32 %got, [retval0+0];
    st.global.u32 [%out], %got;
  }
"""


def test_a_function_with_a_struct_and_divergent_returns():
    out, _ = run(CALL, CLAMP, value=20)
    assert out.tolist() == np.clip(LANE, 5, 20).tolist()


def test_the_same_names_in_every_call():
    again = CALL.replace("%tid;", "%again;").replace(".reg .b32 %low", ".reg .b32 %again, %low").replace("5;", "7;", 1)
    again = again.replace("st.param.b32 [param0+0]", "ld.global.u32 %again, [%out];\n st.param.b32 [param0+0]")
    out, _ = run(CALL + again, CLAMP, value=20)
    assert out.tolist() == np.clip(np.clip(LANE, 5, 20), 7, 20).tolist()


def test_a_guarded_call_and_a_function_declared_before_it_is_defined():
    prototype = ".visible .func (.param .b32 result) clamp(.param .b32 a, .param .align 8 .b8 range[8]);\n"
    body = "  .reg .pred %odd; .reg .b32 %bit;\n  and.b32 %bit, %tid, 1; setp.ne.u32 %odd, %bit, 0;\n" + CALL.replace(
        "call.uni", "mov.u32 %got, 99; st.param.b32 [retval0], %got;\n    @%odd call"
    )
    out, _ = run(body, prototype + CLAMP, value=20)
    assert out.tolist() == np.where(LANE % 2, np.clip(LANE, 5, 20), 99).tolist()


def test_register_parameters_and_calls_within_calls():
    functions = """
    .func (.reg .b32 r) twice(.reg .b32 a) { add.u32 r, a, a; ret; }
    .func (.reg .b32 r) four_times(.reg .b32 a) { .reg .b32 t; call (t), twice, (a); call (r), twice, (t); }
    """
    out, _ = run("  .reg .b32 %r; call (%r), four_times, (%tid); st.global.u32 [%out], %r;", functions)
    assert out.tolist() == (4 * LANE).tolist()


FUNCTIONS = """
.func (.param .b32 r) one(.param .b32 a) { .reg .b32 %t; ld.param.b32 %t, [a]; add.u32 %t, %t, 1; st.param.b32 [r], %t; ret; }
.func (.param .b32 r) two(.param .b32 a) { .reg .b32 %t; ld.param.b32 %t, [a]; mul.lo.u32 %t, %t, 2; st.param.b32 [r], %t; ret; }
.global .align 8 .u64 table[2] = {one, two};
"""
INDIRECT = """
  { .reg .b64 %f, %base; .reg .b32 %bit, %got; .param .b32 a; .param .b32 r;
    and.b32 %bit, %tid, 1; mul.wide.u32 %f, %bit, 8; mov.u64 %base, table; add.u64 %f, %f, %base;
    ld.global.u64 %f, [%f]; add.u64 %f, %f, OFFSET; st.param.b32 [a], %tid;
    prototype_0 : .callprototype (.param .b32 _) _ (.param .b32 _);
    call (r), %f, (a), prototype_0;
    ld.param.b32 %got, [r]; st.global.u32 [%out], %got; }
"""


def test_an_indirect_call_goes_where_each_lane_says():
    out, _ = run(INDIRECT.replace("OFFSET", "0"), FUNCTIONS)
    assert out.tolist() == np.where(LANE % 2, 2 * LANE, LANE + 1).tolist()


def test_an_indirect_call_to_no_function():
    with pytest.raises(SimulationError, match="is no function of fitting parameters"):
        run(INDIRECT.replace("OFFSET", "4"), FUNCTIONS)


def test_calls_that_cannot_be_simulated_say_so_with_their_line():
    for before, body, words in (
        (".func f() { call f; ret; }", "call f;", "recursive"),
        (".extern .func f();", "call f;", "has no body"),
        ("", "call f;", "is not declared"),
    ):
        with pytest.raises(SimulationError, match=words) as caught:
            run(body, before)
        assert caught.value.ptx_line


def test_wrong_number_of_arguments():
    with pytest.raises(SimulationError, match="has 1 parameters and 1 results; the call gives 0 and takes 0"):
        run("call one;", FUNCTIONS)


def test_printf_and_assert():
    runtime = """
.extern .func (.param .b32 r) vprintf(.param .b64 form, .param .b64 values);
.extern .func __assertfail(.param .b64 m, .param .b64 f, .param .b32 l, .param .b64 n, .param .b64 c);
.global .align 1 .b8 form[24] = {108,97,110,101,32,37,48,50,100,32,37,46,50,102,32,37,37,10,0};
.global .align 1 .b8 said[6] = {120, 32, 60, 32, 51};
"""
    say = """
  { .local .align 8 .b8 buffer[16]; .reg .b64 %p<4>; .reg .f64 %x; .reg .pred %q; .param .b64 a; .param .b64 b; .param .b32 r;
    mov.u64 %p0, buffer; cvta.local.u64 %p1, %p0; cvt.rn.f64.u32 %x, %tid; mul.f64 %x, %x, 0d3FD0000000000000;
    st.local.u32 [buffer], %tid; st.local.f64 [buffer+8], %x;
    mov.u64 %p2, form; cvta.global.u64 %p3, %p2;
    st.param.b64 [a], %p3; st.param.b64 [b], %p1;
    setp.lt.u32 %q, %tid, 2;
    @%q call.uni (r), vprintf, (a, b);
  }
"""
    _, result = run(say, runtime)
    assert result.printed == ["lane 00 0.00 %\n", "lane 01 0.25 %\n"]
    fail = """
  { .reg .b64 %p<3>; .param .b64 m; .param .b64 f; .param .b32 l; .param .b64 n; .param .b64 c; .reg .pred %q; .reg .b32 %l;
    mov.u64 %p0, said; st.param.b64 [m], %p0; st.param.b64 [f], %p0; mov.b32 %l, 7; st.param.b32 [l], %l; st.param.b64 [n], %p0;
    setp.eq.u32 %q, %tid, 3; @!%q bra DONE; call.uni __assertfail, (m, f, l, n, c); DONE: }
"""
    with pytest.raises(SimulationError, match=r"lane 3: assertion `x < 3` failed at x < 3:7"):
        run(fail, runtime)


def printed(form, words):
    """What lane 0 prints with a format and the 4-byte words of its arguments."""
    text = [*form.encode(), 0]
    runtime = f"""
.extern .func (.param .b32 r) vprintf(.param .b64 form, .param .b64 values);
.global .align 1 .b8 form[{len(text)}] = {{{", ".join(map(str, text))}}};
"""
    stores = "".join(f"st.local.b32 [buffer+{4 * at}], {word & 0xFFFFFFFF};" for at, word in enumerate(words))
    say = f"""
  {{ .local .align 8 .b8 buffer[512]; .reg .b64 %p<4>; .reg .pred %q; .param .b64 a; .param .b64 b; .param .b32 r;
    mov.u64 %p0, buffer; cvta.local.u64 %p1, %p0; {stores}
    mov.u64 %p2, form; cvta.global.u64 %p3, %p2; st.param.b64 [a], %p3; st.param.b64 [b], %p1;
    setp.eq.u32 %q, %tid, 0; @%q call.uni (r), vprintf, (a, b); }}
"""
    return run(say, runtime)[1].printed[0]


@pytest.mark.parametrize("form", ["%2000000000d", "%.2000000000f", "%*d", "%.*d", "%.2147483648x", "%" + "9" * 4000 + "d"])
def test_printf_of_any_width_prints_little(form):
    with pytest.raises(SimulationError, match="the simulator prints up to 4,096") as caught:
        printed(form, [2**31 - 1, 2**31 - 1, 0, 0])
    assert caught.value.kind == "unsupported"


@pytest.mark.parametrize("size", ["", "7", ".3", "9.4", "*", ".*", "*.*"])
def test_printf_takes_all_forms(size):
    kinds = [*"diouxXcfFeEgGaAp", *(length + kind for length in ("hh", "ll") for kind in "diouxX")]
    for flags in ("", "-+ #0"):
        text = "|".join(f"%{flags}{size}{kind}" for kind in kinds)
        assert printed(text, [-5] * 120).count("|") >= len(kinds) - 1


def test_constant_expressions():
    expression = "(0x10 | 0b101) + (7 - 010) * -2 + (1 << 4 >> 2) + !0 + (3 > 2 ? WARP_SZ : 9) + (-7 / 2) + (-7 % 3)"
    expected = (0x10 | 0b101) + (7 - 8) * -2 + 4 + 1 + 32 - 3 - 1
    out, _ = run(f"  .reg .b32 %r; mov.u32 %r, {expression}; st.global.u32 [%out+(2-2)*4], %r;")
    assert (out == expected).all()


@pytest.mark.parametrize("text", ["1 / 0", "1 << -1", "(1", "1 +", "()", "1 ? 2", "~", "1.5 + (2.5)"])
def test_constant_expressions_without_a_value(text):
    with pytest.raises(SimulationError) as caught:
        run(f"  .reg .b32 %r; mov.u32 %r, {text}; st.global.u32 [%out], %r;")
    assert caught.value.kind in ("malformed", "unsupported") and caught.value.ptx_line


def test_vector_registers():
    out, _ = run("""
  .reg .v4 .b32 %v; .reg .v2 .b32 pair<3>;
  mov.u32 %v.x, %tid; mov.u32 %v.y, 10; add.u32 %v.z, %v.x, %v.y; mov.b32 %v.w, 0;
  .shared .align 16 .v4 .b32 place[32];
  .reg .b32 %a; mov.u32 %a, place; mad.lo.u32 %a, %tid, 16, %a;
  st.shared.v4.b32 [%a], %v;
  ld.shared.v2.b32 pair1, [%a+8];
  add.u32 pair2.y, pair1.x, pair1.g;
  st.global.u32 [%out], pair2.y;
""")
    assert out.tolist() == (LANE + 10).tolist()


def test_elements_of_arrays():
    """In loads and stores an element is memory, elsewhere its address; ptxas 13.0 multiplies the index by the element's size."""
    out, _ = run(
        """
  .shared .align 4 .b32 words[4]; .shared .align 8 .v2 .b32 pairs[2];
  .reg .b32 %r<8>; .reg .b64 %a;
  mov.u32 %r0, words; mov.u32 %r1, words[1+1]; sub.u32 %r1, %r1, %r0;
  mov.u32 %r0, pairs; mov.u32 %r2, pairs[1]; sub.u32 %r2, %r2, %r0;
  ld.global.u32 %r3, table[2]; ld.global.u8 %r4, bytes[3];
  st.shared.u32 words[3], %r3; ld.shared.u32 %r5, [words+12];
  mad.lo.u32 %r6, %r1, 1000, %r2; mad.lo.u32 %r6, %r4, 10000, %r6; mad.lo.u32 %r6, %r5, 100000, %r6;
  st.global.u32 [%out], %r6;
""",
        ".global .align 4 .u32 table[3] = {5, 6, 7}; .global .b8 bytes[4] = {0, 1, 2, 3};",
        block=1,
    )
    assert out[0] == 7 * 100000 + 3 * 10000 + 8 * 1000 + 8


def test_initial_values():
    data = """
.const .align 4 .f32 factors[2] = {1.5, 0f40000000};
.global .align 4 .b32 grid[2][3] = {{1, 2, 3}, {4}};
.global .align 8 .u64 where = generic(factors)+4;
.global .align 8 .u64 inside[] = {grid+8, grid};
"""
    out, _ = run(
        """
  .reg .b64 %p<3>; .reg .b32 %r<8>; .reg .f32 %f;
  ld.global.u64 %p0, [where]; ld.f32 %f, [%p0];         cvt.rzi.u32.f32 %r0, %f;
  ld.const.f32 %f, [factors]; mul.f32 %f, %f, 0f41200000; cvt.rzi.u32.f32 %r1, %f;
  ld.global.u64 %p1, [inside]; ld.global.u32 %r2, [%p1]; ld.global.u32 %r3, [grid+16]; ld.global.u32 %r4, [grid+12];
  mad.lo.u32 %r5, %r0, 10000, 0; mad.lo.u32 %r5, %r1, 100, %r5; mad.lo.u32 %r5, %r2, 10, %r5; add.u32 %r5, %r5, %r3;
  add.u32 %r5, %r5, %r4;
  st.global.u32 [%out], %r5;
""",
        data,
    )
    assert out[0] == 20000 + 1500 + 30 + 0 + 4


def test_a_name_may_hide_another_of_an_outer_scope():
    out, _ = run(
        """
  { .shared .b32 place; .reg .b32 %a; mov.u32 %a, 1; st.shared.u32 [place], %a;
    { .local .b32 place; .reg .b32 %a; mov.u32 %a, 20; st.local.u32 [place], %a; ld.local.u32 %a, [place]; st.global.u32 [%out], %a; }
    .reg .b32 %b; bar.sync 0; ld.shared.u32 %b, [place]; ld.global.u32 %a, [%out]; add.u32 %a, %a, %b; st.global.u32 [%out], %a; }
""",
        ".global .b32 place = 300;",
    )
    assert (out == 21).all()


def test_debug_sections_and_alias():
    text = """
.func (.reg .b32 r) body(.reg .b32 a) { add.u32 r, a, 3; ret; }
.alias other, body;
.file 1 "a.cu", 1700000000, 12
.section .debug_str { info: .b8 1,2, 0
 .b64 $begin
 .b32 end-info }
"""
    body = "  .loc 1 3 4, function_name info+4, inlined_at 1 2 3\n  .reg .b32 %r; call (%r), other, (%tid); st.global.u32 [%out], %r;"
    out, _ = run(body, text)
    assert out.tolist() == (LANE + 3).tolist()


@pytest.mark.parametrize(
    ("before", "body", "words"),
    [
        (".global .texref image;", "", "textures"),
        (".weird thing;", "", "directive `.weird`"),
        ("", ".weird 3;", "directive `.weird`"),
        (".global .b8 low[2] = {0xFF(k_out), 0};", "", "some bytes of an address"),
        (".global .b32 table[9];", ".reg .b32 %r; ld.global.b32 %r, table[%tid];", "indexed by a register"),
    ],
)
def test_what_the_parser_does_not_know_is_unsupported(before, body, words):
    with pytest.raises(SimulationError, match=words) as caught:
        run(body, before)
    assert caught.value.kind == "unsupported" and caught.value.ptx_line


@pytest.mark.parametrize(
    ("before", "words"),
    [
        (".global .b8 huge[99999999999999];", "bytes"),
        (".global .b8 few[2] = {1, 2, 3};", "initial values"),
        (".global .align 3 .b8 odd[2];", "power of two"),
        (".func f() { ret; }\n.func f() { ret; }", "defined twice"),
        (".global .b32 deep = " + "(" * 5000 + "1" + ")" * 5000 + ";", "nested too deeply"),
    ],
)
def test_nonsense_in_declarations(before, words):
    with pytest.raises(SimulationError, match=words) as caught:
        run("", before)
    assert caught.value.kind == "malformed" and caught.value.ptx_line


def test_only_arrays_have_elements():
    with pytest.raises(SimulationError, match="only an array has elements") as caught:
        run("  mov.b64 %scaled, %out[1];")
    assert caught.value.kind == "malformed" and caught.value.ptx_line


def test_extension_from_any_bit():
    """szext: by definition, in Python's integers."""
    source = 0x9ABCDEF5
    for mode, kind in (("wrap", "s32"), ("wrap", "u32"), ("clamp", "s32"), ("clamp", "u32")):
        out, _ = run(
            f"  .reg .b32 %r<3>; mov.u32 %r0, {source}; szext.{mode}.{kind} %r1, %r0, %tid; st.global.u32 [%out], %r1;", block=40
        )
        for lane, found in enumerate(out.tolist()):
            bits = lane % 32 if mode == "wrap" else min(lane, 32)
            low = source & (1 << bits) - 1
            negative = kind == "s32" and bits and low >> bits - 1
            assert found == (low - (1 << bits) if negative else low) & 0xFFFFFFFF, (mode, kind, lane)


def test_pairs_of_short_integers_wrap_separately():
    out, _ = run(
        "  .reg .b32 %r<3>; mov.u32 %r0, 0x0001FFFF; pmevent 3; add.u16x2 %r1, %r0, 0xFFFF0001; st.global.u32 [%out], %r1;"
    )
    assert (out == 0).all()


def test_space_in_front_of_a_modifier():
    out, _ = run("add .s32 %tid, %tid, 1; st.global .cg\n.b32 [%out], %tid;")
    assert (out == LANE + 1).all()


def test_no_space_between_directives():
    """As inline assembly has it; ptxas takes it."""
    out, _ = run(
        "{.reg.pred %p; .reg.v2.b32 %v; setp.ne.u32 %p, %tid, 99; @%p add.u32 %v.x, %tid, 1; st.global.b32 [%out], %v.x;}"
    )
    assert (out == LANE + 1).all()


@pytest.mark.parametrize(
    "instruction",
    [
        "ld.shared.u32 %r1, [%r2+99999999999999999999];",
        "ld.shared.u32 %r1, [nothing];",
        "st.shared.u8 [%r2], 1e9;",
        "wgmma.mma_async.sync.aligned.m64n8k16.f32.bf16.bf16 {%f1, %f2, %f3, %f4}, %d1, %d2, %p1, 1, 1, 0;",
        "wgmma.mma_async.sync.aligned.m64n8k16.f32.bf16.bf16 {%f1, %f2, %f3}, %d1, %d2, %p1, 1, 1, 0, 0;",
        "tcgen05.st.sync.aligned.32x32b.x1.b32 [%r1], {};",
        "tcgen05.ld.sync.aligned.16x256b.x1.b32 {%r1, %r2}, [%r3];",
        "stmatrix.sync.aligned.m8n8.x4.shared.b16 [%r1], {%r2, %r3, %r4};",
        "ldmatrix.sync.aligned.m8n8.x2.shared.b16 {%r2, %r3, %r4}, [%r1];",
    ],
)
def test_operands_that_do_not_fit_are_the_fault_of_the_text(instruction: str) -> None:
    text = (
        ".version 9.0\n.target sm_100a\n.address_size 64\n.entry k() {\n"
        ".reg .pred %p<4>; .reg .b32 %r<9>; .reg .f32 %f<9>; .reg .b64 %d<4>;\n"
        f"{instruction}\nret; }}"
    )
    with pytest.raises(SimulationError) as caught:
        launch(text, block=32)
    assert (caught.value.kind, caught.value.ptx_line) == ("malformed", 6), caught.value


def test_any_number_may_be_the_address_of_an_mbarrier() -> None:
    text = """.version 8.0
        .target sm_90a
        .address_size 64
        .entry k() { .reg .b64 %d<4>; .reg .b32 %r<4>; mov.b32 %r1, -1; mbarrier.arrive.shared::cta.b64 %d1, [%r1]; ret; }"""
    with pytest.raises(SimulationError) as caught:
        launch(text, block=32)
    assert caught.value.kind != "internal"
