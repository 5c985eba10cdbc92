"""`pipec predict`: how long a kernel takes for given sizes, and why; no GPU is needed."""

import argparse
import json
from collections.abc import Iterator, Mapping, Sequence

from pipec.commands.launching.timeline_page import trace, write_timeline
from pipec.driver import Compilation
from pipec.predict.explanation import Finding, finding, listed
from pipec.predict.following.main_loops import MainLoop
from pipec.predict.launch import Prediction, prediction
from pipec.predict.parameters import shared_with
from pipec.predict.sensitivity import WORTH, Variation, tried, variations
from pipec.predict.sizes import of_each


def predict(state: Compilation, options: argparse.Namespace) -> int:
    """Every kernel of the file. Raises Failure."""
    assert state.trees is not None
    clock = options.clock and options.clock * 1e9
    interfaces = [next(one.interface for one in state.plans or () if one.interface.name == kernel.name) for kernel in state.trees]
    found = [
        prediction(state, one.name, sizes, options.device, clock)
        for one, sizes in zip(interfaces, of_each(interfaces, dict(options.shapes)), strict=True)
    ]
    if options.timeline:
        write_timeline(options.timeline, trace([(one.kernel, one.clock, one.stretches) for one in found]))
    varied = [variations(state, one.kernel, one) for one in found]
    if options.format == "json" or options.printer.json:
        print(json.dumps({"kernels": [as_data(state, one, others) for one, others in zip(found, varied, strict=True)]}))
    else:
        for one, others in zip(found, varied, strict=True):
            print(as_text(state, one, others))
    return 0


def _finding(state: Compilation, one: Prediction, loop: MainLoop, others: tuple[Variation, ...]) -> Finding:
    return finding(loop, tried(state, one.kernel, loop, others))


# ----------------------------------------------------------------------------------------------------------------- output


def as_data(state: Compilation, one: Prediction, others: tuple[Variation, ...]) -> dict[str, object]:
    """The fields of a kernel for `--format json`. Times in seconds, shares as fractions."""
    return {
        "name": one.kernel,
        "device": one.device.name,
        "clock": one.clock,
        "sizes": dict(one.sizes),
        "seconds": one.seconds,
        "within": list(one.within),
        "cycles": one.cycles,
        "bound_by": one.bound_by,
        "bounds": dict(one.bounds),
        "flops": one.flops,
        "tensor_share": one.tensor_share,
        "blocks": one.blocks,
        "blocks_per_multiprocessor": one.held,
        "waves": one.waves,
        "last_wave": one.last_wave,
        "tiles_per_block": one.tiles_each,
        "hidden_epilogue": one.hidden_epilogue,
        "loops": [
            {
                "role": loop.role,
                "loader": loop.loader,
                "pipeline": loop.pipeline.name,
                "stages": loop.pipeline.stages,
                "period": loop.period,
                "engines": {str(busy): cycles for busy, cycles in loop.engines.items()},
                "path": [{"kind": step.reason.kind, "where": step.reason.where, "cycles": step.cycles} for step in loop.path],
                "bound_by": found.bound,
                "says": found.sentence,
                "enough_stages": found.enough,
                "gain": found.gain,
            }
            for loop in one.loops
            for found in (_finding(state, one, loop, others),)
        ],
        "shares": one.shares,
        "memory_bytes": one.memory_bytes,
        "l2_bytes": one.l2_bytes,
        "sensitivity": [
            {
                "parameter": other.parameter,
                "value": other.value,
                "seconds": other.seconds,
                "gain": other.gain,
                "followed": other.followed,
                "also_in": list(shared_with(state, one.kernel).get(other.parameter, ())),
            }
            for other in others
        ],
        "assumed": [f"{span.source.name}:{span.line}" for span in one.assumed],
        "unknown": list(one.unknown),
    }


