"""Numbers in memory with which roles wait for ever end the search for a proof; they are said, and the simulator waits with them, too."""

import re
from pathlib import Path

import numpy as np
import pytest

from pipec.driver import Options, compile_source
from pipec.protocol.effort import steps_so_far
from pipec.protocol.refuting.refute_by_memory import refute_by_memory
from pipec.protocol.refuting.unfold import unfolded
from pipec.runtime import LaunchOptions, launch
from pipec.sim import Options as Simulation
from pipec.sim.errors import SimulationError
from pipec.source import Source
from pipec.verify.network import Network
from pipec.verify.reader.read import reading_of

GOLDEN = Path(__file__).parents[1] / "golden"
KERNEL = """kernel k(ix: tensor[i32, M], other: tensor[i32, M], z: tensor[f32, N, M]):
    grid(1)
    p = ProducerConsumerPipeline(stages=2)
    role a(warps=1) produces p:
        for t in range(M):
            for part in range({produced}):
                p.producer_signal_and_step()
    role b(warps=1) consumes p:
        for t in range(M):
            for part in range({consumed}):
                p.consumer_signal_and_step()
"""
HELD = re.compile(r"(\w+)\[(\d+)\] = (\d+)")
FEW = 80_000  # steps of the search, which has 1,500,000


def network_of(ptx: str) -> Network:
    reading = reading_of(ptx)
    return unfolded(reading.network, reading.arithmetic.folds)


@pytest.mark.parametrize(
    ("produced", "consumed"),
    [
        ("load(ix[t])", "load(ix[t]) + 1"),
        ("max(1, load(ix[t]))", "max(2, load(ix[t]))"),
        ("load(ix[t])", "load(other[t])"),
        ("load(ix[t])", "load(ix[t + 1])"),
        ("ceildiv(load(ix[t]), 64)", "max(1, ceildiv(load(ix[t]), 64))"),
        ("ceildiv(load(ix[t]), 64)", "load(ix[t]) // 64"),
    ],
)
def test_the_simulator_waits_with_the_same_numbers(produced: str, consumed: str) -> None:
    before = steps_so_far()
    source = Source("k.pipe", KERNEL.format(produced=produced, consumed=consumed))
    state = compile_source(source, Options())
    assert steps_so_far() - before < FEW
    (told,) = state.diagnostics
    why = told.labels[0].text
    assert told.code == "E0604" and why.endswith(", if memory can hold that")
    rows = int(re.search(r"\bM = (\d+)", why)[1])  # type: ignore[index]
    given = {name: np.zeros(rows, np.int32) for name in ("ix", "other")}
    for name, place, number in HELD.findall(why):
        given[name][int(place)] = int(number)
    state = compile_source(source, Options(allow_undecided=True))
    assert state.plans is not None and state.ptx is not None and state.protocol["k"].outcome == "open"
    arrays = {**given, "z": np.zeros((1, rows), np.float32)}
    options = LaunchOptions(Simulation())
    if "waits for ever" in why:
        with pytest.raises(SimulationError, match="deadlock"):
            launch(state.plans[0].interface, state.ptx, arrays, device="sim", options=options)
    else:
        filled, given_back = (re.search(rf"{word} (once|\d+)", why) for word in ("filled", "given back"))
        assert filled and given_back and filled[1] != given_back[1]


@pytest.mark.parametrize("dtype", ["i8", "u8", "i16", "u16", "u32"])
def test_numbers_of_other_types_are_tried(dtype: str) -> None:
    branches = KERNEL.replace("i32", dtype).replace("for part in range", "if ")
    text = branches.format(produced="load(ix[t]) != 0", consumed="load(ix[t]) > 1")
    (told,) = compile_source(Source("k.pipe", text), Options()).diagnostics
    assert told.code == "E0604" and told.labels[0].text == (
        "filled once and given back 0 times when M = 1, ix[0] = 1, if memory can hold that"
    )


@pytest.mark.parametrize("example", ["gemm_grouped", "gemm_sm90_grouped", "gemm_sm90_gathered", "attention_sm90_roles"])
def test_nothing_is_found_in_what_is_proved(example: str) -> None:
    assert refute_by_memory(network_of((GOLDEN / f"{example}.ptx").read_text()))[0] is None


def test_what_depends_on_no_number_in_memory_is_not_tried() -> None:
    assert refute_by_memory(network_of((GOLDEN / "gemm.ptx").read_text()))[0] is None
