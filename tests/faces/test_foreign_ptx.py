"""`pipec sim` on PTX of other compilers: how a kernel is called stands on the command line; every mistake gets a message."""

from __future__ import annotations

import json
import struct
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest

from pipec import sim
from pipec.commands.cli import main

HEAD = ".version 9.0\n.target sm_100a\n.address_size 64\n"
ADD = (
    HEAD
    + """
.visible .entry add(.param .u64 a, .param .u64 b, .param .u32 n)
{
  .reg .pred %p; .reg .b32 %r<6>; .reg .b64 %d<6>; .reg .f32 %f<4>;
  mov.u32 %r0, %ctaid.x; mov.u32 %r1, %ntid.x; mov.u32 %r2, %tid.x;
  mad.lo.u32 %r3, %r0, %r1, %r2;
  ld.param.u32 %r4, [n];
  setp.ge.u32 %p, %r3, %r4;
  @%p bra DONE;
  ld.param.u64 %d0, [a]; ld.param.u64 %d1, [b];
  mul.wide.u32 %d2, %r3, 4;
  add.u64 %d3, %d0, %d2; add.u64 %d4, %d1, %d2;
  ld.global.f32 %f0, [%d3]; ld.global.f32 %f1, [%d4];
  add.f32 %f2, %f0, %f1; st.global.f32 [%d4], %f2;
DONE: ret;
}
"""
)
# Copies a box through shared memory; the pointer to the result and its scale stand in a struct with the tensor map.
STRUCT = (
    HEAD
    + """
.extern .shared .align 1024 .b8 smem[];
.visible .entry copy(.param .align 64 .b8 p[256])
.reqntid 32
{
  .reg .pred %p, %q; .reg .b32 %r<8>; .reg .b64 %d<6>; .reg .f32 %f<3>;
  mov.u32 %r0, smem; mov.u32 %r1, %tid.x; add.u32 %r2, %r0, 4096;
  setp.eq.u32 %p, %r1, 0;
  @%p mbarrier.init.shared::cta.b64 [%r2], 1;
  bar.sync 0;
  mov.b64 %d0, p; add.u64 %d0, %d0, 64; cvta.param.u64 %d1, %d0;
  @%p mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r2], 128;
  mov.u32 %r3, 0; mov.u32 %r4, 2;
  @%p cp.async.bulk.tensor.2d.shared::cta.global.mbarrier::complete_tx::bytes [%r0], [%d1, {%r3, %r4}], [%r2];
WAIT: mbarrier.try_wait.parity.shared::cta.b64 %q, [%r2], %r3;
  @!%q bra WAIT;
  ld.param.u64 %d2, [p+8]; ld.param.f32 %f0, [p+192];
  mad.lo.u32 %r5, %r1, 4, %r0; ld.shared.f32 %f1, [%r5]; mul.f32 %f2, %f1, %f0;
  mul.wide.u32 %d3, %r1, 4; add.u64 %d4, %d2, %d3; st.global.f32 [%d4], %f2;
  ret;
}
"""
)
SPIN = HEAD + ".visible .entry spin() .reqntid 32\n{\nL: bra L;\n}\n"
WAIT = (
    HEAD
    + ".visible .entry wait() .reqntid 32\n{ .reg .pred %p; setp.eq.u32 %p, 0, 1; @%p bar.sync 1, 64; bar.sync 2, 64; ret; }\n"
)
ARGUMENTS = ["--grid", "2", "--block", "64", "--arg", "a=f32[100]:random", "--arg", "b=f32[100]:ones", "--arg", "i32:100"]


@pytest.fixture
def ptx(tmp_path: Path):
    def write(text: str) -> str:
        (tmp_path / "k.ptx").write_text(text)
        return str(tmp_path / "k.ptx")

    return write


