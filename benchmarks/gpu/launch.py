"""What a launch costs the host, after the first: pipec beside Triton, torch and the driver itself, in one process on a Hopper GPU.

    python benchmarks/gpu/launch.py [--rounds 25] [--calls 400] [--launches 100000] [--name launch]

Each contender is called with the same tensors again and again, with an output of its own each time, with fresh tensors throughout, and with
tensors of four shapes in turn; all are made beforehand, so that their making is not counted, except for operators that return a new tensor.
A figure is microseconds of the host per call: the median over rounds of the mean over calls, with an interval; each round takes all
contenders in an order drawn for it, and the GPU is waited for between turns, so its queue never fills. The kernels do next to nothing: one
block that moves a tile. launch_checks.py follows. Prints the record as JSON and writes it to benchmarks/results; the exit status is 1 if a
check fails.
"""

import argparse
import json
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import torch

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT)]

import pipec
from benchmarks.common import RESULTS, surroundings
from benchmarks.gpu import launch_checks
from pipec.tune.rounds import Rounds, compare

DEVICE = "cuda"
POOL = 512  # sets of tensors
KERNELS = """
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

kernel add_scaled(x: tensor[f32, M, N], y: tensor[f32, M, N], z: tensor[f32, M, N], p: f32, q: f32, r: f32):
    grid(1)
    loaded = InputTilePipeline(TilePayload(x=tile[f32, 128, 16], y=tile[f32, 128, 16]), stages=1)
    role load(warps=1) produces loaded:
        with loaded.produce() as s:
            tma.load(s.x, x[0, 0])
            tma.load(s.y, y[0, 0])
    role compute(warps=4) consumes loaded:
        with loaded.consume() as s:
            store.direct(z[0, 0], s.x * p + s.y * q + r)
"""

Tensors = tuple[torch.Tensor, torch.Tensor, torch.Tensor]
Launch = Callable[[torch.Tensor, torch.Tensor, torch.Tensor], object]


def pool(*shapes: tuple[int, int]) -> list[Tensors]:
    """Sets of tensors x, y and z, all alive, so that no address comes twice; the shapes take turns."""
    return [
        (torch.randn(shape, device=DEVICE), torch.randn(shape, device=DEVICE), torch.empty(shape, device=DEVICE))
        for shape in (shapes[at % len(shapes)] for at in range(POOL))
    ]


# ------------------------------------------------------------------------------------------------------------- contenders


def contenders(program: pipec.Program) -> dict[str, Launch]:
    """What each is called with three tensors."""
    add, add_scaled = program["add"], program["add_scaled"]
    stream = torch.cuda.current_stream()
    return {
        "pipec, three tensor maps": add,
        "pipec, three tensor maps, stream given": lambda x, y, z: add(x, y, z, stream=stream),
        "pipec, three tensor maps, by name": lambda x, y, z: add(x=x, y=y, z=z),
        "pipec, two tensor maps, six arguments": lambda x, y, z: add_scaled(x, y, z, 1.0, 1.0, 0.0),
        "torch.add(out=)": lambda x, y, z: torch.add(x, y, out=z),
    } | tritons()


def tritons() -> dict[str, Launch]:
    try:
        from benchmarks.gpu.launch_triton import add, add_described, described
    except ImportError as missing:
        print(f"no Triton here: {missing}", file=sys.stderr)
        return {}
    return {
        "Triton, three pointers": lambda x, y, z: add[(1,)](x, y, z, 2048, BLOCK=2048),
        "Triton, three tensor descriptors": lambda x, y, z: add_described[(1,)](*described(x, y, z), BM=128, BN=16),
    }


def usable(launches: dict[str, Launch], tensors: Tensors) -> dict[str, Launch]:
    """Without what this version of a library does not do."""
    found = dict(launches)
    for name, launch in launches.items():
        try:
            launch(*tensors)
        except Exception as failure:
            if name.startswith("pipec"):
                raise
            print(f"{name}: {type(failure).__name__}: {failure}", file=sys.stderr)
            del found[name]
    return found


def right(launch: Launch, tensors: Tensors) -> bool:
    x, y, z = tensors
    z.fill_(float("nan"))
    launch(x, y, z)
    torch.cuda.synchronize()
    return bool(torch.equal(z, x + y))


def works(launches: dict[str, Launch], sets: Sequence[Tensors]) -> dict[str, Callable[[int], object]]:
    """Each contender with each kind of tensors; the number is that of the call."""
    x, y, z = sets[0]
    varied = pool((128, 16), (256, 16), (128, 32), (384, 16))  # as the layers of a model take turns
    found: dict[str, Callable[[int], object]] = {}
    for name, launch in launches.items():
        found[f"{name}; same tensors"] = lambda at, launch=launch: launch(x, y, z)  # type: ignore[misc]
        found[f"{name}; fresh output"] = lambda at, launch=launch: launch(x, y, sets[at % POOL][2])  # type: ignore[misc]
        found[f"{name}; fresh tensors"] = lambda at, launch=launch: launch(*sets[at % POOL])  # type: ignore[misc]
        found[f"{name}; shapes in turn"] = lambda at, launch=launch: launch(*varied[at % POOL])  # type: ignore[misc]
    if (name := "Triton, three tensor descriptors") in launches:
        from benchmarks.gpu.launch_triton import add_described, described

        made = [described(*tensors) for tensors in sets]
        found[f"{name} made before; same tensors"] = lambda at: add_described[(1,)](*made[0], BM=128, BN=16)
        found[f"{name} made before; fresh tensors"] = lambda at: add_described[(1,)](*made[at % POOL], BM=128, BN=16)
    for name in ("pipec, three tensor maps", "Triton, three pointers", "torch.add(out=)"):
        if name in launches:
            found[f"{name}; torch.empty_like in front"] = lambda at, launch=launches[name]: launch(x, y, torch.empty_like(z))  # type: ignore[misc]
    return found


