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
from . import ring_kernels as rings
from .support import HOPPER, TARGET, build, simulate
from .test_gluon import Layout, descriptor

TILE = descriptor("fp16", [64, 64])


@dataclass(frozen=True)
class Kernel:
    function: GluonJITFunction
    signature: dict[str, str]
    arrays: Callable[[], dict[str, Any]]
    faults: tuple[str, ...]
    constants: dict[str, Any] = field(default_factory=dict)
    target: Any = TARGET

    def run(self, fault: str, options: Options | None = None) -> Result:
        compiled = build(self.function, self.signature, {**self.constants, "FAULT": fault}, self.target, num_warps=4)
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


def zeros(**shapes: tuple[str, int]) -> Callable[[], dict[str, Any]]:
    return lambda: {name: np.zeros(size, kind) for name, (kind, size) in shapes.items()}


# The kinds of Triton's own tests of its sanitizer, beyond those above.
RINGS = {
    "two producers, two consumers": Kernel(
        rings.two_to_two,
        {"y": "*fp32"},
        zeros(y=("f4", 256)),
        ("counts one producer", "one does not wait for an empty stage", "one does not wait for a full stage"),
    ),
    "a ring by TMA": Kernel(
        rings.tma_ring,
        {"a": TILE, "y": "*fp16"},
        lambda: {"a": np.zeros((256, 64), np.float16), "y": np.zeros(4 * 4096, np.float16)},
        (
            "no wait for an empty stage",
            "no wait for a full stage",
            "expects half of the bytes",
            "the phase never flips",
            "the other stage",
            "never given back",
            "given back twice",
        ),
    ),
    "two views": Kernel(
        rings.two_views,
        {"a": TILE, "y": "*fp16"},
        lambda: {"a": np.zeros((64, 64), np.float16), "y": np.zeros(2048, np.float16)},
        ("words stored under the load", "words read before the wait"),
    ),
    "a copy to tensor memory": Kernel(
        rings.copied_to_tensor_memory,
        {"x": "*fp32", "y": "*fp32"},
        zeros(x=("f4", 4096), y=("f4", 4096)),
        ("source stored under the copy", "destination stored under the copy", "read before the wait"),
        {"SHARED": Layout(swizzle_byte_width=128, element_bitwidth=32, rank=2)},
    ),
    "two wgmma": Kernel(
        rings.two_wgmma,
        {"a": TILE, "b": TILE, "y": "*fp32"},
        lambda: {"a": np.ones((64, 64), np.float16), "b": np.ones((64, 64), np.float16), "y": np.zeros(4096, np.float32)},
        ("operand loaded again under it", "waits for the first one"),
        target=HOPPER,
    ),
    "a handshake": Kernel(
        rings.handshake,
        {},
        dict,
        ("both wait first", "an arrival too many", "an arrival too few", "waits for a phase more"),
    ),
}
RING_FAULTS = [(name, fault) for name, kernel in RINGS.items() for fault in ("", *kernel.faults)]


@pytest.mark.sample(0.2)
@pytest.mark.parametrize(("name", "fault"), RING_FAULTS, ids=[f"{name}: {fault or 'right'}" for name, fault in RING_FAULTS])
def test_rings_and_handshakes(name: str, fault: str) -> None:
    if not fault:
        assert RINGS[name].run("").findings == []
        return
    with pytest.raises(SimulationError) as caught:
        RINGS[name].run(fault)
    # "undefined": a parity that means a phase of which the warp knows nothing.
    assert caught.value.kind in ("race", "deadlock", "arrive_underflow", "undefined")
    assert "ring_kernels.py:" in str(caught.value)


FAULTS = [(name, fault) for name, kernel in KERNELS.items() for fault in kernel.faults]


@pytest.mark.sample(0.5)
@pytest.mark.parametrize("name", KERNELS)
def test_no_alarm(name: str) -> None:
    assert KERNELS[name].run("").findings == []


def test_replicated_loads_are_a_practice() -> None:
    """However late a warp comes that has copies."""
    for options in (Options("order"), Options("late"), *(Options("random", seed=seed) for seed in range(20))):
        assert KERNELS["replicated"].run("", options).relied_on == ["replicated loads"], options
        for fault, rules in (("", "documents"), ("another element", "practice")):
            with pytest.raises(SimulationError, match="race"):
                KERNELS["replicated"].run(fault, replace(options, rules=rules))


def test_volatile_loads_may_be_copies_too() -> None:
    assert KERNELS["replicated"].run("none, volatile").relied_on == ["replicated loads"]


@pytest.mark.sample(0.4)
@pytest.mark.parametrize(("name", "fault"), FAULTS, ids=[f"{name}: {fault}" for name, fault in FAULTS])
def test_found(name: str, fault: str) -> None:
    with pytest.raises(SimulationError) as caught:
        KERNELS[name].run(fault)
    error = caught.value
    assert error.kind == "race"
    # Both sides are lines of the Gluon source.
    assert all(str(side).count("race_kernels.py:") for side in (error.source, error.details["other"]["source"]))
