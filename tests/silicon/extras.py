"""What few kernels use: maps edited on the device, mma.sync, sparse and binary wgmma, wide atomics."""

from collections.abc import Iterator

import numpy as np
from silicon import tma
from silicon.multiply import _elements, descriptor
from silicon.program import Buffer, Map, Program, dump, fill, first_thread, generator, init, poison, put, wait_a_while

# ---- a tensor map edited on the device


def _replaced(name: str, edits: str, bytes_: int, coordinates: str) -> Program:
    """Copies the map to shared memory, edits it there, publishes it in global memory (p1) and loads with it."""
    case = tma.Case(f"replaced_{name}", "u16", (64, 16), (32, 6), (16, 3), "64B")
    kept = 1024
    body = "mov.b64 %rd1, p0; cvta.param.u64 %rd1, %rd1; ld.param.u64 %rd2, [p1]; ld.param.u64 %rd7, [p3]; "
    body += "mov.u32 %r9, %tid.x; mov.u32 %r1, smem;\n"
    body += f"add.u32 %r0, %r1, {kept}; add.u32 %r2, %r1, {kept + 128}; setp.lt.u32 %p5, %r9, 32;\n" + poison(kept)
    body += "mad.lo.u32 %r3, %r9, 4, %r2; mad.wide.u32 %rd3, %r9, 4, %rd1; @%p5 ld.b32 %r4, [%rd3]; "
    body += "@%p5 st.shared.b32 [%r3], %r4; bar.sync 0;\n"
    body += first_thread("cvt.u64.u32 %rd4, %r2; cvta.shared.u64 %rd4, %rd4;\n" + edits)
    body += "@!%p5 bra published;\n"
    body += "tensormap.cp_fenceproxy.global.shared::cta.tensormap::generic.release.gpu.sync.aligned [%rd2], [%r2], 128;\n"
    body += "published: bar.sync 0;\n"
    copy = (
        f"cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%r1], [%rd2, {coordinates}], [%r0];"
    )
    body += first_thread(
        "fence.proxy.tensormap::generic.acquire.gpu [%rd2], 128;\n"
        + init("%r0", 1)
        + f"mbarrier.arrive.expect_tx.shared::cta.b64 %rd5, [%r0], {bytes_};\n{copy}"
    )
    body += wait_a_while("%r0", 0, "%r5") + put(4, "%r5") + dump(2, kept)
    other = generator(name).integers(0, 256, 4096, np.uint8)
    arguments = (
        Map(case.map(), tma.tensor_data(case)), Buffer(np.zeros(128, np.uint8), scratch=True),
        Buffer(np.zeros(kept, np.uint8), True), Buffer(other),
        Buffer(np.zeros(128, np.uint32), True),
    )  # fmt: skip
    return Program(f"tensormap_replace_{name}", body, arguments, shared=kept + 256)


def _replacements() -> Iterator[Program]:
    form = "tensormap.replace.tile.{}.shared::cta.b1024.{} [%r2], {};\n"
    yield _replaced("address", form.format("global_address", "b64", "%rd7"), 384, "{16, 3}")
    edits = form.format("global_dim", "b32", "1, 5") + form.format("global_dim", "b32", "0, 40")
    yield _replaced("dims", edits, 384, "{16, 3}")
    edits = (
        form.format("box_dim", "b32", "0, 16") + form.format("box_dim", "b32", "1, 4") + form.format("swizzle_mode", "b32", "1")
    )
    yield _replaced("box_and_swizzle", edits, 128, "{16, 3}")
    edits = (
        form.format("global_stride", "b64", "0, 256")
        + form.format("element_stride", "b32", "1, 2")
        + form.format("elemtype", "b32", "6")
        + form.format("fill_mode", "b32", "1")
    )
    yield _replaced("stride_and_type", edits, 192, "{48, 3}")


# ---- mma.sync


MMA = (
    ("m16n8k8", "f32", "f16", "f16", 4, 2, 1), ("m16n8k16", "f32", "f16", "f16", 4, 4, 2), ("m16n8k16", "f16", "f16", "f16", 2, 4, 2),
    ("m16n8k8", "f16", "f16", "f16", 2, 2, 1), ("m16n8k8", "f32", "bf16", "bf16", 4, 2, 1), ("m16n8k16", "f32", "bf16", "bf16", 4, 4, 2),
    ("m16n8k4", "f32", "tf32", "tf32", 4, 2, 1),
    ("m16n8k8", "f32", "tf32", "tf32", 4, 4, 2), ("m16n8k16", "s32", "s8", "s8", 4, 2, 1), ("m16n8k32", "s32", "s8", "u8", 4, 4, 2),
    ("m16n8k32", "s32", "u8", "u8", 4, 4, 2), ("m16n8k32", "f32", "e4m3", "e4m3", 4, 4, 2), ("m16n8k32", "f32", "e5m2", "e4m3", 4, 4, 2),
)  # fmt: skip


