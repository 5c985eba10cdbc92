"""A shape on the GPU, for gemm_method.measure: candidates checked for right results, then captured for the clock."""

import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

import torch

from benchmarks.gemm.gemm_automatic import plan
from benchmarks.gemm.gemm_build import Built
from benchmarks.gemm.gemm_contenders import Judge, Launch, OfCublasLt, OfPipec, buffers, of_torch, of_triton
from benchmarks.gemm.gemm_method import Family
from benchmarks.gemm.gemm_shapes import DEFAULT, KERNEL, Shape, tiles
from pipec.tune.torch_clock import GpuClock, l2_bytes

_QUERY = "driver_version,clocks.max.sm,power.limit,memory.total"


class Gpu:
    """What is the same for all shapes: libraries and compiled tiles."""

    def __init__(self, built: Mapping[str, Built], families: Sequence[Family]) -> None:
        cublaslt, self._pipec = OfCublasLt(), OfPipec(built)
        self.cublaslt_version = cublaslt.version
        everybody: dict[Family, Callable[[Shape], Mapping[str, Launch]]] = {
            "torch": of_torch,
            "cublaslt": cublaslt,
            "triton": of_triton,
            "pipec": self._pipec,
        }
        self.families = {family: offer for family, offer in everybody.items() if family in families}

    def open(self, shape: Shape) -> "GpuField":
        return GpuField(shape, self.families, self._pipec)

    def machine(self) -> dict[str, Any]:
        """Device and versions."""
        import triton

        properties = torch.cuda.get_device_properties(0)
        return {
            "gpu": properties.name,
            "multiprocessors": properties.multi_processor_count,
            "l2_bytes": l2_bytes(),
            "nvidia_smi": _nvidia_smi(),
            "torch": torch.__version__,
            "cuda": torch.version.cuda,
            "triton": triton.__version__,
            "cublaslt": self.cublaslt_version,
        }


class GpuField:
    """Implements gemm_method.Field."""

    def __init__(self, shape: Shape, families: Mapping[Family, Callable[[Shape], Mapping[str, Launch]]], pipec: OfPipec) -> None:
        self._shape, self._families, self._pipec = shape, families, pipec
        self.sets = buffers(shape)
        self._judge = Judge(shape, self.sets)
        self.clock = GpuClock(len(self.sets), max(shape.flops / 600e12, shape.bytes / 3.5e12))
        self._failed: dict[str, str] = {}
        self._differences: dict[str, float] = {}
        self.launches: dict[str, Launch] = {}
        self._kernels = {f"pipec {tile.name}" for tile in plan(shape).contending if tile.example == KERNEL}

    def candidates(self, family: Family) -> Sequence[str]:
        offered = self._families[family](self._shape) if family in self._families else {}
        return [name for name, launch in offered.items() if self._ready(name, launch)]

    def _ready(self, name: str, launch: Launch) -> bool:
        try:
            self._differences[name] = self._judge.difference(launch)
        except torch.AcceleratorError:
            raise  # the context is lost: nothing after it would mean anything
        except Exception as failure:  # noqa: BLE001 - one candidate that fails must not hide the others
            self._failed[name] = f"{type(failure).__name__}: {failure}"
            return False
        self.launches[name] = launch
        self.clock.add(name, lambda index: launch(*self.sets[index]))
        return True

    def failed(self) -> Mapping[str, str]:
        return self._failed

    def named(self) -> Mapping[str, str]:
        first = tiles(self._shape)[0]
        assert first.example == DEFAULT.example
        planned = plan(self._shape)
        named = {"default": first, "automatic": planned.automatic, "chosen": planned.chosen}
        return {column: f"pipec {tile.name}" for column, tile in named.items()}

    def among(self) -> Mapping[str, Collection[str]]:
        planned = plan(self._shape)
        return {
            column: {f"pipec {tile.name}" for tile in found}
            for column, found in (("dozen", planned.dozen), ("tuned", planned.searched))
        }

    def kernel(self, name: str) -> bool:
        return name in self._kernels

    def serial(self, name: str) -> str:
        serial = f"{name}, serial"
        if not self._ready(serial, self._pipec.serial(self._shape, name)):
            raise RuntimeError(f"{serial}: {self._failed[serial]}")
        return serial

    def forget(self, names: Sequence[str]) -> None:
        self.clock.forget(names)
        for name in names:
            self.launches.pop(name, None)

    def facts(self) -> dict[str, Any]:
        held = len(self.sets) * self._shape.bytes
        return {
            "l2": {
                "state": "cold" if held >= 2 * l2_bytes() else "partly warm",
                "sets": len(self.sets),
                "bytes_between_uses": held,
                "bytes_read_before_a_turn": 2 * l2_bytes(),
            },
            "launches_in_a_turn": self.clock.launches,
            "captured": all(self.clock.captured(name) for name in self.launches),
            "largest_difference": max(self._differences.values(), default=None),
            "clock_mhz": _reading(torch.cuda.clock_rate),
            "temperature": _reading(torch.cuda.temperature),
        }


def _nvidia_smi() -> dict[str, str]:
    program = shutil.which("nvidia-smi")
    if program is None:
        return {}
    command = [program, f"--query-gpu={_QUERY}", "--format=csv,noheader"]
    asked = subprocess.run(command, capture_output=True, text=True, check=False)
    return dict(zip(_QUERY.split(","), asked.stdout.strip().split(", "), strict=False))


def _reading(read: Callable[[], int]) -> int | None:
    """Through NVML, which need not be there."""
    try:
        return read()
    except Exception as missing:  # noqa: BLE001
        print(f"no reading of {read.__name__}: {missing}", file=sys.stderr)
        return None


class FreshClock:
    """Microseconds of wall time per call, each call with an output of its own as eager torch makes them, waited for at the end.

    The outputs of the last calls are kept, so an address does not come back for a while.
    """

    KEPT = 300

    def __init__(self, field: GpuField, calls: int) -> None:
        self._field, self._calls = field, calls
        self._kept: list[torch.Tensor | None] = [None] * self.KEPT
        self._next = 0

    def __call__(self, order: Sequence[str]) -> list[float]:
        return [self._turn(self._field.launches[name]) for name in order]

    def _turn(self, launch: Launch) -> float:
        a, b, d = self._field.sets[0]
        torch.cuda.synchronize()
        started = time.perf_counter()
        for _ in range(self._calls):
            out = torch.empty_like(d)
            launch(a, b, out)
            self._kept[self._next] = out
            self._next = (self._next + 1) % self.KEPT
        torch.cuda.synchronize()
        return (time.perf_counter() - started) / self._calls
