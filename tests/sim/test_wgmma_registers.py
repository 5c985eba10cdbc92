"""Registers that several wgmma in flight work on: their values are those of one after the other."""

from __future__ import annotations

import numpy as np
import pytest

from pipec.sim import ArrayArgument, Options, SimulationError, launch

from .race_programs.matrix_units import DESCRIPTORS
from .race_programs.program import HEAD, SETUP

# A bf16 is stored at each 2 bytes of both tiles: 1 or 2, by the number of its word.
FILL = """mov.u32 %r1, %t;
FILL: shl.b32 %r2, %r1, 2; add.u32 %r2, %r2, %tile; shr.u32 %r3, %r1, 3; xor.b32 %r3, %r3, %r1; and.b32 %r3, %r3, 1;
mad.lo.u32 %r3, %r3, 128, 0x3F803F80; st.shared.u32 [%r2], %r3; add.u32 %r1, %r1, 128; setp.lt.u32 %p1, %r1, 4096; @%p1 bra FILL;
fence.proxy.async; bar.sync 0; wgmma.fence.sync.aligned; setp.eq.u32 %p6, %k, 0;
"""
NARROW, WIDE = "%f0, %f1, %f2, %f3", "%f2, %f3, %f4, %f5, %f6, %f7, %f8, %f9"
MULTIPLY = "wgmma.mma_async.sync.aligned.m64n{n}k16.f32.bf16.bf16 {{{d}}}, %rd5, %rd6, %p6, 1, 1, 0, 0;\n"
AGAIN, WAIT = "wgmma.fence.sync.aligned;\n", "wgmma.commit_group.sync.aligned;\nwgmma.wait_group.sync.aligned 0;\n"
STORE = "".join(
    f"mad.lo.u32 %r1, %t, 40, {4 * i}; cvt.u64.u32 %rd7, %r1; add.u64 %rd7, %rd7, %array; st.global.f32 [%rd7], %f{i};\n"
    for i in range(10)
)


START = "".join(f"mad.lo.u32 %r1, %t, 16, {i}; cvt.rn.f32.u32 %f{i}, %r1;\n" for i in range(10))


def run(*parts: str, start: str = START) -> np.ndarray:
    body = DESCRIPTORS.format(upper=16) + start + FILL + "".join(parts) + STORE
    out = np.zeros((128, 10), np.float32)
    text = f"{HEAD.format(target='sm_90a')}.entry k(.param .u64 a)\n{{\n{SETUP}{body}\nret;\n}}\n"
    launch(text, "k", block=128, dynamic_smem=65536, arguments=[ArrayArgument(out)], options=Options(rules="practice"))
    return out


@pytest.mark.parametrize(
    "vectors",
    [(NARROW, WIDE, NARROW), (WIDE, NARROW, WIDE), (NARROW, NARROW, NARROW), ("%f0, %f1, %f2, %f3", "%f3, %f2, %f1, %f0")],
    ids=["narrow between", "wide between", "the same", "in another order"],
)
def test_accumulators_in_flight_may_overlap(vectors: tuple[str, ...]) -> None:
    """Each register goes on from what the instruction before has left in it, as if that had been waited for."""
    products = [MULTIPLY.format(n=8 if vector.count("%") == 4 else 16, d=vector) for vector in vectors]
    together = run(*(one + AGAIN for one in products), WAIT)
    apart = run(*(one + WAIT + AGAIN for one in products))
    assert np.array_equal(together, apart) and len(np.unique(together[:, :4] - 16 * np.arange(128)[:, None])) > 4


def test_an_unread_copy_does_not_touch_an_accumulator() -> None:
    """A compiler names the accumulators anew behind a wait that leaves a group pending; the next product goes on with the old names."""
    product, some = MULTIPLY.format(n=8, d=NARROW), WAIT.replace("wait_group.sync.aligned 0", "wait_group.sync.aligned 1")
    copies = "mov.f32 %f20, %f0; mov.f32 %f21, %f20; mov.f32 %f22, %f1;\n"
    assert np.array_equal(run(product, copies, some, AGAIN, product, WAIT), run(product, some, AGAIN, product, WAIT))
    with pytest.raises(SimulationError, match="in flight"):
        run(product, copies, some, AGAIN, product, "add.f32 %f9, %f9, %f21;\n", WAIT)
    with pytest.raises(SimulationError, match="in flight"):
        run(product, copies, some, AGAIN, product, WAIT, "add.f32 %f9, %f9, %f21;\n")


def test_registers_that_are_not_held_are_free() -> None:
    """A neighbour of the accumulator may be used while it is in flight, and no register of it may."""
    first = MULTIPLY.format(n=8, d=NARROW)
    assert np.array_equal(run(first, "add.f32 %f4, %f4, %f4;\n", WAIT)[:, 4], 2 * (16 * np.arange(128) + 4))
    with pytest.raises(SimulationError, match="in flight"):
        run(first, "add.f32 %f4, %f4, %f3;\n", WAIT)


OTHERS = "".join(f"mov.f32 %f{i}, 0f00000000;\n" for i in range(4, 10))
ZEROS = "".join(f"mov.f32 %f{i}, 0f00000000;\n" for i in range(4))
SETS = "setp.ne.u32 %p6, %k, 0;\n" + MULTIPLY.format(n=8, d=NARROW) + AGAIN + "setp.eq.u32 %p6, %k, 0;\n"
ADDS = MULTIPLY.format(n=8, d=NARROW) + WAIT


@pytest.mark.parametrize(
    ("before", "parts"),
    [(ZEROS, (ADDS,)), ("", (SETS, ADDS)), ("setp.ne.u32 %p1, %k, 0; @%p1 bra Z;\n" + ZEROS + "Z:\n", (ADDS,))],
    ids=["zeros", "the first one sets it", "zeros on the path that is taken"],
)
def test_an_accumulator_that_was_set(before: str, parts: tuple[str, ...]) -> None:
    assert np.isfinite(run(*parts, start=OTHERS + before)).all()


@pytest.mark.parametrize(
    ("before", "register"),
    [("", "%f0"), (ZEROS.replace("mov.f32 %f2", "mov.f32 %f20"), "%f2"), (ZEROS.replace("mov.f32 %f3", "mov.f32 %f20"), "%f3")],
    ids=["nothing", "but for one", "but for the last one"],
)
def test_an_accumulator_that_nothing_has_set(before: str, register: str) -> None:
    """Whether the first product adds to it, the text alone does not say."""
    with pytest.raises(
        SimulationError, match=f"the results depend on register `{register}`, which nothing has written where wgmma"
    ):
        run(ADDS, start=OTHERS + before)
