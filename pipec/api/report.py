"""The resources of a compiled kernel and what was proved about it: for `Program.report`, `pipec check` and `pipec run`."""

from collections.abc import Iterator

from pipec.checks.verdict import Findings, Verdict
from pipec.diag.shown import counted
from pipec.interface import BarrierRange, RoleWarps
from pipec.kir import ir
from pipec.kir.plan.types import Plan, SharedItem
from pipec.record import record
from pipec.sema import tree


@record
class KernelReport:
    """Sizes in bytes; `tensor_columns` of `tensor_limit`, 0 on targets without tensor memory. Sentences: `proofs` that the proof checker
    confirmed on the PTX, `checked` by other checks on the source, for every launch, and `assumed` by those; `undecided` names what was
    neither proved nor refuted; `tiles` describes how a tile scheduler distributes its tiles. As text, the lines that `pipec run` prints."""

    name: str
    threads: int
    shared_bytes: int
    shared_limit: int
    shared_items: tuple[SharedItem, ...]
    tensor_columns: int
    tensor_limit: int
    roles: tuple[RoleWarps, ...]
    barriers: tuple[BarrierRange, ...]
    proofs: tuple[str, ...]
    checked: tuple[str, ...]
    assumed: tuple[str, ...]
    undecided: tuple[str, ...]
    tiles: str | None = None

    def __str__(self) -> str:
        return "\n".join([self.name, *(f"  {line}" for line in lines(self))])


def report_of(plan: Plan, protocol: Verdict, findings: Findings | None = None) -> KernelReport:
    """`protocol` is the result of the protocol check; `findings` that of the checks of global memory."""
    findings = findings or Findings()
    proved = protocol.outcome == "proved"
    interface = plan.interface
    return KernelReport(
        interface.name,
        interface.threads,
        plan.shared_bytes,
        plan.target.shared_bytes,
        plan.shared_items,
        interface.tensor_columns,
        plan.target.tensor_columns,
        interface.roles,
        interface.barriers,
        (protocol.sentence,) if proved else (),
        () if protocol.outcome == "unchecked" else (*_checked(plan), *findings.checked),
        findings.assumed,
        () if proved else (protocol.sentence,),
        _tiles(plan.kernel.schedule),
    )


def statements(report: KernelReport) -> Iterator[tuple[str, str]]:
    """What is known about a kernel: each sentence with the word for its status."""
    known = (("checked", report.checked), ("assumed", report.assumed), ("proved", report.proofs), ("open", report.undecided))
    for word, sentences in known:
        yield from ((word, sentence) for sentence in sentences)


def lines(report: KernelReport) -> Iterator[str]:
    """What is known about a kernel and what it uses, as `pipec run` prints it."""
    rows = [*statements(report), ("uses", f"{report.threads} threads: {', '.join(_warps(role) for role in report.roles)}")]
    used = [f"{report.shared_bytes:,} of {report.shared_limit:,} bytes of shared memory"]
    if report.tensor_limit:
        used.append(f"{report.tensor_columns} of {report.tensor_limit} tensor-memory columns")
    rows.append(("uses", ", ".join(used)))
    if report.tiles is not None:
        rows.append(("tiles", report.tiles))
    return (f"{word:7} {sentence}" for word, sentence in rows)


def _warps(role: RoleWarps) -> str:
    last = role.first_warp + role.warps - 1
    return f"{role.name} (warp {last})" if role.warps == 1 else f"{role.name} (warps {role.first_warp}-{last})"


def _tiles(schedule: tree.Schedule | None) -> str | None:
    if schedule is None:
        return None
    order = f", in strips of {counted(schedule.group, 'row')}" if schedule.group is not None else ""
    if schedule.mode == "clc":
        return f"`{schedule.name}`, handed out by cluster launch control{order}"
    blocks = (
        "as many blocks as there are multiprocessors"
        if schedule.blocks is None
        else f"at most {counted(schedule.blocks, 'block')}"
    )
    return f"`{schedule.name}`, shared out to {blocks}{order}"


def _checked(plan: Plan) -> Iterator[str]:
    """Each sentence restates a check that passed, with the numbers of this kernel."""
    acquires = [operation for role in plan.kernel.roles for operation in _operations(role) if isinstance(operation, tree.Acquire)]
    handles = {operation.handle for operation in acquires}
    if handles:
        stages, roles = counted(len(handles), "acquired stage"), counted(len(plan.kernel.roles), "role")
        yield f"stages: each of {stages} in {roles} is signalled once and released once on every path"
    for pipeline in plan.kernel.pipelines:
        full, empty = plan.signals.get((pipeline, "producer")), plan.signals.get((pipeline, "consumer"))
        if full is None or empty is None:
            continue
        expected = f" and {full.transaction_bytes:,} bytes, as many as are issued" if full.transaction_bytes else ""
        giving = "each consumer gives in its turn" if empty.in_turn else "the consumers give"
        yield (
            f"{pipeline.name}: full barriers expect {counted(full.count, 'arrival')}{expected}; "
            f"empty barriers {counted(empty.count, 'arrival')}, as many as {giving}"
        )


def _operations(role: ir.Role) -> Iterator[tree.Operation]:
    for block in role.blocks:
        yield from block.operations