def test_arrays_scalars_and_results(ptx, tmp_path: Path, capsys) -> None:
    a = np.arange(100, dtype=np.float32)
    np.save(tmp_path / "a.npy", a)
    for timing in ("order", "late", "random"):
        arguments = [
            "--grid",
            "2",
            "--block",
            "64",
            "--arg",
            f"a=@{tmp_path}/a.npy",
            "--arg",
            "b=f32[100]:2.5",
            "--arg",
            "u32:0x60",
        ]
        saved = tmp_path / f"{timing}.npy"
        command = ["sim", ptx(ADD), "--kernel", "add", *arguments, "--timing", timing, "--seed", "3", "--save", f"b={saved}"]
        assert main(command) == 0
        assert (np.load(saved) == np.where(a < 96, a + 2.5, 2.5)).all()
    out = capsys.readouterr().out
    assert "add on sim, grid (2)" in out and "b: float32[100], 95 of 100 elements changed, now 2.5 to 97.5" in out


def test_a_struct_with_a_pointer_a_map_and_a_scalar(ptx, tmp_path: Path) -> None:
    a = np.random.default_rng(0).normal(size=(10, 8)).astype(np.float32)
    np.save(tmp_path / "a.npy", a)
    block = f"raw(256; 64=map(@{tmp_path}/a.npy; box=4,8; swizzle=none); 8=out=f32[32]:zeros; 192=f32:0.5; 0=hex:ff00)"
    timeline = tmp_path / "t.json"
    command = [
        "sim",
        ptx(STRUCT),
        "--shared",
        "4352",
        "--arg",
        block,
        "--save",
        f"out={tmp_path}/out.npy",
        "--timeline",
        str(timeline),
    ]
    assert main(command) == 0
    assert (np.load(tmp_path / "out.npy").reshape(4, 8) == a[2:6] / 2).all()
    assert json.loads(timeline.read_text())["traceEvents"]


def test_the_same_from_python() -> None:
    a = np.random.default_rng(0).normal(size=(10, 8)).astype(np.float32)
    out = np.zeros(32, np.float32)
    tensor_map = sim.TensorMapArgument.of(a, (4, 8))
    patches = {64: tensor_map, 8: sim.ArrayArgument(out), 192: sim.ScalarArgument(struct.pack("<f", 0.5))}
    sim.launch(STRUCT, dynamic_smem=4352, arguments=[sim.RawArgument(bytes(256), patches)])
    assert (out.reshape(4, 8) == a[2:6] / 2).all()
    b = np.ones(100, np.float32)
    sim.launch(ADD, "add", grid=2, block=64, arguments=[np.arange(100, dtype=np.float32), b, 100])
    assert (b == np.arange(1, 101)).all()
    sim.launch(ADD, "add", grid=2, block=64, arguments=[b.copy(), b, np.int32(50)])
    assert b[49] == 100 and b[50] == 51


