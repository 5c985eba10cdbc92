"""Whatever is passed to the Python interface, it answers with a result or with one of its own errors."""

import copy
import pickle
import re
from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from faces.kernels import SCALE, WRONG

import pipec
from pipec import sim
from pipec.runtime import ArgumentError, LaunchOptions, launch, random_arguments
from pipec.runtime.errors import RuntimeFault

OWN = (pipec.CompileError, RuntimeFault, sim.SimulationError)


class Hostile:
    """Every question about it ends in an error of its own."""

    def _fail(self, *_: object) -> Any:
        raise RuntimeError("hostile")

    __eq__ = __hash__ = __repr__ = __str__ = __bool__ = __len__ = __iter__ = __float__ = __int__ = __index__ = _fail  # type: ignore[assignment]


ODD: list[object] = [
    *(None, 0, -1, 1.5, True, 10**400, -(10**5000), float("nan"), 1j, Decimal("1e400"), Decimal("sNaN"), Fraction(1, 3)),
    *("", "x\0y", "\u0663", "\udcff", "a" * 100_000, b"x", b"\xff", [], {}, (), {1: 2}, {"a": None}, [1, 2], ...),
    *(object(), Hostile(), int, len, Path("."), Path("none.pipe"), np.zeros(3), np.float32(1), np.array(1), np.ma.masked),
]
ids = [f"{index}-{type(value).__name__}" for index, value in enumerate(ODD)]
SIZED = SCALE.replace("numpy:", "")


def answers(call: Callable[[], object]) -> None:
    try:
        result = call()
    except OWN as error:
        text = str(error)
        assert text and "internal error" not in text, text[:300]
        return
    if isinstance(result, list):  # diagnostics of pipec.check
        assert all(diagnostic.code != "E0001" for diagnostic in result), result


@cache
def program() -> pipec.Program:
    return pipec.compile(SCALE)


def arrays() -> dict[str, Any]:
    return {"x": np.ones((16, 64), np.float32), "y": np.zeros((16, 64), np.float32), "alpha": 2.0}


@pytest.mark.parametrize("value", ODD, ids=ids)
def test_compiling(value: Any) -> None:
    for face in (pipec.compile, pipec.check, pipec.kernel):
        answers(lambda face=face: face(value))
        answers(lambda face=face: face(SIZED, arch=value))
    for name in ("constants", "kernel", "debug", "unchecked", "allow_undecided"):
        answers(lambda name=name: pipec.compile(SIZED, **{name: value}))
    answers(lambda: pipec.check(SIZED, constants=value))
    answers(lambda: pipec.check(SIZED, constants={"BM": value}))
    answers(lambda: pipec.kernel(SIZED, BM=value))


@pytest.mark.parametrize("value", ODD, ids=ids)
def test_calling(value: Any) -> None:
    kernel = program()["scale"]
    for name in ("x", "y", "alpha"):
        answers(lambda name=name: kernel(**{**arrays(), name: value}, device="sim"))
    answers(lambda: kernel(**arrays(), device=value))
    answers(lambda: kernel(**arrays(), device="sim", options=value))
    answers(lambda: kernel(**arrays(), device="sim", debug=value))
    answers(lambda: launch(kernel.interface, kernel.ptx, value, device="sim"))
    for name in ("timing", "seed", "step_limit", "numerics"):
        options = LaunchOptions(sim.Options(**{name: value}))
        answers(lambda options=options: kernel(**arrays(), device="sim", options=options))
    answers(lambda: random_arguments(kernel.interface, value))
    answers(lambda: random_arguments(kernel.interface, {"M": value, "N": 4}))
    answers(lambda: random_arguments(kernel.interface, {"M": 4, "N": 4}, value))
    assert program().get(value) is (kernel if value == "scale" else None) if not isinstance(value, Hostile | np.ndarray) else True
    with pytest.raises(KeyError):
        program()[value]


# ----------------------------------------------------------------------------------------------- arrays of other libraries


class Described:
    def __init__(self, attribute: str, value: object) -> None:
        self._attribute, self._value = attribute, value

    def __getattr__(self, name: str) -> object:
        if name != self._attribute:
            raise AttributeError(name)
        if isinstance(self._value, Exception):
            raise self._value
        return self._value


