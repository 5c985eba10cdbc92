"""Times of Triton kernels on a Hopper GPU, with their PTX and launches, and what single instructions take there; 20 seconds.

    python benchmarks/gpu/h200_foreign.py FOLDER [--rounds 9]

Launches are replayed from CUDA graphs over buffers that exceed the L2 cache, each kernel once in every round, in shuffled order; a figure
is the median of its rounds. The clock is that of a multiprocessor's counter over the time of a turn.
`benchmarks/prediction/foreign.py` predicts the times of what lies in the folder.
"""

import argparse
import json
import math
import sys
import time
from pathlib import Path
from typing import Any

import torch
import triton
from triton.tools.tensor_descriptor import TensorDescriptor

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT)]

from benchmarks.gpu import foreign_instructions
from benchmarks.gpu.foreign_kernels import Case, cases, launch_of
from benchmarks.gpu.foreign_rounds import guessed, measure, row_of

_TURN, _MOST = 0.004, 400  # seconds of a turn, and launches in it
_RESULTS = "cdoz"  # arrays that are written


class Ready:
    """A kernel with its buffers and the graph of a turn; its PTX and launch are written to a folder."""

    def __init__(self, case: Case, folder: Path, pool: dict[Any, torch.Tensor], l2: int) -> None:
        self.case, self._pool = case, pool
        size = sum(math.prod(one[1]) * 2 for one in case.arrays.values())
        self.sets = max(1, min(64, math.ceil(3 * l2 / size)))
        self._given = [self._arguments(number) for number in range(self.sets)]
        compiled = self.launch(0)
        torch.cuda.synchronize()
        self.registers = compiled.n_regs
        text, name = compiled.asm["ptx"], case.name.replace(" ", "_")
        (folder / f"{name}.ptx").write_text(text)
        described = launch_of(case, text, compiled.metadata, dict(compiled.src.signature)) | {"registers": self.registers}
        (folder / f"{name}.json").write_text(json.dumps(described))
        self.launches = max(self.sets, min(_MOST, int(_TURN / guessed(self.launch, self.sets))))
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph):
            for number in range(self.launches):
                self.launch(number % self.sets)
        self.times: list[float] = []
        self.clocks: list[float] = []

    def _arguments(self, number: int) -> list[Any]:
        return [self._argument(one, number) if isinstance(one, str) else one[1] for one in self.case.order]

    def _argument(self, name: str, number: int) -> Any:
        _, shape, *box = self.case.arrays[name]
        key = name, shape, number
        if key not in self._pool:
            made = torch.empty(shape, device="cuda", dtype=torch.bfloat16)
            self._pool[key] = made if name in _RESULTS else made.normal_()
        return TensorDescriptor.from_tensor(self._pool[key], list(box[0])) if box else self._pool[key]

    def launch(self, number: int) -> Any:
        case = self.case
        return case.function[case.grid](*self._given[number], **case.constants, num_warps=case.warps, num_stages=case.stages)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--rounds", type=int, default=9)
    options = parser.parse_args()
    (options.folder / "ptx").mkdir(parents=True, exist_ok=True)
    properties = torch.cuda.get_device_properties(0)
    pool: dict[Any, torch.Tensor] = {}
    chosen = cases(properties.multi_processor_count)
    ready = [Ready(case, options.folder / "ptx", pool, properties.L2_cache_size) for case in chosen]
    measure(ready, options.rounds, properties.L2_cache_size)
    record: dict[str, Any] = {
        "gpu": properties.name,
        "date": time.strftime("%Y-%m-%dT%H:%M:%S+00:00", time.gmtime()),
        "versions": {"torch": torch.__version__, "triton": triton.__version__},
        "kernels": {one.case.name: _row(one) for one in ready},
        "micro": foreign_instructions.run(),
    }
    (options.folder / "measured.json").write_text(json.dumps(record, indent=1))


def _row(one: Ready) -> dict[str, Any]:
    case = one.case
    return row_of(one) | {"grid": list(case.grid), "warps": case.warps, "stages": case.stages, "flops": case.flops}


if __name__ == "__main__":
    main()
