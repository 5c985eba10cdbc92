"""No value of a compile-time parameter is an internal error, however little sense it makes."""

import re
from pathlib import Path

import pytest

from pipec.driver import Options, compile_source
from pipec.source import Source

EXAMPLES = sorted((Path(__file__).parents[2] / "examples").glob("*.pipe"))
_KERNEL = re.compile(r"^kernel (\w+)\[(.*?)\]\(", re.MULTILINE | re.DOTALL)
_PARAMETER = re.compile(r"(\w+)\s*:\s*int\s*=")
CASES = [
    (path, kernel, name)
    for path in EXAMPLES
    for kernel, parameters in _KERNEL.findall(path.read_text(encoding="utf-8"))
    for name in _PARAMETER.findall(parameters)
]


@pytest.mark.sample(0.1)
@pytest.mark.parametrize(("path", "kernel", "name"), CASES, ids=[f"{path.stem}-{kernel}-{name}" for path, kernel, name in CASES])
def test_edges(path: Path, kernel: str, name: str) -> None:
    source = Source(path.name, path.read_text(encoding="utf-8"))
    for value in ("0", "-4", "12", "2147483648"):
        state = compile_source(source, Options(constants={name: value}, kernel=kernel))
        assert not any(one.code == "E0001" for one in state.diagnostics), (value, [one.title for one in state.diagnostics])
