"""A shift by one of two numbers, as compilers write a choice between two quotients or two multiples: the choice between both."""

import random

import pytest
from verify.interpret import value
from verify.test_remainders import followed

from pipec.verify.reader.text.operations import wrapped
from pipec.verify.terms import Linear

BY = {
    "a choice": [("setp.gt.s32", "when", "i", 5), ("selp.b32", "by", 7, 6, "when")],
    "a choice, far apart": [("setp.gt.s32", "when", "i", 5), ("selp.b32", "by", 1, 9, "when")],
    "whether it is odd": [("and.b32", "odd", "n", 1), ("setp.ne.s32", "when", "odd", 0), ("selp.b32", "by", 7, 6, "when")],
    "whether it is even": [("and.b32", "odd", "n", 1), ("setp.eq.s32", "when", "odd", 0), ("selp.b32", "by", 8, 6, "when")],
    "whether two are left": [("rem.u32", "left", "n", 3), ("setp.eq.s32", "when", "left", 2), ("selp.b32", "by", 3, 5, "when")],
    "a bit": [("and.b32", "odd", "n", 1), ("add.s32", "by", "odd", 4)],
}
NOT = {
    "one of three numbers": [("rem.u32", "by", "n", 3)],
    "a number beyond the width": [("setp.gt.s32", "when", "i", 5), ("selp.b32", "by", 32, 6, "when")],
    "a negative number": [("setp.gt.s32", "when", "i", 5), ("selp.b32", "by", 6, -1, "when")],
    "any": [("mov.b32", "by", "i")],
}
OPCODES = ("shr.u32", "shr.s32", "shl.b32")


@pytest.mark.parametrize("opcode", OPCODES)
@pytest.mark.parametrize("by", BY)
def test_it_is_a_choice_of_what_the_machine_computes(by: str, opcode: str) -> None:
    draw = random.Random(f"{by} {opcode}")
    for _ in range(300):
        at = {"i": draw.choice((draw.randrange(-9, 9), draw.randrange(-(2**31), 2**31))), "n": draw.randrange(50)}
        at["d"] = draw.choice((draw.randrange(1, 999), draw.randrange(1, 2**31)))
        values, machine, required = followed([*BY[by], (opcode, "made", "d", "by"), (opcode, "of any", "i", "by")], at)
        for name in ("made", "of any"):
            found = values[name]
            assert isinstance(found, Linear) and not required
            assert wrapped(value(found, at), 32) == wrapped(machine[name], 32), (at, name)
        assert "sh" not in repr(values["made"])


@pytest.mark.parametrize("opcode", OPCODES)
@pytest.mark.parametrize("by", NOT)
def test_other_shifts_are_not_followed(by: str, opcode: str) -> None:
    values, _, _ = followed([*NOT[by], (opcode, "made", "d", "by")], {"i": 3, "n": 3, "d": 3})
    assert opcode.partition(".")[0] in repr(values["made"])
