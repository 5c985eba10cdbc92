"""The wheel and the source archive hold every source file, and the installed wheel works away from the checkout.

Built without isolation, so that no network is needed.
"""

import os
import shutil
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
IGNORED = {".git", ".venv", "__pycache__", "build", "dist", ".mypy_cache", ".ruff_cache", ".pytest_cache", ".hypothesis"}
# Checkout folder -> folder in the wheel (pyproject.toml, package-dir).
PACKAGES = {"pipec": "pipec", "examples": "pipec/examples", "grammar": "pipec/grammar", "runtime": "pipec/runtime"}
IN_ARCHIVE = (
    "pipec",
    "grammar",
    "runtime",
    "tests",
    "examples",
    "benchmarks",
    "docs",
    "tools",
    "Makefile",
    "README.md",
    "LICENSE",
    "CONTRIBUTING.md",
    "CHANGELOG.md",
    "SECURITY.md",
    "pyproject.toml",
)

pytestmark = pytest.mark.xdist_group("packaging")  # one worker builds once


def run(*command: object, cwd: Path, **environment: str) -> str:
    clean = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "PYTHONHOME")}
    done = subprocess.run(
        [*map(str, command)], cwd=cwd, env=clean | environment, capture_output=True, text=True, check=False, timeout=300
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with wheel and archive, built from a copy (setuptools leaves build/ and egg-info behind)."""
    copy = tmp_path_factory.mktemp("source") / "checkout"
    shutil.copytree(ROOT, copy, ignore=lambda _, names: {name for name in names if name in IGNORED or name.endswith(".egg-info")})
    out = tmp_path_factory.mktemp("dist")
    run(sys.executable, "-m", "build", "--no-isolation", "--outdir", out, copy, cwd=copy)
    return out


def sources(folder: str) -> set[str]:
    """Files of a checkout folder that belong to the project, relative to the checkout."""
    base = ROOT / folder
    files = [base] if base.is_file() else base.rglob("*")
    return {
        path.relative_to(ROOT).as_posix()
        for path in files
        if path.is_file() and not IGNORED & set(path.relative_to(ROOT).parts) and path.suffix != ".pyc"
    }


def test_wheel_has_every_source_file_and_nothing_else(built: Path) -> None:
    (wheel,) = built.glob("*.whl")
    names = {name for name in zipfile.ZipFile(wheel).namelist() if ".dist-info/" not in name}
    expected = {target + name.removeprefix(folder) for folder, target in PACKAGES.items() for name in sources(folder)}
    assert names == expected


def test_each_folder_of_modules_is_a_package() -> None:
    """A later setuptools may leave out folders that are not listed: this one takes them for data of the package around them."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    files = [target + name.removeprefix(folder) for folder, target in PACKAGES.items() for name in sources(folder)]
    folders = {str(Path(name).parent) for name in files if name.endswith(".py")} | {PACKAGES["examples"], PACKAGES["grammar"]}
    assert sorted(project["tool"]["setuptools"]["packages"]) == sorted(folder.replace("/", ".") for folder in folders)


def test_wheel_says_its_licence(built: Path) -> None:
    (wheel,) = built.glob("*.whl")
    files = zipfile.ZipFile(wheel)
    (metadata,) = (name for name in files.namelist() if name.endswith(".dist-info/METADATA"))
    assert "License-Expression: Apache-2.0" in files.read(metadata).decode().splitlines()
    (licence,) = (name for name in files.namelist() if name.endswith("LICENSE"))
    assert files.read(licence) == (ROOT / "LICENSE").read_bytes()


def test_archive_has_every_file_of_the_project(built: Path) -> None:
    (archive,) = built.glob("*.tar.gz")
    with tarfile.open(archive) as tar:
        names = {member.name.partition("/")[2] for member in tar.getmembers() if member.isfile()}
    expected = set().union(*(sources(entry) for entry in IN_ARCHIVE))
    assert expected - names == set()
    extra = {name for name in names - expected if not name.startswith((".ci/", "pipec.egg-info/"))}
    assert extra <= {"PKG-INFO", "setup.cfg", "MANIFEST.in", ".gitignore"}


@pytest.fixture(scope="module")
def installed(built: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel in a folder of its own; its dependencies are those of this environment."""
    (wheel,) = built.glob("*.whl")
    target = tmp_path_factory.mktemp("installed")
    run(sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-index", "--target", target, wheel, cwd=target)
    return target


def test_installed_wheel_works_from_another_folder(installed: Path, tmp_path: Path) -> None:
    code = (
        "import pipec, pipec.grammar, pipec.runtime, pipec.ptx.assemble; from pathlib import Path;"
        "print(Path(pipec.__file__).parent, Path(pipec.runtime.__file__).parent, pipec.__version__,"
        " (Path(pipec.grammar.__file__).parent / 'pipec.lark').is_file(), len(list(pipec.__path__)))"
    )
    said = run(sys.executable, "-c", code, cwd=tmp_path, PYTHONPATH=str(installed)).split()
    package, runtime, _, has_grammar, places = said
    assert Path(package) == installed / "pipec" and Path(runtime) == installed / "pipec" / "runtime"
    assert has_grammar == "True" and places == "1"


def test_installed_wheel_has_the_kernels_of_the_library(installed: Path, tmp_path: Path) -> None:
    code = "import pipec.library; print(pipec.library.folder()); pipec.library.gemm()"
    said = run(sys.executable, "-c", code, cwd=tmp_path, PYTHONPATH=str(installed))
    assert Path(said.strip()) == installed / "pipec" / "examples"


def test_installed_wheel_compiles_an_example(installed: Path, tmp_path: Path) -> None:
    example = shutil.copy(ROOT / "examples" / "gemm.pipe", tmp_path)
    run(
        sys.executable,
        "-m",
        "pipec.commands.cli",
        "compile",
        example,
        "-o",
        tmp_path / "gemm.ptx",
        cwd=tmp_path,
        PYTHONPATH=str(installed),
    )
    assert ".target sm_100a" in (tmp_path / "gemm.ptx").read_text()


WITHOUT_THE_COMPILER = """
import importlib.abc, sys

class Absent(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path, target=None):
        if name.partition(".")[0] in ("lark", "llvmlite", "cuda", "torch"):
            raise ModuleNotFoundError(name, name=name)

sys.meta_path.insert(0, Absent())
import ml_dtypes, numpy as np, pipec.bundle
a, b = (np.ones((128, 64), ml_dtypes.bfloat16) for _ in "ab")
d = np.zeros((128, 128), ml_dtypes.bfloat16)
assert pipec.bundle.load(sys.argv[1])["gemm_sm90"](a, b, d).device == "sim" and (d == 64).all()
print(pipec.__file__)
"""


def test_the_wheel_of_the_runtime_launches_bundles(built: Path, tmp_path: Path) -> None:
    from bundle.c_bundle import example, write

    (wheel,) = built.glob("*.whl")
    made = [
        Path(run(sys.executable, ROOT / "tools" / "runtime_wheel.py", wheel, "-o", tmp_path / folder, cwd=ROOT).strip())
        for folder in ("one", "two")
        if (tmp_path / folder).mkdir() is None
    ]
    assert made[0].read_bytes() == made[1].read_bytes()
    files = zipfile.ZipFile(made[0])
    names = files.namelist()
    compiler = ("pipec/driver.py", "pipec/sema/", "pipec/syntax/", "pipec/lower/", "pipec/ptx/", "pipec/grammar/", "pipec/tune/")
    assert [name for name in names if name.startswith(compiler)] == []
    (metadata,) = (files.read(name).decode() for name in names if name.endswith("METADATA"))
    needs = [line for line in metadata.splitlines() if line.startswith("Requires-Dist")]
    assert "Name: pipec-runtime" in metadata and not any(package in "".join(needs) for package in ("lark", "llvmlite"))
    target, folder = tmp_path / "installed", write(example("gemm_sm90"), tmp_path / "bundle")
    run(sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-index", "--target", target, made[0], cwd=tmp_path)
    said = run(sys.executable, "-c", WITHOUT_THE_COMPILER, folder, cwd=tmp_path, PYTHONPATH=str(target))
    assert Path(said.strip()).parent == target / "pipec"