def as_text(state: Compilation, one: Prediction, others: tuple[Variation, ...]) -> str:
    """A few lines of text."""
    sizes = " ".join(f"{name}={size}" for name, size in one.sizes.items())
    rate = (
        f", {one.flops / one.seconds / 1e12:,.0f} TFLOP/s, {one.tensor_share:.0%} of the tensor cores' peak" if one.flops else ""
    )
    lines = [
        f"{one.kernel} on {one.device.with_article} at {one.clock / 1e9:.4g} GHz, {sizes}",
        f"  time         {one.seconds * 1e6:,.1f} us{rate}",
        f"  bound by     {_bound(one)}",
        f"  within       {one.within[0] * 1e6:,.1f} to {one.within[1] * 1e6:,.1f} us",
        f"  blocks       {one.blocks:,}, {one.held} on a multiprocessor at a time",
        f"  {_waves(one)}",
        f"  memory       {one.memory_bytes / 1e6:,.1f} MB; through the L2 {one.l2_bytes / 1e6:,.1f} MB",
    ]
    if one.hidden_epilogue is not None:
        lines.append(f"  epilogue     {one.hidden_epilogue:.0%} of it while products run")
    lines += _loops(one, [(loop, _finding(state, one, loop, others).sentence) for loop in one.loops])
    shares = ", ".join(f"{_in_words(name)} {share:.0%}" for name, share in one.shares.items() if share >= _SMALL)
    lines.append(f"  path         {shares}")
    lines += _helping(others, shared_with(state, one.kernel))
    lines += [f"  assumed      the branch in line {line} is taken" for line in dict.fromkeys(span.line for span in one.assumed)]
    lines += [f"  not known    {what}" for what in one.unknown]
    return "\n".join(lines)


def _bound(one: Prediction) -> str:
    """Where the power limit lowers the clock, the others' times are those at that clock, and power has none of its own."""
    lowers = one.device.machine.sustained is not None
    alone = ", ".join(f"{name} {seconds * 1e6:,.1f}" for name, seconds in one.bounds.items() if not (lowers and name == "power"))
    falls = one.bound_by == "power" and one.clock < one.device.clock
    why = f", which lowers the clock from {one.device.clock / 1e9:.4g} GHz" if falls else ""
    return f"{one.bound_by}{why} (each alone, in us: {alone})"


def _waves(one: Prediction) -> str:
    """Blocks that stay have rounds of tiles where others have waves of blocks."""
    last = f"{one.last_wave:.0%}" if one.last_wave >= _SMALL else f"less than {_SMALL:.0%}"
    if one.tiles_each is not None:
        return f"tiles        {one.tiles_each:.2f} for each block" + (
            f", the last round {last} full" if one.tiles_each > 1 else ""
        )
    if one.waves <= 1:
        return f"waves        1, {last} full"
    return f"waves        {one.waves:.2f}, the last one {last} full"


def _loops(one: Prediction, said: Sequence[tuple[MainLoop, str]]) -> Iterator[str]:
    """Two lines for each; loops of which the same is to be said are named together."""
    alike: dict[tuple[str, str], list[MainLoop]] = {}
    for loop, sentence in said:
        alike.setdefault((f"{loop.period:,.0f}", sentence), []).append(loop)
    for (period, sentence), loops in alike.items():
        roles, rings = ([*dict.fromkeys(names)] for names in zip(*((one.role, one.pipeline.name) for one in loops), strict=True))
        yield f"  main loop    {listed(roles)} over {listed(rings)}: {period} cycles a stage"
        yield f"               {sentence}"


_WORDS = {
    "issue": "TMA instructions of",
    "walk": "copies into",
    "multiply": "products of",
    "work": "threads of",
    "latency": "latency of",
    "hand over": "hand-over of",
    "read": "reads of",
    "store": "stores to",
    "turns": "turns of",
}


def _in_words(share: str) -> str:
    kind, _, where = share.partition(" (")
    return f"{_WORDS.get(kind, kind)} `{where[:-1]}`" if where else kind


def _helping(others: tuple[Variation, ...], shared: Mapping[str, tuple[str, ...]]) -> list[str]:
    """Changes whose gain was confirmed, and those that promise more but have not been checked; `shared`: parameters that kernels have which
    work together, whose times change as well."""

    def told(one: Variation, gain: str) -> str:
        return f"{one.parameter}={one.value} ({', also in '.join((gain, *shared.get(one.parameter, ())))})"

    sure = [one for one in others if one.followed and one.gain >= WORTH]
    most = max((one.gain for one in sure), default=WORTH)
    maybe = [one for one in others if not one.followed and one.gain > most]
    lines = [f"  would help   {', '.join(told(one, f'{one.gain:+.0%}') for one in sure)}"] if sure else []
    if maybe:
        said = ", ".join(told(one, f"about {one.gain:+.0%}") for one in maybe[:_TOLD])
        lines.append(f"  might help   {said}; estimated, not checked")
    return lines if lines or not others else ["  would help   no parameter, changed by one step"]


_TOLD = 3
_SMALL = 0.01  # smaller shares are not shown
