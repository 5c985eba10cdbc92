"""The record that a kernel with a watchdog writes if a wait takes too long: its layout, and its interpretation.

Written by `pipec.lower.synchronisation.watchdog` in the kernel, read by the runtime in host memory after the kernel has trapped. 32-bit
words, little endian; `MARK` is stored last, after a fence, so a record that has it is complete.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from pipec import blocked_waits
from pipec.blocked_waits import BarrierName, BarrierState, Names
from pipec.record import record

MARK = 0x57A1_7ED0
WORDS = (
    "mark",
    "block_x",
    "block_y",
    "block_z",
    "warp",
    "lanes",  # a bit per lane
    "barrier",  # its offset in dynamic shared memory
    "parity",  # of the awaited phase
    "iteration",  # the number of earlier waits of this role on this side of the pipeline
    "line",
    "column",
    "state",  # the upper half of the barrier's own word
)
RECORD_BYTES = 64
# The shared address reported by a wait for a counter in global memory: `parity` is the awaited value, `iteration` the value found.
NO_BARRIER = 0
CAPACITY = 8192  # records: more than the number of resident warps on a GPU
BYTES = RECORD_BYTES * CAPACITY

DEFAULT_SECONDS = 1.0
MOST_SECONDS = 3600

_TEN, _TWENTY, _UNIT = (1 << 10) - 1, (1 << 20) - 1, 2048


def seconds_of(text: str) -> float | None:
    """The time limit in "watchdog" or "watchdog=2.5"; None for any other text."""
    name, equals, number = text.partition("=")
    if not text.isascii():  # Python accepts digits of every script
        return None
    try:
        seconds = float(number) if equals else DEFAULT_SECONDS
    except ValueError:
        return None
    return seconds if name == "watchdog" and 0 < seconds <= MOST_SECONDS else None


@record
class Blocked:
    """One warp (or its converged lanes) whose wait took too long."""

    cta: tuple[int, int, int]
    warp: int
    lanes: int
    barrier: int
    parity: int
    iteration: int
    line: int
    column: int
    state: int


def records(memory: bytes) -> Iterator[Blocked]:
    """The records, by CTA and warp; lanes of one warp that wait at one place are merged."""
    found: dict[tuple[object, ...], Blocked] = {}
    for start in range(0, len(memory) - RECORD_BYTES + 1, RECORD_BYTES):
        words = {
            name: int.from_bytes(memory[start + 4 * index : start + 4 * index + 4], "little") for index, name in enumerate(WORDS)
        }
        if words["mark"] != MARK:
            continue
        cta = (words["block_x"], words["block_y"], words["block_z"])
        key = (cta[::-1], words["warp"], words["line"], words["column"], words["barrier"], words["parity"])
        lanes = words["lanes"] | (found[key].lanes if key in found else 0)
        found[key] = Blocked(
            cta,
            words["warp"],
            lanes,
            words["barrier"],
            words["parity"],
            words["iteration"],
            words["line"],
            words["column"],
            words["state"],
        )
    yield from (found[key] for key in sorted(found))


def barrier_state(one: Blocked, name: BarrierName | None, stages: int, count: int) -> BarrierState:
    """The state encoded in the upper half of the barrier's word (hardware.md 1.3): bit 31 is the parity of the current phase, bits 30 to
    11 the missing arrivals, negated, and bits 9 to 0 the missing bytes, negated, in units of 2048. A phase has `count` arrivals.

    The awaited phase follows from the iteration; it has the other parity if the program's phases are out of step.
    """
    producer = name is not None and name.side == "empty"
    wanted = one.iteration // max(1, stages) - producer
    wanted += wanted & 1 != one.parity & 1
    pending = -(one.state >> 11) & _TWENTY
    least, most = _missing_bytes(one.state & _TEN, pending)
    return BarrierState(wanted, wanted + (one.state >> 31 != one.parity & 1), pending, max(count, pending), least, most)


def _missing_bytes(units: int, pending: int) -> tuple[int, int]:
    """The minimum and maximum of bytes that are announced and not delivered (negative: delivered and not announced)."""
    units -= (_TEN + 1) * (units >> 9)
    if units == 0:
        return (0, 0) if pending else (1 - _UNIT, -1)  # with all arrivals in, only bytes keep the phase from ending
    return -units * _UNIT - _UNIT + 1, -units * _UNIT


def entries(metadata: Mapping[str, Any], memory: bytes, base: int) -> list[dict[str, Any]]:
    """What is blocked, as the simulator's deadlock report has it: one entry per warp, with its sentence under "text".

    `metadata` describes the kernel (pipec.interface.to_json); `base` is where its dynamic shared memory begins.
    """
    names = Names(metadata, base)
    barriers = {(row["pipeline"], row["side"]): (row["stages"], row["count"]) for row in metadata["barriers"]}
    return [_entry(one, names, barriers, metadata["watchdog"]["file"], base) for one in records(memory)]


def _entry(
    one: Blocked, names: Names, barriers: Mapping[tuple[str, str], tuple[int, int]], file: str, base: int
) -> dict[str, Any]:
    address = base + one.barrier & 0xFFFF_FFFF
    if address == NO_BARRIER:
        return _poll_entry(one, names, file)
    name, role = names.barrier(address), names.role(one.warp)
    state = barrier_state(one, name, *(barriers[name.pipeline, name.side] if name else (1, 1)))
    source, lanes = f"{file}:{one.line}:{one.column}", one.lanes.bit_count()
    what = blocked_waits.barrier_text(address, name, state)
    where = [f"iteration {one.iteration + 1}", source]
    return {
        "cta": one.cta,
        "warp": one.warp,
        "lanes": lanes,
        "kind": "mbarrier",
        "role": role,
        "line": one.line,
        "column": one.column,
        "source": source,
        "iteration": one.iteration + 1,
        "address": address,
        "phase": state.wanted,
        "parity": one.parity,
        "current": state.current,
        "state": one.state,
        **blocked_waits.barrier_fields(name),
        "text": blocked_waits.blocked_text(blocked_waits.cta_text(one.cta), role, one.warp, lanes, what, where),
    }


def _poll_entry(one: Blocked, names: Names, file: str) -> dict[str, Any]:
    source, role = f"{file}:{one.line}:{one.column}", names.role(one.warp)
    what = f"turn {one.parity}; the counter in global memory is {one.iteration}"
    return {
        "cta": one.cta,
        "warp": one.warp,
        "lanes": one.lanes.bit_count(),
        "kind": "turn",
        "role": role,
        "line": one.line,
        "column": one.column,
        "source": source,
        "turn": one.parity,
        "counter": one.iteration,
        "text": blocked_waits.blocked_text(
            blocked_waits.cta_text(one.cta), role, one.warp, one.lanes.bit_count(), what, [source]
        ),
    }


def cycle(metadata: Mapping[str, Any], found: list[dict[str, Any]]) -> list[str]:
    """The wait cycle among the roles of the first CTA that reported."""
    sides = metadata["watchdog"]["sides"]
    producers = {pipeline: roles for pipeline, roles, _ in sides}
    consumers = {pipeline: roles for pipeline, _, roles in sides}
    return blocked_waits.wait_cycle([entry for entry in found if entry["cta"] == found[0]["cta"]], producers, consumers)


def report(found: list[dict[str, Any]], loop: list[str]) -> str:
    """The sentences of one CTA of each kind; of the others their number, since all run the same program."""
    by_cta: dict[tuple[object, ...], list[dict[str, Any]]] = {}
    for entry in found:
        by_cta.setdefault(entry["cta"], []).append(entry)
    alike: dict[tuple[object, ...], list[tuple[object, ...]]] = {}
    for cta, those in by_cta.items():
        kind = tuple((entry["warp"], entry["source"], entry.get("pipeline"), entry.get("side")) for entry in those)
        alike.setdefault(kind, []).append(cta)
    shown = [entry for ctas in alike.values() for entry in by_cta[ctas[0]]]
    text = blocked_waits.report(shown, loop)
    others = len(by_cta) - len(alike)
    return text + (f"\n{others} more CTA{'s' if others > 1 else ''} blocked at the same places" if others else "")
