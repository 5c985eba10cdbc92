"""Symbolic execution of one class of threads: from registers to an automaton of events.

A state is a place before an event or an undecided branch, with the values of the live registers. Values that change between iterations
of a loop are generalised at the loop header: registers that cycle together with a ring (stage and phase) become tables over the position
of that ring's cursor; others (counters) become symbols. Each newly required generalisation restarts the walk with it.
"""

from pipec.verify.network import Unreadable
from pipec.verify.reader.flow.graph import EXIT, Block, Step
from pipec.verify.reader.flow.idle import Decides
from pipec.verify.reader.flow.slice import Flow
from pipec.verify.reader.processes.loops import PUBLISHED, Here, Path, Restart
from pipec.verify.reader.processes.ring_liveness import Used
from pipec.verify.reader.processes.rounds import Trail
from pipec.verify.reader.processes.state_table import GUARD, NO_ACTS, StateTable, published
from pipec.verify.reader.processes.states import Node, Transition
from pipec.verify.reader.text.opcodes import MEETINGS, Kind
from pipec.verify.reader.values.machine import Machine
from pipec.verify.reader.values.surroundings import (
    ACTING,
    APART,
    ASKED,
    MET,
    Columns,
    Env,
    RingAction,
    Synchronised,
    held_in,
)
from pipec.verify.reader.values.tables import Hints
from pipec.verify.reader.values.values import UNKNOWN, Lanes, Mixed, Peek, Table
from pipec.verify.terms import Both, Compare, Either, Linear, substitute, substituted

MOST_STATES = 2_000  # the largest class of the examples has 157; search and checker become slow long before memory is full
MANY_STATES = 160  # above this, it pays to remember the outcome of a branch whose predicate is tested again
_INITIALISING = frozenset({Kind.INIT})
_FINDING = frozenset({Kind.COMPUTE, Kind.MEET_COMPUTE, Kind.VOTE})
_DRAWING = ("ld", "vote", "bar", "barrier")  # instructions whose result is a new value each time


class TooManyStates(Exception):
    """The walk has many states; it is repeated with remembered predicates."""


