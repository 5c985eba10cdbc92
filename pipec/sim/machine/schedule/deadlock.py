"""The deadlock report: which warp waits for what, in the program's own terms where the PTX carries them (pipec.blocked_waits)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pipec import blocked_waits
from pipec.blocked_waits import BarrierState
from pipec.record import fields_of

from ...errors import SimulationError
from ..threads.cta import Cluster, Warp
from ..threads.divergence import AwaitedPhase, Fragment, Wait
from ..threads.roles import role_of


def deadlock_error(clusters: Sequence[Cluster], now: int) -> SimulationError:
    """No warp can proceed: one line per blocked warp, and the wait cycle if the roles reveal one."""
    warps = [warp for cluster in clusters for warp in cluster.warps]
    entries = [_entry(warp, fragment, wait) for warp in warps for fragment in warp.fragments if (wait := fragment.wait)]
    cycle = blocked_waits.wait_cycle(entries, *_sides(warps))
    message = f"no warp can make progress at time {now}; blocked:\n" + blocked_waits.report(entries, cycle)
    first = entries[0] if entries else {}
    return SimulationError(
        "deadlock",
        message,
        first.get("ptx_line", 0),
        first.get("source"),
        {"blocked": entries, "cycle": cycle, "time": now},
    )


def spinning_error(spinning: Sequence[Warp], resident: int) -> SimulationError:
    """Warps that repeatedly read memory which no warp changes any more; `resident` clusters run."""
    image, machine = spinning[0].cta.image, spinning[0].cta.machine
    fragments = [
        (warp, fragment)
        for warp in spinning
        for fragment in warp.fragments
        if fragment.wait is None or fragment.wait.kind == "sleep"
    ]
    what = "a change of the memory that it polls"
    lines = [f"  {_line(warp, fragment, what, fragment.pc)}" for warp, fragment in fragments]
    message = f"warps poll memory at time {machine.now} that nothing changes any more"
    if machine.pending_clusters:
        left = machine.pending_clusters.left
        message += (
            f"; {left} clusters have not started, as the device holds {resident} at a time: who waits for them waits for ever"
        )
    item = image.item(fragments[0][1].pc)
    return SimulationError("deadlock", message + ":\n" + "\n".join(lines), item.line if item else 0, image.source(item))


def _line(warp: Warp, fragment: Fragment, what: str, pc: int) -> str:
    role = role_of(warp.cta.image, warp.thread, pc)
    return blocked_waits.blocked_text(warp.cta.name, role, warp.index, fragment.count, what, _where(warp, pc))


def _where(warp: Warp, pc: int) -> list[str]:
    image = warp.cta.image
    item = image.item(pc)
    source = image.source(item)
    return [f"PTX line {item.line if item else 0}", *([str(source)] if source else [])]


def _entry(warp: Warp, fragment: Fragment, wait: Wait) -> dict[str, Any]:
    image = warp.cta.image
    pc = fragment.pc if wait.retry else fragment.pc - 1
    item = image.item(pc)
    entry: dict[str, Any] = {
        "cta": warp.cta.index,
        "warp": warp.index,
        "lanes": fragment.count,
        "kind": wait.kind,
        "role": role_of(image, warp.thread, pc),
        "ptx_line": item.line if item else 0,
        "source": image.source(item),
    }
    what = wait.text if isinstance(wait.text, str) else wait.text()
    if wait.barrier is not None:
        entry["barrier"] = wait.barrier
    if wait.awaited is not None:
        name = image.names.barrier(wait.awaited.address)
        what = blocked_waits.barrier_text(wait.awaited.address, name, _state(wait.awaited, warp))
        entry |= fields_of(wait.awaited) | blocked_waits.barrier_fields(name)
    entry["text"] = _line(warp, fragment, what, pc)
    return entry


def _state(awaited: AwaitedPhase, warp: Warp) -> BarrierState | None:
    barrier = warp.cta.mbarriers.get(awaited.address)
    if barrier is None:
        return None
    state = barrier.state
    return BarrierState(awaited.phase, state.phase, state.pending, state.expected, state.tx)


def _sides(warps: Sequence[Warp]) -> tuple[dict[str, list[str]], dict[str, list[str]]]:
    """Producers wait on empty barriers and consumers on full ones; learned from every wait seen in the run."""
    producers: dict[str, list[str]] = {}
    consumers: dict[str, list[str]] = {}
    for warp in warps:
        names = warp.cta.image.names
        role = names.role(warp.index)
        for offset in warp.waited_on:
            name = names.barrier(offset)
            if name is None or role is None:
                continue
            table = producers if name.side == "empty" else consumers
            if role not in table.setdefault(name.pipeline, []):
                table[name.pipeline].append(role)
    return producers, consumers
