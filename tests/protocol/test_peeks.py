"""A look at a stage without waiting reads one bit, too: it has to come when the phase before is known to be complete."""

import pytest
from verify.interpret import run

from pipec.driver import Options, compile_source
from pipec.source import Source
from pipec.verify.network import Wait
from pipec.verify.reader.read import read

TEXT = """
kernel in_turn[STAGES: int = 1](x: tensor[f32, M, 32], y: tensor[f32, M, 32], n: i32):
    assume(n * 128 == M)
    grid(1)
    input = InputTilePipeline(TilePayload(x=tile[f32, 64, 32]), stages=STAGES)
    turn = ProducerConsumerPipeline(stages=1)
    back = ProducerConsumerPipeline(stages=1)

    role load(warps=1) produces input:
        for t in range(2 * n):
            with input.produce() as s:
                tma.load(s.x, x[t * 64, 0])

    role ping(warps=4) consumes input, back produces turn:
        for t in range(n):
            with turn.produce():
                with input.consume() as s:
                    store.direct(y[t * 128, 0], s.x)
            with back.consume():
                pass
            input.skip()

    role pong(warps=4) consumes input, turn produces back:
        for t in range(n):
            input.skip()
{look}
            input.wait_producer_if_needed(ready)
            store.direct(y[t * 128 + 64, 0], input.payload.x[input.consumer_stage()])
            arrive(input.consumer_mbar(input.consumer_stage()))
            input.consumer_step()
            with back.produce():
                pass
"""
TURN = ("with turn.consume():", "    pass")
LOOK = ("ready = input.try_acquire_consumer()",)


def outcome(lines: tuple[str, ...], stages: int) -> tuple[str, str]:
    text = TEXT.format(look="\n".join(f"{'':12}{line}" for line in lines))
    state = compile_source(Source("k.pipe", text), Options(constants={"STAGES": stages}), "prove")
    codes = ", ".join(dict.fromkeys(one.code for one in state.diagnostics))
    return ("" if state.failed else next(iter(state.protocol.values())).outcome), codes


@pytest.mark.parametrize("stages", [1, 2, 3])
def test_a_look_behind_the_turn_is_right(stages: int) -> None:
    assert outcome((*TURN, *LOOK), stages) == ("proved", "")


@pytest.mark.parametrize("stages", [2, 3])
def test_so_is_one_before_the_turn_at_a_slot_that_the_role_itself_has_taken_before(stages: int) -> None:
    assert outcome((*LOOK, *TURN), stages) == ("proved", "")


def test_one_before_the_turn_at_the_slot_of_the_other_role_is_wrong() -> None:
    """The other role may not have come to that slot yet: its bit seems to say that the stage is filled."""
    assert outcome((*LOOK, *TURN), 1) == ("", "E0606")


@pytest.mark.parametrize("turns", [0, 1, 3])
def test_a_look_is_in_the_network_and_waits_for_nothing(turns: int) -> None:
    text = TEXT.format(look="\n".join(f"{'':12}{line}" for line in (*TURN, *LOOK)))
    state = compile_source(Source("k.pipe", text), Options(), "prove")
    assert state.ptx is not None
    network = read(state.ptx)
    waits = [one.action for process in network.processes for one in process.states if isinstance(one.action, Wait)]
    assert sum(one.peeks for one in waits) == 1
    run(network, {"in_turn_scalar_n": turns, "in_turn_dim_M": 128 * turns})
