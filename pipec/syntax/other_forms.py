"""Constructs of Python, C++ and CUDA that pipec does not have, with their replacements: recognised where the parser stopped.

One row per construct. A pattern is matched against the line without strings and comments; named groups fill the texts and the edit.
"""

import re
from collections.abc import Iterator
from typing import Literal

from pipec.record import record
from pipec.syntax.lines import Bracket, masked

_NAME = r"[A-Za-z_]\w*"
_OPERAND = rf"{_NAME}(?:\.{_NAME})*|\d[\w.]*"


@record
class Form:
    """`where`: "statement" (the pattern begins the statement) or "near" (it touches the position of the error); `inside`: the innermost
    open bracket, if that matters. `edit` replaces the match, or its group `at` if there is one. `body`: the construct includes its
    block.
    """

    what: str
    pattern: str
    why: str
    instead: str
    edit: str | None = None
    where: Literal["statement", "near"] = "near"
    inside: str | None = None
    body: bool = False


def _statement(what: str, pattern: str, why: str, instead: str, edit: str | None = None, *, body: bool = False) -> Form:
    return Form(what, pattern, why, instead, edit, "statement", None, body)


def _near(what: str, pattern: str, why: str, instead: str, edit: str | None = None, *, inside: str | None = None) -> Form:
    return Form(what, pattern, why, instead, edit, "near", inside)


_NO_EXCEPTIONS = "a GPU thread cannot raise an exception: what can be known before the launch is refused before it"
_STATIC = 'write `static_assert(condition, "text")` for what must hold of compile-time values'
_EXPANDED = "a helper is not a function on the GPU, nor a value: it is expanded where it is called"
_NO_LISTS = "a kernel has no heap: its values are scalars, and tiles that are spread over the threads of a role"
_NO_POWERS = "a GPU has no instruction for powers"
_SHARED = "many threads share it: an operation says which of them write it, and when others may read it"
_STATEMENT_ONLY = "an assignment is a statement, and no part of an expression"
_PYTHONS_WORDS = "the words are those of Python"
_ONE_VALUE = "an expression has one value, and a statement assigns it to one name"
_FIRST_ELEMENT = "a place in a tensor is the first element of a tile; how far it reaches follows from the tile"
_TYPES = r"const|constexpr|static|unsigned|signed|auto|let|var|int|float|double|half|bool|long|char|u?int\d+_t"

