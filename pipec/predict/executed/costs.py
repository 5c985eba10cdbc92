"""What one instruction of a warp takes, by opcode: cycles of the unit that executes it, and cycles until its result can be used.

A unit belongs to one scheduler of a multiprocessor, except `shared`, which all of them share. Figures are those of an H200, from chains
and independent streams of single instructions (`benchmarks/results/h200_foreign.json`, `instructions`); they agree with the rates of
compute capability 9.0 in the CUDA programming guide (throughput of native arithmetic instructions), which special functions are from. A
B200's are assumed to be the same, except where its `Device` says otherwise; not those of mma.sync.
"""

import re
from collections.abc import Callable
from functools import cache
from typing import Literal, NamedTuple

from pipec.predict.device import Device
from pipec.predict.ptx.accesses import access_bytes
from pipec.predict.work import LINE

MEASURED = "sm_90a"  # what runs on the device whose instructions were measured

Unit = Literal["fma", "alu", "special", "shared", "tensor", "none"]
_WARP = 32
_MATRIX = re.compile(r"\.x([124])\b")


class Cost(NamedTuple):
    unit: Unit
    cycles: float
    latency: float
    issued: float = 1.0  # instructions that one scheduler issues


# Registers that ptxas merges, constants that instructions read as operands, and hints.
_FREE = Cost("none", 0.0, 0.0, 0.0)
_NONE = frozenset(
    ("mov", "cvta", "bra", "pragma", "elect", "membar", "fence", "griddepcontrol", "setmaxnreg", "ret", "exit", "createpolicy")
)
# What the 64 lanes for integers of a multiprocessor do, comparisons and conversions included.
_ALU_ROOTS = frozenset(
    [
        "add",
        "sub",
        "neg",
        "abs",
        "min",
        "max",
        "setp",
        "set",
        "selp",
        "slct",
        "and",
        "or",
        "xor",
        "not",
        "cnot",
        "shl",
        "shr",
        "shf",
        "lop3",
        "prmt",
        "bfe",
        "bfi",
        "bmsk",
        "szext",
        "cvt",
        "copysign",
        "testp",
        "vote",
        "activemask",
        "sad",
        "isspacep",
        "mapa",
        "getctarank",
        "addc",
        "subc",
        "match",
    ]
)
# One instruction each, beside what the replay has of them.
_ONE_SLOT = frozenset(
    [
        "bar",
        "barrier",
        "mbarrier",
        "cp",
        "wgmma",
        "tcgen05",
        "clusterlaunchcontrol",
        "nanosleep",
        "prefetch",
        "prefetchu",
        "applypriority",
        "discard",
        "tensormap",
        "brx",
        "exch",
        "trap",
        "brkpt",
        "stacksave",
        "stackrestore",
        "alloca",
    ]
)
_LONG = re.compile(r"\.[sub]64$")
_DOUBLE = re.compile(r"\.f64\b")
_FUNCTIONS = frozenset(("ex2", "lg2", "rcp", "rsqrt", "sin", "cos", "tanh"))
_SLOW = {"div": 8.0, "sqrt": 8.0}  # further instructions beside that of the special function unit (`predict.work`)
# What ptxas 13 writes for an instruction that no unit executes; of 64 bits, with the part that small numbers jump over.
_WRITTEN_OUT = {
    "div.s32": 24, "div.u32": 18, "rem.s32": 22, "rem.u32": 17, "div.s64": 88, "div.u64": 72, "rem.s64": 82, "rem.u64": 72,
    "div.s16": 18, "div.u16": 18, "rem.s16": 18, "rem.u16": 18,
}  # fmt: skip
# mma.sync with 16 rows and 8 columns: by bytes of K, cycles of a scheduler's tensor core and until the result is there.
_SYNCHRONOUS = {16: (4.1, 17.3), 32: (6.13, 24.3)}
_MULTIPLY = re.compile(r"\.m16n8k(\d+)\.row\.col\.(?:satfinite\.)?\w+\.(\w+)\.\w+\.\w+$")
_BITS = {"bf16": 16, "f16": 16, "tf32": 32, "s8": 8, "u8": 8}
_ALU = 2.0  # 64 a cycle: integers, logic, shifts, comparisons, conversions
_FMA = 1.0  # 128 a cycle
_SHUFFLE = 1.0  # 32 a cycle, of the path to shared memory
_HALF_RATE = 8.0  # 16 a cycle
_ARITHMETIC_LATENCY = 4.3
# Measured by themselves (h200_accesses.json), like the next ones: loads of threads that find their data in the L2, or in the cache of
# the multiprocessor, from whose bytes shared memory is taken.
LOAD, NEAR_LOAD = 281.0, 32.0
FROM_MEMORY = 704.0  # and how much later from memory, at the nominal clock, if many ask: read off `copy_narrow` of h200_cuda.json
CACHE_BYTES = 256 * 1024
PARTIAL = 3.9  # a sector of which a store writes a part, in the path to the L2
ATOM = 2.6  # and a sector that red changes
# Cycles from one block to the next that starts anywhere, and until one starts where another one has ended.
BLOCK, TURN_OVER = 1.0, 250.0
_SPECIAL_LATENCY = 18.0  # not measured: what the four units need for a warp, and as long again as arithmetic for the rest
_SHARED_LATENCY = 29.0
_SHUFFLE_LATENCY = 24.0


