"""`pipec predict FILE.ptx --launch LAUNCH.json`: kernels of any compiler, of which some blocks are executed and timed."""

import json
from pathlib import Path
from typing import Any

import pytest

from pipec.commands import launched
from pipec.commands.cli import main
from pipec.predict.device import DEVICES
from pipec.predict.executed.costs import cost_of

H200 = DEVICES["h200"]
Capture = pytest.CaptureFixture[str]

HEAD = ".version 8.4\n.target {arch}\n.address_size 64\n"
# z[i] = x[i] + y[i], 16 bytes of each a thread
ADD = """
.visible .entry add(.param .u64 x, .param .u64 y, .param .u64 z) .reqntid 128 {
.reg .b32 %t<4>; .reg .b64 %p<4>, %o; .reg .f32 %a<4>, %b<4>;
ld.param.u64 %p0, [x]; ld.param.u64 %p1, [y]; ld.param.u64 %p2, [z];
mov.u32 %t0, %ctaid.x; mov.u32 %t1, %tid.x;
mad.lo.s32 %t2, %t0, 128, %t1; mul.wide.u32 %o, %t2, 16;
add.s64 %p0, %p0, %o; add.s64 %p1, %p1, %o; add.s64 %p2, %p2, %o;
ld.global.v4.f32 {%a0, %a1, %a2, %a3}, [%p0];
ld.global.v4.f32 {%b0, %b1, %b2, %b3}, [%p1];
add.f32 %a0, %a0, %b0; add.f32 %a1, %a1, %b1; add.f32 %a2, %a2, %b2; add.f32 %a3, %a3, %b3;
st.global.v4.f32 [%p2], {%a0, %a1, %a2, %a3};
ret; }
"""
# One warp copies chunks of 8 KiB into two stages, the other waits for each and frees it: what a stage's way round takes sets the pace.
RING = """
.extern .shared .align 128 .b8 ring[];
.visible .entry stream(.param .u64 x, .param .u32 count) .reqntid 64 {
.reg .b32 %t, %w, %base, %full, %empty, %i, %count, %slot, %parity, %at, %bar; .reg .b64 %x; .reg .pred %p, %q, %first, %done;
ld.param.u64 %x, [x]; ld.param.u32 %count, [count];
mov.u32 %t, %tid.x; shr.u32 %w, %t, 5; mov.u32 %base, ring;
add.u32 %full, %base, 16384; add.u32 %empty, %base, 16400;
setp.eq.u32 %first, %t, 0;
@%first mbarrier.init.shared.b64 [%full], 1; @%first mbarrier.init.shared.b64 [%full+8], 1;
@%first mbarrier.init.shared.b64 [%empty], 1; @%first mbarrier.init.shared.b64 [%empty+8], 1;
@%first fence.mbarrier_init.release.cluster;
bar.sync 0;
mov.u32 %i, 0;
setp.ne.u32 %q, %w, 0; @%q bra CONSUMER;
setp.ne.u32 %q, %t, 0; @%q bra END;
LOAD:
and.b32 %slot, %i, 1; shr.u32 %parity, %i, 1; and.b32 %parity, %parity, 1; xor.b32 %parity, %parity, 1;
mad.lo.u32 %bar, %slot, 8, %empty;
FREE: mbarrier.try_wait.parity.shared.b64 %done, [%bar], %parity; @!%done bra FREE;
mad.lo.u32 %bar, %slot, 8, %full; mad.lo.u32 %at, %slot, 8192, %base;
mbarrier.arrive.expect_tx.shared.b64 _, [%bar], 8192;
cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%at], [%x], 8192, [%bar];
add.u64 %x, %x, 8192; add.u32 %i, %i, 1; setp.lt.u32 %p, %i, %count; @%p bra LOAD;
bra END;
CONSUMER:
setp.ne.u32 %q, %t, 32; @%q bra END;
TAKE:
and.b32 %slot, %i, 1; shr.u32 %parity, %i, 1; and.b32 %parity, %parity, 1;
mad.lo.u32 %bar, %slot, 8, %full;
FILLED: mbarrier.try_wait.parity.shared.b64 %done, [%bar], %parity; @!%done bra FILLED;
mad.lo.u32 %bar, %slot, 8, %empty; mbarrier.arrive.shared.b64 _, [%bar];
add.u32 %i, %i, 1; setp.lt.u32 %p, %i, %count; @%p bra TAKE;
END: ret; }
"""
# A block whose number is larger does more.
UNLIKE = """
.visible .entry unlike(.param .u64 x) .reqntid 128 {
.reg .b32 %n, %i; .reg .f32 %a; .reg .b64 %x; .reg .pred %p;
ld.param.u64 %x, [x]; mov.u32 %n, %ctaid.x; mov.u32 %i, 0; mov.f32 %a, 0f3f800000;
AGAIN: fma.rn.f32 %a, %a, %a, %a; add.u32 %i, %i, 1; setp.le.u32 %p, %i, %n; @%p bra AGAIN;
st.global.f32 [%x], %a; ret; }
"""
SPIN = """
.visible .entry spin(.param .u64 x) .reqntid 32 {
.reg .b32 %n, %v; .reg .b64 %x; .reg .pred %p;
ld.param.u64 %x, [x]; mov.u32 %n, %ctaid.x;
WAIT: ld.acquire.gpu.global.u32 %v, [%x]; setp.ne.u32 %p, %v, %n; @%p bra WAIT;
add.u32 %v, %v, 1; st.release.gpu.global.u32 [%x], %v; ret; }
"""


