"""A pretended GPU for gemm_method: what `h200.py --dry-run` and the tests of the method run on. Its times mean nothing."""

import random
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from benchmarks.gemm.gemm_automatic import plan
from benchmarks.gemm.gemm_method import Family
from benchmarks.gemm.gemm_shapes import KERNEL, Shape, tiles

_OTHERS: dict[Family, dict[str, float]] = {
    "torch": {"torch": 1.1},
    "cublaslt": {f"cublaslt algorithm={number}": 1.0 + 0.07 * (number % 11) for number in range(30, 0, -1)},
    "triton": {"triton 128x256": 1.2, "triton 128x128": 1.3, "triton 64x64": 2.0},
}


class DryField:
    """Implements gemm_method.Field. Times drift within a round and over rounds, as a GPU's do; `drift` per turn."""

    def __init__(self, shape: Shape, drift: float = 0.01) -> None:
        self._shape, self._drift = shape, drift
        # The kernel whose tiles are compared comes last, so that the fastest of all is none of them.
        offered = sorted(plan(shape).contending, key=lambda tile: tile.example == KERNEL)
        ours = {f"pipec {tile.name}": 1.05 + 0.03 * number for number, tile in enumerate(offered)}
        self.true = {name: factor for family in _OTHERS.values() for name, factor in family.items()} | ours
        self._ours = list(ours)
        self._random = random.Random(str(shape))
        self._turns = 0
        self.rounds: list[tuple[str, ...]] = []
        self.forgotten: set[str] = set()
        self._kernels = {f"pipec {tile.name}" for tile in plan(shape).contending if tile.example == KERNEL}

    def clock(self, order: Sequence[str]) -> list[float]:
        assert not self.forgotten & set(order), "a contender that was forgotten is timed"
        self.rounds.append(tuple(order))
        least = max(self._shape.flops / 800e12, self._shape.bytes / 4.2e12, 2e-6)
        taken = []
        for turn, name in enumerate(order):
            self._turns += 1
            slow = (1 + self._drift * turn) * (1 + self._turns * 1e-5) * (1 + self._random.gauss(0, 0.002))
            taken.append(least * self.true[name] * slow)
        return taken

    def candidates(self, family: Family) -> Sequence[str]:
        return self._ours[1:] if family == "pipec" else list(_OTHERS[family])

    def failed(self) -> Mapping[str, str]:
        return {self._ours[0]: "ValueError: pretended"}

    def named(self) -> Mapping[str, str]:
        planned = plan(self._shape)
        named = {"default": tiles(self._shape)[0], "automatic": planned.automatic, "chosen": planned.chosen}
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
        self.true[serial] = 1.01 * self.true[name]
        return serial

    def forget(self, names: Sequence[str]) -> None:
        self.forgotten |= set(names)

    def facts(self) -> dict[str, Any]:
        return {"l2": {"state": "pretended"}}


class DryGpu:
    def open(self, shape: Shape) -> DryField:
        return DryField(shape)

    def machine(self) -> dict[str, Any]:
        return {"gpu": "pretended"}
