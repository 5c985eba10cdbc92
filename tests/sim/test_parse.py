"""The parser never answers with a traceback."""

from __future__ import annotations

import random

import pytest

from pipec.sim import SimulationError, launch, parse
from pipec.sim.load import load
from pipec.sim.machine.memory.global_memory import GlobalMemory
from pipec.sim.ptx.tree import Address, Immediate, Register, Sink, Symbol, Vector

from .gemm_ptx import gemm_ptx

HEAD = ".version 8.6\n.target sm_100a\n.address_size 64\n"


def function(body: str, before: str = ""):
    return parse(f"{HEAD}{before}.visible .entry k(.param .u64 p)\n{{\n{body}\n}}\n").functions["k"]


def test_operand_forms():
    code = function("""
      .reg .b32 %r<20>; .reg .b64 %rd<3>; .reg .pred %p<2>;
      ld.global.v2.b32 {%r1, _}, [%rd1+-8];
      @!%p1 mov.u32 %r2, -5;
      add.f32 %r3, %r4, 0f3F800000;
      mov.u64 %rd2, p+16;
      setp.eq.s32 %p0|%p1, %r1, 0x10U;
      cp.async.bulk.tensor.2d.shared::cta.global.tile.mbarrier::complete_tx::bytes [%r5], [%rd1, {%r6, %r7}], [%r8+8];
    """).instructions
    load, move, add, symbol, _, tensor = code
    assert load.operands[0].items[1] == Sink() and load.operands[1].offset == -8
    assert move.guard.negated and move.operands[1] == Immediate(-5)
    assert add.operands[2] == Immediate(0x3F800000, 32)
    assert symbol.operands[1] == Symbol("p", 16)
    assert isinstance(tensor.operands[1], Address) and len(tensor.operands[1].coordinates) == 2
    assert isinstance(load.operands[0], Vector) and isinstance(load.operands[0].items[0], Register)


def test_scopes_hide_names_and_labels():
    code = function("""
      .reg .b32 %r1;
      { .reg .b32 %r1; .reg .pred %p; L: mov.u32 %r1, 1; @%p bra L; }
      { .reg .pred %p; L: mov.u32 %r1, 2; @%p bra L; }
    """)
    first, _, second, _ = code.instructions
    assert first.operands[0] != second.operands[0]
    assert sorted(code.labels.values()) == [0, 2]


def test_module_level():
    module = parse(
        HEAD
        + """
      .file 1 "a.cu", 123, 456
      .extern .shared .align 1024 .b8 smem[];
      .shared .align 16 .b8 fixed[40];
      .const .align 4 .u32 table[3] = {1, 2, 3};
      .global .u64 pointer = generic(table);
      .section .debug_str { .b8 0 }
      .weak .func (.param .b32 r) helper(.param .b32 a);
      .visible .entry k() .maxntid 128, 1, 1 .minnctapersm 1 .reqnctapercluster 2, 1, 1 { ret; }
    """
    )
    assert [v.size for v in module.variables] == [0, 40, 12, 8]
    assert module.functions["k"].directives["reqnctapercluster"] == (2, 1, 1)


@pytest.mark.parametrize(
    "body, words",
    [
        ("add.u32 %r1, %r2, %r3;", "not declared"),
        (".reg .b32 %r1; mov.u32 %r1 5;", "expected"),
        (".reg .b99 %r1;", "unknown register type"),
        (".reg .b32 %r<2>; bra NOWHERE;", "NOWHERE"),
        (".reg .b32 %r<2>; mov.u32 %r1, \\;", "unexpected character"),
        (".reg .b32 %r<2>; add.u32 %r1, %r0;", "missing"),
    ],
)
def test_malformed(body, words):
    with pytest.raises(SimulationError) as caught:
        launch(f"{HEAD}.entry k()\n{{\n{body}\n}}", block=(32, 1, 1))
    assert caught.value.kind == "malformed" and words in caught.value.message
    assert caught.value.ptx_line > 0


def test_cut_off_anywhere():
    text = gemm_ptx()
    rng = random.Random(3)
    for _ in range(60):
        _parse_quietly(text[: rng.randrange(len(text))])


def test_damaged_anywhere():
    text = gemm_ptx()
    rng = random.Random(4)
    for _ in range(60):
        place = rng.randrange(len(text))
        _parse_quietly(text[:place] + rng.choice("{}[](),;.:%@!|x9 ") + text[place + rng.randrange(3) :])


def _parse_quietly(text: str) -> None:
    try:
        module = parse(text)
        for kernel in module.kernels:
            load(module, kernel, GlobalMemory(), 0)
    except SimulationError as error:
        assert error.kind in ("malformed", "unsupported")


def test_unknown_instruction_is_reported_when_reached():
    text = f"{HEAD}.entry k() {{ .reg .pred %p; setp.eq.u32 %p, 0, 1; @%p frobnicate.b32; ret; }}"
    launch(text, block=32)
    with pytest.raises(SimulationError) as caught:
        launch(text.replace("@%p frob", "frob"), block=32)
    assert caught.value.kind == "unsupported" and "frobnicate" in caught.value.message


def test_the_end_of_a_c_string_is_no_part_of_the_text():
    text = HEAD + ".entry k() { ret; }\n"
    assert parse(text + "\0").functions["k"].instructions == parse(text).functions["k"].instructions
    with pytest.raises(SimulationError, match="unexpected character"):
        parse(text.replace("ret", "\0ret"))


def test_inline_assembly_has_its_own_line():
    """LLVM goes on counting in the lines of the assembly, whose fourth one would be three lines further down in the source."""
    text = """.loc 1 20 3 // a.py:20:3
    // begin inline asm
    .loc 1 20 3
    mov.u32 %r1, 0;
    .loc 1 21 3
    ld.global.b32 %r1, [%rd1];
    // end inline asm
    mov.u32 %r2, %r1;
    .loc 1 30 3
    mov.u32 %r2, %r1;"""
    module = parse(f'{HEAD}.file 1 "a.py"\n.entry k() {{ .reg .b32 %r<3>; .reg .b64 %rd<2>;\n{text}\n}}\n')
    assert [item.location[1] for item in module.functions["k"].instructions] == [20, 20, 20, 30]
