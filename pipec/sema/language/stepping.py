"""Rows of the operation table: peeks and explicit barriers (waits, steps, indices, barriers of a stage, declared counts)."""

from pipec.sema.language.operation import (
    CONSUMER_VIEW,
    EMPTY,
    EPILOGUE_LOAD,
    FULL,
    INPUT,
    PRODUCER_VIEW,
    RING,
    ActionName,
    Operation,
)
from pipec.vocabulary import Side

_BY_HAND = (RING, INPUT, EPILOGUE_LOAD)
_WITHOUT_TILES = (RING, EPILOGUE_LOAD)  # nothing has to be filled or read between wait and step


def _sides(side: Side, other: str) -> tuple[Operation, ...]:
    """The operations of a producer or a consumer: `side` names it, `other` the side it waits for."""
    waits, signals = (EMPTY, "full") if side == "producer" else (FULL, "empty")
    goal = "free" if side == "producer" else "filled"
    view = PRODUCER_VIEW if side == "producer" else CONSUMER_VIEW

    def row(name: str, arguments: str, action: ActionName, document: str, waits: str = "-", stage: str = "-") -> Operation:
        return Operation(
            name, _BY_HAND, f"{name}({arguments})", action, side, waits=waits, stage=stage, page="S0", document=document
        )

    peek = f"tests, without waiting, whether the next stage is {goal}; exactly one wait uses the result"
    waited = f"the {side} waits for its next stage, which is current until {side}_step()"
    return (
        row(f"try_acquire_{side}", "", "peek", peek),
        row(f"try_wait_{other}", "", "peek", f"as try_acquire_{side}()"),
        row(f"wait_{other}_if_needed", "ready", "wait_if_needed", f"completes a {side}'s peek: waits only if the stage was not ready",
            waits=waits, stage="obtains"),
        row(f"wait_{other}", "", "wait", waited, waits=waits, stage="obtains"),
        row(f"{side}_step", "", "step", "goes on to the next stage; the signal was given before, or comes from copies",
            stage="releases"),
        row(f"{side}_stage", "", "current_stage", "the number of the current stage: picks a slot or a barrier"),
        row(f"{side}_mbar", "stage", "stage_barrier", f"the {signals} barrier of the current stage; `stage` may be left out"),
        Operation(f"{side}_signal_and_step", _WITHOUT_TILES, f"{side}_signal_and_step()", "signal_and_step", side, None, waits,
                  f"{signals}, every thread", "obtains and releases", "S0",
                  f"waits, arrives on the {signals} barrier and steps, to throttle"),
        Operation("try_acquire", (view,), "try_acquire()", "peek", side, page="S2", document=f"as try_acquire_{side}()"),
        Operation("acquire_if_needed", (view,), "acquire_if_needed(ready)", "acquire_if_needed", side, "either", waits, "-", "obtains",
                  "S2", "completes a peek and gives the stage: to be named and released, or for the length of a `with`"),
    )  # fmt: skip


STEPPING = (
    *_sides("producer", "consumer"),
    *_sides("consumer", "producer"),
)  # fmt: skip

STEPPING_FREE = (
    Operation("cp.async", ("",), "cp.async(tile, tensor[i])", "copy_async", signals="full, by each thread's copies",
              document="a run of a 1-D tensor into a tile of one row, by the role's own threads, without waiting; outside the tensor 0"),
    Operation("arrive", ("",), "arrive(stage.mbar())", "arrive_on", signals="each calling thread", stage="signals", page="S0",
              document="an arrival on the barrier of a held stage, `p.consumer_mbar(stage)` say"),
)  # fmt: skip
