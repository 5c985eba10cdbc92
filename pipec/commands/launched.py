"""`pipec predict FILE.ptx --launch LAUNCH.json`: the time of a launch of a kernel of any compiler."""

import argparse
import json
from collections.abc import Iterator, Mapping
from typing import Any

from pipec.api.files import read_input
from pipec.commands.launching.call import Call
from pipec.commands.launching.foreign import message_of
from pipec.commands.launching.launch_file import read_call
from pipec.commands.launching.timeline_page import trace, write_timeline
from pipec.commands.ptx_predictor import device_of, not_predictable
from pipec.diag.catalogue.commands import prediction as messages
from pipec.diag.catalogue.commands import run as run_messages
from pipec.diag.message import Failure, Sink
from pipec.predict.executed.launch import Executed, Launched, NotTimed, RegistersNeeded, Timed, timed
from pipec.predict.executed.loops import Loop, Place
from pipec.predict.ptx.code import Unclear
from pipec.ptx.assemble import assemble
from pipec.sim import SimulationError, parse
from pipec.sim.ptx.tree import Function
from pipec.source import Source


def predict_launch(options: argparse.Namespace) -> int:
    """Raises Failure with what the launch file lacks, or why no time follows."""
    source = read_input(options.file)
    if options.shapes:
        said = dict(options.shapes)
        problem = f"says all of a launch; leave out `--shape {next(iter(said))}=...`"
        raise Failure(run_messages.BadArgument(option="--launch", text=options.launch, problem=problem))
    call = read_call(options.launch, 0)
    options.steps = 0  # no limit of the user's: the one that there is, is reported as a reason
    try:
        kernel = _kernel(source, options.kernel or call.kernel, options)
        _check(call, source, kernel, options)
        device = device_of(source.text, options.device)
        launched = Launched(
            source.text, kernel.name, _three(call.grid), call.block, call.cluster, call.shared, call.arguments, call.allocations,
            call.registers or _registers(source, kernel),
        )  # fmt: skip
        found = timed(Executed(launched), device, options.clock and options.clock * 1e9)
    except Unclear as unclear:
        raise not_predictable(options, source, options.kernel or source.name, unclear.what, unclear.line) from None
    except NotTimed as reason:
        raise not_predictable(options, source, kernel.name, reason.what, reason.line) from None
    except RegistersNeeded as needed:
        what = f"`registers`, of a thread: with them {needed.least} to {needed.most} blocks share a multiprocessor"
        raise _lacks(options, kernel.name, [(what, '"registers": ..., which `ptxas -v` or the driver tells')]) from None
    except SimulationError as error:
        raise Failure(message_of(error, source, options.kernel or call.kernel, options)) from None
    if options.timeline:
        write_timeline(options.timeline, trace([(found.kernel, found.clock, found.stretches)]))
    if options.format == "json" or options.printer.json:
        print(json.dumps({"kernels": [_as_data(found)]}))
    else:
        print(_as_text(found))
    return 0


# ---- what has to be said


def _kernel(source: Source, name: str | None, options: argparse.Namespace) -> Function:
    kernels = {kernel.name: kernel for kernel in parse(source.text).kernels}
    if name is None and len(kernels) > 1:
        raise _lacks(options, source.name, [("`kernel`", f'"kernel": one of {", ".join(kernels)}')])
    if name not in kernels and name is not None or not kernels:
        raise SimulationError("argument", f"no kernel `{name}`; the module has: {', '.join(kernels) or 'none'}")
    return kernels[name] if name is not None else next(iter(kernels.values()))


def _check(call: Call, source: Source, kernel: Function, options: argparse.Namespace) -> None:
    """Raises Failure with all that a launch of this kernel lacks."""
    lacks = [*_lacking(call, source, kernel)]
    if lacks:
        raise _lacks(options, kernel.name, lacks)


def _lacking(call: Call, source: Source, kernel: Function) -> Iterator[tuple[str, str]]:
    if call.grid is None:
        yield "`grid`", '"grid": [x, y, z], the number of blocks'
    if call.block is None and not kernel.directives.get("reqntid"):
        yield "`block`", '"block": [x, y, z], the threads of a block, since the PTX has no `.reqntid`'
    if "shared" not in call.stated and _has_dynamic_memory(source, kernel):
        yield "`shared`", '"shared": bytes of dynamic shared memory'
    given, wanted = len(call.arguments), kernel.parameters
    if given < len(wanted):
        sizes = ", ".join(str(one.size) for one in wanted[given:])
        yield f"{len(wanted) - given} of {len(wanted)} `arguments`", f'in "arguments", after the first {given}: of {sizes} bytes'


