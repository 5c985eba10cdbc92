"""Searches sizes at which processes wait for ever: runs of the network, the smallest sizes first.

One order of steps stands for all, so that a run that ends stuck at some sizes is stuck at these sizes on the machine, too. Values that the
network does not know (loaded from memory) are chosen; a run that depends on one refutes nothing and is left out.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product

from pipec.protocol.program import registers_of
from pipec.protocol.prove import Pairs, uneven
from pipec.protocol.sample import Numbers, evaluate, forms_of, holds, known_function
from pipec.protocol.schedule import Schedule, Stuck, orders
from pipec.verify.checker.configuration import Configuration, Refused
from pipec.verify.network import Edge, End, Network, Test, edges_of
from pipec.verify.terms import Apply, Choose, Floor, Formula, Linear, Symbol, symbols_in

_MOST_STEPS = 3_000  # of one run
_MOST_RUNS = 120
_COUNTS = (0, 1, 2, 3, 4, 5)


@dataclass(frozen=True, slots=True)
class Deadlock:
    """`sizes`: at which the run stops. `blocked`: process and place of all that wait; `why`: a fault of an arrival instead. `uneven`: all
    have ended, but this ring of full barriers has come further than its empty ones, by `filled` and `given` uses. `wraps`: the process and
    place whose arithmetic leaves 32 bits, with which the run ends."""

    sizes: dict[Symbol, int]
    blocked: tuple[tuple[int, int], ...]
    ended: tuple[int, ...]
    why: str = ""
    uneven: int | None = None
    filled: int = 0
    given: int = 0
    wraps: tuple[int, int] | None = None


def refute(network: Network, pairs: Pairs = ()) -> tuple[Deadlock | None, int]:
    """The first deadlock found, and in how many runs none was."""
    schedule = Schedule(network, orders(network)[0])
    runs = 0
    for numbers in _sizes(network):
        found = _run(schedule, numbers, pairs)
        if found is not None:
            return found, runs
        runs += 1
        if runs >= _MOST_RUNS:
            break
    return None, runs


def _run(schedule: Schedule, sizes: Numbers, pairs: Pairs) -> Deadlock | None:
    at = Configuration(schedule.layout)
    numbers = dict(sizes)
    for _ in range(_MOST_STEPS):
        places = list(at.places)
        try:
            process = schedule.choose(at)
            if process is None:
                return _left(at, sizes, pairs)
            action = at.action(process)
            if isinstance(action, Test):
                if _guesses(action.condition):
                    return None
                edge = action.yes if holds(action.condition, numbers) else action.no
                at.enter(process, edge)
            else:
                edge = schedule.step(at, process)
        except Stuck:
            return _stuck(at, sizes)
        except Refused as why:
            return _stuck(at, sizes, str(why))
        place = places[process]
        if not all(holds(one, numbers) for one in edge.requires):
            return Deadlock(dict(sizes), (), (), wraps=(process, place))
        if any(value is None or _unknown(value) for _, value in edge.values):
            return None
        numbers = _assigned(edge, numbers)
    return None


def _assigned(edge: Edge, numbers: Numbers) -> Numbers:
    return {**numbers, **{symbol: evaluate(value, numbers) for symbol, value in edge.values if value is not None}}


def _left(at: Configuration, sizes: Numbers, pairs: Pairs) -> Deadlock | None:
    ring = uneven(at, pairs)
    if ring is None:
        return None
    empty, start = dict(pairs)[ring], at.layout.window
    return Deadlock(dict(sizes), (), (), "", ring, at.rings[ring].below - start, at.rings[empty].below - start)


def _stuck(at: Configuration, sizes: Numbers, why: str = "") -> Deadlock:
    places = range(len(at.places))
    blocked = tuple((process, at.places[process]) for process in places if not isinstance(at.action(process), End))
    ended = tuple(process for process in places if isinstance(at.action(process), End))
    return Deadlock(dict(sizes), blocked, ended, why)


def _unknown(form: Linear) -> bool:
    """Whether a value is what memory holds, or something else that a run can only guess."""
    for one, _ in form.terms:
        match one:
            case Apply(function, arguments):
                if not known_function(function) or any(map(_unknown, arguments)):
                    return True
            case Floor(inner, _):
                if _unknown(inner):
                    return True
            case Choose(condition, yes, no):
                if _guesses(condition) or _unknown(yes) or _unknown(no):
                    return True
            case Symbol():
                pass
    return False


def _guesses(formula: Formula) -> bool:
    return any(map(_unknown, forms_of(formula)))


def _sizes(network: Network) -> Iterator[Numbers]:
    """Sizes by their sum, so that the first that fails is a small one."""
    registers = registers_of(network)
    steps: dict[Symbol, int] = {}
    for process in network.processes:
        for state in process.states:
            forms = [value for edge in edges_of(state.action) for _, value in edge.values if value is not None]
            if isinstance(state.action, Test):
                forms += forms_of(state.action.condition)
            for form in forms:
                _steps(form, registers, steps)
    for fact in network.facts:
        for symbol in symbols_in(fact):
            steps.setdefault(symbol, 0)
    names = sorted((symbol for symbol in steps if steps[symbol]), key=lambda symbol: symbol.name)
    rest = {symbol: _least(network, symbol) for symbol, step in steps.items() if not step}
    combinations = product(_COUNTS, repeat=min(3, len(names)))
    for counts in sorted(combinations, key=lambda one: (sum(one), one)):
        for last in (0, 1) if len(names) > 3 else (0,):
            chosen = (*counts, *(last for _ in range(len(names) - len(counts))))
            numbers = {symbol: count * steps[symbol] for symbol, count in zip(names, chosen, strict=True)}
            numbers |= rest
            if all(holds(fact, numbers) for fact in network.facts):
                yield numbers


def _least(network: Network, symbol: Symbol) -> int:
    """A value of a size that no test depends on."""
    facts = [fact for fact in network.facts if symbols_in(fact) == {symbol}]
    return next((value for value in (0, 1) if all(holds(fact, {symbol: value}) for fact in facts)), 0)


def _steps(form: Linear, registers: frozenset[Symbol], steps: dict[Symbol, int]) -> None:
    """By how much a size has to grow for something to change: the largest number it is divided by."""
    for one, _ in form.terms:
        match one:
            case Symbol():
                if one not in registers:
                    steps[one] = max(1, steps.get(one, 0))
            case Floor(inner, divisor):
                _steps(inner, registers, steps)
                for symbol, _ in inner.terms:
                    if isinstance(symbol, Symbol) and symbol in steps:
                        steps[symbol] = max(divisor, steps[symbol])
            case Choose(condition, yes, no):
                for each in (*forms_of(condition), yes, no):
                    _steps(each, registers, steps)
            case Apply(_, arguments):
                for each in arguments:
                    _steps(each, registers, steps)
