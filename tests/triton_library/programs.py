"""Programs of the kinds that libraries of Triton kernels consist of: each right, or with one mistake (FAULT), through `pipec.triton`."""

from __future__ import annotations

import os
import tempfile

# Read when Triton is imported; see tests/oracle/support.py.
os.environ.setdefault("TRITON_CACHE_DIR", tempfile.mkdtemp(prefix="pipec-triton-"))
os.environ.setdefault("TRITON_DEFAULT_FP_FUSION", "1")

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from triton.experimental.gluon import language as gl
from triton.experimental.gluon.nvidia.hopper import TensorDescriptor

from pipec.triton import Tensor, tensor

Pair = tuple[Any, Any, float]  # what the kernel computed, what it should have, the largest error relative to the largest value


@dataclass(frozen=True)
class Program:
    """`run(fault)` launches and returns what is compared; `faults` maps each mistake to the kinds of finding that name it."""

    name: str
    run: Callable[[str], list[Pair]]
    faults: dict[str, tuple[str, ...]]
    arch: str
    allowed: frozenset[str] = field(default_factory=frozenset)


PROGRAMS: dict[str, Program] = {}


def program(faults: dict[str, str] | None = None, arch: str = "sm_100a", allowed: tuple[str, ...] = ()) -> Any:
    """Registers a function of a fault ("" for none); a fault's kinds are separated by spaces."""

    def register(run: Callable[[str], list[Pair]]) -> Callable[[str], list[Pair]]:
        name = run.__name__
        assert name not in PROGRAMS, name
        PROGRAMS[name] = Program(
            name, run, {fault: tuple(kinds.split()) for fault, kinds in (faults or {}).items()}, arch, frozenset(allowed)
        )
        return run

    return register


def rng() -> np.random.Generator:
    return np.random.default_rng(11)


def normal(*shape: int, dtype: Any = np.float32, scale: float = 1.0) -> Tensor:
    return tensor((np.random.default_rng(sum(shape) + len(shape)).standard_normal(shape) * scale).astype(dtype))


def integers(low: int, high: int, *shape: int, dtype: Any = np.int32) -> Tensor:
    return tensor(np.random.default_rng(sum(shape) + high).integers(low, high, shape).astype(dtype))


def zeros(*shape: int, dtype: Any = np.float32) -> Tensor:
    return tensor(np.zeros(shape, dtype))


def wide(x: Any) -> Any:
    return np.asarray(x).astype(np.float64)


def off_by(found: Any, exact: Any) -> float:
    """The largest error, relative to the largest value; infinite where one is no number and the other is."""
    found, exact = wide(found), wide(exact)
    if found.shape != exact.shape:
        return float("inf")
    same = (found == exact) | (np.isnan(found) & np.isnan(exact))
    difference = np.where(same, 0.0, np.abs(found - exact))
    finite = np.abs(exact[np.isfinite(exact)])
    return float("inf") if np.isnan(difference).any() else float(difference.max(initial=0) / max(1.0, finite.max(initial=0)))


def described(x: Tensor, block: list[int], kind: Any, **given: Any) -> Any:
    """A descriptor for Gluon."""
    return TensorDescriptor.from_tensor(x, block, gl.NVMMASharedLayout.get_default_for(block, kind, **given))
