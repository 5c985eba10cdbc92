"""What single instructions take on one multiprocessor of a GPU: chains and independent streams of each, in PTX that the driver assembles.

Cycles per instruction, with one warp or more; where results are chained, until the next can start.
"""

import ctypes
from typing import Any

UNROLL, TRIPS = 16, 64
# name -> (declared type of the chain, text with {d}: chained register, {i}: number in the unrolled body)
OPS = {
    "fma.rn.f32": ("f32", "fma.rn.f32 {d}, {d}, %c0, %c1;"),
    "add.f32": ("f32", "add.f32 {d}, {d}, %c0;"),
    "mul.f32": ("f32", "mul.f32 {d}, {d}, %c0;"),
    "max.f32": ("f32", "max.f32 {d}, {d}, %x{i};"),
    "fma.rn.bf16x2": ("b32", "fma.rn.bf16x2 {d}, {d}, %k0, %k1;"),
    "add.s32": ("b32", "add.s32 {d}, {d}, %y{i};"),
    "max.s32": ("b32", "max.s32 {d}, {d}, %y{i};"),
    "mad.lo.s32": ("b32", "mad.lo.s32 {d}, {d}, %k0, %k1;"),
    "xor.b32": ("b32", "lop3.b32 {d}, {d}, %k0, %y{i}, 0xe8;"),
    "shl.b32": ("b32", "shf.l.wrap.b32 {d}, {d}, %k0, %k1;"),
    "prmt.b32": ("b32", "prmt.b32 {d}, {d}, %k0, %k1;"),
    "add.s64": ("b64", "add.s64 {d}, {d}, %w0;"),
    "mul.wide.s32": ("b64", "{{ .reg .b32 t; cvt.u32.u64 t, {d}; mad.wide.s32 {d}, t, %k0, %w0; }}"),
    "setp+selp.f32": ("f32", "{{ .reg .pred p; setp.lt.f32 p, {d}, %x{i}; selp.f32 {d}, %c1, {d}, p; }}"),
    "setp+selp.s32": ("b32", "{{ .reg .pred p; setp.lt.s32 p, {d}, %y{i}; selp.b32 {d}, %k1, {d}, p; }}"),
    "cvt.rn.bf16x2.f32": ("b32", "{{ .reg .f32 t; mov.b32 t, {d}; cvt.rn.bf16x2.f32 {d}, t, %c0; }}"),
    "cvt.rn.f32.s32": ("b32", "{{ .reg .f32 t; cvt.rn.f32.s32 t, {d}; mov.b32 {d}, t; }}"),
    "ex2.approx.ftz.f32": ("f32", "ex2.approx.ftz.f32 {d}, {d};"),
    "rcp.approx.ftz.f32": ("f32", "rcp.approx.ftz.f32 {d}, {d};"),
    "rsqrt.approx.ftz.f32": ("f32", "rsqrt.approx.ftz.f32 {d}, {d};"),
    "div.full.f32": ("f32", "div.full.f32 {d}, {d}, %c0;"),
    "fma.rn.f64": ("f64", "fma.rn.f64 {d}, {d}, %f0, %f1;"),
    "shfl.sync.bfly.b32": ("b32", "shfl.sync.bfly.b32 {d}, {d}, 16, 31, -1;"),
    "redux.sync.add.s32": ("b32", "redux.sync.add.s32 {d}, {d}, -1;"),
    "vote.sync.ballot.b32": ("b32", "{{ .reg .pred p; setp.lt.s32 p, {d}, %y{i}; vote.sync.ballot.b32 {d}, p, -1; }}"),
    "ld.shared.b32": ("b32", "ld.volatile.shared.b32 {d}, [{d}];"),
    "ld.shared.v4.b32": ("b32", "{{ .reg .b32 t, u, v; ld.volatile.shared.v4.b32 {{{d}, t, u, v}}, [{d}]; }}"),
    "st.shared.b32": ("b32", "st.volatile.shared.b32 [{d}], %k0;"),
    "st.shared.v4.b32": ("b32", "st.volatile.shared.v4.b32 [{d}], {{%k0, %k1, %k0, %k1}};"),
    "ldmatrix.x4": ("b32", "{{ .reg .b32 t, u, v; ldmatrix.sync.aligned.m8n8.x4.shared.b16 {{{d}, t, u, v}}, [{d}]; }}"),
    "stmatrix.x4": ("b32", "stmatrix.sync.aligned.m8n8.x4.shared.b16 [{d}], {{%k0, %k1, %k0, %k1}};"),
    "bar.sync": ("b32", "bar.sync 0;"),
    "ld.global.cg": ("b64", "ld.volatile.global.b64 {d}, [{d}];"),
    "atom.global.add": (
        "b64",
        "{{ .reg .b32 t; .reg .b64 u; atom.global.add.u32 t, [{d}+8], 0; cvt.u64.u32 u, t; add.s64 {d}, {d}, u; }}",
    ),
}
MMAS = {
    "m16n8k16.bf16": ("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32", 4, 4, 2),
    "m16n8k8.bf16": ("mma.sync.aligned.m16n8k8.row.col.f32.bf16.bf16.f32", 4, 2, 1),
    "m16n8k16.f16": ("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32", 4, 4, 2),
    "m16n8k16.f16.f16": ("mma.sync.aligned.m16n8k16.row.col.f16.f16.f16.f16", 2, 4, 2),
    "m16n8k8.tf32": ("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32", 4, 4, 2),
    "m16n8k32.s8": ("mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32", 4, 4, 2),
    "m16n8k32.e4m3": ("mma.sync.aligned.m16n8k32.row.col.f32.e4m3.e4m3.f32", 4, 4, 2),
}
for name, (opcode, d, a, b) in MMAS.items():
    kind = "b32" if ".s8" in name or name.endswith("f16.f16") else "f32"
    OPS[f"mma.sync.{name}"] = ("mma", (opcode, d, a, b, kind))


