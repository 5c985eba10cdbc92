"""Networks written by hand: roles as structured programs of waits and arrivals."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from pipec.record import replace
from pipec.verify.network import Arrive, Edge, End, Network, Process, Ring, State, Test, Use, Wait
from pipec.verify.terms import Compare, Formula, Linear, Symbol, add, atom, substitute

PARAMETERS = ("n", "m")


def size(name: str) -> Linear:
    return atom(Symbol(name))


def below(left: Linear, right: Linear) -> Formula:
    return Compare("ge", add(add(right, left, -1), Linear(-1)))


@dataclass(frozen=True)
class Produce:
    """Waits for a free stage and, `lag` stages later, fills it."""

    pipe: str
    lag: int = 0
    fill: bool = True
    obtain: bool = True


@dataclass(frozen=True)
class Consume:
    pipe: str
    lag: int = 0
    free: bool = True
    obtain: bool = True


@dataclass(frozen=True)
class Loop:
    """`start` and `stop` are forms, or functions of the loop variables around. `turned`: the test comes before the first turn and after
    each turn, as compilers write loops; otherwise at the head."""

    variable: str
    start: object
    stop: object
    body: tuple[object, ...]
    step: int = 1
    turned: bool = False


@dataclass(frozen=True)
class If:
    condition: object  # a formula, or a function of the loop variables
    then: tuple[object, ...]
    otherwise: tuple[object, ...] = ()


@dataclass
class Pipes:
    depth: dict[str, int]
    consumers: dict[str, int] = field(default_factory=dict)


def network(pipes: Pipes, roles: dict[str, Sequence[object]], facts: Sequence[Formula] = ()) -> Network:
    names = list(pipes.depth)
    rings = []
    for number, (name, depth) in enumerate(pipes.depth.items()):
        base = number * 1024
        rings.append(Ring("mbarrier", tuple(base + 8 * stage for stage in range(depth)), 1))
        rings.append(Ring("mbarrier", tuple(base + 512 + 8 * stage for stage in range(depth)), pipes.consumers.get(name, 1)))
    processes = [_Role(number, role, names, pipes).process(body) for number, (role, body) in enumerate(roles.items())]
    ranges = [Compare("ge", size(name)) for name in PARAMETERS] + [
        Compare("ge", add(Linear(2**31 - 1), size(name), -1)) for name in PARAMETERS
    ]
    return Network("test", tuple(rings), tuple(processes), (*ranges, *facts))


class _Role:
    def __init__(self, number: int, name: str, pipes: list[str], table: Pipes) -> None:
        self.number, self.name, self.pipes, self.table = number, name, pipes, table
        self.states: list[State] = []

    def process(self, body: Sequence[object]) -> Process:
        start = self._block(tuple(body), Edge(self._put(End(), ())), {})
        first = start.target
        if start.values:  # a test that always holds, for what is assigned on the way to the first state
            first = self._put(Test(Compare("ge", Linear(0)), start, start), ())
        return Process(self.name, 1, (self.number,), (0,), 2 * len(self.pipes), tuple(self.states), first)

    def _put(self, action: object, live: tuple[Symbol, ...]) -> int:
        self.states.append(State(len(self.states), action, live))  # type: ignore[arg-type]
        return len(self.states) - 1

    def _block(self, items: tuple[object, ...], after: Edge, scope: dict[str, Symbol]) -> Edge:
        """The edge to the first item; `after` follows the last."""
        for item in reversed(items):
            after = self._item(item, after, scope)
        return after

    def _item(self, item: object, after: Edge, scope: dict[str, Symbol]) -> Edge:
        live = tuple(scope.values())
        match item:
            case Produce(pipe, lag, fill, obtain):
                ring, cursor = 2 * self.pipes.index(pipe), 2 * self.pipes.index(pipe)
                if fill:
                    after = Edge(self._put(Arrive(Use(ring, cursor, -1 - lag), after, 1), live))
                if obtain:
                    moved = replace(after, advances=((cursor, 1),))
                    after = Edge(self._put(Wait(Use(ring + 1, cursor, -self.table.depth[pipe]), moved), live))
            case Consume(pipe, lag, free, obtain):
                ring, cursor = 2 * self.pipes.index(pipe), 2 * self.pipes.index(pipe) + 1
                if free:
                    after = Edge(self._put(Arrive(Use(ring + 1, cursor, -1 - lag), after, 1), live))
                if obtain:
                    after = Edge(self._put(Wait(Use(ring, cursor, 0), replace(after, advances=((cursor, 1),))), live))
            case If(condition, then, otherwise):
                yes, no = self._block(then, after, scope), self._block(otherwise, after, scope)
                test = condition(*(atom(one) for one in scope.values())) if callable(condition) else condition
                after = Edge(self._put(Test(test, yes, no), live))
            case Loop():
                after = self._loop(item, after, scope)
        return after

    def _loop(self, loop: Loop, after: Edge, scope: dict[str, Symbol]) -> Edge:
        symbol = Symbol(f"{self.number}:{loop.variable}")
        inner = {**scope, loop.variable: symbol}
        around = [atom(one) for one in scope.values()]
        start = loop.start(*around) if callable(loop.start) else loop.start
        stop = loop.stop(*around) if callable(loop.stop) else loop.stop
        assert isinstance(start, Linear) and isinstance(stop, Linear)
        counter = atom(symbol)
        test = self._put(End(), ())
        if not loop.turned:
            first = self._block(loop.body, Edge(test, ((symbol, add(counter, Linear(loop.step))),)), inner)
            self.states[test] = State(test, Test(below(counter, stop), first, after), tuple(inner.values()))
            return Edge(test, ((symbol, start),))
        first = self._block(loop.body, Edge(test), inner)
        again = replace(first, values=(*_before(first, symbol, loop.step), (symbol, add(counter, Linear(loop.step)))))
        condition = below(add(counter, Linear(loop.step)), stop)
        self.states[test] = State(test, Test(condition, again, after), tuple(inner.values()))
        begun = replace(first, values=(*_at(first, symbol, start), (symbol, start)))
        return Edge(self._put(Test(below(start, stop), begun, after), tuple(scope.values())))


def _before(edge: Edge, symbol: Symbol, step: int) -> tuple[tuple[Symbol, Linear | None], ...]:
    """What the edge assigns, in terms of the counter before it moves on."""
    return _at(edge, symbol, add(atom(symbol), Linear(step)))


def _at(edge: Edge, symbol: Symbol, value: Linear) -> tuple[tuple[Symbol, Linear | None], ...]:
    return tuple((one, None if form is None else substitute(form, {symbol: value})) for one, form in edge.values)
