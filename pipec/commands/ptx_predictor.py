"""`pipec predict FILE.ptx`: the time of a kernel whose barriers can be read from its PTX."""

import argparse
import json
import re
from collections.abc import Mapping

from pipec.api.files import read_input
from pipec.commands.launching.timeline_page import trace, write_timeline
from pipec.diag.catalogue.commands import prediction as messages
from pipec.diag.message import Failure
from pipec.predict.device import BY_ARCH, DEVICES, Device
from pipec.predict.ptx.code import Unclear
from pipec.predict.ptx.timing import FORMS, PtxPrediction, names_of, parameter_of, predict_ptx, short_name
from pipec.sim import SimulationError, parse
from pipec.source import Source
from pipec.verify.network import Network, Unreadable
from pipec.verify.reader.read import read
from pipec.verify.reader.values.interpretation import Interpretation


def predict_ptx_file(options: argparse.Namespace) -> int:
    """PTX of any compiler whose barriers can be read. Raises Failure with what is missing."""
    source = read_input(options.file)
    try:
        network = read(source.text, options.kernel, Interpretation(FORMS, branches=True))
    except Unreadable as unreadable:
        what = f"its protocol cannot be read, since {unreadable.why}"
        raise not_predictable(options, source, options.kernel or source.name, what, unreadable.line) from None
    try:
        device = device_of(source.text, options.device)
        given, blocks = _given(network, dict(options.shapes))
        found = predict_ptx(network, source.text, device, given, blocks, options.clock and options.clock * 1e9)
    except Unclear as unclear:
        raise not_predictable(options, source, network.name, unclear.what, unclear.line) from None
    if options.timeline:
        write_timeline(options.timeline, trace([(found.kernel, found.clock, found.stretches)]))
    if options.format == "json" or options.printer.json:
        print(json.dumps({"kernels": [_ptx_as_data(found)]}))
    else:
        print(_ptx_as_text(found))
    return 0


def not_predictable(options: argparse.Namespace, source: Source, kernel: str, what: str, line: int) -> Failure:
    at = None
    if 0 < line <= len(source.lines):
        text = source.line(line)
        start = len(text) - len(text.lstrip()) + 1
        at = source.span(line, start, line, max(start + 1, len(text.rstrip()) + 1))
    return Failure(
        messages.PtxNotPredictable(kernel=kernel, what=what, at=at, hint=None if options.launch else _hint(options, source))
    )


def _hint(options: argparse.Namespace, source: Source) -> str:
    """What a launch file would have to say."""
    try:
        kernels = [one for one in parse(source.text).kernels if options.kernel in (None, one.name)]
    except SimulationError:
        kernels = []
    sizes = ", ".join(str(one.size) for one in kernels[0].parameters) if len(kernels) == 1 else ""
    arguments = f'"arguments": [...] (of {sizes} bytes)' if sizes else '"arguments": [...]'
    return (
        f"say how it is launched, and some of its blocks are executed: `pipec predict {options.file} --launch launch.json` with "
        f'{{"grid": [x, y, z], "block": [x, y, z], "shared": bytes, {arguments}}} (docs/time.md)'
    )


def device_of(text: str, name: str | None) -> Device:
    target = re.search(r"^\s*\.target\s+(\w+)", text, re.MULTILINE)
    fitting = BY_ARCH.get(target[1]) if target is not None else None
    if fitting is None:
        raise Unclear(0, f"nothing is on record about {target[1] if target is not None else 'its target'}")
    if name is not None and DEVICES[name] is not fitting:
        raise Unclear(0, f"it is for {fitting.arch}, and {DEVICES[name].name} runs {DEVICES[name].arch}")
    return fitting


_BLOCKS = "blocks"  # the size that gives the number of blocks of a launch


