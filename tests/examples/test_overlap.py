"""The persistent GEMM overlaps: MMAs of the next tile are issued before the epilogue of this one is done."""

from examples.catalogue import EXAMPLES, Case, compiled

from pipec.runtime import LaunchOptions, launch, random_arguments
from pipec.sim import Options as Simulation

DYNAMIC_BASE = 0x400


def test_next_tile_is_multiplied_during_the_epilogue() -> None:
    state = compiled(Case(EXAMPLES / "gemm_persistent.pipe", (("BLOCKS", "1"),)))
    (plan,) = state.plans or []
    arguments = random_arguments(plan.interface, {"M": 384, "N": 128, "K": 128}, seed=1)
    result = launch(plan.interface, state.ptx or "", arguments, device="sim", options=LaunchOptions(Simulation()))
    assert result.simulation is not None
    trace = result.simulation.trace
    (empty,) = [one for one in plan.interface.barriers if (one.pipeline, one.side) == ("output", "empty")]
    first = DYNAMIC_BASE + empty.offset
    # A phase of the empty barrier of accumulator 0 ends when the epilogue has read it: at the end of tile 0.
    epilogue_done = next(event.time for event in trace if event.kind == "phase" and event.details["address"] == first)
    issued = [event.time for event in trace if event.kind == "mma_issued"]
    of_one_tile = len(issued) // 3
    assert of_one_tile * 3 == len(issued)
    assert min(issued[of_one_tile : 2 * of_one_tile]) < epilogue_done
    # With one accumulator the third tile's MMAs would have to wait as well; here they wait for the first epilogue only.
    assert min(issued[2 * of_one_tile :]) > epilogue_done
