"""ldmatrix, stmatrix and movmatrix: every form that sm_90a has."""

from collections.abc import Iterator

import numpy as np
from silicon.program import Buffer, Program, dump, fill, generator, poison, put

BYTES = 1024
# Row addresses of lane l: 16 bytes each, in an order that no form would produce by itself.
_ROW = "mov.u32 %r9, %tid.x; mul.lo.u32 %r8, %r9, 13; and.b32 %r8, %r8, 31; shl.b32 %r8, %r8, 4; mov.u32 %r1, smem; "
_ROW += "add.u32 %r1, %r1, %r8;\n"
_GENERIC = "cvt.u64.u32 %rd1, %r1; cvta.shared.u64 %rd1, %rd1;\n"


def _registers(count: int) -> str:
    return "{" + ", ".join(f"%r{20 + i}" for i in range(count)) + "}"


def _load(count: int, transposed: bool, generic: bool) -> Program:
    name = f"ldmatrix_x{count}{'_trans' if transposed else ''}{'_generic' if generic else ''}"
    form = f"ldmatrix.sync.aligned.m8n8.x{count}{'.trans' if transposed else ''}{'' if generic else '.shared'}.b16"
    body = fill(0, BYTES, 32) + _ROW + _GENERIC + f"{form} {_registers(count)}, [{'%rd1' if generic else '%r1'}];\n"
    body += "".join(put(1, f"%r{20 + i}", slot=i) for i in range(count))
    data = generator(name).integers(0, 256, BYTES, np.uint8)
    return Program(name, body, (Buffer(data), Buffer(np.zeros(32 * count, np.uint32), True)), threads=32, shared=BYTES)


def _store(count: int, transposed: bool, generic: bool) -> Program:
    name = f"stmatrix_x{count}{'_trans' if transposed else ''}{'_generic' if generic else ''}"
    form = f"stmatrix.sync.aligned.m8n8.x{count}{'.trans' if transposed else ''}{'' if generic else '.shared'}.b16"
    body = poison(BYTES, 32) + _ROW + _GENERIC + "ld.param.u64 %rd2, [p0]; mad.wide.u32 %rd2, %r9, 4, %rd2;\n"
    body += "".join(f"ld.global.b32 %r{20 + i}, [%rd2+{128 * i}];\n" for i in range(count))
    body += f"{form} [{'%rd1' if generic else '%r1'}], {_registers(count)};\n" + dump(1, BYTES, 32)
    data = generator(name).integers(0, 1 << 32, 32 * count, np.uint32)
    return Program(name, body, (Buffer(data), Buffer(np.zeros(BYTES, np.uint8), True)), threads=32, shared=BYTES)


def _move() -> Program:
    body = "mov.u32 %r9, %tid.x; ld.param.u64 %rd2, [p0]; mad.wide.u32 %rd2, %r9, 4, %rd2; ld.global.b32 %r1, [%rd2];\n"
    body += "movmatrix.sync.aligned.m8n8.trans.b16 %r2, %r1;\n" + put(1, "%r2")
    data = generator("movmatrix").integers(0, 1 << 32, 32, np.uint32)
    return Program("movmatrix", body, (Buffer(data), Buffer(np.zeros(32, np.uint32), True)), threads=32)


def programs() -> Iterator[Program]:
    for count in (1, 2, 4):
        for transposed in (False, True):
            yield _load(count, transposed, False)
            yield _store(count, transposed, False)
    yield _load(4, True, True)
    yield _store(2, False, True)
    yield _move()