FORMS = (
    _statement("`def`", r"^(?P<at>(?:async\s+)?def)\b(?!\s+(?:kernel|role|fn)\b)", _EXPANDED, "write `fn`", "fn"),
    _statement("`def`", r"(?P<at>(?:async\s+)?def)\b", _EXPANDED, "write `fn` at the start of a line, outside kernels"),
    _statement(
        "`fn` inside a kernel", r"(?<=\s)(?P<at>fn)\b(?=\s+\w)", _EXPANDED, "write it at the start of a line, outside kernels"
    ),
    _statement(
        "`{name}:` outside the docstring",
        r"(?P<at>(?P<name>arch|numpy|shapes|given)\s*:)(?=\s*\S)",
        "such a line says how a kernel is compiled and run, and is no part of what it does",
        "put the line between three quotes, at the start of the kernel's body",
    ),
    _statement("decorators", r"@\s*[\w.]+.*", "`kernel` and `fn` already say what is compiled", "remove the line", ""),
    _statement(
        "`class`",
        r"class\s+\w+",
        "a file holds kernels, helpers and compile-time constants; what belongs to a stage is its payload",
        "write `fn` for a helper, and `TilePayload(name=tile[...])` for tiles that travel together",
        body=True,
    ),
    _statement(
        "`import`",
        r"(?:import\s+\w|from\s+[\w.]+\s+import\b).*",
        "a source file is complete in itself: what was checked is what runs",
        "remove the line; write helpers into the file as `fn`, numbers as `comptime NAME = value`",
        "",
    ),
    _statement(
        "`assert`",
        r"assert\b\s*(?P<condition>[^,\"']+?)\s*$",
        _NO_EXCEPTIONS,
        'write `static_assert({condition}, "...")`, of compile-time values',
        'static_assert({condition}, "{condition}")',
    ),
    _statement(
        "`assert`",
        r"assert\b\s*(?P<condition>[^\"']+?)\s*,\s*(?P<text>\".*\")\s*$",
        _NO_EXCEPTIONS,
        "write `static_assert({condition}, {text})`, of compile-time values",
        "static_assert({condition}, {text})",
    ),
    _statement("`assert`", r"assert\b", _NO_EXCEPTIONS, _STATIC),
    _statement("`{word}`", r"(?P<word>try|except|finally|raise)\b", _NO_EXCEPTIONS, _STATIC),
    _statement(
        "file docstrings",
        r"^[\"'].*",
        "a docstring belongs to a kernel: `pipec run` reads its `numpy:`, `shapes:`, `given:` and `arch:` lines there",
        "begin each line with `#`, or move the text to the start of the kernel's body",
    ),
    _statement(
        "`del`",
        r"del\s+\w.*",
        "a variable ends with its block, and its registers are free after its last use",
        "remove the line",
        "",
    ),
    _statement(
        "`{word}`",
        r"(?P<word>global|nonlocal)\s+\w.*",
        "roles share no variables: one role hands another tiles through a pipeline",
        "remove the line",
        "",
    ),
    _statement(
        "`{word}`",
        r"(?P<word>yield|await)\b",
        "roles run side by side by themselves, and one waits for another where it acquires a stage",
        "hand the tile over by a pipeline: `with pipeline.produce() as s:`",
    ),
    _statement(
        "`{word}`",
        r"(?P<word>match|switch)\b[^=]*[:{]\s*$",
        "a choice is a chain of conditions, of which compile-time ones cost nothing",
        "write `if`, `elif` and `else`",
        body=True,
    ),
    _statement("`else if`", r"(?P<at>else\s+if)\b", _PYTHONS_WORDS, "write `elif`", "elif"),
    _statement("`//` comments", r"(?P<at>//)", "`//` is the division of integers", "begin the comment with `#`", "#"),
    _statement("`/*` comments", r"/\*", "a comment ends with its line", "begin each line of the comment with `#`"),
    _statement(
        "declarations with the type in front",
        rf"(?P<at>(?:(?:{_TYPES})\s+)+)(?={_NAME}\s*=)",
        "a variable has the type of the first value that it gets",
        "leave the type out; a conversion is written `cast[f32](value)`",
        "",
    ),
    _statement(
        "declarations without a value",
        rf"(?P<at>(?P<name>{_NAME})\s*:\s*(?P<type>[a-z]\w*))\s*$",
        "before its first value a register holds whatever was left in it",
        "write `{name} = cast[{type}](0)`",
        "{name} = cast[{type}](0)",
    ),
    _statement(
        "assignments to several names",
        rf"{_NAME}\s*(?:,\s*{_NAME}\s*)+=(?!=)",
        _ONE_VALUE,
        "write one assignment for each name",
    ),
    _statement(
        "assignments with several targets", rf"{_NAME}\s*=\s*{_NAME}\s*=(?!=)", _ONE_VALUE, "write one assignment for each name"
    ),
    _statement(
        "`+=` on memory",
        r"(?P<at>(?P<place>[A-Za-z_][\w.]*\[[^=]*\])\s*\+=\s*(?P<value>.+?))\s*$",
        _SHARED,
        'write `store({place}, {value}, reduce="add")` to add a tile to a tensor',
        'store({place}, {value}, reduce="add")',
    ),
    _statement(
        "assignments to memory",
        r"(?P<at>(?P<place>[A-Za-z_][\w.]*\[[^=]*\])\s*(?:[-+*/%&|^<>]+)?=(?!=)\s*(?P<value>.+?))\s*$",
        _SHARED,
        "write `store({place}, {value})` for a tile of a tensor, `store.direct({place}, {value})` for one number",
        "store({place}, {value})",
    ),
    _statement(
        "assignments to a tile of a stage",
        r"(?P<at>(?P<place>[A-Za-z_]\w*(?:\.\w+)+)\s*(?P<sign>[-+*/%&|^]+)=(?!=)\s*(?P<value>.+?))\s*$",
        _SHARED,
        "write `write({place}, {place} {sign} {value})`",
        "write({place}, {place} {sign} {value})",
    ),
    _statement(
        "assignments to a tile of a stage",
        r"(?P<at>(?P<place>[A-Za-z_]\w*(?:\.\w+)+)\s*=(?!=)\s*(?P<value>.+?))\s*$",
        _SHARED,
        "write `write({place}, {value})`",
        "write({place}, {value})",
    ),
    _statement(
        "`{sign}{sign}`",
        rf"(?P<at>(?P<name>{_NAME})(?P<sign>\+|-)(?P=sign))\s*;?\s*$",
        _STATEMENT_ONLY,
        "write `{name} {sign}= 1`",
        "{name} {sign}= 1",
    ),
    _near("`++` and `--`", r"\+\+|--", _STATEMENT_ONLY, "write `x += 1` as a line of its own"),
    _near(
        '`{letter}"..."` strings',
        r"(?P<letter>\b[fFrRbBuU]{1,2})(?=\"\s*\")",
        "texts are compile-time values: modes, docstrings, and what `static_assert` says, which lists the compile-time values by itself",
        "write the text without the letter",
        "",
    ),
    _near("`*` in front of arguments", r"(?<=[(,])\s*\*\*?", "a call is expanded with its arguments", "write each argument out"),
    _near("`**`", rf"(?P<at>(?P<base>{_OPERAND})\s*\*\*\s*2)(?![\w.])", _NO_POWERS, "write `{base} * {base}`", "{base} * {base}"),
    _near(
        "`**`",
        rf"(?<![\w.])(?P<at>2\s*\*\*\s*(?P<power>{_NAME}|\d+))(?![\w.(])",
        _NO_POWERS,
        "write `(1 << {power})` for whole numbers, `exp2(x)` for floats",
        "(1 << {power})",
    ),
    _near("`**`", r"\*\*", _NO_POWERS, "write `x * x`, or `exp2(y * log2(x))` for a positive `x`"),
    _near(
        "`@`",
        r"@",
        "a product of matrices is an operation that adds to an accumulator, not a value",
        "write `mma(acc, s.a, s.b)`, with an accumulator such as `acc = output.acquire_mma_linear()`",
    ),
    _near("`:=`", r":=", _STATEMENT_ONLY, "assign the name in a line of its own, above"),
    _near("`&&`", r"&&", _PYTHONS_WORDS, "write `and`", "and"),
    _near("`||`", r"\|\|", _PYTHONS_WORDS, "write `or`", "or"),
    _near("`!`", r"!(?!=)", _PYTHONS_WORDS, "write `not`", "not "),
    _near("`===`", r"===", "values are compared by `==`", "write `==`", "=="),
    _near("`<>`", r"<>", "values are compared by `!=`", "write `!=`", "!="),
    _near("`is not`", r"\bis\s+not\b", "values have no identity, so they are compared", "write `!=`", "!="),
    _near("`is`", r"\bis\b", "values have no identity, so they are compared", "write `==`", "=="),
    _near("`for` in expressions", r"(?<=[\w)\]])\s+for\b.*", _NO_LISTS, "write the loop as a statement: `for i in range(n):`"),
    _near(
        "operator `in`",
        r"(?<=[\w)\]])(?<!\bfor)\s+(?P<at>(?:not\s+)?in)\b",
        "there are no collections to search",
        "write the comparisons: `x == a or x == b`",
    ),
    _near(
        "`? :`",
        r"(?<=[=(,])(?P<space>\s*)(?P<c>[^=(,?]+?)\s*\?\s*(?P<a>[^:?]+?)\s*:\s*(?P<b>[^:?,)]+)",
        "the choice between two values is written as in Python",
        "write `{a} if {c} else {b}`",
        " {a} if {c} else {b}",
    ),
    _near("`? :`", r"\?", "the choice between two values is written as in Python", "write `a if condition else b`"),
    _near("`;`", r";\s*$", "a statement ends with its line", "remove it", ""),
    _near("`;`", r";", "a statement ends with its line", "write the second statement on its own line"),
    _near(
        "`lambda`",
        r"\blambda\b.*",
        _EXPANDED,
        "write `fn name(x):` with a `return` at the start of a line, outside kernels",
    ),
    _near("slices", r"(?<=[\w)])(?P<at>\s*:\s*[^,\]]*)", _FIRST_ELEMENT, "write the first coordinate alone", "", inside="["),
    _near("slices", r":", _FIRST_ELEMENT, "write the first coordinate: `0` for a dimension that the tile covers", inside="["),
    _near(
        "`...`",
        r"\.\.\.",
        "each dimension of a tensor has its coordinate, and an empty block holds `pass`",
        "write the coordinates, or `pass`",
    ),
    _near(
        "lists",
        r"(?<![\w\])])\s*\[",
        _NO_LISTS,
        "give each value a name, or keep them in a tile: `registers(fill(0.0, f32, rows, columns))`",
    ),
    _near("blocks in braces", r"\{\s*$", "a block is what is indented", "end the header with `:` and indent the block"),
    _near("`{brace}`", r"(?P<brace>[{}])", _NO_LISTS, "give each value a name"),
    _near("tuples", r",", _ONE_VALUE, "give each value a name", inside="tuple"),
    _near(
        "`return` of several values",
        r"^\s*(?P<at>return\b.*?,.*)",
        "a helper stands for one value where it is called",
        "write an `fn` for each of them",
        inside="return",
    ),
    _near(
        "leading zeros",
        r"(?<![\w.])0[0_]*(?P<digits>[1-9]\d*)(?![\w.])",
        "C reads `017` as 15, and a reader may, too",
        "write `{digits}`, or `0x...` for hexadecimal",
        "{digits}",
    ),
    _near(
        "octal numbers",
        r"\b0[oO](?P<digits>[0-7]+)\b",
        "numbers are written in decimal, `0x` and `0b`",
        "write `{decimal}`",
        "{decimal}",
    ),
    _near(
        "suffix `{suffix}` on numbers",
        r"(?<=[\d.])(?P<suffix>[fFuUlLhH]{1,3})\b",
        "a number takes the type of the operand beside it",
        "write the number without it",
        "",
    ),
)

