"""Reductions by the copy engine (tensor, bulk to global memory, bulk to another CTA) and plain bulk copies."""

from collections.abc import Iterator

import numpy as np
from silicon import tma
from silicon.program import CLUSTER_SYNC, Buffer, Program, dump, fill, first_thread, generator, init, poison, wait

INTEGERS = ("u32", "s32", "u64", "s64")
# PTX ISA 9.7.9.25.5.3: the operations of a tensor reduction and the map types they take.
TENSOR = {
    "add": ("u32", "s32", "u64", "f16", "bf16", "f32", "f32_ftz", "tf32"),
    "min": (*INTEGERS, "f16", "bf16"),
    "max": (*INTEGERS, "f16", "bf16"),
    "inc": ("u32",),
    "dec": ("u32",),
    "and": ("u32", "u64"),
    "or": ("u32", "u64"),
    "xor": ("u32", "u64"),
}
BULK = {
    "add": ("u32", "s32", "u64", "noftz.f16", "noftz.bf16", "f32", "f64"),
    "min": (*INTEGERS, "f16", "bf16"),
    "max": (*INTEGERS, "f16", "bf16"),
    "inc": ("u32",),
    "dec": ("u32",),
    "and": ("b32", "b64"),
    "or": ("b32", "b64"),
    "xor": ("b32", "b64"),
}
CLUSTER = {
    "add": ("u32", "s32", "u64"),
    "min": ("u32", "s32"),
    "max": ("u32", "s32"),
    "inc": ("u32",),
    "dec": ("u32",),
    "and": ("b32",),
    "or": ("b32",),
    "xor": ("b32",),
}
_WIDTH = {"f16": "u2", "bf16": "u2", "u64": "u8", "s64": "u8", "b64": "u8", "f64": "u8"}
_SPECIAL = {
    "f16": [0x7C00, 0xFC00, 0x7E00, 0x7D01, 0, 0x8000, 1, 0x8001, 0x7BFF, 0x3C00, 0xBC00, 0x0400],
    "bf16": [0x7F80, 0xFF80, 0x7FC0, 0x7F81, 0, 0x8000, 1, 0x8001, 0x7F7F, 0x3F80, 0xBF80, 0x0080],
    "f32": [
        0x7F800000,
        0xFF800000,
        0x7FC00000,
        0x7F800001,
        0,
        0x80000000,
        1,
        0x80000001,
        0x7F7FFFFF,
        0x3F800000,
        0x00800000,
        0x33800000,
    ],
    "f64": [0x7FF << 52, 0xFFF << 52, 0x7FF8 << 48, 0, 1 << 63, 1, (0x7FF << 52) - 1, 0x3FF << 52, 1 << 52],
}


