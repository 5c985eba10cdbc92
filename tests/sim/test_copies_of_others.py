"""What copies show of the grid before, and copies of what other CTAs have stored."""

from __future__ import annotations

import contextlib
from dataclasses import replace

import pytest

from pipec.sim import SimulationError

from .race_programs.program import EXPECT, INIT, Program, bulk_load, wait


def test_a_copy_shows_that_the_preceding_grid_is_over():
    """One thread waits for that grid, and then copies: who waits for the bytes comes after both."""
    copy = f"@%first {bulk_load('%tile', '%array', 256, '%bar')}"
    head = INIT.format(1, 1) + f"@%first {EXPECT.format('%bar', 256)}"
    behind = wait("%bar", "0", "W") + "@%w1 st.global.u32 [%mine], %t;"
    assert not Program(f"{head}@%first griddepcontrol.wait; {copy}{behind}", {}).run().findings
    (found,) = Program(f"{head}{copy}@%first griddepcontrol.wait;\n{behind}", {}).run().findings
    assert found.check == "grid" and "st.global.u32" in found.message


# Each CTA stores its part, and the last one copies `parts`, from the `first` on.
PARTS = """mad.lo.u32 %r5, %cta, 256, 0; cvt.u64.u32 %rd5, %r5; add.u64 %rd6, %mine, %rd5; st.global.u32 [%rd6], 5;
bar.sync 0; @!%first bra END; atom.acq_rel.gpu.global.add.u32 %r1, [%array+16384], 1; setp.eq.u32 %p1, %r1, 1; @!%p1 bra END;
{fence}{expect}mov.u32 %r5, {first};
MORE: mul.lo.u32 %r6, %r5, 256; add.u32 %r7, %tile, %r6; cvt.u64.u32 %rd7, %r6; add.u64 %rd7, %array, %rd7;
{copy}xor.b32 %r5, %r5, 1; add.u32 %k, %k, 1; setp.lt.u32 %p2, %k, {parts}; @%p2 bra MORE;
{wait}END:"""


@pytest.mark.parametrize("parts", [(0,), (1,), (0, 1), (1, 0)])
@pytest.mark.parametrize("fence", ["", "fence.proxy.async.global;\n"])
def test_parts_that_other_ctas_stored_and_a_copy_reads(parts, fence):
    """Without a proxy fence behind the count: a warning, but an error for what its own CTA alone has stored."""
    expect, copy = EXPECT.format("%bar", 256 * len(parts)), bulk_load("%r7", "%rd7", 256, "%bar")
    given = {"fence": fence, "expect": expect, "copy": copy, "first": parts[0], "parts": len(parts)}
    body = INIT.format(1, 1) + PARTS.format(**given, wait=wait("%bar", "0", "W"))
    program = Program(body, {}, grid=2)
    if fence or 0 in parts:
        findings = program.run().findings
        assert [(one.check, one.severity) for one in findings] == ([] if fence else [("scope", "warn")])
        assert fence or "in CTA (0,0,0)" in findings[0].message and "no fence.proxy.async" in findings[0].message
    else:
        with pytest.raises(SimulationError, match="no fence.proxy.async"):
            program.run()
    documents = replace(program, rules="documents")
    with contextlib.nullcontext() if fence else pytest.raises(SimulationError, match="no fence.proxy.async"):
        documents.run()
