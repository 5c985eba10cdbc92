"""Instruction rows for Hopper's MMA in registers (PTX ISA 9.7.15), generated per accumulator.

The registers of an accumulator, and of a register operand A, are used asynchronously by the tensor cores, so nothing may copy or move
them in the meantime. LLVM would (a value that is live across a loop is copied at its end); so they are PTX registers declared by name,
which only these templates mention and LLVM never sees.
"""

from collections.abc import Sequence

from pipec.isa.dtypes import DType
from pipec.isa.instruction import F32, I1, I32, I64, VOID, Instruction
from pipec.record import record

_SECTION = "9.7.15"
_TARGET = "sm_90a"
_NEXT = "\\0A\\09"  # a new line in a template
_NAMES = {"i8": "s8", "i32": "s32"}
K_BYTES = 32  # of K per instruction


@record
class Registers:
    """The registers of an accumulator in one thread, or of an operand A: `blocks` of 64 rows for each warpgroup, `columns` wide (of K).

    An accumulator has two f16 per register. Of an operand, every 16 bytes of a row are distributed over the four lanes of the row, one
    register each.
    """

    prefix: str
    dtype: DType
    blocks: int
    columns: int
    operand: bool = False

    @property
    def per_block(self) -> int:
        """64 x columns elements over 128 threads."""
        return self.columns * self.dtype.bits // 64

    @property
    def count(self) -> int:
        return self.blocks * self.per_block

    @property
    def single(self) -> bool:
        """Whether LLVM holds their values as float."""
        return self.dtype.name == "f32" and not self.operand

    def name(self, index: int) -> str:
        return f"{self.prefix}{index}"

    def index(self, block: int, half: int, unit: int) -> int:
        """The first register of unit `unit` in the upper or lower half of every 16 rows (hardware.md 8).

        Units are groups of eight columns of an accumulator, 16 bytes of an operand.
        """
        pair = 2 * unit + half
        return block * self.per_block + (pair if self.operand or self.dtype.bits == 16 else 2 * pair)

    def step(self, block: int, step: int) -> str:
        """The four registers of an operand for one instruction along K."""
        first = block * self.per_block + 4 * step
        return f"{{{', '.join(self.name(first + index) for index in range(4))}}}"


def declare(registers: Registers) -> Instruction:
    kind = ".f32" if registers.single else ".b32"
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


def write(registers: Registers, indices: Sequence[int]) -> Instruction:
    """Takes the values in the form returned by `read`."""
    type_, constraint = (F32, "f") if registers.single else (I32, "r")
    moves = [f"mov.b32 {registers.name(index)}, ${place};" for place, index in enumerate(indices)]
    operands, constraints = (type_,) * len(moves), ",".join([constraint] * len(moves))
    return Instruction("wgmma.write", _NEXT.join(moves), VOID, operands, "mov.b32", "thread", _SECTION, _TARGET, constraints)


def multiply(
    registers: Registers, a: DType | Registers, b: DType, steps: int, a_transposed: bool, b_transposed: bool
) -> Instruction:
    """`steps` instructions along K for each block of 64 rows.

    Operands: if A is in shared memory, the first block's descriptors of it, the next one's, ..., then the descriptors of B, and whether
    the first step accumulates (the others always do).
    """
    operand = a if isinstance(a, Registers) else None
    a = a.dtype if isinstance(a, Registers) else a
    spelling = "wgmma.mma_async.sync.aligned"
    types = ".".join(_NAMES.get(dtype.name, dtype.name) for dtype in (registers.dtype, a, b))
    shape = f"m64n{registers.columns}k{K_BYTES // a.bytes}"
    b_first = 0 if operand else registers.blocks * steps
    accumulate = b_first + steps
    lines = ["setp.eq.b32 added, 0, 0;", "wgmma.fence.sync.aligned;"]
    for step in range(steps):
        for block in range(registers.blocks):
            first = block * registers.per_block
            d = ", ".join(registers.name(first + index) for index in range(registers.per_block))
            scale = f"${accumulate}" if step == 0 else "added"
            a_operand = operand.step(block, step) if operand else f"${block * steps + step}"
            flags = _flags(a, None if operand else a_transposed, b_transposed)
            lines.append(f"{spelling}.{shape}.{types} {{{d}}}, {a_operand}, ${b_first + step}, {scale}{flags};")
    if steps == 1:
        lines = lines[1:]
    else:
        lines = ["{", ".reg .pred added;", *lines, "}"]
    operands = (I64,) * accumulate + (I1,)
    constraints = ",".join(["l"] * (len(operands) - 1) + ["b"])
    return Instruction(
        "wgmma.mma_async", _NEXT.join(lines), VOID, operands, spelling, "warpgroup", _SECTION, _TARGET, constraints
    )


def _flags(a: DType, a_transposed: bool | None, b_transposed: bool) -> str:
    """No negation (not available for integers), and which operands have M or N innermost (possible only for 16-bit ones in shared
    memory)."""
    if a.is_integer:
        return ""
    transposed = [flag for flag in (a_transposed, b_transposed) if flag is not None]
    return ", 1, 1" + "".join(f", {int(flag)}" for flag in transposed) * (a.bits == 16)


def _row(name: str, template: str, ptx: str) -> Instruction:
    return Instruction(f"wgmma.{name}", template, VOID, (), ptx, "thread", _SECTION, _TARGET, "")
