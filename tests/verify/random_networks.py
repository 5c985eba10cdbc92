"""Random networks that run through in one order, with the certificate of that order, and what becomes of them in all other orders.

A round of steps is drawn as it could be taken: an arrival for the first use that is not complete, a wait for one that is. The network
is a loop of n such rounds in every process; its certificate follows from the order drawn. Whether a parity can be taken for another
shows when the threads are run apart, in every order, with barriers that have nothing but a phase bit (`all_orders`).
"""

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from pipec.verify.checker.certificate import Case, Certificate, Moves, Node
from pipec.verify.checker.check import check
from pipec.verify.checker.configuration import Refused
from pipec.verify.network import Action, Arrive, Edge, End, Network, Process, Ring, RingKind, State, Use, Wait
from pipec.verify.network import Test as Branch
from pipec.verify.terms import Compare, Formula, Linear, Symbol, add, atom

N = atom(Symbol("n"))
_BYTES = 64
_APART = 3  # rounds


@dataclass
class Step:
    """Of a round: `use` counts from the first of the round, on a ring. `arrive`: otherwise a wait. `part`: by one of the threads.
    `peeks`: a look at the use, without waiting."""

    process: int
    ring: int
    use: int
    arrive: bool = False
    count: int = 0
    expects: int = 0
    delivers: int = 0
    part: bool = False
    targets: tuple[tuple[int, int], ...] = ()
    peeks: bool = False


@dataclass
class Drawn:
    rings: list[Ring]
    threads: list[int]
    ranks: tuple[int, ...]
    uses: list[int]  # of each ring in a round
    warps: list[tuple[int, ...]]  # of each process: of one, or of each thread
    most: int | None  # rounds that the sizes admit
    steps: list[Step] = field(default_factory=list)

    def of(self, process: int) -> list[Step]:
        return [step for step in self.steps if step.process == process]


def drawn(draw: random.Random) -> Drawn:
    """Rounds of hand-overs between processes, in an order in which they can be taken, and often with a few steps changed."""
    threads = [draw.choice((1, 1, 2)) for _ in range(draw.randint(2, 3))]
    warps = [(2 * one, 2 * one + 1) if many == 2 and draw.random() < 0.3 else (2 * one,) for one, many in enumerate(threads)]
    ranks = draw.choice(((0,), (0,), (0, 1)))
    made = Drawn([], threads, ranks, [], warps, draw.choice((None, None, 1, 2)))
    parts = [_hand_over(draw, made) for _ in range(draw.randint(1, 2))]
    while any(parts):
        made.steps.append(draw.choice([part for part in parts if part]).pop(0))
    if draw.random() < 0.2:
        at = draw.randint(0, len(made.steps))
        made.steps[at:at] = _meeting(made, "named", draw.sample(range(len(threads)), 2))
    if draw.random() < 0.3:
        _peek(draw, made)
    for _ in range(draw.choice((0, 1, 1, 2, 3))):
        _change(draw, made)
    return made


def _peek(draw: random.Random, made: Drawn) -> None:
    """A process looks at a use some steps before it waits for it."""
    waits = [(at, one) for at, one in enumerate(made.steps) if not one.arrive and made.rings[one.ring].kind == "mbarrier"]
    at, wait = draw.choice(waits)
    before = draw.choice([*(one for one in range(at + 1) if made.steps[one].process == wait.process), at])
    made.steps.insert(before, Step(**{**vars(wait), "peeks": True}))