def said(
    tmp_path: Path, capsys: Capture, text: str, launch: dict[str, Any], *options: str, arch: str = "sm_90a", status: int = 0
) -> str:
    ptx, call = tmp_path / "kernel.ptx", tmp_path / "launch.json"
    ptx.write_text(HEAD.format(arch=arch) + text)
    call.write_text(json.dumps(launch))
    assert main(["predict", str(ptx), "--launch", str(call), *options]) == status
    printed = capsys.readouterr()
    return printed.err if status else printed.out


def figures(tmp_path: Path, capsys: Capture, text: str, launch: dict[str, Any], *options: str) -> dict[str, Any]:
    (found,) = json.loads(said(tmp_path, capsys, text, launch, "--format", "json", *options))["kernels"]
    assert isinstance(found, dict)
    return found


def sums(blocks: int, **more: Any) -> dict[str, Any]:
    size = 512 * blocks
    arguments = [f"{name}=f32[{size}]:zeros" for name in "xyz"]
    return {"grid": [blocks], "registers": 24, "arguments": arguments} | more


def test_memory_bounds_a_sum(tmp_path: Path, capsys: Capture) -> None:
    found = figures(tmp_path, capsys, ADD, sums(8192))
    assert found["bound_by"] == "memory" and found["memory_bytes"] == 3 * 4 * 512 * 8192
    assert found["memory_bytes"] / H200.machine.dram < found["seconds"] < 1.25 * found["memory_bytes"] / H200.machine.dram
    assert found["waits"][0]["instruction"] == "add.f32"  # what is loaded is used there first


def test_registers_decide_how_many_blocks_share_a_multiprocessor(tmp_path: Path, capsys: Capture) -> None:
    held = [figures(tmp_path, capsys, ADD, sums(8192, registers=one))["blocks_per_multiprocessor"] for one in (24, 128, 255)]
    assert held == [16, 4, 2]