def test_steps_and_types_of_a_tensor_map() -> None:
    a = np.zeros((6, 4, 64), ml_dtypes.bfloat16)
    made = sim.TensorMapArgument.of(a[:, :, :48], (2, 4, 32), steps=(1, 2, 1), swizzle="64B", fill="nan").map
    assert (made.dtype, made.dims, made.strides) == ("bf16", (48, 4, 6), (128, 512))
    assert (made.box, made.element_strides, made.swizzle, made.fill) == ((32, 4, 2), (1, 2, 1), "64B", "nan")
    packed = sim.TensorMapArgument.of(np.zeros((8, 64), np.uint8), (8, 128), dtype="b4x16").map
    assert packed.dims == (128, 8) and packed.strides == (64,)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (ARGUMENTS[:-2], "kernel `add` has 3 parameters, 2 given"),
        ([*ARGUMENTS, "--arg", "i32:1"], "`add` takes 8 bytes, 8 bytes, 4 bytes"),
        ([*ARGUMENTS[:-1], "i64:100"], "parameter 2 of `add` has 4 bytes, 8 given"),
        ([*ARGUMENTS[:-1], "a"], "parameter 2 of `add` has 4 bytes, 8 given"),
        ([*ARGUMENTS[:-1], "i32:1.5"], "a number is expected"),
        ([*ARGUMENTS[:-1], "i8:200"], "does not fit int8"),
        ([*ARGUMENTS[:-1], "c32:1"], "is no scalar"),
        ([*ARGUMENTS[:-1], "f32[0]:zeros"], "has the size 0"),
        ([*ARGUMENTS[:-1], "f99[1]:zeros"], "has no type `f99`"),
        ([*ARGUMENTS[:-1], "f32[1]:many"], "a number is expected"),
        ([*ARGUMENTS[:-1], "f32[1000000,1000000,100]:zeros"], "cannot be made"),
        ([*ARGUMENTS[:-1], "a=f32[1]:zeros"], "gives the name `a` a second time"),
        ([*ARGUMENTS[:-1], "x=map(a; box=1)"], "names what is no array"),
        ([*ARGUMENTS[:-1], "@no/such.npy"], "no/such.npy"),
        ([*ARGUMENTS[:-1], "map(a; bux=1)"], "has no option `bux`"),
        ([*ARGUMENTS[:-1], "map(a)"], "needs the size of its box"),
        ([*ARGUMENTS[:-1], "map(a; box=4,4)"], "a box of 2 dimensions over an array of 1"),
        ([*ARGUMENTS[:-1], "map(a; box=4; type=u7)"], "no elements of type u7"),
        ([*ARGUMENTS[:-1], "map(a; box=4; swizzle=7B)"], "swizzle '7B' is none of"),
        ([*ARGUMENTS[:-1], "raw(4; i32:1)"], "NAME=VALUE is expected"),
        ([*ARGUMENTS[:-1], "raw(4; x=i32:1)"], "needs the offset"),
        ([*ARGUMENTS[:-1], "raw(0)"], "begins with the bytes of the block"),
        ([*ARGUMENTS[:-1], "raw(4; 2=i32:1)"], "a patch at byte 2 does not fit into 4 bytes"),
        ([*ARGUMENTS[:-1], "raw(4; 2=hex:001122)"], "cannot hold"),
        ([*ARGUMENTS[:-1], "hex:0"], "hexadecimal"),
        ([*ARGUMENTS, "--save", "z=z.npy"], "names no array; there is a, b"),
        ([*ARGUMENTS, "--save", "a=no/such/folder/z.npy"], "cannot write"),
        ([*ARGUMENTS, "--cluster", "3"], "grid (2, 1, 1) is not a multiple of the cluster (3, 1, 1)"),
        ([*ARGUMENTS, "--cluster", "32"], "is not a multiple"),
        ([*ARGUMENTS, "--kernel", "sub"], "no kernel `sub`; the module has: add"),
        ([*ARGUMENTS, "--shared", "300000"], "300000 bytes of dynamic shared memory, at most 232448"),
        ([*ARGUMENTS, "--steps", "3"], "did not end within 3 warp instructions"),
        ([*ARGUMENTS, "--block", "2000"], "has more than 1024 threads"),
        ([*ARGUMENTS, "--grid", "1,70000"], "is larger than"),
        (["--grid", "1", *ARGUMENTS[4:]], "has no .reqntid, so block must be given"),
        ([*ARGUMENTS[:6], *ARGUMENTS[4:6], "--arg", "i32:9"], "gives the name `a` a second time"),
        ([*ARGUMENTS[:4], "--arg", "f32[9]:ones", "--arg", "f32[100]:ones", *ARGUMENTS[-2:]], "bytes past the end of argument 0"),
    ],
)
def test_a_wrong_call_gets_a_message(ptx, capsys, arguments: list[str], words: str) -> None:
    assert main(["sim", ptx(ADD), *arguments]) == 1
    said = capsys.readouterr().err
    assert said.startswith("error[E10") or "error[E01" in said
    assert words in said and "internal error" not in said


