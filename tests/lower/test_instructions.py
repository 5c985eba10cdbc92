"""The instruction table against LLVM: every row is accepted with its operands and prints as the row says."""

import re
from pathlib import Path

import pytest

import pipec.lower
from pipec.isa.instruction import Instruction
from pipec.isa.instructions import INSTRUCTIONS
from pipec.isa.targets import TARGETS
from pipec.ptx import emit

# Immediates where zero is not a legal value; the others are zero.
IMMEDIATES = {
    "setmaxnreg.inc": ["232"],
    "setmaxnreg.dec": ["24"],
    "tcgen05.mma": ["0", "1", "0"],
    "tcgen05.mma.tensor": ["0", "1", "0"],
    **{f"tcgen05.mma.{kind}": ["1", "0"] for kind in ("mxf8f6f4", "mxf4", "mxf4nvf4")},
}


def module(row: Instruction) -> str:
    immediates = iter(IMMEDIATES.get(row.name, ["0"] * 8))
    parameters, arguments = [], []
    for index, operand in enumerate(row.operands):
        if operand.endswith("="):
            literal = next(immediates)
            arguments.append(f"{operand[:-1]} {'false' if operand == 'i1=' else literal}")
        else:
            parameters.append(f"{operand} %p{index}")
            arguments.append(f"{operand} %p{index}")
    callee = f"@{row.llvm}" if row.constraints is None else f'asm sideeffect "{row.llvm}", "{row.constraints}"'
    call = f"call {row.result} {callee}({', '.join(arguments)})"
    if row.result == "void":
        body = f"  {call}"
    else:
        body = f"  %r = {call}\n  store {row.result} %r, ptr addrspace(1) %out"
        parameters.append("ptr addrspace(1) %out")
    parameters = [parameter.replace("i1 %", "i1 zeroext %") for parameter in parameters]
    text = f"define void @f({', '.join(parameters)}) {{\n{body}\n  ret void\n}}\n"
    return f'target triple = "nvptx64-nvidia-cuda"\n{text}'


@pytest.mark.parametrize("row", INSTRUCTIONS.values(), ids=lambda row: row.name)
def test_row(row):
    target = TARGETS["sm_100a"]
    ptx = emit.assembly(module(row), target)
    assert row.ptx in ptx, ptx


def test_lowering_takes_nvvm_intrinsics_from_the_table_only():
    for path in Path(pipec.lower.__file__).parent.glob("*.py"):
        assert not re.search(r"llvm\.nvvm", path.read_text()), path.name


def test_names_of_rows_say_their_target():
    assert all(row.target == "sm_100a" for row in INSTRUCTIONS.values() if row.name.startswith("tcgen05"))
    assert all(row.target in TARGETS for row in INSTRUCTIONS.values())
