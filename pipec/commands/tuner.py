"""`pipec tune`: the candidates of a kernel measured, or ranked by the model, with the reasons against the others."""

import argparse
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from pipec.api.files import write_output
from pipec.api.program import CompiledKernel
from pipec.diag.catalogue.language import tuning as messages
from pipec.diag.message import Failure
from pipec.predict.sizes import sizes_of
from pipec.tune.choice import Offer
from pipec.tune.devices import gpu_for
from pipec.tune.measure import NothingRuns, Outcome, best
from pipec.tune.store import read_table
from pipec.tune.table import merged, rendered

_SHOWN = 8  # candidates that are listed
_CHECKED = 64  # candidates for which the objections of the checks are listed


def tune(given: Sequence[CompiledKernel], options: argparse.Namespace) -> int:
    """Tunes every kernel that has candidates. Raises Failure."""
    kernels = [kernel for kernel in given if kernel.tuned is not None]
    if not kernels:
        raise Failure(messages.NoTuning(kernel=", ".join(kernel.name for kernel in given)))
    for kernel in kernels:
        assert kernel.tuned is not None
        sizes = sizes_of(kernel.interface, dict(options.shapes))
        missing = _cannot_measure(kernel.arch)
        if options.device == "cuda" and missing is not None:
            raise Failure(messages.CannotMeasure(problem=missing))
        if options.device == "model" or missing is not None:
            _ranked(kernel, kernel.tuned.choices, sizes, options)
        else:
            _measured(kernel, sizes, options)
    return 0


def _cannot_measure(arch: str) -> str | None:
    """Why nothing can be measured here; None if it can."""
    if gpu_for(arch, (), "cuda") is None:
        return f"no GPU here runs code for {arch}"
    try:
        import torch
    except ImportError as missing:
        return str(missing)
    return None if torch.cuda.is_available() else "torch finds no GPU"


def _ranked(kernel: CompiledKernel, choices: Offer, sizes: Mapping[str, int], options: argparse.Namespace) -> None:
    printer = options.printer
    ranked = choices.ranked(sizes)
    chosen = choices.choose(sizes)
    # Of many candidates only the best are checked, which are the ones shown.
    looked_at = choices.candidates if len(choices.candidates) <= _CHECKED else [one.candidate for one in ranked[: 2 * _SHOWN]]
    refused = [(one, reasons) for one in looked_at if (reasons := choices.refusal(one))]
    gone = {one for one, _ in refused}
    _head(kernel, sizes, printer, "ranked by the model, nothing measured", len(choices.candidates), len(gone))
    for one in [one for one in ranked if one.candidate not in gone][:_SHOWN]:
        mark = "chosen" if one.candidate == chosen else "in the file" if one.candidate == choices.file else ""
        printer.text(f"  {one.prediction.seconds * 1e6:9.1f} us  {one.candidate!s:44} {one.prediction.bound:16} {mark}".rstrip())
    for candidate, reasons in refused:
        printer.text(f"  dropped       {candidate!s:44} {reasons[0].code} {reasons[0].title}")
        printer.row("dropped", kernel=kernel.name, values=candidate.constants, code=reasons[0].code, reason=reasons[0].title)
    for one in ranked:
        if one.candidate not in gone:
            found = one.prediction
            figures = {"microseconds": found.seconds * 1e6, "bound": found.bound}
            printer.row("candidate", kernel=kernel.name, values=one.candidate.constants, **figures)
    printer.text(f"  chosen        {chosen}")
    printer.row("chosen", kernel=kernel.name, sizes=sizes, values=chosen.constants, measured=False)


def _measured(kernel: CompiledKernel, sizes: Mapping[str, int], options: argparse.Namespace) -> None:
    from pipec.tune.gpu import TorchBench, random_tensors

    assert kernel.tuned is not None
    options.guard.lift()
    arguments = random_tensors(kernel.interface, sizes, options.seed)
    try:
        outcome = best(kernel.tuned.choices, sizes, TorchBench(kernel.tuned.of, arguments), seed=options.seed)
    except NothingRuns as failure:
        raise Failure(messages.CannotMeasure(problem=str(failure))) from None
    row = outcome.row(kernel.tuned.label)
    kernel.tuned.remember(row)
    if options.output is not None:
        path = Path(options.output)
        write_output(options.output, rendered(merged(read_table(path) if path.exists() else [], [row])))
    tell(kernel, outcome, options.printer)


def tell(kernel: CompiledKernel, outcome: Outcome, printer: Any) -> None:
    """Prints measurements as `pipec tune` does."""
    every = len(outcome.ranking) + len(outcome.dropped)
    _head(kernel, outcome.sizes, printer, f"measured on {outcome.device}", every, len(outcome.dropped))
    for candidate, seconds in outcome.ranking[:_SHOWN]:
        mark = "fastest" if candidate == outcome.winner else "in the file" if candidate == outcome.file else ""
        printer.text(f"  {seconds * 1e6:9.1f} us  {candidate!s:44} {mark}".rstrip())
    for candidate, seconds in outcome.ranking:
        printer.row("candidate", kernel=kernel.name, values=candidate.constants, microseconds=seconds * 1e6)
    for candidate, reason in outcome.dropped:
        printer.text(f"  dropped       {candidate!s:44} {reason}")
        printer.row("dropped", kernel=kernel.name, values=candidate.constants, reason=reason)
    ratio = outcome.ratio
    printer.text(
        f"  chosen        {outcome.winner}: {ratio.median:.3f} times as fast as the file's ({ratio.low:.3f} to {ratio.high:.3f})"
    )
    printer.row(
        "chosen", kernel=kernel.name, sizes=outcome.sizes, values=outcome.winner.constants, measured=True, ratio=ratio.median
    )


def _head(kernel: CompiledKernel, sizes: Mapping[str, int], printer: Any, how: str, every: int, dropped: int) -> None:
    shown = " ".join(f"{name}={size}" for name, size in sizes.items())
    # The label of a choice among several is its own, not that of its first kernel.
    name = kernel.name if kernel.tuned is None else kernel.tuned.label.partition("[")[0]
    printer.text(f"{name} for {shown}: {every} candidates, {dropped} dropped; {how}")
