"""The deadlock report: who waits for what, in the program's own words where the PTX carries them (pipec.blocked)."""

from __future__ import annotations

from pipec import blocked
from pipec.blocked import BarrierState, Names

from .errors import SimulationError


def deadlock_error(program, cluster) -> SimulationError:
    """Nothing can move: one line per blocked warp, and the wait cycle when the roles show one."""
    names = program.names
    entries = [entry for warp in cluster.warps for entry in _blocked(program, names, warp)]
    cycle = blocked.wait_cycle(entries, *_sides(cluster))
    message = f"no warp can make progress at time {cluster.now}; blocked:\n" + blocked.report(entries, cycle)
    first = entries[0] if entries else {}
    return SimulationError(
        "deadlock",
        message,
        first.get("ptx_line", 0),
        first.get("source"),
        {"blocked": entries, "cycle": cycle, "time": cluster.now},
    )


def spinning_error(program, cluster, spinning: list) -> SimulationError:
    """Warps that read memory over and over, which nobody changes any more."""
    names = program.names
    fragments = [(warp, fragment) for warp in spinning for fragment in warp.fragments if fragment.wait is None]
    lines = []
    for warp, fragment in fragments:
        item = program.code[fragment.pc].item
        where = [f"PTX line {item.line if item else 0}", *([str(source)] if (source := program.source(item)) else [])]
        what = "a change of the memory that it polls"
        lines.append("  " + blocked.blocked_text(warp.cta.name, names.role(warp.index), warp.index, fragment.count, what, where))
    message = (
        f"warps poll memory at time {cluster.now} that nothing changes any more; blocks run one cluster after another, so one that waits "
        "for a later one waits for ever:\n"
    )
    item = program.code[fragments[0][1].pc].item
    return SimulationError("deadlock", message + "\n".join(lines), item.line if item else 0, program.source(item))


def _blocked(program, names: Names, warp) -> list[dict]:
    found = []
    for fragment in warp.fragments:
        if fragment.wait is None:
            continue
        pc = fragment.pc if fragment.wait.retry else fragment.pc - 1
        item = program.code[pc].item
        found.append(_entry(program, names, warp, fragment, item))
    return found


def _entry(program, names: Names, warp, fragment, item) -> dict:
    wait, source, role = fragment.wait, program.source(item), names.role(warp.index)
    entry = {
        "cta": warp.cta.index,
        "warp": warp.index,
        "lanes": fragment.count,
        "kind": wait.kind,
        "role": role,
        "ptx_line": item.line if item else 0,
        "source": source,
        **wait.details,
    }
    what = wait.text
    if wait.kind == "mbarrier":
        address = wait.details["address"]
        name = names.barrier(address)
        what = blocked.barrier_text(address, name, _state(wait, warp))
        entry.update(blocked.barrier_facts(name))
    where = [f"PTX line {entry['ptx_line']}", *([str(source)] if source else [])]
    entry["text"] = blocked.blocked_text(warp.cta.name, role, warp.index, fragment.count, what, where)
    return entry


def _state(wait, warp) -> BarrierState | None:
    barrier = warp.cta.mbarriers.get(wait.details["address"])
    if barrier is None:
        return None
    state = barrier.state
    return BarrierState(wait.details["phase"], state.phase, state.pending, state.expected, state.tx)


def _sides(cluster) -> tuple[dict, dict]:
    """Producers wait on empty barriers and consumers on full ones; learned from every wait seen in the run."""
    producers: dict[str, list[str]] = {}
    consumers: dict[str, list[str]] = {}
    names = cluster.ctas[0].program.names
    for cta in cluster.ctas:
        for warp in cta.warps:
            role = names.role(warp.index)
            for offset in warp.waited_on:
                name = names.barrier(offset)
                if name is None or role is None:
                    continue
                table = producers if name.side == "empty" else consumers
                if role not in table.setdefault(name.pipeline, []):
                    table[name.pipeline].append(role)
    return producers, consumers
