"""The effect on the hardware of a stage that is handed over too often, too early, or never."""

from pipec.diag.shown import counted
from pipec.vocabulary import Side


def leak(side: Side, pipeline: str, stages: int, looped: bool) -> str:
    """The effect on the hardware of a stage that is not released."""
    if side == "producer":
        return f"the stage is never handed over: the consumers of `{pipeline}` wait for it for ever"
    where = f"in iteration {stages + 1}" if looped else f"at its {_ordinal(stages + 1)} fill"
    return f"the slot stays full for ever: with {counted(stages, 'stage')} the producer of `{pipeline}` blocks {where}"


def other_path_leak(side: Side, pipeline: str, stages: int, looped: bool) -> str:
    """The same when only one of two paths releases."""
    text = leak(side, pipeline, stages, looped)
    if side == "producer":
        return f"on the other path {text}"
    return text.replace("the slot stays full", "the other path leaves its slot full")


def overrun(side: Side, pipeline: str) -> str:
    """What a use after the hand-over may encounter."""
    if side == "producer":
        return f"the consumers of `{pipeline}` may already be reading this slot"
    return f"the producer of `{pipeline}` may already be overwriting this slot"


def second_phase(side: Side, pipeline: str) -> str:
    """The effect of a second signal."""
    if side == "producer":
        return f"the second signal completes the next phase of the full barrier: a consumer of `{pipeline}` reads a slot that nobody filled"
    return (
        f"the second signal completes the next phase of the empty barrier: the producer of `{pipeline}` overwrites a slot in use"
    )


def unused(side: Side, pipeline: str) -> str:
    """The effect of a stage that is not accessed."""
    if side == "producer":
        return f"the consumers of `{pipeline}` read whatever the slot held before"
    return f"the data that the producer put into this stage of `{pipeline}` is dropped"


def role_ends(role: str, stage: str) -> str:
    return f"role `{role}` ends here, and `{stage}` is still held"


def iteration_ends(stage: str) -> str:
    return f"each iteration of this loop ends with `{stage}` still held"


def branch_ends(stage: str) -> str:
    return f"this branch ends with `{stage}` still held"


def _ordinal(number: int) -> str:
    suffix = "th" if number % 100 in (11, 12, 13) else {1: "st", 2: "nd", 3: "rd"}.get(number % 10, "th")
    return f"{number}{suffix}"
