"""Rounds of measuring kernels beside each other: each one's turn is a CUDA graph of launches, in shuffled order."""

import random
import statistics
from collections.abc import Callable, Sequence
from typing import Any, Protocol

import torch

from benchmarks.gpu import foreign_instructions


class Turn(Protocol):
    """A kernel with the graph of its turn."""

    graph: Any
    launches: int
    sets: int
    registers: int
    times: list[float]
    clocks: list[float]


def guessed(launch: Callable[[int], None], sets: int) -> float:
    """Seconds of a launch, roughly: of five in a row, each with the next set of buffers."""
    start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    for number in range(8):
        if number == 3:
            start.record()
        launch(number % sets)
    end.record()
    torch.cuda.synchronize()
    return max(2e-6, start.elapsed_time(end) / 5e3)


def measure(ready: Sequence[Turn], rounds: int, l2: int) -> None:
    driver = foreign_instructions.Driver()
    stamp = driver.function(foreign_instructions.STAMP, "stamp")
    flushed = torch.ones(2 * l2 // 4, device="cuda")
    stamps = torch.zeros((2 * len(ready), 3), dtype=torch.int64, device="cuda")
    stream, generator = torch.cuda.current_stream().cuda_stream, random.Random(20)
    for _ in range(rounds):
        marks = []
        for number, one in enumerate(generator.sample(ready, len(ready))):
            start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
            flushed.sum()
            driver.launch(stamp, 1, 1, 0, stream, stamps[2 * number].data_ptr())
            start.record()
            one.graph.replay()
            end.record()
            driver.launch(stamp, 1, 1, 0, stream, stamps[2 * number + 1].data_ptr())
            marks.append((one, start, end))
        torch.cuda.synchronize()
        read = stamps.tolist()
        for number, (one, start, end) in enumerate(marks):
            one.times.append(start.elapsed_time(end) / 1e3 / one.launches)
            (clock, when, where), (later, then, there) = read[2 * number : 2 * number + 2]
            if where == there and then > when:
                one.clocks.append((later - clock) / (then - when))


def row_of(one: Turn) -> dict[str, Any]:
    return {
        "seconds": statistics.median(one.times),
        "least": min(one.times),
        "most": max(one.times),
        "rounds": len(one.times),
        "launches": one.launches,
        "sets": one.sets,
        "clock_ghz": statistics.median(one.clocks),
        "registers": one.registers,
    }
