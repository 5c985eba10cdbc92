"""PTX: the time of a kernel from its barriers, beside what its source says, and what is refused with which reason."""

import json
import re
from pathlib import Path

import pytest

from pipec.api.files import read_source
from pipec.commands.cli import main
from pipec.driver import Options, compile_source
from pipec.predict.device import BY_ARCH
from pipec.predict.launch import prediction
from pipec.predict.ptx.code import Code, Multiply
from pipec.predict.ptx.timing import FORMS, PtxPrediction, Unclear, names_of, parameter_of, predict_ptx
from pipec.verify.network import Unreadable
from pipec.verify.reader.read import read
from pipec.verify.reader.text.statements import entries_of
from pipec.verify.reader.values.interpretation import Interpretation

ROOT = Path(__file__).parents[2]
GOLDEN = ROOT / "tests" / "golden"
Capture = pytest.CaptureFixture[str]


def predicted(
    path: Path,
    kernel: str,
    sizes: dict[str, int],
    arch: str = "sm_100a",
    blocks: int | None = None,
    clock: float | None = None,
) -> PtxPrediction:
    text = path.read_text(encoding="utf-8")
    network = read(text, kernel, Interpretation(FORMS, branches=True))
    names = names_of(network)
    given = {parameter: size for name, size in sizes.items() if (parameter := parameter_of(name, names, kernel)) is not None}
    return predict_ptx(network, text, BY_ARCH[arch], given, blocks, clock)


# The PTX does not tell boxes, nor how often a branch is taken; where neither matters it says the same as the source.
AGREE = dict.fromkeys(
    (
        "gemm",
        "gemm_direct",
        "gemm_peek",
        "gemm_blockwise_fp8",
        "gemm_sm90",
        "gemm_sm90_persistent",
        "gemm_2cta",
        "gemm_sm90_cluster",
        "gemm_sm90_pingpong",
        "gemm_sm90_halves",
        "gemm_sm90_narrow",
        "gemm_persistent",
        "gemm_2cta_persistent",
        "gemm_clc",
        "gemm_mxfp8",
        "gemm_nvfp4",
        "gemm_sm90_split_k",
        "gemm_split_k",
        "gemm_epilogue",
        "gemm_mxfp8_2cta",
        "attention_sm90",
    ),
    0.065,
) | {
    "attention": 0.2,  # the mask's side of a branch, which few blocks of keys take
    "attention_sm90_persistent": 0.15,  # threads set the pace, and by instruction they have more to do than by element
    "gemm_split_k_serial": 0.3,  # what the last split does; the first one is looked at in source
}


@pytest.mark.parametrize("name", AGREE)
def test_the_barriers_say_what_the_source_says(name: str) -> None:
    state = compile_source(read_source(str(ROOT / "examples" / f"{name}.pipe")), Options(), "plan")
    assert state.trees is not None
    kernel = next(one for one in state.trees if one.name == name)
    names = {extent for tensor in kernel.tensors for extent in tensor.shape if isinstance(extent, str)}
    sizes = dict.fromkeys(names, 32) | {"M_CHUNKS": 16, "N_CHUNKS": 16, "K_CHUNKS": 32}
    sizes |= {"H": 16, "KEPT": 16, "SEQUENCES": 1, "S": 2048, "T": 2048} if "T" in names else {"M": 2048, "N": 2048, "K": 4096}
    sizes |= (
        {"M": 16} if name == "gemm_sm90_narrow" else {}
    )  # with more rows, who loads the same data counts, which PTX does not tell
    source = prediction(state, name, {size: value for size, value in sizes.items() if size in names})
    # Power that memory takes, PTX does not tell; at the same clock both count the same cycles.
    found = predicted(GOLDEN / f"{name}.ptx", name, sizes, state.arch, source.blocks, source.clock)
    assert found.held == source.held
    assert found.cycles == pytest.approx(source.cycles, rel=AGREE[name])


def test_more_iterations_take_longer_and_more_blocks_more_waves() -> None:
    short, long = (predicted(GOLDEN / "gemm.ptx", "gemm", {"K": k}) for k in (1024, 4096))
    assert 2.8 < long.cycles / short.cycles < 4.0 and long.moved == 4 * short.moved and long.flops == 4 * short.flops
    two, more = (predicted(GOLDEN / "gemm.ptx", "gemm", {"K": 1024}, blocks=blocks).cycles for blocks in (296, 149))
    assert two == pytest.approx(2 * short.cycles) and 1.7 * short.cycles < more < two  # a block alone has the L2 to itself