class Walk(StateTable):
    """The automaton of `threads` of the CTA of `rank`.

    `remembering`: after an undecided branch its predicate is known, so that a later branch on it goes the same way. Otherwise both ways
    are followed, with unreachable combinations of registers (a release of a stage that was never obtained), of which there may be many.
    On the other hand, the remembered predicate distinguishes states that are otherwise equal; so it is only used if there are many
    states without it."""

    def __init__(
        self, flow: Flow, machine: Machine, name: str, hints: Hints | None = None, *, remembering: bool = True, used: Used | None = None,
        scouting: bool = False,
    ) -> None:  # fmt: skip
        super().__init__(flow, machine, name, hints, used=used, scouting=scouting)
        self.remembering = remembering
        self.held: set[Columns] = set()  # at the ends
        self._peeking: set[int] = set()  # the blocks whose way of an incomplete barrier is being taken
        self.at = -1
        self.open: list[int] = []  # states whose successors are not known yet; the last one is the next
        self.known = 0  # states found before the current one was looked at
        self.ways: dict[int, list[int]] = {}  # by state (-1: the start), those that were reached from it

    def run(self) -> list[Node]:
        """States found before a loop is reached do not depend on its generalisation, and are kept."""
        self.nodes, self.keys, self.first, self.at, self.open, self.known = [], {}, {}, -1, [], 0
        self.machine.inits.clear()
        for _ in range(200):
            try:
                self._explore()
            except Restart as again:
                self._back_to(again.block)
                continue
            self._number()
            return self.nodes
        raise Unreadable(self.flow.kernel.line, "the loops are too deep")

    def number_of(self, event: Node) -> int:
        """The number of the event's instruction."""
        return self.flow.blocks[event.block].steps[event.index].instruction.number

    def _here(self) -> Here:
        return self.known, self.at, tuple(self.open), dict(self.machine.inits)

    def _back_to(self, block: int) -> None:
        """Resets the walk to where the loop was first reached."""
        found, self.at, open_, inits = self.first[block]
        later = [*self.first]
        for one in later[later.index(block) :]:
            del self.first[one]
        del self.nodes[found:]
        self.keys = {key: at for key, at in self.keys.items() if at < found}
        self.open = [*open_] if self.at < 0 else [*open_, self.at]
        for number in self.open:
            self.nodes[number].edges.clear()
        self.machine.inits = inits

    def _explore(self) -> None:
        if self.at < 0:
            self.ways[-1] = self.reached = []
            self.start = self._enter(0, {}, None, Path())
            self.open = [*range(len(self.nodes))]
        while self.open:
            self.at, self.known = self.open.pop(), len(self.nodes)
            self.ways[self.at] = self.reached = []
            self._expand(self.nodes[self.at])
            if len(self.nodes) > self.known:
                self.open += sorted(range(self.known, len(self.nodes)), key=self._urgency)
            if len(self.nodes) > MANY_STATES and not self.remembering:
                raise TooManyStates
            if len(self.nodes) > MOST_STATES:
                raise Unreadable(self.flow.kernel.line, f"more than {MOST_STATES} states")

    def _urgency(self, number: int) -> int:
        """What follows a loop is looked at last: once the loop's values are generalised, it would be found again. Of nested loops the
        outermost is closed first: its registers are often those of the others."""
        depth = self.flow.depths[self.nodes[number].block]
        return -depth if depth else -len(self.flow.blocks)

    def _number(self) -> None:
        """Numbers the states by their distance from the start, in whatever order they were found."""
        order = [*dict.fromkeys(self.ways[-1])]
        there = {number: at for at, number in enumerate(order)}
        for number in order:
            for target in self.ways[number]:
                if target not in there:
                    there[target] = len(order)
                    order.append(target)
        for way in (self.start, *(way for node in self.nodes for way in node.edges)):
            way.target = there[way.target]
        self.nodes = [self.nodes[number] for number in order]

    def _expand(self, node: Node) -> None:
        block = self.flow.blocks[node.block] if node.block != EXIT else None
        if block is None:
            return
        self._stand(node.env)
        if node.condition is not None:
            self._expand_test(node, block)
            return
        assert node.act is not None
        if self.machine.prologue and self.machine.publishes(node.act):
            # From this point on other threads may use the barriers: initialising one again would reset its phases.
            if self.flow.graph.coming_to([block.steps[node.index].instruction.number], _INITIALISING):
                raise Unreadable(node.line, "barriers are made ready again after threads have met")
            return
        more = node.sub + 1 < len(node.acts)
        if more and not node.act.waits and not node.act.advance:
            # Nothing has changed: usually an arrival, followed by the wait for the same use.
            node.edges.append(self._come(block, node.index, node.sub + 1, node.held, node.env, node.trail, Path(), node.acts))
            return
        env, path = dict(node.env), Path()
        self._pass(node.act, env, path)
        if more:
            node.edges.append(self._place(block, node.index, node.sub + 1, env, node.trail, path, node.acts))
            return
        self._finish(block.steps[node.index], env, path)
        node.edges.append(self._go(block, node.index + 1, env, node.trail, path))

    def _expand_test(self, node: Node, block: Block) -> None:
        """An undecided branch, or an event whose predicate is undecided."""
        if node.sub == GUARD:
            env, path, step = dict(node.env), Path(), block.steps[node.index]
            acts = self.machine.acts(step, env)
            if acts:
                node.edges.append(self._place(block, node.index, 0, env, node.trail, path, acts))
            else:
                self._finish(step, env, path)
                node.edges.append(self._go(block, node.index + 1, env, node.trail, path))
            node.edges.append(self._go(block, node.index + 1, dict(node.env), node.trail, Path()))
            return
        known = {name: value for name, value in node.env.items() if name is not ASKED}
        remembers = self.remembering and self._asked_again(block, known)
        for taken, after in zip((True, False), block.next, strict=True):
            env = dict(known)
            if remembers and block.branch is not None:
                env[block.branch.predicate] = int(taken != block.branch.negated)
            node.edges.append(self._enter(after, env, (node.trail, -1, block.number), Path()))

    def _asked_again(self, block: Block, env: Env) -> bool:
        """Whether the predicate of an undecided branch depends on counters and is still live after it."""
        assert block.branch is not None and block.branch.predicate
        name = block.branch.predicate
        if not self._registers_in(env[name]):
            return False
        bit, blocks = self.flow.bits[name], self.flow.blocks
        again = any(bit & blocks[after].live for after in block.next if after != EXIT)
        # At a loop header it would be a number in one iteration and a condition in another.
        return again and not any(bit & one.carried & one.live and block.number in one.loop for one in blocks)

    def _pass(self, act: RingAction, env: Env, path: Path) -> None:
        """Advances the cursor, and rewrites values that depend on it."""
        if act.waits and self.machine.publishes(act):
            env[PUBLISHED] = max(self.machine.publishes(act), published(env))
        if act.waits and not act.peeks:
            env[MET] = self.machine.met(act)
        if not act.advance:
            return
        path.advances[act.cursor] = path.advances.get(act.cursor, 0) + act.advance
        if act.position is None:
            return
        ring = act.position
        self._keep(env, lambda value: value.turned(act.advance) if isinstance(value, Table) and value.cursor == ring else value)
        counted = self.machine.cursor_symbol(ring) if self.machine.around.asks else None
        if counted is not None:
            path.meaning[counted] = Linear(act.advance, ((counted, 1),))
        for name, value in env.items():
            if type(value) is int:
                continue
            if isinstance(value, Table):
                if value.cursor == ring:
                    env[name] = value.turned(act.advance)
            elif counted is not None and isinstance(value, (Linear, Compare, Both, Either)):
                # In terms of the new position.
                before = {counted: Linear(-act.advance, ((counted, 1),))}
                changed = substitute(value, before) if isinstance(value, Linear) else substituted(value, before)
                env[name] = self.machine.same(changed)
            elif isinstance(value, Peek) and value.use[0] == ring:
                # Looked at before this wait, when the phase that it was about may have been two ahead.
                env[name] = UNKNOWN
            elif isinstance(value, Peek):
                parts = [
                    part.turned(act.advance) if isinstance(part, Table) and part.cursor == ring else part
                    for part in (value.address, value.parity)
                ]
                env[name] = self.machine.same(Peek(parts[0], parts[1], value.use, value.negated))
        env[("position", ring)] = self.machine.moved(env.get(("position", ring), 0), ring, act.advance)

    def _compute(self, step: Step, env: Env, path: Path) -> None:
        self.machine.compute(step, env, path.require)
        one = step.instruction
        if one.head not in _DRAWING:
            return
        drawn = self.machine.draws(one)
        if drawn in self._registers_in(env.get(one.first[0], UNKNOWN)):
            path.meaning[drawn] = None
            self._keep(env, lambda value: value)
            for name, value in env.items():
                if name != one.first[0] and drawn in self._registers_in(value):
                    env[name] = UNKNOWN

    def _finish(self, step: Step, env: Env, path: Path) -> None:
        """The effect of an event on registers."""
        if step.kind in MEETINGS:
            self._meet(env)
        if step.kind in _FINDING:
            if step.defines:  # otherwise the result is dead
                self._compute(step, env, path)
        elif step.kind is Kind.TRY and not step.spin:
            env.update(self.machine.peek(step.instruction, env))
        else:
            for name in self.flow.named(step.defines):
                env[name] = UNKNOWN

    @staticmethod
    def _meet(env: Env) -> None:
        """The lanes of each warp are at the same point."""
        if env.get(MET, Synchronised.NONE) == Synchronised.NONE and ACTING not in env:
            env[MET] = Synchronised.LANES

    def _enter(self, number: int, env: Env, trail: Trail, path: Path) -> Transition:
        if number == EXIT:
            return self._end(env, path)
        block = self.flow.blocks[number]
        self._stand(env)
        self._rejoin(number, env)
        if block.loop:
            self._keep(env, lambda value: value)
            trail = (self._turn(block, env, trail, path), number, dict(env))
        else:
            trail = (trail, number, None)
        return self._go(block, 0, env, trail, path)

    def _end(self, env: Env, path: Path) -> Transition:
        self.held.add(tuple(held_in(env).items()))
        at = self.keys.get("end")
        if at is None:
            at = self.keys["end"] = len(self.nodes)
            self.nodes.append(Node(EXIT, 0, 0, self.flow.code[len(self.flow.code) - 1].line, {}, None, [], NO_ACTS))
        self.reached.append(at)
        return Transition(at, (), tuple(path.advances.items()), tuple(path.requires))

    def _go(self, block: Block, index: int, env: Env, trail: Trail, path: Path) -> Transition:
        """Continues to the next state."""
        steps, runs, asks = block.steps, block.runs, self.machine.around.asks
        while True:
            self.machine.around.spend(len(steps) - index + 1)
            while index < len(steps):
                run = runs.get(index)
                if run is not None:
                    self.machine.execute(run, env, path.require)
                    index += len(run.steps)
                    continue
                step = steps[index]
                if step.kind is Kind.COMPUTE or step.kind is Kind.OBSERVE and not step.until:
                    if asks and step.defines and (act := self.machine.reading(step.instruction, env)) is not None:
                        return self._place(block, index, 0, env, trail, path, [act])
                    self._compute(step, env, path)
                elif step.kind is Kind.MEET and self.machine.passes(step.instruction):
                    self._meet(env)
                elif not isinstance(held := self.machine.guard(step, env), int):
                    return self._place(block, index, GUARD, env, trail, path)
                elif held and (acts := self.machine.acts(step, env)):
                    return self._place(block, index, 0, env, trail, path, acts)
                elif held:
                    self._finish(step, env, path)
                elif step.passes:
                    self._pass(self.machine.gone_past(step.instruction, env), env, path)
                index += 1
            if not block.test:
                after = block.next[0]
            else:
                decided = self._decided(block, env, trail)
                if decided is None:
                    return self._place(block, index, 0, self._asking(block, env), trail, path)
                after = block.next[decided]
            if after == EXIT:
                return self._end(env, path)
            block, index = self.flow.blocks[after], 0
            steps, runs = block.steps, block.runs
            self._rejoin(after, env)
            if block.loop:
                self._keep(env, lambda value: value)
                trail = (self._turn(block, env, trail, path), after, dict(env))
            else:
                trail = (trail, after, None)

    def _asking(self, block: Block, env: Env) -> Env:
        """The condition of an undecided branch for the threads in a section, if other threads have another value: `elected and i < n`."""
        assert block.branch is not None and block.branch.predicate
        value = env[block.branch.predicate]
        return {**env, ASKED: self.machine.uniform(value, block.branch.line)} if isinstance(value, Mixed) else env

    def _decided(self, block: Block, env: Env, trail: Trail) -> int | None:
        """The successor index of the branch; None if it depends on sizes."""
        assert block.branch is not None and block.branch.predicate
        value = env.get(block.branch.predicate, UNKNOWN)
        if "uni" in block.branch.parts:
            self.machine.note_uniform(block.branch, value)
        if block.number in self.machine.around.idle.branches and not isinstance(value, (Compare, Both, Either)):
            raise Decides([block.branch.line])
        if isinstance(value, (Lanes, Mixed)):
            if not self._set_apart(block, value, env) and ACTING not in env and self.machine.divides(value):
                env[APART] = 1
            value = self.machine.uniform(value, block.branch.line)
        if isinstance(value, int):
            return 0 if bool(value) != block.branch.negated else 1
        if isinstance(value, Peek):
            return self._peeked(block, value, env, trail)
        if not isinstance(value, (Compare, Both, Either)):  # includes numbers used as predicates, which are not supported
            raise Unreadable(block.branch.line, self._not_understood(block.branch.predicate))
        return None

    def _not_understood(self, predicate: str) -> str:
        made = [one for one in self.flow.kernel.code if one.operands[:1] == (predicate,)]
        if len(made) == 1 and made[0].opcode == "not.pred":
            made = [one for one in self.flow.kernel.code if one.operands[:1] == made[0].operands[1:2]]
        where = "is computed in several places, as in the turn before, and" if len(made) > 1 else "is"
        return f"what decides this branch {where} not understood"

    def _peeked(self, block: Block, peek: Peek, env: Env, trail: Trail) -> int:
        """A branch on the result of a peek: takes the way of an incomplete barrier, if it leads to the wait for that same use and then
        to the target of the other way. The peek then affects only the timing."""
        assert block.branch is not None
        if block.number in self._peeking:
            raise Unreadable(block.branch.line, "a loop that tries a barrier and does more than wait for it is not understood")
        ready = 0 if peek.negated == block.branch.negated else 1
        act = self.machine.peeked(block.branch, peek, env)
        self._peeking.add(block.number)
        try:
            slow = self._enter(block.next[1 - ready], dict(env), trail, Path())
        finally:
            self._peeking.discard(block.number)
        node = self.nodes[slow.target]
        if node.act == act and not (slow.values or slow.advances or slow.requires):
            ways = []
            # First the way through the wait: the states after it then have it in their trail, from which iterations are repeated.
            for first, index, values, passed in (
                (self.flow.blocks[node.block], node.index + 1, dict(node.env), node.trail),
                (None, 0, dict(env), trail),
            ):
                path = Path()
                self._pass(act, values, path)
                if first is None:
                    ways.append(self._enter(block.next[ready], values, passed, path))
                else:
                    self._finish(first.steps[node.index], values, path)
                    ways.append(self._go(first, index, values, passed, path))
            if ways[0] == ways[1]:
                return 1 - ready
        raise Unreadable(block.branch.line, "what follows a try_wait differs by more than a wait for the same use")