def operators(kernel: Any, sets: Sequence[Tensors]) -> dict[str, Callable[[int], object]]:
    """Operators that return a new tensor."""
    from pipec.torch import op

    x, y, _ = sets[0]
    add = op(kernel, name="launch_add")
    return {"an operator of pipec.torch": lambda at: add(x, y), "torch.add": lambda at: torch.add(x, y)}


def parts(kernel: Any, sets: Sequence[Tensors]) -> dict[str, Callable[[int], object]]:
    """What a launch of pipec with fresh tensors is made of, each alone."""
    from pipec.runtime.arguments.recognition import recogniser
    from pipec.runtime.gpu.cuda_driver import load

    recognise = recogniser(sets[0])
    assert recognise is not None, "this torch does not recognise tensors as a whole"
    launcher = kernel._launcher
    kernel(*sets[0])
    known = next(iter(launcher._known.values())).prepared
    plan, loaded, driver = known.plan, known.kernel, load()
    frame = loaded._frame(plan.programmatic)
    addresses = [launcher._read(tensors)[1] for tensors in sets]
    frame.fill(plan, addresses[0], ())
    return {
        "part: reading the arguments": lambda at: launcher._read(sets[at % POOL]),
        "part: recognising the arguments": lambda at: recognise(*sets[at % POOL]),
        "part: whether outputs overlap": lambda at: plan.separate(addresses[at % POOL]),
        "part: filling the parameters, fresh": lambda at: frame.fill(plan, addresses[at % POOL], ()),
        "part: filling the parameters, same": lambda at: frame.fill(plan, addresses[0], ()),
        "part: torch's current stream": lambda at: plan.current_stream(),
        "part: the current context": lambda at: driver.is_current("add", loaded.device.index),
        "part: the driver's launch": lambda at: driver.api.cuLaunchKernelEx(frame.config, loaded.function, frame.pointers, 0),
        "part: Launcher without CompiledKernel": lambda at: launcher(sets[at % POOL]),
    }


# ------------------------------------------------------------------------------------------------------------ measurement


def seconds(work: Callable[[int], object], calls: int) -> float:
    """Of the host, per call."""
    torch.cuda.synchronize()
    started = time.perf_counter()
    for at in range(calls):
        work(at)
    taken = time.perf_counter() - started
    torch.cuda.synchronize()
    return taken / calls


def measure(rounds: int, calls: int, seed: int) -> tuple[Rounds, dict[str, bool]]:
    sets = pool((128, 16))
    launches = usable(contenders(pipec.compile(KERNELS, arch="sm_90a")), sets[1])
    results = {f"{name}: results": right(launch, sets[1]) for name, launch in launches.items()}
    alone = pipec.compile(KERNELS, arch="sm_90a")["add"]
    chosen = works(launches, sets) | parts(alone, sets) | operators(alone, sets)
    for work in chosen.values():
        seconds(work, calls)

    def clock(names: Sequence[str]) -> list[float]:
        return [seconds(chosen[name], calls) for name in names]

    return compare(tuple(chosen), clock, rounds, seed), results


def table(measured: Rounds) -> Iterator[tuple[str, dict[str, float]]]:
    for name in sorted(measured.orders[0]):
        spread = measured.time(name)
        yield name, {key: round(getattr(spread, key) * 1e6, 2) for key in ("median", "low", "high", "least", "most")}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=25)
    parser.add_argument("--calls", type=int, default=400)
    parser.add_argument("--launches", type=int, default=100_000, help="of the check that nothing grows")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--name", default="launch", help="of the file in benchmarks/results")
    options = parser.parse_args()
    measured, results = measure(options.rounds, options.calls, options.seed)
    figures = dict(table(measured))
    for name, row in figures.items():
        print(f"{name:72} {row['median']:6.2f} us   ({row['low']:.2f} to {row['high']:.2f})", file=sys.stderr)
    checks = launch_checks.run(pipec.compile(KERNELS, arch="sm_90a"), options.launches)
    gpu = {"gpu": torch.cuda.get_device_name(0), "torch": torch.__version__, "triton": _triton()}
    method = {"rounds": options.rounds, "calls": options.calls, "seed": options.seed}
    record = surroundings() | gpu | {"method": method, "microseconds": figures, "right": results, "checks": checks}
    RESULTS.mkdir(parents=True, exist_ok=True)
    text = json.dumps(record, indent=2)
    (RESULTS / f"{options.name}.json").write_text(text + "\n")
    print(text)
    sys.exit(0 if all(results.values()) and all(check["passed"] for check in checks.values()) else 1)


def _triton() -> str | None:
    try:
        import triton
    except ImportError:
        return None
    return str(triton.__version__)


if __name__ == "__main__":
    main()
