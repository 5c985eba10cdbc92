"""A prediction in the words of the source: what bounds each main loop, and what would help."""

from math import ceil

from pipec.predict.events import Step
from pipec.predict.launch import MainLoop
from pipec.record import record

_ALL = 0.97  # of the period: an engine so busy is the bound
_WORTH = 0.01  # a gain below it is not told


@record
class Finding:
    """`bound`: "products", "copies", "issue", "work" or "stages". `enough`: the fewest stages with which the next bound is met; None
    where stages are not the question. `gain`: how much faster the loop is then, as a part."""

    bound: str
    sentence: str
    enough: int | None
    gain: float


def finding(loop: MainLoop) -> Finding:
    """What sets the pace of the loop."""
    ring, stages, period = loop.pipeline.name, loop.pipeline.stages, loop.period
    engine, most = max(loop.engines.items(), key=lambda item: item[1])
    trip = period * stages  # what a stage needs from its load to the next one, if that is what everybody waits for
    if most >= _ALL * period:
        return Finding(engine.partition(" ")[0], _busy(loop, engine, most), None, 0.0)
    enough = max(stages + 1, ceil(trip / most)) if most else stages + 1
    gain = period / most - 1 if most else 0.0
    way = " -> ".join(dict.fromkeys(_actor(step) for step in loop.path if _actor(step)))
    sentence = f"bound by the stages of `{ring}`: {stages} cover {stages * most:,.0f} of the {trip:,.0f} cycles of {way}"
    if gain > _WORTH:
        sentence += f"; {enough} would do ({gain:+.0%})"
    return Finding("stages", sentence, enough, gain)


def _busy(loop: MainLoop, engine: str, cycles: float) -> str:
    kind, _, role = engine.partition(" ")
    match kind:
        case "products":
            return f"bound by the tensor cores, which are busy all the time ({cycles:,.0f} cycles a stage)"
        case "copies":
            return f"bound by the copy engine, which takes {cycles:,.0f} cycles for a stage"
        case "issue":
            spent = f"{cycles:,.0f} cycles of TMA instructions a stage"
            return f"bound by the one thread of `{role}` that issues {spent}; wider boxes need fewer"
        case _:
            return f"bound by the threads of `{role}`, which work {cycles:,.0f} cycles a stage"


def _actor(step: Step) -> str:
    match step.reason.kind:
        case "issue" | "multiply" | "work":
            return f"`{step.reason.where}`"
        case "walk":
            return "copy"
        case "latency":
            return "memory"
        case _:
            return ""