def _hand_over(draw: random.Random, made: Drawn) -> list[Step]:
    """A stage is filled by one process, emptied by others and given back."""
    stages, every = draw.choice((1, 1, 2)), range(len(made.threads))
    producer, *consumers = draw.sample(every, draw.randint(2, len(every)))
    full, empty = len(made.rings), len(made.rings) + 1
    crossed: tuple[tuple[int, int], ...] = ()
    if len(made.ranks) > 1:
        crossed = draw.choice(((), ((0, 1), (1, 0)), ((0, 0), (0, 1), (1, 0), (1, 1))))
    back = tuple((to, from_) for from_, to in crossed)
    if draw.random() < 0.4:
        fills = [Step(producer, full, 0, True, delivers=_BYTES, part=True, targets=crossed)]
        # (Announced by one thread, at home; of how many copies come in, its barrier gets the bytes.)
        expected = _BYTES * (2 if len(crossed) == 4 else 1)
        announced = [Step(producer, full, 0, True, 1, expects=expected, part=True)]
        if draw.random() < 0.4:
            announced = [Step(producer, full, 0, True, expects=expected, part=True), Step(producer, full, 0, True, 1, part=True)]
        at = draw.choice((0, 0, 0, 1))
        fills[at:at] = announced
        count = 1
        if draw.random() < 0.4:
            count, other = 2, draw.choice(every)
            at = draw.randint(0, len(fills))
            fills[at:at] = [Step(other, empty, -stages), Step(other, full, 0, True, 1, part=True)]
    else:
        fills = [_signal(draw, made, producer, full, crossed)]
        count = fills[0].count * _times(fills[0], made.ranks) // len(made.ranks)
    gives = [_signal(draw, made, consumer, empty, back) for consumer in consumers]
    made.rings.append(Ring("mbarrier", tuple(8 * (10 * full + stage) for stage in range(stages)), count, made.ranks))
    spent = sum(step.count * _times(step, made.ranks) for step in gives) // len(made.ranks)
    made.rings.append(Ring("mbarrier", tuple(8 * (10 * empty + stage) for stage in range(stages)), spent, made.ranks))
    uses = draw.choice((1, 1, 2))
    made.uses += [uses, uses]
    found = []
    for use in range(uses):
        found.append(Step(producer, empty, use - stages))
        found += [*_together(draw, made, producer), *(Step(**{**vars(one), "use": one.use + use}) for one in fills)]
        for consumer, give in zip(consumers, gives, strict=True):
            found += [Step(consumer, full, use), *_together(draw, made, consumer), Step(**{**vars(give), "use": use})]
    return found


def _times(step: Step, ranks: Sequence[int]) -> int:
    return len(step.targets or ranks)


def _signal(draw: random.Random, made: Drawn, process: int, ring: int, targets: tuple[tuple[int, int], ...]) -> Step:
    part = made.threads[process] > 1 and draw.random() < 0.6
    return Step(process, ring, 0, True, 1 if part else made.threads[process], part=part, targets=targets)


def _together(draw: random.Random, made: Drawn, process: int) -> list[Step]:
    """The lanes of a process often synchronise, on a ring of their own for each place where they do."""
    if made.threads[process] == 1 or draw.random() < 0.3:
        return []
    return _meeting(made, draw.choice(("warp", "warp", "named")), [process])


def _meeting(made: Drawn, kind: RingKind, processes: Sequence[int]) -> list[Step]:
    ring, threads = len(made.rings), made.threads
    made.rings.append(Ring(kind, (1000 + ring,), sum(threads[one] for one in processes), made.ranks))
    made.uses.append(1)
    return [Step(one, ring, 0, True, threads[one]) for one in processes] + [Step(one, ring, 0) for one in processes]


def _change(draw: random.Random, made: Drawn) -> None:
    at = draw.randrange(len(made.steps))
    step = made.steps[at]
    if made.rings[step.ring].kind != "mbarrier":
        made.steps[:] = [one for one in made.steps if one.ring != step.ring]
        return
    kind = draw.randrange(7)
    if kind == 0 and not step.arrive:
        del made.steps[at]
    elif kind == 1 and not step.arrive:
        made.steps.insert(draw.randint(at, len(made.steps)), Step(**vars(step)))
    elif kind == 2 and not step.arrive:
        step.use += draw.choice((-1, 1)) * made.rings[step.ring].stages
    elif kind == 3 and step.arrive and made.threads[step.process] == 2 and not step.expects:
        step.part, step.count = (False, 2) if step.part else (True, min(1, step.count))
    elif kind == 4 and not step.arrive:
        step.process = draw.randrange(len(made.threads))
    elif kind == 5 and len(made.ranks) > 1 and step.arrive:
        step.targets = draw.choice(((), ((0, 1), (1, 0))))
    else:
        made.steps.insert(draw.randrange(len(made.steps)), made.steps.pop(at))