def body(name: str, chains: int) -> str:
    kind, text = OPS[name]
    lines = []
    for i in range(UNROLL):
        d = f"%d{i % chains}"
        if kind == "mma":
            opcode, nd, na, nb, _ = text
            acc = ", ".join(f"%d{(i % chains) * 4 + j}" for j in range(nd))
            lines.append(f"{opcode} {{{acc}}}, {{{', '.join(['%k0'] * na)}}}, {{{', '.join(['%k1'] * nb)}}}, {{{acc}}};")
        else:
            lines.append(text.format(d=d, i=i))
    return "\n".join(lines)


def ptx(name: str, chains: int, arch: str = "sm_90a", version: str = "8.4") -> str:
    kind, text = OPS[name]
    mma = kind == "mma"
    of = text[4] if mma else kind
    count = chains * 4 if mma else chains
    init = {
        "f32": "mov.f32 %d{n}, %c1;",
        "b32": "mov.b32 %d{n}, %tid.x;",
        "f64": "mov.f64 %d{n}, 0d3ff0000000000000;",
        "b64": "mov.b64 %d{n}, %start;",
    }[of]
    if ("shared" in name or "matrix" in name) and not mma:
        # each thread's word (or row of 16 bytes) holds its own address
        init = "mad.lo.u32 %d{n}, %tidx, 16, %base;"
    sink = {
        "f32": "add.f32 %d0, %d0, %d{n};",
        "b32": "xor.b32 %d0, %d0, %d{n};",
        "f64": "add.f64 %d0, %d0, %d{n};",
        "b64": "xor.b64 %d0, %d0, %d{n};",
    }[of]
    return f"""
.version {version}
.target {arch}
.address_size 64
.extern .shared .align 16 .b8 dyn[];
.visible .entry k(.param .u64 out, .param .u64 data, .param .u64 taken) {{
.reg .{of} %d<{max(count, 1)}>;
.reg .f32 %c<2>, %x<{UNROLL}>;
.reg .f64 %f<2>;
.reg .b32 %k<2>, %y<{UNROLL}>, %tidx, %base, %i, %t<4>;
.reg .b64 %w<4>, %start, %t0l, %t1l, %o, %g;
.reg .pred %p, %q;
mov.u32 %tidx, %tid.x;
mov.u32 %base, dyn;
ld.param.u64 %o, [out];
ld.param.u64 %start, [data];
ld.param.u64 %g, [taken];
ld.global.f32 %c0, [%o]; ld.global.f32 %c1, [%o+4];
ld.global.b32 %k0, [%o+8]; ld.global.b32 %k1, [%o+12];
ld.global.b64 %w0, [%o+16]; ld.global.f64 %f0, [%o+24]; ld.global.f64 %f1, [%o+32];
{chr(10).join(f"ld.global.f32 %x{i}, [%o+{64 + 4 * i}]; ld.global.b32 %y{i}, [%o+{128 + 4 * i}];" for i in range(UNROLL))}
mad.lo.u32 %t0, %tidx, 16, %base;
st.shared.b32 [%t0], %t0; st.shared.b32 [%t0+4], %t0; st.shared.b32 [%t0+8], %t0; st.shared.b32 [%t0+12], %t0;
{chr(10).join(init.format(n=n) for n in range(count))}
mov.u32 %i, 0;
bar.sync 0;
mov.u64 %t0l, %clock64;
LOOP:
{body(name, chains)}
add.u32 %i, %i, 1;
setp.lt.u32 %p, %i, {TRIPS};
@%p bra LOOP;
{chr(10).join(sink.format(n=n) for n in range(1, count))}
setp.eq.u32 %q, %i, 12345;
@%q st.global.{of} [%o+1024], %d0;
bar.sync 0;
mov.u64 %t1l, %clock64;
@%q bra END;
sub.s64 %t1l, %t1l, %t0l;
st.global.u64 [%g], %t1l;
add.s64 %o, %o, 4096;
mul.wide.u32 %w3, %tidx, 8;
add.s64 %o, %o, %w3;
st.global.{of} [%o], %d0;
END:
ret;
}}
"""


