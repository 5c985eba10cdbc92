"""Calls that were not inlined, and the two functions of the device runtime that every compiler calls: `vprintf` and `__assertfail` (CUDA
programming guide: formatted output, assertion)."""

from __future__ import annotations

import re
import struct

import numpy as np

from ...errors import SimulationError
from ...machine.program import Execute
from ...machine.threads.cta import Warp
from ...ptx.tree import Symbol, Vector
from ..decode import Decoder, Meaning, instruction

_LONGEST = 1 << 12  # characters of a text, and of a printed number
_CONVERSION = re.compile(r"%([-+ #0]*)(\*|\d+)?(?:\.(\*|\d+))?(hh|h|ll|l|z|t|j)?([diouxXcsfFeEgGaAp%])")


@instruction("call")
def call(d: Decoder) -> Execute:
    d.flag("uni")
    operands = [operand for operand in d.operands if not isinstance(operand, Vector)]
    target = operands[0] if operands else None
    if not isinstance(target, Symbol):
        return _no_target
    name = d.image.module.aliases.get(target.name, target.name)
    known = d.image.module.functions.get(name)
    if known is None:
        d.fail(f"function `{name}` is not declared", "malformed")
    if known.has_body:
        d.fail(f"the call of `{name}` is recursive or too deep, which is not simulated")
    if name not in _RUNTIME:
        d.fail(f"function `{name}` has no body in this module")
    return _RUNTIME[name](d)


def _no_target(warp: Warp) -> None:
    raise SimulationError("undefined", "an indirect call goes to an address that is no function of fitting parameters")


def _arguments(d: Decoder, count: int) -> tuple[list[int], int | None]:
    """The places of the call's `.param` variables, and of its result."""
    vectors = [operand for operand in d.operands if isinstance(operand, Vector)]
    values = [value for value in (vectors[-1].items if vectors else ()) if isinstance(value, Symbol)]
    if len(values) != count or len(vectors[-1].items) != count:
        d.fail(f"needs {count} .param arguments", "malformed")
    result = vectors[0].items[0] if len(vectors) == 2 and vectors[0].items else None
    return [d.symbol_address(value) for value in values], d.symbol_address(result) if isinstance(result, Symbol) else None


def _word(warp: Warp, lane: int, place: int, size: int) -> int:
    """`size` bytes of a variable of one thread."""
    local = warp.cta.local_memory(warp)
    start = lane * warp.cta.image.local_bytes + place
    return int.from_bytes(local.data[start : start + size].tobytes(), "little")


def _text(warp: Warp, lane: int, address: int) -> str:
    """The C string at a generic address of one thread."""
    found, lanes = bytearray(), np.array([lane])
    while len(found) < _LONGEST:
        place = np.array([address + len(found)], np.int64)
        byte = warp.cta.load(warp, "generic", place, 1, lanes=lanes).tobytes()
        if byte == b"\0":
            break
        found += byte
    return found.decode(errors="backslashreplace")


def _print(d: Decoder) -> Execute:
    (form, values), result = _arguments(d, 2)

    def execute(warp: Warp) -> None:
        machine = warp.cta.machine
        machine.progress += 1
        for lane in warp.lanes():
            text = _formatted(warp, lane, _text(warp, lane, _word(warp, lane, form, 8)), _word(warp, lane, values, 8))
            machine.printed.append(text)
            if result is not None:
                start = lane * warp.cta.image.local_bytes + result
                warp.cta.local_memory(warp).data[start : start + 4] = np.frombuffer(struct.pack("<i", len(text)), np.uint8)

    return execute


def _formatted(warp: Warp, lane: int, form: str, base: int) -> str:
    """printf's conversions; in the buffer at the generic address `base`, each argument is aligned to its size."""
    offset, saved, lanes = 0, warp.active, np.array([lane])
    warp.active = np.arange(len(saved)) == lane

    def argument(size: int) -> bytes:
        nonlocal offset
        offset = -(-offset // size) * size
        place = np.arange(base + offset, base + offset + size, dtype=np.int64)
        offset += size
        return b"".join(warp.cta.load(warp, "generic", place[i : i + 1], 1, lanes=lanes).tobytes() for i in range(size))

    def convert(found: re.Match[str]) -> str:
        flags, width, precision, length, kind = found.groups()
        if kind == "%":
            return "%"
        sizes = [
            None if part is None else int.from_bytes(argument(4), "little", signed=True) if part == "*" else int(part)
            for part in (width, precision)
        ]
        if (widest := max((abs(size) for size in sizes if size is not None), default=0)) > _LONGEST:
            raise SimulationError(
                "unsupported", f"printf is asked for {widest:,} characters; the simulator prints up to {_LONGEST:,}"
            )
        # A negative precision counts as omitted (C, printf).
        columns, digits = sizes
        head = "%" + flags + ("" if columns is None else str(columns)) + ("" if digits is None or digits < 0 else f".{digits}")
        if kind in "fFeEgGaA":
            (value,) = struct.unpack("<d", argument(8))
            return float.hex(value) if kind in "aA" else str((head + kind) % value)
        if kind == "s":
            return (head + "s") % _text(warp, lane, int.from_bytes(argument(8), "little"))
        if kind == "p":
            return f"0x{int.from_bytes(argument(8), 'little'):x}"
        number = int.from_bytes(argument(8 if length in ("l", "ll", "z", "t", "j") else 4), "little", signed=kind in "di")
        return (head + "c") % (number & 0xFF) if kind == "c" else (head + kind.replace("u", "d").replace("i", "d")) % number

    try:
        return _CONVERSION.sub(convert, form)
    finally:
        warp.active = saved


def _assertion(d: Decoder) -> Execute:
    (message, file, line, function, _), _ = _arguments(d, 5)

    def execute(warp: Warp) -> None:
        lane = warp.lanes()[0]
        said, where, inside = (_text(warp, lane, _word(warp, lane, place, 8)) for place in (message, file, function))
        at = f"{where}:{_word(warp, lane, line, 4)}" + (f" in {inside}" if inside else "")
        raise SimulationError("trap", f"{warp.cta.name} warp {warp.index} lane {lane}: assertion `{said}` failed at {at}")

    return execute


_RUNTIME: dict[str, Meaning] = {"vprintf": _print, "__assertfail": _assertion}
