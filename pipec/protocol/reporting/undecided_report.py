"""Why a protocol is neither proved nor refuted, in terms of the source: which wait of which role was not decided."""

import re

from pipec.diag.catalogue.stages import protocol as messages
from pipec.diag.message import Message
from pipec.diag.shown import counted
from pipec.interface import BarrierRange, KernelInterface
from pipec.kir.ir import Kernel, run_once
from pipec.kir.plan.roles import operations
from pipec.protocol.judgement import Judgement
from pipec.protocol.reporting.explain import Places, Report, times
from pipec.protocol.reporting.undecided_bounds import SAME_BOUNDS, advice
from pipec.protocol.reporting.undecided_loops import counting_on, leaping
from pipec.protocol.reporting.undecided_votes import by_votes
from pipec.protocol.search.known import WRAPS
from pipec.protocol.search.undecided import STUCK, TOO_LONG, TOO_MANY, UNEVEN, Standing
from pipec.record import record
from pipec.sema import tree
from pipec.source import Span
from pipec.verify.checker.check import MAY_LOOP, OUTCOME_NOT_KNOWN
from pipec.verify.checker.knowledge import PARITY_TAKEN_FOR_ANOTHER
from pipec.verify.network import OPEN, Network

_LINE = re.compile(r"(?:the checker does not accept the proof: )?line (?P<number>\d+): (?P<why>.*)")
# Why the search gave up, for users who do not know how it works.
_GIVEN_UP = {
    STUCK: "the roles seem to wait for each other, but no sizes were found at which they do",
    TOO_LONG: "the search for a proof has taken too long",
    TOO_MANY: "there are too many ways in which the roles can stand to each other",
    UNEVEN: "a pipeline seems to be filled more often than it is given back, but no sizes were found at which it is",
    OUTCOME_NOT_KNOWN: "at some step of the proof it is not known whether this condition holds",
}
_WITHIN_A_SIZE = (
    "decide by numbers that a size bounds, as it does the variable of a `range`, and not by what the turns of a loop add up"
)
_COUNT_THE_TURNS = (
    "count its turns by a `for` whose range is known before it, in the same words in all roles: "
    "for the K blocks from `first` to `last` of all tiles, "
    "`for t in range(first // steps, ceildiv(last, steps)):`, and in it "
    "`for k in range(max(first, t * steps), min(last, t * steps + steps)):`"
)
_DEAL_THE_TILES_OUT = (
    "deal each group's tiles out from a start of their own, `for t in range((block.x - before) % grid.x, tiles, grid.x):` "
    "with `before` tiles in the groups before it"
)
_NEGATIVE_ALIKE = (
    "treat numbers below 0 alike in all roles: clamp what is read to at least 0, `max(..., 0)`, in all of them or in none"
)
_POSITION_IN_THE_GRID = (
    "let the turn be the block's number along axes of the grid, `block.z` of `grid.z` turns, "
    "and let each position along the others have a counter of its own, `counters[block.x, block.y]`"
)
_NO_CLUSTER = "let blocks take turns in a kernel without clusters"
_COUNTERS_APART = "let each have a tensor of counters of its own, or counters at other constant places"
_LOOP_ALIKE = (
    "let the loop have the same bounds in all blocks that share counters, and each iteration a counter of its own; state that steps "
    "above 1 do not lead beyond 32 bits, `assume(n < 2000000000)`; or take one turn, around the loop"
)
_TURN_OF_ALL = "let every block take its turn, also where it has nothing to do, with the condition inside"
_SKIP_WHAT_OTHERS_TAKE = "let each consumer of `{}` skip the stages that the others take, and no more"


@record
class _Stop:
    """Where and why the search stopped; `others`: further waits that may not end."""

    why: str
    at: Span
    advice: str = SAME_BOUNDS
    others: tuple[Span, ...] = ()


def not_decided(ptx: str, kernel: Kernel, interface: KernelInterface, found: Judgement) -> Message:
    """Why the search stopped, at the statement concerned if there is one, and sizes of a run that came close."""
    places = Places(ptx, kernel)
    polls = [line for one in found.network.assumptions if one.kind in OPEN for line in one.lines] if found.network else []
    if found.certificate is not None and polls:
        why, advice = _not_followed(kernel)
        return messages.NotDecided(kernel=kernel.name, tried="", why=why, advice=advice, at=places.span(polls[0]))
    line = _LINE.fullmatch(found.why)
    why = line["why"] if line else found.why
    at = places.span(int(line["number"])) if line else kernel.span
    skip = next((one for role in kernel.roles for one in operations(role) if isinstance(one, tree.Skip)), None)
    if skip is not None and why == PARITY_TAKEN_FOR_ANOTHER:
        return _taken_too_early(skip, at)
    if found.network is not None and found.by_memory is not None and found.deadlock is None:
        met = _by_memory(Report(ptx, kernel, interface, found.network, found.by_memory))
        if met is not None:
            return messages.NotDecided(kernel=kernel.name, tried="", why=met.why, advice=met.advice, at=met.at, others=met.others)
    counting = None if found.deadlock is not None or why not in (*_GIVEN_UP, WRAPS) else counting_on(kernel)
    if counting is not None:
        why = "it counts on where it has ended in the turn before of the loop around it, and it is not shown that all roles get equally far"
        return messages.NotDecided(kernel=kernel.name, tried=found.tried, why=why, advice=_DEAL_THE_TILES_OUT, at=counting.span)
    unknown = by_votes(kernel, ends=not why.endswith(MAY_LOOP)) if found.deadlock is None else None
    if unknown is not None:
        return unknown
    leaps = None if found.deadlock is not None or why not in _GIVEN_UP and why != WRAPS else leaping(kernel)
    if leaps is not None:
        why = "each turn goes on from a number that the one before has computed, and it is not shown that this comes to an end"
        return messages.NotDecided(kernel=kernel.name, tried=found.tried, why=why, advice=_COUNT_THE_TURNS, at=leaps.span)
    stop, tried = _Stop(_GIVEN_UP.get(why, why), at), found.tried
    if found.network is not None and found.deadlock is not None and found.deadlock.why:
        fault = _LINE.fullmatch(found.deadlock.why)
        if fault:
            stop, tried = _Stop(fault["why"], places.span(int(fault["number"]))), ""
        when = Report(ptx, kernel, interface, found.network, found.deadlock).when()
        stop = _Stop(stop.why + when, stop.at)
    elif found.network is not None:
        stop = _where(Report(ptx, kernel, interface, found.network), found, found.network) or stop
    advice = stop.advice if skip is None else _SKIP_WHAT_OTHERS_TAKE.format(skip.pipeline.name)
    return messages.NotDecided(kernel=kernel.name, tried=tried, why=stop.why, advice=advice, at=stop.at, others=stop.others)


