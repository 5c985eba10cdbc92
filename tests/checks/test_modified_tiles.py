"""Two consumers of a tile in tensor memory, each of which reads it, modifies it or multiplies by it: refused where they race."""

from itertools import product

import numpy as np
import pytest

from pipec.driver import Options, compile_source
from pipec.runtime import LaunchOptions, launch
from pipec.sim import Options as Simulation
from pipec.sim import SimulationError
from pipec.source import Source

KERNEL = """
kernel k(x: tensor[f32, 128, 32], b: tensor[f32, 64, 32], y: tensor[f32, 128, 32], z: tensor[f32, 128, 32], d: tensor[f32, 128, 64]):
    grid(1)
    p = RolePipeline(stages=1)
    t = TensorTiles(tmem[{dtype}, 128, 32], count=1)
    q = InputTilePipeline(TilePayload(b=tile[{dtype}, 64, 32]), stages=1)
    o = OutputTilePipeline(tmem[f32, 128, 64], stages=1)
    role fill(warps=4) produces p:
        p.acquire()
        write(t[p.index()], cast[{dtype}](load(x[0, 0], 128, 32)))
        p.commit()
"""
READS = "        store.direct({out}[0, 0], cast[f32](t[p.index()]))\n"
MODIFIES = "        write(t[p.index()], cast[{dtype}](load(x[0, 0], 128, 32) * 2.0))\n"
USES = {"reads": READS, "modifies": MODIFIES, "both": MODIFIES + READS}
MULTIPLIES = """
    role factor(warps=4) produces q:
        with q.produce() as s:
            write(s.b, cast[{dtype}](load(b[0, 0], 64, 32)))
    role multiply(warps=1) consumes p, q produces o:
        with o.produce() as acc:
            p.wait()
            with q.consume() as s:
                mma(acc, t[p.index()], s.b)
            p.release()
    role sums(warps=4) consumes o:
        with o.consume() as acc:
            store.direct(d[0, 0], acc)
"""


def kernel(first: str, second: str) -> str:
    dtype = "bf16" if "multiplies" in (first, second) else "f32"
    text = KERNEL
    for name, use, out in (("first", first, "y"), ("second", second, "z")):
        if use in USES:
            body = USES[use].replace("{out}", out)
            text += f"    role {name}(warps=4) consumes p:\n        p.wait()\n{body}        p.release()\n"
    if "multiplies" in (first, second):
        text += MULTIPLIES
    else:
        text = "\n".join(line for line in text.split("\n") if not line.lstrip().startswith(("q = ", "o = ")))
    return text.format(dtype=dtype)


@pytest.mark.parametrize(("first", "second"), [*product(USES, ["nothing", *USES, "multiplies"])])
def test_a_tile_is_modified_only_where_no_other_role_uses_it(first: str, second: str) -> None:
    """What is refused for that races in the simulator, and nothing else does."""
    text = kernel(first, second)
    codes = {one.code for one in compile_source(Source("k.pipe", text), Options("sm_100a")).diagnostics}
    assert codes <= {"E0424"}, codes
    state = compile_source(Source("k.pipe", text), Options("sm_100a", unchecked=True))
    assert state.plans is not None and state.ptx is not None
    arguments = {name: np.ones((64 if name == "b" else 128, 64 if name == "d" else 32), np.float32) for name in "xbyzd"}
    raced = False
    try:
        launch(state.plans[0].interface, state.ptx, arguments, device="sim", options=LaunchOptions(Simulation(timing="late")))
    except SimulationError as error:
        assert error.kind == "race"
        raced = True
    assert raced == (codes == {"E0424"})
