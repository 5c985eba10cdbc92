"""Random kernels in bundles, called from C beside a stand-in for libcuda: what is launched, with which grid and parameters, or refused, is
what whole numbers say that nothing of pipec computes."""

import atexit
import random
import struct
import tempfile
from pathlib import Path
from unittest.mock import patch

from bundle.c_bundle import CBundle, FakeCuda, layouts, missing, request, stand_in, unassembled
from fuzz.bundle_kernels import MULTIPROCESSORS, Kernel, draw, values

from pipec.bundle.build import build
from pipec.driver import Options, compile_source
from pipec.interface import DimensionParameter, KernelInterface, ScalarParameter
from pipec.source import Source

COUNT = 60
KERNELS, CALLS = 5, 40
_REFUSED = {"E0293", "E0274", "E0238"}  # conditions that contradict each other, grids of no block or of too many
_FOLDER = tempfile.TemporaryDirectory(prefix="pipec-bundles-")
atexit.register(_FOLDER.cleanup)


def attempt(chance: random.Random) -> str | None:
    if missing():
        return None
    kernels: list[Kernel] = []
    while len(kernels) < KERNELS:
        kernel = draw(chance, f"k{len(kernels)}")
        state = compile_source(Source("k.pipe", kernel.source()), Options("sm_90a"))
        if not state.failed:
            kernels.append(kernel)
        elif not {one.code for one in state.diagnostics} <= _REFUSED:
            return f"# {[one.title for one in state.diagnostics]}\n{kernel.source()}"
    return judged(kernels, chance, stand_in())


def judged(kernels: list[Kernel], chance: random.Random, cuda: FakeCuda) -> str | None:
    text = "\n".join(kernel.source() for kernel in kernels)
    with patch("pipec.bundle.build.assemble", unassembled):
        built = build(Source("made.pipe", text), "made", request(targets=("sm_90a",)))
    bundle = CBundle(built, Path(tempfile.mkdtemp(dir=_FOLDER.name)), cuda)
    cuda.reset(multiprocessors=MULTIPROCESSORS)
    if bundle.open():
        return f"# {bundle.message}\n{text}"
    try:
        found = (
            _called(bundle, kernel, row.interface, values(chance))
            for kernel, row in zip(kernels, bundle.manifest.kernels, strict=True)
            for _ in range(CALLS)
        )
        return next((wrong for wrong in found if wrong), None)
    finally:
        bundle.close()


def _called(bundle: CBundle, kernel: Kernel, interface: KernelInterface, given: dict[str, int]) -> str | None:
    first, second = layouts(interface, given)
    bundle.cuda.reset(multiprocessors=MULTIPROCESSORS)
    status = bundle.launch(interface, [first, given["s"], second, 1.5])
    calls = bundle.cuda.calls("cuLaunchKernelEx")
    grid = tuple(map(int, calls[0]["grid"].split(","))) if calls else None
    wanted = kernel.expected(given)
    if grid != wanted:
        return f"# {given}: {grid} instead of {wanted}; {status} {bundle.message}\n{kernel.source()}"
    for number, parameter in enumerate(interface.parameters if calls else ()):
        bytes_ = calls[0][f"parameter{number}"]
        match parameter:
            case DimensionParameter(dimension=name) | ScalarParameter(scalar=name):
                packed = struct.pack("<f", 1.5) if name == "scale" else struct.pack("<i", given[name])
                if bytes_ != packed.hex():
                    return f"# {given}: {name} is {bytes_}\n{kernel.source()}"
    return None
