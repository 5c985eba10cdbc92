"""Operand A of wgmma in registers: every operand type, every way in, and what is in flight meanwhile."""

import re
from functools import cache

import numpy as np
import pytest
from lower.register_kernels import OPERAND_BODIES, operand_arguments, operand_expected, operand_runs, operand_source

import pipec
from pipec.api.program import Program
from pipec.runtime import LaunchOptions, launch
from pipec.sim import Options, SimulationError

Constants = dict[str, object]


@cache
def _compiled(name: str, constants: tuple[tuple[str, object], ...]) -> Program:
    return pipec.compile(operand_source(name), arch="sm_90a", constants=dict(constants))


def compiled(name: str, constants: Constants | None = None) -> Program:
    return _compiled(name, tuple((constants or {}).items()))


def run(name: str, constants: Constants, timing: str) -> None:
    kernel = compiled(name, constants)["gemm"]
    given = operand_arguments(constants, 136, 64 if name == "from_the_product" else 72, 3)
    kernel(**given, device="sim", options=LaunchOptions(simulation=Options(timing=timing, seed=5)))
    assert np.array_equal(given["d"], operand_expected(name, constants, given))


@pytest.mark.sample(0.01, of="name")
@pytest.mark.combinations(0.35)
@pytest.mark.parametrize(("name", "constants"), operand_runs(), ids=str)
def test_operands_in_registers(name: str, constants: Constants) -> None:
    run(name, constants, "late")


@pytest.mark.parametrize("timing", ["order", "random"])
@pytest.mark.parametrize("name", OPERAND_BODIES)
def test_whatever_the_timing(name: str, timing: str) -> None:
    run(name, {}, timing)


def ptx(name: str) -> str:
    return compiled(name).ptx


def test_a_tile_read_only_by_mmas_is_kept_only_as_the_operand() -> None:
    assert re.findall(r"\.reg \.b32 +(%op\d+_<\d+>)", ptx("carried")) == ["%op1_<16>"]
    assert re.findall(r"\.reg \.b32 +(%op\d+_<\d+>)", ptx("read_again")) == ["%op1_<16>", "%op2_<16>"]


WAIT = re.compile(r"\twgmma\.wait_group\.sync\.aligned \d+;\n")


@pytest.mark.parametrize("name", OPERAND_BODIES)
def test_without_its_waits_every_kernel_races(name: str) -> None:
    """The simulator names registers that are touched while wgmma works on them."""
    program = compiled(name)
    broken = WAIT.sub("", program.ptx)
    assert broken != program.ptx
    given = operand_arguments({}, 128, 64, 2)  # no more blocks than stages, so that none is overwritten meanwhile
    with pytest.raises(SimulationError) as caught:
        launch(program["gemm"].interface, broken, given, device="sim", options=LaunchOptions(simulation=Options("order")))
    assert caught.value.kind == "race"
    assert "while the wgmma" in caught.value.message


ORDERS = """
kernel orders(a: tensor[bf16, M, K], b: tensor[bf16, N, K], d: tensor[f32, M, N]):
    grid(1)
    left = InputTilePipeline(TilePayload(a=tile[bf16, 64, 64]), stages=2)
    right = InputTilePipeline(TilePayload(b=tile[bf16, 64, 64]), stages=2)

    role load(warps=1) produces left, right:
        with left.produce() as s:
            tma.load(s.a, a[0, 0])
        with right.produce() as s:
            tma.load(s.b, b[0, 0])

    role compute(warps=4) consumes left, right:
        first = accumulator(f32, 64, 64)
        second = accumulator(f32, 64, 64)
        p = left.acquire_consumer()
        q = right.acquire_consumer()
        mma(first, p.a, q.b)
        mma(second, p.a, q.b)
        store.direct(d[0, 0], first)
        p.release()
        q.release()
        store.direct(d[0, 64], second)
"""


def test_a_wait_leaves_in_flight_what_it_does_not_need() -> None:
    found = re.findall(r"wgmma.(mma_async|wait_group.sync.aligned \d|commit_group)", pipec.compile(ORDERS, arch="sm_90a").ptx)
    steps = [word for word in found if word != "mma_async"]
    assert steps == ["commit_group", "commit_group", "wait_group.sync.aligned 1", "wait_group.sync.aligned 0"]
