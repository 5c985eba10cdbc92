"""How much a load or store moves, by its opcode."""

import re

_VECTOR = re.compile(r"\.v([248])\b")
_WIDTH = re.compile(r"\.[a-z]+(\d+)$")


def access_bytes(opcode: str) -> int:
    """Of one thread: `ld.global.v4.f32` has 16."""
    vector, width = _VECTOR.search(opcode), _WIDTH.search(opcode)
    return (int(vector[1]) if vector else 1) * (int(width[1]) // 8 if width else 4)
