"""A prediction in terms of the source: what bounds each main loop, and what would help."""

from collections.abc import Iterator
from math import ceil

from pipec.predict.following.events import Busy, Engine, Step, Why
from pipec.predict.following.main_loops import MainLoop
from pipec.record import record

_ALL = 0.97  # of the period: an engine this busy is the bound
_MOSTLY = 0.9  # of the period: threads working this long, or such steps on the critical path, are the bound
_WORTH = 0.01  # smaller gains are not reported


@record
class Tried:
    """The result with another number of stages: the `setting` for it (None if there is no room for more), cycles per stage of the loop
    (None if it is too short to have a pace), and the relative speed-up of the launch."""

    setting: str | None
    period: float | None
    gain: float


@record
class Finding:
    """`bound`: the engine, or "stages" where it is latency that they do not cover. `enough`: the smallest number of stages
    with which the next bound is reached; None if stages are not the bound. `gain`: the relative speed-up of the loop by the proposed
    change; an upper bound if it has not been tried."""

    bound: str
    sentence: str
    enough: int | None
    gain: float


def finding(loop: MainLoop, tried: Tried | None = None) -> Finding:
    """What determines the pace of the loop. `tried`: the result with enough stages, or as many as there is room for."""
    ring, stages, period = loop.pipeline.name, loop.pipeline.stages, loop.period
    engines = _engines(loop)
    engine, most = max(engines.items(), key=lambda item: item[1])
    if (
        most >= (_MOSTLY if engine.engine in (Engine.WORK, Engine.SCHEDULERS) else _ALL) * period
    ):  # threads that alternate always leave gaps
        return _busy(loop, engines, engine, most)
    worked = sum(step.cycles for step in loop.path if step.reason.kind is Why.WORK)
    if worked >= _MOSTLY * period:
        roles = sorted({step.reason.where for step in loop.path if step.reason.kind is Why.WORK})
        said = f"bound by what the threads of {listed(roles)} do one after the other: {worked:,.0f} cycles a stage"
        return Finding(Engine.WORK, said, None, 0.0)
    multiplied = sum(
        step.cycles for step in loop.path if step.reason.kind is Why.MULTIPLY or step.reason == (Why.LATENCY, loop.role)
    )
    if worked and worked + multiplied >= _MOSTLY * period:
        said = f"bound by what warpgroups do one after the other: products, {multiplied:,.0f} cycles a stage"
        return Finding(Engine.WORK, f"{said}, and the work of their threads on them, {worked:,.0f}", None, 0.0)
    trip = period * stages  # the time that a stage needs from one load to the next, if it is the critical cycle
    enough = max(stages + 1, ceil(trip / most)) if most else stages + 1
    gain = period / most - 1 if most else 0.0
    cover = "covers" if stages == 1 else "cover"
    sentence = (
        f"{_way(loop)} over `{ring}`: {_counted(stages, 'stage')} {cover} {stages * most:,.0f} of {trip:,.0f} cycles of latency"
    )
    if gain <= _WORTH:
        return Finding("stages", sentence, enough, gain)
    if tried is None:
        return Finding("stages", f"{sentence}; {enough} would do (at most {gain:+.0%})", enough, gain)
    if tried.setting is None:
        return Finding("stages", f"{sentence}; {enough} would do, but there is no room for more in shared memory", enough, 0.0)
    if tried.gain < _WORTH:
        launch = "no faster" if tried.gain > -_WORTH else f"slower ({tried.gain:+.0%})"
        return Finding("stages", f"{sentence}; with {tried.setting} the launch would be {launch}", enough, 0.0)
    faster = period / tried.period - 1 if tried.period else gain
    does = "would do" if faster > _MOSTLY * gain else "would help"
    gained = f"{faster:+.0%}, the launch {tried.gain:+.0%}" if faster > _WORTH else f"the launch {tried.gain:+.0%}"
    return Finding("stages", f"{sentence}; {tried.setting} {does} ({gained})", enough, faster)


def _engines(loop: MainLoop) -> dict[Busy, float]:
    """Box processing counts as one engine, whether limited by the engine or by the L2; the schedulers count if several roles share them."""
    engines = dict(loop.engines)
    shared = Busy(Engine.SCHEDULERS)
    if engines.get(shared, 0.0) <= max((cycles for one, cycles in engines.items() if one.engine is Engine.WORK), default=0.0):
        engines.pop(shared, None)
    walking = {one: engines.pop(one) for one in (Busy(Engine.COPIES), Busy(Engine.L2)) if one in engines}
    if walking:
        engines[max(walking, key=walking.__getitem__)] = sum(walking.values())
    return engines


def _busy(loop: MainLoop, engines: dict[Busy, float], busy: Busy, cycles: float) -> Finding:
    gain, role = 0.0, busy.role
    match busy.engine:
        case Engine.PRODUCTS:
            said = f"bound by the tensor cores, which are busy all the time: {cycles:,.0f} cycles a stage"
        case Engine.COPIES:
            said = (
                f"bound by the copy engine, which walks the rows of a stage's boxes in {cycles:,.0f} cycles; fewer rows need less"
            )
        case Engine.L2:
            said = (
                f"bound by what the L2 gives a multiprocessor when all load: {cycles:,.0f} cycles a stage; larger tiles need less"
            )
        case Engine.SERVED:
            said = f"bound by the L2, which gives out the data of all multiprocessors: {cycles:,.0f} cycles a stage"
            said += "; larger tiles, or clusters that share them, need less"
        case Engine.ISSUE:
            next_bound = max([cycles / 2, *(other for one, other in engines.items() if one != busy)])
            gain = cycles / next_bound - 1
            each = cycles / max(1.0, loop.instructions)
            count = _counted(round(loop.instructions), "TMA instruction")
            said = f"bound by the issue of one thread of `{role}`: {count} of {each:,.0f} cycles a stage"
            said += f"; half as many, of wider boxes, would do ({gain:+.0%})" if loop.instructions >= 2 else ""
        case Engine.SCHEDULERS:
            roles = sorted(one.role for one, each in engines.items() if one.engine is Engine.WORK and each > _WORTH * cycles)
            said = f"bound by the threads of {listed(roles)}, which share the schedulers and work {_most(cycles, loop)} together"
        case _:
            said = f"bound by the threads of `{role}`, which work {_most(cycles, loop)}"
    return Finding(busy.engine, said, None, gain)


def _most(cycles: float, loop: MainLoop) -> str:
    """With the period, if that is longer: the rest are gaps in which they wait for each other or for data."""
    return f"{cycles:,.0f} cycles a stage" if cycles >= _ALL * loop.period else f"{cycles:,.0f} of these cycles"


def listed(names: list[str]) -> str:
    *others, last = [f"`{name}`" for name in names]
    return f"{', '.join(others)} and {last}" if others else last


def _counted(count: int, what: str) -> str:
    return f"{count} {what}" + ("" if count == 1 else "s")


def _way(loop: MainLoop) -> str:
    """The critical cycle, from the loading role back to it."""
    actors = [actor for step in loop.path for actor in _actors(step, loop)]
    others = list(dict.fromkeys(actor for actor in actors if actor != loop.loader)) or [loop.role]
    return " -> ".join(f"`{name}`" for name in (loop.loader, *others, loop.loader))


def _actors(step: Step, loop: MainLoop) -> Iterator[str]:
    match step.reason.kind:
        case Why.ISSUE | Why.MULTIPLY | Why.WORK:
            yield step.reason.where
        case Why.LATENCY | Why.WALK if step.reason.where == loop.pipeline.name:
            yield loop.loader
        case _:
            pass
