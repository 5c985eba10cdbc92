"""Makes LLVM's PTX readable: names for parameters, source text beside `.loc`, the launch interface before each entry.

Removed, as of no use to assembler or reader: LLVM's banner, inline-asm marks, labels of debug ranges, line 0.
"""

import re
from collections.abc import Sequence

from pipec.interface import KernelInterface, to_json
from pipec.source import Source

INTERFACE_MARK = "// pipec.kernel "

_DROPPED = re.compile(r"\s*(?://|\$L__(?:tmp|func_begin|func_end)\d+:|\.section\s+\.debug_macinfo|$)")
_LOCATION = re.compile(r"\s*\.loc\s+(\d+) (\d+) (\d+)")
_ENTRY = re.compile(r"\.visible \.entry (\w+)\(")
_LONGEST_COMMENT = 100


def normalise(ptx: str, interfaces: Sequence[KernelInterface], source: Source) -> str:
    by_name = {interface.name: interface for interface in interfaces}
    parameters = re.compile(rf"\b({'|'.join(map(re.escape, by_name))})_param_(\d+)\b")
    lines: list[str] = []
    files: list[str] = []
    last: str | None = None
    for line in ptx.splitlines():
        if "_param_" in line:  # rare: a cheap test before the regular expression
            line = parameters.sub(lambda found: by_name[found[1]].parameters[int(found[2])].symbol, line)
        if line[:1] == "\t" and line[1:2].isalpha():
            lines.append(line)  # an instruction, as most lines are
            continue
        if _DROPPED.match(line):
            continue
        if line.lstrip().startswith(".file"):
            files.append(line.strip())
        elif location := _LOCATION.match(line):
            last = _location(lines, location, last, source)
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


def _location(lines: list[str], location: re.Match[str], last: str | None, source: Source) -> str | None:
    """Adds the directive unless it repeats the last one; returns the directive to compare the next one with."""
    file, line, column = (int(number) for number in location.groups())
    if line == 0 or column == 0:
        return last
    directive = f"\t.loc\t{file} {line} {column}"
    if directive == last:
        return last
    if lines and lines[-1].startswith("\t.loc"):
        lines.pop()  # no code in between
    text = source.line(line - source.first_line + 1)[column - source.indent - 1 :].partition("#")[0].strip()
    lines.append(f"{directive}\t// {ascii_only(text)[:_LONGEST_COMMENT]}".rstrip())
    return directive


def ascii_only(text: str) -> str:
    """PTX is ASCII; other characters in comments become question marks, control characters blanks."""
    if text.isascii() and text.isprintable():
        return text
    return "".join(c if " " <= c <= "~" else " " if c < " " else "?" for c in text)
