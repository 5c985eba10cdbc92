"""Kernel IR as text, for `--emit kir`, messages of the verifier and tests. For human readers only; nothing parses it."""

from collections.abc import Iterator
from typing import assert_never

from pipec.kir import ir
from pipec.sema import tree
from pipec.sema.tree.text import expression_text
from pipec.sema.types import TileType
from pipec.vocabulary import SIDES


def kernel_text(kernel: ir.Kernel) -> str:
    return "\n".join(_kernel_lines(kernel)) + "\n"


def _kernel_lines(kernel: ir.Kernel) -> Iterator[str]:
    parameters = [f"{tensor.name}: {tensor_type(tensor)}" for tensor in kernel.tensors]
    parameters += [f"{scalar.name}: {scalar.type}" for scalar in kernel.scalars]
    yield f"kernel {kernel.name}({', '.join(parameters)})"
    if kernel.constants:
        yield "  constants " + ", ".join(f"{name} = {value}" for name, value in kernel.constants.items())
    yield "  grid " + ", ".join(expression_text(size) for size in kernel.grid)
    if kernel.schedule is not None:
        yield f"  {_schedule_text(kernel.schedule)}"
    for pipeline in kernel.pipelines:
        group = f" k_group_size={pipeline.k_group_size}" if pipeline.k_group_size != 1 else ""
        for side in SIDES:
            group += f" {side}_sub_stages={pipeline.sub_stages(side)}" if pipeline.sub_stages(side) != 1 else ""
        yield f"  pipeline {pipeline.name}: {pipeline.kind} stages={pipeline.stages}{group}"
    for buffer in kernel.buffers:
        tile = TileType(buffer.dtype, buffer.rows, buffer.columns)
        yield f"  buffer {buffer.label}: {buffer.space} {tile} x {buffer.count}"
    for role in kernel.roles:
        yield ""
        yield from _role_lines(role)


def _schedule_text(schedule: tree.Schedule) -> str:
    options = [f"{name}={value}" for name, value in (("blocks", schedule.blocks), ("group", schedule.group)) if value is not None]
    extents = ", ".join(expression_text(extent) for extent in schedule.extents)
    return " ".join((f"tiles {schedule.name}: {extents} {schedule.mode}", *options))


def _role_lines(role: ir.Role) -> Iterator[str]:
    yield f"  role {role.name}: {_role_properties(role)}"
    headers = {loop.header: loop for loop in role.loops}
    for number, block in enumerate(role.blocks):
        yield f"    {number}:{_participation(block.participation)}{_loop_note(headers.get(number))}"
        for operation in block.operations:
            yield f"      {operation.text()}"
        yield f"      {terminator_text(block.terminator)}"


def _role_properties(role: ir.Role) -> str:
    parts = [f"warps={role.warps}"]
    if role.registers is not None:
        parts.append(f"registers={role.registers}")
    if role.produces:
        parts.append("produces " + ", ".join(pipeline.name for pipeline in role.produces))
    if role.consumes:
        parts.append("consumes " + ", ".join(pipeline.name for pipeline in role.consumes))
    return " ".join(parts)


def _participation(participation: ir.Participation) -> str:
    match participation.threads:
        case "all":
            return ""
        case "one":
            return "  # one thread"
        case "some":
            return f"  # threads {_ranges(sorted(participation.chosen or ()))}"
        case _:
            return "  # unknown threads"


def _ranges(numbers: list[int]) -> str:
    runs: list[list[int]] = []
    for each in numbers:
        if runs and each == runs[-1][-1] + 1:
            runs[-1][1:] = [each]
        else:
            runs.append([each])
    return ", ".join("-".join(map(str, run)) for run in runs) or "none"


def _loop_note(loop: ir.Loop | None) -> str:
    if loop is None:
        return ""
    if loop.variable is None or loop.start is None or loop.stop is None:
        return "  # while"
    return f"  # for {loop.variable.name} in range({expression_text(loop.start)}, {expression_text(loop.stop)}, {loop.step})"


def terminator_text(terminator: ir.Terminator) -> str:
    match terminator:
        case ir.Jump(target):
            return f"jump {target}"
        case ir.Branch():
            return f"branch {expression_text(terminator.condition)} ? {terminator.then} : {terminator.otherwise}"
        case ir.ElectBranch():
            return f"elect ? {terminator.then} : {terminator.otherwise}"
        case ir.Exit():
            return "exit"
        case _:
            assert_never(terminator)


def tensor_type(tensor: tree.TensorParameter) -> str:
    return f"tensor[{', '.join(str(part) for part in (tensor.dtype, *tensor.shape))}]"
