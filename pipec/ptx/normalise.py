"""Makes LLVM's PTX readable: names for parameters, source text beside `.loc`, the launch interface before each entry.

Removed, as of no use to assembler or reader: LLVM's banner, inline-asm marks, labels of debug ranges, line 0.
"""

import re
from collections.abc import Sequence

from pipec.interface import KernelInterface, to_json
from pipec.source import Source

INTERFACE_MARK = "// pipec.kernel "

_DROPPED = re.compile(r"\s*(?://|\$L__(?:tmp|func_begin|func_end)\d+:|\.section\s+\.debug_macinfo|$)")
_LOCATION = re.compile(r"\t\.loc\s+(\d+) (\d+) (\d+)")
_ENTRY = re.compile(r"\.visible \.entry (\w+)\(")
_LONGEST_COMMENT = 100


def normalise(ptx: str, interfaces: Sequence[KernelInterface], source: Source) -> str:
    by_name = {interface.name: interface for interface in interfaces}
    parameters = re.compile(rf"\b({'|'.join(map(re.escape, by_name))})_param_(\d+)\b")
    lines: list[str] = []
    files: list[str] = []
    shown: dict[str, tuple[str, str] | None] = {}  # by location: few are different
    last: str | None = None
    for line in ptx.splitlines():
        if "_param_" in line:  # rare: a cheap test before the regular expression
            line = parameters.sub(lambda found: by_name[found[1]].parameters[int(found[2])].symbol, line)
        if line[:1] == "\t" and line[1:2].isalpha():
            lines.append(line)  # an instruction, as most lines are
            continue
        if line.startswith("\t.loc"):
            if line not in shown:
                shown[line] = _location(line, source)
            last = _located(lines, shown[line], last)
        elif _DROPPED.match(line):
            continue
        elif line.lstrip().startswith(".file"):
            files.append(line.strip())
        elif entry := _ENTRY.match(line):
            lines += ["", INTERFACE_MARK + to_json(by_name[entry[1]]), line]
            last = None
        else:
            lines.append(line)
    header = lines.index(next(line for line in lines if line.startswith(".address_size"))) + 1
    banner = f"// {ascii_only(source.name)}, compiled by pipec"
    return "\n".join([banner, *lines[:header], *files, *lines[header:], ""])


def with_interface(ptx: str, interface: KernelInterface) -> str:
    """Replaces the interface description of one kernel."""
    begins = f'{INTERFACE_MARK}{{"kernel": "{interface.name}",'
    start = ptx.index(begins)
    return ptx[:start] + INTERFACE_MARK + to_json(interface) + ptx[ptx.index("\n", start) :]


def _location(line: str, source: Source) -> tuple[str, str] | None:
    """The directive, and the line with the source text beside it; None for line 0."""
    location = _LOCATION.match(line)
    assert location is not None
    file, row, column = (int(number) for number in location.groups())
    if row == 0 or column == 0:
        return None
    directive = f"\t.loc\t{file} {row} {column}"
    text = source.line(row - source.first_line + 1)[column - source.indent - 1 :].partition("#")[0].strip()
    return directive, f"{directive}\t// {ascii_only(text)[:_LONGEST_COMMENT]}".rstrip()


def _located(lines: list[str], location: tuple[str, str] | None, last: str | None) -> str | None:
    """Adds the directive unless it repeats the last one; returns the directive to compare the next one with."""
    if location is None or location[0] == last:
        return last
    if lines and lines[-1].startswith("\t.loc"):
        lines.pop()  # no code in between
    lines.append(location[1])
    return location[0]


def ascii_only(text: str) -> str:
    """PTX is ASCII; other characters in comments become question marks, control characters blanks."""
    if text.isascii() and text.isprintable():
        return text
    return "".join(c if " " <= c <= "~" else " " if c < " " else "?" for c in text)