@pytest.mark.parametrize(
    "arguments",
    [["--grid", "0"], ["--grid", "1,1,1,1"], ["--grid", "x"], ["--steps", "0"], ["--shared", "-1"], ["--timing", "soon"]],
)
def test_a_wrong_option_is_a_usage_error(ptx, capsys, arguments: list[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        main(["sim", ptx(ADD), *ARGUMENTS, *arguments])
    assert caught.value.code == 2


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (ADD[:-30], "E1013"),
        (ADD.replace("setp.ge.u32", "setp.ge.u32.wild"), "modifier .wild is not known to the simulator"),
        (ADD.replace("add.f32 %f2, %f0, %f1;", "frob.f32 %f2, %f0;"), "instruction `frob.f32` is not known to the simulator"),
        (ADD.replace("ld.param.u32 %r4, [n];", "ld.param.u32 %r4;"), "E1013"),
        (ADD.replace("bra DONE", "bra NOWHERE"), "label `NOWHERE` is not defined"),
        (ADD.replace("%d4], %f2", "%d9], %f2"), "register `%d9` is not declared"),
        (ADD.replace(".address_size 64", ".address_size 32"), "addresses of 32 bits are not simulated"),
        (ADD.replace(".param .u32 n)", ".param .u32 n) .blocksareclusters"), "needs .reqntid and .reqnctapercluster"),
        ("\0\1\2", "E1013"),
        ("", "no kernel"),
        ("int main() { return 0; }", "E1013"),
    ],
)
def test_text_that_cannot_run_gets_a_message(ptx, capsys, text: str, words: str) -> None:
    assert main(["sim", ptx(text), *ARGUMENTS]) == 1
    said = capsys.readouterr().err
    assert (words in said or "name a kernel" in said) and "internal error" not in said


def test_a_loop_without_end_and_a_wait_without_end(ptx, capsys) -> None:
    assert main(["sim", ptx(SPIN), "--grid", "1", "--steps", "5000"]) == 1
    assert "error[E1015]: kernel `spin` did not end within 5,000 warp instructions" in capsys.readouterr().err
    assert main(["sim", ptx(WAIT), "--grid", "1"]) == 1
    assert "ended in deadlock" in capsys.readouterr().err


def test_bits_of_another_type(ptx, tmp_path: Path) -> None:
    """bfloat16 is stored in .npy files as integers of the same bits, both ways."""
    values = np.arange(8).astype(ml_dtypes.bfloat16)
    np.save(tmp_path / "a.npy", values.view(np.uint16))
    copy = ADD.replace(".f32 %f<4>", ".b16 %f<4>").replace("mul.wide.u32 %d2, %r3, 4", "mul.wide.u32 %d2, %r3, 2")
    copy = (
        copy.replace("ld.global.f32", "ld.global.b16")
        .replace("add.f32 %f2", "add.bf16 %f2")
        .replace("st.global.f32", "st.global.b16")
    )
    arguments = ["--grid", "1", "--block", "32", "--arg", f"bf16@{tmp_path}/a.npy", "--arg", "b=bf16[8]:ones", "--arg", "i32:8"]
    assert main(["sim", ptx(copy), *arguments, "--save", f"b={tmp_path}/b.npy"]) == 0
    assert (np.load(tmp_path / "b.npy").view(ml_dtypes.bfloat16) == values + 1).all()


# Two races, of which the first happens three times.
RACES = (
    HEAD
    + """
.visible .entry races()
.reqntid 64
{
  .reg .pred %p; .reg .b32 %r<6>; .shared .align 4 .b8 s[512];
  mov.u32 %r0, %tid.x; mov.u32 %r1, s; mad.lo.u32 %r2, %r0, 4, %r1; xor.b32 %r3, %r0, 32; mad.lo.u32 %r4, %r3, 4, %r1;
  mov.u32 %r5, 0;
LOOP: bar.sync 0;
  st.shared.u32 [%r2], %r0;
  ld.shared.u32 %r3, [%r4];
  add.u32 %r5, %r5, 1; setp.lt.u32 %p, %r5, 3;
  @%p bra LOOP;
  st.shared.u32 [%r1+256], %r0;
}
"""
)


