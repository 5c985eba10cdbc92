"""Loads, stores, atomics and cp.async."""

from collections.abc import Iterator

import numpy as np
from silicon.program import Buffer, Program, dump, generator, poison, put
from silicon.reductions import pair

THREADS = 64
# Operations of atom and red with their types; every thread has an element of its own.
ATOMS = {
    "add": ("u32", "s32", "u64", "f32", "f64", "noftz.f16", "noftz.bf16", "noftz.f16x2", "noftz.bf16x2"),
    "min": ("u32", "s32", "u64", "s64"),
    "max": ("u32", "s32", "u64", "s64"),
    "inc": ("u32",),
    "dec": ("u32",),
    "and": ("b32", "b64"),
    "or": ("b32", "b64"),
    "xor": ("b32", "b64"),
    "exch": ("b32", "b64"),
    "cas": ("b16", "b32", "b64"),
}
_BITS = {"f16": 16, "bf16": 16, "b16": 16, "u64": 64, "s64": 64, "b64": 64, "f64": 64}
_REGISTERS = {16: "%h", 32: "%r", 64: "%rd"}


def _atom(operation: str, dtype: str, space: str) -> Program:
    kind = dtype.split(".")[-1]
    bits = _BITS.get(kind, 32)
    name = f"atom_{space}_{operation}_{kind}"
    old, new = pair(
        name,
        "bf16" if kind in ("bf16x2", "bf16") else "f16" if kind in ("f16x2", "f16") else kind,
        THREADS * bits // (16 if "16" in kind else bits),
    )
    if operation == "cas":
        old, new = (generator(name + side).integers(0, 2, THREADS).astype(f"u{bits // 8}") for side in ("old", "new"))
    register = _REGISTERS[bits]
    value, result, third = (f"{register}{n}" for n in (20, 21, 22))
    floating = {"f32": ("%f2", "%f1"), "f64": ("%fd2", "%fd1")}.get(kind)
    operand = floating[0] if floating else value
    back = floating[1] if floating else result
    body = f"mov.u32 %r9, %tid.x; ld.param.u64 %rd1, [p0]; mad.wide.u32 %rd1, %r9, {bits // 8}, %rd1; ld.param.u64 %rd2, [p1];\n"
    body += f"mad.wide.u32 %rd2, %r9, {bits // 8}, %rd2; ld.global.b{bits} {value}, [%rd2]; mov.u32 %r3, smem; "
    body += f"mad.lo.u32 %r3, %r9, {bits // 8}, %r3;\n"
    body += f"ld.global.b{bits} {third}, [%rd1]; st.shared.b{bits} [%r3], {third}; mov.b{bits} {third}, 77;\n"
    if floating:
        body += f"mov.b{bits} {operand}, {value};\n"
    place = "[%rd1]" if space == "global" else "[%r3]"
    swap = f", {third}" if operation == "cas" else ""
    body += f"atom.{space}.{operation}.{dtype} {back}, {place}, {operand}{swap};\n"
    if floating:
        body += f"mov.b{bits} {result}, {back};\n"
    body += f"ld.shared.b{bits} {value}, [%r3];\n" + put(2, result, bits) + put(2, value, bits, slot=1)
    arguments = (Buffer(old, True), Buffer(new), Buffer(np.zeros(2 * THREADS, f"u{bits // 8}"), True))
    return Program(name, body, arguments, threads=THREADS, shared=8 * THREADS)


def _contended(space: str) -> Program:
    """All threads on few addresses, with operations whose outcome does not depend on the order."""
    name = f"atom_{space}_contended"
    body = "mov.u32 %r9, %tid.x; and.b32 %r8, %r9, 3; ld.param.u64 %rd1, [p0]; mad.wide.u32 %rd1, %r8, 4, %rd1; "
    body += "mov.u32 %r3, smem; mad.lo.u32 %r3, %r8, 4, %r3;\n"
    body += "mov.u32 %r2, 9; st.shared.b32 [%r3], %r2; st.shared.b32 [%r3+16], %r2; st.shared.b32 [%r3+32], %r2; "
    body += "bar.sync 0; mad.lo.u32 %r1, %r9, 37, 11;\n"
    place = "%rd1" if space == "global" else "%r3"
    body += f"red.{space}.add.u32 [{place}], %r1; red.{space}.max.s32 [{place}+16], %r1; "
    body += f"red.{space}.xor.b32 [{place}+32], %r1; bar.sync 0;\n"
    body += "ld.shared.b32 %r4, [%r3]; ld.shared.b32 %r5, [%r3+16]; ld.shared.b32 %r6, [%r3+32];\n" + "".join(
        put(1, f"%r{4 + i}", slot=i) for i in range(3)
    )
    arguments = (Buffer(np.arange(12, dtype=np.uint32), True), Buffer(np.zeros(3 * THREADS, np.uint32), True))
    return Program(name, body, arguments, threads=THREADS, shared=64)


