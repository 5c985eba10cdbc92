"""Proof that no role waits for ever, for all trip counts, and the check of such a proof.

With the order of pipeline operations fixed in each role, the roles are a network of processes with bounded channels: what they do does
not depend on timing, so one order in which all of them reach their ends shows that every order does. The search looks for an order in
lockstep: loops of the same bounds advance together, and each iteration leaves every pipeline as it found it, so that one iteration
stands for all. The order found is the certificate. `holds` checks a certificate knowing nothing of how it was found.
"""

from dataclasses import dataclass

from pipec.budgets import Meter
from pipec.checks import protocol_peel
from pipec.checks.protocol_model import Choice, Item, Repeat
from pipec.record import record
from pipec.sema import tree
from pipec.sema.tree import Event


@record
class Step:
    """`role` does its next event."""

    role: str
    event: Event


@record
class Together:
    """The loops of these roles run in lockstep; `body` is one iteration."""

    roles: tuple[str, ...]
    body: tuple["Order", ...]


@record
class Either:
    """The branches of these roles go the same way."""

    roles: tuple[str, ...]
    then: tuple["Order", ...]
    otherwise: tuple["Order", ...]


@record
class Cases:
    """The loops of `key`, by how often they run: each number of times from `least` to below `peeled`, and `peeled` times or more. Then
    each role's loops have `fronts` of them at the front and the others of the `peeled` at the end, apart from the rest.

    Each order goes to the end of the items at hand.
    """

    key: str
    least: int
    peeled: int
    fronts: tuple[tuple[str, int], ...]
    counted: tuple[tuple["Order", ...], ...]
    more: tuple["Order", ...]


Order = Step | Together | Either | Cases
Programs = dict[str, tuple[Item, ...]]


@dataclass(slots=True)
class Given:
    """The stages, numbered in the order of their acquires, for which one signal was given: all below `below`, and `beyond`."""

    below: int = 0
    beyond: frozenset[int] = frozenset()

    def holds(self, number: int) -> bool:
        return number < self.below or number in self.beyond

    def add(self, number: int) -> None:
        if self.holds(number):
            return
        beyond = self.beyond | {number}
        while self.below in beyond:
            beyond -= {self.below}
            self.below += 1
        self.beyond = beyond


class Ring:
    """One pipeline: how many stages each role obtained on each side, which ones it holds, and the signals given by role and sub-stage."""

    def __init__(self, pipeline: tree.Pipeline, producers: list[str], consumers: list[str]) -> None:
        self.pipeline = pipeline
        self.obtained = dict.fromkeys([(role, "producer") for role in producers] + [(role, "consumer") for role in consumers], 0)
        self.held: dict[tuple[str, tree.Handle], int] = {}
        self.full = {(role, sub): Given() for role in producers for sub in range(pipeline.sub_stages("producer"))}
        self.empty = {(role, sub): Given() for role in consumers for sub in range(pipeline.sub_stages("consumer"))}

    def allows(self, role: str, event: Event) -> bool:
        """Whether the event does not wait."""
        if event.kind == "drain":
            return all(given.below == self.obtained[role, "producer"] for given in self.empty.values())
        if event.kind != "wait":
            return True
        number = self.obtained[role, event.side] if event.first else self._held(role, event)
        if event.side == "consumer":
            return all(given.holds(number) for (_, sub), given in self.full.items() if sub == event.sub_stage)
        before = number - self.pipeline.stages
        return before < 0 or all(given.holds(before) for (_, sub), given in self.empty.items() if sub == event.sub_stage)

    def apply(self, role: str, event: Event) -> None:
        if event.kind == "wait" and event.first and event.handle is not None:
            self.held[role, event.handle] = self.obtained[role, event.side]
            self.obtained[role, event.side] += 1
        elif event.kind == "signal":
            self._own(event)[role, event.sub_stage].add(self._held(role, event))
        elif event.kind == "release" and event.handle is not None:
            number = self._held(role, event)
            for (signaller, _), given in self._own(event).items():
                if event.signals and signaller == role and not given.holds(number):
                    given.add(number)
            self.held.pop((role, event.handle), None)

    def _own(self, event: Event) -> dict[tuple[str, int], Given]:
        return self.full if event.side == "producer" else self.empty

    def _held(self, role: str, event: Event) -> int:
        assert event.handle is not None
        return self.held.get((role, event.handle), self.obtained[role, event.side] - 1)

    def even(self) -> bool:
        """Every stage that was obtained by anybody was signalled by everybody."""
        most = max(self.obtained.values(), default=0)
        return all(given.below == most for given in (*self.full.values(), *self.empty.values()))

    def distances(self) -> tuple[object, ...]:
        """What waiting depends on: two rings with equal distances allow the same events for ever after."""
        base = max(self.obtained.values(), default=0)
        signals = tuple(
            (given.below - base, tuple(sorted(number - base for number in given.beyond)))
            for given in (*self.full.values(), *self.empty.values())
        )
        return (tuple(count - base for count in self.obtained.values()), signals)

    def copy(self) -> "Ring":
        made = object.__new__(Ring)
        made.pipeline, made.obtained, made.held = self.pipeline, dict(self.obtained), dict(self.held)
        made.full = {key: Given(given.below, given.beyond) for key, given in self.full.items()}
        made.empty = {key: Given(given.below, given.beyond) for key, given in self.empty.items()}
        return made


