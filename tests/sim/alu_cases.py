"""One tiny kernel per instruction: inputs from arrays, result to an array. Shared by the test and the recording script."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

THREADS = 256
_EDGES = {
    16: [0, 1, 0x7FFF, 0x8000, 0xFFFF, 0x7C00, 0xFC00, 0x7E00, 0x3C00, 0xBC00, 0x0001, 0x03FF, 0x7BFF, 0x8001, 0x3800],
    32: [
        0,
        1,
        0x7FFFFFFF,
        0x80000000,
        0xFFFFFFFF,
        0x7F800000,
        0xFF800000,
        0x7FC00000,
        0x3F800000,
        0xBF800000,
        0x00000001,
        0x007FFFFF,
        0x7F7FFFFF,
        0x33800000,
        0x4F000000,
        0xCF000000,
        0x40490FDB,
        0x3F000000,
        0x43E00000,
        0x47610000,
        31,
        32,
        33,
    ],
    64: [
        0,
        1,
        (1 << 63) - 1,
        1 << 63,
        (1 << 64) - 1,
        0x7FF0000000000000,
        0xFFF0000000000000,
        0x7FF8000000000000,
        0x3FF0000000000000,
        0xBFF0000000000000,
        0x3CA0000000000000,
        0x41E0000000000000,
        0x0000000000000001,
        63,
        64,
        65,
    ],
}


@dataclass(frozen=True)
class Case:
    """`text` with {d} and {a} {b} {c}; `inputs` and `output` are widths in bits; `tolerance` 0 means bit for bit."""

    name: str
    text: str
    inputs: tuple[int, ...]
    output: int
    kind: str = "bits"
    tolerance: float = 0.0


def _many(template: str, names: str, inputs: tuple[int, ...], output: int, **more) -> list[Case]:
    return [
        Case(template.format(n=name).replace(".", "_"), template.format(n=name) + _operands(len(inputs)), inputs, output, **more)
        for name in names.split()
    ]


def _operands(count: int) -> str:
    return " {d}, " + ", ".join(["{a}", "{b}", "{c}"][:count]) + ";"


def _with_predicate(name: str, text: str, inputs: tuple[int, ...]) -> Case:
    return Case(name.replace(".", "_"), text + " selp.b32 {d}, 1, 0, %pp;", inputs, 32)


def cases() -> list[Case]:
    found: list[Case] = []
    for bits in (16, 32, 64):
        two = (bits, bits)
        found += _many(f"{{n}}.s{bits}", "add sub mul.lo mul.hi div rem min max", two, bits)
        found += _many(f"{{n}}.u{bits}", "mul.hi div rem min max", two, bits)
        found += _many(f"{{n}}.b{bits}", "and or xor", two, bits)
        found += _many(f"{{n}}.b{bits}", "not cnot", (bits,), bits)
        found += _many(f"{{n}}.s{bits}", "abs neg", (bits,), bits)
        found += _many(f"{{n}}{bits}", "shl.b shr.u shr.s", (bits, 32), bits)
        found += _many(f"mad.lo.{{n}}{bits}", "s u", (bits,) * 3, bits)
    for bits in (32, 64):
        found += _many(f"mad.hi.{{n}}{bits}", "s u", (bits,) * 3, bits)
        found += _many(f"{{n}}.b{bits}", "popc clz", (bits,), 32)
        found += _many(f"{{n}}.b{bits}", "brev", (bits,), bits)
        found += _many(f"bfind.{{n}}{bits}", "s u", (bits,), 32)
        found += _many(f"bfind.shiftamt.{{n}}{bits}", "s u", (bits,), 32)
        found += [
            Case(f"bfe_{t}{bits}_{p}_{n}", f"bfe.{t}{bits} {{d}}, {{a}}, {p}, {n};", (bits,), bits)
            for t in "su"
            for p, n in ((0, 0), (3, 8), (20, 20), (31, 5), (40, 8), (5, 255), (bits - 1, 1))
        ]
        found += [
            Case(f"bfi{bits}_{p}_{n}", f"bfi.b{bits} {{d}}, {{a}}, {{b}}, {p}, {n};", (bits, bits), bits)
            for p, n in ((0, 0), (3, 8), (20, 20), (31, 5), (40, 8), (5, 255))
        ]
    found += _many("mul.wide.{n}32", "s u", (32, 32), 64) + _many("mul.wide.{n}16", "s u", (16, 16), 32)
    found += [Case(f"mad_wide_{t}", f"mad.wide.{t}32 {{d}}, {{a}}, {{b}}, {{c}};", (32, 32, 64), 64) for t in "su"]
    found += _many("{n}.sat.s32", "add sub", (32, 32), 32)
    found += _many("{n}.lo.s32", "mul24", (32, 32), 32) + _many("{n}.hi.u32", "mul24", (32, 32), 32)
    found += _many("sad.{n}32", "s u", (32, 32, 32), 32)
    found += _many("dp4a.{n}", "s32.s32 s32.u32 u32.s32 u32.u32", (32, 32, 32), 32)
    found += _many("dp2a.lo.{n}", "s32.s32 u32.u32", (32, 32, 32), 32) + _many("dp2a.hi.{n}", "s32.u32", (32, 32, 32), 32)
    found += _many("shf.{n}.b32", "l.wrap l.clamp r.wrap r.clamp", (32, 32, 32), 32)
    found += _many("prmt.b32{n}", ".f4e .b4e .rc8 .ecl .ecr .rc16", (32, 32, 32), 32)
    found += [Case("prmt", "and.b32 {c}, {c}, 0xffff; prmt.b32 {d}, {a}, {b}, {c};", (32, 32, 32), 32)]
    found += [
        Case(f"lop3_{v:02x}", f"lop3.b32 {{d}}, {{a}}, {{b}}, {{c}}, {v};", (32, 32, 32), 32) for v in (0x96, 0xE8, 0x3C, 0x1B)
    ]
    found += [
        Case("carry", "add.cc.u32 {d}, {a}, {b}; addc.u32 {d}, {a}, {c};", (32, 32, 32), 32),
        Case("borrow", "sub.cc.u32 {d}, {a}, {b}; subc.u32 {d}, {a}, {c};", (32, 32, 32), 32),
    ]
    found += _float_cases() + _compare_cases() + _convert_cases()
    return found


def _float_cases() -> list[Case]:
    found = _many(
        "{n}.f32",
        "add.rn add.rz add.rm add.rp add.ftz add.sat sub.rn sub.rz mul.rn mul.rz mul.rm mul.rp mul.ftz "
        "min max min.ftz max.NaN div.rn div.rz div.rm div.rp",
        (32, 32),
        32,
        kind="f32",
    )
    found += _many("{n}.f64", "add.rn add.rz add.rp sub.rm mul.rn mul.rz min max div.rn div.rz", (64, 64), 64, kind="f64")
    found += _many("fma.{n}.f32", "rn rz rm rp rn.ftz rn.sat", (32,) * 3, 32, kind="f32")
    found += _many("fma.{n}.f64", "rn rz", (64,) * 3, 64, kind="f64")
    found += _many("{n}.f16", "add sub mul min max add.sat", (16, 16), 16, kind="f16")
    found += _many("{n}.bf16", "add sub mul min max", (16, 16), 16, kind="bf16")
    found += _many("fma.rn.{n}", "f16 relu.f16 bf16 relu.bf16", (16,) * 3, 16, kind="f16")
    found += _many("{n}.f16x2", "add sub mul min max max.NaN", (32, 32), 32, kind="f16")
    found += _many("{n}.bf16x2", "add sub mul min max", (32, 32), 32, kind="bf16")
    found += _many("fma.rn.{n}", "f16x2 bf16x2 relu.f16x2", (32,) * 3, 32, kind="f16")
    found += _many("{n}.f32", "abs neg abs.ftz rcp.rn rcp.rz sqrt.rn sqrt.rp", (32,), 32, kind="f32")
    found += _many(
        "{n}.f32", "ex2.approx lg2.approx rsqrt.approx rcp.approx sqrt.approx tanh.approx", (32,), 32, kind="f32", tolerance=1e-3
    )
    found += _many("{n}.f16x2", "abs neg", (32,), 32) + _many("{n}.bf16x2", "abs neg", (32,), 32)
    found += _many("copysign.f{n}", "32", (32, 32), 32) + _many("copysign.f{n}", "64", (64, 64), 64)
    return found


def _compare_cases() -> list[Case]:
    found = []
    for kind, bits, names in (
        ("s32", 32, "eq ne lt le gt ge"),
        ("u32", 32, "lo ls hi hs"),
        ("s64", 64, "lt ge"),
        ("u16", 16, "lt ge"),
        ("f32", 32, "eq ne lt le gt ge equ neu ltu leu gtu geu num nan"),
        ("f64", 64, "lt neu nan"),
        ("f16", 16, "lt neu"),
        ("bf16", 16, "lt gtu"),
    ):
        found += [
            _with_predicate(f"setp_{name}_{kind}", f"setp.{name}.{kind} %pp, {{a}}, {{b}};", (bits, bits))
            for name in names.split()
        ]
    found += [
        _with_predicate("setp_ftz", "setp.eq.ftz.f32 %pp, {a}, {b};", (32, 32)),
        _with_predicate("setp_and", "setp.gt.s32 %pq, {c}, 0; setp.lt.and.s32 %pp|%pr, {a}, {b}, %pq;", (32, 32, 32)),
        _with_predicate("setp_xor", "setp.gt.s32 %pq, {c}, 0; setp.lt.xor.s32 %pr|%pp, {a}, {b}, !%pq;", (32, 32, 32)),
        _with_predicate("setp_h2", "setp.lt.f16x2 %pp|%pr, {a}, {b}; xor.pred %pp, %pp, %pr;", (32, 32)),
    ]
    found += [
        Case("set_f32", "set.lt.f32.s32 {d}, {a}, {b};", (32, 32), 32),
        Case("set_u32", "set.gt.u32.f32 {d}, {a}, {b};", (32, 32), 32),
        Case("slct", "slct.b32.s32 {d}, {a}, {b}, {c};", (32, 32, 32), 32),
    ]
    found += [
        _with_predicate(f"testp_{n}", f"testp.{n}.f32 %pp, {{a}};", (32,))
        for n in ["finite", "infinite", "number", "notanumber", "normal", "subnormal"]
    ]
    return found


def _convert_cases() -> list[Case]:
    found = []
    widths = {"s8": 16, "u8": 16, "s16": 16, "u16": 16, "s32": 32, "u32": 32, "s64": 64, "u64": 64}
    for to, out in widths.items():
        for from_, in_ in widths.items():
            if to != from_:
                found.append(Case(f"cvt_{to}_{from_}", f"cvt.{to}.{from_} {{d}}, {{a}};", (in_,), out))
                if not _contains(to, from_):
                    found.append(Case(f"cvt_sat_{to}_{from_}", f"cvt.sat.{to}.{from_} {{d}}, {{a}};", (in_,), out))
    floats = {"f16": 16, "f32": 32, "f64": 64}
    for f, bits in floats.items():
        for i, width in widths.items():
            found += [
                Case(f"cvt_{mode}_{i}_{f}", f"cvt.{mode}.{i}.{f} {{d}}, {{a}};", (bits,), width)
                for mode in ("rni", "rzi", "rmi", "rpi")
            ]
            found += [
                Case(f"cvt_{mode}_{f}_{i}", f"cvt.{mode}.{f}.{i} {{d}}, {{a}};", (width,), bits, f) for mode in ("rn", "rz")
            ]
    found += _many("cvt.{n}.f32.f64", "rn rz rm rp rn.ftz rn.sat", (64,), 32, kind="f32")
    found += _many("cvt.{n}.f16.f32", "rn rz rn.relu rn.satfinite", (32,), 16, kind="f16")
    found += _many("cvt.{n}.bf16.f32", "rn rz rn.relu", (32,), 16, kind="bf16")
    found += _many("cvt.{n}", "f32.f16 f32.bf16", (16,), 32, kind="f32") + _many("cvt.{n}", "f64.f32", (32,), 64, kind="f64")
    found += _many("cvt.{n}.f32.f32", "rni rzi rmi rpi rni.ftz sat", (32,), 32, kind="f32")
    found += _many("cvt.{n}.f32", "rn.f16x2 rz.f16x2 rn.relu.f16x2 rn.satfinite.f16x2", (32, 32), 32, kind="f16")
    found += _many("cvt.{n}.f32", "rn.bf16x2 rz.bf16x2 rn.relu.bf16x2 rn.satfinite.bf16x2", (32, 32), 32, kind="bf16")
    found += _many("cvt.{n}.f32", "rna.tf32 rn.tf32 rz.tf32", (32,), 32, kind="tf32")
    found += _many("cvt.rn.satfinite.{n}.f32", "e4m3x2 e5m2x2 relu.e4m3x2 relu.e5m2x2", (32, 32), 16)
    found += _many("cvt.rn.satfinite.{n}.f16x2", "e4m3x2 e5m2x2", (32,), 16)
    found += _many("cvt.rn.f16x2.{n}", "e4m3x2 e5m2x2", (16,), 32, kind="f16")
    found += [
        Case("cvt_pack_u16", "cvt.pack.sat.u16.s32 {d}, {a}, {b};", (32, 32), 32),
        Case("cvt_pack_s16", "cvt.pack.sat.s16.s32 {d}, {a}, {b};", (32, 32), 32),
        Case("cvt_pack_u8", "cvt.pack.sat.u8.s32.b32 {d}, {a}, {b}, {c};", (32, 32, 32), 32),
    ]
    return found


def _contains(to: str, from_: str) -> bool:
    """Whether every value of `from_` fits, so that ptxas refuses .sat."""
    outer, inner = (np.iinfo(name.replace("s", "int").replace("u", "uint")) for name in (to, from_))
    return outer.min <= inner.min and inner.max <= outer.max


def inputs(case: Case) -> list[np.ndarray]:
    """Edge patterns against each other, then random bits, then random numbers of ordinary size."""
    rng = np.random.default_rng(sum(case.name.encode()))
    arrays = []
    for place, bits in enumerate(case.inputs):
        edges = np.array(_EDGES[bits], np.uint64)
        values = rng.integers(0, 1 << 63, THREADS, np.uint64) * np.uint64(2) + rng.integers(0, 2, THREADS, np.uint64)
        values >>= np.uint64(64 - bits)
        values[:150] = edges[rng.integers(0, edges.size, 150)] if place else np.resize(edges, 150)
        if bits == 32:
            values[200:] = rng.normal(0, 3, THREADS - 200).astype(np.float32).view(np.uint32)
        if bits == 64:
            values[200:] = rng.normal(0, 300, THREADS - 200).view(np.uint64)
        if bits == 16:
            values[200:] = rng.normal(0, 3, THREADS - 200).astype(np.float16).view(np.uint16)
        arrays.append(values.astype(f"uint{bits}"))
    return arrays


def kernel(case: Case) -> str:
    names = "abc"
    text = case.text.format(d="%dd", a="%aa", b="%bb", c="%cc")
    loads = "\n".join(
        f"  ld.param.u64 %p, [p{i}]; mad.wide.u32 %p, %t, {b // 8}, %p; ld.global.b{b} %{names[i] * 2}, [%p];"
        for i, b in enumerate(case.inputs)
    )
    registers = " ".join(f".reg .b{b} %{names[i] * 2};" for i, b in enumerate(case.inputs))
    parameters = ", ".join(f".param .u64 p{i}" for i in range(len(case.inputs)))
    return f""".visible .entry k_{case.name}({parameters}, .param .u64 q) .reqntid {THREADS}, 1, 1 {{
  .reg .pred %pp, %pq, %pr; .reg .b64 %p; .reg .b32 %t; .reg .b{case.output} %dd; {registers}
  mov.u32 %t, %tid.x;
{loads}
  {text}
  ld.param.u64 %p, [q]; mad.wide.u32 %p, %t, {case.output // 8}, %p; st.global.b{case.output} [%p], %dd;
  ret;
}}
"""


def module(target: str = "sm_90a") -> str:
    return f".version 8.6\n.target {target}\n.address_size 64\n" + "\n".join(kernel(case) for case in cases())
