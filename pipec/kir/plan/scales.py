"""Block scales and narrow operands: how tiles of them are stored, and where scale factors are placed in tensor memory.

Tiles of 4- and 6-bit elements are stored packed for MMAs that read two e2m1 operands with block scales; all other MMAs read one element
per byte (16 elements in 16 bytes, data first), to which TMA unpacks them (hardware.md 2.1 and 3.4).
"""

from collections.abc import Iterator

from pipec.isa.dtypes import DType
from pipec.isa.scaling import CHUNK_BYTES, CHUNK_COLUMNS, CHUNK_ROWS, CHUNK_SCALES, ScaledKind, scaled_kind
from pipec.kir.ir import Kernel, Role
from pipec.kir.plan.roles import operations
from pipec.kir.plan.types import TileLayout
from pipec.sema import tree
from pipec.sema.tree import Buffer

# Tensor-map types that unpack 16 elements to 16 bytes, and the one that leaves 4-bit elements packed.
_UNPACKING = {4: "b4x16_p64", 6: "b6x16_p32"}
_CHUNK_WORD = "u32"
_WORD_BYTES = 4


def mmas(kernel: Kernel) -> list[tree.Mma]:
    return [operation for role in kernel.roles for operation in operations(role) if isinstance(operation, tree.Mma)]


def block_length(mma: tree.Mma) -> int | None:
    """Elements of K per scale factor; None if the tiles do not divide evenly."""
    assert mma.scale_a is not None
    depth = mma.a.buffer.rows if mma.a.transposed else mma.a.buffer.columns
    scales = mma.scale_a.buffer.columns
    return depth // scales if depth % scales == 0 else None


def kind_of(mma: tree.Mma) -> ScaledKind | None:
    """The kind of a block-scaled MMA; None for one without scales, or if the tiles match no kind."""
    if mma.scale_a is None:
        return None
    block = block_length(mma)
    return None if block is None else scaled_kind(mma.a.buffer.dtype, mma.b.buffer.dtype, mma.scale_a.buffer.dtype, block)


def reads_packed(mma: tree.Mma) -> bool:
    return mma.scale_a is not None and mma.a.buffer.dtype.name == mma.b.buffer.dtype.name == "e2m1"


def unpacked_tiles(kernel: Kernel) -> set[Buffer]:
    """Tiles of narrow elements that an MMA reads with one element per byte; 6-bit ones are always stored this way."""
    found = {buffer for buffer in kernel.buffers if buffer.dtype.bits in _UNPACKING and buffer.dtype.bits != 4}
    for mma in mmas(kernel):
        if not reads_packed(mma):
            found.update(operand.buffer for operand in (mma.a, mma.b) if operand.buffer.dtype.is_packed)
    return found


def stored_bits(buffer: Buffer, unpacked: set[Buffer]) -> int:
    """The size of an element in shared memory."""
    return 8 if buffer in unpacked else buffer.dtype.bits


def element_type(dtype: DType, unpacked: bool) -> str:
    """The element type of the tensor map."""
    if dtype.is_scale:
        return _CHUNK_WORD
    return _UNPACKING[dtype.bits] if unpacked else dtype.tensor_map or dtype.name


# ----------------------------------------------------------------------------------------------------------- scale tiles


def chunks(buffer: Buffer) -> tuple[int, int]:
    """The number of chunks of a scale tile: along its rows, and along K."""
    return buffer.rows // CHUNK_ROWS, buffer.columns // CHUNK_SCALES


def scale_layout(buffer: Buffer) -> TileLayout:
    """A sequence of chunks, with those along K adjacent."""
    along_rows, along_k = chunks(buffer)
    return TileLayout("none", CHUNK_BYTES, 1, along_rows * along_k)


def scale_box(buffer: Buffer, rank: int) -> tuple[int, ...]:
    """The box of the map over `[..., row chunks, K chunks, 512]`, the innermost in words: a box has at most 256 elements."""
    return (*(1,) * (rank - 3), *chunks(buffer), CHUNK_BYTES // _WORD_BYTES)


def scale_columns(kernel: Kernel, first: int) -> tuple[dict[tuple[str, Buffer], int], int]:
    """The first column of each scale tile in tensor memory, by the name of the role that multiplies with it, from column `first` on;
    and how many columns they occupy.

    The stages of a pipeline and the members of a group share them: copies and MMAs of one thread execute in issue order (hardware.md
    3.8), so that a copy overwrites only what earlier MMAs have read. Those of other roles are not ordered, so each role has its own.
    """
    found: dict[tuple[str, Buffer], int] = {}
    shared: dict[object, int] = {}
    column = first
    for role in kernel.roles:
        for buffer in _scale_tiles(role):
            key = (role.name, buffer.owner, buffer.member) if buffer.owner is not None else (role.name, buffer)
            if key not in shared:
                shared[key] = column
                along_rows, along_k = chunks(buffer)
                column += along_rows * along_k * CHUNK_COLUMNS
            found[role.name, buffer] = shared[key]
    return found, column - first


def _scale_tiles(role: Role) -> Iterator[Buffer]:
    found = (scale for one in operations(role) if isinstance(one, tree.Mma) for scale in (one.scale_a, one.scale_b))
    yield from dict.fromkeys(scale.buffer for scale in found if scale is not None)
