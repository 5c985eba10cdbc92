"""From a parsed kernel to a program: symbols placed, instructions decoded, reconvergence points found."""

from __future__ import annotations

from collections import OrderedDict
from functools import partial

from . import instructions  # noqa: F401 - registers all meanings
from .compiled.runner import Table
from .errors import SimulationError
from .instructions.asynchronous.unlooped import unlooped_tests
from .instructions.control.aligned import counted, is_aligned, together
from .instructions.control.branches import end_of_kernel
from .instructions.decode import Decoded, decode
from .instructions.forms import form_of
from .instructions.tensor.moved_accumulators import early_moves, following, unread_copies
from .instructions.tensor.pending_loads import all_registers, early_uses, looking
from .instructions.tensor.register_fences import telling, unfenced_uses
from .instructions.unset import unset_reads
from .machine.image import MATRICES, Image
from .machine.memory.global_memory import GlobalMemory
from .machine.program import Program, Step
from .machine.threads.cta import Warp
from .ptx.flow import NOWHERE, reconvergence_points
from .ptx.tree import Function, Instruction, Module, Symbol

_ENDING = frozenset({"exit", "ret"})


# The kernels launched last, by module; the module is kept alive so that its id stays unique. The only launch-dependent part of a program
# is the addresses of its global variables, which follow the arguments.
_KEPT: OrderedDict[tuple[int, str, int, int], tuple[Module, Program]] = OrderedDict()
_MOST_KEPT = 16


def load(module: Module, kernel: Function, memory: GlobalMemory, dynamic_smem: int) -> Program:
    """The kernel ready to run, its global variables in `memory`. Raises SimulationError for malformed text; unsupported instructions
    fail when they are executed."""
    placed = any(variable.space == "global" for variable in (*module.variables, *kernel.variables))
    key = id(module), kernel.name, dynamic_smem, memory.next_base if placed else 0
    kept = _KEPT.pop(key, None)
    # The memory has the same end as then, so the variables get the addresses with which the program was decoded.
    if kept is not None:
        kept[1].image.place_globals(memory)
    else:
        kept = module, _load(module, kernel, memory, dynamic_smem)
    _KEPT[key] = kept
    if len(_KEPT) > _MOST_KEPT:
        _KEPT.popitem(last=False)
    program = kept[1]
    program.begin()
    return program


def _load(module: Module, kernel: Function, memory: GlobalMemory, dynamic_smem: int) -> Program:
    image = Image(module, kernel, memory, dynamic_smem)
    items = image.function.instructions
    image.successors = successors = [_successors(index, item, image) for index, item in enumerate(items)]
    unset = unset_reads(items, successors)
    image.unset, image.unset_sums = unset.reads, unset.sums
    image.unlooped = unlooped_tests(items, successors)
    steps = [_step(item, image) for item in items]
    for item, step in zip(items, steps, strict=True):
        step.execute = counted(step.execute, item)
        if is_aligned(item):
            # Their machine code refuses warps that are not complete.
            step.execute, step.form = together(step.execute, item), step.form if item.root in MATRICES else None
    for index, used in early_uses(items, successors).items():
        # Machine code performs no such checks, and avoids these registers as long as they are being loaded.
        steps[index].execute = looking(steps[index].execute, used, items[index])
        image.used_early |= used
    moves = early_moves(items, successors)
    unread = unread_copies(items) if moves else frozenset[int]()
    for index, moved in moves.items():
        # Machine code avoids registers in flight.
        steps[index].execute = following(steps[index].execute, moved, moved[0] <= unread)
    for index, used in unfenced_uses(items, successors).items():
        steps[index].execute, steps[index].form = telling(steps[index].execute, used, items[index]), None
    points = reconvergence_points(successors)
    meeting = [points.get(index, NOWHERE) for index in range(len(items) + 1)]
    return Program(image, [*steps, Step(end_of_kernel, -1, False, None)], meeting, Table(len(steps) + 1), all_registers)


def _step(item: Instruction, image: Image) -> Step:
    decoded = _decode_or_fail(item, image)
    form = form_of(item, decoded)
    if item.guard is None or item.root == "bra":
        return Step(decoded.execute, -1, False, item, form, decoded.slots, decoded.offset or 0)
    return Step(decoded.execute, item.guard.register.index, item.guard.negated, item, form, decoded.slots, decoded.offset or 0)


def _decode_or_fail(item: Instruction, image: Image) -> Decoded:
    try:
        return decode(item, image)
    except SimulationError as error:
        if error.kind != "unsupported":
            raise error.located(item.line, image.source(item)) from None
        return Decoded(partial(_unsupported, error.message), (), (), None)


def _unsupported(message: str, warp: Warp) -> None:
    raise SimulationError("unsupported", message)


def _successors(index: int, item: Instruction, image: Image) -> list[int]:
    following = [index + 1] if item.guard or item.root not in ("bra", "brx", "trap", *_ENDING) else []
    if item.root == "bra":
        return [image.target(_label(item, 0), item), *following]
    if item.root == "brx":
        return [*image.targets(_label(item, 1), item), *following]
    if item.root in _ENDING and not item.guard:
        return [len(image.function.instructions)]
    return following


def _label(item: Instruction, index: int) -> str:
    operand = item.operands[index] if index < len(item.operands) else None
    if not isinstance(operand, Symbol):
        raise SimulationError("malformed", f"`{item.opcode}` names no label", item.line)
    return operand.name