STAMP = """
.version 8.0
.target sm_90a
.address_size 64
.visible .entry stamp(.param .u64 out) {
.reg .b64 %o, %a, %b; .reg .b32 %s;
ld.param.u64 %o, [out];
mov.u32 %s, %smid;
mov.u64 %a, %clock64; mov.u64 %b, %globaltimer;
st.global.u64 [%o], %a; st.global.u64 [%o+8], %b; st.global.u32 [%o+16], %s;
ret;
}
"""


class Driver:
    """The CUDA driver, in the context that torch has made."""

    def __init__(self) -> None:
        self.cuda = ctypes.CDLL("libcuda.so.1")

    def call(self, name: str, *arguments: Any) -> None:
        code = getattr(self.cuda, name)(*arguments)
        if code:
            raise RuntimeError(f"{name}: {code}")

    def function(self, text: str, name: str) -> Any:
        module, function = ctypes.c_void_p(), ctypes.c_void_p()
        self.call("cuModuleLoadData", ctypes.byref(module), text.encode() + b"\0")
        self.call("cuModuleGetFunction", ctypes.byref(function), module, name.encode())
        return function

    def launch(self, function: Any, grid: int, block: int, shared: int, stream: int, *pointers: int) -> None:
        values = [ctypes.c_uint64(one) for one in pointers]
        array = (ctypes.c_void_p * len(values))(*[ctypes.addressof(one) for one in values])
        self.call("cuLaunchKernel", function, grid, 1, 1, block, 1, 1, shared, ctypes.c_void_p(stream), array, None)


def run() -> dict[str, Any]:
    """Of each instruction."""
    import torch

    torch.zeros(1, device="cuda")
    driver = Driver()
    found: dict[str, Any] = {}
    out = torch.zeros(1 << 16, dtype=torch.uint8, device="cuda")
    taken = torch.zeros(1, dtype=torch.int64, device="cuda")
    data = torch.zeros(1 << 24, dtype=torch.int64, device="cuda")
    stream = torch.cuda.current_stream().cuda_stream
    for name, (kind, _) in OPS.items():
        several = 4 if kind == "mma" else 8
        ways = (
            ("latency", 1, 1),
            ("one_warp", several, 1),
            ("four", several, 4),
            ("eight", several, 8),
            ("sixteen", several, 16),
        )
        for label, chains, warps in ways:
            data[0] = data.data_ptr()
            function, times = driver.function(ptx(name, chains), "k"), []
            for _ in range(3):
                pointers = out.data_ptr(), data.data_ptr(), taken.data_ptr()
                driver.launch(function, 1, 32 * warps, 16384, stream, *pointers)
                torch.cuda.synchronize()
                times.append(int(taken[0]))
            found.setdefault(name, {})[label] = min(times) / (UNROLL * TRIPS)
    return found
