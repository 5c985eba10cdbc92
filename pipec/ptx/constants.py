"""Constants that a register already has.

Where a loop over tiles may have no iteration, LLVM sets the registers of a role's place on a ring twice: in front of the branch around the
loop, and again in front of the loop. ptxas keeps both.
"""

import re

_SET = re.compile(r"\tmov\.b32 \t(%r\d+), (-?\d+);")
_REGISTER = re.compile(r"%r\d+\b")


def once(ptx: str) -> str:
    """The text without such moves: the register was set in the same stretch of code, into which nobody jumps, and not mentioned since."""
    kept: list[str] = []
    known: dict[str, str] = {}
    for line in ptx.split("\n"):
        if line[:1] != "\t":
            known.clear()
        elif found := _SET.fullmatch(line):
            if known.get(found[1]) == found[2]:
                continue
            known[found[1]] = found[2]
        elif known and not line.startswith("\t.loc"):
            for name in _REGISTER.findall(line):
                known.pop(name, None)
        kept.append(line)
    return "\n".join(kept)