class State:
    """The rings of a kernel; `clustered`: its CTAs share some of them."""

    def __init__(self, kernel: tree.Kernel, meter: Meter | None = None) -> None:
        self.meter = meter or Meter("protocol steps")
        self.clustered = kernel.cluster.size > 1
        self.rings = {
            pipeline: Ring(
                pipeline,
                [role.name for role in kernel.roles if pipeline in role.produces],
                [role.name for role in kernel.roles if pipeline in role.consumes],
            )
            for pipeline in kernel.pipelines
        }

    def allows(self, role: str, event: Event) -> bool:
        return self.rings[event.pipeline].allows(role, event)

    def apply(self, role: str, event: Event) -> None:
        self.meter.spend()
        self.rings[event.pipeline].apply(role, event)

    def even(self) -> bool:
        return all(ring.even() for ring in self.rings.values())

    def distances(self) -> tuple[object, ...]:
        self.meter.spend(len(self.rings))
        return tuple(ring.distances() for ring in self.rings.values())

    def copy(self) -> "State":
        self.meter.spend(len(self.rings))
        made = object.__new__(State)
        made.clustered, made.meter = self.clustered, self.meter
        made.rings = {pipeline: ring.copy() for pipeline, ring in self.rings.items()}
        return made


@dataclass(slots=True)
class Tries:
    """How many more ways to take loops apart are tried, in the whole proof."""

    left: int = 300


def prove(programs: Programs, state: State) -> tuple[Order, ...] | None:
    """An order in which every role reaches its end; None when none is found. `state` is left as the order leaves it."""
    for tries in (None, Tries()):  # most kernels need no loop peeled
        after = state.copy()
        order = _prove(programs, after, tries)
        if order is not None:
            state.rings = after.rings
            return order
    return None


def _prove(programs: Programs, state: State, tries: Tries | None) -> tuple[Order, ...] | None:
    rest = {role: list(items) for role, items in programs.items()}
    order: list[Order] = []
    while any(rest.values()):
        found = _next_event(rest, state) or _next_loops(rest, state, tries) or _next_branches(rest, state, tries)
        if found is None:
            cases = _by_cases({role: tuple(items) for role, items in rest.items()}, state, tries)
            return None if cases is None else (*order, cases)
        order.append(found)
    return tuple(order)


def _by_cases(rest: Programs, state: State, tries: Tries | None) -> Cases | None:
    """For loops that only fit together when some of their first and last iterations are peeled: no others inside of these."""
    if tries is None:
        return None
    for key, least in protocol_peel.keys(rest).items():
        if state.clustered and not protocol_peel.same_in_all_ctas(key):
            continue  # each case has an order of its own, and two CTAs would be in different cases
        for peeled in range(1, protocol_peel.MOST_PEELED + 1):
            counted = _counted_cases(rest, key, range(least, peeled), state)
            if counted is None:
                continue
            orders, ends = counted
            for fronts in protocol_peel.ways(rest, key, peeled):
                tries.left -= 1
                if tries.left < 0:
                    return None
                apart = _apart(rest, key, fronts, peeled)
                after = state.copy()
                more = _prove(apart, after, None)
                if more is not None and all(end.distances() == after.distances() for end in ends):
                    state.rings = after.rings
                    return Cases(key, least, peeled, tuple(fronts.items()), orders, more)
    return None


def _counted_cases(
    rest: Programs, key: str, counts: range, state: State
) -> tuple[tuple[tuple[Order, ...], ...], list[State]] | None:
    """An order for each number of iterations, and the states they end in."""
    orders, ends = [], []
    for count in counts:
        end = state.copy()
        order = _prove({role: protocol_peel.counted(items, key, count) for role, items in rest.items()}, end, None)
        if order is None:
            return None
        orders.append(order)
        ends.append(end)
    return tuple(orders), ends


