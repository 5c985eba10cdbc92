"""The simulator's trace in terms of pipelines: when each stage was being filled and when it was full.

`occupancy` converts barrier phases to intervals; `chart` draws them as text, `chrome_trace` as JSON for chrome://tracing or Perfetto.
"""

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from pipec.interface import BarrierRange, KernelInterface

if TYPE_CHECKING:
    from pipec.sim import Result, TraceEvent

# Offset of dynamic shared memory in a CTA's window: the first KiB is reserved by the system (measured, CUDA 13).
DYNAMIC_BASE = 0x400
BARRIER_BYTES = 8
_COLUMNS = 72
_FILLING, _FULL, _FREE = "-", "#", "."


State = Literal["filling", "full"]


@dataclass(frozen=True, slots=True)
class Interval:
    """From `start` to `end` (simulator time) the stage was "filling" (handed to the producer) or "full" (handed to the consumer)."""

    pipeline: str
    stage: int
    state: State
    start: int
    end: int


def occupancy(interface: KernelInterface, trace: Iterable["TraceEvent"], cta: tuple[int, int, int], end: int) -> list[Interval]:
    """The intervals of every stage in one CTA, in time order per stage."""
    owners = {address: (barriers, stage) for barriers in interface.barriers for address, stage in _addresses(barriers)}
    since: dict[tuple[str, int], tuple[State, int]] = {}
    found: list[Interval] = []
    for event in trace:
        if event.kind != "phase" or event.cta != cta or event.details["address"] not in owners:
            continue
        barriers, stage = owners[event.details["address"]]
        key = (barriers.pipeline, stage)
        state, start = since.get(key, ("filling", 0))
        found.append(Interval(*key, state, start, event.time))
        since[key] = ("full" if barriers.side == "full" else "filling", event.time)
    # The time after the last hand-over is idle, not filling.
    found.extend(Interval(*key, "full", start, end) for key, (state, start) in since.items() if state == "full")
    return found


def _addresses(barriers: BarrierRange) -> Iterator[tuple[int, int]]:
    """A stage with sub-stages counts as handed over with the last of them."""
    each = barriers.sub_stages
    for stage in range(barriers.stages):
        yield DYNAMIC_BASE + barriers.offset + BARRIER_BYTES * (stage * each + each - 1), stage


def chart(interface: KernelInterface, result: "Result", cta: tuple[int, int, int] = (0, 0, 0)) -> str:
    """One line per stage over time; `-` being filled, `#` full, `.` idle."""
    end = max((event.time for event in result.trace if event.cta == cta), default=0) + 1
    intervals = occupancy(interface, result.trace, cta, end)
    stages = {(barriers.pipeline, stage) for barriers in interface.barriers for stage in range(barriers.stages)}
    order = {barriers.pipeline: place for place, barriers in enumerate(interface.barriers)}
    width = max((len(f"{pipeline}[{stage}]") for pipeline, stage in stages), default=0)
    rows = [f"stages of block {cta} over {end:,} time units   {_FILLING} filling   {_FULL} full   {_FREE} idle"]
    for pipeline, stage in sorted(stages, key=lambda key: (order[key[0]], key[1])):
        line = [_FREE] * _COLUMNS
        for interval in intervals:
            if (interval.pipeline, interval.stage) == (pipeline, stage):
                _draw(line, interval, end)
        rows.append(f"  {f'{pipeline}[{stage}]':<{width}} {''.join(line)}")
    return "\n".join(rows)


def _draw(line: list[str], interval: Interval, end: int) -> None:
    first = interval.start * _COLUMNS // end
    last = max(first, (interval.end * _COLUMNS - 1) // end)
    for column in range(first, min(last, _COLUMNS - 1) + 1):
        # Of two states in one column the later one is shown.
        line[column] = _FULL if interval.state == "full" else _FILLING


def chrome_trace(interface: KernelInterface, result: "Result") -> str:
    """The simulator's timeline as JSON, its barriers named, with a track per stage that shows when it was filling and full."""
    from pipec import sim

    names = {
        address: f"{barriers.pipeline}.{barriers.side}[{stage}]"
        for barriers in interface.barriers
        for address, stage in _addresses(barriers)
    }
    timeline = sim.chrome_trace(result.trace, names) | {"otherData": {"unit": "steps"}}
    # The simulator numbers its processes by the first appearance of blocks.
    for process, cta in enumerate(dict.fromkeys(event.cta for event in result.trace)):
        end = max(event.time for event in result.trace if event.cta == cta)
        timeline["traceEvents"] += [
            {
                "ph": "X",
                "pid": process,
                "tid": f"{interval.pipeline}[{interval.stage}]",
                "name": interval.state,
                "ts": interval.start,
                "dur": interval.end - interval.start,
            }
            for interval in occupancy(interface, result.trace, cta, end)
        ]
    return json.dumps(timeline) + "\n"