def pair(name: str, dtype: str, count: int) -> tuple[np.ndarray, np.ndarray]:
    """Old and new elements: special values against each other, near equal ones, random patterns, ordinary numbers."""
    random, kind = generator(name), dtype.split(".")[-1]
    storage = np.dtype(_WIDTH.get(kind, "u4"))
    found = [random.integers(0, 1 << 63, count, np.uint64).astype(storage) for _ in range(2)]
    base = kind.removesuffix("_ftz").replace("tf32", "f32")
    special = _SPECIAL.get(base)
    if special is None:
        found[0][: count // 4] = random.integers(0, 5, count // 4)
        found[1][: count // 4] = random.integers(0, 5, count // 4)
        return found[0], found[1]
    found[0][: count // 2] = np.resize(np.array(special, storage), count // 2)
    found[1][: count // 2] = random.permutation(found[0][: count // 2])
    if base in ("f32", "f64"):
        ordinary = np.float32 if base == "f32" else np.float64
        for array in found:
            array[-count // 4 :] = random.normal(0, 3, count // 4).astype(ordinary).view(storage)
    return found[0], found[1]


def _tensor(operation: str, dtype: str) -> Program:
    elements = 128 // np.dtype(tma.NUMPY[dtype]).itemsize
    case = tma.Case(f"{operation}_{dtype}", dtype, (elements, 10), (elements, 8), (0, 1), "128B")
    old, new = pair(case.name, dtype, elements * 10)
    return tma.store(case, operation, new[: elements * 8].view(np.uint8), old.view(np.uint8))


def _clipped(operation: str, dtype: str) -> Program:
    case = tma.Case(f"edge_{operation}_{dtype}", dtype, (20, 5), (16, 4), (8, 3), "none")
    return tma.store(case, operation)


def _to_global(operation: str, dtype: str, size: int = 1024) -> Program:
    name = f"bulk_reduce_{operation}_{dtype.split('.')[-1]}"
    old, new = pair(name, dtype, size // np.dtype(_WIDTH.get(dtype.split(".")[-1], "u4")).itemsize)
    body = (
        fill(1, size)
        + "mov.u32 %r1, smem; ld.param.u64 %rd1, [p0];\n"
        + first_thread(
            f"cp.reduce.async.bulk.global.shared::cta.bulk_group.{operation}.{dtype} [%rd1], [%r1], {size};\n"
            "cp.async.bulk.commit_group; cp.async.bulk.wait_group 0;"
        )
    )
    return Program(name, body, (Buffer(old, True), Buffer(new)), shared=size)


def _to_cluster(operation: str, dtype: str, size: int = 512) -> Program:
    """CTA 1 reduces into the shared memory of CTA 0."""
    name = f"bulk_reduce_cluster_{operation}_{dtype}"
    old, new = pair(name, dtype, size // np.dtype(_WIDTH.get(dtype, "u4")).itemsize)
    form = f"cp.reduce.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes.{operation}.{dtype}"
    body = (
        fill(0, size, each_cta=True)
        + "mov.u32 %r1, smem; mov.u32 %r9, %cluster_ctarank; setp.eq.u32 %p5, %r9, 1; setp.eq.u32 %p6, %r9, 0;\n"
    )
    body += (
        first_thread(init(f"%r1+{size}", 1) + f"@%p6 mbarrier.arrive.expect_tx.shared::cta.b64 %rd3, [%r1+{size}], {size};")
        + CLUSTER_SYNC
    )
    body += first_thread(
        f"mapa.shared::cluster.u32 %r2, %r1, 0; add.u32 %r3, %r2, {size};\n@%p5 {form} [%r2], [%r1], {size}, [%r3];"
    )
    body += "@!%p6 bra elsewhere;\n" + wait(f"%r1+{size}", 0) + "elsewhere:\n" + CLUSTER_SYNC + dump(1, size)
    arguments = (Buffer(np.concatenate([old, new])), Buffer(np.zeros(2 * size, np.uint8), True))
    return Program(name, body, arguments, grid=(2, 1, 1), cluster=(2, 1, 1), shared=size + 64)


# ---- plain bulk copies


def _load(size: int, given: int) -> Program:
    """A size that is no multiple of 16 is rounded down."""
    name, kept = f"bulk_load_{given}", size + 64
    data = generator(name).integers(0, 256, max(size, 16), np.uint8)
    copy = "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r1], [%rd1], %r4, [%r0];"
    body = f"mov.u32 %r1, smem; add.u32 %r0, %r1, {kept}; ld.param.u64 %rd1, [p0]; mov.u32 %r4, {given};\n" + poison(kept)
    body += first_thread(init("%r0", 1) + f"mbarrier.arrive.expect_tx.shared::cta.b64 %rd3, [%r0], {given // 16 * 16};\n{copy}")
    body += wait("%r0", 0) + dump(1, kept)
    return Program(name, body, (Buffer(data), Buffer(np.zeros(kept, np.uint8), True)), shared=kept + 64)


def _store(size: int, given: int) -> Program:
    name = f"bulk_store_{given}"
    data = generator(name).integers(0, 256, size, np.uint8)
    body = (
        fill(1, size)
        + f"mov.u32 %r1, smem; ld.param.u64 %rd1, [p0]; mov.u32 %r4, {given};\n"
        + first_thread(
            "cp.async.bulk.global.shared::cta.bulk_group [%rd1], [%r1], %r4;\n"
            "cp.async.bulk.commit_group; cp.async.bulk.wait_group.read 0;\n"
            "cp.async.bulk.wait_group 0;"
        )
    )
    return Program(name, body, (Buffer(np.full(size, 0xA5, np.uint8), True), Buffer(data)), shared=size)


def _multicast(ctas: int, mask: int, issuer: int, size: int = 256) -> Program:
    name, kept = f"bulk_multicast_{ctas}_{mask:04b}_by_{issuer}", size + 64
    body = f"mov.u32 %r1, smem; add.u32 %r0, %r1, {kept}; mov.u32 %r9, %cluster_ctarank; ld.param.u64 %rd1, [p0];\n"
    body += f"mov.u32 %r10, {mask}; shr.u32 %r10, %r10, %r9; and.b32 %r10, %r10, 1; setp.eq.u32 %p5, %r10, 1;\n" + poison(kept)
    body += first_thread(init("%r0", 1) + f"@%p5 mbarrier.arrive.expect_tx.shared::cta.b64 %rd3, [%r0], {size};") + CLUSTER_SYNC
    copy = "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster"
    body += first_thread(f"setp.eq.u32 %p6, %r9, {issuer}; mov.u16 %h1, {mask}; @%p6 {copy} [%r1], [%rd1], {size}, [%r0], %h1;")
    body += "@!%p5 bra elsewhere;\n" + wait("%r0", 0) + "elsewhere:\n" + dump(1, kept) + CLUSTER_SYNC
    data = generator(name).integers(0, 256, size, np.uint8)
    arguments = (Buffer(data), Buffer(np.zeros(kept * ctas, np.uint8), True))
    return Program(name, body, arguments, grid=(ctas, 1, 1), cluster=(ctas, 1, 1), shared=kept + 64)


def _between_ctas(size: int = 256) -> Program:
    """Each CTA of four copies its shared memory to its right neighbour, whose barrier counts the bytes."""
    name, data = "bulk_to_neighbour", generator("bulk_to_neighbour").integers(0, 256, 4 * size, np.uint8)
    copy = "cp.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes [%r2], [%r1], 256, [%r3];"
    body = fill(0, size, each_cta=True) + f"mov.u32 %r1, smem; add.u32 %r0, %r1, {2 * size}; mov.u32 %r9, %cluster_ctarank;\n"
    body += first_thread(init("%r0", 1) + f"mbarrier.arrive.expect_tx.shared::cta.b64 %rd3, [%r0], {size};") + CLUSTER_SYNC
    body += first_thread(
        f"add.u32 %r9, %r9, 1; and.b32 %r9, %r9, 3; add.u32 %r2, %r1, {size}; mapa.shared::cluster.u32 %r2, %r2, %r9;\n"
        f"mapa.shared::cluster.u32 %r3, %r0, %r9;\n{copy}"
    )
    body += wait("%r0", 0) + dump(1, 2 * size) + CLUSTER_SYNC
    arguments = (Buffer(data), Buffer(np.zeros(8 * size, np.uint8), True))
    return Program(name, body, arguments, grid=(4, 1, 1), cluster=(4, 1, 1), shared=2 * size + 64)


def programs() -> Iterator[Program]:
    for table, make in ((TENSOR, _tensor), (BULK, _to_global), (CLUSTER, _to_cluster)):
        for operation, dtypes in table.items():
            for dtype in dtypes:
                yield make(operation, dtype)
    yield _clipped("add", "u32")
    yield _clipped("max", "s32")
    for given in (0, 8, 16, 40, 1008):
        yield _load(-(-given // 16) * 16, given)
    for given in (16, 40, 1024):
        yield _store(-(-given // 16) * 16, given)
    yield _multicast(2, 0b11, 1)
    yield _multicast(4, 0b1101, 1)
    yield _between_ctas()
