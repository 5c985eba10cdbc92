"""The code of a kernel for a driver or the simulator."""

import re
from dataclasses import dataclass

from pipec.isa.targets import DEFAULT_TARGET, TARGETS


@dataclass(frozen=True, slots=True)
class Image:
    """A kernel's code: PTX, machine code, or both. `arch` as in `.target`, e.g. "sm_100a"; "" if unknown."""

    ptx: str | None
    cubin: bytes | None
    arch: str

    @property
    def multiprocessors(self) -> int:
        """The number of multiprocessors of the largest GPU that runs the code."""
        return TARGETS[self.arch if self.arch in TARGETS else DEFAULT_TARGET].multiprocessors

    @staticmethod
    def of(code: "Image | str | bytes") -> "Image":
        """From PTX text or a cubin."""
        if isinstance(code, Image):
            return code
        if isinstance(code, str):
            target = re.search(r"^\s*\.target\s+(\w+)", code, re.MULTILINE)
            return Image(code, None, target[1] if target else "")
        return Image(None, bytes(code), "")
