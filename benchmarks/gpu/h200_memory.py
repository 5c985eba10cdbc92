"""Kernels that are bound by memory, on a Hopper GPU: pipec beside torch, torch.compile and Triton.

    python benchmarks/gpu/h200_memory.py [--rounds 21] [--shapes 4096x4096,1000x1003] [--kinds bf16,f32] [--only softmax,copy]

One process for each shape and type has all contenders. The processes compile side by side and then measure one after the other: nothing
else runs on the GPU while one measures. Every contender's configurations are screened, the winners meet in shuffled rounds of their own
(pipec.tune.rounds), launches are replayed from CUDA graphs, and buffers rotate so that more than twice the L2 cache is touched before one
is used again. Every result is first compared with float64, on a poisoned output.
"""

import argparse
import fcntl
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT)]

import torch
import triton

import pipec
from benchmarks.common import surroundings
from benchmarks.gemm.gemm_method import rounded
from benchmarks.gpu import memory_triton
from pipec.runtime import LaunchOptions
from pipec.tune.rounds import Patience, Rounds, Spread, compare, screen
from pipec.tune.torch_clock import GpuClock, l2_bytes

SHAPES = ("4096x1024", "16384x2048", "4096x4096", "8192x8192", "1024x32768", "1000x1003")
KINDS = {"bf16": torch.bfloat16, "f32": torch.float32}
EPSILON, ALPHA = 1e-5, 1.5
FP8 = torch.float8_e4m3fn
WHERE = {
    "softmax": "softmax",
    "layer_norm": "layer_norm",
    "copy": "pointwise",
    "scale_add": "pointwise",
}  # example; others: rms_norm
OPERATIONS = ("copy", "scale_add", "softmax", "rms_norm", "rms_norm_residual", "rms_norm_fp8", "layer_norm")
COMPILED = ("4096x4096", "16384x2048")  # shapes at which torch.compile takes part: it compiles for seconds each
_BANDWIDTH = 4e12  # about, to say how many launches make a turn


@dataclass
class Case:
    """An operation at a shape: sets of buffers, in the order of the kernel's parameters; the first of them are inputs."""

    name: str
    shape: tuple[int, int]
    dtype: torch.dtype
    inputs: int
    sets: list[list[torch.Tensor]]

    @property
    def scalars(self) -> tuple[float, ...]:
        return () if self.name in ("copy", "softmax") else (ALPHA,) if self.name == "scale_add" else (EPSILON,)

    @property
    def bytes(self) -> int:
        return sum(tensor.nbytes for tensor in self.sets[0])


def buffers(name: str, shape: tuple[int, int], dtype: torch.dtype) -> tuple[int, list[torch.Tensor]]:
    """The number of inputs, and one set."""

    def random(*size: int) -> torch.Tensor:
        return torch.randn(size, device="cuda").to(dtype)

    rows, columns = shape
    x = random(rows, columns)
    match name:
        case "copy" | "softmax":
            return 1, [x, torch.empty_like(x)]
        case "scale_add":
            return 2, [x, random(rows, columns), torch.empty_like(x)]
        case "rms_norm":
            return 2, [x, random(columns), torch.empty_like(x)]
        case "rms_norm_residual":
            return 3, [x, random(rows, columns), random(columns), torch.empty_like(x), torch.empty_like(x)]
        case "rms_norm_fp8":
            return 2, [x, random(columns), torch.empty(shape, device="cuda", dtype=FP8), torch.empty(rows, device="cuda")]
        case _:
            return 3, [x, random(columns), random(columns), torch.empty_like(x)]


