"""What a kernel says in a few lines costs a few lines' work: names stand for expressions that share their parts, loops for their bodies."""

import pytest

from pipec.driver import Compilation, Options, compile_source
from pipec.source import Source

_TILES = """kernel k(a: tensor[f32, M, K], b: tensor[f32, M, K], n: i32):
    grid(1)
    ring = InputTilePipeline(TilePayload(x=tile[f32, 32, 32]), stages=2)
    role load(warps=1) produces ring:
        with ring.produce() as s:
            tma.load(s.x, a[0, 0])
    role compute(warps=1) consumes ring:
        with ring.consume() as s:
"""
_SCALARS = "kernel k(a: tensor[f32, M, K], n: i32):\n    grid(2)\n    cluster(2)\n    role r(warps=1):\n"
_DEPTH = 40  # at which a walk over every path would never end


def compiled(text: str) -> Compilation:
    state = compile_source(Source("shared.pipe", text), Options(allow_undecided=True))
    assert "E0001" not in [diagnostic.code for diagnostic in state.diagnostics], state.diagnostics
    return state


@pytest.mark.parametrize(
    "value",
    ["t + t", "t * t + t", "select(t > 0.0, t, t - 1.0)", "t - row_max(t)", "max(t, -t)", "columns(t, 0, 32) + t", "double(t)"],
)
def test_tiles_that_name_themselves_twice(value: str) -> None:
    lines = "".join(f"            t = {value}\n" for _ in range(_DEPTH))
    state = compiled(
        "fn double(x):\n    return x + x\n" + _TILES + "            t = s.x\n" + lines + "            store(b[0, 0], t)\n"
    )
    assert state.ptx, state.diagnostics


def test_helpers_that_return_a_tile_twice() -> None:
    calls = "double(" * 30 + "s.x" + ")" * 30
    state = compiled("fn double(x):\n    return x + x\n" + _TILES + f"            store(b[0, 0], {calls})\n")
    assert state.ptx, state.diagnostics


@pytest.mark.parametrize("value", ["x{0} * x{0}", "x{0} + x{0}", "min(x{0}, x{0} * 3)", "(x{0} if x{0} > 3 else x{0} + cta.x)"])
def test_scalars_that_are_read_twice(value: str) -> None:
    lines = "        x0 = n\n" + "".join(f"        x{i + 1} = {value.format(i)}\n" for i in range(_DEPTH))
    assert compiled(_SCALARS + lines + f"        for i in range(x{_DEPTH}):\n            y = i\n").ptx


def test_bounds_of_loops_that_double() -> None:
    head = "kernel k(n: i32):\n    grid(1)\n    p = ProducerConsumerPipeline(stages=2)\n"
    lines = "        x0 = n\n" + "".join(f"        x{i + 1} = x{i} + x{i}\n" for i in range(_DEPTH))
    loop = f"        for i in range(x{_DEPTH}):\n"
    filled = f"    role a(warps=1) produces p:\n{lines}{loop}            s = p.acquire_producer()\n            s.release()\n"
    emptied = f"    role b(warps=1) consumes p:\n{lines}{loop}            with p.consume() as s:\n                pass\n"
    state = compile_source(Source("shared.pipe", head + filled + emptied), Options(), "prove")
    assert state.plans and "proved" in state.protocol["k"].outcome, state.diagnostics


def test_a_loop_unrolled_without_end() -> None:
    """The budget ends the loop, not each of its iterations."""
    body = "        x = registers(fill(0.0, f32, 32, 32))\n        for i in range(1000000000):\n            y = columns(x, i % 4 * 8, 8)\n"
    state = compiled("kernel k(n: i32):\n    grid(1)\n    role r(warps=1):\n" + body)
    assert [diagnostic.code for diagnostic in state.diagnostics] == ["E0232"]


@pytest.mark.sample(0.5)
@pytest.mark.parametrize("count", [5, 12])
def test_loops_that_fit_no_others(count: int) -> None:
    """Each bound is a size that the search for a deadlock could choose: it takes the smallest first."""
    scalars = ", ".join(f"c{i}: i32" for i in range(count))
    head = f"kernel k({scalars}):\n    grid(1)\n    p = ProducerConsumerPipeline(stages=32)\n"
    filled = "".join(f"        for i in range(c{i}):\n            p.producer_signal_and_step()\n" for i in range(count))
    emptied = "".join(
        f"        for i in range(1, c{i} + 1):\n            p.consumer_signal_and_step()\n" for i in reversed(range(count))
    )
    text = f"{head}    role a(warps=1) produces p:\n{filled}    role b(warps=1) consumes p:\n{emptied}"
    state = compile_source(Source("loops.pipe", text), Options(), "prove")
    assert {diagnostic.code for diagnostic in state.diagnostics} <= {"E0604"}


@pytest.mark.sample(0.5)
@pytest.mark.parametrize("depth", [6, 12])
def test_loops_without_events_are_not_walked_for_ever(depth: int) -> None:
    scalars = ", ".join(f"c{i}: i32" for i in range(depth))
    head = f"kernel k({scalars}):\n    grid(1)\n    p = ProducerConsumerPipeline(stages=4)\n"
    filled = "".join(" " * (8 + i) + f"for k{i} in range(c{i}):\n" for i in range(depth))
    filled += " " * (8 + depth) + "p.producer_signal_and_step()\n"
    emptied = "".join(" " * (8 + i) + f"for k{i} in range(c{depth - 1 - i}):\n" for i in range(depth))
    emptied += " " * (8 + depth) + "p.consumer_signal_and_step()\n"
    text = f"{head}    role a(warps=1) produces p:\n{filled}    role b(warps=1) consumes p:\n{emptied}"
    state = compile_source(Source("loops.pipe", text), Options(), "prove")
    assert [diagnostic.code for diagnostic in state.diagnostics] == ["E0604"]