def cost_of(opcode: str, device: Device) -> Cost | None:
    """None: nothing is on record about it."""
    root, _, rest = opcode.partition(".")
    if root in _NONE or (root in ("ld", "ldu") and rest.startswith(("param", "const"))):
        return _FREE
    if root == "mma" and device.arch != MEASURED:
        return None
    return _cost_of(opcode, device.transcendental, device.compare, device.machine.operand_bytes)


@cache
def _cost_of(opcode: str, special: float, compare: float, shared_bytes: int) -> Cost | None:
    root = opcode.partition(".")[0]
    if root in ("ld", "ldu", "st", "atom", "red"):
        if ".shared" not in opcode:
            return Cost("none", 0.0, 0.0)  # the replay has them
        size = _WARP * access_bytes(opcode)
        return Cost("shared", max(1.0, size / shared_bytes), _SHARED_LATENCY)
    if root == "mma":
        found = _MULTIPLY.search(opcode)
        depth = int(found[1]) * _BITS.get(found[2], 0) // 8 if found else 0
        return Cost("tensor", *_SYNCHRONOUS[depth]) if ".sp" not in opcode and depth in _SYNCHRONOUS else None
    if root in ("ldmatrix", "stmatrix"):
        count = _MATRIX.search(opcode)
        return Cost("shared", (int(count[1]) if count else 1) * 1.0 * LINE / shared_bytes, _SHARED_LATENCY)
    if root == "shfl":
        return Cost("shared", _SHUFFLE, _SHUFFLE_LATENCY)
    if root in _FUNCTIONS:
        return Cost("special", special, _SPECIAL_LATENCY)
    if opcode in _WRITTEN_OUT:
        written = _WRITTEN_OUT[opcode]
        return Cost("alu", _ALU * written, _ARITHMETIC_LATENCY * written, written)
    if root in _SLOW and not opcode.endswith("f32"):
        return None
    if root in _SLOW:
        return Cost("special", special, _SPECIAL_LATENCY + _ARITHMETIC_LATENCY * _SLOW[root], 1 + _SLOW[root])
    if root in ("fma", "add", "sub", "mul", "neg", "abs") and re.search(r"\.(f16|bf16|f32)(x2)?$", opcode):
        return Cost("fma", _FMA, _ARITHMETIC_LATENCY)
    if root in ("min", "max") and opcode.endswith("f32"):
        return Cost("alu", compare, _ARITHMETIC_LATENCY)
    if root in ("mul", "mad", "mul24", "mad24", "dp4a", "dp2a"):
        wide = 2.0 if _LONG.search(opcode) and ".wide" not in opcode else 1.0
        return Cost("fma", _ALU * wide, _ARITHMETIC_LATENCY, wide)
    if root in ("popc", "brev", "bfind", "clz", "redux") or (root == "cvt" and _DOUBLE.search(opcode)):
        return Cost("special", _HALF_RATE, _SPECIAL_LATENCY)
    if _DOUBLE.search(opcode) and root in ("fma", "add", "sub", "mul", "neg", "abs", "min", "max", "setp"):
        return Cost("fma", _ALU, 2 * _ARITHMETIC_LATENCY)
    if root in _ONE_SLOT:
        return Cost("none", 0.0, 0.0)
    if opcode in _EITHER:
        return Cost("fma", 1.0, _ARITHMETIC_LATENCY)
    if root not in _ALU_ROOTS:
        return None
    if root in ("add", "sub", "neg", "abs", "min", "max", "setp", "set", "slct", "shl", "shr") and _LONG.search(opcode):
        return Cost("alu", 2 * _ALU, 2 * _ARITHMETIC_LATENCY, 2.0)
    return Cost("alu", _ALU, _ARITHMETIC_LATENCY)


_EITHER = frozenset(f"{root}.{kind}" for root in ("add", "sub", "min", "max") for kind in ("s32", "u32"))  # by two units
Costs = Callable[[str], Cost | None]
