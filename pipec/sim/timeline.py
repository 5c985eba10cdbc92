"""The trace of a run as a Chrome / Perfetto timeline: one process per CTA, one track per kind of work."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from .errors import Details
from .machine.machine import TraceEvent, TraceKind, Triple

# For each starting event: the track that it is drawn on, and its end event.
_STARTS: dict[TraceKind, tuple[str, TraceKind]] = {
    "tma_issued": ("TMA", "tma_completed"),
    "mma_issued": ("tensor core", "mma_completed"),
    "store_issued": ("stores", "store_completed"),
    "wgmma_issued": ("tensor core", "wgmma_completed"),
}
_ENDS = {end: start for start, (_, end) in _STARTS.items()}
_INSTANTS: dict[TraceKind, str] = {
    "phase": "mbarriers",
    "mma_committed": "tensor core",
    "commit_issued": "tensor core",
    "tmem_alloc": "tensor memory",
}
_KEYS = ("address", "barrier")

# One event in the timeline's JSON form.
_Drawn = dict[str, Any]


def chrome_trace(events: Iterable[TraceEvent], barrier_names: Mapping[int, str] | None = None) -> dict[str, Any]:
    """The JSON object that chrome://tracing and Perfetto load; one instruction slot is drawn as one microsecond.

    `events` is Result.trace; `barrier_names` names barrier addresses (shared-memory offsets).
    """
    names = barrier_names or {}
    drawn: list[_Drawn] = []
    processes: dict[Triple, int] = {}
    running: dict[tuple[TraceKind, int], list[TraceEvent]] = {}
    for event in events:
        process = processes.setdefault(event.cta, len(processes))
        if event.kind in _STARTS:
            running.setdefault((event.kind, process), []).append(event)
        elif event.kind in _ENDS:
            waiting = running.get((_ENDS[event.kind], process))
            if waiting:
                drawn.append(_span(waiting.pop(0), event, process, names))
        elif event.kind in _INSTANTS:
            drawn.append(_drawn(event, process, names) | {"ph": "i", "s": "t", "tid": _INSTANTS[event.kind]})
    drawn += [
        {"ph": "M", "name": "process_name", "pid": number, "args": {"name": f"CTA {cta}"}} for cta, number in processes.items()
    ]
    return {"traceEvents": drawn, "displayTimeUnit": "ns"}


def _drawn(event: TraceEvent, process: int, names: Mapping[int, str]) -> _Drawn:
    return {"pid": process, "ts": event.time, "name": _label(event, names), "args": _arguments(event)}


def _span(start: TraceEvent, end: TraceEvent, process: int, names: Mapping[int, str]) -> _Drawn:
    track, _ = _STARTS[start.kind]
    return _drawn(start, process, names) | {"ph": "X", "tid": track, "dur": max(1, end.time - start.time)}


def _label(event: TraceEvent, names: Mapping[int, str]) -> str:
    key = "address" if event.kind == "phase" else "barrier"
    address = event.details.get(key)
    what = event.kind.split("_")[0]
    if address is None:
        return what
    place = names.get(address, f"0x{address:x}")
    return f"{place} phase {event.details['phase']} ends" if event.kind == "phase" else f"{what} -> {place}"


def _arguments(event: TraceEvent) -> Details:
    return {key: hex(value) if key in _KEYS else value for key, value in event.details.items()}
