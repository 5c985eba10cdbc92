"""Numbers count by the bits that an instruction takes of them, and fill a wider register as its type says."""

from itertools import product
from math import inf

import pytest

from pipec.protocol.prove import Undecided, prove
from pipec.verify.checker.check import check
from pipec.verify.checker.configuration import Refused
from pipec.verify.network import Unreadable
from pipec.verify.reader.read import read
from pipec.verify.reader.text.interface import signed_as_declared
from pipec.verify.reader.text.operations import wrapped
from pipec.verify.reader.values.registers import _loads_all
from pipec.verify.terms import RANGES

# All lanes wait for an arrival that is made if %p2 holds.
KERNEL = """
.version 8.8
.target sm_90a
.address_size 64
.extern .shared .align 1024 .b8 smem[];
.visible .entry k(.param .u32 n)
.reqntid 32
{{
	.reg .pred %p<10>;
	.reg .b16 %rs<10>;
	.reg .b32 %r<10>;
	.reg .b64 %rd<10>;
	mov.u32 %r1, %tid.x;
	ld.param.u32 %r9, [n];
	setp.ne.b32 %p1, %r1, 0;
	@%p1 bra $READY;
	mbarrier.init.shared.b64 [smem], 1;
$READY:
	bar.sync 0;
	{code}
	@!%p2 bra $WAIT;
	@%p1 bra $WAIT;
	mbarrier.arrive.shared.b64 _, [smem];
$WAIT:
	mbarrier.try_wait.parity.shared.b64 %p5, [smem], 0;
	@!%p5 bra $WAIT;
	ret;
}}
"""


def holds(code: str) -> bool:
    """Whether the kernel is proved, which it is only if %p2 is read as true."""
    try:
        network = read(KERNEL.format(code=code))
        check(network, prove(network))
    except (Unreadable, Undecided, Refused):
        return False
    return True


@pytest.mark.parametrize(
    ("code", "true"),
    [
        ("mov.b32 %r2, -1;\nsetp.eq.s32 %p2, %r2, 4294967295;", True),
        ("mov.b32 %r2, -1;\nsetp.ne.s32 %p2, %r2, 4294967295;", False),
        ("mov.b32 %r2, 0;\nsetp.lt.s32 %p2, %r2, 0xFFFFFFFF;", False),
        ("mov.b16 %rs2, 40000;\nsetp.ne.s16 %p2, %rs2, 40000;", False),
        ("mov.b32 %r2, 8;\nmin.s32 %r3, %r2, 4294967294;\nsetp.eq.s32 %p2, %r3, 8;", False),
        ("shr.s32 %r3, 4294967294, 1;\nsetp.eq.s32 %p2, %r3, -1;", True),
        ("mul.wide.s32 %rd3, 4294967294, 4;\nsetp.eq.s64 %p2, %rd3, -8;", True),
        ("selp.b32 %r3, 4294967295, 0, 1;\nsetp.lt.s32 %p2, %r3, 0;", True),
        ("max.s32 %r3, %r9, 4294967295;\nsetp.ge.s32 %p2, %r3, 4294967295;", True),
        ("mov.b32 %r2, 5;\ndiv.s32 %r3, %r2, 4294967296;\nsetp.eq.s32 %p2, %r3, 0;", False),
    ],
)
def test_numbers_written_out(code: str, true: bool) -> None:
    assert holds(code) is true


@pytest.mark.parametrize(
    ("code", "true"),
    [
        ("mov.b32 %r2, 300;\ncvt.s32.s8 %r3, %r2;\nsetp.eq.s32 %p2, %r3, 44;", True),
        ("mov.b32 %r2, 300;\ncvt.s32.s8 %r3, %r2;\nsetp.eq.s32 %p2, %r3, 300;", False),
        ("mov.b32 %r2, 200;\ncvt.s32.s8 %r3, %r2;\nsetp.eq.s32 %p2, %r3, -56;", True),
        ("mov.b32 %r2, 40000;\ncvt.u16.u32 %rs3, %r2;\nsetp.lt.s16 %p2, %rs3, 0;", True),
        # What fills the upper half of the register depends on the type, which is not followed.
        ("mov.b32 %r2, 40000;\ncvt.u16.u32 %r3, %r2;\nsetp.lt.s32 %p2, %r3, 0;", False),
        ("mov.b64 %rd2, 4294967295;\ncvt.u32.u64 %rd3, %rd2;\nsetp.lt.s64 %p2, %rd3, 0;", False),
        ("ld.param.s32 %rd3, [n];\nsetp.ge.s64 %p2, %rd3, 0;", False),
        ("ld.param.u32 %rd3, [n];\nsetp.ge.s64 %p2, %rd3, 0;", True),
        ("ld.param.s32 %r3, [n];\nsetp.ge.u32 %p2, %r3, 0;", True),
    ],
)
def test_registers_of_another_width(code: str, true: bool) -> None:
    assert holds(code) is true


