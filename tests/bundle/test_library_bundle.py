"""`pipec build library:gemm`: a bundle with one kernel whose variants are tiles of several."""

import json
from pathlib import Path
from unittest.mock import patch

import ml_dtypes
import numpy as np
import pytest
from bundle.c_bundle import C11, compiled, needs_compiler, unassembled

from pipec import library
from pipec.bundle.loading import load
from pipec.bundle.manifest import dimensions_of
from pipec.commands.cli import main


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("library") / "gemm"
    with patch("pipec.bundle.build.assemble", unassembled):
        command = [
            "build",
            "library:gemm",
            "--target",
            "sm_90a",
            "--target",
            "sm_100a",
            "--tiles",
            "3",
            "--shape",
            "M=16,2048",
            "N=4096",
            "K=4096",
        ]
        assert main([*command, "-o", str(made)]) == 0
    return made


def test_variants_of_several_kernels_answer_to_one_name(folder: Path) -> None:
    manifest = json.loads((folder / "manifest.json").read_text())
    assert manifest["name"] == "gemm" and manifest["source"] == "library:gemm"
    (kernel,) = manifest["kernels"]
    assert kernel["name"] == "gemm" and [form["arch"] for form in kernel["targets"]] == ["sm_90a", "sm_100a"]
    for form in kernel["targets"]:
        assert len({variant["values"]["kernel"].partition(".")[0] for variant in form["variants"]}) > 1
        for variant in form["variants"]:
            assert ".entry gemm(" in (folder / variant["ptx"]).read_text()


def test_each_size_takes_what_the_model_chooses_among_kernels_that_run_alone(folder: Path) -> None:
    tuned = library.gemm("sm_90a").tuned
    assert tuned is not None
    (kernel,) = load(folder).manifest.kernels
    kept = [" ".join(f"{name}={value}" for name, value in variant.values) for variant in kernel.forms[0].variants]
    for choice in kernel.forms[0].choices:
        sizes = dict(zip(dimensions_of(kernel.interface), choice.sizes, strict=True))
        times = {str(one.candidate): one.prediction.seconds for one in tuned.choices.ranked(sizes)}
        least = min(times[one] for one in kept)
        assert times[kept[choice.variant]] <= 1.02 * least  # the first kernel's values stay unless another gains more


def test_kernels_that_need_memory_between_them_are_left_out(tmp_path: Path) -> None:
    """K is split where it is long, but by kernels of which one adds up what the others have written to scratch memory."""
    tuned = library.gemm("sm_90a").tuned
    assert tuned is not None
    m, n, k = 128, 128, 65536
    assert tuned.choices.choose({"M": m, "N": n, "K": k}).constants["kernel"] == "add_products"
    with patch("pipec.bundle.build.assemble", unassembled):
        command = [
            "build",
            "library:gemm",
            "--target",
            "sm_90a",
            "--shape",
            f"M={m}",
            f"N={n}",
            f"K={k}",
            "-o",
            str(tmp_path / "out"),
        ]
        assert main(command) == 0
    (variant,) = load(tmp_path / "out").manifest.kernels[0].forms[0].variants
    assert dict(variant.values)["kernel"] != "add_products" and len(variant.interface.arguments) == 3


def test_a_call_from_python_runs_the_variant_for_its_sizes(folder: Path) -> None:
    gemm = load(folder)["gemm"]
    m, n, k = 72, 136, 200
    a, b = (np.random.default_rng(0).standard_normal((rows, k)).astype(ml_dtypes.bfloat16) for rows in (m, n))
    d = np.zeros((m, n), ml_dtypes.bfloat16)
    gemm(a, b, d, device="sim")
    assert np.allclose(d.astype(np.float32), a.astype(np.float32) @ b.astype(np.float32).T, rtol=2e-2, atol=2e-2)


@needs_compiler
def test_it_compiles_as_c(folder: Path, tmp_path: Path) -> None:
    compiled(C11, "-c", folder / "gemm.c", "-o", tmp_path / "gemm.o")
    assert "pipec_status gemm_launch(" in (folder / "gemm.h").read_text()


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["library:conv"], "`FILE` must be library:gemm"),
        (["library:gemm", "--kernel", "gemm"], "`--kernel` must be left out"),
        (["library:gemm", "-D", "BM=64"], "`-D` must be `dtype=...`"),
        (["library:gemm", "--target", "sm_90a", "--target", "sm_100a", "-D", "dtype=e4m3"], "`dtype` must be bf16"),
        (["library:gemm", "--target", "sm_90a", "--shape", "Q=4"], "there is no dimension `Q`"),
    ],
)
def test_what_there_is_not_is_refused(
    arguments: list[str], said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["build", *arguments, "-o", str(tmp_path / "out")]) == 1
    assert said in capsys.readouterr().err
    assert not (tmp_path / "out").exists()