def test_a_ring_goes_round_at_the_pace_of_its_latency(tmp_path: Path, capsys: Capture) -> None:
    call = {"grid": [1], "shared": 16448, "registers": 32, "arguments": ["x=u8[524288]:zeros", "i32:64"]}
    found = figures(tmp_path, capsys, RING, call, "--clock", "1.98")
    (loader, *_) = [loop for loop in found["loops"] if loop["label"] in ("LOAD", "TAKE")]
    assert loader["trips"] == 62  # from the first return to the last
    # Two stages: two chunks in each way round from the issue of a copy to the stage that is free again.
    least = (H200.load + H200.memory) / 2
    assert least < loader["period"] < 1.3 * least
    assert loader["waits"][0]["instruction"].startswith("mbarrier.try_wait")
    more = figures(tmp_path, capsys, RING, call | {"arguments": ["x=u8[1048576]:zeros", "i32:128"]}, "--clock", "1.98")
    assert more["cycles"] / found["cycles"] == pytest.approx(2, rel=0.05)


def test_blocks_that_differ_are_sampled_across_the_grid(tmp_path: Path, capsys: Capture) -> None:
    call = {"grid": [4096], "registers": 16, "arguments": ["x=f32[1]:zeros"]}
    found = figures(tmp_path, capsys, UNLIKE, call, "--clock", "1.98")
    assert found["executed_clusters"] > 2
    # On average half of 4,096 trips; in each of them, each of the 16 warps of a scheduler issues four instructions on two units.
    trips, waves = 2048, found["waves"]
    assert 3 * 16 * trips * waves < found["cycles"] < 6 * 16 * trips * (waves + 1)


def test_the_report_names_lines_and_labels(tmp_path: Path, capsys: Capture) -> None:
    call = {"grid": [132], "shared": 16448, "registers": 32, "arguments": ["x=u8[524288]:zeros", "i32:64"]}
    text = said(tmp_path, capsys, RING, call)
    assert "loop         `TAKE`, line" in text or "loop         `LOAD`, line" in text
    assert "`mbarrier.try_wait.parity.shared.b64`" in text and "not known" in text


def test_its_timeline(tmp_path: Path, capsys: Capture) -> None:
    drawn = tmp_path / "out.json"
    said(tmp_path, capsys, ADD, sums(132), "--timeline", str(drawn))
    assert "warp 3" in drawn.read_text()


@pytest.mark.parametrize(
    ("text", "call", "lacks"),
    [
        (ADD, {"arguments": ["x=f32[8]:zeros"]}, ["`grid` and 2 of 3 `arguments`", "of 8, 8 bytes"]),
        (RING, {"grid": [1], "arguments": ["x=u8[8192]:zeros", "i32:1"]}, ["`shared`"]),
        (ADD.replace(".reqntid 128", ""), {"grid": [1], "arguments": ["i64:0", "i64:0", "i64:0"]}, ["`block`", "no `.reqntid`"]),
        (ADD + SPIN, {"grid": [1], "arguments": []}, ["`kernel`", "one of add, spin"]),
    ],
    ids=["grid and arguments", "shared", "block", "kernel"],
)
def test_what_a_launch_lacks_is_asked_for(
    text: str, call: dict[str, Any], lacks: list[str], tmp_path: Path, capsys: Capture
) -> None:
    error = said(tmp_path, capsys, text, call, status=1)
    assert "error[E0299]" in error
    for one in lacks:
        assert one in error


