"""setmaxnreg takes from the pool that the launch gave the CTA, and waits when it is too small."""

import numpy as np
import pytest

import pipec
from pipec.sim import Options, SimulationError, launch
from pipec.sim.machine.practice import Rules

KERNEL = """
kernel scale(x: tensor[f32, M, N], y: tensor[f32, M, N]):
    grid(ceildiv(M, 128))
    ring = InputTilePipeline(TilePayload(x=tile[f32, 128, 32]), stages=2)
    role load(warps=1{LOAD}) produces ring:
        for k in range(ceildiv(N, 32)):
            with ring.produce() as s:
                tma.load(s.x, x[block.x * 128, k * 32])
    role compute(warps=4, registers={COMPUTE}) consumes ring:
        for k in range(ceildiv(N, 32)):
            with ring.consume() as s:
                store(y[block.x * 128, k * 32], s.x * 2.0)
"""


def run(load: int | None, compute: int) -> np.ndarray:
    text = KERNEL.replace("{LOAD}", f", registers={load}" if load else "").replace("{COMPUTE}", str(compute))
    x, y = np.ones((128, 64), np.float32), np.zeros((128, 64), np.float32)
    pipec.compile(text, arch="sm_90a", unchecked=True)["scale"](x, y, device="sim")
    return y


def test_what_one_role_gives_back_another_takes() -> None:
    assert (run(40, 256) == 2).all()


def test_more_than_the_pool_is_waited_for_in_vain() -> None:
    with pytest.raises(SimulationError, match="256 registers per thread, where the other warps leave 2") as caught:
        run(None, 256)
    assert caught.value.kind == "deadlock"
    (entry, *_) = [entry for entry in caught.value.details["blocked"] if entry["kind"] == "registers"]
    assert entry["role"] == "compute"


def test_the_check_knows_the_pool() -> None:
    """8 warps start with 248 registers a thread, 63,488 in all: less than the 65,536 of the register file."""
    text = KERNEL.replace("{LOAD}", "").replace("{COMPUTE}", "256")
    (diagnostic,) = pipec.check(text, arch="sm_90a")
    assert diagnostic.code == "E0706" and "add up to 64512, but a block starts with 63488" in diagnostic.title


# The elected lane of a warp gives back registers, and the others leave at once, or wait for it.
ELECTED = """.version 8.6\n.target sm_90a\n.address_size 64
.entry k(.param .u64 out) .maxntid 128 {{ .reg .pred %p; .reg .b32 %t; .reg .b64 %o; ld.param.u64 %o, [out]; mov.u32 %t, %laneid;
  setp.ne.u32 %p, %t, 0;
  @%p bra OTHERS;
  setmaxnreg.dec.sync.aligned.u32 40;
  st.global.u32 [%o], 7;
OTHERS: {others} ret; }}"""


def test_registers_are_given_back_without_lanes_that_exit() -> None:
    out = np.zeros(1, np.uint32)
    result = launch(ELECTED.format(others=""), "k", grid=1, block=32, arguments=[out], options=Options(rules="practice"))
    assert out[0] == 7 and result.relied_on == ["registers set without lanes that exit"]


@pytest.mark.parametrize(("others", "rules"), [("", "documents"), ("bar.sync 0;", "practice"), ("bar.sync 0;", "documents")])
def test_registers_that_some_lanes_set(others: str, rules: Rules) -> None:
    with pytest.raises(SimulationError, match="but only (1|31) of 32 live lanes"):
        launch(
            ELECTED.format(others=others), "k", grid=1, block=32, arguments=[np.zeros(1, np.uint32)], options=Options(rules=rules)
        )
