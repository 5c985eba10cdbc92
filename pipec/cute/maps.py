"""Tensor maps as the host code of CuTe DSL writes them, in the format of the hardware, which is not documented.

What is known of it was read off maps of known properties, and a map with anything else in it is not taken for one: the copy that uses
it is refused. Words of 32 bits: 0 and 1 are the address; 2 has the rank, the element type and the swizzle (numbered as for
`tensormap.replace`, but tf32 is f32 with a bit of its own, and packed types stand in the place of its numbers); from 3 on stand strides
in units of 16 bytes, from 8 on sizes less one; then the box less one in single bytes.
"""

import struct

from pipec.sim import TensorMap
from pipec.sim.units.copies.tensormap import REPLACED_SWIZZLES, REPLACED_TYPES

_TYPES = (*REPLACED_TYPES[: REPLACED_TYPES.index("tf32")], "b4x16", "b4x16_p64", "b6x16_p32")
_FIELDS = (4, 7), (7, 15), (13, 3)  # of word 2, rank less one, type and swizzle: lowest bit and mask
_FIXED = 0x40002  # of word 2, the only value seen of the bits outside these fields
_TF32 = 1 << 16  # of word 2, only seen with f32
_LARGE = 1 << 21  # of word 2, set for tensors of 128 KiB or more; copies move the same bytes
_BOX, _MOST = 55, 5  # the first byte of the box; dimensions


def decoded(data: bytes) -> TensorMap | None:
    """None if these 128 bytes are no map, or have properties beyond those above."""
    words = struct.unpack_from("<16I", data)
    kind = words[2]
    rank, type_, swizzle = (kind >> low & mask for low, mask in _FIELDS)
    rest = kind & ~sum(mask << low for low, mask in _FIELDS) & ~(_LARGE | _TF32)
    box = data[_BOX : _BOX + _MOST]
    rank += 1
    if rest != _FIXED or rank > _MOST or type_ >= len(_TYPES) or words[13] & 0xFFFFFF or words[15]:
        return None
    dtype = _TYPES[type_]
    if kind & _TF32:
        if dtype != "f32":
            return None
        dtype = "tf32"
    return TensorMap(
        dtype,
        tuple(size + 1 for size in words[8 : 8 + rank]),
        tuple(16 * stride for stride in words[3 : 2 + rank]),
        tuple(size + 1 for size in box[:rank]),
        None,
        REPLACED_SWIZZLES[swizzle],
        address=words[0] | words[1] << 32,
    )