def _mma(shape: str, d: str, a: str, b: str, counts: tuple[int, int, int], kind: str, saturate: bool = False) -> Program:
    """One warp-wide multiplication per warp on registers of random elements."""
    name = f"mma_{shape}_{d}_{a}_{b}_{'saturated' if saturate else kind}"
    random, threads = generator(name), 128
    parts = []
    for dtype, count in ((d, counts[0]), (a, counts[1]), (b, counts[2])):
        if dtype == "s32":
            parts.append(random.integers(0, 1 << 32, count * threads, np.uint32))
        else:
            parts.append(_elements(random, "tf32" if dtype == "f32" else dtype, kind, 4 * count * threads).view(np.uint32))
    data, names = np.concatenate(parts), [f"%r{20 + i}" for i in range(sum(counts))]
    body = "mov.u32 %r9, %tid.x; ld.param.u64 %rd1, [p0]; mad.wide.u32 %rd1, %r9, 4, %rd1;\n"
    body += "".join(f"ld.global.b32 {register}, [%rd1+{4 * threads * i}];\n" for i, register in enumerate(names))
    groups = [", ".join(names[sum(counts[:i]) : sum(counts[: i + 1])]) for i in range(3)]
    body += (
        f"mma.sync.aligned.{shape}.row.col.{d}.{a}.{b}.{d} {{{groups[0]}}}, {{{groups[1]}}}, {{{groups[2]}}}, {{{groups[0]}}};\n"
    )
    body += "".join(put(1, register, slot=i) for i, register in enumerate(names[: counts[0]]))
    return Program(name, body, (Buffer(data), Buffer(np.zeros(counts[0] * threads, np.uint32), True)), threads=threads)


def _mma_programs() -> Iterator[Program]:
    for shape, d, a, b, *counts in MMA:
        for kind in ("small", "bits") if d == "s32" else ("small", "random", "wide", "bits"):
            yield _mma(shape, d, a, b, (counts[0], counts[1], counts[2]), kind)
    yield _mma("m16n8k32", "s32", "s8", "s8", (4, 4, 2), "bits", saturate=True)


# ---- wgmma on bits, and with half of A left out


def _wgmma(
    name: str, opcode: str, types: tuple[str, str, str], immediates: str, metadata: np.ndarray | None, kind: str
) -> Program:
    random, (d, a, _), count = generator(name), types, 8
    element = "u8" if a == "b1" else a
    data = [_elements(random, element, "bits" if a == "b1" else kind, 8192) for _ in range(2)]
    descriptors = descriptor("128B", 0, 2, 64)
    old = (
        np.arange(count * 128, dtype=np.uint32)
        if d == "s32"
        else random.integers(-9, 9, count * 128).astype(np.float32).view(np.uint32)
    )
    body = (
        ".reg .b32 %d<8>;\n" + fill(1, 16384) + "mov.u32 %r9, %tid.x; ld.param.u64 %rd1, [p0]; mad.wide.u32 %rd1, %r9, 4, %rd1;\n"
    )
    body += (
        "ld.param.u64 %rd2, [p2]; mad.wide.u32 %rd2, %r9, 4, %rd2; ld.global.b32 %r7, [%rd2]; setp.ne.u32 %p1, %r9, 0xFFFFFFFF;\n"
    )
    body += "".join(f"ld.global.b32 %d{i}, [%rd1+{512 * i}];\n" for i in range(count))
    for register, base in (("%rd3", 0), ("%rd4", 8192)):
        body += f"mov.u32 %r1, smem; add.u32 %r1, %r1, {base}; and.b32 %r1, %r1, 0x3FFFF; shr.u32 %r1, %r1, 4; "
        body += f"cvt.u64.u32 {register}, %r1; or.b64 {register}, {register}, {descriptors:#x};\n"
    sparse = "" if metadata is None else "%r7, 0, "
    body += (
        "wgmma.fence.sync.aligned;\n"
        + f"{opcode} {{{', '.join(f'%d{i}' for i in range(count))}}}, %rd3, %rd4, {sparse}%p1{immediates};\n"
    )
    body += "wgmma.commit_group.sync.aligned; wgmma.wait_group.sync.aligned 0;\n"
    body += "".join(f"st.global.b32 [%rd1+{512 * i}], %d{i};\n" for i in range(count))
    meta = np.zeros(128, np.uint32) if metadata is None else metadata
    return Program(name, body, (Buffer(old, True), Buffer(np.concatenate(data)), Buffer(meta)), shared=16384)


