"""The code in the long texts of diagnostics is code of the language, with operations that exist."""

import re
from collections.abc import Iterator
from inspect import cleandoc
from textwrap import indent

import pytest

from pipec.diag.explain import load_catalogue
from pipec.diag.message import Sink
from pipec.isa.specials import MEMBERS as SPECIALS
from pipec.sema.language.operations import MEMBERS, OPERATIONS
from pipec.source import Source
from pipec.syntax.parse import parse

KERNEL = "kernel k(x: tensor[f32, M, K]):\n    grid(1)\n"
ROLE = f"{KERNEL}    role work(warps=1):\n"


def pieces() -> Iterator[tuple[str, str]]:
    """The indented blocks of each text, by code."""
    for code, message in sorted(load_catalogue().items()):
        for block in re.findall(r"(?:^    .*\n(?:\n(?=    ))?)+", f"{cleandoc(message.__doc__ or '')}\n", re.MULTILINE):
            yield code, re.sub(r"^    ", "", block, flags=re.MULTILINE)


PIECES = list(pieces())


def parses(text: str) -> bool:
    sink = Sink()
    parse(Source("explanation", text), sink)
    return not sink.failed


@pytest.mark.parametrize(("code", "block"), PIECES, ids=[f"{code}-{number}" for number, (code, _) in enumerate(PIECES)])
def test_code_in_explanations(code: str, block: str) -> None:
    """As a file, in a kernel or in a role; a header alone gets a body."""
    whole = f"{block}    pass\n" if block.rstrip().endswith(":") else block
    assert parses(whole) or parses(KERNEL + indent(whole, " " * 4)) or parses(ROLE + indent(whole, " " * 8)), block
    known = {row.name.split(".")[-1] for row in OPERATIONS} | {name for names in MEMBERS.values() for name in names}
    called = set(re.findall(r"\b[a-z_]\w*\.([a-z_]+)\(", re.sub(r"#.*", "", block)))
    assert called <= known | {name for names in SPECIALS.values() for name in names}, f"{code}: {called - known}"


def test_code_is_indented() -> None:
    """What is not is printed as prose, and not read by the test above."""
    texts = {code: cleandoc(message.__doc__ or "") for code, message in load_catalogue().items()}
    assert [code for code, text in texts.items() if re.search(r"^\S.*  # (wrong|right)", text, re.MULTILINE)] == []


def test_there_are_explanations_with_code() -> None:
    assert len(PIECES) >= 30
