"""The Python interface: compiling from paths and strings, errors that point into the .py file, and calls with NumPy arrays."""

import importlib.util
import sys
import textwrap
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
from faces.kernels import SCALE, WRONG

import pipec
from pipec.runtime import ArgumentError

Error = pipec.CompileError


def codes(error: Error) -> list[str]:
    return [diagnostic.code for diagnostic in error.diagnostics]


# -------------------------------------------------------------------------------------------------------------- compiling


def test_from_a_path_and_from_a_string(tmp_path: Path) -> None:
    path = tmp_path / "scale.pipe"
    path.write_text(SCALE)
    for source in (path, str(path), SCALE):
        program = pipec.compile(source)
        assert ".entry scale" in program.ptx and "nvptx64" in program.llvm


def test_a_program_is_a_mapping() -> None:
    program = pipec.compile(SCALE + "\n" + SCALE.replace("kernel scale", "kernel other"))
    assert list(program) == ["scale", "other"] and len(program) == 2 and "other" in program
    assert program["other"].name == "other" and program.get("third") is None
    with pytest.raises(KeyError, match="no kernel is called 'third'"):
        program["third"]
    assert program.report["scale"].threads == 160
    assert program.report["scale"].proofs


def test_options() -> None:
    program = pipec.compile(SCALE, arch="sm_90a", constants={"BM": 32, "BN": "32"})
    assert ".target sm_90a" in program.ptx
    assert program.report["scale"].barriers[0].pipeline == "ring"
    two = SCALE + "\n" + SCALE.replace("kernel scale", "kernel other")
    assert list(pipec.compile(two, kernel="other")) == ["other"]
    with pytest.raises(Error, match="sm_1"):
        pipec.compile(SCALE, arch="sm_1")
    with pytest.raises(Error, match="QQ"):
        pipec.compile(SCALE, constants={"QQ": 1})
    for value in (None, object(), [1], 1.5, True):
        with pytest.raises(Error, match="must be a whole number"):
            pipec.compile(SCALE, constants={"BM": value})


def test_cubin() -> None:
    program = pipec.compile(SCALE)
    assert program.cubin()[:4] == b"\x7fELF"
    assert program.cubin() is program.cubin()


def test_the_error_reads_like_the_command_line() -> None:
    with pytest.raises(Error) as raised:
        pipec.compile(WRONG)
    assert len(raised.value.diagnostics) == 2
    text = str(raised.value)
    assert text.startswith("\nerror[E02") and text.count("-->") == 2 and "^^^^" in text


def test_check() -> None:
    assert pipec.check(SCALE) == []
    assert [diagnostic.code for diagnostic in pipec.check(WRONG)] == ["E0201", "E0201"]
    assert [diagnostic.code for diagnostic in pipec.check("none.pipe")] == ["E0111"]


def test_missing_files() -> None:
    for source in ("none.pipe", Path("none.pipe"), Path("x\0y")):
        with pytest.raises(Error, match="cannot read"):
            pipec.compile(source)


@pytest.mark.parametrize("text", ["", "\n", "kernel", "x = 1\n", "\0", "\udcff", "kernel k():\n\tgrid(1)\n  x\n"])
def test_texts_that_are_no_source(text: str) -> None:
    with pytest.raises(Error):
        pipec.compile(text)
    with pytest.raises(Error):
        pipec.kernel(text)


def test_kernel_takes_one_kernel() -> None:
    assert pipec.kernel(SCALE, BM=32).interface.name == "scale"
    with pytest.raises(Error, match=r"pipec.compile"):
        pipec.kernel(SCALE + "\n" + SCALE.replace("kernel scale", "kernel other"))


@pytest.mark.parametrize("path", ["kernels.txt", "kernels/scale", "scale.py"])
def test_a_path_is_not_taken_for_text(path: str) -> None:
    with pytest.raises(Error, match="a path that ends with `.pipe`") as caught:
        pipec.compile(path)
    assert [one.code for one in caught.value.diagnostics] == ["E1021"]


# ------------------------------------------------------------------------------------------------------ places in .py files


def loaded(path: Path, text: str) -> ModuleType:
    path.write_text(text, encoding="utf-8")
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def place_of(mark: str, text: str) -> tuple[int, int]:
    """Line and column of a word in a file, from 1."""
    before = text[: text.index(mark)]
    return before.count("\n") + 1, len(before) - (before.rfind("\n") + 1) + 1


def shown(error: Error) -> tuple[str, int, int]:
    (diagnostic,) = error.diagnostics
    assert diagnostic.span is not None
    return diagnostic.span.source.name, diagnostic.span.shown_line, diagnostic.span.shown_column


BROKEN = textwrap.indent(SCALE.replace("alpha)\n", "betta)\n"), "        ")
BODY = BROKEN.split("\n", 1)[1]

FORMS = {
    "text on its own lines": f"""import pipec

def make():
    return pipec.kernel('''
{BROKEN}    ''')
""",
    "text from the opening quotes on": f"""import pipec

def make():
    return pipec.kernel('''kernel scale[BM: int = 16, BN: int = 64](x: tensor[f32, M, N], y: tensor[f32, M, N], alpha: f32):
{BODY}    ''')
""",
    "a raw string with a prefix": f"""import pipec

def make():
    return pipec.kernel(r'''
{BROKEN}    ''')
""",
    "a name for the text, behind other letters": f"""import pipec
ü = "é"; TEXT = '''
{BROKEN}'''

def make():
    return pipec.kernel(TEXT)
""",
    "compile": f"""import pipec

def make():
    return pipec.compile('''
{BROKEN}    ''')
""",
}