def case_of(name: str, shape: tuple[int, int], dtype: torch.dtype) -> Case:
    torch.manual_seed(0)
    inputs, first = buffers(name, shape, dtype)
    size = sum(tensor.nbytes for tensor in first)
    count = max(1, min(64, -(-2 * l2_bytes() // size)))
    return Case(name, shape, dtype, inputs, [first, *(buffers(name, shape, dtype)[1] for _ in range(count - 1))])


def wanted(name: str, tensors: list[torch.Tensor]) -> list[torch.Tensor]:
    """In float64; of `rms_norm_fp8` the normalised rows before they are rounded."""
    x, *others = (tensor.double() for tensor in tensors)

    def root(v: torch.Tensor) -> torch.Tensor:
        return torch.rsqrt((v * v).mean(1, keepdim=True) + EPSILON)

    match name:
        case "copy":
            return [x]
        case "scale_add":
            return [torch.relu(x * ALPHA + others[0])]
        case "softmax":
            return [torch.softmax(x, 1)]
        case "rms_norm" | "rms_norm_fp8":
            return [x * root(x) * others[0]]
        case "rms_norm_residual":
            h = x + others[0]
            return [h, h * root(h) * others[1]]
        case _:
            aside = x - x.mean(1, keepdim=True)
            return [aside * root(aside) * others[0] + others[1]]


def check(case: Case, launch: Callable[[list[torch.Tensor]], object]) -> float:
    """The largest relative difference in the norm; raises ValueError where it is too large, or an element was not written."""
    tensors = case.sets[0]
    outputs = tensors[case.inputs :]
    for output in outputs:
        output.view(torch.uint8).fill_(0xFF)  # NaN in every type
    given = launch(tensors)
    if isinstance(given, torch.Tensor):
        outputs = [given]
    elif isinstance(given, tuple):
        outputs = list(given)
    found = [output.double() for output in outputs]
    bound = 1e-6 if case.dtype is torch.float32 else 4e-3
    if case.name == "rms_norm_fp8":
        found, bound = [found[0] * found[1][:, None]], 4e-2
    errors = [float((a - b).norm() / b.norm()) for a, b in zip(found, wanted(case.name, tensors[: case.inputs]), strict=True)]
    if not max(errors) <= bound:
        raise ValueError(f"differs from float64 by {max(errors):.3g}")
    return max(errors)


# --------------------------------------------------------------------------------------------------------------- contenders


def eager(name: str) -> Callable[..., Any]:
    """What torch has for it, into new tensors as its users call it; but a copy into the buffers that all others write: the memory of new
    tensors is used again at once, and would still be in the L2 cache."""
    functional = torch.nn.functional

    def quantised(x: torch.Tensor, w: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        v = functional.rms_norm(x.float(), w.shape, w.float(), EPSILON)
        scale = v.abs().amax(1) / 448
        return (v / scale[:, None]).to(FP8), scale

    def residual(x: torch.Tensor, r: torch.Tensor, w: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        h = x + r
        return h, functional.rms_norm(h, w.shape, w, EPSILON)

    functions: dict[str, Callable[..., Any]] = {
        "copy": lambda x, y: y.copy_(x),
        "scale_add": lambda x, r: torch.relu(torch.add(r, x, alpha=ALPHA)),
        "softmax": lambda x: torch.softmax(x, 1),
        "rms_norm": lambda x, w: functional.rms_norm(x, w.shape, w, EPSILON),
        "rms_norm_residual": residual,
        "rms_norm_fp8": quantised,
        "layer_norm": lambda x, w, b: functional.layer_norm(x, w.shape, w, b, EPSILON),
    }
    return functions[name]


# Registers of a thread, and whether the weights are loaded with the row, by the elements of a row that a thread has.
BUDGETS: dict[int, tuple[tuple[int, bool], ...]] = {
    8: ((32, False), (40, True), (64, True), (96, True)),
    16: ((40, False), (48, True), (48, False), (64, True), (64, False), (80, True)),
    32: ((56, False), (64, True), (64, False), (80, True), (80, False), (96, True), (128, True)),
    64: ((128, True), (128, False)),
}


def ways(name: str, columns: int, kind: str) -> list[tuple[str, dict[str, Any]]]:
    """Compile-time parameters of pipec's examples: of flat arrays 1 to 4 vectors to a thread, of rows 8 to 64 elements."""
    if name in memory_triton.FLAT:
        vector = 8 if kind == "bf16" else 4
        return [
            (name, {"BN": vectors * vector * warps * 32, "WARPS": warps}) for vectors, warps in ((1, 4), (2, 4), (4, 4), (2, 8))
        ]
    tiles: list[tuple[str, dict[str, Any]]] = []
    widths = dict.fromkeys((columns, -(-columns // 8) * 8))  # odd rows also by vectors that are cut
    for elements, budgets in BUDGETS.items():
        warps = max(1, -(-columns // (32 * elements)))
        rows = max(1, 4 // warps)
        if warps > 32 or (elements == 64 and columns <= 8192):
            continue
        for registers, early in budgets:
            for width in widths:
                tile: dict[str, Any] = {"BM": rows, "BN": width, "WARPS": rows * warps, "REGISTERS": registers}
                if name != "softmax":
                    tiles.append((name, tile | {"EARLY": early}))
                elif early:
                    tiles.append((name, tile))
    if name == "softmax" and columns > 16384:
        tiles += [("softmax_long", {"BM": 1, "BN": 8192, "WARPS": warps, "REGISTERS": 64}) for warps in (8, 16)]
    return tiles


def compiled(case_name: str, columns: int, kind: str) -> dict[str, Any]:
    """pipec's kernels by name."""
    found = {}
    for kernel, constants in ways(case_name, columns, kind):
        example = ROOT / "examples" / f"{WHERE.get(case_name, 'rms_norm')}.pipe"
        words = " ".join(f"{name}={value}" for name, value in constants.items())
        try:
            program = pipec.compile(example, arch="sm_90a", kernel=kernel, constants={"T": kind, **constants})
            program.cubin()
        except pipec.CompileError as error:  # a tile that the registers do not hold
            print(f"{kernel} {words}: {str(error).strip().splitlines()[0]}", file=sys.stderr)
            continue
        found[f"pipec {kernel} {words}"] = program[kernel]
    return found


def launched(kernel: Any, case: Case, options: LaunchOptions | None = None) -> Callable[[list[torch.Tensor]], None]:
    flat = case.name in memory_triton.FLAT

    def run(tensors: list[torch.Tensor]) -> None:
        given = [tensor.view(-1) for tensor in tensors] if flat else tensors
        kernel(*given, *case.scalars, device="cuda", stream=torch.cuda.current_stream(), options=options)

    return run


def contenders(
    case: Case, kernels: dict[str, Any], with_compile: bool
) -> Iterator[tuple[str, Callable[[list[torch.Tensor]], Any]]]:
    function = eager(case.name)
    given = len(case.sets[0]) if case.name == "copy" else case.inputs
    yield "torch", lambda tensors: function(*tensors[:given])
    if with_compile:
        made = torch.compile(function, dynamic=False)
        yield "torch.compile", lambda tensors: made(*tensors[:given])
    for overlapped in (False, True):
        for block, warps in memory_triton.configurations(case.name, case.shape[1]):
            which = case.name, block, warps, overlapped
            yield (
                f"{'triton.overlapped' if overlapped else 'triton'} BLOCK={block} num_warps={warps}",
                lambda tensors, which=which: memory_triton.launch(*which, tensors, case.scalars),
            )
    for name, kernel in kernels.items():
        yield name, launched(kernel, case)


# ---------------------------------------------------------------------------------------------------------------- measuring


def measure(case: Case, kernels: dict[str, Any], with_compile: bool, rounds: int, seed: str) -> dict[str, Any]:
    clock = GpuClock(len(case.sets), case.bytes / _BANDWIDTH)
    errors: dict[str, float] = {}
    failed: dict[str, str] = {}
    for name, launch in contenders(case, kernels, with_compile):
        try:
            errors[name] = check(case, launch)
            clock.add(name, lambda index, launch=launch: launch(case.sets[index]))
        except Exception as failure:  # noqa: BLE001 - one contender that fails must not hide the others
            failed[name] = f"{type(failure).__name__}: {failure}"[:300]
    groups: dict[str, list[str]] = {}
    for name in errors:
        groups.setdefault(name.partition(" ")[0], []).append(name)
    screened, winners = {}, {}
    for group, names in groups.items():
        found = screen(names, clock, Patience(most=5), f"{seed} {group}")
        winners[group] = found.best
        screened[group] = {name: rounded(found.rounds.time(name).median * 1e6) for name in found.ranking}
        clock.forget([name for name in names if name != found.best])
    if "pipec" in winners:  # the same, launches one after the other
        winners["pipec.serial"] = name = f"{winners['pipec']} serial"
        one = launched(kernels[winners["pipec"]], case, LaunchOptions(programmatic=False))
        errors[name] = check(case, one)
        clock.add(name, lambda index: one(case.sets[index]))
    done = compare(list(winners.values()), clock, rounds, f"{seed} final")
    columns = {group: column(case, name, done, winners, errors[name]) for group, name in winners.items()}
    return {"bytes": case.bytes, "buffer_sets": len(case.sets), "columns": columns, "screened": screened, "failed": failed}


def column(case: Case, name: str, done: Rounds, winners: dict[str, str], error: float) -> dict[str, Any]:
    time = done.time(name)
    ratios = {group: spread(done.ratio(name, other)) for group, other in winners.items() if other != name}
    microseconds = spread(Spread.of(one * 1e6 for one in done.times(name)))
    speed = rounded(case.bytes / time.median / 1e9)
    return {"name": name, "microseconds": microseconds, "gigabytes_per_second": speed, "to": ratios, "difference": rounded(error)}


def spread(found: Spread) -> dict[str, float]:
    return {name: rounded(value) for name, value in asdict(found).items() if name in ("median", "low", "high")}


@contextmanager
def alone(lock: str) -> Iterator[None]:
    with Path(lock).open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def of_shape(shape: str, kind: str, options: argparse.Namespace) -> dict[str, Any]:
    """Compiles, then measures when its turn has come."""
    rows, columns = map(int, shape.split("x"))
    only = options.only.split(",")
    kernels = {name: compiled(name, columns, kind) for name in only}
    for name in only:
        _, tensors = buffers(name, (2, columns), KINDS[kind])
        scalars = Case(name, (2, columns), KINDS[kind], 0, []).scalars
        for block, warps in memory_triton.configurations(name, columns):
            for overlapped in (False, True):
                memory_triton.prepare(name, block, warps, overlapped, tensors, scalars)
    figures = {}
    with alone(options.lock):
        for name in only:
            case = case_of(name, (rows, columns), KINDS[kind])
            with_compile = options.compile and shape in COMPILED
            figures[f"{name} {shape} {kind}"] = measure(
                case, kernels[name], with_compile, options.rounds, f"{name} {shape} {kind}"
            )
            del case
            torch.cuda.empty_cache()
    return figures


def parser() -> argparse.ArgumentParser:
    made = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    made.add_argument("--shapes", default=",".join(SHAPES))
    made.add_argument("--kinds", default=",".join(KINDS))
    made.add_argument("--only", default=",".join(OPERATIONS))
    made.add_argument("--rounds", type=int, default=21)
    made.add_argument("--compile", action=argparse.BooleanOptionalAction, default=True)
    made.add_argument("--name", default="h200_memory")
    made.add_argument("--one", default="", help="a shape and a type, for a process of its own")
    made.add_argument("--lock", default=str(Path(tempfile.gettempdir()) / "h200_memory.lock"))
    return made


def driver() -> str:
    command = ["nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader"]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()[0]


def main() -> None:
    options = parser().parse_args()
    if options.one:
        shape, kind = options.one.split(":")
        print(json.dumps(of_shape(shape, kind, options)))
        return
    parts = [f"{shape}:{kind}" for shape in options.shapes.split(",") for kind in options.kinds.split(",")]
    command = [sys.executable, __file__, *sys.argv[1:], "--one"]
    environment = os.environ | {"OMP_NUM_THREADS": "2"}
    running = [subprocess.Popen([*command, part], stdout=subprocess.PIPE, text=True, env=environment) for part in parts]
    figures: dict[str, Any] = {}
    unfinished = []
    for part, process in zip(parts, running, strict=True):
        output, _ = process.communicate()
        if process.returncode:
            unfinished.append(part)
            continue
        figures |= json.loads(output.strip().splitlines()[-1])
    versions = {"gpu": torch.cuda.get_device_name(0), "torch": torch.__version__, "triton": triton.__version__}
    record = surroundings() | versions | {"rounds": options.rounds, "driver": driver()}
    runs = [{"date": record["date"], "operations": options.only.split(",")}]
    record |= {"runs": runs, "unfinished": unfinished, "figures": figures}
    target = ROOT / "benchmarks" / "results" / f"{options.name}.json"
    target.write_text(json.dumps(record, indent=1) + "\n")
    for name, row in figures.items():
        cells = (f"{group} {one['gigabytes_per_second']:.0f}" for group, one in row["columns"].items())
        ours = row["columns"].get("pipec", {"to": {}, "name": "none"})
        ratios = " ".join(f"{group} {ratio['median']:.3f}" for group, ratio in ours["to"].items())
        print(f"{name:34} {'  '.join(cells):70} | {ratios} | {ours['name']} {' '.join(row['failed'].values())[:200]}")
    print(f"written to {target.relative_to(ROOT)}; unfinished: {unfinished}")


if __name__ == "__main__":
    main()
