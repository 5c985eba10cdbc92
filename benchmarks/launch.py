"""What a launch costs the host, after the first: pipec beside Triton, torch and the driver itself, in one process on a Hopper GPU.

    python benchmarks/launch.py [--rounds 15] [--calls 400] [--before CHECKOUT] [--name launch]

A figure is microseconds per call of the host, the median over rounds of the mean over calls; the GPU is waited for between rounds, so its
queue never fills. The kernels do next to nothing: one block that moves a tile. `--before` runs the same on another checkout of pipec
first, in a process of its own, and records both.
"""

import argparse
import ctypes
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

HERE = Path(__file__).resolve().parent
sys.path[:0] = [] if os.environ.get("PIPEC_BENCHMARK_OTHER") else [str(HERE.parent)]
sys.path[:0] = [str(HERE)]

from common import RESULTS, surroundings

import pipec

KERNEL = """
kernel add(x: tensor[f32, M, N], y: tensor[f32, M, N], z: tensor[f32, M, N]):
    grid(1)
    loaded = InputTilePipeline(TilePayload(x=tile[f32, 128, 16], y=tile[f32, 128, 16]), stages=1)
    role load(warps=1) produces loaded:
        with loaded.produce() as s:
            tma.load(s.x, x[0, 0])
            tma.load(s.y, y[0, 0])
    role compute(warps=4) consumes loaded:
        with loaded.consume() as s:
            store(z[0, 0], s.x + s.y)
"""


def tensors() -> tuple[torch.Tensor, ...]:
    x, y = (torch.randn(128, 16, device="cuda") for _ in range(2))
    return x, y, torch.empty_like(x)


# ------------------------------------------------------------------------------------------------------------- contenders


def contenders() -> dict[str, Callable[[], object]]:
    x, y, z = tensors()
    kernel = pipec.compile(KERNEL, arch="sm_90a")["add"]
    stream = torch.cuda.current_stream()
    found: dict[str, Callable[[], object]] = {
        "pipec, three tensor maps": lambda: kernel(x, y, z),
        "pipec, three tensor maps, stream given": lambda: kernel(x, y, z, stream=stream),
        "pipec, arguments by name": lambda: kernel(x=x, y=y, z=z),
        "torch.add(out=)": lambda: torch.add(x, y, out=z),
    }
    kernel(x, y, z)
    torch.cuda.synchronize()
    assert torch.equal(z, x + y)
    return found | tritons(x, y, z) | parts(kernel, (x, y, z))


def tritons(x: torch.Tensor, y: torch.Tensor, z: torch.Tensor) -> dict[str, Callable[[], object]]:
    try:
        from launch_triton import add, add_described, described
    except ImportError as missing:
        print(f"no Triton here: {missing}", file=sys.stderr)
        return {}
    found: dict[str, Callable[[], object]] = {"Triton, three pointers": lambda: add[(1,)](x, y, z, 2048, BLOCK=2048)}
    add[(1,)](x, y, z, 2048, BLOCK=2048)
    torch.cuda.synchronize()
    assert torch.equal(z, x + y)
    try:
        maps = described(x, y, z)
        add_described[(1,)](*maps, BM=128, BN=16)
        torch.cuda.synchronize()
        assert torch.equal(z, x + y)
        found["Triton, three tensor descriptors"] = lambda: add_described[(1,)](*maps, BM=128, BN=16)
    except Exception as failure:  # noqa: BLE001 - a form that this version of Triton does not take
        print(f"Triton's descriptors: {type(failure).__name__}: {failure}", file=sys.stderr)
    try:
        handle = add[(1,)](x, y, z, 2048, BLOCK=2048)[(1, 1, 1)]
        handle(x, y, z, 2048, 2048)
        torch.cuda.synchronize()
        found["Triton, compiled handle, three pointers"] = lambda: handle(x, y, z, 2048, 2048)
    except Exception as failure:  # noqa: BLE001
        print(f"Triton's handle: {type(failure).__name__}: {failure}", file=sys.stderr)
    return found


