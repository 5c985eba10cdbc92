"""A compile-time parameter whose declaration is wrong is reported there, and nothing trips over its having no value."""

import re

import pytest
from examples.catalogue import EXAMPLES

from pipec.driver import compile_source
from pipec.source import Source

FILES = ("gemm_sm90_persistent.pipe", "gemm_tiles.pipe", "gemm_residual.pipe", "attention.pipe")
PARAMETERS = [
    (file, found.start(2), found.end(2), found[1])
    for file in FILES
    for found in re.finditer(r"\b([A-Z]+): (int|str|bool|float) = ", (EXAMPLES / file).read_text(encoding="utf-8"))
]


@pytest.mark.parametrize(("file", "start", "end", "name"), PARAMETERS, ids=lambda part: str(part))
@pytest.mark.parametrize("kind", ["itn", "dtype", "tensor"])
def test_a_wrong_type_is_the_only_report(file: str, start: int, end: int, name: str, kind: str) -> None:
    text = (EXAMPLES / file).read_text(encoding="utf-8")
    state = compile_source(Source(file, text[:start] + kind + text[end:]))
    codes = [one.code for one in state.diagnostics]
    assert codes and "E0001" not in codes
