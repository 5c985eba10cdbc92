"""Instruction descriptors and shared-memory matrix descriptors, decoded bit by bit (PTX ISA 9.7.16.4)."""

from __future__ import annotations

from functools import cache, lru_cache
from typing import Final, Literal

from pipec.record import record

from ..errors import UnitError
from ..swizzle import SwizzleName

_F8F6F4 = {0: "e4m3", 1: "e5m2", 3: "e2m3", 4: "e3m2", 5: "e2m1"}


@record
class Kind:
    """What one `.kind` allows.

    k               elements of K per dense instruction (always 32 bytes)
    element_bytes   shared-memory container of one operand element; packed fp4 kinds count bytes of two elements
    types, results  type code -> format name for A/B and for D
    scale_blocks    scale_vec (1, 2, 4) -> scale formats allowed; empty when the kind has no block scaling
    """

    k: int
    element_bytes: int
    types: dict[int, str]
    results: dict[int, str]
    scale_blocks: dict[int, tuple[str, ...]]

    @property
    def block_scaled(self) -> bool:
        return bool(self.scale_blocks)


MmaKind = Literal["f16", "tf32", "f8f6f4", "i8", "mxf8f6f4", "mxf4", "mxf4nvf4"]
KINDS: dict[MmaKind, Kind] = {
    "f16": Kind(16, 2, {0: "f16", 1: "bf16"}, {0: "f16", 1: "f32"}, {}),
    "tf32": Kind(8, 4, {2: "tf32"}, {1: "f32"}, {}),
    "f8f6f4": Kind(32, 1, _F8F6F4, {0: "f16", 1: "f32"}, {}),
    "i8": Kind(32, 1, {0: "u8", 1: "s8"}, {2: "s32"}, {}),
    "mxf8f6f4": Kind(32, 1, _F8F6F4, {}, {1: ("ue8m0",)}),
    "mxf4": Kind(64, 1, {1: "e2m1"}, {}, {2: ("ue8m0",)}),
    "mxf4nvf4": Kind(64, 1, {1: "e2m1"}, {}, {2: ("ue8m0",), 4: ("ue8m0", "ue4m3")}),
}

_DEFAULT_SCALE_VECTOR = {"mxf8f6f4": 1, "mxf4": 2}


@record
class InstructionDescriptor:
    """A decoded and checked instruction descriptor.  M and N are totals over the CTA pair for cta_group 2."""

    kind: MmaKind
    cta_group: int
    m: int
    n: int
    k: int
    a_format: str
    b_format: str
    d_format: str
    negate_a: bool
    negate_b: bool
    a_mn_major: bool
    b_mn_major: bool
    saturate: bool = False
    sparse: bool = False
    sparsity_selector: int = 0
    maximum_shift: int = 0
    scale_format: str | None = None
    scale_vector: int = 0
    scale_a_id: int = 0
    scale_b_id: int = 0

    @property
    def stored_k(self) -> int:
        """Stored elements in a row of A: half of K where A is sparse."""
        return self.k // 2 if self.sparse else self.k


@record
class MatrixDescriptor:
    """A decoded shared-memory matrix descriptor; byte quantities, CTA-relative start address.

    layout   key of operands.LAYOUTS: "none", "128B_ATOM_32B", "128B", "64B", "32B"
    """

    start: int
    leading_offset: int
    stride_offset: int
    layout: SwizzleName
    base_offset: int = 0


def _bits(word: int, low: int, high: int) -> int:
    """Bits low..high of `word`, both included."""
    return word >> low & ((1 << (high - low + 1)) - 1)


@lru_cache(maxsize=256)
def decode_instruction_descriptor(
    idesc: int,
    kind: MmaKind,
    cta_group: int = 1,
    scale_vector: int | None = None,
    weight_stationary: bool = False,
    sparse: bool = False,
) -> InstructionDescriptor:
    """Decode the 32 bits and check reserved bits, type codes and the shape against the kind.

    scale_vector is 1, 2 or 4 (.scale_vec::NX; block32 is 1 or 2, block16 is 4); None takes the kind's default. UnitError "illegal" for
    reserved bits, type codes and shapes; "unsupported" for features that this model lacks.
    """
    if kind not in KINDS:
        raise UnitError("unsupported", f"tcgen05.mma kind {kind!r} is none of {', '.join(KINDS)}")
    if cta_group not in (1, 2):
        raise UnitError("illegal", f"cta_group {cta_group} is neither 1 nor 2")
    if not 0 <= idesc < 1 << 32:
        raise UnitError("illegal", f"instruction descriptor {idesc:#x} has more than 32 bits")
    if weight_stationary and (cta_group != 1 or KINDS[kind].block_scaled):
        raise UnitError(
            "illegal", f"tcgen05.mma.ws with kind {kind} and cta_group {cta_group}: needs an unscaled kind and cta_group 1"
        )
    if bool(_bits(idesc, 2, 2)) != sparse:
        raise UnitError("illegal", f"sparse bit of {idesc:#010x} is {_bits(idesc, 2, 2)}, the instruction is .sp: {sparse}")
    decoder = _DECODERS[kind]
    descriptor = decoder(idesc, kind, cta_group, scale_vector, weight_stationary)
    _check_shape(descriptor, weight_stationary)
    return descriptor


