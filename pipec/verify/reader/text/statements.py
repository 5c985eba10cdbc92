"""PTX text to instructions: statements, labels, variables in shared memory.

Only the outline of a statement is parsed here: predicate, opcode, operands as text, and the possible definition. The rest is parsed on
demand, so that each of the thousands of arithmetic instructions of a large kernel costs one pattern match.
"""

import re
from collections import Counter
from functools import lru_cache

from pipec.record import field, mutable
from pipec.verify.network import Unreadable
from pipec.verify.reader.text.declarations import (
    NAMED,
    Directives,
    Registers,
    directives_in,
    entries_in,
    parameters_in,
    registers_in,
    shared_in,
    variable_in,
    words_in,
)
from pipec.verify.reader.text.instructions import Code, Outline
from pipec.verify.reader.text.lexical import integer, plain

_STATEMENT = re.compile(r"(?:@\s*+(!?)\s*+([%\w$]++)\s++)?([a-z_][\w.:]*)\s*(.*)", re.DOTALL)
# A line: one statement (without label, whose colon is single, and nothing after it), a label, a `.loc`, or anything else, whole. If the
# first operand of a statement is a plain name, that name is also captured. (What begins with a dot is no operand, but more of the opcode.)
_LINES = re.compile(
    r"^[\t ]*+(?:@(!?)([%$\w]++)[\t ]++)?([a-z_][\w.]*+(?:::[\w.]++)*+)"
    r"(?:[\t ]++(?![\s:.])(?:(?=([%$\w]++)[,;]))?+([^;\n]*+))?;[\t ]*+$"
    r"|^([%$\w]++):[\t ]*+$|^[\t ]*+\.loc(?:[\t ]++\d++){3}[\t ]*+$|^(.*)$",
    re.MULTILINE | re.ASCII,  # (Any other letters are rare, and in "anything else".)
)
_LABEL = re.compile(r"([%$\w]+)\s*:(?!:)\s*")
_READ = re.compile(r"(?!_(?![\w$.]))[%$A-Za-z_][\w$.]*")
_ADDRESS = re.compile(r"\[\s*([%$\w.]+)\s*(?:([+-])\s*(-?\w+))?\s*\]\Z")
# The text inside braces, with at most two nested pairs, as in almost all kernels.
_INNER = r"\{(?:[^{}]++|\{[^{}]*+\})*+\}"
_BODY = re.compile(rf"(?:[^{{}}]++|{_INNER})*+\}}")
_DECLARED = re.compile(r"(\.reg\b[^;{}]*+)(;?)")
_PRAGMA = re.compile(r"\.pragma\s*\$string(?:\s*,\s*\$string)*")
_LOCATION = re.compile(r"\.loc(\s+\d+){3}(\s*,\s*function_name\s+[\w$]+(\s*\+\s*\d+)?\s*,\s*inlined_at(\s+\d+){3})?\s*")
_MOST_LETTERS = 1 << 16  # of a statement of several lines
_MOST_NESTED = 200
_MOST_REPEATED = 100
_NOTHING = "$nothing"  # a register that no instruction writes


@mutable
class Kernel:
    """One entry of the text. `labels`: the number of the instruction that each label precedes. `shared`: offsets of variables;
    `alignments`, `bytes`: theirs. `widths`: of registers in bits, by name or by name prefix; `declared`: how often those of a family are
    (see `_family`). `outside`: names that are declared in front of it. `body`: the text between its braces."""

    name: str
    line: int
    parameters: dict[str, str]
    directives: Directives
    shared: dict[str, int]
    alignments: dict[str, int] = field(default_factory=dict)
    bytes: dict[str, int] = field(default_factory=dict)
    code: Code = field(default_factory=lambda: Code([], []))
    labels: dict[str, int] = field(default_factory=dict)
    widths: dict[str, int] = field(default_factory=dict)
    declared: dict[str, int] = field(default_factory=dict)
    outside: frozenset[str] = frozenset()
    body: str = ""

    def is_wider(self, register: str, bits: int) -> bool:
        """Whether the register is declared wider: values are then extended according to the type of the instruction."""
        return self.width(register) > bits

    def width(self, register: str) -> int:
        """In bits; 0 if it is not declared."""
        return max(self.widths.get(register, 0), self.widths.get(register.rstrip("0123456789"), 0))


def registers(text: str) -> list[str]:
    """Names in an operand; not numbers, nor `_`, which discards a result."""
    return _READ.findall(text)


def address(text: str, line: int) -> tuple[str, int]:
    """The parts of `[name+offset]`: register or variable ("" for a number), and the constant."""
    found = _address(text)
    if found is None:
        raise Unreadable(line, f"the address {text} is not understood")
    return found


@lru_cache(1024)  # a walk visits an instruction many times
def _address(text: str) -> tuple[str, int] | None:
    found = _ADDRESS.match(text)
    if not found:
        return None
    name, sign, offset = found.groups()
    number = integer(offset) if offset else 0
    if number is None:
        return None
    number = -number if sign == "-" else number
    plain = integer(name)
    return (name, number) if plain is None else ("", plain + number)


