"""The compiler, the simulator and the checker of proofs each know the hardware by themselves, so that a mistake needs two authors."""

import pytest

from pipec.isa import targets
from pipec.isa.targets import TARGETS, Target
from pipec.sim.machine.memory.spaces import SHARED_BASE
from pipec.sim.ptx.types import LANES
from pipec.sim.units import limits
from pipec.verify.reader.processes.together import WARPGROUP_THREADS


@pytest.mark.parametrize("target", TARGETS.values(), ids=TARGETS)
def test_a_block_of_the_compiler_is_one_of_the_simulator(target: Target) -> None:
    assert target.max_threads == limits.CTA_THREADS
    assert target.shared_bytes == limits.CTA_SHARED_BYTES
    assert target.max_named_barriers == limits.NAMED_BARRIERS
    assert target.registers == limits.REGISTERS
    assert target.multiprocessors == limits.multiprocessors(target.name)


def test_a_multiprocessor_and_a_warp_of_the_compiler_are_those_of_the_simulator() -> None:
    assert targets.WARP == LANES
    assert targets.WARPGROUP_WARPS == limits.WARPGROUP_WARPS
    assert targets.RESERVED_SHARED_BYTES == SHARED_BASE == limits.RESERVED_BYTES
    assert targets.MULTIPROCESSOR_THREADS == limits.RESIDENT_THREADS
    assert targets.MULTIPROCESSOR_BLOCKS == limits.RESIDENT_CTAS
    assert targets.MULTIPROCESSOR_SHARED_BYTES == limits.SHARED_BYTES
    assert (*targets.REGISTER_RANGE, targets.REGISTER_STEP) == (
        limits.FEWEST_REGISTERS,
        limits.MOST_REGISTERS,
        limits.REGISTER_STEP,
    )
    # The compiler keeps to clusters that every part supports.
    assert targets.MOST_CLUSTER_CTAS <= limits.CLUSTER_CTAS


def test_a_warpgroup_of_the_checker_is_that_of_both() -> None:
    assert WARPGROUP_THREADS == targets.WARPGROUP_THREADS == limits.WARPGROUP_WARPS * LANES
