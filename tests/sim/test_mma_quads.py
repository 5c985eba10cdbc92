"""mma.m8n8k4 of halves against NumPy. Each lane has its elements by the tables of the PTX ISA, written out here once more."""

from __future__ import annotations

import numpy as np
import pytest

from pipec.sim import launch


def _kernel(left: str, right: str, result: str, before: str) -> str:
    registers = {"a": 2, "b": 2, "c": 4 if before == "f16" else 8, "d": 4 if result == "f16" else 8}
    lists = {name: "{" + ", ".join(f"%{name}{number}" for number in range(count)) + "}" for name, count in registers.items()}
    declared = " ".join(f".reg .b32 %{name}<{count}>;" for name, count in registers.items())
    pointers = "\n".join(
        f".reg .b64 %{name}p; ld.param.u64 %{name}p, [{name}]; mad.wide.u32 %{name}p, %t, {4 * count}, %{name}p;"
        for name, count in registers.items()
    )
    loads = "\n".join(f"ld.global.b32 %{name}{i}, [%{name}p+{4 * i}];" for name in "abc" for i in range(registers[name]))
    stores = "\n".join(f"st.global.b32 [%dp+{4 * i}], %d{i};" for i in range(registers["d"]))
    return f""".version 8.6
.target sm_90a
.address_size 64
.visible .entry multiply(.param .u64 a, .param .u64 b, .param .u64 c, .param .u64 d) .reqntid 32
{{ .reg .b32 %t; {declared} mov.u32 %t, %tid.x;
{pointers}
{loads}
mma.sync.aligned.m8n8k4.{left}.{right}.{result}.f16.f16.{before} {lists["d"]}, {lists["a"]}, {lists["b"]}, {lists["c"]};
{stores} ret; }}
"""


def _row_and_column(lane: int, i: int, format_name: str) -> tuple[int, int]:
    """Of element i of C or D."""
    high = 0 if lane < 16 else 4
    if format_name == "f16":
        return lane % 4 + high, i
    return (lane & 0b1) + (i & 0b10) + high, (i & 0b100) + (lane & 0b10) + (i & 0b1)


@pytest.mark.parametrize(("result", "before"), [("f32", "f32"), ("f16", "f16"), ("f32", "f16")])
@pytest.mark.parametrize("left", ["row", "col"])
@pytest.mark.parametrize("right", ["row", "col"])
def test_four_products(left: str, right: str, result: str, before: str) -> None:
    rng = np.random.default_rng(3)
    # Small whole numbers have one result in any order.
    a, b, c = (rng.integers(-9, 10, (4, *shape)).astype(np.float64) for shape in ((8, 4), (4, 8), (8, 8)))
    types = {"f16": np.float16, "f32": np.float32}
    lanes_a, lanes_b = np.empty((32, 4), np.float16), np.empty((32, 4), np.float16)
    lanes_c, lanes_d = np.empty((32, 8), types[before]), np.full((32, 8), np.nan, types[result])
    for lane in range(32):
        quad, inside, high = lane % 16 // 4, lane % 4, 0 if lane < 16 else 4
        for i in range(4):
            lanes_a[lane, i] = a[quad, inside + high, i] if left == "row" else a[quad, i + high, inside]
            lanes_b[lane, i] = b[quad, inside, i + high] if right == "row" else b[quad, i, inside + high]
        for i in range(8):
            lanes_c[lane, i] = c[(quad, *_row_and_column(lane, i, before))]
    launch(_kernel(left, right, result, before), arguments=[lanes_a, lanes_b, lanes_c, lanes_d])
    expected = a @ b + c
    for lane in range(32):
        found = [expected[(lane % 16 // 4, *_row_and_column(lane, i, result))] for i in range(8)]
        assert lanes_d[lane].tolist() == found