def network_of(made: Drawn) -> Network:
    sizes = (Compare("ge", N), Compare("ge", add(Linear(made.most or 2**31 - 1), N, -1)))
    return Network("k", tuple(made.rings), tuple(_process(made, one) for one in range(len(made.threads))), sizes)


def _process(made: Drawn, number: int) -> Process:
    """A loop of n rounds. A cursor for each ring; it moves on with the last step of the round, or with the last of its ring."""
    counter, steps = _counter(number), made.of(number)
    begin = Edge(1, ((counter, Linear(0)),))
    actions: list[Action] = [Branch(Compare("ge", Linear(0)), begin, begin)]
    actions.append(Branch(_more(number), Edge(2), Edge(3 + len(steps))))
    for at, step in enumerate(steps):
        # The wait of threads that synchronise moves their cursor on.
        own = made.rings[step.ring].kind != "mbarrier" and not step.arrive
        edge, use = Edge(3 + at, (), ((step.ring, 1),) if own else ()), Use(step.ring, step.ring, step.use)
        if step.arrive:
            actions.append(Arrive(use, edge, step.count, step.expects, step.delivers, step.targets, step.part))
        elif step.peeks:
            before = step.use - made.rings[step.ring].stages
            actions.append(Wait(Use(step.ring, step.ring, before), edge, peeks=True))
        else:
            actions.append(Wait(use, edge))
    moved = tuple((ring, uses) for ring, uses in enumerate(made.uses) if made.rings[ring].kind == "mbarrier")
    again = Edge(1, ((counter, add(atom(counter), Linear(1))),), moved)
    actions += [Branch(Compare("ge", Linear(0)), again, again), End()]
    live = [(), *[(counter,)] * (len(actions) - 2), ()]
    states = tuple(State(line, action, one) for line, (action, one) in enumerate(zip(actions, live, strict=True)))
    return Process(f"role {number}", made.threads[number], made.warps[number], made.ranks, len(made.rings), states)


def _counter(number: int) -> Symbol:
    return Symbol(f"{number}:k")


def _more(number: int) -> Compare:
    return Compare("ge", add(add(N, atom(_counter(number)), -1), Linear(-1)))


def certificate_of(made: Drawn) -> Certificate:
    """The first rounds apart: what was waited for before them differs."""
    every = range(len(made.threads))
    # (The last step of a process in a round is the branch back.)
    order = (*every[1:], *(step.process for step in made.steps), *every)
    same = tuple(Compare("eq", add(atom(_counter(one)), atom(_counter(0)), -1)) for one in every[1:])
    last = _APART if made.most is None else made.most
    nodes = []
    for at in range(last + 1):
        facts: tuple[Formula, ...] = (*same, Compare("ge", add(atom(_counter(0)), Linear(-at))))
        again, end = Moves(order, min(at + 1, last)), Moves(tuple(~one for one in every[1:]), last + 1 + at)
        nodes.append(Node(facts, 0, None if at == made.most else again, end))
    nodes += [Node((), None)] * (last + 1)
    return Certificate("k", (Case((), Moves(tuple(every), 0), tuple(nodes)),))


# ------------------------------------------------------------------------------------------------------------- all orders

_MOST = 30_000  # states of one exploration


class Wrong(Exception):
    """Threads that wait for ever, or a parity that was taken for another."""


@dataclass(frozen=True)
class _Act:
    """Of one thread: at a barrier (ring, stage, CTA), for a phase. `wait`, a look, or arrivals and bytes; `later`: bytes come at any
    time."""

    barriers: tuple[tuple[int, int, int], ...]
    phase: int
    wait: bool = False
    meets: bool = False
    arrives: int = 0
    expects: int = 0
    delivers: int = 0
    peeks: bool = False


