"""mma.sync of f64 against NumPy. Each lane loads and stores its elements by the tables of the PTX ISA, written out here once more."""

from __future__ import annotations

import numpy as np
import pytest

from pipec.sim import launch


def _kernel(rows: int, k: int) -> str:
    """Lane l passes A as registers 0..a-1 of its own part of `a`, and so on."""
    counts = {"a": rows * k // 32, "b": 8 * k // 32, "c": rows // 4}
    loads = "\n".join(
        f"ld.global.f64 %{name}{number}, [%{name}p+{8 * number}];" for name, count in counts.items() for number in range(count)
    )
    stores = "\n".join(f"st.global.f64 [%cp+{8 * number}], %c{number};" for number in range(counts["c"]))
    lists = {name: "{" + ", ".join(f"%{name}{number}" for number in range(count)) + "}" for name, count in counts.items()}
    declared = "\n".join(f".reg .f64 %{name}<{count}>;" for name, count in counts.items())
    pointers = "\n".join(
        f".reg .b64 %{name}p; ld.param.u64 %{name}p, [{name}]; mad.wide.u32 %{name}p, %t, {8 * count}, %{name}p;"
        for name, count in counts.items()
    )
    return f"""
.version 8.6
.target sm_90a
.address_size 64
.visible .entry multiply(.param .u64 a, .param .u64 b, .param .u64 c) .reqntid 32
{{
.reg .b32 %t;
{declared}
mov.u32 %t, %tid.x;
{pointers}
{loads}
mma.sync.aligned.m{rows}n8k{k}.row.col.f64.f64.f64.f64 {lists["c"]}, {lists["a"]}, {lists["b"]}, {lists["c"]};
{stores}
ret;
}}
"""


@pytest.mark.parametrize(("rows", "k"), [(8, 4), (16, 4), (16, 8), (16, 16)])
@pytest.mark.parametrize("whole", [True, False])
def test_product(rows: int, k: int, whole: bool) -> None:
    rng = np.random.default_rng(k)
    a, b, c = (rng.standard_normal(shape) for shape in ((rows, k), (k, 8), (rows, 8)))
    if whole:
        a, b, c = (np.rint(8 * one) for one in (a, b, c))
    lanes_a, lanes_b, lanes_c = np.empty((32, rows * k // 32)), np.empty((32, k // 4)), np.empty((32, rows // 4))
    for lane in range(32):
        group, inside = divmod(lane, 4)
        for number in range(lanes_a.shape[1]):
            if rows == 8:
                row, column = group, inside
            else:
                row, column = group + 8 * (number % 2), inside + 4 * (number // 2)
            lanes_a[lane, number] = a[row, column]
        for number in range(lanes_b.shape[1]):
            lanes_b[lane, number] = b[inside + 4 * number, group]
        for number in range(lanes_c.shape[1]):
            lanes_c[lane, number] = c[group + 8 * (number // 2), 2 * inside + number % 2]
    launch(_kernel(rows, k), arguments=[lanes_a, lanes_b, lanes_c])
    expected = a @ b + c
    for lane in range(32):
        group, inside = divmod(lane, 4)
        for number in range(lanes_c.shape[1]):
            wanted = expected[group + 8 * (number // 2), 2 * inside + number % 2]
            found = lanes_c[lane, number]
            assert found == wanted if whole else abs(found - wanted) < 1e-12