def test_tiles_that_are_handed_over_are_work_of_the_launch() -> None:
    """300 tiles of 128 x 256, of which as many blocks as there are multiprocessors do all."""
    found = predicted(GOLDEN / "gemm_clc.ptx", "gemm_clc", {"K": 1024}, blocks=300)
    assert found.flops * 300 == 2 * 300 * 128 * 256 * 1024
    even, odd = (predicted(GOLDEN / "gemm_clc.ptx", "gemm_clc", {"K": 1024}, blocks=blocks).cycles for blocks in (296, 148))
    assert even == pytest.approx(2 * odd, rel=0.2) and found.cycles > 1.2 * even


def test_shapes_of_products() -> None:
    """From the opcode, and from a descriptor that hides behind registers which are the same in all threads."""
    for name, threads, shape in (("gemm", 192, (128, 256)), ("gemm_sm90", 288, (64, 128))):
        text = (GOLDEN / f"{name}.ptx").read_text(encoding="utf-8")
        code = Code(text, name, threads)
        lines = text.split("\n")
        first, *_, last = [at for at, line in enumerate(lines, 1) if re.search(r"tcgen05\.mma|wgmma\.mma_async", line)]
        between = code.between(first - 1, last + 1, frozenset((first - 1, last + 1)), 128)
        shapes = {(one.instructions.rows, one.instructions.columns) for one in between.asked if isinstance(one, Multiply)}
        assert shapes == {shape}