def test_findings_of_one_run(ptx, capsys) -> None:
    """All are told, equal ones once; `--check` says how grave they are."""
    assert main(["sim", ptx(RACES), "--grid", "1"]) == 1
    told = capsys.readouterr().err
    assert "error[E1007]" in told and told.count("nothing orders them") >= 2 and "times)" in told and "the run found" in told
    assert "PTX line 12" in told and "PTX line 13" in told
    assert main(["sim", ptx(RACES), "--grid", "1", "--check", "race=warn"]) == 0
    shown = capsys.readouterr().out
    assert shown.count("warning: race: ") >= 2 and "times)" in shown
    # A word that is read before anybody has written it is a finding of its own, in practice where anything comes of it.
    assert main(["sim", ptx(RACES), "--grid", "1", "--check", "race=off", "--rules", "documents"]) == 1
    assert "uninitialised" in capsys.readouterr().err
    assert main(["sim", ptx(RACES), "--grid", "1", "--check", "race=off"]) == 0
    assert "relies on: unwritten memory that does not matter" in capsys.readouterr().out
    off = ["--check", "race=off", "--check", "uninitialised=off"]
    assert main(["sim", ptx(RACES), "--grid", "1", *off]) == 0
    assert "different values to one place" in capsys.readouterr().out
    assert main(["sim", ptx(RACES), "--grid", "1", *off, "--check", "lanes=off"]) == 0
    assert "warning" not in capsys.readouterr().out
    with pytest.raises(SystemExit) as caught:
        main(["sim", ptx(RACES), "--grid", "1", "--check", "race=never"])
    assert caught.value.code == 2 and "race=never" in capsys.readouterr().err


def launched(tmp_path: Path, ptx: str, stated: object, *further: str) -> int:
    """`pipec sim --launch` on a file with this object, or this text."""
    (tmp_path / "k.ptx").write_text(ptx)
    (tmp_path / "call.json").write_text(stated if isinstance(stated, str) else json.dumps(stated))
    return main(["sim", str(tmp_path / "k.ptx"), "--launch", str(tmp_path / "call.json"), *further])


def test_a_file_says_how_a_kernel_is_called(tmp_path: Path) -> None:
    generator = np.random.default_rng(3)
    boxes = generator.standard_normal((4, 64)).astype(np.float32)
    np.save(tmp_path / "boxes.npy", boxes)
    struct = {"bytes": 256, "at": {"8": "out=f32[32]:zeros", "64": "map(@boxes.npy; box=1,32)", "192": "f32:0.5"}}
    call = {"kernel": "copy", "grid": 1, "shared": 8192, "arguments": [struct], "save": {"out": "out.npy"}}
    assert launched(tmp_path, STRUCT, call) == 0
    assert np.array_equal(np.load(tmp_path / "out.npy"), boxes[2, :32] / 2)  # beside the file that names it


def test_a_file_gives_a_table_of_pointers(tmp_path: Path) -> None:
    text = """
.visible .entry pick(.param .u64 table, .param .u64 out) .reqntid 4
{
  .reg .b32 %r<3>; .reg .b64 %d<7>;
  mov.u32 %r0, %ctaid.x; mov.u32 %r1, %tid.x;
  ld.param.u64 %d0, [table]; mul.wide.u32 %d1, %r0, 8; add.u64 %d0, %d0, %d1; ld.global.u64 %d2, [%d0];
  mul.wide.u32 %d3, %r1, 4; add.u64 %d2, %d2, %d3; ld.global.u32 %r2, [%d2];
  ld.param.u64 %d4, [out]; mul.wide.u32 %d5, %r0, 16; add.u64 %d4, %d4, %d5; add.u64 %d4, %d4, %d3; st.global.u32 [%d4], %r2;
  ret;
}
"""
    arguments = [{"addresses": ["u32[4]:7", "u32[4]:arange"]}, "out=u32[2,4]:zeros"]
    assert launched(tmp_path, HEAD + text, {"grid": [2], "arguments": arguments, "save": {"out": "out.npy"}}) == 0
    assert np.load(tmp_path / "out.npy").tolist() == [[7, 7, 7, 7], [0, 1, 2, 3]]


