"""wgmma: types, shapes, layouts, registers and immediates, on whatever bytes shared memory holds.

Shared memory is filled with elements of the operand types; the descriptors alone decide which of them are read, so a misread
descriptor, swizzle or fragment shows as a wrong result.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import ml_dtypes
import numpy as np
from silicon.program import Buffer, Program, fill, generator

THREADS = 128
SWIZZLES = {"none": 0, "128B": 1, "64B": 2, "32B": 3}
SPANS = {"none": 16, "32B": 32, "64B": 64, "128B": 128}
K = {"f16": 16, "bf16": 16, "tf32": 8, "e4m3": 32, "e5m2": 32, "s8": 32, "u8": 32}
_NUMPY = {
    "f16": np.float16, "bf16": ml_dtypes.bfloat16, "tf32": np.float32, "e4m3": ml_dtypes.float8_e4m3fn, "e5m2": ml_dtypes.float8_e5m2,
}  # fmt: skip
A_BYTES, B_BYTES = 16384, 32768


@dataclass(frozen=True)
class Case:
    """One or more wgmmas on one accumulator. `data`: "small" integers, "random" normal numbers, "wide" exponents, "bits" any pattern.

    `scale`: scale-d of the first; `steps` multiply one after another, each `advance` bytes further into both operands.
    """

    name: str
    d: str
    a: str
    b: str
    n: int = 16
    data: str = "small"
    a_swizzle: str = "128B"
    b_swizzle: str = "128B"
    a_mn: int = 0
    b_mn: int = 0
    registers: bool = False
    scale: int = 1
    negate: tuple[int, int] = (1, 1)
    saturate: bool = False
    steps: int = 1
    advance: int = 32
    start: int = 0


def _elements(random: np.random.Generator, dtype: str, kind: str, count: int) -> np.ndarray:
    """`count` bytes."""
    if dtype in ("s8", "u8"):
        low, high = (-4, 5) if kind == "small" else (-128, 128)
        low, high = (0, 9) if dtype == "u8" and kind == "small" else (0, 256) if dtype == "u8" else (low, high)
        return random.integers(low, high, count).astype(np.int16).astype(np.uint8)
    numpy = np.dtype(_NUMPY[dtype])
    size = count // numpy.itemsize
    if kind == "bits":
        return random.integers(0, 256, count, np.uint8)
    if kind == "small":
        values = random.integers(-3, 4, size).astype(np.float32)
    elif kind == "random":
        values = random.standard_normal(size).astype(np.float32)
    else:
        spread = {"f16": 6, "bf16": 30, "tf32": 30, "e4m3": 4, "e5m2": 8}[dtype]
        values = (random.standard_normal(size) * np.exp2(random.integers(-spread, spread + 1, size))).astype(np.float32)
    return np.ascontiguousarray(values.astype(numpy)).view(np.uint8)


def descriptor(swizzle: str, mn_major: int, size: int, rows: int) -> int:
    """The descriptor without its start: canonical tiles packed behind one another (PTX ISA 9.7.15.5.1)."""
    span = SPANS[swizzle]
    if not mn_major:
        # Groups of 8 rows follow at SBO; without swizzle the two halves of K are LBO apart.
        leading, stride = (8 * 16, 2 * 8 * 16) if swizzle == "none" else (16, 8 * span)
    elif swizzle == "none":
        # 8 x 8 blocks: SBO to the next 8 of MN, LBO to the next 8 of K.
        leading, stride = 8 * 16 * (rows // 8), 8 * 16
    else:
        # Panels of `span` bytes of MN: SBO to the next 8 of K, LBO to the next panel.
        leading, stride = 16 * span, 8 * span
    return (leading >> 4) << 16 | (stride >> 4) << 32 | SWIZZLES[swizzle] << 62


def _descriptor_text(register: str, case: Case, side: str, offset: int, base: int) -> str:
    swizzle, mn, dtype, rows = (
        (case.a_swizzle, case.a_mn, case.a, 64) if side == "a" else (case.b_swizzle, case.b_mn, case.b, case.n)
    )
    fields = descriptor(swizzle, mn, 1 if K[dtype] == 32 else 32 // K[dtype], rows)
    return (
        f"mov.u32 %r1, smem; add.u32 %r1, %r1, {base + offset}; and.b32 %r1, %r1, 0x3FFFF; shr.u32 %r1, %r1, 4; "
        f"cvt.u64.u32 {register}, %r1; or.b64 {register}, {register}, {fields:#x};"
    )


def program(case: Case) -> Program:
    random = generator(case.name)
    memory = np.concatenate([_elements(random, case.a, case.data, A_BYTES), _elements(random, case.b, case.data, B_BYTES)])
    count = case.n // 4 if case.d == "f16" else case.n // 2
    old = _old(random, case, count)
    registers = _elements(random, case.a, case.data, 16 * THREADS).view(np.uint32)
    names = [f"%d{i}" for i in range(count)]
    lines = [
        ".reg .b32 %d<128>; .reg .b32 %a<4>;",
        fill(2, A_BYTES + B_BYTES),
        "mov.u32 %r9, %tid.x; shl.b32 %r9, %r9, 2; cvt.u64.u32 %rd9, %r9;",
    ]
    lines.append("ld.param.u64 %rd1, [p0]; add.u64 %rd1, %rd1, %rd9; ld.param.u64 %rd2, [p1]; add.u64 %rd2, %rd2, %rd9;")
    lines += [f"ld.global.b32 {name}, [%rd1+{512 * i}];" for i, name in enumerate(names)]
    lines += [f"ld.global.b32 %a{i}, [%rd2+{512 * i}];" for i in range(4)]
    lines.append("setp.ne.u32 %p1, %r9, 0xFFFFFFFF; wgmma.fence.sync.aligned;")
    lines.append("setp.eq.u32 %p0, %r9, 0xFFFFFFFF;")
    for step in range(case.steps):
        offset = case.start + step * case.advance
        lines.append(_descriptor_text("%rd4", case, "b", offset, A_BYTES))
        lines.append(_descriptor_text("%rd3", case, "a", offset, 0))
        left = "{%a0, %a1, %a2, %a3}" if case.registers else "%rd3"
        scale = "%p1" if case.scale or step else "%p0"
        lines.append(
            f"wgmma.mma_async.sync.aligned.m64n{case.n}k{K[case.a]}.{case.d}.{case.a}.{case.b}{'.satfinite' if case.saturate else ''}"
        )
        lines.append(f"  {{{', '.join(names)}}}, {left}, %rd4, {scale}{_immediates(case)};")
    lines.append("wgmma.commit_group.sync.aligned; wgmma.wait_group.sync.aligned 0;")
    lines += [f"st.global.b32 [%rd1+{512 * i}], {name};" for i, name in enumerate(names)]
    arguments = (Buffer(old, True), Buffer(registers), Buffer(memory))
    return Program(f"wgmma_{case.name}", "\n".join(lines), arguments, shared=A_BYTES + B_BYTES)


def _old(random: np.random.Generator, case: Case, count: int) -> np.ndarray:
    """D before the first multiplication."""
    size = count * THREADS
    if not case.scale:
        return np.full(size, 0xFFFFFFFF, np.uint32)
    if case.d == "s32":
        near_the_end = random.integers(0, 2, size) * (0x7FFFFF00 - 0x80000080) + 0x80000080
        return (near_the_end if case.saturate or case.data == "bits" else random.integers(0, 1000, size)).astype(np.uint32)
    kind = {"f16": "f16", "f32": "tf32"}[case.d]
    return _elements(random, kind, case.data if case.data != "bits" else "wide", 4 * size).view(np.uint32)


def _immediates(case: Case) -> str:
    if case.d == "s32":
        return ""
    text = f", {case.negate[0]}, {case.negate[1]}"
    if case.a not in ("f16", "bf16"):
        return text
    return text + (f", {case.b_mn}" if case.registers else f", {case.a_mn}, {case.b_mn}")


FLOATS = (
    ("f32", "bf16", "bf16"), ("f32", "f16", "f16"), ("f16", "f16", "f16"), ("f32", "tf32", "tf32"), ("f32", "e4m3", "e4m3"),
    ("f32", "e5m2", "e5m2"), ("f32", "e4m3", "e5m2"), ("f32", "e5m2", "e4m3"), ("f16", "e4m3", "e4m3"), ("f16", "e5m2", "e5m2"),
)  # fmt: skip
INTEGERS = tuple(("s32", a, b) for a in ("s8", "u8") for b in ("s8", "u8"))


def cases() -> Iterator[Case]:
    for d, a, b in (*FLOATS, *INTEGERS):
        name = f"{d}_{a}_{b}"
        yield Case(f"{name}_small", d, a, b, n=24)
        yield Case(f"{name}_registers", d, a, b, data="random", registers=True, steps=2)
        if d == "s32":
            yield Case(f"{name}_bits", d, a, b, data="bits", scale=0)
            yield Case(f"{name}_saturated", d, a, b, data="bits", saturate=True)
        else:
            yield Case(f"{name}_random", d, a, b, data="random", scale=0)
            yield Case(f"{name}_wide", d, a, b, data="wide", steps=4)
            yield Case(f"{name}_bits", d, a, b, n=8, data="bits")
    for number, swizzle in enumerate(SWIZZLES):
        step = 256 if swizzle == "none" else 32
        for d, a, b in (("f32", "bf16", "bf16"), ("f32", "tf32", "tf32"), ("f32", "e4m3", "e4m3"), ("s32", "s8", "u8")):
            yield Case(
                f"k_major_{a}_{swizzle}",
                d,
                a,
                b,
                n=32,
                a_swizzle=swizzle,
                b_swizzle=swizzle,
                steps=1 + (swizzle == "128B"),
                advance=step,
            )
        for a_mn, b_mn in ((0, 1), (1, 0), (1, 1)):
            for dtype in ("bf16", "f16"):
                yield Case(
                    f"mn_major_{a_mn}{b_mn}_{dtype}_{swizzle}",
                    "f32",
                    dtype,
                    dtype,
                    n=72 if number else 40,
                    a_swizzle=swizzle,
                    b_swizzle=swizzle,
                    a_mn=a_mn,
                    b_mn=b_mn,
                )
    yield Case("mixed_swizzles", "f32", "bf16", "bf16", n=48, a_swizzle="64B", b_swizzle="32B")
    yield Case("start_beyond_span", "f32", "bf16", "bf16", n=16, start=112)
    for n in (64, 128, 256):
        yield Case(f"n_{n}", "f32", "f16", "f16", n=n)
        yield Case(f"n_{n}_integers", "s32", "s8", "s8", n=n)
    for negate in ((-1, 1), (1, -1), (-1, -1)):
        for d, a, b in (FLOATS[0], FLOATS[2], FLOATS[3], FLOATS[4]):
            yield Case(
                f"negate_{negate[0]}_{negate[1]}_{d}_{a}".replace("-1", "minus"), d, a, b, n=8, data="random", negate=negate
            )


def programs() -> Iterator[Program]:
    for case in cases():
        yield program(case)