@pytest.mark.parametrize(
    ("code", "true"),
    [
        ("mov.b32 %r2, 0xFFFE0007;\nmov.b32 {%rs2, %rs3}, %r2;\nadd.s16 %rs4, %rs2, %rs3;\nsetp.eq.s16 %p2, %rs4, 5;", True),
        ("mov.b32 %r2, 0xFFFE0007;\nmov.b32 {_, %rs3}, %r2;\nsetp.eq.s16 %p2, %rs3, -2;", True),
        ("mov.b32 %r2, 0xFFFE0007;\nmov.b32 {_, %rs3}, %r2;\nsetp.eq.s16 %p2, %rs3, 7;", False),
        ("mov.b64 %rd2, 0x500000003;\nmov.b64 {%rs2, _, %rs4, _}, %rd2;\nsetp.eq.s16 %p2, %rs4, 5;", True),
        ("mov.b64 %rd2, 0x500000003;\nmov.b64 {%r2, %r3}, %rd2;\nsetp.eq.s32 %p2, %r3, 5;", True),
        # What shifts the number of a warp out leaves 0 in each thread.
        ("shr.u32 %r2, %r1, 5;\nmov.b32 {%rs2, %rs3}, %r2;\nor.b16 %rs4, %rs2, %rs3;\nsetp.eq.s16 %p2, %rs4, 0;", True),
        ("cvt.u64.u32 %rd2, %r9;\nmov.b64 {_, %r3}, %rd2;\nsetp.eq.s32 %p2, %r3, 0;", True),
        ("cvt.u64.u32 %rd2, %r9;\nmov.b64 {%r3, _}, %rd2;\nsetp.eq.s32 %p2, %r3, %r9;", True),
        # Nothing is known of these.
        ("mov.b32 %r2, 7;\nmov.b32 {%r3, %r4}, %r2;\nsetp.eq.s32 %p2, %r3, 7;", False),
        ("mov.b32 %r2, 7;\nmov.f32 {%rs3, %rs4}, %r2;\nsetp.eq.s16 %p2, %rs3, 7;", False),
        ("mov.b32 %r2, 7;\nmov.b32 {%rs3, %rs4, %rs5}, %r2;\nsetp.eq.s16 %p2, %rs3, 7;", False),
        ("mov.b32 %r2, 7;\n@%p1 mov.b32 {%rs3, %rs4}, %r2;\nsetp.eq.s16 %p2, %rs3, 7;", False),
    ],
)
def test_parts_of_a_word(code: str, true: bool) -> None:
    """Compilers take the upper half of a number apart in place of a shift."""
    assert holds(code) is true


@pytest.mark.parametrize("dtype", ["i32", "u32", "a size", ""])
@pytest.mark.parametrize("bits", [8, 16, 32])
def test_a_parameter_is_extended_as_its_type_and_the_source_say(bits: int, dtype: str) -> None:
    """`ld.param.u32` of a number that the source calls signed fills a register of 64 bits with zeros: such a text was proved and hangs."""
    for declared, kind in product("sub", "sub"):
        signed = dtype == "i32" and signed_as_declared(dtype, f"{declared}{bits}")
        ends = RANGES[f"{'s' if declared in 'sb' or signed else 'u'}{bits}"] if dtype != "a size" else (0, (1 << bits - 1) - 1)
        if _loads_all(f"{kind}{bits}", f"{declared}{bits}", ends):
            for number in {*ends, 0, 1, *(end // 2 for end in ends)}:
                assert (wrapped(number, bits) if kind == "s" else number % (1 << bits)) == number, (declared, kind, number)
        # Of which nothing is known, as of a float.
        assert not _loads_all(f"{kind}{bits}", f"{declared}{bits}", (-inf, inf))
    assert _loads_all(f"u{bits}", f"u{bits}", RANGES[f"u{bits}"]) and _loads_all(f"s{bits}", f"s{bits}", RANGES[f"s{bits}"])


def test_registers_for_a_signed_parameter() -> None:
    """A register of all its bits, and none of more."""
    assert signed_as_declared("i32", "b32") and signed_as_declared("i64", "u64")
    assert not signed_as_declared("i32", "b64") and not signed_as_declared("u32", "b32")