def parts(kernel: Any, arrays: tuple[torch.Tensor, ...]) -> dict[str, Callable[[], object]]:
    """What a repeated launch of pipec is made of, each alone."""
    from pipec.runtime import launcher as module
    from pipec.runtime.cuda_driver import load

    launcher = kernel._launcher
    remembered = getattr(launcher, "_remembered", None)
    if not remembered:
        return {}
    options = module.LaunchOptions()
    _, prepared, _ = next(iter(remembered.values()))
    driver = load()
    past = through_ctypes(prepared)
    return {
        "part: recognising the arguments": lambda: module._signature(arrays, "auto", options),
        "part: torch's current stream": prepared.current_stream,
        "part: the current context": lambda: driver.is_current("add", 0),
        "part: the driver's launch": prepared.start,
        "part: Launcher without CompiledKernel": lambda: launcher(arrays),
        "not taken: the current context through ctypes": past["cuCtxGetCurrent"],
        "not taken: the driver's launch through ctypes": past["cuLaunchKernelEx"],
    }


def through_ctypes(prepared: Any) -> dict[str, Callable[[], object]]:
    """The two driver calls of a repeated launch, past cuda.bindings."""
    library = ctypes.CDLL("libcuda.so.1")
    config, function, address, _ = prepared.start.args
    pointers = [ctypes.c_void_p(value) for value in (int(config.getPtr()), int(function), address, None)]

    def context() -> int | None:
        found = ctypes.c_void_p()
        library.cuCtxGetCurrent(ctypes.byref(found))
        return found.value

    return {"cuCtxGetCurrent": context, "cuLaunchKernelEx": lambda: library.cuLaunchKernelEx(*pointers)}


# ------------------------------------------------------------------------------------------------------------ measurement


def microseconds(work: Callable[[], object], calls: int) -> float:
    """Of the host, per call."""
    torch.cuda.synchronize()
    started = time.perf_counter()
    for _ in range(calls):
        work()
    taken = time.perf_counter() - started
    torch.cuda.synchronize()
    return taken / calls * 1e6


def measure(rounds: int, calls: int) -> dict[str, dict[str, float]]:
    """Contenders take turns, so that all see the same machine."""
    chosen = contenders()
    times: dict[str, list[float]] = {name: [] for name in chosen}
    for work in chosen.values():
        microseconds(work, calls)
    for _ in range(rounds):
        for name, work in chosen.items():
            times[name].append(microseconds(work, calls))
    return {
        name: {"median": round(statistics.median(taken), 2), "least": round(min(taken), 2), "most": round(max(taken), 2)}
        for name, taken in times.items()
    }


def before(checkout: str, rounds: int, calls: int) -> dict[str, Any]:
    """The figures of another checkout."""
    environment = os.environ | {
        "PIPEC_BENCHMARK_OTHER": "1",
        "PYTHONPATH": os.pathsep.join([checkout, os.environ.get("PYTHONPATH", "")]),
    }
    command = [sys.executable, __file__, "--rounds", str(rounds), "--calls", str(calls), "--print"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    print(done.stderr, file=sys.stderr, end="")
    return json.loads(done.stdout.splitlines()[-1])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--calls", type=int, default=400)
    parser.add_argument("--before", help="another checkout of pipec, measured first")
    parser.add_argument("--name", default="launch")
    parser.add_argument("--print", action="store_true", help="print the figures as JSON and write nothing")
    options = parser.parse_args()
    earlier = before(options.before, options.rounds, options.calls) if options.before else None
    figures = measure(options.rounds, options.calls)
    if options.print:
        print(json.dumps(figures))
        return
    for name, row in figures.items():
        was = f"   before {earlier[name]['median']:6.2f}" if earlier and name in earlier else ""
        print(f"{name:52} {row['median']:6.2f} us   ({row['least']:.2f} to {row['most']:.2f}){was}")
    import triton

    gpu = {"gpu": torch.cuda.get_device_name(0), "torch": torch.__version__, "triton": triton.__version__}
    record = surroundings() | gpu | {"microseconds": figures} | ({"before": earlier} if earlier else {})
    RESULTS.mkdir(parents=True, exist_ok=True)
    (RESULTS / f"{options.name}.json").write_text(json.dumps(record, indent=2) + "\n")


if __name__ == "__main__":
    main()
