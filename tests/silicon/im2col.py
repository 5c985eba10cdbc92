"""im2col copies, and tiled copies through interleaved maps."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from silicon import tma
from silicon.program import (
    CLUSTER_SYNC,
    Buffer,
    Map,
    Program,
    dump,
    fill,
    first_thread,
    generator,
    init,
    poison,
    put,
    wait,
    wait_a_while,
)

from pipec.sim import Im2colMap, TensorMap


@dataclass(frozen=True)
class Window:
    """A load of `map` at `at` with the filter offsets `offsets`."""

    name: str
    map: Im2colMap
    at: tuple[int, ...]
    offsets: tuple[int, ...]


def _packed(dims: tuple[int, ...], size: int) -> tuple[int, ...]:
    strides = [dims[0] * size]
    for extent in dims[1:-1]:
        strides.append(strides[-1] * extent)
    return tuple(strides)


def _im2col(
    dtype: str, dims: tuple[int, ...], lower: tuple[int, ...], upper: tuple[int, ...], channels: int, pixels: int, **more
) -> Im2colMap:
    return Im2colMap(dtype, dims, _packed(dims, np.dtype(tma.NUMPY[dtype]).itemsize), lower, upper, channels, pixels, **more)


def windows() -> Iterator[Window]:
    line = _im2col("u16", (16, 10, 3), (-1,), (-1,), 16, 12)
    for offset in (0, 1, 2):
        yield Window(f"3d_{offset}", line, (0, -1, 0), (offset,))
    yield Window("3d_inside", line, (0, 4, 1), (1,))
    yield Window("3d_past_end", line, (0, 6, 2), (2,))
    plane = _im2col("u16", (16, 7, 6, 2), (-1, -1), (-1, -1), 16, 20)
    for offsets in ((0, 0), (2, 1), (1, 2)):
        yield Window(f"4d_{offsets[0]}{offsets[1]}", plane, (0, -1, -1, 0), offsets)
    yield Window("4d_middle", plane, (0, 3, 2, 0), (2, 2))
    yield Window("4d_corner_inside", _im2col("u16", (16, 7, 6, 2), (0, 0), (-2, -2), 16, 24), (0, 0, 0, 0), (2, 2))
    yield Window(
        "4d_channels",
        _im2col("f16", (24, 7, 6, 2), (-1, -1), (-1, -1), 16, 20, swizzle="32B", fill="nan"),
        (16, 2, -1, 1),
        (0, 2),
    )
    yield Window(
        "4d_swizzled", _im2col("bf16", (64, 5, 5, 3), (-1, -1), (-1, -1), 64, 32, swizzle="128B"), (0, -1, -1, 0), (2, 0)
    )
    yield Window(
        "4d_strided",
        _im2col("u16", (16, 9, 8, 2), (-1, -1), (-1, -1), 16, 18, element_strides=(1, 2, 2, 1)),
        (0, -1, -1, 0),
        (1, 2),
    )
    yield Window("4d_wider_box", _im2col("u32", (8, 5, 4, 2), (-2, -1), (1, 2), 8, 28), (0, -2, -1, 0), (3, 1))
    yield Window("5d", _im2col("u16", (8, 5, 4, 3, 2), (-1, -1, -1), (-1, -1, -1), 8, 40), (0, -1, 0, -1, 0), (1, 2, 0))


def _im2col_load(window: Window) -> Program:
    encoded = window.map
    size = np.dtype(tma.NUMPY[encoded.dtype]).itemsize
    pitch = max(encoded.channels * size, {"none": 0, "32B": 32, "64B": 64, "128B": 128}[encoded.swizzle])
    kept = -(-pitch * encoded.pixels // 128) * 128 + 128
    offsets = "{" + ", ".join(f"%h{20 + i}" for i in range(len(window.offsets))) + "}"
    copy = f"cp.async.bulk.tensor.{encoded.rank}d.shared::cluster.global.im2col.mbarrier::complete_tx::bytes"
    copy += f" [%r1], [%rd1, {tma.coordinates(window.at)}], [%r0], {offsets};"
    moves = " ".join(f"mov.u16 %h{20 + i}, {value};" for i, value in enumerate(window.offsets))
    expected = encoded.channels * size * encoded.pixels
    body = f"mov.u32 %r1, smem; add.u32 %r0, %r1, {kept}; mov.b64 %rd1, p0; cvta.param.u64 %rd1, %rd1; {moves}\n" + poison(kept)
    body += first_thread(init("%r0", 1) + f"mbarrier.arrive.expect_tx.shared::cta.b64 %rd3, [%r0], {expected};\n{copy}")
    body += wait_a_while("%r0", 0, "%r5") + put(2, "%r5") + dump(1, kept)
    rows = encoded.dims[-1] * encoded.strides[-1]
    data = generator(window.name).integers(0, 256, rows, np.uint8)
    arguments = (Map(encoded, data), Buffer(np.zeros(kept, np.uint8), True), Buffer(np.zeros(128, np.uint32), True))
    return Program(f"im2col_load_{window.name}", body, arguments, shared=kept + 64)


def _im2col_store() -> Program:
    encoded = _im2col("u16", (16, 7, 6, 2), (0, 0), (0, 0), 16, 20)
    size = 16 * 2 * 20
    copy = "cp.async.bulk.tensor.4d.global.shared::cta.im2col_no_offs.bulk_group [%rd1, {0, 3, 4, 0}], [%r1];"
    body = "mov.b64 %rd1, p0; cvta.param.u64 %rd1, %rd1; mov.u32 %r1, smem;\n" + fill(1, size)
    body += first_thread(copy + " cp.async.bulk.commit_group; cp.async.bulk.wait_group 0;")
    random = generator("im2col_store")
    tensor, values = random.integers(0, 256, 7 * 6 * 2 * 32, np.uint8), random.integers(0, 256, size, np.uint8)
    return Program("im2col_store", body, (Map(encoded, tensor, True), Buffer(values)), shared=size)


def _im2col_reduction() -> Program:
    encoded = _im2col("u32", (8, 5, 4, 2), (0, 0), (0, 0), 8, 24)
    size = 4 * 8 * 24
    copy = "cp.reduce.async.bulk.tensor.4d.global.shared::cta.add.im2col_no_offs.bulk_group [%rd1, {0, 1, 2, 0}], [%r1];"
    body = "mov.b64 %rd1, p0; cvta.param.u64 %rd1, %rd1; mov.u32 %r1, smem;\n" + fill(1, size)
    body += first_thread(copy + " cp.async.bulk.commit_group; cp.async.bulk.wait_group 0;")
    random = generator("im2col_reduction")
    tensor, values = random.integers(0, 256, 5 * 4 * 2 * 32, np.uint8), random.integers(0, 256, size, np.uint8)
    return Program("im2col_reduction", body, (Map(encoded, tensor, True), Buffer(values)), shared=size)


def _im2col_multicast() -> Program:
    """CTA 1 of two loads into both."""
    encoded = _im2col("u16", (16, 7, 6, 2), (-1, -1), (-1, -1), 16, 20)
    size, kept = 640, 768
    copy = "cp.async.bulk.tensor.4d.shared::cluster.global.im2col.mbarrier::complete_tx::bytes.multicast::cluster"
    copy += " [%r1], [%rd1, {0, 2, 3, 0}], [%r0], {%h1, %h2}, %h3;"
    body = f"mov.u32 %r1, smem; add.u32 %r0, %r1, {kept}; mov.b64 %rd1, p0; cvta.param.u64 %rd1, %rd1; mov.u32 %r9, %cluster_ctarank;\n"
    body += (
        poison(kept)
        + first_thread(init("%r0", 1) + f"mbarrier.arrive.expect_tx.shared::cta.b64 %rd3, [%r0], {size};")
        + CLUSTER_SYNC
    )
    body += first_thread(f"setp.eq.u32 %p6, %r9, 1; mov.u16 %h1, 2; mov.u16 %h2, 0; mov.u16 %h3, 3; @%p6 {copy}")
    body += wait("%r0", 0) + dump(1, kept) + CLUSTER_SYNC
    data = generator("im2col_multicast").integers(0, 256, 7 * 6 * 2 * 32, np.uint8)
    arguments = (Map(encoded, data), Buffer(np.zeros(2 * kept, np.uint8), True))
    return Program("im2col_multicast", body, arguments, grid=(2, 1, 1), cluster=(2, 1, 1), shared=kept + 64)


# ---- interleaved maps


@dataclass(frozen=True)
class Slices:
    """A copy through an interleaved map: dimensions W, (H,) channels, images; a slice of channels takes 16 or 32 bytes."""

    name: str
    box: tuple[int, ...]
    at: tuple[int, ...]
    dims: tuple[int, ...] = (20, 5, 20, 2)
    strides: tuple[int, ...] = (320, 1600, 4800)
    interleave: str = "16B"
    swizzle: str = "none"
    dtype: str = "u16"
    fill: str = "zero"

    @property
    def slice_bytes(self) -> int:
        return int(self.interleave.removesuffix("B"))

    @property
    def copied(self) -> int:
        """What the phase expects: bytes, if a started slice counted as a whole one."""
        channels = -(-self.box[-2] * np.dtype(tma.NUMPY[self.dtype]).itemsize // self.slice_bytes)
        return int(np.prod(self.box[:-2])) * channels * self.box[-1] * self.slice_bytes


def slices() -> Iterator[Slices]:
    yield Slices("one", (8, 3, 8, 1), (2, 1, 0, 0))
    yield Slices("two", (8, 3, 16, 1), (2, 1, 0, 1))
    yield Slices("part", (8, 3, 9, 1), (2, 1, 0, 0))
    yield Slices("few_channels", (8, 3, 4, 2), (2, 1, 0, 0))
    yield Slices("second_slice", (8, 3, 8, 1), (2, 1, 1, 0))
    yield Slices("third_slice", (8, 3, 8, 2), (0, 0, 2, 0))
    yield Slices("past_channels", (8, 2, 16, 1), (0, 0, 2, 0))
    yield Slices("channel_8", (8, 2, 8, 1), (0, 0, 8, 0))
    yield Slices("edges", (8, 3, 8, 2), (-2, 3, 0, 1), dtype="f16", fill="nan")
    yield Slices("right", (8, 3, 8, 2), (17, -1, 1, 0))
    yield Slices("3d", (8, 8, 1), (2, 1, 1), (20, 20, 2), (320, 960))
    yield Slices("5d", (8, 2, 2, 8, 1), (2, 1, 1, 1, 0), (20, 5, 3, 20, 2), (320, 1600, 4800, 14400))
    yield Slices("wide", (16, 3, 16, 1), (2, 1, 0, 0), (20, 5, 40, 2), (640, 3200, 9600), "32B", "32B")
    yield Slices("wide_two", (16, 3, 32, 1), (2, 1, 1, 1), (20, 5, 40, 2), (640, 3200, 9600), "32B", "32B")
    yield Slices("wide_plain", (16, 3, 16, 1), (2, 1, 0, 0), (20, 5, 40, 2), (640, 3200, 9600), "32B")
    yield Slices("swizzled", (8, 4, 8, 1), (2, 1, 0, 0), swizzle="64B")
    yield Slices("bytes", (16, 3, 16, 1), (2, 1, 0, 0), (20, 5, 40, 2), dtype="u8")
    yield Slices("words", (4, 3, 4, 1), (2, 1, 1, 0), (20, 5, 10, 2), dtype="u32")


def _interleaved(case: Slices) -> Program:
    """Every element its own number, so that the layout can be read off."""
    tensor_map = TensorMap(case.dtype, case.dims, case.strides, case.box, None, case.swizzle, case.interleave, case.fill)
    kept = -(-case.copied // 128) * 128 + 1024
    copy = f"cp.async.bulk.tensor.{len(case.dims)}d.shared::cluster.global.tile.mbarrier::complete_tx::bytes "
    copy += f"[%r1], [%rd1, {tma.coordinates(case.at)}], [%r0];"
    body = f"mov.u32 %r1, smem; add.u32 %r0, %r1, {kept}; mov.b64 %rd1, p0; cvta.param.u64 %rd1, %rd1;\n" + poison(kept)
    body += first_thread(init("%r0", 1) + f"mbarrier.arrive.expect_tx.shared::cta.b64 %rd3, [%r0], {case.copied};\n{copy}")
    body += wait_a_while("%r0", 0, "%r5") + put(2, "%r5") + dump(1, kept)
    arguments = (
        Map(tensor_map, np.arange(1 << 14, dtype=np.uint16)),
        Buffer(np.zeros(kept, np.uint8), True),
        Buffer(np.zeros(128, np.uint32), True),
    )
    return Program(f"tma_interleaved_{case.name}", body, arguments, shared=kept + 64)


def programs() -> Iterator[Program]:
    for window in windows():
        yield _im2col_load(window)
    yield _im2col_store()
    yield _im2col_reduction()
    yield _im2col_multicast()
    for case in slices():
        yield _interleaved(case)
