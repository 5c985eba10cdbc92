"""Matrix products by opcode: what the tensor cores are asked for."""

import re
from collections.abc import Mapping

from pipec.predict.work import Instructions

_WGMMA = re.compile(r"wgmma\.mma_async(?:\.sp)?\.sync\.aligned\.m64n(\d+)k(\d+)\.\w+\.(\w+)")
_TCGEN05 = re.compile(r"tcgen05\.mma(\.ws)?(\.sp)?\.cta_group::([12])\.kind::(\w+)")
_COPIED = re.compile(r"tcgen05\.cp\.cta_group::([12])\.(\d+)x(\d+)b\b")
_NARROW = frozenset(("e4m3", "e5m2", "s8", "u8"))
_KINDS: Mapping[str, bool] = {
    "f16": False,
    "tf32": False,
    "f8f6f4": True,
    "i8": True,
}  # kind -> whether its elements have 8 bits or fewer
_SCALED_KINDS = frozenset(("mxf8f6f4", "mxf4", "mxf4nvf4"))
_SCALED_ROWS = 128  # unit of rows in block-scaled descriptors
_GROUP_ROWS = 64  # of a warpgroup's product


class Unknown(Exception):
    """What a product takes is not on record; says why."""

    def __init__(self, what: str) -> None:
        super().__init__(what)
        self.what = what


def wgmma_product(opcode: str, near: bool, groups: int = 1) -> Instructions:
    """By so many warpgroups; `near`: A is in registers. Raises Unknown."""
    match = _WGMMA.match(opcode)
    if match is None or ".sp." in opcode:
        raise Unknown(f"what `{opcode}` takes is not on record")
    return Instructions(1, _GROUP_ROWS * groups, int(match[1]), 1, near, match[3] in _NARROW, 0)


def is_tcgen05_product(opcode: str) -> bool:
    return opcode.startswith("tcgen05.mma")


def tcgen05_product(opcode: str, descriptor: int, near: bool) -> Instructions:
    """With the shape in an instruction descriptor (PTX ISA 9.7.17.4.2). Raises Unknown."""
    match = _TCGEN05.match(opcode)
    if match is None or match[1] or match[2] or not (match[4] in _SCALED_KINDS or match[4] in _KINDS):
        raise Unknown(f"what `{match[0] if match else opcode}` takes is not on record")
    scaled, group = match[4] in _SCALED_KINDS, int(match[3])
    rows = (descriptor >> 27 & 3) * _SCALED_ROWS if scaled else (descriptor >> 24 & 31) * 16
    columns = (descriptor >> 17 & 63) * 8
    if not rows or not columns:
        raise Unknown(f"the instruction descriptor {descriptor:#x} has no shape")
    return Instructions(1, rows // group, columns, group, near, _KINDS.get(match[4], True), 0)


def copied_scales(opcode: str) -> Instructions | None:
    """A copy from shared to tensor memory, by the tensor cores; None for other instructions."""
    match = _COPIED.match(opcode)
    if match is None:
        return None
    return Instructions(0, _SCALED_ROWS, 8, int(match[1]), False, True, int(match[2]) * int(match[3]) // 8)
