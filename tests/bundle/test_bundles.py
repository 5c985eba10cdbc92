"""`pipec build`, and its bundles in Python: what is written, that it is the same each time, and that loading needs no compiler."""

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from unittest.mock import patch

import ml_dtypes
import numpy as np
import pytest
from bundle.c_bundle import EXAMPLES, example, request, unassembled, write
from fake_driver import FakeApi, Torch

import pipec.bundle
from pipec.bundle.build import Built, build
from pipec.bundle.loading import load
from pipec.bundle.manifest import BundleError, from_text, to_text
from pipec.commands.cli import main
from pipec.diag.message import Failure
from pipec.ptx.assemble import available
from pipec.runtime.errors import ArgumentError, DeviceError
from pipec.source import Source

needs_assembler = pytest.mark.skipif(not available(), reason="neither ptxas nor nvJitLink is here")

TUNED = """kernel twice[BM: int = 64, STAGES: int = 2](x: tensor[f32, M, 64], y: tensor[f32, M, 64]):
    \"\"\"Twice x.\"\"\"
    tune BM in (64, 128, 256), STAGES in (1, 2)
    grid(ceildiv(M, BM))
    ring = InputTilePipeline(TilePayload(t=tile[f32, BM, 64]), stages=STAGES)

    role load(warps=1) produces ring:
        with ring.produce() as s:
            tma.load(s.t, x[block.x * BM, 0])

    role double(warps=4) consumes ring:
        with ring.consume() as s:
            store(y[block.x * BM, 0], s.t * 2)
"""


@pytest.fixture
def quick() -> Iterator[None]:
    """Without the assembler."""
    with patch("pipec.bundle.build.assemble", unassembled):
        yield


def source(tmp_path: Path, text: str = TUNED) -> str:
    path = tmp_path / "twice.pipe"
    path.write_text(text, encoding="utf-8")
    return str(path)


def built(text: str = TUNED, **changes: object) -> Built:
    return build(Source("twice.pipe", text), "twice", request(**changes))


# --- what is written --------------------------------


