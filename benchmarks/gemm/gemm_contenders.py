"""The contenders of benchmarks/gemm/h200.py on the GPU: torch, cuBLASLt, Triton and pipec, each as a launch on the current stream.

Buffers rotate: by the time a set is used again, several times the L2 cache has been read and written, so every launch finds its
inputs in DRAM.
"""

from collections.abc import Callable, Mapping, Sequence

import torch

from benchmarks.gemm.cublaslt import Candidate, CublasLt, DataType, Product
from benchmarks.gemm.gemm_automatic import plan
from benchmarks.gemm.gemm_build import Built, key, launchers
from benchmarks.gemm.gemm_shapes import Kind, Shape
from pipec.runtime import Launcher, LaunchOptions
from pipec.tune.torch_clock import l2_bytes

Launch = Callable[[torch.Tensor, torch.Tensor, torch.Tensor], object]
Sets = list[tuple[torch.Tensor, torch.Tensor, torch.Tensor]]

MOST_SETS = 128
L2_TIMES = 3  # what the sets hold together, in sizes of the L2
WORKSPACE = 256 * 2**20


# ------------------------------------------------------------------------------------------------------------------- data


def buffers(shape: Shape, l2_times: int = L2_TIMES) -> Sets:
    """Random operands and poisoned results, in as many sets as exceed the L2 so many times."""
    count = max(2, min(MOST_SETS, -(-l2_times * l2_bytes() // shape.bytes)))
    generator = torch.Generator(device="cuda").manual_seed(shape.m * 31 + shape.n * 17 + shape.k)

    def draw(rows: int, columns: int) -> torch.Tensor:
        drawn = torch.randn(rows, columns, device="cuda", generator=generator, dtype=torch.bfloat16)
        return drawn.to(torch.float8_e4m3fn) if shape.kind == "fp8" else drawn

    def result() -> torch.Tensor:
        return torch.full((shape.m, shape.n), float("nan"), device="cuda", dtype=torch.bfloat16)

    return [(draw(shape.m, shape.k), draw(shape.n, shape.k), result()) for _ in range(count)]


# ------------------------------------------------------------------------------------------------------------- contenders


def of_torch(shape: Shape) -> dict[str, Launch]:
    """What torch runs: the first suggestion of cuBLAS's heuristic."""
    if shape.kind == "fp8":
        one = torch.ones((), device="cuda")

        def scaled(a: torch.Tensor, b: torch.Tensor, d: torch.Tensor) -> None:
            torch._scaled_mm(a, b.T, one, one, out_dtype=torch.bfloat16, use_fast_accum=True, out=d)

        return {"torch": scaled}
    return {"torch": lambda a, b, d: torch.matmul(a, b.T, out=d)}


class OfCublasLt:
    """Every algorithm that cuBLASLt's heuristic offers."""

    def __init__(self) -> None:
        torch.matmul(*(torch.ones(8, 8, device="cuda", dtype=torch.bfloat16) for _ in "ab"))  # loads the library
        self._library = CublasLt.of_process()
        self.version = self._library.version
        self._workspace = torch.empty(WORKSPACE, device="cuda", dtype=torch.uint8)
        self._ones = torch.ones(2, device="cuda")

    def __call__(self, shape: Shape) -> dict[str, Launch]:
        one = self._ones.data_ptr()
        kind, scales = (DataType.E4M3, (one, one)) if shape.kind == "fp8" else (DataType.BF16, None)
        asked = Product(self._library, shape.m, shape.n, shape.k, kind, scales)
        return {f"cublaslt {candidate.name}": self._launch(asked, candidate) for candidate in asked.candidates()}

    def _launch(self, asked: Product, candidate: Candidate) -> Launch:
        workspace = self._workspace.data_ptr()

        def run(a: torch.Tensor, b: torch.Tensor, d: torch.Tensor) -> None:
            stream = torch.cuda.current_stream().cuda_stream
            asked.run(candidate, a.data_ptr(), b.data_ptr(), d.data_ptr(), workspace, WORKSPACE, stream)

        return run


def of_triton(shape: Shape) -> dict[str, Launch]:
    """Each configuration of Triton's persistent matmul with tensor descriptors."""
    from benchmarks.gemm.h200_triton import CONFIGURATIONS, matmul

    return {f"triton {one.name}": matmul(one) for one in CONFIGURATIONS}


class OfPipec:
    """The examples with each of their tiles, from code built before. A file with several kernels is launched kernel by kernel."""

    def __init__(self, built: Mapping[str, Built]) -> None:
        self.launchers: dict[str, tuple[Launcher, ...] | str] = {}
        for name, one in built.items():
            self.launchers[name] = one.failed or launchers(one)

    def __call__(self, shape: Shape) -> dict[str, Launch]:
        return {f"pipec {tile.name}": self.launch(key(tile), shape) for tile in plan(shape).contending}

    def serial(self, shape: Shape, name: str) -> Launch:
        """A tile, each launch of which begins when the one in front has ended."""
        tile = next(tile for tile in plan(shape).contending if f"pipec {tile.name}" == name)
        return self.launch(key(tile), shape, LaunchOptions(programmatic=False))

    def launch(self, name: str, shape: Shape, options: LaunchOptions | None = None) -> Launch:
        kernels = self.launchers[name]
        if isinstance(kernels, str):
            return _refusal(kernels)
        between = shared_memory_of_splits(kernels, shape)

        def run(a: torch.Tensor, b: torch.Tensor, d: torch.Tensor) -> None:
            given, stream = between | {"a": a, "b": b, "d": d, "K": shape.k}, torch.cuda.current_stream()
            for launcher in kernels:
                launcher(
                    [given[argument.name] for argument in launcher.interface.arguments],
                    device="cuda",
                    stream=stream,
                    options=options,
                )

        return run


def _refusal(reason: str) -> Launch:
    def refuse(a: torch.Tensor, b: torch.Tensor, d: torch.Tensor) -> None:
        raise RuntimeError(reason)

    return refuse


def shared_memory_of_splits(kernels: Sequence[Launcher], shape: Shape) -> dict[str, torch.Tensor]:
    """Sums and turns that the blocks of a tile share, for kernels that have them; both begin as zeros."""
    names = {argument.name for launcher in kernels for argument in launcher.interface.arguments}
    rows, columns = -(-shape.m // 64), -(-shape.n // 64)
    made: dict[str, Callable[[], torch.Tensor]] = {
        "turns": lambda: torch.zeros(rows, columns, device="cuda", dtype=torch.int32),
        "sums": lambda: torch.zeros(shape.m, shape.n, device="cuda", dtype=torch.float32),
    }
    return {name: make() for name, make in made.items() if name in names}


# ------------------------------------------------------------------------------------------------------------------ right


class Judge:
    """Compares results with a product of the same operands in float32, without the tensor cores' short forms."""

    # A bfloat16 result is off by 2 ** -9 of itself at most, by 0.0017 in the mean square. Sums of 8-bit products keep fewer bits on Hopper.
    LIMIT_OF_NORM: Mapping[Kind, float] = {"bf16": 0.006, "fp8": 0.02}
    LIMIT_OF_ONE = 0.02  # of the largest value: one wrong element among millions does not show in the norm

    def __init__(self, shape: Shape, sets: Sets) -> None:
        self._limit = self.LIMIT_OF_NORM[shape.kind]
        self._a, self._b, self._d = sets[0]
        torch.backends.cuda.matmul.allow_tf32 = False
        self._wanted = self._a.float() @ self._b.float().T
        self._norm, self._most = self._wanted.norm(), self._wanted.abs().max()

    def difference(self, launch: Launch) -> float:
        """The norm of the difference relative to the norm. Raises ValueError for a result that is wrong or not written everywhere."""
        self._d.fill_(float("nan"))
        launch(self._a, self._b, self._d)
        away = self._d.float() - self._wanted
        norm, most = float(away.norm() / self._norm), float(away.abs().max() / self._most)
        if not (norm < self._limit and most < self.LIMIT_OF_ONE):
            raise ValueError(f"wrong: off by {norm:.3g} in the norm, by {most:.3g} of the largest value in one element")
        return norm
