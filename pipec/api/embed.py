"""DSL text in Python: `pipec.compile`, `pipec.check` and `pipec.kernel`."""

import ast as python_ast
import sys
import textwrap
from collections.abc import Mapping
from pathlib import Path
from types import FrameType

from pipec.api.files import read_source
from pipec.api.program import CompiledKernel, CompileError, Program, debug_seconds
from pipec.diag.catalogue.commands.run import BadCall
from pipec.diag.catalogue.language import names
from pipec.diag.message import Diagnostic, Failure
from pipec.diag.shown import shown
from pipec.driver import Compilation, Options, compile_source
from pipec.source import Source


def compile(
    source: str | Path,
    *,
    arch: str | None = None,
    constants: Mapping[str, object] | None = None,
    kernel: str | None = None,
    debug: str | None = None,
    unchecked: bool = False,
    allow_undecided: bool = False,
    timestamps: bool = False,
) -> Program:
    """Compiles DSL text, or the file that a path names. Raises CompileError with `.diagnostics`.

    `debug="watchdog"` (or "watchdog=2.5", seconds) bounds each wait on a barrier: a kernel that hangs ends with a HangError that names
    roles, stages and source lines. `unchecked` skips every check and proof: the kernel may hang or write anywhere; it serves to
    demonstrate the effects of an error. `allow_undecided` accepts kernels for which neither a deadlock nor a proof of its absence is
    found. `timestamps` adds a last argument, a zeroed tensor in which the roles record the clock (pipec.timestamps reads it).
    """
    options = _options(arch, constants, kernel, debug, unchecked, allow_undecided, timestamps)
    return Program(_finished(_source_of(source, sys._getframe(1)), options))


def check(
    source: str | Path, *, arch: str | None = None, constants: Mapping[str, object] | None = None, kernel: str | None = None
) -> list[Diagnostic]:
    """All diagnostics of the source; empty if every check passes."""
    try:
        text, options = _source_of(source, sys._getframe(1)), _options(arch, constants, kernel)
    except CompileError as error:
        return error.diagnostics
    return compile_source(text, options, until="prove").diagnostics


def kernel(source: str, *, arch: str | None = None, debug: str | None = None, **constants: object) -> CompiledKernel:
    """The only kernel of a DSL string, ready to be called; other keyword arguments set its compile-time parameters.

    Messages point into the Python file with the string; `debug` as in `compile`. Raises CompileError.
    """
    options = _options(arch, constants, debug=debug)
    program = Program(_finished(_source_of(source, sys._getframe(1)), options))
    kernels = list(program)
    if len(kernels) != 1:
        known = ", ".join(f"`{name}`" for name in kernels)
        raise CompileError([names.UnknownKernel(name="", known=f"{known}: use pipec.compile(...) for several").diagnostic()])
    return program[kernels[0]]


def _options(
    arch: str | None,
    constants: Mapping[str, object] | None,
    kernel: str | None = None,
    debug: str | None = None,
    unchecked: bool = False,
    allow_undecided: bool = False,
    timestamps: bool = False,
) -> Options:
    """Raises CompileError for a value of the wrong type: the code below relies on the types."""
    given = {} if constants is None else constants
    _require(
        "constants", given, isinstance(given, Mapping) and all(isinstance(name, str) for name in given), "a mapping of names"
    )
    for parameter, value in (("arch", arch), ("kernel", kernel)):
        _require(parameter, value, value is None or isinstance(value, str), "a name, or None")
    for parameter, choice in (("unchecked", unchecked), ("allow_undecided", allow_undecided), ("timestamps", timestamps)):
        _require(parameter, choice, isinstance(choice, bool), "True or False")
    return Options(arch, dict(given), kernel, debug_seconds(debug), unchecked, allow_undecided, timestamps, remembers=True)


def _require(parameter: str, value: object, fits: bool, expected: str) -> None:
    if not fits:
        raise CompileError([BadCall(parameter=parameter, expected=expected, found=shown(value)).diagnostic()])


def _finished(source: Source, options: Options) -> Compilation:
    state = compile_source(source, options)
    if state.failed:
        raise CompileError(state.diagnostics)
    return state


def _source_of(source: str | Path, caller: FrameType) -> Source:
    _require("source", source, isinstance(source, str | Path), "the text of kernels, or a path")
    # Text with a line break is never a path, and text without one is never a kernel: no file is opened by accident.
    if isinstance(source, Path) or ("\n" not in source and source.endswith(".pipe")):
        try:
            return read_source(str(source))
        except Failure as failure:
            raise CompileError(failure.diagnostics) from None
    path = not any(map(str.isspace, source)) and ("." in source or "/" in source)
    _require(
        "source", source, not path, "the text of kernels, or a path that ends with `.pipe` (a pathlib.Path may have any ending)"
    )
    return _embedded(source, caller)


def _embedded(text: str, caller: FrameType) -> Source:
    """DSL text with its position in the Python file of `caller`; under "<string>" if it is not found there."""
    # The caller's frame has the file and the line of the call; the literal itself may be elsewhere in the file, and is searched below.
    name = caller.f_code.co_filename
    dedented = textwrap.dedent(text)
    indent = _removed_columns(text, dedented)
    place = _literal_place(name, text, caller.f_lineno)
    if place is None:
        return Source("<string>", dedented, indent=indent)
    line, column = place
    return Source(name, dedented, line, indent, None if dedented.startswith("\n") else indent + column)


def _removed_columns(text: str, dedented: str) -> int:
    for before, after in zip(text.split("\n"), dedented.split("\n"), strict=True):
        if after.strip():
            return len(before) - len(after)
    return 0


def _literal_place(name: str, text: str, near: int) -> tuple[int, int] | None:
    """The position of the string literal with this value: its line, and the columns before it; the one nearest to the call."""
    try:
        # Parsed from the file, not the frame's code: only the source has columns. What cannot be read (a notebook, `python -c`) has no
        # position.
        module = python_ast.parse(Path(name).read_bytes())
    except (OSError, SyntaxError, ValueError):
        return None
    lines = Path(name).read_text(encoding="utf-8", errors="replace").split("\n")
    places = []
    for node in python_ast.walk(module):
        # In a literal with escapes or continuations, lines do not correspond one to one.
        if isinstance(node, python_ast.Constant) and node.value == text and node.end_lineno == node.lineno + text.count("\n"):
            literal = lines[node.lineno - 1].encode()[node.col_offset :].decode(errors="replace")
            before = len(lines[node.lineno - 1]) - len(literal)
            places.append((node.lineno, before + _opening(literal)))
    # The same text may occur several times.
    return min(places, key=lambda place: abs(place[0] - near)) if places else None


def _opening(literal: str) -> int:
    """The length of a literal's prefix and opening quotes."""
    prefix = len(literal) - len(literal.lstrip("rRuU"))
    return prefix + (3 if literal[prefix:].startswith(('"""', "'''")) else 1)
