"""Blocked waits in terms of the program: the sentences of the deadlock reports of simulator and watchdog.

A leaf, so that both use the same words. Roles and barriers come from the metadata line in the PTX (pipec.interface.to_json).
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from pipec.record import record
from pipec.vocabulary import BarrierSide


@record
class BarrierName:
    """A barrier of a pipeline; `sub_stage` is None if a stage has only one on this side."""

    pipeline: str
    side: BarrierSide
    stage: int
    sub_stage: int | None = None

    def __str__(self) -> str:
        sub_stage = "" if self.sub_stage is None else f", sub-stage {self.sub_stage}"
        return f"pipeline `{self.pipeline}`, {self.side} barrier, stage {self.stage}{sub_stage}"

    @property
    def place(self) -> str:
        return f"{self.stage}" if self.sub_stage is None else f"{self.stage}.{self.sub_stage}"


class Names:
    """Looks up roles by warp and barriers by shared address; empty metadata (PTX of other compilers) names nothing.

    `base` is the shared address of dynamic shared memory.
    """

    def __init__(self, metadata: Mapping[str, Any], base: int) -> None:
        self.roles = _entries(metadata, "roles", "first_warp", "warps")
        self.barriers: dict[int, BarrierName] = {}
        for entry in _entries(metadata, "barriers", "offset", "stages"):
            each = int(entry.get("sub_stages", 1))
            for number in range(entry["stages"] * each):
                stage, sub_stage = divmod(number, each)
                self.barriers[base + entry["offset"] + 8 * number] = BarrierName(
                    entry.get("pipeline", "?"), entry.get("side", "?"), stage, sub_stage if each > 1 else None
                )

    def role(self, warp: int) -> str | None:
        for role in self.roles:
            if role["first_warp"] <= warp < role["first_warp"] + role["warps"]:
                return role.get("name")
        return None

    def who(self, warp: int) -> str:
        """The name of the warp in a report."""
        return who_text(self.role(warp), warp)

    def barrier(self, address: int) -> BarrierName | None:
        return self.barriers.get(address)

    def place_of(self, filled_by: int, used: int) -> dict[str, Any]:
        """Pipeline and stage of memory for which the barrier `filled_by` counts bytes; otherwise of the barrier last `used`."""
        own = self.barrier(filled_by)
        name = own or self.barrier(used)
        if name is None:
            return {}
        place = f"stage {name.place} of pipeline `{name.pipeline}`" if own else f"last used: {name}"
        return {"place": place, "pipeline": name.pipeline, "stage": name.stage}


def _entries(metadata: Mapping[str, Any], table: str, *numbers: str) -> list[dict[str, Any]]:
    """The valid entries of a table; the text is untrusted."""
    entries = metadata.get(table, [])
    usable = entries if isinstance(entries, list) else []
    return [entry for entry in usable if isinstance(entry, dict) and all(isinstance(entry.get(name), int) for name in numbers)]


def who_text(role: str | None, warp: int) -> str:
    return f"role `{role}` (warp {warp})" if role else f"warp {warp}"


@record
class BarrierState:
    """An mbarrier with a waiting thread: the awaited phase, and the state of the current one.

    `tx` are the bytes announced and not delivered (negative: delivered and not announced); if only a range is known, at least `tx` and
    at most `most_tx`.
    """

    wanted: int
    current: int
    pending: int
    expected: int
    tx: int
    most_tx: int | None = None


def barrier_text(address: int, name: BarrierName | None, state: BarrierState | None) -> str:
    """What is waited for, and what is missing."""
    place = f"{name} (shared 0x{address:x})" if name else f"mbarrier at shared 0x{address:x}"
    if state is None:
        return place
    missing = f"{state.pending} of {state.expected} arrivals missing" if state.pending else "all arrivals in"
    range_ = "" if state.most_tx in (None, state.tx) else f" to {state.most_tx}"
    bytes_ = f", {state.tx}{range_} bytes outstanding" if state.tx or range_ else ""
    return f"{place}: wants phase {state.wanted}, current phase {state.current} ({missing}{bytes_})"


def barrier_fields(name: BarrierName | None) -> dict[str, Any]:
    """The machine-readable part of an entry."""
    if name is None:
        return {}
    return {
        "pipeline": name.pipeline,
        "side": name.side,
        "stage": name.stage,
        "sub_stage": name.sub_stage,
        "place": name.place,
    }


def cta_text(index: Sequence[int]) -> str:
    return f"CTA ({index[0]},{index[1]},{index[2]})"


def blocked_text(cta: str, role: str | None, warp: int, lanes: int, what: str, where: Iterable[str]) -> str:
    """One line of a report: who waits for what, and at which source locations."""
    who = who_text(role, warp)
    count = "" if lanes == 32 else f", {lanes} lane{'s' if lanes > 1 else ''}"
    return f"{cta} {who}{count}: waits for {what} [{', '.join(where)}]"


def report(entries: Sequence[Mapping[str, Any]], cycle: Sequence[str]) -> str:
    """One line per blocked warp, and the wait cycle if there is a visible one."""
    text = "\n".join(f"  {entry['text']}" for entry in entries)
    return text + ("\nwait cycle: " + " -> ".join(cycle) if cycle else "")


def wait_cycle(
    entries: Sequence[Mapping[str, Any]], producers: Mapping[str, Sequence[str]], consumers: Mapping[str, Sequence[str]]
) -> list[str]:
    """Follows "waits on full of p -> its producers -> what those wait for"; `producers` and `consumers` name the roles of p."""
    waits = {entry["role"]: entry for entry in entries if entry.get("pipeline") and entry["role"]}
    for start in waits:
        path: list[str] = []
        role: str | None = start
        while role is not None and role in waits and role not in path:
            path.append(role)
            entry = waits[role]
            responsible = producers if entry["side"] == "full" else consumers
            others = responsible.get(entry["pipeline"], ())
            role = next((other for other in others if other in waits and other != path[-1]), None)
        if role is not None and role in path:
            loop = path[path.index(role) :]
            return [f"`{r}` waits on {waits[r]['side']}[{waits[r]['place']}] of `{waits[r]['pipeline']}`" for r in loop] + [
                f"`{role}`"
            ]
    return []
