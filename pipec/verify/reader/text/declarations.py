"""The declarations of a kernel: its parameters, launch directives, and variables in shared memory."""

import re
from collections.abc import Iterator
from functools import lru_cache
from math import prod

from pipec.record import record
from pipec.verify.network import Unreadable
from pipec.verify.reader.text.lexical import integer

NAMED = re.compile(r"\.entry\s+([%\w$]+)")
_NO_BLANK = re.compile(r"\S|\Z")
_PARAMETER = re.compile(
    r"\.param\s+(?:\.align\s+\d+\s+)?\.(\w+)\s+(?:\.(?:ptr|global|const|shared|local|align\s+\d+)\s+)*([\w$]+)"
)
_DIRECTIVE = re.compile(r"\s*\.(\w+)\s*((?:\w+\s*(?:,\s*)?)*)")
# Launch directives; any other may have an unknown meaning.
_KNOWN = frozenset(
    {
        *("reqntid", "maxntid", "minnctapersm", "maxnctapersm", "maxnreg"),
        *("reqnctapercluster", "explicitcluster", "maxclusterrank", "noreturn", "abi_preserve", "abi_preserve_control"),
    }
)
# (The `.shared` of an opcode is followed by its type, or an address.)
_SHARED = re.compile(r"\.shared\s+(?:\.align\s+(\w+)\s+)?\.(\w+)\s+([\w$]+)\s*([^;,]*)")
_EXTERN = re.compile(r"\.extern\s+\Z")
_NAME = r"[%$\w]+"
_COUNTED = rf"{_NAME}(?:\s*<\s*\w+\s*>)?"
# A name may follow its type without a blank if it begins with a `%` or `$`.
_REGISTERS = re.compile(rf"\.reg\s*\.([a-z]+)(\d*)(x2)?(?:\s+|(?=[%$]))({_COUNTED}(?:\s*,\s*{_COUNTED})*)\s*")
_VARIABLE = re.compile(rf"\.(?:shared|local|param)(?:\s+\.align\s+\w+)?\s+\.\w+\s+({_NAME})\s*+(?:\[\s*+\w*+\s*+\]\s*+)*+")
# Words that are no part of a type or directive.
_WORD = re.compile(r"(?<![.\w$%])[A-Za-z_$%][\w$]*")
_LISTS = re.compile(r"\([^()]*\)")
_EXTENTS = re.compile(r"(?:\[\s*+\w*+\s*+\]\s*+)*+")
_APART = 228 << 10  # bytes: no CTA has more shared memory
_MOST_ALIGNED = 1 << 10  # what of the alignment of an external variable is guaranteed
_END = 1 << 24  # addresses beyond it are in other CTAs (values/surroundings.py)
# The element sizes of variables, in bytes.
_SIZES = {f"{letter}{bits}": bits // 8 for letter in "bus" for bits in (8, 16, 32, 64)} | {"f32": 4, "f64": 8}

Directives = dict[str, tuple[int, ...]]
# A name, and how many registers of it and a number there are; None for the name alone.
Registers = tuple[tuple[str, int | None], ...]


@record
class Entry:
    """A kernel with a body. `start`: where it begins in the text; `body`: where its instructions do."""

    name: str
    start: int
    parameters: str
    directives: str
    body: int


def entries_in(text: str) -> Iterator[Entry]:
    """In the order of the text, of which no part is looked at again for each of them."""
    parentheses, ends = _Ahead(text, "[)]"), _Ahead(text, "[{;]")
    for found in NAMED.finditer(text):
        first = _NO_BLANK.search(text, found.end())
        at, parameters = found.end(), ""
        if first is not None and first[0] == "(" and (closing := parentheses.from_(first.start())) is not None:
            parameters, at = text[first.start() + 1 : closing], closing + 1
        end = ends.from_(at)
        if end is not None and text[end] == "{":
            yield Entry(found[1], found.start(), parameters, text[at:end], end + 1)


def words_in(text: str) -> frozenset[str]:
    """The names that a text outside of functions may declare. (What is in parentheses are parameters, known only in their function.)"""
    return frozenset(_WORD.findall(_LISTS.sub(" ", text)))


def variable_in(text: str) -> str | None:
    """The name of the variable that a statement in a kernel declares."""
    found = _VARIABLE.fullmatch(text)
    return found[1] if found else None


@lru_cache(4096)  # blocks of inline code declare the same ones again and again
def registers_in(text: str) -> tuple[int, Registers] | None:
    """The registers that a statement declares: how many bits they have, and their names. None if that is not understood."""
    found = _REGISTERS.fullmatch(text)
    if found is None:
        return None
    names = []
    for one in found[4].split(","):
        stem, counted, rest = one.strip().partition("<")
        stem, count = stem.rstrip(), integer(rest.rstrip(" \t\r\n\f>")) if counted else None
        # (Assemblers look for all digits at the end of a name.)
        if counted and (count is None or stem[-1].isdigit()):
            return None
        names.append((stem, count))
    return int(found[2] or 1) * (2 if found[3] else 1), tuple(names)


class _Ahead:
    """Where the next match of a pattern is, for places that only grow."""

    def __init__(self, text: str, pattern: str) -> None:
        self._found = (one.start() for one in re.finditer(pattern, text))
        self._at: int | None = -1

    def from_(self, place: int) -> int | None:
        while self._at is not None and self._at < place:
            self._at = next(self._found, None)
        return self._at


def parameters_in(text: str) -> dict[str, str]:
    """The types of parameters, by name."""
    return {found[2]: found[1] for found in _PARAMETER.finditer(text)}


def directives_in(text: str, line: int) -> Directives:
    """The directives between a kernel's parameters and its body, with their numbers."""
    directives: Directives = {}
    at, text = 0, text.rstrip()
    while at < len(text):
        found = _DIRECTIVE.match(text, at)
        numbers = [integer(word) for word in re.findall(r"\w+", found[2])] if found else []
        if found is None or found[1] not in _KNOWN or found[1] in directives:
            raise Unreadable(line, f"what is said of the launch is not understood: {text[at:].split()[0][:40]}")
        known = tuple(number for number in numbers if number is not None)
        if len(known) < len(numbers):
            raise Unreadable(line, f"the numbers of .{found[1]} are not understood")
        directives[found[1]], at = known, found.end()
    return directives


def shared_in(text: str, line: int) -> tuple[dict[str, int], dict[str, int], dict[str, int]]:
    """The address, alignment and size of each variable in shared memory. The assembler assigns addresses; only differences within a
    variable matter. So that an address beyond the end of one variable is in no other, they are further apart than shared memory is
    large. Scopes are merged, so no two variables may have the same name."""
    places: dict[str, int] = {}
    alignments: dict[str, int] = {}
    bytes_: dict[str, int] = {}
    at = 1 << 20
    before = 0
    for found in _SHARED.finditer(text):
        align, kind, name, extents = found.groups()
        outside = ".extern" in (between := text[before : found.start()]) and _EXTERN.search(between)
        before = found.end()
        sizes = [integer(number) for number in re.findall(r"\w+", extents)] if _EXTENTS.fullmatch(extents) else [None]
        aligned = integer(align) if align else _SIZES.get(kind, 1)
        if name in places:
            raise Unreadable(line, f"two variables in shared memory called {name[:40]} are not understood")
        if not aligned or None in sizes:
            raise Unreadable(line, f"how large the variable {name[:40]} is, or where it may lie, is not understood")
        alignments[name] = aligned
        if outside:
            # (As large as the launch says. It lies where no number in the text leads: shared memory ends before.)
            places[name], bytes_[name] = 1 << 19, _APART
            alignments[name] = min(alignments[name], _MOST_ALIGNED)
            continue
        at += -at % (aligned if align else 16)
        places[name] = at
        bytes_[name] = _SIZES.get(kind, 16) * prod(size for size in sizes if size is not None)
        at += bytes_[name] + _APART
        if at >= _END:
            raise Unreadable(line, "so many variables, or so large ones, in shared memory are not understood")
    return places, alignments, bytes_
