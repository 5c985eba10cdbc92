"""What a recorded launch does to memory: banks of shared memory, caches, scattered stores, and the order in which blocks start."""

import json
from pathlib import Path

import pytest

from pipec.commands.cli import main
from pipec.predict.executed.launch import Line, _in_order
from pipec.predict.executed.regions import awaited_loads
from pipec.sim.ptx.parse import parse

Capture = pytest.CaptureFixture[str]
HEAD = ".version 8.4\n.target sm_90a\n.address_size 64\n"
# Each thread reads a word of shared memory many times, at its number times `pitch` words.
SHARED = """
.extern .shared .align 128 .b8 memory[];
.visible .entry k(.param .u64 x, .param .u32 pitch) .reqntid 1024 {{
.reg .b32 %t, %at, %pitch, %i, %v, %sum; .reg .b64 %x; .reg .pred %p;
ld.param.u64 %x, [x]; ld.param.u32 %pitch, [pitch];
mov.u32 %t, %tid.x; shl.b32 %at, %t, 2; mov.u32 %v, memory; add.u32 %at, %at, %v; st.shared.b32 [%at], %t; and.b32 %t, %t, 31;
shl.b32 %at, %t, 2; add.u32 %at, %at, %v; st.shared.b32 [%at+4096], %t; bar.sync 0;
mul.lo.u32 %t, %t, %pitch; shl.b32 %t, %t, 2; mov.u32 %at, memory; add.u32 %at, %at, %t;
mov.u32 %i, 0; mov.u32 %sum, 0;
AGAIN:
add.u32 %i, %i, 1;
{body}
setp.lt.u32 %p, %i, 64; @%p bra AGAIN;
st.global.b32 [%x], %sum;
ret; }}
"""
# Each thread goes over `n` rows of 4,096 bytes of its block, twice; the second time `apart` bytes farther.
TWICE = """
.visible .entry k(.param .u64 x, .param .u64 z, .param .u32 apart) .reqntid 1024 {
.reg .b32 %t, %i, %v, %sum, %apart; .reg .b64 %x, %z, %o; .reg .pred %p;
ld.param.u64 %x, [x]; ld.param.u64 %z, [z]; ld.param.u32 %apart, [apart];
mov.u32 %t, %tid.x; mul.wide.u32 %o, %t, 4; add.s64 %x, %x, %o; add.s64 %z, %z, %o;
mov.u32 %i, 0; mov.u32 %sum, 0;
AGAIN:
ld.global.b32 %v, [%x]; add.u32 %sum, %sum, %v; add.s64 %x, %x, 4096;
add.u32 %i, %i, 1; setp.eq.u32 %p, %i, 8; cvt.s64.s32 %o, %apart; @%p add.s64 %x, %x, %o;
setp.lt.u32 %p, %i, 16; @%p bra AGAIN;
st.global.b32 [%z], %sum;
ret; }
"""
WRITES = """
.visible .entry k(.param .u64 z, .param .u32 pitch) .reqntid 1024 {{
.reg .b32 %t, %pitch, %i, %v; .reg .b64 %z, %o; .reg .pred %p;
ld.param.u64 %z, [z]; ld.param.u32 %pitch, [pitch];
mov.u32 %t, %tid.x; mul.wide.u32 %o, %t, %pitch; add.s64 %z, %z, %o; mov.u32 %i, 0;
AGAIN:
{body}
add.u32 %i, %i, 1; setp.lt.u32 %p, %i, 16; @%p bra AGAIN;
ret; }}
"""


def cycles(tmp_path: Path, capsys: Capture, text: str, arguments: list[str], **more: object) -> float:
    ptx, call = tmp_path / "kernel.ptx", tmp_path / "launch.json"
    ptx.write_text(HEAD + text)
    call.write_text(json.dumps({"grid": [1], "registers": 32, "arguments": arguments} | more))
    assert main(["predict", str(ptx), "--launch", str(call), "--clock", "1.98", "--format", "json"]) == 0
    return float(json.loads(capsys.readouterr().out)["kernels"][0]["cycles"])


