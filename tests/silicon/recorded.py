"""What a GPU computed for the programs: every output, with where and when, in recorded/NAME.json and recorded/NAME.xz."""

import json
import lzma
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

FOLDER = Path(__file__).parent / "recorded"
CHIP = "h200"


def write(folder: Path, surroundings: dict[str, Any], found: dict[str, tuple[str, np.ndarray]], failed: dict[str, str]) -> None:
    """`found`: digest and output bytes of each program by name; `failed`: what went wrong with the others."""
    names = sorted(found)
    (folder / f"{CHIP}.xz").write_bytes(lzma.compress(b"".join(found[name][1].tobytes() for name in names), preset=9))
    programs = {name: [found[name][0], int(found[name][1].size)] for name in names}
    text = json.dumps(surroundings | {"failed": failed, "programs": programs}, indent=1)
    # One line per program.
    (folder / f"{CHIP}.json").write_text(text.replace("[\n   ", "[").replace(",\n   ", ", ").replace("\n  ]", "]") + "\n")


@cache
def surroundings() -> dict[str, Any]:
    """Date, device, driver and versions of the recording, with the digest and size of every program's output."""
    return json.loads((FOLDER / f"{CHIP}.json").read_text())


@cache
def outputs() -> dict[str, np.ndarray]:
    """Output bytes by program name."""
    data, at, found = np.frombuffer(lzma.decompress((FOLDER / f"{CHIP}.xz").read_bytes()), np.uint8), 0, {}
    for name, (_, size) in surroundings()["programs"].items():
        found[name] = data[at : at + size]
        at += size
    assert at == data.size
    return found
