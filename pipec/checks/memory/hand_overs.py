"""Which hand-overs order two accesses to global memory by different roles."""

from collections.abc import Iterator, Mapping

from pipec.checks.summary import RoleSummary, dominators, predecessors
from pipec.kir import ir
from pipec.kir.clusters import LEADER, PAIR
from pipec.kir.global_memory.accesses import Access
from pipec.kir.global_memory.clocks import Telling, Tells
from pipec.kir.global_memory.iterations import apart_in_earlier_iterations, apart_in_other_iterations
from pipec.kir.global_memory.places import renamed
from pipec.kir.plan.types import Plan
from pipec.kir.values.reader import Loop
from pipec.record import replace
from pipec.sema import tree
from pipec.terms.term import Term
from pipec.vocabulary import OTHER_SIDE, Side

Position = tuple[int, int]  # block, operation index
_Half = tuple[tree.Pipeline, Side]  # one side of a pipeline

# Signals that also order ordinary accesses of the role; "tma" orders those before the stage was obtained. A commit and the bytes of TMA
# cover only the work of the tensor cores and of the copy: loads and stores of the issuing thread may complete later (hardware.md 1.1, 4).
_SPEAKING = frozenset(("threads", "met", "warps", "read"))


class HandOvers:
    """Queries of the search on the control-flow graph of a role."""

    def __init__(self, summary: RoleSummary, plan: Plan) -> None:
        self.summary, self.role = summary, summary.role
        self._plan = plan
        # Of consumers that alternate, one that has released no stage need not have taken any, and its iterations are not the producer's.
        self.in_turn = {pipeline for (pipeline, _), signals in plan.signals.items() if signals.in_turn}
        # Stages that change their names are released under another one than that by which they were obtained.
        self._moved = {
            one.target.pipeline for block in self.role.blocks for one in block.operations if isinstance(one, tree.Move)
        }
        self.produces = tuple(pipeline for pipeline in summary.role.produces if pipeline not in self.in_turn)
        self.consumes = tuple(pipeline for pipeline in summary.role.consumes if pipeline not in self.in_turn)
        # On the path of the elected thread, which runs whenever the role does.
        self._dominators = dominators(predecessors(self.role, elected=True))
        self._operations = [
            ((number, site), operation)
            for number, block in enumerate(self.role.blocks)
            for site, operation in enumerate(block.operations)
        ]

    def sides(self) -> Iterator[_Half]:
        yield from ((pipeline, "producer") for pipeline in self.role.produces)
        yield from ((pipeline, "consumer") for pipeline in self.role.consumes)

    def kinds(self, side: _Half) -> frozenset[str]:
        return frozenset(self._plan.signals[side].how[self.role.name])

    def speaks(self, side: _Half) -> bool:
        """Whether its signal orders ordinary accesses; with several sub-stages this is undetermined."""
        return not self.shares(side) and side[0].sub_stages(side[1]) == 1 and bool(self.kinds(side) & (_SPEAKING | {"tma"}))

    def speaks_in_both(self, side: _Half) -> bool:
        """Whether it does so in both CTAs of a pair. Where the other side runs in the leader, or this one does, a signal of the other CTA
        passes from CTA to CTA. Only the leader announces the bytes of TMA, and only what threads fill is signalled for the whole cluster
        (pipec.lower.synchronisation.clusters)."""
        if not self.speaks(side) or self._plan.sharing[side[0]].of(side[1]).to not in (LEADER, PAIR):
            return self.speaks(side)
        return side[1] == "producer" and bool(self.kinds(side) & {"threads", "met"})

    def shares(self, side: _Half) -> bool:
        """Whether the role takes, and releases, only some of the stages."""
        return side[1] == "consumer" and side[0] in self.in_turn

    def moves(self, pipeline: tree.Pipeline) -> bool:
        return pipeline in self._moved

    def obtained(self, side: _Half) -> list[tuple[Position, tree.Acquire]]:
        return [
            (position, operation)
            for position, operation in self._operations
            if isinstance(operation, tree.Acquire) and operation.first
            if (operation.handle.pipeline, operation.handle.side) == side
        ]

    def signals(self, side: _Half, handle: tree.Handle | None = None) -> list[Position]:
        """Where the signals meant by `speaks` are given, for one handle or for all."""
        # The bytes of TMA are announced where the stage is obtained, with a fence for earlier accesses.
        if not self.kinds(side) & _SPEAKING:
            return [position for position, operation in self.obtained(side) if handle in (None, operation.handle)]
        return [
            position
            for position, operation in self._operations
            if isinstance(operation, tree.Signal | tree.Release)
            if (operation.handle.pipeline, operation.handle.side) == side and handle in (None, operation.handle)
        ]

    def drained(self, pipeline: tree.Pipeline) -> list[Position]:
        """Drains that follow the fill of a stage."""
        filled = [position for position, _ in self.obtained((pipeline, "producer"))]
        return [
            position
            for position, operation in self._operations
            if isinstance(operation, tree.Drain) and operation.pipeline is pipeline
            if any(self.dominates(one, position) for one in filled)
        ]

    def dominates(self, upper: Position, lower: Position) -> bool:
        block = lower[0]
        while block > upper[0]:
            block = self._dominators[block]
        return block == upper[0] and (block != lower[0] or upper[1] < lower[1])

    def leads(self, start: Position, end: Position, around: Position | None = None) -> bool:
        """Whether a path leads from one operation to another without passing the operation `around`."""
        unseen, seen = [start], set[int]()
        first = True
        while unseen:
            block, site = unseen.pop()
            inside = [end[1]] if end[0] == block and (end[1] > site or (not first and end[1] >= site)) else []
            stop = around[1] if around is not None and around[0] == block and around[1] >= site + first else None
            if inside and (stop is None or stop > inside[0]):
                return True
            first = False
            if stop is not None:
                continue
            for target in ir.successors(self.role.blocks[block].terminator):
                if target not in seen:
                    seen.add(target)
                    unseen.append((target, 0))
        return False

    def loops(self, block: int) -> tuple[ir.Loop, ...]:
        """The loops around a block, the outermost first."""
        return tuple(loop for loop in self.role.loops if block in loop.blocks)

    def once_each_time(self, block: int) -> bool:
        """Whether the block runs exactly once per iteration of the enclosing loops, and those whenever the role does."""
        inner = block
        for loop in reversed(self.loops(block)):
            ends = [number for number in loop.blocks if loop.header in ir.successors(self.role.blocks[number].terminator)]
            if not all(self.summary.dominates(inner, end) for end in ends):
                return False
            inner = loop.header
        exits = [number for number, one in enumerate(self.role.blocks) if isinstance(one.terminator, ir.Exit)]
        return all(self.summary.dominates(inner, end) for end in exits)

    def told_after(self, access: Access, side: _Half, obtained: Position, handle: tree.Handle) -> bool:
        """Whether the signal of the same iteration covers the access, which may precede obtaining the stage."""
        if self.held(access, side, obtained, handle):
            return True
        at, loops = (access.block, access.site), self.loops(obtained[0])
        if access.handle is not None or not loops or self.loops(access.block)[: len(loops)] != loops:
            return False
        # (In loops of its own, which need not run, it does not come before every such stage; but after none of the same iteration.)
        return self.speaks(side) and not self.leads(obtained, at, around=(loops[-1].header, 0))

    def held(self, access: Access, side: _Half, obtained: Position, handle: tree.Handle) -> bool:
        """Whether the access lies between obtaining the stage and the signal that covers it."""
        at = access.block, access.site
        if not self.dominates(obtained, at):
            return False
        if access.handle is not None:  # a copy completes on the barrier of its own stage
            return access.handle is handle
        released = self.signals(side, None if side[0] in self._moved else handle)
        return self.speaks(side) and not any(one == obtained or self.leads(one, at, obtained) for one in released)