def _widths(space: str) -> Program:
    """Loads of every width, sign and vector length, and stores of the same."""
    name, size = f"widths_{space}", 16 * THREADS
    loads = (
        ("s8", "%r20"),
        ("u8", "%r21"),
        ("s16", "%r22"),
        ("u16", "%r23"),
        ("v2.b32", "{%r24, %r25}"),
        ("v4.b32", "{%r26, %r27, %r28, %r29}"),
    )
    loads = (*loads, ("v4.u8", "{%r30, %r31, %r32, %r33}"), ("v4.s16", "{%r34, %r35, %r36, %r37}"))
    body = "mov.u32 %r9, %tid.x; ld.param.u64 %rd1, [p0]; mad.wide.u32 %rd1, %r9, 16, %rd1; mov.u32 %r3, smem; "
    body += "mad.lo.u32 %r3, %r9, 16, %r3;\n"
    body += (
        "cvt.u16.u32 %h1, %r9; mov.u16 %h2, 513; ld.global.v2.b64 {%rd3, %rd4}, [%rd1]; st.shared.v2.b64 [%r3], {%rd3, %rd4};\n"
    )
    place = "%rd1" if space == "global" else "%r3"
    body += "".join(f"ld.{space}.{form} {registers}, [{place}];\n" for form, registers in loads)
    body += f"st.{space}.b8 [{place}+1], %r29; st.{space}.b16 [{place}+2], %r28; st.{space}.v2.b16 [{place}+4], {{%h1, %h2}}; "
    body += f"st.{space}.v4.b8 [{place}+8], {{%r24, %r25, %r26, %r27}};\n"
    body += "ld.shared.v2.b64 {%rd5, %rd6}, [%r3]; mov.b64 {%r38, %r39}, %rd5; mov.b64 {%r40, %r41}, %rd6;\n"
    body += "".join(put(1, f"%r{20 + i}", slot=i) for i in range(22))
    data = generator(name).integers(0, 256, size, np.uint8)
    return Program(
        name, body, (Buffer(data, True), Buffer(np.zeros(22 * THREADS, np.uint32), True)), threads=THREADS, shared=size
    )


def _copy(name: str, form: str, size: int, present: str = "") -> Program:
    """cp.async of one element per thread; `present`: bytes that are read, the rest is zero."""
    kept = size * THREADS
    body = (
        poison(kept, THREADS)
        + f"mov.u32 %r9, %tid.x; ld.param.u64 %rd1, [p0]; mad.wide.u32 %rd1, %r9, {size}, %rd1; mov.u32 %r3, smem; "
        f"mad.lo.u32 %r3, %r9, {size}, %r3;\n"
    )
    body += f"rem.u32 %r4, %r9, {size + 1}; setp.lt.u32 %p1, %r9, 20;\n{form} [%r3], [%rd1], {size}{present}; "
    body += "cp.async.commit_group; cp.async.wait_group 0;\n"
    data = generator(name).integers(0, 256, kept, np.uint8)
    return Program(
        f"cp_async_{name}",
        body + dump(1, kept, THREADS),
        (Buffer(data), Buffer(np.zeros(kept, np.uint8), True)),
        threads=THREADS,
        shared=kept,
    )


def _copy_groups() -> Program:
    """Four groups of copies, waited for one by one."""
    kept = 16 * THREADS * 4
    body = (
        poison(kept, THREADS)
        + "mov.u32 %r9, %tid.x; ld.param.u64 %rd1, [p0]; mad.wide.u32 %rd1, %r9, 16, %rd1; mov.u32 %r3, smem; "
        "mad.lo.u32 %r3, %r9, 16, %r3;\n"
    )
    for group in range(4):
        body += f"cp.async.cg.shared.global [%r3+{1024 * group}], [%rd1+{1024 * (3 - group)}], 16; cp.async.commit_group;\n"
    for group in range(4):
        body += f"cp.async.wait_group {3 - group}; ld.shared.b32 %r{20 + group}, [%r3+{1024 * group}];\n" + put(
            2, f"%r{20 + group}", slot=group
        )
    body += "cp.async.ca.shared.global [%r3], [%rd1], 8; cp.async.wait_all;\n"
    data = generator("cp_async_groups").integers(0, 256, kept, np.uint8)
    arguments = (Buffer(data), Buffer(np.zeros(kept, np.uint8), True), Buffer(np.zeros(4 * THREADS, np.uint32), True))
    return Program("cp_async_groups", body + dump(1, kept, THREADS), arguments, threads=THREADS, shared=kept)


def programs() -> Iterator[Program]:
    for space in ("global", "shared"):
        for operation, dtypes in ATOMS.items():
            for dtype in dtypes:
                yield _atom(operation, dtype, space)
        yield _contended(space)
        yield _widths(space)
    for size in (4, 8, 16):
        yield _copy(f"ca_{size}", "cp.async.ca.shared.global", size)
        yield _copy(f"ca_{size}_some_bytes", "cp.async.ca.shared.global", size, ", %r4")
    yield _copy("cg_16", "cp.async.cg.shared.global", 16)
    yield _copy("cg_16_hint", "cp.async.cg.shared.global.L2::128B", 16)
    yield _copy("ca_4_ignored", "cp.async.ca.shared.global", 4, ", %p1")
    yield _copy_groups()