@pytest.mark.parametrize(
    "path", sorted([*GOLDEN.glob("*.ptx"), *(ROOT / "tests" / "sim" / "ptx").glob("*.ptx")]), ids=lambda path: path.stem
)
def test_every_ptx_has_a_time_or_a_reason(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    for kernel in entries_of(text):
        try:
            network = read(text, kernel, Interpretation(FORMS, branches=True))
            given = {name: 256 for name in names_of(network) if not name.startswith("%")}
            found = predict_ptx(network, text, BY_ARCH["sm_100a"], given, None, None)
        except (Unclear, Unreadable):
            continue
        assert found.seconds > 0 and (found.moved or found.flops)


SYNCHRONOUS = """
.version 8.7
.target sm_90a
.address_size 64
.visible .entry k(.param .u64 k_a, .param .u32 k_n) .reqntid 128 .maxnreg 128
{{
  .reg .pred %p<4>; .reg .b32 %r<80>; .reg .b64 %rd<8>; .reg .f32 %f<80>;
  .shared .align 1024 .b8 tiles[65536];
  ld.param.u64 %rd1, [k_a];
  ld.param.u32 %r1, [k_n];
  mov.u32 %r2, 0;
$loop:
  setp.ge.s32 %p1, %r2, %r1;
  @%p1 bra $end;
{loads}
  bar.sync 0;
  wgmma.fence.sync.aligned;
  wgmma.mma_async.sync.aligned.m64n8k16.f32.bf16.bf16 {{%f0, %f1, %f2, %f3}}, %rd2, %rd3, 1, 1, 1, 0, 0;
  wgmma.commit_group.sync.aligned;
  wgmma.wait_group.sync.aligned 0;
  bar.sync 0;
  add.s32 %r2, %r2, 1;
  bra $loop;
$end:
  ret;
}}
"""


def synchronous(loads: str, turns: int) -> PtxPrediction:
    text = SYNCHRONOUS.format(loads=loads)
    network = read(text, "k", Interpretation(FORMS, branches=True))
    return predict_ptx(network, text, BY_ARCH["sm_90a"], {"k_n": turns}, 132, None)


def test_threads_that_load_for_themselves_wait_for_it() -> None:
    """What threads read into registers, or copy by `cp.async` and wait for, is loaded, too: in each turn of the loop."""
    none = synchronous("", 64)
    read_ = synchronous("\n".join(f"  ld.global.v4.b32 {{%r1{at}, %r2{at}, %r3{at}, %r4{at}}}, [%rd1];" for at in range(4)), 64)
    copied = "\n".join("  cp.async.cg.shared.global [%r9], [%rd1], 16;" for _ in range(4)) + "\n  cp.async.commit_group;"
    waited = synchronous(copied + "\n  cp.async.wait_group 0;", 64)
    ahead = synchronous(copied + "\n  cp.async.wait_group 2;", 64)
    assert none.moved == 0 and read_.moved == waited.moved == ahead.moved
    assert read_.moved == pytest.approx(64 * 4 * 16 * 128, rel=0.02)  # the way out of the loop counts like a turn
    latency = BY_ARCH["sm_90a"].load
    assert read_.cycles > none.cycles + 64 * latency and waited.cycles > none.cycles + 64 * latency
    assert none.cycles < ahead.cycles < 0.6 * waited.cycles


# ------------------------------------------------------------------------------------------------------------------ faces


def test_the_command(capsys: Capture) -> None:
    command = ["predict", str(GOLDEN / "gemm.ptx"), "--shape", "K=4096", "blocks=256"]
    assert main([*command, "--format", "json"]) == 0
    (kernel,) = json.loads(capsys.readouterr().out)["kernels"]
    assert kernel["name"] == "gemm" and kernel["blocks"] == 256 and kernel["bound_by"] in kernel["bounds"]
    assert kernel["seconds"] > kernel["cycles"] / kernel["clock"] and len(kernel["unknown"]) > 3
    assert main(command) == 0
    assert f"{kernel['seconds'] * 1e6:,.1f} us" in capsys.readouterr().out


def test_its_timeline(tmp_path: Path, capsys: Capture) -> None:
    out = tmp_path / "t.json"
    assert main(["predict", str(GOLDEN / "gemm.ptx"), "--shape", "K=1024", "--timeline", str(out)]) == 0
    tracks = {event["tid"] for event in json.loads(out.read_text())["traceEvents"]}
    assert {"load", "mma", "epilogue", "copies", "products"} <= tracks
    capsys.readouterr()


def test_blocks_of_unlike_length(tmp_path: Path, capsys: Capture) -> None:
    """With a mask half of the keys are seen, on average; the grid says which block sees how many. Measured with so many queries to a tile:
    0.54 of the time without the mask (benchmarks/results/h200_attention.json). With 192, blocks of keys would come in order and each go
    through the mask's branch, which counts in PTX, while without a mask there is none."""
    seconds = {}
    for masked in (True, False):
        constants: dict[str, object] = {"CAUSAL": masked, "BM": 128}
        state = compile_source(read_source(str(ROOT / "examples" / "attention_sm90.pipe")), Options(None, constants))
        path = tmp_path / "k.ptx"
        path.write_text(state.ptx or "", encoding="utf-8")
        assert main(["predict", str(path), "--shape", "T=4096", "blocks=32x64", "--format", "json"]) == 0
        (kernel,) = json.loads(capsys.readouterr().out)["kernels"]
        assert kernel["blocks"] == 32 * 64 and not any("less than the first block" in one for one in kernel["unknown"])
        seconds[masked] = kernel["seconds"]
    assert 0.45 < seconds[True] / seconds[False] < 0.65


REFUSED = {
    "gemm": (["--shape", "X=1"], "nothing in it depends on `X`, but on `K`"),
    "gemm_2cta": (["--shape", "K=512", "blocks=0"], "a launch has at least one block"),
    "gemm_direct": ([], "depends on `K`: give `--shape K=...`"),
    "gemm_peek": (["--kernel", "gemm_peek", "--shape", "K=x"], "`K=x` is no size"),
    "gemm_grouped": (
        ["--shape", "N=512", "K=512", "GROUPS=4", "ENDS=4", "gemm_grouped_ptr_begins=0"],
        "goes follows from memory",
    ),
    "gemm_sm90": (["--shape", "K=512", "--device", "b200"], "it is for sm_90a, and B200 runs sm_100a"),
    "layer_norm": ([], "no barrier of it carries copies or products"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_refused(name: str, capsys: Capture) -> None:
    arguments, reason = REFUSED[name]
    assert main(["predict", str(GOLDEN / f"{name}.ptx"), *arguments]) == 1
    said = capsys.readouterr().err
    assert "error[E0295]" in said and reason in said


def test_what_cannot_be_read(tmp_path: Path, capsys: Capture) -> None:
    broken = tmp_path / "broken.ptx"
    broken.write_text(".version 8.7\n.target sm_100a\n.visible .entry k() { bra.uni %r1; }\n")
    assert main(["predict", str(broken)]) == 1
    said = capsys.readouterr().err
    assert "error[E0295]" in said and "its protocol cannot be read, since" in said