def speaks_alike(roles: dict[str, HandOvers], side: _Half) -> bool:
    """Whether every role on the side signals by its threads."""
    of = [role for role in roles.values() if side in role.sides()]
    return all(role.speaks(side) and role.kinds(side) <= _SPEAKING for role in of)


def tells(plan: Plan) -> Tells:
    """What signals tell of other accesses than the copies and MMAs that complete them."""

    def of(role: str, pipeline: tree.Pipeline, side: Side) -> Telling:
        signals = plan.signals.get((pipeline, side))
        kinds = frozenset(signals.how.get(role, ())) if signals is not None else frozenset[str]()
        return "signalled" if kinds & _SPEAKING else "obtained" if "tma" in kinds else "nothing"

    return of


Use = tuple[str, Access]


def ordered(roles: dict[str, HandOvers], one: Use, other: Use) -> bool:
    return (
        before(roles, one, other)
        or before(roles, other, one)
        or _by_iteration(roles, one, other)
        or _by_iteration(roles, other, one)
        or _by_turns(roles, one, other)
        or _by_turns(roles, other, one)
        or _acknowledged(roles, one, other)
        or _acknowledged(roles, other, one)
    )


def before(roles: dict[str, HandOvers], one: Use, other: Use) -> bool:
    """Whether the first access is always complete before the second is reached, along hand-overs through any roles.

    `known` are the waits that end only after the first access. In a role that waits there, the signals after such a wait follow it as
    well. Two roles that run in both CTAs of a pair may reach each other through one in its leader.
    """
    paired = not any(roles[name].role.leader for name, _ in (one, other))
    known: set[tuple[str, Position]] = set()
    unseen = list(_given_after(roles[one[0]], one[1], paired))
    told: set[tuple[str, _Half]] = set()
    while unseen:
        pipeline, side = unseen.pop()
        for name, role in roles.items():
            if (pipeline, OTHER_SIDE[side]) not in role.sides() or (name, (pipeline, side)) in told:
                continue
            told.add((name, (pipeline, side)))
            waits = [at for at, _ in role.obtained((pipeline, "consumer"))] if side == "producer" else role.drained(pipeline)
            known.update((name, at) for at in waits)
            behind = [at for known_by, at in known if known_by == name]
            for given in role.sides():
                signals = role.signals(given)
                speaks = role.speaks_in_both(given) if paired else role.speaks(given)
                if speaks and signals and all(any(role.dominates(at, end) for at in behind) for end in signals):
                    unseen.append(given)
    role, at = roles[other[0]], (other[1].block, other[1].site)
    return any(name == other[0] and role.dominates(wait, at) for name, wait in known)


