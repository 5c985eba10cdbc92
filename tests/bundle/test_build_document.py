"""The C program of docs/build.md: compiled as it stands there, by hand and by CMake, and run."""

import re
import shutil
import subprocess
from pathlib import Path

import pytest
from bundle.c_bundle import C11, CPP17, EXAMPLES, FakeCuda, compiled, example, headers, needs_compiler, write

pytestmark = needs_compiler

DOCUMENT = (EXAMPLES.parent / "docs" / "build.md").read_text(encoding="utf-8")


def block(language: str) -> str:
    (text,) = re.findall(rf"^```{language}\n(.*?)^```$", DOCUMENT, re.MULTILINE | re.DOTALL)
    return str(text)


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """The program beside the bundle that it includes."""
    write(example("gemm_sm90"), tmp_path / "gemm_sm90")
    (tmp_path / "main.c").write_text(block("c"))
    return tmp_path


def run(program: Path) -> str:
    done = subprocess.run([program], capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.parametrize("command", [C11, CPP17], ids=["C11", "C++17"])
def test_the_program_runs(project: Path, cuda: FakeCuda, command: tuple[str, ...]) -> None:
    files = (project / "main.c", project / "gemm_sm90" / "gemm_sm90.c")
    program = project / "main"
    # Of the linker's files, none is a source in the language that -x names.
    library = ("-x", "none", cuda.path, f"-Wl,-rpath,{cuda.path.parent}")
    compiled(command, f"-I{project / 'gemm_sm90'}", *files, *library, "-o", program)
    assert run(program) == "d[0] = 0x0000\n"  # what ran is nothing: the stand-in launches no kernel


def test_cmake_builds_it(project: Path, cuda: FakeCuda) -> None:
    cmake = shutil.which("cmake")
    if cmake is None:
        pytest.skip("no cmake")
    # The stand-in in place of what find_package(CUDAToolkit) finds.
    (project / "CMakeLists.txt").write_text(f"""cmake_minimum_required(VERSION 3.20)
project(main C)
add_library(CUDA::cuda_driver SHARED IMPORTED)
set_target_properties(CUDA::cuda_driver PROPERTIES IMPORTED_LOCATION "{cuda.path}" INTERFACE_INCLUDE_DIRECTORIES "{headers()}")
add_executable(main main.c)
{block("cmake")}""")
    for command in ([cmake, "-S", str(project), "-B", str(project / "out")], [cmake, "--build", str(project / "out")]):
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)
        assert done.returncode == 0, done.stdout + done.stderr
    assert run(project / "out" / "main") == "d[0] = 0x0000\n"


def test_the_program_says_what_is_wrong(project: Path, cuda: FakeCuda) -> None:
    text = block("c").replace("on_device[1], N, K", "on_device[1], N, K + 8")
    (project / "main.c").write_text(text)
    program = project / "main"
    files = (project / "main.c", project / "gemm_sm90" / "gemm_sm90.c")
    compiled(C11, f"-I{project / 'gemm_sm90'}", *files, cuda.path, f"-Wl,-rpath,{cuda.path.parent}", "-o", program)
    done = subprocess.run([program], capture_output=True, text=True, check=False, timeout=60)
    said = "kernel `gemm_sm90`, parameter `b`: dimension `K` is 200 here (axis 1) but 192 in `a` (axis 1)\n"
    assert (done.returncode, done.stderr) == (1, said)