def test_words_of_one_bank_follow_each_other(tmp_path: Path, capsys: Capture) -> None:
    text = SHARED.format(body="ld.shared.b32 %v, [%at]; add.u32 %sum, %sum, %v;")
    found = {
        pitch: cycles(tmp_path, capsys, text, ["x=u32[1]:zeros", f"i32:{pitch}"], shared=4 * 32 * 33) for pitch in (1, 32, 33)
    }
    assert found[33] == pytest.approx(found[1], rel=0.01)
    assert found[32] - found[1] == pytest.approx(31 * 32 * 64, rel=0.15)  # of 32 warps, 64 times


def test_neighbouring_words_are_loaded_as_one_if_they_are_aligned(tmp_path: Path, capsys: Capture) -> None:
    text = SHARED.format(body="\n".join(f"ld.shared.b32 %v, [%at+{4 * one}]; add.u32 %sum, %sum, %v;" for one in range(4)))
    arguments = ["x=u32[1]:zeros"]
    aligned = cycles(tmp_path, capsys, text, [*arguments, "i32:4"], shared=4 * 32 * 33)  # sixteen bytes to a thread
    not_so = cycles(tmp_path, capsys, text, [*arguments, "i32:5"], shared=4 * 32 * 33)  # each load without conflicts
    assert not_so == pytest.approx(4 * 32 * 64, rel=0.3)
    assert aligned == pytest.approx(4 * 32 * 64, rel=0.3)  # where four loads with four passes each would take four times as long


def test_what_a_block_has_loaded_is_near(tmp_path: Path, capsys: Capture) -> None:
    arrays = ["x=u32[16384]:zeros", "z=u32[1024]:zeros"]
    again = cycles(tmp_path, capsys, TWICE, [*arrays, f"i32:{-8 * 4096}"])
    farther = cycles(tmp_path, capsys, TWICE, [*arrays, "i32:0"])
    assert again < 0.65 * farther


@pytest.mark.parametrize("body", ["st.global.b32 [%z], %t;", "red.global.add.u32 [%z], %t;", "atom.global.add.u32 %v, [%z], %t;"])
def test_scattered_words_take_longer_than_neighbours(tmp_path: Path, capsys: Capture, body: str) -> None:
    """An atomic operation whose result nobody reads is one of them."""
    text = WRITES.format(body=body)
    near, far = (cycles(tmp_path, capsys, text, ["z=u32[65536]:zeros", f"i32:{pitch}"], grid=[132]) for pitch in (4, 128))
    assert far > near


def test_the_longest_blocks_at_the_end_are_waited_for() -> None:
    short_first = {0: 0.0, 63: 6300.0}
    line = Line(1, 64)
    late = _in_order(line, short_first, 128, 16)
    early = _in_order(line, {0: 6300.0, 63: 0.0}, 128, 16)
    whole = 128 * (3150 + 250) / 16
    assert whole - 250 <= early < late < whole + 6300
    assert _in_order(line, dict.fromkeys(line.sample, 100.0), 32, 16) == 100 + 250 + 100


def test_loads_move_up_over_stores_to_shared_memory_only() -> None:
    for space, together in (("shared", True), ("global", False)):
        base = "%s" if together else "%x"
        pairs = "\n".join(
            f"ld.global.b32 %a{one}, [%x+{4 * one}]; st.{space}.b32 [{base}+{4 * one}], %a{one};" for one in range(3)
        )
        text = f"{HEAD}.visible .entry k(.param .u64 x) {{ .reg .b64 %x; .reg .b32 %s, %a<3>; ld.param.u64 %x, [x];\n{pairs}\nret; }}"
        (function,) = parse(text).functions.values()
        awaited = awaited_loads(function.instructions, set())
        assert (len(awaited) == 1) is together