def all_orders(made: Drawn, rounds: int, most: int = _MOST) -> bool:
    """Raises Wrong if some order goes wrong; whether all were tried."""
    programs = [
        tuple(_acts(made, process, thread, rank, rounds))
        for process, count in enumerate(made.threads)
        for rank in made.ranks
        for thread in range(count)
    ]
    counts = {
        (ring, stage, rank): one.count
        for ring, one in enumerate(made.rings)
        for stage in range(one.stages)
        for rank in made.ranks
    }
    where = {barrier: at for at, barrier in enumerate(counts)}
    counted = [*counts.values()]
    # A state: how far each thread is, (phases complete, arrivals missing, bytes missing) of each barrier, and bytes under way.
    first = (0,) * len(programs), tuple((0, count, 0) for count in counted), ()
    seen, work = {first}, [first]
    while work:
        places, barriers, flying = work.pop()
        found = []
        for thread, at in enumerate(places):
            if at < len(programs[thread]):
                after = _taken(programs[thread][at], barriers, flying, where, counted)
                if after is not None:
                    found.append(((*places[:thread], at + 1, *places[thread + 1 :]), *after))
        for number, (at, phase) in enumerate(flying):
            rest = (*flying[:number], *flying[number + 1 :])
            found.append((places, _moved(barriers, at, phase, 0, -_BYTES, counted), rest))
        if not found and any(at < len(program) for at, program in zip(places, programs, strict=True)):
            raise Wrong("threads wait for ever")
        for state in found:
            if state not in seen:
                seen.add(state)
                work.append(state)
        if len(seen) > most:
            return False
    return True


_Barriers = tuple[tuple[int, int, int], ...]
_Flying = tuple[tuple[int, int], ...]


def _taken(
    act: _Act, barriers: _Barriers, flying: _Flying, where: dict[tuple[int, int, int], int], counted: Sequence[int]
) -> tuple[_Barriers, _Flying] | None:
    if act.wait:
        complete = barriers[where[act.barriers[0]]][0]
        if act.peeks:
            if complete & 1 != act.phase & 1 and complete <= act.phase:
                raise Wrong(f"phase {act.phase} seems to be complete with {complete} phases complete")
            return barriers, flying
        if act.meets:
            return (barriers, flying) if complete > act.phase else None
        if complete & 1 == act.phase & 1:
            return None
        if complete != act.phase + 1:
            raise Wrong(f"a wait for phase {act.phase} ends with {complete} phases complete")
        return barriers, flying
    for one in act.barriers:
        at = where[one]
        if act.arrives or act.expects:
            barriers = _moved(barriers, at, act.phase, act.arrives, act.expects, counted)
        if act.delivers:
            flying = tuple(sorted((*flying, (at, act.phase))))
    return barriers, flying


def _moved(barriers: _Barriers, at: int, phase: int, arrives: int, missing: int, counted: Sequence[int]) -> _Barriers:
    complete, left, bytes_ = barriers[at]
    if complete != phase:
        raise Wrong(f"what is meant for phase {phase} comes with {complete} phases complete")
    left, bytes_ = left - arrives, bytes_ + missing
    if left < 0:
        raise Wrong("an arrival too many")
    if not left and not bytes_:
        complete, left = complete + 1, counted[at]
    return (*barriers[:at], (complete, left, bytes_), *barriers[at + 1 :])


def _acts(made: Drawn, process: int, thread: int, rank: int, rounds: int) -> Iterator[_Act]:
    for round_ in range(rounds):
        for step in made.of(process):
            ring = made.rings[step.ring]
            use = round_ * made.uses[step.ring] + step.use
            phase, stage = divmod(use, ring.stages)
            if ring.kind == "warp" and len(made.warps[process]) > 1:
                continue  # each is the only lane of its warp
            if not step.arrive:
                yield _Act(((step.ring, stage, rank),), phase, wait=True, meets=ring.kind != "mbarrier", peeks=step.peeks)
            elif not step.part or thread == 0:
                spots = tuple((step.ring, stage, spot) for from_, spot in step.targets or ((rank, rank),) if from_ == rank)
                yield _Act(spots, phase, False, False, 1 if step.count else 0, step.expects, step.delivers)


# ------------------------------------------------------------------------------------------------------------- both judges

_ROUNDS = 3


def accepted(made: Drawn) -> bool:
    try:
        check(network_of(made), certificate_of(made))
    except Refused:
        return False
    return True


def goes_wrong(made: Drawn, most: int = 8_000) -> str:
    """How, if it does; empty too if there are too many orders to tell."""
    try:
        for rounds in range(1, (made.most or _ROUNDS) + 1):
            all_orders(made, rounds, most)
    except Wrong as why:
        return str(why)
    return ""
