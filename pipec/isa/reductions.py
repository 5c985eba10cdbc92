"""The reductions of stores with global memory, per path: element types and their PTX names.

Sources: cp.reduce.async.bulk.tensor, PTX ISA 9.7.9.25.5.3 (the type is the tensor map's); red, PTX ISA 9.7.13.7.
"""

from pipec.vocabulary import Reduction, StorePath

OPERATIONS: tuple[Reduction, ...] = ("add", "min", "max")

# Names of pipec.isa.dtypes.
_INTEGERS = ("i32", "u32", "i64", "u64")
ALLOWED: dict[StorePath, dict[Reduction, tuple[str, ...]]] = {
    "tma": {
        "add": ("i32", "u32", "u64", "f16", "bf16", "f32"),
        "min": (*_INTEGERS, "f16", "bf16"),
        "max": (*_INTEGERS, "f16", "bf16"),
    },
    "direct": {
        "add": (*_INTEGERS, "f16", "bf16", "f32", "f64"),
        "min": (*_INTEGERS, "f32", "f64"),
        "max": (*_INTEGERS, "f32", "f64"),
    },
}

# `red` has no minimum or maximum of these. As integers, the bits of floats without a sign bit are ordered like the numbers, and those of
# floats with one the other way round: here are the reductions of the bits for an operand without a sign bit, and for one with it.
Bits = tuple[Reduction, str]
BY_INTEGERS: dict[tuple[Reduction, str], tuple[Bits, Bits]] = {
    ("min", "f32"): (("min", "i32"), ("max", "u32")),
    ("max", "f32"): (("max", "i32"), ("min", "u32")),
    ("min", "f64"): (("min", "i64"), ("max", "u64")),
    ("max", "f64"): (("max", "i64"), ("min", "u64")),
}

# The spelling of an element type for `red`, by operation where it matters: addition is independent of the sign.
_NAMES = {"i32": "s32", "i64": "s64"}
_HALVES = ("f16", "bf16")


def red_type(operation: str, dtype: str) -> str:
    """What follows `red.relaxed.gpu.global.`: `add.f32`, `add.noftz.bf16`, `min.s64`."""
    if dtype in _HALVES:
        return f"{operation}.noftz.{dtype}"
    name = "u64" if (operation, dtype) == ("add", "i64") else _NAMES.get(dtype, dtype)
    return f"{operation}.{name}"


def red_vector(operation: str, dtype: str) -> str | None:
    """Like `red_type` for 16 bytes at a time; None if there is no such instruction (sm_90 and later have float additions)."""
    if operation != "add":
        return None
    if dtype in _HALVES:
        return f"v4.{dtype}x2.add.noftz"
    return "v4.f32.add" if dtype == "f32" else None
