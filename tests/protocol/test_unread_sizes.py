"""A size that no thread reads says how many blocks there are: what `assume` says of it decides whether roles wait for ever."""

import numpy as np
import pytest

from pipec.driver import Options, compile_source
from pipec.protocol.refuting import tried
from pipec.source import Source

# T is only in tensor maps, and in the grid. The consumer takes the first stage whatever the sizes are.
KERNEL = """
kernel k(x: tensor[f32, S, 64], y: tensor[f32, T, 64]):
    grid(ceildiv(T, 128))
    assume({condition})
    ring = InputTilePipeline(TilePayload(x=tile[f32, 128, 64]), stages=2)

    role load(warps=1) produces ring:
        for i in range(block.x, ceildiv(S, {step})):
            with ring.produce() as s:
                tma.load(s.x, x[i * 128, 0])

    role add(warps=4) consumes ring:
        s = ring.acquire_consumer()
        total = registers(s.x)
        s.release()
        for i in range(block.x + 1, ceildiv(S, {step})):
            with ring.consume() as s:
                total = total + s.x
        store(y[block.x * 128, 0], total)
"""
CONDITIONS = {
    ("T <= S", 128): "proved",
    ("T + 128 <= S", 128): "proved",
    ("2 * T <= S", 128): "proved",
    ("ceildiv(T, 128) <= ceildiv(S, 128)", 128): "proved",
    ("T <= S", 64): "proved",
    ("S > 0", 128): "E0601",
    ("T <= S + 64", 128): "E0601",
    ("T <= S + 1", 128): "E0601",
    ("T <= 2 * S", 128): "E0601",
    ("T <= S", 256): "E0601",
}


@pytest.mark.parametrize(("condition", "step"), CONDITIONS)
def test_the_size_decides(condition: str, step: int) -> None:
    state = compile_source(Source("k.pipe", KERNEL.format(condition=condition, step=step)), Options())
    said = {one.code for one in state.diagnostics} or {"proved"}
    assert said == {CONDITIONS[condition, step]}


def test_the_search_for_their_values_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """Conditions on a dozen of them, which no small values meet."""
    asked: list[None] = []
    holds = tried.holds
    monkeypatch.setattr(tried, "holds", lambda fact, numbers: asked.append(None) or holds(fact, numbers))
    names = [f"T{number}" for number in range(12)]
    stores = "".join(f"        store(y{number}[block.x * 128, 0], total)\n" for number in range(12))
    text = KERNEL.format(
        condition=f"{' + '.join(names)} >= 1000000 and T1 + T2 > 100 + S and T3 > S", step="128) + ceildiv(A, 96"
    )
    text = text.replace("y: tensor[f32, T, 64]", ", ".join(f"y{name[1:]}: tensor[f32, {name}, 64]" for name in names))
    text = text.replace("y[block.x * 128, 0]", "y0[block.x * 128, 0]").replace("grid(ceildiv(T, 128))", "grid(ceildiv(T0, 128))")
    text = text.replace("x: tensor", "a: tensor[f32, A, 64], x: tensor") + stores
    state = compile_source(Source("k.pipe", text), Options())
    assert {one.code for one in state.diagnostics} == {"E0604"}
    assert len(asked) < 100_000


def test_a_launch_is_checked() -> None:
    import pipec

    program = pipec.compile(KERNEL.format(condition="T <= S", step=128))
    x, y = np.ones((300, 64), np.float32), np.zeros((300, 64), np.float32)
    program["k"](x, y)
    assert y[0, 0] == 3 and y[299, 0] == 1
    with pytest.raises(Exception, match="S >= T"):
        program["k"](x, np.zeros((400, 64), np.float32))