def entries_of(ptx: str) -> tuple[str, ...]:
    """The names of the kernels, in the order of the text."""
    return tuple([found[1] for found in NAMED.finditer(plain(ptx))])


def kernel_of(ptx: str, name: str | None) -> Kernel:
    """The entry called `name`, or the only one."""
    text = plain(ptx)
    entries = [found for found in entries_in(text) if name in (None, found.name)]
    if not entries:
        raise Unreadable(1, f"there is no kernel {name}" if name else "there is no kernel")
    if len(entries) > 1:
        raise Unreadable(1, "there are several kernels: say which")
    (entry,) = entries
    body, end = entry.body, _closing(text, entry.body)
    line = text.count("\n", 0, entry.start) + 1
    parameters, directives = parameters_in(entry.parameters), directives_in(entry.directives, line)
    outside = _outside(text[: entry.start])
    shared, alignments, sizes = shared_in(outside + text[body:end], line)
    kernel = Kernel(entry.name, line, parameters, directives, shared, alignments, sizes, outside=words_in(outside))
    first = text.count("\n", 0, body) + 1
    kernel.body = text[body:end]
    _names(kernel)
    _statements(kernel, first)
    return kernel


def _names(kernel: Kernel) -> None:
    """Records the widths of registers, and how often they are declared. None may hide a variable or a parameter."""
    # (What is not understood is refused with its line.)
    for (text, ends), times in Counter(_DECLARED.findall(kernel.body)).items():
        bits, names = ends and registers_in(text) or (0, ())
        for stem, count in names:
            kernel.declared[_family(stem)] = kernel.declared.get(_family(stem), 0) + times
            kernel.widths[stem] = max(bits, kernel.widths.get(stem, 0))
            for other in (*kernel.shared, *kernel.parameters):
                if other == stem or count is not None and other.startswith(stem) and other[len(stem) :].isdigit():
                    raise Unreadable(kernel.line, f"a register that hides {other} is not understood")


def _family(register: str) -> str:
    """What numbered registers have in common: `%r<5>` declares `%r0` to `%r4`."""
    return register.rstrip("0123456789")


def _closing(text: str, at: int) -> int:
    """The position of the matching closing brace."""
    if found := _BODY.match(text, at):
        return found.end() - 1
    depth = 1
    for brace in re.compile("[{}]").finditer(text, at):
        depth += 1 if brace.group() == "{" else -1
        if not depth:
            return brace.start()
    raise Unreadable(text.count("\n") + 1, "the kernel does not end")


def _outside(text: str) -> str:
    """The text without the bodies of other kernels, which have variables of their own."""
    if "{" not in text:
        return text
    kept, depth, start = [], 0, 0
    for found in re.finditer("[{}]", text):
        if found.group() == "{":
            if not depth:
                kept.append(text[start : found.start()])
            depth += 1
        else:
            depth, start = depth - 1, found.end()
    return "".join([*kept, text[start:]])


# Of a declaration, by the scopes around it: the line, and how many numbered registers there are.
_Places = dict[tuple[int, ...], tuple[int, int]]


@mutable
class _Scopes:
    """The statements read, and their lines; and the enclosing scopes, by number. `branches`: those inside scopes, with their scopes.
    `declared`: by register name, and whether it is a numbered range: the scopes, the line, and how many registers these are."""

    outlines: list[Outline] = field(default_factory=list)
    lines: list[int] = field(default_factory=list)
    around: tuple[int, ...] = (0,)
    count: int = 0
    branches: list[tuple[int, tuple[int, ...]]] = field(default_factory=list)
    declared: dict[tuple[str, bool], _Places] = field(default_factory=dict)


def _statements(kernel: Kernel, line: int) -> None:
    scopes, rest, lines = _Scopes(), "", kernel.body.split("\n")
    add, add_line = scopes.outlines.append, scopes.lines.append
    for at, found in enumerate(_LINES.findall(kernel.body), line):
        if not rest:
            if found[2]:
                if len(scopes.around) > 1:
                    _add(scopes, found, at)
                else:  # almost all of thousands
                    add(found)
                    add_line(at)
                continue
            if found[5]:
                _label(kernel, scopes, found[5], at)
                continue
            if not found[6] or found[6].isspace():
                continue
        if len(rest) > _MOST_LETTERS:
            raise Unreadable(at, "so long a statement is not understood")
        *whole, rest = f"{rest}{lines[at - line]}\n".split(";")
        for statement in whole:
            _statement(kernel, scopes, statement.rstrip(), at)
        rest = _begun(kernel, scopes, rest, at)
    if rest:
        raise Unreadable(line, "the last statement does not end")
    _check_hidden(kernel, scopes)
    kernel.code = Code(scopes.outlines, scopes.lines)
    for number, around in scopes.branches:
        branch = kernel.code[number]
        names = [_scoped(branch.text, scope) for scope in reversed(around)]
        branch.text = next((name for name in names if name in kernel.labels), branch.text)


