"""How much faster the simulator is than an earlier version of it: the same launches, in turns, in processor time.

git worktree add ../before COMMIT && python benchmarks/simulator/sim_versions.py ../before

Each version has a process of its own that imports it, and simulates what this process has compiled with this version: kernels of Triton
and of the examples. The first round makes machine code, or finds it in the cache, and is told apart. Results must have the same bytes.
"""

import argparse
import hashlib
import pickle
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT)]

from benchmarks.common import write

ROUNDS = 7
RNG = np.random.default_rng(0)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("before", type=Path, help="a checkout of the earlier version")
    parser.add_argument("--serve", type=Path, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.serve is not None:
        serve(given.before, given.serve)
        return
    with tempfile.TemporaryDirectory() as folder:
        names = list(recorded(Path(folder)))
        versions = {"before": worker(given.before, Path(folder)), "now": worker(ROOT, Path(folder))}
        figures = {name: compare(name, versions) for name in names}
        for process in versions.values():
            process.communicate()
    write("sim_versions", {"before": commit_of(given.before), "rounds": ROUNDS, "seconds": figures})


def commit_of(root: Path) -> str:
    return subprocess.run(
        ["git", "-C", root, "rev-parse", "--short", "HEAD"], capture_output=True, text=True, check=True
    ).stdout.strip()


def compare(name: str, versions: dict[str, subprocess.Popen[str]]) -> dict[str, float]:
    taken: dict[str, list[float]] = {version: [] for version in versions}
    for _ in range(ROUNDS + 1):
        results = {version: asked(process, name) for version, process in versions.items()}
        if len({digest for _, digest in results.values()}) != 1:
            raise SystemExit(f"{name}: the versions compute different results")
        for version, (seconds, _) in results.items():
            taken[version].append(seconds)
    first = {f"first {version}": seconds[0] for version, seconds in taken.items()}
    median = {version: statistics.median(seconds[1:]) for version, seconds in taken.items()}
    row = median | first | {"times as fast": median["before"] / median["now"]}
    print(name, {key: round(value, 3) for key, value in row.items()}, flush=True)
    return row


# ---- what is launched


def recorded(folder: Path) -> Iterator[str]:
    """Files of launches, by name."""
    sys.path[:0] = [str(ROOT), str(ROOT / "tests")]
    from pipec import sim

    real, kept = sim.launch, list[Any]()

    def record(ptx: str, kernel: str | None = None, **given: Any) -> Any:
        given.pop("options", None)
        kept.append(pickle.dumps((ptx, kernel, given)))
        return real(ptx, kernel, **given)

    for name, run in {**examples(), **triton_kernels()}.items():
        modules = [module for key, module in list(sys.modules.items()) if key.startswith("pipec")]
        places = [(module, key) for module in modules for key, value in vars(module).items() if value is real]
        for module, key in places:
            setattr(module, key, record)
        try:
            run()
        finally:
            for module, key in places:
                setattr(module, key, real)
        (folder / name).write_bytes(kept.pop())
        yield name


def normal(*shape: int, dtype: Any = np.float32) -> np.ndarray:
    return RNG.standard_normal(shape).astype(dtype)


def examples() -> dict[str, Callable[[], object]]:
    import pipec
    from pipec.runtime import LaunchOptions
    from pipec.sim import Options

    quiet = LaunchOptions(simulation=Options(trace=False))
    bf16 = ml_dtypes.bfloat16

    def gemm(size: int, name: str = "gemm") -> Callable[[], object]:
        kernel = pipec.compile(ROOT / "examples" / f"{name}.pipe")[name]
        a, b = (normal(size, size, dtype=bf16) for _ in range(2))
        return lambda: kernel(a, b, np.zeros((size, size), bf16), device="sim", options=quiet)

    def attention() -> object:
        kernel = pipec.compile(ROOT / "examples" / "attention.pipe", constants={"CAUSAL": "true"})["attention"]
        q, k, v = (normal(1, 256, 64, dtype=bf16) for _ in range(3))
        ones = np.ones(1, np.int32)  # the lengths of sequences, which only RAGGED reads
        # Earlier versions of the example left no sums.
        sums = [np.zeros((1, 256), np.float32)] if any(one.name == "lse" for one in kernel.interface.arguments) else []
        return kernel(q, k, v, ones, np.zeros((1, 256, 64), bf16), *sums, 0.125, device="sim", options=quiet)

    def attention_on_hopper() -> object:
        kernel = pipec.compile(ROOT / "examples" / "attention_sm90.pipe", constants={"CAUSAL": "true"})["attention_sm90"]
        q, k, v = (normal(1, 256, 64, dtype=bf16) for _ in range(3))
        return kernel(q, k, v, np.zeros((1, 256, 64), bf16), 0.125, device="sim", options=quiet)

    return {
        **{f"gemm {size}": gemm(size) for size in (256, 512, 1024)},
        "attention 256 x 256, causal": attention,
        "gemm 512 on Hopper": gemm(512, "gemm_sm90"),
        "attention 256 x 256, causal, on Hopper": attention_on_hopper,
    }


SINGLE, HALF, WHOLE = "*fp32", "*fp16", "i32"  # types of Triton's parameters


def triton_kernels() -> dict[str, Callable[[], object]]:
    """Those of tests/oracle and tests/triton_programs."""
    return row_kernels() | element_kernels() | matrix_kernels()


def triton(
    function: Any, grid: tuple[int, ...], constants: dict[str, Any], kinds: dict[str, str], given: dict[str, Any]
) -> Callable[[], object]:
    """A launch of a Triton kernel. `kinds`: types of its parameters; `given`: their values, and options of Triton's compiler."""
    from oracle import support

    options = {key: value for key, value in given.items() if key in ("num_warps", "num_stages")}
    values = {key: value for key, value in given.items() if key not in options}
    return lambda: support.simulate(support.build(function, kinds, constants, **options), grid, **values)


def row_kernels() -> dict[str, Callable[[], object]]:
    from oracle import pointer_kernels
    from triton_programs import kernels

    x, rows, halves = normal(16, 1000), normal(64, 1000), normal(16, 700, dtype=np.float16)
    return {
        "Triton softmax": triton(
            pointer_kernels.softmax,
            (16,),
            {"SIZE": 1024},
            {"x": SINGLE, "y": SINGLE, "n": WHOLE},
            {"x": x, "y": np.zeros_like(x), "n": 1000},
        ),
        "Triton softmax, pipelined rows": triton(
            kernels.softmax_rows,
            (8,),
            {"BLOCK": 1024},
            {"x": SINGLE, "y": SINGLE, "stride_x": WHOLE, "stride_y": WHOLE, "rows": WHOLE, "columns": WHOLE},
            {"x": rows, "y": np.zeros_like(rows), "stride_x": 1000, "stride_y": 1000, "rows": 64, "columns": 1000},
        ),
        "Triton layer norm": triton(
            pointer_kernels.layer_norm,
            (16,),
            {"SIZE": 256},
            {"x": HALF, "scale": SINGLE, "shift": SINGLE, "y": HALF, "n": WHOLE, "eps": "fp32"},
            {
                "x": halves,
                "scale": normal(700),
                "shift": normal(700),
                "y": np.zeros_like(halves),
                "n": 700,
                "eps": 1e-5,
                "num_warps": 2,
            },
        ),
    }


def element_kernels() -> dict[str, Callable[[], object]]:
    from triton_programs import kernels

    x = normal(8192)
    return {
        "Triton add": triton(
            kernels.add,
            (8,),
            {"BLOCK": 1024},
            {"x": SINGLE, "y": SINGLE, "z": SINGLE, "n": WHOLE},
            {"x": x, "y": x, "z": np.zeros_like(x), "n": 8192},
        ),
        "Triton dropout": triton(
            kernels.dropout,
            (8,),
            {"BLOCK": 1024},
            {"x": SINGLE, "y": SINGLE, "n": WHOLE, "p": "fp32", "seed": WHOLE},
            {"x": x, "y": np.zeros_like(x), "n": 8192, "p": 0.25, "seed": 123},
        ),
    }


def matrix_kernels() -> dict[str, Callable[[], object]]:
    from oracle import matmul_kernels
    from triton_programs import kernels

    bf16 = ml_dtypes.bfloat16
    a, b = (normal(128, 128, dtype=np.float16) for _ in range(2))
    q, k, v = (normal(2, 128, 32, dtype=np.float16) for _ in range(3))
    big = [normal(512, 512, dtype=bf16) for _ in range(2)]
    strides = {f"stride_{name}": size for name, size in zip(("am", "ak", "bk", "bn", "cm", "cn"), (128, 1) * 3, strict=True)}
    sizes = dict.fromkeys("MNK", WHOLE)
    return {
        "Triton matmul 128": triton(
            kernels.matmul.fn,
            (4,),
            {"BM": 64, "BN": 64, "BK": 32, "GROUP": 2, "ACTIVATION": "leaky"},
            {"a": HALF, "b": HALF, "c": HALF, **sizes, **dict.fromkeys(strides, WHOLE)},
            {"a": a, "b": b, "c": np.zeros_like(a), "M": 128, "N": 128, "K": 128, "num_warps": 4, "num_stages": 2, **strides},
        ),
        "Triton attention": triton(
            kernels.attention,
            (2, 2),
            {"HEAD": 32, "BM": 64, "BN": 32, "CAUSAL": True},
            {"q": HALF, "k": HALF, "v": HALF, "out": SINGLE, "scale": "fp32", "tokens": WHOLE},
            {"q": q, "k": k, "v": v, "out": np.zeros((2, 128, 32), np.float32), "scale": 0.2, "tokens": 128},
        ),
        "Triton gemm 512, persistent": triton(
            matmul_kernels.persistent,
            (4,),
            {"BM": 128, "BN": 256, "BK": 64, "FLATTEN": False},
            {"a": "tensordesc<bf16[128, 64]>", "b": "tensordesc<bf16[256, 64]>", "d": "tensordesc<bf16[128, 128]>", **sizes},
            {"a": big[0], "b": big[1], "d": np.zeros((512, 512), bf16), "M": 512, "N": 512, "K": 512, "num_stages": 3},
        ),
    }


# ---- the other side: one version of the simulator


def worker(root: Path, folder: Path) -> subprocess.Popen[str]:
    command = [sys.executable, __file__, str(root.resolve()), "--serve", str(folder)]
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


def asked(process: subprocess.Popen[str], name: str) -> tuple[float, str]:
    assert process.stdin is not None and process.stdout is not None
    print(name, file=process.stdin, flush=True)
    seconds, digest = process.stdout.readline().split()
    return float(seconds), digest


def serve(root: Path, folder: Path) -> None:
    """Simulates the launches named on stdin with the version at `root`: processor seconds and a digest of the arrays."""
    sys.path.insert(0, str(root))
    from pipec import sim

    for line in sys.stdin:
        ptx, kernel, given = pickle.loads((folder / line.rstrip("\n")).read_bytes())
        started = time.process_time()
        sim.launch(ptx, kernel, options=sim.Options(trace=False), **given)
        seconds = time.process_time() - started
        arrays = [array for one in given["arguments"] if isinstance(array := getattr(one, "array", None), np.ndarray)]
        print(seconds, hashlib.sha256(b"".join(array.tobytes() for array in arrays)).hexdigest(), flush=True)


if __name__ == "__main__":
    main()
