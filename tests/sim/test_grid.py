"""CTAs that wait for other CTAs of the grid: cooperative launches, chains, and what no device can run."""

from __future__ import annotations

import functools
import pathlib

import numpy as np
import pytest
from samples import volume

from pipec.sim import Options, SimulationError, launch

TIMINGS = [Options("order"), Options("late"), Options("random", seed=1), Options("random", seed=2)]
all_timings = pytest.mark.parametrize("options", TIMINGS, ids=lambda o: f"{o.timing}{o.seed}")

# CTA b waits until CTA b+1 has set its flag, so the last one begins; `pause` stands in the loop.
CHAIN = """.version 8.8
.target sm_100a
.address_size 64
.entry chain(.param .u64 flags) {{
  .reg .b64 %p, %q; .reg .b32 %b, %n, %v; .reg .pred %last, %go;
  ld.param.u64 %p, [flags]; mov.u32 %b, %ctaid.x; mov.u32 %n, %nctaid.x; sub.u32 %n, %n, 1;
  mad.wide.u32 %q, %b, 4, %p; setp.eq.u32 %last, %b, %n; @%last bra SET;
WAIT: {pause}
  ld.acquire.gpu.global.u32 %v, [%q+4]; setp.eq.u32 %go, %v, 0; @%go bra WAIT;
SET: st.release.gpu.global.u32 [%q], 1; ret; }}
"""


@functools.cache
def cooperative_ptx() -> str:
    return (pathlib.Path(__file__).parent / "ptx" / "cooperative.ptx").read_text()


@all_timings
@pytest.mark.parametrize("grid", [1, 2, 7, 40])
def test_grid_sync(grid: int, options: Options) -> None:
    count = 64 * grid
    data, sums = np.zeros(count, np.int32), np.zeros(count, np.int32)
    launch(cooperative_ptx(), grid=grid, block=64, cooperative=True, arguments=[data, sums, count], options=options)
    first = np.arange(1, count + 1)
    expected = np.roll(first, -64) + np.roll(first, 64)
    np.testing.assert_array_equal(sums, expected)
    np.testing.assert_array_equal(data, np.roll(expected, -128))


def test_grid_sync_needs_a_cooperative_launch() -> None:
    """The runtime's code finds no workspace and traps, as on the chip."""
    data = np.zeros(128, np.int32)
    with pytest.raises(SimulationError) as caught:
        launch(cooperative_ptx(), grid=2, block=64, arguments=[data, data.copy(), 128])
    assert caught.value.kind == "trap"


@pytest.mark.parametrize(("block", "shared", "holds"), [(1024, 0, 296), (64, 0, 4736), (64, 100_000, 296)])
def test_a_cooperative_launch_fits_the_device(block: int, shared: int, holds: int) -> None:
    """Multiprocessors times the CTAs that one holds: 2,048 threads, 228 KiB, 32 CTAs."""
    text = ".version 8.8\n.target sm_100a\n.address_size 64\n.extern .shared .b8 m[];\n.entry k() { ret; }"
    with pytest.raises(SimulationError) as caught:
        launch(text, grid=holds + 1, block=block, dynamic_smem=shared, cooperative=True)
    assert caught.value.kind == "argument" and f"holds {holds} at a time" in str(caught.value)


@all_timings
@pytest.mark.parametrize("pause", ["", "nanosleep.u32 100;"], ids=["polls", "sleeps"])
def test_ctas_wait_for_later_ones(pause: str, options: Options) -> None:
    count = volume(16, 60)
    flags = np.zeros(count, np.uint32)
    launch(CHAIN.format(pause=pause), grid=count, block=32, arguments=[flags], options=options)
    assert flags.all()


def test_a_chain_that_the_device_does_not_hold_is_a_deadlock() -> None:
    """One CTA takes all the shared memory of its multiprocessor."""
    flags = np.zeros(149, np.uint32)
    with pytest.raises(SimulationError) as caught:
        launch(CHAIN.format(pause=""), grid=149, block=32, dynamic_smem=200_000, arguments=[flags])
    assert caught.value.kind == "deadlock" and "1 clusters have not started, as the device holds 148 at a time" in str(
        caught.value
    )


@pytest.mark.parametrize("pause", ["", "nanosleep.u32 100;"], ids=["polls", "sleeps"])
def test_a_flag_that_is_never_set_is_a_deadlock(pause: str) -> None:
    text = CHAIN.format(pause=pause).replace("@%last bra SET;", "")
    with pytest.raises(SimulationError) as caught:
        launch(text, grid=3, block=32, arguments=[np.zeros(4, np.uint32)])
    assert caught.value.kind == "deadlock" and "nothing changes" in str(caught.value)


# Each CTA writes its number in the grid. `__block_size__` of CUDA C++ makes such kernels.
IN_CLUSTERS = """.version 8.8
.target sm_100a
.address_size 64
.entry ranks(.param .u64 out) .blocksareclusters .reqntid 64, 1, 1 .reqnctapercluster 2, 1, 1 {
  .reg .b64 %p; .reg .b32 %x, %y, %n, %t; .reg .pred %first;
  ld.param.u64 %p, [out]; mov.u32 %x, %ctaid.x; mov.u32 %y, %ctaid.y; mov.u32 %n, %nctaid.x; mad.lo.u32 %y, %y, %n, %x;
  mad.wide.u32 %p, %y, 4, %p; mov.u32 %t, %tid.x; setp.eq.u32 %first, %t, 0; mov.u32 %n, %ntid.x; mad.lo.u32 %y, %y, 1000, %n;
  @%first st.global.u32 [%p], %y; ret; }
"""


@pytest.mark.parametrize("block", [None, 1, 2, 64])
def test_a_grid_that_is_counted_in_clusters(block: int | None) -> None:
    """The second extents of such a launch are the CTAs of a cluster, or nothing."""
    out = np.zeros(12, np.int32)
    launch(IN_CLUSTERS, grid=(3, 2), block=block, arguments=[out])
    np.testing.assert_array_equal(out, np.arange(12) * 1000 + 64)
    with pytest.raises(SimulationError, match="contradicts .reqntid"):
        launch(IN_CLUSTERS, grid=(3, 2), block=32, arguments=[out])
