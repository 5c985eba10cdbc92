"""Random kernels one behind the other in a stream that may overlap; and the judges notice where one does not wait."""

import random

import numpy as np
import pytest
from fuzz import fuzz_streams
from fuzz.stream_kernels import draw
from samples import numbers

from pipec.driver import Options, compile_source
from pipec.record import replace
from pipec.sim import Options as Simulation
from pipec.source import Source

WAIT = "griddepcontrol.wait;"


@pytest.mark.parametrize("number", numbers("streams", 12, 400))
def test_streams(number: int) -> None:
    assert fuzz_streams.attempt(random.Random(f"streams/0/{number}")) is None


def test_a_kernel_that_does_not_wait_is_noticed() -> None:
    """The waits of each kernel behind another are taken out of its text: most of these touch what those in front store."""
    noticed, tried = 0, 0
    for number in range(16):
        stream = draw(random.Random(f"wait/{number}"))
        state = compile_source(Source("k.pipe", stream.source), Options("sm_90a"))
        if state.failed or state.ptx is None:
            continue
        first, *entries = state.ptx.split(".entry ")
        for place in range(1, len(entries)):
            without = [entry.replace(WAIT, "") if number == place else entry for number, entry in enumerate(entries)]
            given = stream.arguments()
            text = ".entry ".join([first, *without])
            fuzz_streams.overlapped(replace(state, ptx=text), given, Simulation(checks={"grid": "off"}))
            noticed += any(not np.array_equal(given[name], wanted) for name, wanted in stream.expected().items())
            tried += 1
    assert tried > 8 and noticed > tried // 2, (noticed, tried)