def _require_zero(idesc: int, kind: MmaKind, *ranges: tuple[int, int]) -> None:
    for low, high in ranges:
        value = _bits(idesc, low, high)
        if value:
            raise UnitError(
                "illegal", f"instruction descriptor {idesc:#010x} for kind {kind}: bits {low}-{high} are {value}, must be 0"
            )


def _type_name(table: dict[int, str], code: int, which: str, kind: MmaKind) -> str:
    if code not in table:
        known = ", ".join(f"{number}={name}" for number, name in table.items())
        raise UnitError("illegal", f"type code {code} of {which} is not defined for kind {kind} ({known})")
    return table[code]


def _decode_plain(
    idesc: int, kind: MmaKind, cta_group: int, scale_vector: int | None, weight_stationary: bool
) -> InstructionDescriptor:
    """Kinds f16, tf32, f8f6f4, i8."""
    if scale_vector is not None:
        raise UnitError("illegal", f"kind {kind} has no block scaling, got scale_vec {scale_vector}X")
    rules = KINDS[kind]
    _require_zero(idesc, kind, (6, 6), (23, 23), (29, 29))
    if not weight_stationary:
        _require_zero(idesc, kind, (30, 31))
    if kind != "i8":
        _require_zero(idesc, kind, (3, 3))
    else:
        _require_zero(idesc, kind, (13, 14))
    if not _bits(idesc, 2, 2) or kind in ("f8f6f4", "i8"):
        _require_zero(idesc, kind, (0, 1))
    descriptor = InstructionDescriptor(
        kind=kind,
        cta_group=cta_group,
        m=_bits(idesc, 24, 28) << 4,
        n=_bits(idesc, 17, 22) << 3,
        k=rules.k << _bits(idesc, 2, 2),
        a_format=_type_name(rules.types, _bits(idesc, 7, 9), "A", kind),
        b_format=_type_name(rules.types, _bits(idesc, 10, 12), "B", kind),
        d_format=_type_name(rules.results, _bits(idesc, 4, 5), "D", kind),
        negate_a=bool(_bits(idesc, 13, 13)),
        negate_b=bool(_bits(idesc, 14, 14)),
        a_mn_major=bool(_bits(idesc, 15, 15)),
        b_mn_major=bool(_bits(idesc, 16, 16)),
        saturate=bool(_bits(idesc, 3, 3)),
        sparse=bool(_bits(idesc, 2, 2)),
        sparsity_selector=_bits(idesc, 0, 1),
        maximum_shift=_bits(idesc, 30, 31),
    )
    if descriptor.d_format == "f16" and "bf16" in (descriptor.a_format, descriptor.b_format):
        raise UnitError("illegal", "an f16 result (D code 0) is not defined for bf16 operands (type code 1)")
    return descriptor


def _scale_rules(kind: MmaKind, scale_vector: int | None) -> tuple[int, tuple[str, ...]]:
    blocks = KINDS[kind].scale_blocks
    if scale_vector is None:
        scale_vector = _DEFAULT_SCALE_VECTOR.get(kind)
    if scale_vector not in blocks:
        known = ", ".join(f"{number}X" for number in blocks)
        raise UnitError("illegal", f"kind {kind} takes scale_vec {known}, got {scale_vector}")
    return scale_vector, blocks[scale_vector]


def _decode_scaled(
    idesc: int, kind: MmaKind, cta_group: int, scale_vector: int | None, weight_stationary: bool
) -> InstructionDescriptor:
    """Kinds mxf8f6f4, mxf4, mxf4nvf4."""
    rules = KINDS[kind]
    count, formats = _scale_rules(kind, scale_vector)
    _require_zero(idesc, kind, (0, 1), (3, 3), (6, 6), (24, 26))
    narrow = kind == "mxf8f6f4"
    if narrow:
        _require_zero(idesc, kind, (31, 31))
    else:
        _require_zero(idesc, kind, (12, 12), (15, 16))
        if _bits(idesc, 31, 31):
            raise UnitError("unsupported", "K = 96 (bit 31 set) exists only on sm_103a; sm_100a has K = 64")
    scale_format = "ue8m0" if _bits(idesc, 23, 23) else "ue4m3"
    if scale_format not in formats:
        raise UnitError(
            "illegal", f"scale type {scale_format} (bit 23) with kind {kind} scale_vec {count}X, allowed: {', '.join(formats)}"
        )
    descriptor = InstructionDescriptor(
        kind=kind,
        cta_group=cta_group,
        m=_bits(idesc, 27, 28) << 7,
        n=_bits(idesc, 17, 22) << 3,
        k=rules.k << _bits(idesc, 2, 2),
        a_format=_type_name(rules.types, _bits(idesc, 7, 9), "A", kind),
        b_format=_type_name(rules.types, _bits(idesc, 10, 12 if narrow else 11), "B", kind),
        d_format="f32",
        negate_a=bool(_bits(idesc, 13, 13)),
        negate_b=bool(_bits(idesc, 14, 14)),
        a_mn_major=bool(_bits(idesc, 15, 15)),
        b_mn_major=bool(_bits(idesc, 16, 16)),
        sparse=bool(_bits(idesc, 2, 2)),
        scale_format=scale_format,
        scale_vector=count,
        scale_a_id=_bits(idesc, 29, 30),
        scale_b_id=_bits(idesc, 4, 5),
    )
    for name, value in (("A", descriptor.scale_a_id), ("B", descriptor.scale_b_id)):
        if value % count:
            raise UnitError("illegal", f"scale factor id {value} of {name} is no multiple of {count} as scale_vec {count}X needs")
    return descriptor


