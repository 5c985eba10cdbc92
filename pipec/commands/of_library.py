"""`library:gemm` in place of a file: the kernels of pipec.library as one, chosen by the given sizes."""

import argparse
import json
from collections.abc import Mapping

from pipec import library
from pipec.api.program import CompiledKernel
from pipec.commands.predictor import as_data, as_text
from pipec.diag.catalogue.commands.run import BadCall
from pipec.diag.message import Failure
from pipec.driver import Compilation
from pipec.interface import KernelInterface, TensorArgument
from pipec.predict.device import DEVICES
from pipec.predict.launch import Prediction, prediction
from pipec.predict.sensitivity import Variation, variations
from pipec.predict.sizes import sizes_of
from pipec.tune.choice import Candidate
from pipec.tune.several import Several
from pipec.tune.tuned import launchable

_KERNELS = {"library:gemm": library.gemm}
_SETTING = "dtype"


def kernel_of_library(options: argparse.Namespace, arch: str | None) -> CompiledKernel:
    """The kernel named by FILE, for a target or the first GPU here. Raises Failure for unknown names."""
    name = options.file
    _check("FILE", " or ".join(_KERNELS), name, name in _KERNELS)
    _check("--kernel", f"left out with {name}", options.kernel or "", options.kernel is None)
    for constant, _ in options.constants:
        _check("-D", f"`{_SETTING}=...` with {name}", constant, constant == _SETTING)
    return _KERNELS[name](arch, **{setting: str(value) for setting, value in options.constants})


def _check(parameter: str, expected: str, found: str, right: bool) -> None:
    if not right:
        raise Failure(BadCall(parameter=parameter, expected=expected, found=f"`{found[:40]}`"))


def predict_chosen(options: argparse.Namespace) -> int:
    """The prediction for the kernel and tile that the model chooses for the sizes, and for those that run after it. Raises Failure."""
    device = DEVICES.get(options.device)
    kernel = kernel_of_library(options, options.arch or (device.arch if device is not None else None))
    assert kernel.tuned is not None and isinstance(kernel.tuned.choices, Several)
    sizes = sizes_of(kernel.interface, dict(options.shapes))
    candidate, states = _chosen(kernel.tuned.choices, sizes)
    clock = options.clock and options.clock * 1e9
    reports = [_predicted(state, sizes, options.device, clock) for state in states]
    if options.format == "json" or options.printer.json:
        print(json.dumps({"chosen": candidate.constants, "kernels": [as_data(*report) for report in reports]}))
        return 0
    seconds = sum(found.seconds for _, found, _ in reports)
    print(f"{options.file} chooses {candidate}: {seconds * 1e6:,.1f} us")
    for report in reports:
        print(as_text(*report))
    return 0


def _chosen(several: Several, sizes: Mapping[str, int]) -> tuple[Candidate, tuple[Compilation, ...]]:
    """The first choice that can be launched with these sizes."""
    without: set[Candidate] = set()
    while True:
        candidate = several.choose(sizes, without=without)
        states = several.planned(candidate)
        if candidate == several.file or all(launchable(_interface(state), sizes) for state in states):
            return candidate, states
        without.add(candidate)


def _interface(state: Compilation) -> KernelInterface:
    assert state.plans is not None
    return state.plans[0].interface


def _predicted(
    state: Compilation, sizes: Mapping[str, int], device: str | None, clock: float | None
) -> tuple[Compilation, Prediction, tuple[Variation, ...]]:
    interface = _interface(state)
    own = {extent for one in interface.arguments if isinstance(one, TensorArgument) for extent in one.shape}
    given = {name: size for name, size in sizes.items() if name in own}
    found = prediction(state, interface.name, given, device, clock)
    return state, found, variations(state, interface.name, found)