def _given_after(role: HandOvers, access: Access, paired: bool) -> Iterator[_Half]:
    """The sides that are never signalled before the role's last execution of the access; `paired`: in both CTAs of a pair."""
    at = access.block, access.site
    if access.handle is not None:
        side = access.handle.pipeline, access.handle.side
        earlier = (position for position, one in role.obtained(side) if one.handle is not access.handle)
        # It completes on the barrier of its own stage, for which a consumer that has skipped it has not waited.
        if (
            access.handle.pipeline not in role.in_turn
            and not role.leads(at, at)
            and not any(role.leads(position, at) for position in earlier)
        ):
            yield side
        return
    for side in role.sides():
        signals = role.signals(side)
        speaks = role.speaks_in_both(side) if paired else role.speaks(side)
        if signals and speaks and not any(role.leads(one, at) for one in signals):
            yield side


def _by_iteration(roles: dict[str, HandOvers], one: Use, other: Use) -> bool:
    """Whether in each iteration the first role fills a stage around its access and the second waits for it before its own, and the
    second's iterations so far touch other tiles than the first role's later ones."""
    role, partner = roles[one[0]], roles[other[0]]
    for pipeline in role.produces:
        if pipeline not in partner.consumes or pipeline.sub_stages("producer") > 1:
            continue
        filled, awaited = role.obtained((pipeline, "producer")), partner.obtained((pipeline, "consumer"))
        if len(filled) != 1 or len(awaited) != 1:
            continue
        (start, acquire), (wait, _) = filled[0], awaited[0]
        if not role.told_after(one[1], (pipeline, "producer"), start, acquire.handle):
            continue
        if partner.dominates(wait, (other[1].block, other[1].site)) and _same_iterations(
            role, start, one[1], partner, wait, other[1]
        ):
            return True
    return False


def _same_iterations(role: HandOvers, start: Position, one: Access, partner: HandOvers, wait: Position, other: Access) -> bool:
    """Whether both run in equal loops, such that the second role's other iterations, or all those before the first role's, touch other
    tiles."""
    counters = _equal_loops(role, start, partner, wait) if role.once_each_time(start[0]) else None
    if counters is None:
        return False
    steps = {loop.statement: loop.step for loop in partner.loops(wait[0])}
    place = replace(one.place, corner=tuple(renamed(term, counters) for term in one.place.corner))
    apart = apart_in_other_iterations(place, other.place, steps) or apart_in_earlier_iterations(place, other.place, steps)
    return not steps or apart