_DECODERS = {kind: _decode_scaled if rules.block_scaled else _decode_plain for kind, rules in KINDS.items()}

# kind group -> cta_group -> (allowed M, N step and minimum); PTX ISA table 39, dense rows.
_WIDE_M = {1: (64, 128), 2: (128, 256)}
_SCALED_M = {1: (128,), 2: (128, 256)}
_WEIGHT_STATIONARY_M = (32, 64, 128)
_WEIGHT_STATIONARY_N = (64, 128, 256)


def _check_shape(descriptor: InstructionDescriptor, weight_stationary: bool) -> None:
    kind, m, n, group = descriptor.kind, descriptor.m, descriptor.n, descriptor.cta_group
    scaled = KINDS[kind].block_scaled
    rows = _WEIGHT_STATIONARY_M if weight_stationary else (_SCALED_M if scaled else _WIDE_M)[group]
    if scaled and descriptor.sparse:
        rows = rows[-1:]
    if m not in rows:
        raise UnitError("illegal", f"M = {m} for kind {kind} with cta_group {group}; allowed: {', '.join(map(str, rows))}")
    columns = _WEIGHT_STATIONARY_N[: 2 if descriptor.sparse else 3] if weight_stationary else _allowed_n(kind, group)
    if n not in columns:
        raise UnitError("illegal", f"N = {n} for kind {kind} with cta_group {group}; allowed: {_shorten(columns)}")
    byte_sized = KINDS[kind].element_bytes == 1
    if descriptor.b_mn_major and byte_sized and n % (16 * group):
        raise UnitError("illegal", f"N = {n} with an MN-major 8-bit B is no multiple of {16 * group}")
    if descriptor.sparse and weight_stationary and m != 128:
        raise UnitError("unsupported", f"sparse tcgen05.mma of weight-stationary M = {m} is not modelled")


@cache
def _allowed_n(kind: MmaKind, cta_group: int) -> tuple[int, ...]:
    if kind == "i8":
        return (8, 16, 24, *range(32, 257, 16)) if cta_group == 1 else tuple(range(32, 257, 32))
    step = 8 * cta_group
    return tuple(range(step, 257, step))


def _shorten(values: tuple[int, ...]) -> str:
    if len(values) < 6:
        return ", ".join(map(str, values))
    return f"{values[0]}, {values[1]}, {values[2]} .. {values[-1]}"


_LAYOUT_NAMES: Final[dict[int, SwizzleName]] = {0: "none", 1: "128B_ATOM_32B", 2: "128B", 4: "64B", 6: "32B"}


@lru_cache(maxsize=4096)
def decode_matrix_descriptor(descriptor: int) -> MatrixDescriptor:
    """Decode the 64 bits; UnitError for reserved bits, unknown layouts and features that sm_100a lacks."""
    if not 0 <= descriptor < 1 << 64:
        raise UnitError("illegal", f"matrix descriptor {descriptor:#x} has more than 64 bits")
    text = f"matrix descriptor {descriptor:#018x}"
    for low, high in ((14, 15), (30, 31), (53, 60)):
        value = _bits(descriptor, low, high)
        if value:
            raise UnitError("illegal", f"{text}: bits {low}-{high} are {value}, must be 0")
    constant = _bits(descriptor, 46, 48)
    if constant != 1:
        raise UnitError("illegal", f"{text}: bits 46-48 are {constant}, must be 1")
    layout = _bits(descriptor, 61, 63)
    if layout not in _LAYOUT_NAMES:
        raise UnitError("illegal", f"{text}: layout {layout} is none of {', '.join(map(str, _LAYOUT_NAMES))}")
    base_offset = _bits(descriptor, 49, 51)
    # It shifts the phase of a swizzle and has no meaning without one.
    if base_offset and _LAYOUT_NAMES[layout] != "none":
        raise UnitError("unsupported", f"{text}: base offset {base_offset} is not modelled, only 0")
    if _bits(descriptor, 52, 52):
        raise UnitError(
            "unsupported", f"{text}: bit 52 is 1; an absolute leading-dimension address exists only on sm_103a, 0 on sm_100a"
        )
    return MatrixDescriptor(
        start=_bits(descriptor, 0, 13) << 4,
        leading_offset=_bits(descriptor, 16, 29) << 4,
        stride_offset=_bits(descriptor, 32, 45) << 4,
        layout=_LAYOUT_NAMES[layout],
    )