def _label(kernel: Kernel, scopes: _Scopes, label: str, line: int) -> None:
    name = _scoped(label, scopes.around[-1])
    if name in kernel.labels:
        raise Unreadable(line, f"the label {name[:40]} stands there twice")
    kernel.labels[name] = len(scopes.outlines)


def _scoped(label: str, scope: int) -> str:
    """The kernel-wide name of a label, unique per scope."""
    return f"{label} in {scope}" if scope else label


def _begun(kernel: Kernel, scopes: _Scopes, text: str, line: int) -> str:
    """The rest of a statement after leading braces, labels and `.loc` directives."""
    while text := text.lstrip():
        if text[:1] == "{":
            if len(scopes.around) > _MOST_NESTED:
                raise Unreadable(line, "braces nested so deeply are not understood")
            scopes.count += 1
            scopes.around = (*scopes.around, scopes.count)
            text = text[1:]
        elif text[:1] == "}":
            if len(scopes.around) == 1:
                raise Unreadable(line, "a brace that closes nothing")
            scopes.around = scopes.around[:-1]
            text = text[1:]
        elif text[:4] == ".loc" and (location := _LOCATION.match(text)):
            text = text[location.end() :]
        elif ":" in text and (found := _LABEL.match(text)):
            _label(kernel, scopes, found[1], line)
            text = text[found.end() :]
        else:
            break
    return text


def _statement(kernel: Kernel, scopes: _Scopes, text: str, line: int) -> None:
    text = _begun(kernel, scopes, text, line)
    if not text:
        return
    if text[0] == ".":
        _declaration(kernel, scopes, text, line)
        return
    found = _STATEMENT.match(text)
    if not found:
        raise Unreadable(line, f"the statement {text.split()[0][:60]!r} is not understood")
    negated, predicate, opcode, operands = found.groups("")
    if operands[:1] == ".":
        raise Unreadable(line, f"the opcode {opcode[:40]} with a blank in it is not understood")
    _add(scopes, (negated, predicate, opcode, "", operands), line)


def _declaration(kernel: Kernel, scopes: _Scopes, text: str, line: int) -> None:
    """Whatever is not understood of one may give a name another meaning."""
    if (registers := registers_in(text)) is not None:
        _declare(kernel, scopes, registers[1], line)
    elif (variable := variable_in(text)) is not None:
        known = kernel.parameters if text.startswith(".shared") else {**kernel.shared, **kernel.parameters}
        hides = variable in kernel.widths or _family(variable) in kernel.widths or variable in known or variable in kernel.outside
        if hides or variable[0] == "%" or text.startswith(".shared") and variable not in kernel.shared:
            raise Unreadable(line, "a variable that hides another is not understood")
    elif not _PRAGMA.fullmatch(text):
        raise Unreadable(line, f"the statement {text.split()[0][:60]!r} is not understood")


def _declare(kernel: Kernel, scopes: _Scopes, registers: Registers, line: int) -> None:
    """Registers of the same name in scopes beside each other are others: at its declaration each holds nothing that is known."""
    for stem, count in registers:
        scopes.declared.setdefault((stem, count is not None), {})[scopes.around] = line, count or 0
        if len(scopes.around) > 1 and kernel.declared.get(_family(stem), 0) > 1:
            if count is not None and count > _MOST_REPEATED:
                raise Unreadable(line, f"so many registers {stem[:40]} in several scopes are not understood")
            for one in [stem] if count is None else [f"{stem}{number}" for number in range(count)]:
                _add(scopes, ("", "", "mov.b32", one, f"{one}, {_NOTHING}"), line)


def _check_hidden(kernel: Kernel, scopes: _Scopes) -> None:
    """Scopes are merged: no register may hide another one, wherever it is declared, nor a name from outside, which it is in front of its
    declaration."""
    families = {_family(name) for name in kernel.outside}
    for (name, counted), places in scopes.declared.items():
        if name in families if counted else name in kernel.outside:
            raise Unreadable(min(places.values())[0], f"a register that hides {name[:40]} is not understood")
        others = [places]
        if not counted and (stem := _family(name)) != name and (numbered := scopes.declared.get((stem, True))):
            number = int(name[len(stem) :])
            others.append({around: one for around, one in numbered.items() if number < one[1]})
        for other in others:
            _check_apart(places, other)
            _check_apart(other, places)


def _check_apart(inside: _Places, outside: _Places) -> None:
    for around, (line, _) in inside.items():
        if any(around[:depth] in outside for depth in range(len(around))):
            raise Unreadable(line, "a register that hides another is not understood")


def _add(scopes: _Scopes, outline: Outline, line: int) -> None:
    scopes.outlines.append(outline)
    scopes.lines.append(line)
    if len(scopes.around) > 1 and outline[2].partition(".")[0] == "bra":
        scopes.branches.append((len(scopes.outlines) - 1, scopes.around))