@pytest.mark.parametrize(
    ("stated", "problem"),
    [
        ("{", "is no JSON"),
        ("[" * 100_000, "is no JSON: it nests too deeply"),
        ([], "is a launch, but a JSON object is expected"),
        ({}, "needs a list as `arguments`"),
        ({"arguments": [], "grids": 3}, "has `grids`; there is arguments, block"),
        ({"arguments": [], "grid": [1, 2, 3, 4]}, "needs one to three numbers as `grid`"),
        ({"arguments": [], "grid": 0}, "needs whole numbers from 1 to 2147483648 as `grid`"),
        ({"arguments": [], "block": [1.5]}, "needs whole numbers"),
        ({"arguments": [], "shared": True}, "needs whole numbers"),
        ({"arguments": [], "kernel": 3}, "has a name as `kernel`"),
        ({"arguments": [], "cooperative": 1}, "true or false as `cooperative`"),
        ({"arguments": [3]}, "has arguments, each a text"),
        ({"arguments": ["f99:1"]}, "has the argument `f99:1`, which is no scalar"),
        ({"arguments": [{"bytes": 8, "at": {"x": "i32:1"}}]}, "has `x` where the byte offset"),
        ({"arguments": [{"bytes": 1 << 20}]}, "has a struct of 1048576 bytes"),
        ({"arguments": [{"bytes": 8, "at": {"4": "hex:0011223344"}}]}, "cannot hold 5 bytes at offset 4 of 8"),
        ({"arguments": [{"addresses": []}]}, "has an empty list of `addresses`"),
        ({"arguments": [{"addresses": [1]}]}, "has arrays in `addresses`"),
        ({"arguments": [], "save": {"a": 1}}, "has files by the names of arrays in `save`"),
    ],
)
def test_a_file_that_says_no_launch(tmp_path: Path, capsys: pytest.CaptureFixture[str], stated: object, problem: str) -> None:
    assert launched(tmp_path, ADD, stated) == 1
    shown = capsys.readouterr().err
    assert "error[E1012]" in shown and problem in shown


def test_a_file_of_a_launch_says_all_of_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert launched(tmp_path, ADD, {"arguments": []}, "--grid", "2") == 1
    assert "says all of a call; leave out --grid" in capsys.readouterr().err


def test_what_was_printed_before_a_fault_is_shown(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = """
.extern .func (.param .b32 r) vprintf(.param .b64 f, .param .b64 v);
.global .align 1 .b8 said[10] = {115, 111, 32, 102, 97, 114, 10, 0};
.visible .entry faulty() .reqntid 1
{
  .reg .b64 %d<3>; .reg .b32 %r;
  mov.u64 %d0, said; cvta.global.u64 %d0, %d0; mov.u64 %d1, 0;
  { .param .b64 a; st.param.b64 [a], %d0; .param .b64 b; st.param.b64 [b], %d1; .param .b32 r;
    call.uni (r), vprintf, (a, b); ld.param.b32 %r, [r]; }
  mov.u64 %d2, 64; st.global.u32 [%d2], 0;
  ret;
}
"""
    (tmp_path / "k.ptx").write_text(HEAD + text)
    assert main(["sim", str(tmp_path / "k.ptx"), "--grid", "1"]) == 1
    assert "printed: so far" in capsys.readouterr().out