def _metadata(name: str, choices: tuple[int, ...]) -> np.ndarray:
    """Each group of four bits one of `choices`: increasing positions of the elements that are there."""
    nibbles = np.array(choices, np.uint64)[generator(name).integers(0, len(choices), (128, 8))]
    return (nibbles << (4 * np.arange(8, dtype=np.uint64))).sum(1).astype(np.uint32)


def _unusual_wgmma() -> Iterator[Program]:
    yield _wgmma("wgmma_b1", "wgmma.mma_async.sync.aligned.m64n16k256.s32.b1.b1.and.popc", ("s32", "b1", "b1"), "", None, "bits")
    two_of_four, one_of_two = (4, 8, 9, 12, 13, 14), (4, 14)
    for dtype, k, d, immediates, choices in (
        ("bf16", 32, "f32", ", 1, 1, 0, 0", two_of_four), ("tf32", 16, "f32", ", 1, 1", one_of_two),
        ("e4m3", 64, "f32", ", 1, 1", two_of_four), ("s8", 64, "s32", "", two_of_four),
    ):  # fmt: skip
        name = f"wgmma_sparse_{dtype}"
        yield _wgmma(
            name,
            f"wgmma.mma_async.sp.sync.aligned.m64n16k{k}.{d}.{dtype}.{dtype}",
            (d, dtype, dtype),
            immediates,
            _metadata(name, choices),
            "small",
        )


# ---- wide atomics


def _wide_atomics() -> Iterator[Program]:
    for name, form, register, count, kind in (
        ("v2_f32", "add.v2.f32", "%f", 2, "tf32"), ("v4_f32", "add.v4.f32", "%f", 4, "tf32"),
        ("v4_f16x2", "add.noftz.v4.f16x2", "%r", 4, "f16"),
        ("v2_bf16x2_max", "max.noftz.v2.bf16x2", "%r", 2, "bf16"),
    ):  # fmt: skip
        values = "{" + ", ".join(f"{register}{20 + i}" for i in range(count)) + "}"
        body = f"mov.u32 %r9, %tid.x; ld.param.u64 %rd1, [p0]; mad.wide.u32 %rd1, %r9, {4 * count}, %rd1; "
        body += f"ld.param.u64 %rd2, [p1]; mad.wide.u32 %rd2, %r9, {4 * count}, %rd2;\n"
        body += "".join(f"ld.global.b32 {register}{20 + i}, [%rd2+{4 * i}];\n" for i in range(count))
        body += f"red.global.{form} [%rd1], {values};\n"
        random = generator(name)
        old, new = (_elements(random, kind, "random", 4 * count * 64).view(np.uint32) for _ in range(2))
        yield Program(f"red_{name}", body, (Buffer(old, True), Buffer(new)), threads=64)
    for name, text in (
        ("exch", "atom.global.exch.b128 %q2, [%rd1], %q1;"),
        ("cas", "atom.global.cas.b128 %q2, [%rd1], %q1, %q3;"),
    ):
        body = "mov.u32 %r9, %tid.x; ld.param.u64 %rd1, [p0]; mad.wide.u32 %rd1, %r9, 16, %rd1; ld.param.u64 %rd2, [p1]; "
        body += "mad.wide.u32 %rd2, %r9, 16, %rd2;\n"
        body += (
            "ld.global.v2.b64 {%rd3, %rd4}, [%rd2]; mov.b128 %q1, {%rd3, %rd4}; not.b64 %rd5, %rd3; mov.b128 %q3, {%rd5, %rd4};\n"
            + text
        )
        body += "\nmov.b128 {%rd6, %rd7}, %q2; ld.param.u64 %rd8, [p2]; mad.wide.u32 %rd8, %r9, 16, %rd8; "
        body += "st.global.v2.b64 [%rd8], {%rd6, %rd7};\n"
        old, new = (generator(f"{name}{side}").integers(0, 2, (64, 2), np.uint64) for side in "ab")
        yield Program(
            f"atom_b128_{name}", body, (Buffer(old, True), Buffer(new), Buffer(np.zeros((64, 2), np.uint64), True)), threads=64
        )


def programs() -> Iterator[Program]:
    yield from _replacements()
    yield from _mma_programs()
    yield from _unusual_wgmma()
    yield from _wide_atomics()
