"""Instruction rows for Hopper's MMA in registers (PTX ISA 9.7.15), made for one accumulator each.

An accumulator's registers are written by the tensor cores while the warps go on, so nothing may copy or move them in between. LLVM
would (a value that lives across a loop is copied at its end); so they are PTX registers with names of their own, which only these
templates mention and LLVM never sees.
"""

from collections.abc import Sequence

from pipec.isa.dtypes import DType
from pipec.isa.instructions import I1, I64, VOID, Instruction
from pipec.record import record

_SECTION = "9.7.15"
_TARGET = "sm_90a"
_NEXT = "\\0A\\09"  # a new line in a template
_NAMES = {"i8": "s8", "i32": "s32"}
K_BYTES = 32  # of K that one instruction takes


@record
class Registers:
    """The registers of one accumulator in one thread: `blocks` of 64 rows for each warpgroup, `columns` wide."""

    prefix: str
    dtype: DType
    blocks: int
    columns: int

    @property
    def per_block(self) -> int:
        """64 x columns elements over 128 threads; two f16 to a register."""
        return self.columns * self.dtype.bits // 64

    @property
    def count(self) -> int:
        return self.blocks * self.per_block

    def name(self, index: int) -> str:
        return f"{self.prefix}{index}"

    def index(self, block: int, half: int, group: int) -> int:
        """The first register of columns 8 * group .. 8 * group + 7 in the upper or lower half of each 16 rows (SM100.md 8)."""
        pair = 2 * group + half
        return block * self.per_block + (pair if self.dtype.bits == 16 else 2 * pair)


def declare(registers: Registers) -> Instruction:
    kind = ".f32" if registers.dtype.name == "f32" else ".b32"
    return _row("declare", f".reg {kind} {registers.prefix}<{registers.count}>;", ".reg")


def clear(registers: Registers) -> Instruction:
    moves = [f"mov.b32 {registers.name(index)}, 0;" for index in range(registers.count)]
    return _row("clear", _NEXT.join(moves), "mov.b32")


def read(registers: Registers, indices: Sequence[int]) -> Instruction:
    """The values as i32 or f32."""
    type_, constraint = ("float", "=f") if registers.dtype.name == "f32" else ("i32", "=r")
    moves = [f"mov.b32 ${place}, {registers.name(index)};" for place, index in enumerate(indices)]
    result = type_ if len(moves) == 1 else f"{{ {', '.join([type_] * len(moves))} }}"
    constraints = ",".join([constraint] * len(moves))
    return Instruction("wgmma.read", _NEXT.join(moves), result, (), "mov.b32", "thread", _SECTION, _TARGET, constraints)


def multiply(registers: Registers, a: DType, b: DType, steps: int, a_transposed: bool, b_transposed: bool) -> Instruction:
    """`steps` instructions along K for each block of 64 rows.

    Operands: the first block's descriptors of A, the next one's, ..., the descriptors of B, and whether the first step adds to what
    is there (the others always do).
    """
    spelling = "wgmma.mma_async.sync.aligned"
    types = ".".join(_NAMES.get(dtype.name, dtype.name) for dtype in (registers.dtype, a, b))
    shape = f"m64n{registers.columns}k{K_BYTES // a.bytes}"
    b_first, accumulate = registers.blocks * steps, (registers.blocks + 1) * steps
    lines = ["setp.eq.b32 added, 0, 0;", "wgmma.fence.sync.aligned;"]
    for step in range(steps):
        for block in range(registers.blocks):
            first = block * registers.per_block
            d = ", ".join(registers.name(first + index) for index in range(registers.per_block))
            scale = f"${accumulate}" if step == 0 else "added"
            a_operand, b_operand = f"${block * steps + step}", f"${b_first + step}"
            lines.append(
                f"{spelling}.{shape}.{types} {{{d}}}, {a_operand}, {b_operand}, {scale}{_flags(a, a_transposed, b_transposed)};"
            )
    if steps == 1:
        lines = lines[1:]
    else:
        lines = ["{", ".reg .pred added;", *lines, "}"]
    operands = (I64,) * (registers.blocks * steps + steps) + (I1,)
    constraints = ",".join(["l"] * (len(operands) - 1) + ["b"])
    return Instruction(
        "wgmma.mma_async", _NEXT.join(lines), VOID, operands, spelling, "warpgroup", _SECTION, _TARGET, constraints
    )


def _flags(a: DType, a_transposed: bool, b_transposed: bool) -> str:
    """No negation (integers cannot be negated), and which operands stand with M or N innermost (only 16-bit ones can)."""
    if a.is_integer:
        return ""
    return ", 1, 1" + (f", {int(a_transposed)}, {int(b_transposed)}" if a.bits == 16 else "")


def _row(name: str, template: str, ptx: str) -> Instruction:
    return Instruction(f"wgmma.{name}", template, VOID, (), ptx, "thread", _SECTION, _TARGET, "")