def _has_dynamic_memory(source: Source, kernel: Function) -> bool:
    return any(one.external and one.space == "shared" for one in (*parse(source.text).variables, *kernel.variables))


def _lacks(options: argparse.Namespace, kernel: str, lacks: list[tuple[str, str]]) -> Failure:
    what = " and ".join(name for name, _ in lacks)
    return Failure(messages.LaunchLacks(kernel=kernel, file=options.launch, what=what, how="; ".join(how for _, how in lacks)))


def _registers(source: Source, kernel: Function) -> int | None:
    """As the PTX or the assembler says, if there is one here."""
    stated = kernel.directives.get("maxnreg")
    if stated:
        return stated[0]
    target = next(iter(parse(source.text).target), "")
    done = assemble(source.text, target, Sink())
    if done is None:
        return None
    return next((one.registers for one in done.statistics if one.name == kernel.name), None)


def _three(grid: tuple[int, ...] | None) -> tuple[int, int, int]:
    x, y, z = (*(grid or ()), 1, 1, 1)[:3]
    return x, y, z


# ---- output


def _as_data(one: Timed) -> dict[str, Any]:
    return {
        "name": one.kernel,
        "device": one.device.name,
        "clock": one.clock,
        "seconds": one.seconds,
        "cycles": one.cycles,
        "bound_by": one.bound_by,
        "bounds": dict(one.bounds),
        "flops": one.flops,
        "blocks": one.blocks,
        "blocks_per_multiprocessor": one.held,
        "waves": one.waves,
        "busy": dict(one.busy),
        "waits_for": one.waits_for,
        "memory_bytes": one.memory_bytes,
        "l2_bytes": one.l2_bytes,
        "loops": [
            {
                "label": loop.label,
                "line": loop.line,
                "source": loop.location,
                "trips": loop.trips,
                "period": loop.period,
                "busy": dict(loop.parts),
                "waits": [_place(place) for place in loop.waits],
            }
            for loop in one.loops
        ],
        "waits": [_place(place) for place in one.waits],
        "executed_clusters": one.executed,
        "unknown": list(one.unknown),
    }


def _place(place: Place) -> Mapping[str, Any]:
    return {"line": place.line, "source": place.location, "instruction": place.opcode, "part": place.part}


_TOLD = 4
_SMALL = 0.02  # of the time: places below are not shown


def _as_text(one: Timed) -> str:
    rate = f", {one.flops / one.seconds / 1e12:,.0f} TFLOP/s" if one.flops else ""
    alone = ", ".join(f"{name} {seconds * 1e6:,.1f}" for name, seconds in one.bounds.items() if name != "power")
    busy = ", ".join(f"{name} {cycles:,.0f}" for name, cycles in sorted(one.busy.items(), key=lambda item: -item[1]))
    lines = [
        f"{one.kernel} (PTX) on {one.device.with_article} at {one.clock / 1e9:.4g} GHz, {one.blocks:,} blocks",
        f"  time         {one.seconds * 1e6:,.1f} us{rate}",
        f"  bound by     {one.bound_by}, there by {one.waits_for} (each alone, in us: {alone})",
        f"  blocks       {one.held} on a multiprocessor at a time, {one.waves:.2f} waves; {one.executed} executed",
        f"  busy         {busy or 'nothing'} cycles of each block",
        f"  memory       {one.memory_bytes / 1e6:,.1f} MB; through the L2 {one.l2_bytes / 1e6:,.1f} MB",
    ]
    for loop in one.loops:
        lines += _loop(loop)
    waits = [place for place in one.waits if place.part >= _SMALL][:_TOLD]
    lines += [f"  waits        {place.part:.0%} of the warps' time: {_words(place)}" for place in waits]
    return "\n".join([*lines, *(f"  not known    {what}" for what in one.unknown)])


def _loop(loop: Loop) -> list[str]:
    name = f"`{loop.label}`, line {loop.line}" if loop.label else f"line {loop.line}"
    where = f" ({loop.location})" if loop.location else ""
    busy = ", ".join(f"{unit} {cycles:,.0f}" for unit, cycles in sorted(loop.parts.items(), key=lambda item: -item[1]))
    lines = [f"  loop         {name}{where}: {loop.trips} trips of {loop.period:,.0f} cycles" + (f"; {busy}" if busy else "")]
    waits = [place for place in loop.waits if place.part >= _SMALL][:_TOLD]
    return lines + [f"               waits {place.part:.0%}: {_words(place)}" for place in waits]


def _words(place: Place) -> str:
    where = f" ({place.location})" if place.location else ""
    return f"line {place.line}{where}, `{place.opcode}`"