def test_registers_are_asked_for_where_nothing_tells_them(
    tmp_path: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(launched, "_registers", lambda source, kernel: None)
    call = sums(8192)
    del call["registers"]
    error = said(tmp_path, capsys, ADD, call, status=1)
    assert "error[E0299]" in error and "2 to 16 blocks share a multiprocessor" in error
    # A block that takes all of shared memory is alone whatever its registers.
    assert "time" in said(
        tmp_path, capsys, ADD.replace(".visible", ".extern .shared .b8 all[];\n.visible"), call | {"shared": 200000}
    )


TURNS = """
.visible .entry turns(.param .u64 next, .param .u32 count) .reqntid 32 {
.reg .b32 %n, %count; .reg .b64 %x; .reg .pred %p;
ld.param.u64 %x, [next]; ld.param.u32 %count, [count];
AGAIN: atom.global.add.u32 %n, [%x], 32; setp.lt.u32 %p, %n, %count; @%p bra AGAIN;
ret; }
"""
TAKES_OVER = """
.visible .entry takes_over(.param .u64 x) .reqntid 32 {
.shared .align 16 .b8 answer[16]; .shared .align 8 .b8 bar[8];
.reg .b32 %t, %a, %b; .reg .pred %p; mov.u32 %t, %tid.x; mov.u32 %a, answer; mov.u32 %b, bar; setp.ne.u32 %p, %t, 0; @%p bra END;
mbarrier.init.shared.b64 [%b], 1;
mbarrier.arrive.expect_tx.shared.b64 _, [%b], 16;
clusterlaunchcontrol.try_cancel.async.shared::cta.mbarrier::complete_tx::bytes.b128 [%a], [%b];
WAIT: mbarrier.try_wait.parity.shared.b64 %p, [%b], 0; @!%p bra WAIT;
END: ret; }
"""
SLOW = "sqrt.rn.f64 %d, %d;\nmul.wide.u32"
SPARSE = "mma.sp.sync.aligned.m16n8k32.row.col.f32.bf16.bf16.f32"


@pytest.mark.parametrize(
    ("text", "call", "why"),
    [
        (SPIN, {"grid": [8], "arguments": ["x=u32[1]:zeros"], "registers": 16}, "waits"),
        (TURNS, {"grid": [8], "arguments": ["x=u32[1]:zeros", "i32:64"], "registers": 16}, "memory that other blocks change"),
        (ADD.replace("mul.wide.u32", SLOW).replace(".reg .b32", ".reg .f64 %d; .reg .b32"), sums(4), "what `sqrt.rn.f64` takes"),
    ],
    ids=["blocks that wait for others", "a counter in memory", "unknown cost"],
)
def test_what_no_time_follows_from(text: str, call: dict[str, Any], why: str, tmp_path: Path, capsys: Capture) -> None:
    error = said(tmp_path, capsys, text, call, status=1)
    assert "error[E0295]" in error or "error[E10" in error
    assert why in error


def test_blocks_that_take_over_work_are_refused(tmp_path: Path, capsys: Capture) -> None:
    call = {"grid": [8], "arguments": ["i64:0"], "registers": 16}
    assert "cluster launch control" in said(tmp_path, capsys, TAKES_OVER, call, arch="sm_100a", status=1)


def test_other_targets_and_sizes_are_refused(tmp_path: Path, capsys: Capture) -> None:
    assert "nothing is on record about sm_80" in said(tmp_path, capsys, ADD, sums(4), arch="sm_80", status=1)
    assert "leave out `--shape n=...`" in said(tmp_path, capsys, ADD, sums(4), "--shape", "n=4", status=1)


def test_without_a_launch_the_message_says_what_it_would_be(tmp_path: Path, capsys: Capture) -> None:
    ptx = tmp_path / "kernel.ptx"
    ptx.write_text(HEAD.format(arch="sm_90a") + ADD)
    assert main(["predict", str(ptx)]) == 1
    error = capsys.readouterr().err
    assert "error[E0295]" in error and "--launch launch.json" in error and "(of 8, 8, 8 bytes)" in error


def test_costs_are_known_or_not() -> None:
    for opcode in (
        "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32",
        "ex2.approx.ftz.f32",
        "shfl.sync.bfly.b32",
        "ld.shared.v4.b32",
    ):
        found = cost_of(opcode, H200)
        assert found is not None and found.cycles >= 1
    for opcode in (SPARSE, "wmma.mma.sync.aligned.row.col.m16n16k16.f32.f32", "sqrt.rn.f64", "div.rn.f64", "never.heard.of"):
        assert cost_of(opcode, H200) is None
    assert cost_of("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32", DEVICES["b200"]) is None  # measured on an H200 only