@needs_assembler
def test_the_command_writes_the_same_each_time(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    command = ["build", source(tmp_path), "--target", "sm_90a", "--target", "sm_100a", "--shape", "M=64,8192", "-D", "STAGES=1"]
    for folder in ("one", "two"):
        assert main([*command, "-o", str(tmp_path / folder)]) == 0
    said = capsys.readouterr()
    assert "twice for sm_90a: " in said.out and "twice for sm_100a: " in said.out and said.err == ""
    files = {path.name for path in (tmp_path / "one").iterdir()}
    assert {"twice.h", "twice.c", "twice.cmake", "manifest.json", "pipec_launch.h", "pipec_launch_impl.h"} < files
    assert {"twice-sm_90a-0.cubin", "twice-sm_100a-0.ptx"} < files
    assert all((tmp_path / "one" / name).read_bytes() == (tmp_path / "two" / name).read_bytes() for name in files)
    assert (tmp_path / "one" / "twice-sm_90a-0.cubin").read_bytes().startswith(b"\x7fELF")
    manifest = json.loads((tmp_path / "one" / "manifest.json").read_text())
    assert manifest["constants"] == {"STAGES": "1"} and set(manifest["files"]) == files - {"manifest.json"}


@pytest.mark.usefixtures("quick")
def test_rows_for_machines(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["build", source(tmp_path), "-o", str(tmp_path / "out"), "--message-format", "json", "--name", "double"]
    assert main([*arguments, "--shape", "M=64"]) == 0
    form, output = map(json.loads, capsys.readouterr().out.splitlines())
    assert (form["kind"], form["arch"], len(form["variants"])) == ("form", "sm_100a", 1)
    assert output["kind"] == "output" and {"double_.c", "double_.h", "manifest.json"} < set(output["files"])


def codes(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> list[str]:
    assert main([*arguments, "--message-format", "json"]) == 1
    return [json.loads(line)["code"] for line in capsys.readouterr().err.splitlines()]


@pytest.mark.usefixtures("quick")
@pytest.mark.parametrize(
    ("options", "code"),
    [
        (["--shape", "M=0"], "E1032"),
        (["--shape", "M=64,x"], "E1032"),
        (["--shape", "M=99999999999"], "E1032"),
        (["--shape", "Q=64"], "E0289"),
        (["--shape", "M=" + ",".join(map(str, range(1, 400)))], "E1031"),
        (["-D", "NOTHING=1"], "E0217"),
        (["--kernel", "other"], "E0224"),
    ],
)
def test_wrong_requests(tmp_path: Path, capsys: pytest.CaptureFixture[str], options: list[str], code: str) -> None:
    assert codes(["build", source(tmp_path), "-o", str(tmp_path / "out"), *options], capsys) == [code]
    assert not (tmp_path / "out").exists()


@pytest.mark.usefixtures("quick")
def test_arguments_that_depend_on_what_is_chosen(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = TUNED.replace("x: tensor[f32, M, 64]", "x: tensor[f32, M, 64], z: tensor[f32, BM]").replace(
        "store(y[block.x * BM, 0], s.t * 2)", "store(y[block.x * BM, 0], s.t * load(z[0]))"
    )
    command = ["build", source(tmp_path, text), "-o", str(tmp_path / "out"), "--shape", "M=64"]
    (tmp_path / "twice.tiles").write_text("NVIDIA B200 | twice | M=1 | BM=256 STAGES=1 | 1.0 | 2.0\n")
    assert codes(command, capsys) == ["E1030"]
    assert main([*command, "-D", "BM=64"]) == 0


@pytest.mark.usefixtures("quick")
def test_a_folder_that_is_a_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = source(tmp_path)
    assert codes(["build", file, "-o", file, "--shape", "M=64"], capsys) == ["E1001"]


@pytest.mark.parametrize(
    "options", [[], ["-o"], ["-o", "x", "--target", "sm_1"], ["-o", "x", "--name", "no name"], ["-o", "x", "--tiles", "0"]]
)
def test_wrong_usage(options: list[str]) -> None:
    with pytest.raises(SystemExit) as left:
        main(["build", "x.pipe", *options])
    assert left.value.code == 2


# --- which forms --------------------------------


@pytest.mark.usefixtures("quick")
def test_a_table_beside_the_source_comes_first(tmp_path: Path) -> None:
    file = source(tmp_path)
    rows = [
        "NVIDIA B200 | twice | M=64 | BM=256 STAGES=1 | 1.0 | 2.0",
        "NVIDIA H200 | twice | M=64 | BM=128 STAGES=1 | 1.0 | 2.0",
    ]
    (tmp_path / "twice.tiles").write_text("\n".join(rows) + "\n")
    for target, tile in (("sm_100a", "256"), ("sm_90a", "128")):
        made = build(Source(file, TUNED), "twice", request(targets=(target,), shapes={"M": (64, 65536)}))
        (form,) = made.manifest.kernels[0].forms
        measured = [choice for choice in form.choices if choice.origin == "table"]
        assert [choice.sizes for choice in measured] == [(64,)]
        assert dict(form.variants[measured[0].variant].values) == {"BM": tile, "STAGES": "1"}


@pytest.mark.usefixtures("quick")
def test_the_number_of_forms_is_limited() -> None:
    sizes = {"M": (1, 64, 128, 1024, 8192, 65_536, 10**6, 10**7)}
    path = EXAMPLES / "gemm_sm90_persistent.pipe"
    persistent = Source(path.name, path.read_text(encoding="utf-8"))
    shapes = {"M": (16, 512, 4096), "N": (4096,), "K": (4096,)}
    for tiles in (1, 2):
        made = build(persistent, "gemm", request(shapes=shapes, tiles=tiles))
        (form,) = made.manifest.kernels[0].forms
        assert len(form.variants) == tiles and len(form.choices) == (3 if tiles > 1 else 0)
    assert len(built(shapes=sizes, tiles=9).manifest.kernels[0].forms[0].variants) <= 6


def test_a_manifest_reads_as_it_was_written() -> None:
    for name in ("gemm_sm90_cluster", "programmatic_launch"):
        manifest = example(name).manifest
        assert from_text(to_text(manifest)) == manifest


# --- in Python --------------------------------


def gemm_arrays(m: int = 256, n: int = 128, k: int = 64) -> list[np.ndarray]:
    draw = np.random.default_rng(0)
    a, b = (draw.standard_normal(shape).astype(ml_dtypes.bfloat16) for shape in ((m, k), (n, k)))
    return [a, b, np.zeros((m, n), ml_dtypes.bfloat16)]


def expected(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    return a.astype(np.float64) @ b.astype(np.float64).T


PROGRAM = """
import importlib.abc, sys

class Absent(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path, target=None):
        if name.partition(".")[0] in ("lark", "llvmlite", "cuda", "torch"):
            raise ModuleNotFoundError(name, name=name)

sys.meta_path.insert(0, Absent())
import ml_dtypes, numpy as np, pipec.bundle
a, b = (np.ones((128, 64), ml_dtypes.bfloat16) for _ in "ab")
d = np.zeros((128, 128), ml_dtypes.bfloat16)
result = pipec.bundle.load(sys.argv[1])["gemm_sm90"](a, b, d)
assert (d == 64).all() and result.device == "sim", d
compiler = [name for name in sys.modules if name.startswith(("pipec.driver", "pipec.sema", "pipec.syntax", "pipec.lower", "pipec.ptx"))]
assert compiler == [], compiler
"""


def test_a_bundle_is_called_without_the_compiler(tmp_path: Path) -> None:
    folder = write(example("gemm_sm90"), tmp_path / "bundle")
    root = EXAMPLES.parent
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(folder)], cwd=root, capture_output=True, text=True, check=False, timeout=300
    )
    assert done.returncode == 0, done.stderr


def test_calls_by_name_and_wrong_ones(tmp_path: Path) -> None:
    bundle = pipec.bundle.load(write(example("gemm_sm90"), tmp_path))
    assert list(bundle) == ["gemm_sm90"] and len(bundle) == 1
    kernel = bundle["gemm_sm90"]
    a, b, d = gemm_arrays()
    kernel(a, d=d, b=b, device="sim")  # what stands in for machine code here is none, should there be a GPU
    np.testing.assert_allclose(d.astype(np.float64), expected(a, b), rtol=0.02, atol=0.1)
    with pytest.raises(ArgumentError, match="dimension `K` is 64 here"):
        kernel(*gemm_arrays(k=128)[:1], b, d)
    with pytest.raises(ArgumentError, match="takes 3 arguments"):
        kernel(a, b)
    with pytest.raises(ArgumentError, match="`b`: it was passed in order and by name"):
        kernel(a, b, b=b)
    with pytest.raises(ArgumentError, match="`e`: there is no such parameter"):
        kernel(a, b, e=d)
    with pytest.raises(ArgumentError, match="expected an array"):
        kernel(1, 2, 3)
    with pytest.raises(DeviceError):
        kernel(a, b, d, device="nonsense")
    with pytest.raises(KeyError, match="there is gemm_sm90"):
        bundle["gemm"]


@pytest.mark.usefixtures("quick")
def test_the_form_for_the_sizes_and_the_device(tmp_path: Path, api: FakeApi) -> None:
    rows = [
        f"NVIDIA {device} | twice | M={size} | BM={tile} STAGES=1 | 1.0 | 2.0"
        for device, tiles in (("H200", (128, 64)), ("B200", (256, 128)))
        for size, tile in zip((1, 100_000), tiles, strict=True)
    ]
    file = source(tmp_path)
    (tmp_path / "twice.tiles").write_text("\n".join(rows) + "\n")
    made = build(Source(file, TUNED), "twice", request(targets=("sm_90a", "sm_100a"), shapes={"M": (64,)}, tiles=2))
    kernel = load(write(made, tmp_path))["twice"]
    for capability, arch in (((9, 0), "sm_90a"), ((10, 0), "sm_100a")):
        api.capability = capability
        form = next(form for form in made.manifest.kernels[0].forms if form.arch == arch)
        assert len(form.variants) == 2, "one form would prove nothing"
        for rows in (1, 64, 90_000):
            x = Torch(np.zeros((rows, 64), np.float32))
            variant = kernel.variant(x, x, device="cuda:0")
            sizes = (1,) if rows == 1 else (64,) if rows == 64 else (100_000,)
            (nearest,) = (choice for choice in form.choices if choice.sizes == sizes)
            assert variant == form.variants[nearest.variant]
            api.launches.clear()
            load(tmp_path)["twice"](x, Torch(np.zeros((rows, 64), np.float32)))
            config, _ = api.launches[-1]
            assert config.sharedMemBytes == variant.interface.shared_bytes


def damaged(folder: Path, name: str, change: object) -> None:
    path = folder / name
    if name == "manifest.json" and callable(change):
        row = json.loads(path.read_text())
        change(row)
        path.write_text(json.dumps(row))
    else:
        path.write_bytes(change if isinstance(change, bytes) else b"")


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (b"{", "is no JSON"),
        (b"[" * 100_000, "is no JSON"),
        (b"{}", "does not describe a bundle"),
        (b"\xff\xfe", "is no JSON"),
        (lambda row: row.update(version=99), "is of version 99"),
        (lambda row: row.pop("kernels"), "is damaged: KeyError"),
        (lambda row: row.update(kernels=[1]), "is damaged"),
        (lambda row: row["files"].update({"../../etc/passwd": "0"}), "no name of a file"),
        (lambda row: row["kernels"][0]["targets"][0]["variants"].clear(), "is damaged"),
        (lambda row: row["kernels"][0]["targets"].clear(), "is damaged"),
        (lambda row: row["kernels"][0]["targets"][0]["variants"][0].update(cubin="other"), "has no code"),
        (lambda row: row["kernels"][0]["targets"][0]["variants"][0].update(interface={}), "is damaged"),
        (
            lambda row: row["kernels"][0]["targets"][0]["choices"].append({"sizes": [1], "variant": 7, "origin": ""}),
            "has no variant",
        ),
    ],
)
def test_damaged_manifests(tmp_path: Path, change: object, said: str) -> None:
    folder = write(example("gemm_sm90"), tmp_path)
    damaged(folder, "manifest.json", change)
    with pytest.raises(BundleError, match=said):
        load(folder)


def test_damaged_code_and_folders(tmp_path: Path) -> None:
    with pytest.raises(BundleError, match=r"manifest\.json cannot be read"):
        load(tmp_path / "nowhere")
    folder = write(example("gemm_sm90"), tmp_path)
    damaged(folder, "gemm_sm90-sm_90a-0.ptx", b"other")
    with pytest.raises(BundleError, match="is not what was built"):
        load(folder)["gemm_sm90"](*gemm_arrays())


def test_what_a_kernel_with_faults_gets() -> None:
    with pytest.raises(Failure) as failure:
        built(TUNED.replace("s.t * 2", "nothing * 2"))
    assert failure.value.diagnostics