def _not_followed(kernel: Kernel) -> tuple[str, str]:
    """Why it is not shown that a turn comes, and what could be done."""
    turns = [(role, one) for role in kernel.roles for one in operations(role) if isinstance(one, tree.AwaitTurn)]
    if kernel.cluster.size > 1:
        return "turns of blocks in clusters are not followed", _NO_CLUSTER
    for role, turn in turns:
        if any(turn in role.blocks[number].operations for loop in role.loops for number in loop.blocks):
            return (
                "it is not shown that the blocks that share counters come to the same ones in this loop, and once to each",
                _LOOP_ALIKE,
            )
        if turn not in set(run_once(role, tree.AwaitTurn)):
            return "it is not shown that every block takes its turn", _TURN_OF_ALL
    if len(turns) > 1:
        return (
            f"the kernel takes turns at {len(turns)} places, and it is not shown that their counters are different ones",
            _COUNTERS_APART,
        )
    return "waits until memory holds something, and it is not shown that it comes to that", _POSITION_IN_THE_GRID


def _by_memory(report: Report) -> _Stop | None:
    """What happens if memory holds certain numbers: a wait that never ends, or a stage that is never given back."""
    when = f"{report.when()}, if memory can hold that"
    if report.deadlock.uneven is not None:
        row = report.row(report.deadlock.uneven)
        pipeline = None if row is None else report.pipelines.get(row.pipeline)
        if row is None or pipeline is None:
            return None
        filled, given = times(report.deadlock.filled), times(report.deadlock.given)
        return _Stop(f"filled {filled} and given back {given}{when}", pipeline.span, _alike(report, row))
    blocked = report.blocked_roles()
    if not blocked:
        return None
    first, *others = [one for one in blocked if not one.at_end] or blocked
    why = f"`{first.role}` waits for ever for {report.awaited(first.row)}{when}"
    return _Stop(why, first.at, _alike(report, first.row), tuple(one.at for one in others))


def _alike(report: Report, row: BarrierRange) -> str:
    """What to do about numbers in memory of which the roles make different ones."""
    if any(number < 0 for _, _, number in report.deadlock.memory):
        return _NEGATIVE_ALIKE
    return _equal_loops(report, row)


def _where(report: Report, found: Judgement, network: Network) -> _Stop | None:
    """The waits, the pipeline or the step at which the search stopped, if it tells."""
    if found.uneven is not None:
        row = report.row(found.uneven)
        pipeline = None if row is None else report.pipelines.get(row.pipeline)
        if row is None or pipeline is None:
            return None
        why = f"`{row.pipeline}` may be filled more often than it is given back, but no sizes were found at which it is"
        return _Stop(why, pipeline.span, _equal_loops(report, row))
    blocked = report.blocked(found.standing)
    if blocked:
        first, *others = [one for one in blocked if not one.at_end] or blocked
        why = f"it is not shown that `{first.role}` gets past this wait for {report.awaited(first.row)}"
        return _Stop(why, first.at, _equal_loops(report, first.row), tuple(one.at for one in others))
    if found.standing and (role := network.processes[found.standing[0].process].role):
        came = f"{_GIVEN_UP.get(found.why, found.why)}; it had come to this condition of role `{role}`"
        at = report.places.span(found.standing[0].line)
        if found.why == WRAPS:
            return _Stop(
                f"{_wrapping(report, found.standing[0], role)} may leave 32 bits in this loop or behind it", at, _WITHIN_A_SIZE
            )
        return _Stop(came, at, advice(report.kernel.roles, report.kernel.pipelines))
    return None


def _wrapping(report: Report, standing: Standing, name: str) -> str:
    role = next((one for one in report.kernel.roles if one.name == name), None)
    variable = None if role is None else report.places.variable(role, standing.register)
    return f"a variable of `{name}`" if variable is None else f"`{variable}` of `{name}`"


def _equal_loops(report: Report, row: BarrierRange) -> str:
    pipeline = report.pipelines.get(row.pipeline)
    return SAME_BOUNDS if pipeline is None else advice(report.kernel.roles, [pipeline], row.pipeline)


def _taken_too_early(skip: tree.Skip, at: Span) -> Message:
    pipeline = skip.pipeline
    stages = counted(pipeline.stages, "stage")
    return messages.TakenTooEarly(pipeline=pipeline.name, stages=stages, at=at, skipped=skip.span, declared=pipeline.span)
