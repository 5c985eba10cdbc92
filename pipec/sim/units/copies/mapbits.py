"""Tensor maps as bytes: 128 bytes, of which only the first 64 matter (measured: copies ignore the others).

The hardware's format is opaque, so the models use their own: a word for the kind, bit fields, a checksum.
"""

from __future__ import annotations

import zlib
from collections.abc import Mapping, Sequence

from ..errors import UnitError

MAP_BYTES = 128
MEANT_BYTES = 64
_CHECKSUM = 4

Fields = dict[str, tuple[int, ...]]


class Layout:
    """Fields in order, lowest bit first: each has a number of entries of equal width."""

    def __init__(self, kind: bytes, fields: Mapping[str, tuple[int, int]]) -> None:
        """`fields`: name -> (entries, bits of each)."""
        self.kind, self.fields = kind, dict(fields)
        if 8 * len(kind) + sum(entries * bits for entries, bits in self.fields.values()) > 8 * (MEANT_BYTES - _CHECKSUM):
            raise ValueError("the fields of a tensor map do not fit")

    def matches(self, data: bytes) -> bool:
        return data[: len(self.kind)] == self.kind

    def pack(self, values: Mapping[str, Sequence[int]]) -> bytes:
        """Missing entries are zero. UnitError "illegal" for a value that its field cannot hold."""
        word, place = 0, 0
        for name, (entries, bits) in self.fields.items():
            given = values.get(name, ())
            for value in (*given, *(0,) * (entries - len(given))):
                if not 0 <= value < 1 << bits:
                    raise UnitError("illegal", f"tensor map: {name} cannot be {value}")
                word |= value << place
                place += bits
        body = self.kind + word.to_bytes(MEANT_BYTES - _CHECKSUM - len(self.kind), "little")
        return (body + zlib.crc32(body).to_bytes(_CHECKSUM, "little")).ljust(MAP_BYTES, b"\0")

    def unpack(self, data: bytes) -> Fields:
        """UnitError "illegal" for bytes that `pack` did not write; bytes beyond `MEANT_BYTES` are ignored."""
        if len(data) not in (MEANT_BYTES, MAP_BYTES):
            raise UnitError("illegal", f"a tensor map has {MAP_BYTES} bytes, got {len(data)}")
        if not self.matches(data):
            raise UnitError("illegal", f"no tensor map at this address: starts with {data[:8].hex()}, expected {self.kind.hex()}")
        body, stored = data[: MEANT_BYTES - _CHECKSUM], int.from_bytes(data[MEANT_BYTES - _CHECKSUM : MEANT_BYTES], "little")
        if stored != zlib.crc32(body):
            raise UnitError("illegal", f"tensor map was overwritten: checksum {zlib.crc32(body):#x}, stored {stored:#x}")
        word, found = int.from_bytes(body[len(self.kind) :], "little"), {}
        for name, (entries, bits) in self.fields.items():
            found[name] = tuple(word >> bits * entry & (1 << bits) - 1 for entry in range(entries))
            word >>= bits * entries
        return found
