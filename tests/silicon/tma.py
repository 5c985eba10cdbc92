"""Tensor copies: loads in every swizzle, type, rank and position, stores, multicast, prefetch."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from silicon.program import CLUSTER_SYNC, Buffer, Map, Program, dump, fill, first_thread, generator, init, poison, wait

from pipec.sim import TensorMap

NUMPY = {"u8": "u1", "u16": "u2", "u32": "u4", "s32": "i4", "u64": "u8", "s64": "i8"} | {
    "f16": "u2", "bf16": "u2", "f32": "u4", "f32_ftz": "u4", "tf32": "u4", "tf32_ftz": "u4", "f64": "u8",
}  # fmt: skip
SWIZZLES = {"none": 48, "32B": 32, "64B": 64, "128B": 128}  # with the bytes of a box row


@dataclass(frozen=True)
class Case:
    """A copy of one box at `at` (dimension 0 first). Tensor and box shapes too; strides are those of a packed tensor with rows
    padded to 16 bytes unless given. `offset` moves the shared address by multiples of 128."""

    name: str
    dtype: str
    dims: tuple[int, ...]
    box: tuple[int, ...]
    at: tuple[int, ...]
    swizzle: str = "none"
    fill: str = "zero"
    steps: tuple[int, ...] | None = None
    offset: int = 0
    strides: tuple[int, ...] | None = None

    def map(self) -> TensorMap:
        size = np.dtype(NUMPY[self.dtype]).itemsize
        strides = [-(-self.dims[0] * size // 16) * 16]
        for extent in self.dims[1:-1]:
            strides.append(strides[-1] * extent)
        given = self.strides if self.strides is not None else tuple(strides[: len(self.dims) - 1])
        return TensorMap(self.dtype, self.dims, given, self.box, self.steps, self.swizzle, fill=self.fill)

    @property
    def tensor_bytes(self) -> int:
        tensor_map = self.map()
        row = -(-self.dims[0] * tensor_map.element.bits // 128) * 16
        return row + sum((extent - 1) * stride for extent, stride in zip(self.dims[1:], tensor_map.strides, strict=True))

    @property
    def shared_bytes(self) -> int:
        """What the box takes in shared memory behind `offset`, rows padded to the swizzle."""
        tensor_map = self.map()
        pitch = tensor_map.inner_bytes if self.swizzle == "none" else tensor_map.swizzle_mode.width
        rows = int(np.prod(tensor_map.box_shape[1:]))
        return -(-pitch * rows // 128) * 128


def tensor_data(case: Case) -> np.ndarray:
    """Random patterns, infinities, NaN and subnormal numbers among them."""
    return generator(case.name).integers(0, 256, case.tensor_bytes, np.uint8)


def coordinates(at: tuple[int, ...]) -> str:
    return "{" + ", ".join(map(str, at)) + "}"


def load(case: Case, data: np.ndarray | None = None, space: str = "shared::cluster") -> Program:
    """Poisons shared memory, loads one box, and keeps all of that memory."""
    tensor_map, rank = case.map(), len(case.dims)
    kept = case.offset + case.shared_bytes + 128
    copy = f"cp.async.bulk.tensor.{rank}d.{space}.global.tile.mbarrier::complete_tx::bytes [%r1], [%rd1, {coordinates(case.at)}], [%r0];"
    body = f"mov.u32 %r1, smem; add.u32 %r0, %r1, {kept}; add.u32 %r1, %r1, {case.offset};\n"
    body += "mov.b64 %rd1, p0; cvta.param.u64 %rd1, %rd1;\n" + poison(kept)
    body += first_thread(
        init("%r0", 1) + f"mbarrier.arrive.expect_tx.shared::cta.b64 %rd3, [%r0], {tensor_map.box_bytes};\n{copy}"
    )
    body += wait("%r0", 0) + dump(1, kept)
    source = tensor_data(case) if data is None else data
    return Program(
        f"tma_load_{case.name}", body, (Map(tensor_map, source), Buffer(np.zeros(kept, np.uint8), True)), shared=kept + 64
    )


def store(case: Case, operation: str = "", source: np.ndarray | None = None, old: np.ndarray | None = None) -> Program:
    """Stores (or with `operation` reduces) one box from shared memory into a tensor; the whole tensor is kept."""
    rank, count = len(case.dims), case.offset + case.shared_bytes
    random = generator(case.name)
    tensor = random.integers(0, 256, case.tensor_bytes, np.uint8) if old is None else old
    values = random.integers(0, 256, count, np.uint8) if source is None else source
    form = (
        f"cp.reduce.async.bulk.tensor.{rank}d.global.shared::cta.{operation}"
        if operation
        else f"cp.async.bulk.tensor.{rank}d.global.shared::cta"
    )
    body = (
        "mov.b64 %rd1, p0; cvta.param.u64 %rd1, %rd1;\n"
        + fill(1, count)
        + f"mov.u32 %r1, smem; add.u32 %r1, %r1, {case.offset};\n"
    )
    body += first_thread(
        f"{form}.tile.bulk_group [%rd1, {coordinates(case.at)}], [%r1];\ncp.async.bulk.commit_group; cp.async.bulk.wait_group 0;"
    )
    prefix = "tma_reduce" if operation else "tma_store"
    return Program(f"{prefix}_{case.name}", body, (Map(case.map(), tensor, True), Buffer(values)), shared=count)


def _swizzles() -> Iterator[Case]:
    for number, (swizzle, row) in enumerate(SWIZZLES.items()):
        for place, dtype in enumerate(("u8", "bf16", "f32", "u64")):
            size = np.dtype(NUMPY[dtype]).itemsize
            inner = row // size
            yield Case(
                f"{dtype}_{swizzle}",
                dtype,
                (inner * 2, 24),
                (inner, 9 + place),
                (16 // size * place, 3),
                swizzle,
                offset=128 * (number + place),
            )
    for swizzle, row in SWIZZLES.items():
        if swizzle != "none":
            # A row narrower than the swizzle keeps the swizzle's pitch.
            yield Case(f"narrow_{swizzle}", "u16", (64, 16), (8, 11), (8, 2), swizzle, offset=128)
            yield Case(f"three_dims_{swizzle}", "u16", (row, 7, 5), (row // 2, 3, 3), (8, 2, 1), swizzle, offset=384)


def _edges() -> Iterator[Case]:
    for swizzle, row in SWIZZLES.items():
        inner = row // 2
        yield Case(f"right_{swizzle}", "f16", (inner + 5, 9), (inner, 6), (8, 1), swizzle, "nan")
        yield Case(f"corner_{swizzle}", "bf16", (inner, 9), (inner, 6), (-8, -2), swizzle, "nan")
    yield Case("below", "u32", (16, 5), (16, 8), (0, 2))
    yield Case("outside", "f32", (16, 5), (16, 4), (16, 9), fill="nan")
    yield Case("far_negative", "u8", (64, 5), (32, 4), (-(1 << 31), -(1 << 31)))
    yield Case("far_positive", "u8", (64, 5), (32, 4), ((1 << 31) - 16, (1 << 31) - 1))
    yield Case("box_beyond_tensor", "f64", (3, 2), (8, 4), (0, 0), fill="nan")
    yield Case("fill_f32", "f32", (10, 4), (16, 6), (-4, -1), fill="nan")
    yield Case("fill_tf32", "tf32", (10, 4), (16, 6), (-4, -1), fill="nan")
    yield Case("odd_width", "u8", (37, 6), (48, 5), (16, 2))
    yield Case("four_dims_edges", "f16", (12, 5, 4, 3), (16, 3, 3, 2), (-8, 3, -1, 2), "32B", "nan")


def _ranks() -> Iterator[Case]:
    yield Case("rank_1", "u32", (300,), (256,), (40,))
    yield Case("rank_1_edge", "u16", (300,), (128,), (248,))
    yield Case("rank_3", "u16", (24, 6, 5), (16, 4, 3), (8, 1, 1))
    yield Case("rank_4", "u8", (48, 4, 3, 4), (32, 2, 2, 3), (16, 1, 1, 0), "32B")
    yield Case("rank_5", "u32", (8, 3, 4, 3, 3), (8, 2, 2, 2, 2), (0, 1, 1, 1, 0), "32B")
    yield Case("rank_5_edges", "u32", (8, 3, 4, 3, 3), (4, 2, 2, 2, 3), (4, -1, 3, 2, 1))
    yield Case("steps_2", "u16", (32, 30), (32, 16), (0, 3), steps=(1, 2))
    yield Case("steps_3_swizzled", "u16", (32, 30), (32, 16), (0, 5), "64B", steps=(1, 3), fill="zero")
    yield Case("steps_edge", "f16", (16, 21), (16, 24), (0, -4), steps=(1, 8), fill="nan")
    yield Case("steps_dim_0", "u16", (64, 9), (32, 4), (8, 1), steps=(2, 1))
    yield Case("steps_3d", "u32", (12, 9, 8), (8, 7, 5), (4, 1, 1), steps=(1, 3, 2))
    yield Case("broadcast", "u16", (32, 8), (32, 5), (0, 1), strides=(0,))
    yield Case("overlapping_rows", "u16", (32, 6), (32, 5), (0, 1), strides=(16,))


def _conversions() -> Iterator[Program]:
    special = [
        0x3F801000,
        0x3F803000,
        0x3F800FFF,
        0x3F801001,
        0x7F7FFFFF,
        0x7F800000,
        0xFF800000,
        0x7F800001,
        0x7FC00001,
        1,
        0x007FFFFF,
    ]
    special += [0x80000001, 0x00800000, 0x80000000, 0xFFC00000, 0x00000FFF, 0x00001001, 0x3F7FFFFF]
    for dtype in ("f32", "f32_ftz", "tf32", "tf32_ftz"):
        random = generator(dtype).integers(0, 1 << 32, 128, np.uint32)
        random[: len(special)] = special
        yield load(Case(f"values_{dtype}", dtype, (32, 4), (32, 4), (0, 0), "128B"), random)


def _stores() -> Iterator[Case]:
    for swizzle, row in SWIZZLES.items():
        yield Case(f"{swizzle}", "u16", (row, 14), (row // 2, 9), (8, 3), swizzle, offset=256)
        yield Case(f"edge_{swizzle}", "bf16", (row // 2 + 8, 7), (row // 2, 9), (8, 2), swizzle, offset=128)
    yield Case("narrow", "u16", (64, 16), (8, 11), (8, 2), "128B")
    yield Case("past_odd_edge", "u8", (37, 6), (48, 5), (16, 2))
    yield Case("rank_1", "u64", (100,), (64,), (30,))
    yield Case("rank_3", "u16", (24, 6, 5), (16, 4, 3), (8, 3, 3))
    yield Case("rank_4", "u8", (48, 4, 3, 4), (32, 2, 2, 3), (16, 3, 1, 2), "32B")
    yield Case("rank_5", "u32", (8, 3, 4, 3, 3), (8, 2, 2, 2, 2), (0, 2, 1, 1, 2), "32B")
    yield Case("outside", "u32", (16, 5), (16, 4), (16, 9))
    yield Case("steps", "u16", (32, 30), (32, 16), (0, 3), steps=(1, 3))
    yield Case("tf32", "tf32", (8, 6), (8, 4), (0, 1))
    yield Case("f32_ftz", "f32_ftz", (8, 6), (8, 4), (0, 1))


def multicast(ctas: int, mask: int, issuer: int, rows: int = 6) -> Program:
    """One CTA of a cluster loads a box into those of the mask; all keep their shared memory."""
    case = Case(f"multicast_{ctas}_{mask:04b}_by_{issuer}", "u16", (64, 16), (32, rows), (16, 3), "64B", offset=128)
    kept = case.offset + case.shared_bytes + 128
    body = f"mov.u32 %r1, smem; add.u32 %r0, %r1, {kept}; add.u32 %r1, %r1, {case.offset}; mov.u32 %r9, %cluster_ctarank;\n"
    body += (
        f"mov.b64 %rd1, p0; cvta.param.u64 %rd1, %rd1; mov.u32 %r10, {mask}; shr.u32 %r10, %r10, %r9; and.b32 %r10, %r10, 1;\n"
    )
    body += "setp.eq.u32 %p5, %r10, 1;\n" + poison(kept)
    body += (
        first_thread(init("%r0", 1) + f"@%p5 mbarrier.arrive.expect_tx.shared::cta.b64 %rd3, [%r0], {case.map().box_bytes};")
        + CLUSTER_SYNC
    )
    copy = "cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes.multicast::cluster"
    body += first_thread(
        f"setp.eq.u32 %p6, %r9, {issuer}; mov.u16 %h1, {mask}; @%p6 {copy} [%r1], [%rd1, {coordinates(case.at)}], [%r0], %h1;"
    )
    body += "@!%p5 bra elsewhere;\n" + wait("%r0", 0) + "elsewhere:\n" + dump(1, kept) + CLUSTER_SYNC
    arguments = (Map(case.map(), tensor_data(case)), Buffer(np.zeros(kept * ctas, np.uint8), True))
    return Program(f"tma_{case.name}", body, arguments, grid=(ctas, 1, 1), cluster=(ctas, 1, 1), shared=kept + 64)


def _prefetches() -> Program:
    """Prefetches of a tensor's box and of bytes change nothing that can be seen, before or after a load of the same box."""
    plain = load(Case("prefetched", "u16", (64, 16), (32, 6), (16, 3), "64B"))
    line = "mov.b64 %rd1, p0; cvta.param.u64 %rd1, %rd1;\n"
    more = "cp.async.bulk.prefetch.tensor.2d.L2.global.tile [%rd1, {16, 3}]; prefetch.tensormap [%rd1];\n"
    more += "ld.param.u64 %rd9, [p1]; cp.async.bulk.prefetch.L2.global [%rd9], 256; prefetch.global.L2 [%rd9];\n"
    assert line in plain.body
    return Program(plain.name, plain.body.replace(line, line + more), plain.arguments, shared=plain.shared)


def programs() -> Iterator[Program]:
    for case in (*_swizzles(), *_edges(), *_ranks()):
        yield load(case)
    yield load(Case("own_cta_form", "u16", (64, 16), (32, 6), (16, 3), "64B"), space="shared::cta")
    yield from _conversions()
    for case in _stores():
        yield store(case)
    yield multicast(2, 0b11, 0)
    yield multicast(2, 0b10, 0)
    yield multicast(2, 0b01, 1)
    yield multicast(4, 0b1111, 2)
    yield multicast(4, 0b1010, 0)
    yield _prefetches()
