"""Gluon kernels with one thing left out, which one in-order run tells from those that are right."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pytest
from triton.experimental.gluon import GluonJITFunction

from pipec.sim import Options, Result, SimulationError

from . import race_kernels as kernels
from .support import build, simulate
from .test_gluon import descriptor

TILE = descriptor("fp16", [64, 64])


@dataclass(frozen=True)
class Kernel:
    function: GluonJITFunction
    signature: dict[str, str]
    arrays: Callable[[], dict[str, Any]]
    faults: tuple[str, ...]
    constants: dict[str, Any] = field(default_factory=dict)

    def run(self, fault: str, options: Options | None = None) -> Result:
        compiled = build(self.function, self.signature, {**self.constants, "FAULT": fault}, num_warps=4)
        return simulate(compiled, (1,), options or Options(), **self.arrays())


KERNELS = {
    "loaded": Kernel(
        kernels.loaded,
        {"a": TILE, "y": "*fp16"},
        lambda: {"a": np.zeros((64, 64), np.float16), "y": np.zeros(8192, np.float16)},
        ("no wait", "read before the wait"),
    ),
    # Triton puts in a proxy fence that is missing by itself.
    "stored": Kernel(kernels.stored, {"a": TILE}, lambda: {"a": np.zeros((128, 64), np.float16)}, ("no wait",)),
    "copied": Kernel(
        kernels.copied,
        {"x": "*fp32", "y": "*fp32"},
        lambda: {"x": np.zeros(512, np.float32), "y": np.zeros(2048, np.float32)},
        ("no wait", "waits for too few", "one buffer"),
    ),
    "multiplied": Kernel(
        kernels.multiplied,
        {"a": descriptor("fp16", [128, 64]), "b": TILE, "y": "*fp32"},
        lambda: {"a": np.zeros((128, 64), np.float16), "b": np.zeros((64, 64), np.float16), "y": np.zeros(128, np.float32)},
        ("no wait", "stored under it", "loaded under it", "waits for the other phase"),
    ),
    "replicated": Kernel(
        kernels.replicated,
        {"x": "*fp32", "n": "i32"},
        lambda: {"x": np.arange(160, dtype=np.float32), "n": 5},
        ("another element", "another element, volatile"),
    ),
    "roles": Kernel(
        kernels.roles,
        {"y": "*fp32"},
        lambda: {"y": np.zeros(512, np.float32)},
        (
            "no wait for an empty stage",
            "no wait for a full stage",
            "given before it is written",
            "given back before it is read",
            "reads the other stage",
        ),
        {"ROUNDS": 6},
    ),
}
FAULTS = [(name, fault) for name, kernel in KERNELS.items() for fault in kernel.faults]


@pytest.mark.parametrize("name", KERNELS)
def test_no_alarm(name: str) -> None:
    # Triton leaves tcgen05.fence out, which is a warning of its own.
    assert [finding for finding in KERNELS[name].run("").findings if finding.check != "fence"] == []


def test_replicated_loads_are_a_practice() -> None:
    """However late a warp comes that has copies."""
    for options in (Options("order"), Options("late"), *(Options("random", seed=seed) for seed in range(20))):
        assert KERNELS["replicated"].run("", options).relied_on == ["replicated loads"], options
        for fault, rules in (("", "documents"), ("another element", "practice")):
            with pytest.raises(SimulationError, match="race"):
                KERNELS["replicated"].run(fault, replace(options, rules=rules))


def test_volatile_loads_may_be_copies_too() -> None:
    assert KERNELS["replicated"].run("none, volatile").relied_on == ["replicated loads"]


@pytest.mark.parametrize(("name", "fault"), FAULTS, ids=[f"{name}: {fault}" for name, fault in FAULTS])
def test_found(name: str, fault: str) -> None:
    with pytest.raises(SimulationError) as caught:
        KERNELS[name].run(fault)
    error = caught.value
    assert error.kind == "race"
    # Both sides are lines of the Gluon source.
    assert all(str(side).count("race_kernels.py:") for side in (error.source, error.details["other"]["source"]))