def _given(network: Network, shapes: Mapping[str, str]) -> tuple[dict[str, int], tuple[int, int, int] | None]:
    """The values that determine trip counts, and the number of blocks along each axis. Raises Unclear."""
    names = names_of(network)
    given: dict[str, int] = {}
    blocks: tuple[int, int, int] | None = None
    for name, value in shapes.items():
        if name == _BLOCKS and (several := re.fullmatch(r"([1-9]\d{0,6})x([1-9]\d{0,6})(?:x([1-9]\d{0,6}))?", value, re.ASCII)):
            blocks = int(several[1]), int(several[2]), int(several[3] or 1)
            continue
        if not (value.isascii() and value.isdecimal() and len(value) <= _DIGITS):
            raise Unclear(0, f"`{name}={value[:20]}` is no size")
        parameter = parameter_of(name, names, network.name)
        if name == _BLOCKS and (int(value) or parameter is None):
            if not int(value):
                raise Unclear(0, "a launch has at least one block")
            blocks = int(value), 1, 1
        elif parameter is not None:
            given[parameter] = int(value)
        else:
            known = ", ".join(f"`{short_name(one, network.name)}`" for one in names) or "none"
            raise Unclear(0, f"nothing in it depends on `{name}`, but on {known}, and on `{_BLOCKS}`")
    absent = [short_name(name, network.name) for name in names if name not in given and not name.startswith("%")]
    if absent:
        listed, wanted = ", ".join(f"`{name}`" for name in absent), " ".join(f"{name}=..." for name in absent)
        raise Unclear(0, f"how often its loops run depends on {listed}: give `--shape {wanted}`")
    return given, blocks


_DIGITS = 10


def _ptx_as_data(one: PtxPrediction) -> dict[str, object]:
    return {
        "name": one.kernel,
        "device": one.device.name,
        "clock": one.clock,
        "sizes": dict(one.given),
        "seconds": one.seconds,
        "cycles": one.cycles,
        "bound_by": one.bound_by,
        "bounds": dict(one.bounds),
        "flops": one.flops * one.blocks,
        "blocks": one.blocks,
        "blocks_per_multiprocessor": one.held,
        "busy": dict(one.busy),
        "waits_for": one.waits_for,
        "loaded_bytes": one.moved * one.blocks,
        "unknown": list(_unknown_of_ptx(one)),
    }


_OF_PTX = (
    "how wide the boxes of tensor maps are: rows of 128 bytes are assumed",
    "how much of what is loaded comes from memory: the bound that memory sets is left out",
    "how often loops run that touch no barrier: they count once",
)
_BLOCKS_DIFFER = "how much less than the first block others do: time, rate and bytes are as if all did as much"


def _unknown_of_ptx(one: PtxPrediction) -> tuple[str, ...]:
    return (*_OF_PTX, *((_BLOCKS_DIFFER,) if one.differ else ()), *one.device.unknown)


def _ptx_as_text(one: PtxPrediction) -> str:
    sizes = " ".join(f"{short_name(name, one.kernel)}={size}" for name, size in one.given.items())
    busy = ", ".join(f"{name} {cycles:,.0f}" for name, cycles in sorted(one.busy.items(), key=lambda item: -item[1]))
    lines = [
        f"{one.kernel} (PTX) on {one.device.with_article} at {one.clock / 1e9:.4g} GHz, {one.blocks} blocks {sizes}".rstrip(),
        f"  time         {one.seconds * 1e6:,.1f} us"
        + (f", {one.flops * one.blocks / one.seconds / 1e12:,.0f} TFLOP/s" if one.flops else ""),
        f"  bound by     {one.bound_by}, there by {one.waits_for}",
        f"  blocks       {one.held} on a multiprocessor at a time, {one.cycles:,.0f} cycles in all",
        f"  busy         {busy or 'nothing'} cycles of each block",
        f"  loaded       {one.moved * one.blocks / 1e6:,.1f} MB through the L2",
    ]
    lines += [f"  not known    {what}" for what in _unknown_of_ptx(one)]
    return "\n".join(lines)
