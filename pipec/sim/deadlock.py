"""The deadlock report: who waits for what, in the program's own words where the PTX carries them."""

from __future__ import annotations

from dataclasses import dataclass

from .errors import SimulationError


@dataclass(frozen=True)
class BarrierName:
    pipeline: str
    side: str
    stage: int
    sub_stage: int | None = None  # where a stage has several barriers

    def __str__(self) -> str:
        sub_stage = "" if self.sub_stage is None else f", sub-stage {self.sub_stage}"
        return f"pipeline `{self.pipeline}`, {self.side} barrier, stage {self.stage}{sub_stage}"

    @property
    def place(self) -> str:
        return f"{self.stage}" if self.sub_stage is None else f"{self.stage}.{self.sub_stage}"


class Names:
    """Looks up roles and barriers in the kernel's metadata (empty for PTX of other compilers)."""

    def __init__(self, program) -> None:
        metadata = program.metadata
        self.roles = [role for role in metadata.get("roles", []) if isinstance(role, dict)]
        self.barriers: dict[int, BarrierName] = {}
        for entry in metadata.get("barriers", []):
            each = int(entry.get("sub_stages", 1))
            for number in range(int(entry.get("stages", 1)) * each):
                offset = program.dynamic_base + int(entry["offset"]) + 8 * number
                stage, sub_stage = divmod(number, each)
                self.barriers[offset] = BarrierName(
                    entry.get("pipeline", "?"), entry.get("side", "?"), stage, sub_stage if each > 1 else None
                )

    def role(self, warp: int) -> str | None:
        for role in self.roles:
            if role.get("first_warp", 0) <= warp < role.get("first_warp", 0) + role.get("warps", 1):
                return role.get("name")
        return None

    def barrier(self, offset: int) -> BarrierName | None:
        return self.barriers.get(offset)


def deadlock_error(program, cluster) -> SimulationError:
    """Nothing can move: one line per blocked warp, and the wait cycle when the roles show one."""
    names = Names(program)
    entries = [entry for warp in cluster.warps for entry in _blocked(program, names, warp)]
    lines = [f"  {entry['text']}" for entry in entries]
    cycle = _cycle(names, entries, cluster)
    message = f"no warp can make progress at time {cluster.now}; blocked:\n" + "\n".join(lines)
    if cycle:
        message += "\nwait cycle: " + " -> ".join(cycle)
    first = entries[0] if entries else {}
    return SimulationError(
        "deadlock",
        message,
        first.get("ptx_line", 0),
        first.get("source"),
        {"blocked": entries, "cycle": cycle, "time": cluster.now},
    )


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
    who = f"role `{role}` (warp {warp.index})" if role else f"warp {warp.index}"
    what = wait.text
    if wait.kind == "mbarrier":
        name = names.barrier(wait.details["address"])
        what = _barrier_text(name, wait, warp)
        if name is not None:
            entry.update(pipeline=name.pipeline, side=name.side, stage=name.stage, sub_stage=name.sub_stage, place=name.place)
    where = f"PTX line {entry['ptx_line']}" + (f", {source}" if source else "")
    count = "" if fragment.count == 32 else f", {fragment.count} lane{'s' if fragment.count > 1 else ''}"
    entry["text"] = f"{warp.cta.name} {who}{count}: waits for {what} [{where}]"
    return entry


def _barrier_text(name: BarrierName | None, wait, warp) -> str:
    barrier = warp.cta.mbarriers.get(wait.details["address"])
    place = f"{name} (shared 0x{wait.details['address']:x})" if name else f"mbarrier at shared 0x{wait.details['address']:x}"
    if barrier is None:
        return place
    state = barrier.state
    missing = f"{state.pending} of {state.expected} arrivals missing" if state.pending else "all arrivals in"
    bytes_ = f", {state.tx} bytes outstanding" if state.tx else ""
    return f"{place}: wants phase {wait.details['phase']}, current phase {state.phase} ({missing}{bytes_})"


def _cycle(names: Names, entries: list[dict], cluster) -> list[str]:
    """Follows "waits on full of p -> its producers -> what those wait for"; the sides of a pipeline name its roles."""
    producers, consumers = _sides(cluster)
    waits = {entry["role"]: entry for entry in entries if entry.get("pipeline") and entry["role"]}
    for start in waits:
        path, role = [], start
        while role in waits and role not in path:
            path.append(role)
            entry = waits[role]
            responsible = producers if entry["side"] == "full" else consumers
            role = next((other for other in responsible.get(entry["pipeline"], ()) if other in waits and other != role), None)
        if role is not None and role in path:
            loop = path[path.index(role) :]
            return [f"`{r}` waits on {waits[r]['side']}[{waits[r]['place']}] of `{waits[r]['pipeline']}`" for r in loop] + [
                f"`{role}`"
            ]
    return []


def _sides(cluster) -> tuple[dict, dict]:
    """Producers wait on empty barriers and consumers on full ones; learned from every wait seen in the run."""
    producers: dict[str, list[str]] = {}
    consumers: dict[str, list[str]] = {}
    program = cluster.ctas[0].program
    names = Names(program)
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
