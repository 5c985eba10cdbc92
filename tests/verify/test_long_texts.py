"""No part of a text is looked at again for each of its kernels, comments or braces: a regular expression that does so runs past the limit
on processor time, as Python does not interrupt it."""

import time
from contextlib import suppress

import pytest

from pipec.sim.errors import SimulationError
from pipec.sim.ptx.tokens import kernel_metadata, tokenize
from pipec.verify.network import Unreadable
from pipec.verify.reader.read import read
from pipec.verify.reader.text.declarations import entries_in
from pipec.verify.reader.text.lexical import plain
from pipec.verify.reader.text.statements import entries_of, kernel_of

MANY = 60_000
SECONDS = 10  # of processor time: each takes less than one, and took minutes
KERNEL = ".visible .entry k()\n.reqntid 32\n{"
TEXTS = {
    "kernels without a body": "\n.entry a\n" * MANY,
    "kernels whose parameters do not end": "\n.entry a(" * MANY,
    "comments that do not end": "/*\n" * MANY,
    "braces in braces": KERNEL + "{" * MANY + "}" * MANY + "ret; }",
    "a statement of many lines": KERNEL + "add.s32 %a, %b\n" * MANY + "; ret; }",
}


@pytest.mark.parametrize("what", TEXTS)
def test_a_long_text_is_refused_at_once(what: str) -> None:
    begun = time.process_time()
    with pytest.raises(Unreadable):
        entries_of(TEXTS[what])
        kernel_of(TEXTS[what], "k")
    assert time.process_time() - begun < SECONDS


# What stands in a kernel, or in front of it, by what it is made of.
PARTS = {
    "declarations that do not end": "{" + ".reg " * MANY + "}",
    "a store without an address": "st.x " * MANY + ";",
    "a variable without an extent": ".local .b8 a[" + " " * MANY + "!];",
    "a shared variable without an extent": ".shared .b8 a[" + " " * MANY + "!];",
    "a predicate without a name": "@" + " " * MANY + "!;",
    "registers without a name": ".reg .b32 " + "a, " * MANY + "!;",
    "a name without a range": ".reg .b32 a" + " " * MANY + "<" + " " * MANY + ";",
    "an opcode of many parts": "mov" + ".u32" * MANY + " a, b;",
    "an opcode of many parts that is not known": "a" + ".a" * MANY + ";",
    "parentheses that do not close": "(a" * MANY,
    "many scopes": "{ .reg .b32 q; mov.b32 q, 1; }" * 1000,
}


@pytest.mark.parametrize("what", PARTS)
def test_a_long_part_of_a_text(what: str) -> None:
    begun = time.process_time()
    for text in (f"{KERNEL} {PARTS[what]} ret; }}\n", f"{PARTS[what]}\n{KERNEL} ret; }}\n"):
        with suppress(Unreadable):
            read(text, "k")
    assert time.process_time() - begun < SECONDS


def test_the_simulator_finds_a_comment_without_an_end() -> None:
    begun = time.process_time()
    with pytest.raises(SimulationError, match="does not end"):
        tokenize(TEXTS["comments that do not end"])
    assert time.process_time() - begun < SECONDS


@pytest.mark.parametrize(
    ("text", "left"), [("/**/", " "), ("/* // */", " "), ("/***/ a", "  a"), ("a//*\nb", "a\nb"), ("/* \n */b", " \nb")]
)
def test_a_comment_that_ends(text: str, left: str) -> None:
    assert plain(text) == left
    assert [token.text for token in tokenize(text)][:-1] == left.split()


@pytest.mark.parametrize("text", ["/*/", "/* ", "a /*", "/**", "/* // ", "/* */ /*/ a */ /*"])
def test_a_comment_that_does_not_end(text: str) -> None:
    with pytest.raises(Unreadable):
        plain(text)
    with pytest.raises(SimulationError):
        tokenize(text)


@pytest.mark.parametrize(
    ("text", "found"),
    [
        (".entry a() { } .entry b { }", [("a", "", " "), ("b", "", " ")]),
        (".entry a(.param .u32 n)\n.reqntid 32\n{", [("a", ".param .u32 n", "\n.reqntid 32\n")]),
        (".entry a(.param .u32 n);\n.entry a(.param .u32 m) {", [("a", ".param .u32 m", " ")]),
        (".entry a\n(\n)\n.reqntid 32 {", [("a", "\n", "\n.reqntid 32 ")]),
        (".entry a", []),
        (".entry a(", []),
    ],
)
def test_kernels_with_a_body(text: str, found: list[tuple[str, str, str]]) -> None:
    entries = list(entries_in(text))
    assert [(one.name, one.parameters, one.directives) for one in entries] == found
    assert all(text[one.body - 1] == "{" and text.startswith(".entry", one.start) for one in entries)


def test_a_number_of_thousands_of_digits_in_the_description_of_a_kernel() -> None:
    text = f'// pipec.kernel {{"kernel": "k", "x": {"1" * 5000}}}\n{KERNEL} ret; }}\n'
    with pytest.raises(SimulationError, match="metadata"):
        kernel_metadata(text)
