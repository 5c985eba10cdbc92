"""A clock for pipec.tune.rounds on a GPU, with torch: launches replayed from CUDA graphs, timed by events on the stream.

Before each turn a buffer twice the size of the L2 cache is read, so that no contender benefits from data left by another one.
"""

import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import torch

TURN_SECONDS = 0.004  # target duration of a turn: many launches of a small kernel, one of a large
MOST_LAUNCHES = 400

Launch = Callable[[int], object]  # with the set of buffers of this number


def l2_bytes() -> int:
    return int(torch.cuda.get_device_properties(0).L2_cache_size)


@dataclass(frozen=True, slots=True)
class _Turn:
    """A contender with its graph; None if it cannot be captured, and launches are made one by one."""

    launch: Launch
    graph: Any


class GpuClock:
    """Seconds per launch. `sets`: the number of buffer sets that a turn cycles through; `guess`: the approximate time of one launch, in
    seconds."""

    def __init__(self, sets: int, guess: float) -> None:
        self._sets = sets
        self.launches = max(min(sets, MOST_LAUNCHES), min(MOST_LAUNCHES, int(TURN_SECONDS / max(guess, 2e-6))))
        self._turns: dict[str, _Turn] = {}
        self._flushed = torch.ones(2 * l2_bytes() // 4, device="cuda")

    def add(self, name: str, launch: Launch) -> None:
        self._turns[name] = _Turn(launch, self._graph(name, launch))

    def forget(self, names: Iterable[str]) -> None:
        """Frees the graphs of dropped contenders."""
        for name in names:
            self._turns.pop(name, None)

    def captured(self, name: str) -> bool:
        return self._turns[name].graph is not None

    def _graph(self, name: str, launch: Launch) -> Any:
        graph = torch.cuda.CUDAGraph()
        try:
            with torch.cuda.graph(graph):
                self._all(launch)
        except Exception as error:  # noqa: BLE001 - a contender that cannot be captured is launched one by one; the record says so
            print(f"{name} is not captured: {type(error).__name__}: {error}", file=sys.stderr)
            torch.cuda.synchronize()
            return None
        return graph

    def _all(self, launch: Launch) -> None:
        for index in range(self.launches):
            launch(index % self._sets)

    def __call__(self, order: Sequence[str]) -> list[float]:
        """A round is enqueued as a whole, so the GPU does not idle between its turns."""
        marks = []
        for name in order:
            turn = self._turns[name]
            start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
            self._flushed.sum()
            start.record()
            if turn.graph is not None:
                turn.graph.replay()
            else:
                self._all(turn.launch)
            end.record()
            marks.append((start, end))
        torch.cuda.synchronize()
        return [start.elapsed_time(end) / 1e3 / self.launches for start, end in marks]