GOOD = {"data": (0x7000000, False), "shape": (16, 64), "typestr": "<f4", "version": 3}
_CHANGES = {
    "shape": (None, 16, "ab", (16, "a"), (-1, 64), (2**70, 64), (16.0, 64.0)),
    "typestr": (None, "zz", "<V2", "O", 4, [("a", "f4")]),
    "data": (None, 5, (), (None, False), ("x", False), (-1, False), (2**70, False)),
    "strides": (5, (1,), "ab", (None, None), (0, 4), (-256, 4), (2**80, 4)),
    "mask": (1, object()),
}
INTERFACES = [{**GOOD, key: value} for key, values in _CHANGES.items() for value in values]
INTERFACES += [{key: value for key, value in GOOD.items() if key != left} for left in GOOD]


def _named(value: object) -> str:
    """The same in every process: without the addresses of objects."""
    return re.sub(r" at 0x[0-9a-f]+", "", repr(value))


@pytest.mark.parametrize("interface", [*INTERFACES, None, {}, [], 1, "x", RuntimeError("boom"), KeyError("k")], ids=_named)
@pytest.mark.parametrize("attribute", ["__cuda_array_interface__", "__dlpack__"])
def test_arrays_that_describe_themselves_wrongly(attribute: str, interface: object) -> None:
    for name in ("x", "y"):
        with pytest.raises(OWN):
            program()["scale"](**{**arrays(), name: Described(attribute, interface)}, device="sim")


@pytest.mark.parametrize("mask", [True, False])
def test_masked_arrays_are_refused(mask: bool) -> None:
    masked = np.ma.masked_array(np.ones((16, 64), np.float32), mask=np.eye(16, 64, dtype=bool) if mask else False)
    for name in ("x", "y"):
        with pytest.raises(ArgumentError, match="mask"):
            program()["scale"](**{**arrays(), name: masked}, device="sim")


# -------------------------------------------------------------------------------------------------- what a notebook shows


def test_short_texts() -> None:
    compiled = program()
    result = compiled["scale"](**arrays(), device="sim")
    assert repr(compiled) == "<pipec program for sm_100a: scale(x: f32[M, N], y: f32[M, N], alpha: f32)>"
    assert repr(compiled["scale"]) == "<pipec kernel scale(x: f32[M, N], y: f32[M, N], alpha: f32)>"
    assert len(repr(result)) < 400
    html = compiled._repr_html_()
    assert html.count("<tr>") == 2 and "scale(x: f32[M, N]" in html and "160" in html


def errors() -> list[Exception]:
    found: list[Exception] = []
    kernel = program()["scale"]
    calls: list[Callable[[], object]] = [
        lambda: pipec.compile(WRONG),
        lambda: kernel(1, 2),
        lambda: kernel(**arrays(), device="abacus"),
        lambda: kernel(**arrays(), device="sim", options=LaunchOptions(sim.Options(step_limit=1))),
        lambda: kernel(**arrays(), device="sim", options=3),
    ]
    for call in calls:
        with pytest.raises(OWN) as raised:
            call()
        found.append(raised.value)
    return found


def test_errors_travel_between_processes() -> None:
    """Through a pool of workers they come pickled; one that cannot be restored hangs the pool."""
    for error in errors():
        for again in (pickle.loads(pickle.dumps(error)), copy.copy(error)):
            assert type(again) is type(error) and str(again) == str(error)
            assert sorted(vars(again)) == sorted(vars(error))


EMPTY = ".version 8.8\n.target sm_90a\n.address_size 64\n.visible .entry k(.param .u64 a, .param .u32 n) { ret; }\n"


@pytest.mark.parametrize("value", ODD, ids=ids)
def test_simulator(value: Any) -> None:
    answers(lambda: sim.launch(value))
    given = {"grid": 1, "block": 32, "arguments": [np.zeros(4, np.float32), 3]}
    for name in ("grid", "block", "cluster", "kernel", "dynamic_smem", "arguments", "allocations", "options", "cooperative"):
        answers(lambda name=name: sim.launch(EMPTY, **{**given, name: value}))  # type: ignore[misc]
        answers(lambda name=name: sim.launch(EMPTY, **{**given, name: [value]}))  # type: ignore[misc]
