"""The trace of a run as a Chrome / Perfetto timeline: one process per CTA, one track per kind of work."""

from __future__ import annotations

from collections.abc import Iterable

_STARTS = {
    "tma_issued": ("TMA", "tma_completed"),
    "mma_issued": ("tensor core", "mma_completed"),
    "store_issued": ("stores", "store_completed"),
    "wgmma_issued": ("tensor core", "wgmma_completed"),
}
_ENDS = {end: start for start, (_, end) in _STARTS.items()}
_INSTANTS = {"phase": "mbarriers", "mma_committed": "tensor core", "commit_issued": "tensor core", "tmem_alloc": "tensor memory"}
_KEYS = ("address", "barrier")


def chrome_trace(events: Iterable, barrier_names: dict[int, str] | None = None) -> dict:
    """The JSON object that chrome://tracing and Perfetto load; one instruction slot is drawn as one microsecond.

    `events` is Result.trace; `barrier_names` gives words for barrier addresses (shared-memory offsets).
    """
    names = barrier_names or {}
    drawn: list[dict] = []
    processes: dict[tuple, int] = {}
    running: dict[tuple, list] = {}
    for event in events:
        process = processes.setdefault(event.cta, len(processes))
        if event.kind in _STARTS:
            running.setdefault((event.kind, process), []).append(event)
        elif event.kind in _ENDS:
            waiting = running.get((_ENDS[event.kind], process))
            if waiting:
                drawn.append(_span(waiting.pop(0), event, process, names))
        elif event.kind in _INSTANTS:
            drawn.append(
                {
                    "ph": "i",
                    "s": "t",
                    "pid": process,
                    "tid": _INSTANTS[event.kind],
                    "ts": event.time,
                    "name": _label(event, names),
                    "args": _arguments(event),
                }
            )
    drawn += [
        {"ph": "M", "name": "process_name", "pid": number, "args": {"name": f"CTA {cta}"}} for cta, number in processes.items()
    ]
    return {"traceEvents": drawn, "displayTimeUnit": "ns"}


def _span(start, end, process: int, names: dict[int, str]) -> dict:
    return {
        "ph": "X",
        "pid": process,
        "tid": _STARTS[start.kind][0],
        "ts": start.time,
        "dur": max(1, end.time - start.time),
        "name": _label(start, names),
        "args": _arguments(start),
    }


def _label(event, names: dict[int, str]) -> str:
    key = "address" if event.kind == "phase" else "barrier"
    address = event.details.get(key)
    what = event.kind.split("_")[0]
    if address is None:
        return what
    place = names.get(address, f"0x{address:x}")
    return f"{place} phase {event.details['phase']} ends" if event.kind == "phase" else f"{what} -> {place}"


def _arguments(event) -> dict:
    return {key: hex(value) if key in _KEYS else value for key, value in event.details.items()}