# The patterns look ahead, some to the end of the line from each position: time is quadratic in the length.
_LONGEST_LINE = 400

_COMPILED = tuple((form, re.compile(form.pattern)) for form in FORMS)


@record
class Found:
    """A construct in the text: columns from 1, the end exclusive."""

    form: Form
    column: int
    end_column: int
    what: str
    instead: str
    edit: str | None


def other_form(line: str, column: int, bracket: Bracket | None) -> Found | None:
    """The construct that the parser met in a line at `column` (from 1); `bracket` is the innermost open one there."""
    if len(line) > _LONGEST_LINE:
        return None
    code = masked(line)
    for form, pattern in _COMPILED:
        for match in _matches(form, pattern, code, column):
            if _inside(form, code, column, bracket):
                return _found(form, match, line)
    return None


def _matches(form: Form, pattern: re.Pattern[str], code: str, column: int) -> Iterator[re.Match[str]]:
    if form.where == "statement":
        match = pattern.match(code, len(code) - len(code.lstrip()))
        if match is not None:
            yield match
        return
    for match in pattern.finditer(code):
        if match.start() <= column - 1 <= match.end():
            yield match


def _inside(form: Form, code: str, column: int, bracket: Bracket | None) -> bool:
    if form.inside is None:
        return True
    if form.inside == "return":
        return bracket is None and code[column - 1 : column] == ","
    if bracket is None:
        return False
    if form.inside == "[":
        return bracket.character == "[" and code[column - 1 : column] == ":"
    before = code[: bracket.column - 1].rstrip()
    return bracket.character == "(" and code[column - 1 : column] == "," and not re.search(r"[\w\])]$", before)


def _found(form: Form, match: re.Match[str], line: str) -> Found:
    groups = {name: line[slice(*match.span(name))].strip() for name, text in match.groupdict().items() if text is not None}
    if "digits" in groups:
        groups["decimal"] = str(int(groups["digits"], 8)) if set(groups["digits"]) <= set("01234567") else ""
    start, end = match.span("at" if "at" in match.re.groupindex else 0)
    edit = None if form.edit is None else form.edit.format(**groups)
    return Found(form, start + 1, end + 1, form.what.format(**groups), form.instead.format(**groups), edit)
