"""Stages that are filled and taken where a loaded number says so: of any type, also a float, of which only comparisons are known."""

import ml_dtypes
import numpy as np
import pytest

import pipec
from pipec.driver import Options, compile_source
from pipec.runtime import LaunchOptions
from pipec.sim import Options as Simulation
from pipec.source import Source
from tests.protocol.test_refute import told

KERNEL = """
kernel gated(x: tensor[f32, M, 64], gate: tensor[{kind}, E], y: tensor[f32, M, 64]):
    grid(ceildiv(M, 32))
    ring = InputTilePipeline(TilePayload(x=tile[f32, 32, 64]), stages=2)

    role fetch(warps=1) produces ring:
        for e in range(E):
            if {filled}:
                with ring.produce() as s:
                    tma.load(s.x, x[block.x * 32, 0])

    role add(warps={warps}) consumes ring:
        total = registers(fill(0.0, f32, 32, 64))
        for e in range(E):
            if {taken}:
                with ring.consume() as s:
                    total = total + s.x * cast[f32](e + 1)
        store.direct(y[block.x * 32, 0], total)
"""
LOADED = "load(gate[e])"


def text_of(kind: str, filled: str, taken: str, warps: int = 1) -> str:
    filled, taken = (one.replace("G", LOADED) for one in (filled, taken))
    return KERNEL.format(kind=kind, filled=filled, taken=taken, warps=warps)


@pytest.mark.parametrize(
    ("kind", "filled", "taken"),
    [
        *((kind, "G != 0", "G != 0") for kind in ("u8", "i8", "i16", "u16", "i32", "u32", "i64", "u64")),
        ("i8", "G < 0", "0 > G"),
        ("i64", "cast[i32](G) > 1", "cast[i32](G) > 1"),
        *((kind, "G > 0.25", "G > 0.25") for kind in ("f32", "bf16")),
        ("f32", "G > 0.25", "0.25 < G"),
        ("f32", "G != 0.0", "not G == 0.0"),
        ("f32", "G >= 0.25", "0.25 <= G"),
        ("f32", "bitcast[i32](G) > 7", "bitcast[i32](G) > 7"),
    ],
)
def test_roles_that_ask_the_same_of_a_number_are_proved(kind: str, filled: str, taken: str) -> None:
    state = compile_source(Source("gates.pipe", text_of(kind, filled, taken, 4 if kind[1:] in ("8", "32") else 1)), Options())
    assert told(state) == [] and state.protocol["gated"].outcome == "proved"


@pytest.mark.parametrize(
    ("kind", "filled", "taken"),
    [
        ("f32", "G > 0.25", "G >= 0.25"),
        ("f32", "G > 0.25", "G > 0.5"),
        ("f32", "G > 0.25", "G < 0.25"),
        ("f32", "G > 0.25", "not (G <= 0.25)"),  # a NaN is neither
        ("f32", "G == 0.0", "bitcast[i32](G) == 0"),  # -0.0
        ("f32", "G > 0.25", "load(gate[e + 1]) > 0.25"),
        ("u8", "G != 0", "G != 1"),
        ("i64", "G != 0", "cast[i32](G) != 0"),  # 1 << 32
        ("i64", "G > 0", "cast[i32](G) > 0"),
        ("i8", "G > 0", "G != 0"),
        ("bf16", "G > 0.25", "G >= 0.25"),
    ],
)
def test_roles_that_ask_something_else_of_it_are_not(kind: str, filled: str, taken: str) -> None:
    state = compile_source(Source("gates.pipe", text_of(kind, filled, taken)), Options())
    assert state.failed and {code for code, _ in told(state)} <= {"E0601", "E0602", "E0604"}


def test_a_gate_that_the_kernel_writes_is_not_one_number() -> None:
    store = "store.direct(gate[0], fill(1.0, f32, 1, 1))"
    written = text_of("f32", "G > 0.25", "G > 0.25") + f"        {store}\n"
    assert told(compile_source(Source("gates.pipe", written), Options())) != []


@pytest.mark.parametrize(
    ("kind", "dtype"), [("u8", np.uint8), ("i64", np.int64), ("bf16", ml_dtypes.bfloat16), ("f32", np.float32)]
)
def test_what_is_added_where_the_gate_is_open(kind: str, dtype: type) -> None:
    condition = "G > 0.25" if kind in ("bf16", "f32") else "G != 0"
    x = np.random.default_rng(1).integers(-3, 4, (40, 64)).astype(np.float32)
    gate, y = np.array([1, 0, 0, 5, 1], dtype), np.zeros((40, 64), np.float32)
    kernel = pipec.compile(text_of(kind, condition, condition, 4))["gated"]
    kernel(x, gate, y, device="sim", options=LaunchOptions(simulation=Simulation(timing="random", seed=3)))
    assert np.array_equal(y, x * (1 + 4 + 5))