def _acknowledged(roles: dict[str, HandOvers], one: Use, other: Use) -> bool:
    """Whether in each iteration the first role signals after its access, and the second waits for that and signals back after its own,
    for which the first waits before it continues. The tile may be the same in all iterations."""
    role, partner = roles[one[0]], roles[other[0]]
    if one[1].handle is not None or other[1].handle is not None:
        return False
    there = [pipeline for pipeline in role.produces if pipeline in partner.consumes]
    back = [pipeline for pipeline in partner.produces if pipeline in role.consumes]
    return any(
        _told_of(role, one[1], pipeline, partner, other[1], answer)
        and _told_of(partner, other[1], answer, role, one[1], pipeline, awaits=False)
        for pipeline in there
        for answer in back
    )


def _told_of(
    role: HandOvers,
    access: Access,
    pipeline: tree.Pipeline,
    partner: HandOvers,
    theirs: Access,
    answer: tree.Pipeline,
    awaits: bool = True,
) -> bool:
    """Whether the role, once per iteration, signals the pipeline after its access and passes a wait for the other pipeline before its
    next one; and the partner, in equal loops, waits for the signal (if it `awaits` it) before its own access."""
    if pipeline.sub_stages("producer") > 1 or pipeline.sub_stages("consumer") > 1 or not role.speaks((pipeline, "producer")):
        return False
    filled, answered = role.obtained((pipeline, "producer")), role.obtained((answer, "consumer"))
    awaited = partner.obtained((pipeline, "consumer"))
    if not len(filled) == len(answered) == len(awaited) == 1:
        return False
    (start, _), (answer_comes, _), (wait, _) = filled[0], answered[0], awaited[0]
    loops = role.loops(start[0])
    if role.loops(answer_comes[0]) != loops or role.loops(access.block)[: len(loops)] != loops:
        return False
    if not (role.once_each_time(start[0]) and role.once_each_time(answer_comes[0])):
        return False
    if _equal_loops(role, start, partner, wait) is None:
        return False
    at = access.block, access.site
    if any(role.leads(signal, at, answer_comes) for signal in role.signals((pipeline, "producer"))):
        return False
    if not awaits:
        return True
    # The signal back in an iteration covers the partner's access in that same iteration.
    told = partner.signals((answer, "producer"))
    return all(partner.dominates(wait, one) for one in [(theirs.block, theirs.site), *told])


def _equal_loops(role: HandOvers, here: Position, partner: HandOvers, there: Position) -> dict[Loop, Term] | None:
    """If both positions are in loops with the same bounds, each exactly once per iteration: the partner's counters, keyed by the role's
    loops."""
    loops, theirs = role.loops(here[0]), partner.loops(there[0])
    if len(loops) != len(theirs) or not partner.once_each_time(there[0]):
        return None
    counters: dict[Loop, Term] = {}
    for mine, their in zip(loops, theirs, strict=True):
        counter = partner.role.values.counters.get(their.statement)
        if counter is None or not equal_bounds(role, mine, partner, their, counters):
            return None
        counters[mine.statement] = counter
    return counters


def equal_bounds(role: HandOvers, mine: ir.Loop, partner: HandOvers, their: ir.Loop, counters: Mapping[Loop, Term]) -> bool:
    if mine.variable is None or their.variable is None or mine.step != their.step:
        return False
    bounds, others = role.role.values.controls[mine.statement], partner.role.values.controls[their.statement]
    return tuple(renamed(bound, counters) for bound in bounds) == others


def _by_turns(roles: dict[str, HandOvers], one: Use, other: Use) -> bool:
    """Whether both hold the only stage of a pipeline around their accesses."""
    role, partner = roles[one[0]], roles[other[0]]
    for pipeline in role.produces:
        if pipeline not in partner.consumes or pipeline.stages > 1:
            continue
        if pipeline.sub_stages("producer") > 1 or pipeline.sub_stages("consumer") > 1:
            continue
        if any(
            role.held(one[1], (pipeline, "producer"), at, acquire.handle) for at, acquire in role.obtained((pipeline, "producer"))
        ) and any(
            partner.held(other[1], (pipeline, "consumer"), at, acquire.handle)
            for at, acquire in partner.obtained((pipeline, "consumer"))
        ):
            return True
    return False