def _apart(rest: Programs, key: str, fronts: dict[str, int], peeled: int) -> Programs:
    return {
        role: protocol_peel.taken_apart(items, key, fronts[role], peeled - fronts[role]) if role in fronts else items
        for role, items in rest.items()
    }


def _next_event(rest: dict[str, list[Item]], state: State) -> Step | None:
    for role, items in rest.items():
        if items and isinstance(items[0], Event) and state.allows(role, items[0]):
            event = items.pop(0)
            assert isinstance(event, Event)
            state.apply(role, event)
            return Step(role, event)
    return None


def _next_loops(rest: dict[str, list[Item]], state: State, tries: Tries | None) -> Together | None:
    for key in dict.fromkeys(items[0].key for items in rest.values() if items and isinstance(items[0], Repeat)):
        heads = {role: items[0] for role, items in rest.items() if items and isinstance(items[0], Repeat) and items[0].key == key}
        after = state.copy()
        body = _prove({role: head.body for role, head in heads.items()}, after, tries)
        if body is not None and after.distances() == state.distances():
            for role in heads:
                rest[role].pop(0)
            return Together(tuple(heads), body)
    return None


def _next_branches(rest: dict[str, list[Item]], state: State, tries: Tries | None) -> Either | None:
    for key in dict.fromkeys(items[0].key for items in rest.values() if items and isinstance(items[0], Choice)):
        heads = {role: items[0] for role, items in rest.items() if items and isinstance(items[0], Choice) and items[0].key == key}
        yes, no = state.copy(), state.copy()
        then = _prove({role: head.then for role, head in heads.items()}, yes, tries)
        otherwise = _prove({role: head.otherwise for role, head in heads.items()}, no, tries)
        if then is not None and otherwise is not None and yes.distances() == no.distances():
            state.rings = yes.rings
            for role in heads:
                rest[role].pop(0)
            return Either(tuple(heads), then, otherwise)
    return None


def holds(programs: Programs, order: tuple[Order, ...], state: State) -> bool:
    """Whether `order` is a proof: it is each role's own order, nothing in it waits, and each iteration changes no distance."""
    rest = {role: list(items) for role, items in programs.items()}
    for one in order:
        match one:
            case Step(role, event):
                if not rest.get(role) or rest[role].pop(0) is not event or not state.allows(role, event):
                    return False
                state.apply(role, event)
            case Together(roles, body):
                loops = [rest[role].pop(0) if rest.get(role) else None for role in roles]
                before = state.distances()
                alike = all(isinstance(loop, Repeat) for loop in loops) and len({loop.key for loop in loops}) == 1  # type: ignore[union-attr]
                if not alike or not holds({role: loop.body for role, loop in zip(roles, loops, strict=True)}, body, state):  # type: ignore[union-attr]
                    return False
                if state.distances() != before:
                    return False
            case Either(roles, then, otherwise):
                branches = [rest[role].pop(0) if rest.get(role) else None for role in roles]
                if not all(isinstance(branch, Choice) for branch in branches) or len({branch.key for branch in branches}) != 1:  # type: ignore[union-attr]
                    return False
                other = state.copy()
                yes = {role: branch.then for role, branch in zip(roles, branches, strict=True)}  # type: ignore[union-attr]
                no = {role: branch.otherwise for role, branch in zip(roles, branches, strict=True)}  # type: ignore[union-attr]
                if not holds(yes, then, state) or not holds(no, otherwise, other) or state.distances() != other.distances():
                    return False
            case Cases():
                return _cases_hold({role: tuple(items) for role, items in rest.items()}, one, state)
    return not any(rest.values())


def _cases_hold(rest: Programs, cases: Cases, state: State) -> bool:
    """Every number of iterations is one of the cases, each is proved, and all of them leave the rings alike."""
    loops = [item for items in rest.values() for item in items if isinstance(item, Repeat) and item.key == cases.key]
    fronts = dict(cases.fronts)
    covered = all(loop.least >= cases.least for loop in loops) and len(cases.counted) == max(0, cases.peeled - cases.least)
    shared_out = all(
        role in fronts and 0 <= fronts[role] <= cases.peeled
        for role, items in rest.items()
        if any(isinstance(item, Repeat) and item.key == cases.key for item in items)
    )
    if not covered or not shared_out or (state.clustered and not protocol_peel.same_in_all_ctas(cases.key)):
        return False
    start = state.copy()
    if not holds(_apart(rest, cases.key, fronts, cases.peeled), cases.more, state):
        return False
    for count, order in enumerate(cases.counted, cases.least):
        other = start.copy()
        alike = {role: protocol_peel.counted(items, cases.key, count) for role, items in rest.items()}
        if not holds(alike, order, other) or other.distances() != state.distances():
            return False
    return True