@pytest.mark.parametrize("form", FORMS)
def test_errors_have_the_place_in_the_python_file(form: str, tmp_path: Path) -> None:
    text = FORMS[form]
    path = tmp_path / "module.py"
    module = loaded(path, text)
    with pytest.raises(Error) as raised:
        module.make()
    line, column = place_of("betta", text)
    assert shown(raised.value) == (str(path), line, column)
    assert f"--> {path}:{line}:{column}\n" in str(raised.value)


@pytest.mark.parametrize("indent", ["", "  "])
def test_an_error_in_the_line_of_the_opening_quotes(indent: str, tmp_path: Path) -> None:
    text = f'import pipec\n\ndef make():\n    return pipec.kernel("""{indent}kernel k(x: nonsense):\n{indent}    grid(1)\n""")\n'
    path = tmp_path / "module.py"
    module = loaded(path, text)
    with pytest.raises(Error) as raised:
        module.make()
    line, column = place_of("nonsense", text)
    assert f"--> {path}:{line}:{column}\n" in str(raised.value)


def test_the_nearest_of_equal_texts(tmp_path: Path) -> None:
    call = f"def make():\n    return pipec.kernel('''\n{BROKEN}    ''')\n"
    text = f"import pipec\n{call}{call}"
    path = tmp_path / "module.py"
    module = loaded(path, text)
    with pytest.raises(Error) as raised:
        module.make()  # the second definition
    assert shown(raised.value)[1] > text.count("\n") // 2


def test_text_that_is_written_nowhere(tmp_path: Path) -> None:
    module = loaded(tmp_path / "module.py", "import pipec\n\ndef make(text):\n    return pipec.kernel(text)\n")
    with pytest.raises(Error) as raised:
        module.make(SCALE.replace("s.x * alpha", "s.x * betta"))
    assert shown(raised.value)[:2] == ("<string>", 16)
    with pytest.raises(Error) as raised:
        eval("pipec.kernel('kernel')", {"pipec": pipec})
    assert shown(raised.value)[0] == "<string>"


# ------------------------------------------------------------------------------------------------------------------ calls


@pytest.fixture(scope="module")
def scale() -> pipec.CompiledKernel:
    return pipec.kernel(SCALE)


def arrays(m: int = 16, n: int = 64) -> tuple[np.ndarray, np.ndarray]:
    return np.arange(m * n, dtype=np.float32).reshape(m, n), np.zeros((m, n), np.float32)


def test_calls_with_numpy_arrays(scale: pipec.CompiledKernel) -> None:
    x, y = arrays()
    result = scale(x, y, 2.0, device="sim")
    assert (result.device, result.launched) == ("sim", True)
    assert np.array_equal(y, 2 * x)
    x, y = arrays(5, 12)
    scale(x, alpha=3, y=y, device="sim")
    assert np.array_equal(y, 3 * x)


def test_empty_arrays(scale: pipec.CompiledKernel) -> None:
    x, y = arrays(0, 64)
    assert not scale(x, y, 2.0, device="sim").launched


def refused(scale: pipec.CompiledKernel, *arguments: object, **by_name: object) -> ArgumentError:
    with pytest.raises(ArgumentError) as raised:
        scale(*arguments, device="sim", **by_name)
    assert raised.value.kernel == "scale"
    return raised.value


def read_only() -> np.ndarray:
    y = arrays()[1]
    y.flags.writeable = False
    return y


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("x", np.zeros((16, 64), np.float64)),
        ("x", np.zeros(64, np.float32)),
        ("x", np.zeros((16, 64, 1), np.float32)),
        ("x", np.zeros((64, 16), np.float32).T),
        ("x", np.zeros((16, 65), np.float32)[:, 1:]),
        ("x", np.frombuffer(bytes(16 * 64 * 4 + 1), np.uint8)[1:].view(np.float32).reshape(16, 64)),
        ("x", [[1.0]]),
        ("x", None),
        ("x", 1.5),
        ("y", np.zeros((16, 60), np.float32)),
        ("y", read_only()),
        ("alpha", "two"),
        ("alpha", np.zeros(2, np.float32)),
        ("alpha", None),
        ("alpha", 1e300),
    ],
    ids=lambda value: value if isinstance(value, str) else type(value).__name__,
)
def test_what_does_not_fit_is_refused_before_anything_runs(scale: pipec.CompiledKernel, name: str, value: object) -> None:
    x, y = arrays()
    given = {"x": x, "y": y, "alpha": 2.0} | {name: value}
    assert refused(scale, **given).parameter == name
    assert not y.any()


def test_wrong_counts_and_names(scale: pipec.CompiledKernel) -> None:
    x, y = arrays()
    assert refused(scale, x, y).parameter == "alpha"
    assert "4" in str(refused(scale, x, y, 2.0, 3.0))
    assert refused(scale, x, y, alpha=2.0, beta=1).parameter == "beta"
    assert refused(scale, x, y, 2.0, x=x).parameter == "x"
    assert "takes 3 arguments, got 5" in str(refused(scale, x, y, 2.0, 3.0, beta=1))


def test_overlapping_arrays(scale: pipec.CompiledKernel) -> None:
    x, _ = arrays()
    assert refused(scale, x, x, 2.0).parameter in ("x", "y")


def test_a_parameter_may_be_called_self() -> None:
    kernel = pipec.kernel(SCALE.replace("x: tensor", "self: tensor").replace(", x[", ", self["))
    x, y = arrays()
    kernel(self=x, y=y, alpha=2, device="sim")
    assert np.array_equal(y, 2 * x)


def test_importing_is_cheap() -> None:
    import subprocess

    code = "import sys, pipec; print([name for name in ('numpy', 'lark', 'llvmlite') if name in sys.modules])"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "[]\n"
