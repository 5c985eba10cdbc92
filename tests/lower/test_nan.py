"""What a NaN becomes: every element function, reduction, comparison and conversion against NumPy, on both targets.

NumPy decides (and torch agrees): minimum, maximum, relu, clip and the reductions give NaN; fmin and fmax prefer the number.
"""

import math
from collections.abc import Callable

import numpy as np
import pytest
from running import NUMPY, exact

import pipec
from pipec.sema.language.functions import FUNCTIONS, REDUCTIONS

pytestmark = pytest.mark.combinations(0.35)

SPECIAL = (math.nan, 2.5, -2.5, 0.0, -0.0, math.inf, -math.inf, 1.0)
TARGETS = ("sm_100a", "sm_90a")
COLUMNS = 8

SOURCE = """
kernel k(x: tensor[{kind}, 64, 8], z: tensor[{kind}, 64, 8], y: tensor[{out}, 64, {width}]):
    grid(1)
    ring = InputTilePipeline(TilePayload(x=tile[{kind}, 64, 8], z=tile[{kind}, 64, 8]), stages=1)
    role load(warps=1) produces ring:
        with ring.produce() as s:
            tma.load(s.x, x[0, 0])
            tma.load(s.z, z[0, 0])
    role compute(warps=2) consumes ring:
        with ring.consume() as s:
            {store}(y[0, 0], {value})
"""


def evaluated(
    value: str, kind: str, arch: str, out: str | None = None, store: str = "store.direct", width: int = COLUMNS
) -> np.ndarray:
    """The expression over all pairs of special values: x runs along the rows, z along the columns. Outputs start as 77."""
    x, z = pairs(kind)
    source = SOURCE.format(kind=kind, out=out or kind, store=store, value=value, width=width)
    y = np.full((64, width), 77, NUMPY[out or kind])
    pipec.compile(source, arch=arch, allow_undecided=True)["k"](x, z, y, device="sim")
    return y


def pairs(kind: str) -> tuple[np.ndarray, np.ndarray]:
    x = np.tile(np.repeat(np.array(SPECIAL), COLUMNS).reshape(COLUMNS, COLUMNS), (8, 1))
    z = np.tile(np.array(SPECIAL), (64, 1))
    return x.astype(NUMPY[kind]), z.astype(NUMPY[kind])


# A function that is not here has no decision: the test below refuses it.
TWO: dict[str, Callable] = {"min": np.minimum, "max": np.maximum, "fmin": np.fmin, "fmax": np.fmax}
OTHERS = set(FUNCTIONS) - set(TWO) - {"ceildiv"}  # ceildiv takes integers


def test_every_function_is_decided() -> None:
    keeps_numbers = {row.name for row in FUNCTIONS.values() if "of a NaN and a number" in row.document}
    assert keeps_numbers == {"fmin", "fmax"}
    assert set(TWO) <= set(FUNCTIONS) and set(REDUCTIONS) == {"row_sum", "row_max", "row_min"}


@pytest.mark.parametrize("arch", TARGETS)
@pytest.mark.parametrize("kind", ["f32", "f16", "bf16"])
@pytest.mark.parametrize("function", TWO)
def test_of_two(function: str, kind: str, arch: str) -> None:
    x, z = pairs(kind)
    expected = TWO[function](exact(x), exact(z))
    # fmin and fmax calculate in f32, so their result is cast where the tensor is narrow.
    value = f"{function}(s.x, s.z)" if function in ("min", "max") or kind == "f32" else f"cast[{kind}]({function}(s.x, s.z))"
    np.testing.assert_array_equal(exact(evaluated(value, kind, arch)), expected)


@pytest.mark.parametrize("arch", TARGETS)
@pytest.mark.parametrize("kind", ["f32", "f16", "bf16"])
@pytest.mark.parametrize("store", ["store", "store.direct"])
def test_relu(kind: str, arch: str, store: str) -> None:
    x, _ = pairs(kind)
    np.testing.assert_array_equal(exact(evaluated("relu(s.x)", kind, arch, store=store)), np.maximum(exact(x), 0))


@pytest.mark.parametrize("arch", TARGETS)
@pytest.mark.parametrize("out", ["f16", "bf16", "e4m3", "e5m2"])
def test_relu_before_a_conversion(out: str, arch: str) -> None:
    """Where the assembler or LLVM may join the two into one `cvt.relu`."""
    x, _ = pairs("f32")
    finite = np.where(np.isinf(x), np.float32(3), x)  # narrow types saturate or not: another test's question
    found = evaluated(f"cast[{out}](relu(s.x if abs(s.x) < 100.0 or s.x != s.x else 3.0))", "f32", arch, out=out, width=16)
    np.testing.assert_array_equal(exact(found[:, :8]), np.maximum(exact(finite), 0))


@pytest.mark.parametrize("function", sorted(OTHERS))
def test_a_nan_stays(function: str) -> None:
    arguments = ", ".join(["s.x"] + ["1.0"] * (len(FUNCTIONS[function].parameters) - 1))
    x, _ = pairs("f32")
    found = evaluated(f"{function}({arguments})", "f32", "sm_100a")
    assert np.isnan(found[np.isnan(x)]).all()


@pytest.mark.parametrize("arch", TARGETS)
def test_clamp_is_clip(arch: str) -> None:
    x, _ = pairs("f32")
    np.testing.assert_array_equal(evaluated("min(max(s.x, -1.0), 1.0)", "f32", arch), np.clip(x, -1, 1))
    np.testing.assert_array_equal(evaluated("s.x if s.x > 0.0 else 0.0", "f32", arch), np.where(x > 0, x, 0))


@pytest.mark.parametrize("arch", TARGETS)
@pytest.mark.parametrize(("function", "numpy"), [("row_max", np.max), ("row_min", np.min), ("row_sum", np.sum)])
def test_reductions(function: str, numpy: Callable, arch: str) -> None:
    """Of the rows of x * 0 + z with a NaN in one column, and of x alone, whose rows are NaN throughout or not at all."""
    x, _ = pairs("f32")
    with np.errstate(invalid="ignore"):
        expected = np.broadcast_to(numpy(exact(x), axis=1, keepdims=True), x.shape)
        np.testing.assert_array_equal(
            evaluated(f"{function}(s.x) + s.z * 0.0 if s.z == 1.0 else {function}(s.x)", "f32", arch), expected
        )
        assert np.isnan(evaluated(f"{function}(s.z) + (0.0 if s.x == s.x else 0.0)", "f32", arch)).all()


@pytest.mark.parametrize("arch", TARGETS)
@pytest.mark.parametrize("out", ["i8", "u8", "i32"])
def test_an_integer_from_a_nan_is_zero(out: str, arch: str) -> None:
    x, _ = pairs("f32")
    found = evaluated(f"cast[{out}](s.x if abs(s.x) < 100.0 or s.x != s.x else 3.0)", "f32", arch, out=out, width=16)[:, :8]
    assert (found[np.isnan(x)] == 0).all() and (found[x == 1] == 1).all()
