"""What the reader makes of an instruction on numbers is what the simulator computes: the two share no code."""

import random
from collections.abc import Iterator

import numpy as np
from samples import volume

from pipec.sim import Options, launch
from pipec.verify.reader.text.operations import Operation, number_of, operation, wrapped

EDGES = (0, 1, 2, 3, 7, 8, 15, 16, 31, 32, 33, 63, 64, 127, 128, 255, 0x7FFF, 0x8000, 0xFFFF, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFF)
EDGES_OF_64 = (*EDGES, 0x100000000, 0x7FFFFFFFFFFFFFFF, 0x8000000000000000, 0xFFFFFFFFFFFFFFFF, 0xFFFFFFFF80000000)
_REGISTER = {1: "%p", 16: "%rs", 32: "%r", 64: "%rd"}
KERNEL = """.version 8.7
.target sm_100a
.address_size 64
.visible .entry k(.param .u64 out)
.reqntid 1
{{
  .reg .pred %p<8>; .reg .b16 %rs<8>; .reg .b32 %r<8>; .reg .b64 %rd<9>;
  ld.param.u64 %rd8, [out];
  mov.u32 %r7, 1;
  setp.eq.u32 %p6, %r7, 1;
  setp.ne.u32 %p7, %r7, 1;
{body}
  ret;
}}
"""


def opcodes() -> Iterator[str]:
    for width in (16, 32, 64):
        for sign in "su":
            names = ["add", "sub", "mul.lo", "mul.hi", "mad.lo", "min", "max", "div", "rem", "shr"]
            names += ["abs", "neg"] if sign == "s" else []
            names += ["mul.wide", "mad.wide"] if width < 64 else []
            names += ["mad.hi"] if width > 16 else []
            names += ["bfe"] if width > 16 else []
            names += [f"setp.{how}" for how in ("eq", "ne", "lt", "le", "gt", "ge")]
            names += [f"setp.{how}" for how in ("lo", "ls", "hi", "hs")] if sign == "u" else []
            yield from (f"{name}.{sign}{width}" for name in names)
            yield from (f"cvt.{to}.{sign}{width}" for to in ("s16", "u16", "s32", "u32", "s64", "u64"))
        yield from (f"{name}.b{width}" for name in ("and", "or", "xor", "not", "shl", "selp"))
    yield from ("min.relu.s32", "max.relu.s32", "and.pred", "or.pred", "xor.pred", "not.pred")


def widths(op: Operation) -> list[int]:
    """Of the operands."""
    match op.name:
        case "abs" | "neg" | "not" | "cvt" | "mov":
            return [op.width]
        case "shl" | "shr":
            return [op.width, 32]
        case "bfe":
            return [op.width, 32, 32]
        case "mad":
            return [op.width, op.width, op.to]
        case "selp":
            return [op.width, op.width, 1]
        case _:
            return [op.width, op.width]


def drawn(draw: random.Random, op: Operation) -> list[int]:
    values = [
        draw.randrange(2) if width == 1 else draw.choice((draw.getrandbits(width), draw.choice(EDGES_OF_64))) & ((1 << width) - 1)
        for width in widths(op)
    ]
    if op.name in ("div", "rem") and not values[1]:
        values[1] = 3  # what comes of a division by zero is not defined, and the reader does not say
    return values


def code(opcode: str, op: Operation, values: list[int], at: int) -> str:
    lines, operands = [], []
    for number, (width, value) in enumerate(zip(widths(op), values, strict=True)):
        if width == 1:
            operands.append("%p6" if value else "%p7")
            continue
        operands.append(f"{_REGISTER[width]}{number}")
        lines.append(f"mov.b{width} {operands[-1]}, {value};")
    result = f"{_REGISTER[op.to]}5"
    lines.append(f"{opcode} {result}, {', '.join(operands)};")
    if op.to == 1:
        lines.append(f"selp.b64 %rd6, 1, 0, {result};")
    else:
        lines.append(f"cvt.s64.s{op.to} %rd6, {result};" if op.to < 64 else f"mov.b64 %rd6, {result};")
    return "\n".join([*lines, f"st.global.b64 [%rd8+{8 * at}], %rd6;"])


def test_numbers_are_those_of_the_simulator() -> None:
    draw = random.Random(1)
    asked = []
    for opcode in opcodes():
        op = operation(opcode)
        assert op is not None, opcode
        for _ in range(volume(3, 40)):
            asked.append((opcode, op, drawn(draw, op)))
    out = np.zeros(len(asked), np.int64)
    body = "\n".join(code(opcode, op, values, at) for at, (opcode, op, values) in enumerate(asked))
    launch(KERNEL.format(body=body), "k", grid=1, arguments=(out,), options=Options(trace=False))
    wrong = []
    for (opcode, op, values), simulated in zip(asked, out.tolist(), strict=True):
        given = [wrapped(value, width) for value, width in zip(values, widths(op), strict=True)]
        if (found := number_of(op)(given)) != simulated:
            wrong.append((opcode, given, found, simulated))
    assert wrong == []
