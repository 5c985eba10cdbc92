"""Compiling, checking and simulating need no GPU package and no module that other systems lack."""

import ast
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]

# What Windows or macOS does not have, and the packages of the extras.
ABSENT = ("cuda", "cutlass", "torch", "triton", "fcntl", "grp", "nis", "posix", "pwd", "resource", "spwd", "syslog", "termios")

# The first is the command itself; the others are about torch and Triton.
NOT_ALONE = {
    "pipec.__main__",
    "pipec.host.addressed",
    "pipec.host.torch_cuda",
    "pipec.torch",
    "pipec.triton.beside",
    "pipec.triton.driver",
    "pipec.triton.launcher",
    "pipec.triton.pytest_plugin",
    "pipec.tune.gpu",
    "pipec.tune.torch_clock",
}


def _modules(folder: str, package: str) -> list[str]:
    paths = (path.relative_to(ROOT / folder).with_suffix("") for path in (ROOT / folder).rglob("*.py"))
    return [".".join((package, *path.parts)).removesuffix(".__init__") for path in paths]


MODULES = sorted({*_modules("pipec", "pipec"), *_modules("runtime", "pipec.runtime")} - NOT_ALONE)

PROGRAM = f"""
import importlib, importlib.abc, sys
import numpy, llvmlite.binding, subprocess, multiprocessing, tempfile  # what others import of the system is theirs to guard

class Absent(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path, target=None):
        if name.partition(".")[0] in {ABSENT!r}:
            raise ModuleNotFoundError(name, name=name)

for name in {ABSENT!r}:
    sys.modules.pop(name, None)
sys.meta_path.insert(0, Absent())
import pipec
for module in {MODULES!r}:
    importlib.import_module(module)
x, y = numpy.ones((128, 64), numpy.float32), numpy.zeros((128, 64), numpy.float32)
scale = pipec.compile('''
kernel scale(x: tensor[f32, M, 64], y: tensor[f32, M, 64]):
    grid(ceildiv(M, 128))
    ring = InputTilePipeline(TilePayload(t=tile[f32, 128, 64]), stages=1)
    role load(warps=1) produces ring:
        with ring.produce() as s:
            tma.load(s.t, x[block.x * 128, 0])
    role double(warps=4) consumes ring:
        with ring.consume() as s:
            store(y[block.x * 128, 0], s.t * 2)
''')["scale"]
scale(x, y, device="sim")
assert (y == 2).all()
"""


def test_everything_imports_and_a_kernel_runs_without_them() -> None:
    done = subprocess.run([sys.executable, "-c", PROGRAM], cwd=ROOT, capture_output=True, text=True, check=False, timeout=600)
    assert done.returncode == 0, done.stdout + done.stderr


_COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)


def _hidden(tree: ast.Module) -> list[str]:
    """Names of comprehensions' variables that are names of the module, too."""
    own = {name.asname or name.name for node in tree.body if isinstance(node, ast.Import | ast.ImportFrom) for name in node.names}
    own |= {node.name for node in tree.body if isinstance(node, ast.FunctionDef | ast.ClassDef)}
    targets = [one.target for node in ast.walk(tree) if isinstance(node, _COMPREHENSIONS) for one in node.generators]
    return [
        f"{name.id}, line {name.lineno}"
        for one in targets
        for name in ast.walk(one)
        if isinstance(name, ast.Name) and name.id in own
    ]


def test_no_comprehension_hides_a_name_of_its_module() -> None:
    """Python 3.12 takes the one for the other where two comprehensions of a function are inlined (an UnboundLocalError)."""
    files = [path for folder in ("pipec", "runtime") for path in (ROOT / folder).rglob("*.py")]
    assert {str(path): found for path in files if (found := _hidden(ast.parse(path.read_text(encoding="utf-8"))))} == {}
    assert _hidden(ast.parse("from m import one\ndef f(x):\n    return [one for one in x]")) == ["one, line 3"]


def _read_annotations(tree: ast.AST) -> list[int]:
    """Lines that look annotations up by their name, in a namespace that need not have them."""
    return [node.lineno for node in ast.walk(tree) if isinstance(node, ast.Constant) and node.value == "__annotations__"]


def test_annotations_are_not_looked_up_in_a_namespace() -> None:
    """From Python 3.14 on a class makes them when it is asked, and its namespace has none before (PEP 649)."""
    record = ROOT / "pipec" / "record.py"
    files = [path for folder in ("pipec", "runtime") for path in (ROOT / folder).rglob("*.py") if path != record]
    assert {str(path): found for path in files if (found := _read_annotations(ast.parse(path.read_text(encoding="utf-8"))))} == {}
    # There alone, for the versions before.
    (branch,) = (node for node in ast.parse(record.read_text(encoding="utf-8")).body if isinstance(node, ast.If))
    assert "3, 14" in ast.unparse(branch.test) and not any(map(_read_annotations, branch.body))
    assert len(_read_annotations(ast.Module(branch.orelse, []))) == len(_read_annotations(ast.parse(record.read_text()))) == 1
