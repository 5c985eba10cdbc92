"""Measuring candidates on a GPU with torch: rotating copies of the arguments, graphs, events (see torch_clock.py)."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import torch

from pipec.interface import KernelInterface
from pipec.runtime import random_arguments
from pipec.tune.choice import Candidate
from pipec.tune.rounds import Clock
from pipec.tune.torch_clock import GpuClock, l2_bytes
from pipec.tune.tuned import Gpu

_L2_TIMES = 3  # total size of the copies, in units of the L2 size
_MOST_COPIES = 64
_MOST_BYTES = 0.25  # of the free memory, for copies


def describe(index: int) -> Gpu:
    properties = torch.cuda.get_device_properties(index)
    return Gpu(properties.name, properties.multi_processor_count)


class TorchBench:
    """Implements pipec.tune.measure.Bench. `kernel_of` compiles a candidate; `arguments` are CUDA tensors and numbers."""

    def __init__(self, kernel_of: Callable[[Candidate], Any], arguments: Sequence[Any]) -> None:
        self._kernel_of = kernel_of
        tensors = [argument for argument in arguments if isinstance(argument, torch.Tensor)]
        self._index = tensors[0].device.index if tensors else torch.cuda.current_device()
        gpu = describe(self._index)
        self.device, self.multiprocessors = gpu.name, gpu.multiprocessors
        self._sets = [list(arguments) for _ in range(self._copies(tensors))]
        for copy in self._sets[1:]:
            copy[:] = [_copied(argument) if isinstance(argument, torch.Tensor) else argument for argument in copy]
        self._launches: dict[str, Callable[[int], object]] = {}
        self._fastest = float("inf")  # seconds of a launch

    def _copies(self, tensors: Sequence[torch.Tensor]) -> int:
        held: int = max(1, sum(tensor.numel() * tensor.element_size() for tensor in tensors))
        free, _ = torch.cuda.mem_get_info(self._index)
        return max(1, min(_MOST_COPIES, -(-_L2_TIMES * l2_bytes() // held), int(_MOST_BYTES * free / held)))

    def prepare(self, candidate: Candidate) -> str | None:
        try:
            kernel = self._kernel_of(candidate)

            def launch(index: int) -> None:
                kernel(*self._sets[index], device=f"cuda:{self._index}", stream=torch.cuda.current_stream(self._index))

            launch(0)
            self._fastest = min(self._fastest, self._seconds(launch))
        except Exception as failure:  # noqa: BLE001 - a candidate that cannot run is told, and the others are measured
            return f"{type(failure).__name__}: {str(failure).strip().splitlines()[0]}"
        self._launches[str(candidate)] = launch
        return None

    def _seconds(self, launch: Callable[[int], object]) -> float:
        start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        torch.cuda.synchronize(self._index)
        start.record()
        launch(0)
        end.record()
        torch.cuda.synchronize(self._index)
        return float(start.elapsed_time(end)) / 1e3

    def clock(self) -> Clock:
        """A turn has the same duration for large and small kernels."""
        made = GpuClock(len(self._sets), self._fastest)
        for name, launch in self._launches.items():
            made.add(name, launch)
        return made


def _copied(tensor: torch.Tensor) -> torch.Tensor:
    """With the same strides: a clone would remove the padding of rows."""
    return torch.empty_strided(tensor.size(), tensor.stride(), dtype=tensor.dtype, device=tensor.device).copy_(tensor)


def random_tensors(interface: KernelInterface, sizes: Mapping[str, int], seed: int) -> list[Any]:
    """Arguments as `pipec run` generates them, on the GPU, preserving the padding of rows to 16 bytes."""
    made = random_arguments(interface, sizes, seed).values()
    return [_moved(argument) if isinstance(argument, np.ndarray) else argument for argument in made]


def _moved(array: np.ndarray[Any, Any]) -> torch.Tensor:
    whole = array if array.base is None else array.base
    flat = torch.from_numpy(np.ascontiguousarray(whole).reshape(-1).view(np.uint8)).cuda()
    return flat.view(getattr(torch, array.dtype.name)).reshape(whole.shape)[..., : array.shape[-1]]
