"""The states of a walk: what distinguishes two of them at the same place, and what each keeps."""

from itertools import compress
from operator import attrgetter

from pipec.verify.network import Unreadable
from pipec.verify.reader.flow.graph import Block
from pipec.verify.reader.flow.slice import Flow, Question, gives_up, initialises, shuffles, signals_in_part, touches
from pipec.verify.reader.processes.divergence import Divergence
from pipec.verify.reader.processes.loops import OF_SYMBOLS, PUBLISHED, Path
from pipec.verify.reader.processes.ring_liveness import RingLiveness, Used
from pipec.verify.reader.processes.rounds import Trail
from pipec.verify.reader.processes.states import Held, Node, Transition
from pipec.verify.reader.text.opcodes import Kind
from pipec.verify.reader.values.machine import Machine
from pipec.verify.reader.values.surroundings import (
    ACTING,
    APART,
    ASKED,
    GIVEN_UP,
    HELD,
    LOADED,
    MET,
    READY,
    RESIDUE,
    Env,
    RingAction,
)
from pipec.verify.reader.values.tables import Hints
from pipec.verify.reader.values.values import Mixed, Value
from pipec.verify.terms import Formula, Symbol, atom, negate, symbols_in

# The value of `sub` for the predicate of an event.
GUARD = -1
NO_ACTS: list[RingAction] = []
# State components that are kept only while an instruction that reads them is still reachable.
_SELDOM: dict[tuple[str, ...], Question] = {MET: signals_in_part, APART: shuffles, READY: initialises, GIVEN_UP: gives_up}
_ALWAYS: frozenset[object] = frozenset({ACTING, ASKED, HELD})
_NO_RINGS: frozenset[int] = frozenset()
_IS_MARK = frozenset({tuple}).__contains__  # keys that are not registers
_name = attrgetter("name")


class StateTable(Divergence):
    """Finds the state of a place and an environment, and makes it if it is new.

    `used`: the rings that instructions were seen to use. On a ring without further uses the position of the class no longer matters;
    without this, consecutive loops that may each run zero times would double the states. `scouting`: visits each place once, only to
    record such uses."""

    def __init__(
        self,
        flow: Flow,
        machine: Machine,
        name: str,
        hints: Hints | None = None,
        *,
        used: Used | None = None,
        scouting: bool = False,
    ) -> None:
        super().__init__(flow, machine, name, hints)
        self.scouting = scouting
        self.used: Used = {}
        self.left = RingLiveness(flow, machine.around.barriers, used) if used else None
        self.nodes: list[Node] = []
        self.keys: dict[object, int] = {}
        self.reached: list[int] = []  # from the current state
        self._kept: dict[tuple[int, int], tuple[tuple[str, ...], bool, frozenset[object]]] = {}

    def _kept_at(self, block: Block, index: int) -> tuple[tuple[str, ...], bool, frozenset[object]]:
        """The relevant part of an environment before a step: live registers; whether barriers are still used; other components that a
        reachable instruction may read."""
        found = self._kept.get((block.number, index))
        if found is None:
            touching = self.flow.comes_to(touches, block, index)
            seldom = [key for key, asks in _SELDOM.items() if self.flow.comes_to(asks, block, index)]
            live = self.flow.named(self.flow.live_at(block)[index])
            found = self._kept[block.number, index] = live, touching, _ALWAYS.union(seldom)
        return found

    def _place(
        self, block: Block, index: int, sub: int, env: Env, trail: Trail, path: Path, acts: list[RingAction] = NO_ACTS
    ) -> Transition:
        if acts:
            number = block.steps[index].instruction.number
            self.used[number] = self.used.get(number, _NO_RINGS).union([act.ring for act in acts if isinstance(act.ring, int)])
        live, touching, asked = self._kept_at(block, index)
        values = tuple(map(env.get, live))
        if Mixed in map(type, values):
            values = tuple(None if isinstance(value, Mixed) else value for value in values)
        marks = [
            (key, env[key])
            for key in compress(env, map(_IS_MARK, map(type, env)))
            if key in asked or touching and key not in _SELDOM and (key[0] is not RESIDUE or self._tells(key, values))  # type: ignore[index, arg-type]
        ]
        if touching and self.left is not None and (over := self.left.at(block, index)):
            there: dict[object, Value] = {("position", ring): self.machine.anywhere(ring) for ring in over}
            marks = [(key, value) for key, value in marks if key not in there]
            marks += there.items()
        kept: Env = {name: value for name, value in zip(live, values, strict=True) if value is not None}
        kept.update(marks)
        return self._come(block, index, sub, (values, frozenset(marks)), kept, trail, path, acts)

    def _tells(self, key: tuple[object, ...], values: tuple[Value | None, ...]) -> bool:
        """The residue of a counter is relevant only while the counter is live."""
        return any(key[1] in self._registers_in(one) for one in values if one is not None)

    def _come(
        self, block: Block, index: int, sub: int, held: Held, env: Env, trail: Trail, path: Path, acts: list[RingAction]
    ) -> Transition:
        """Goes to the state with these values, creating it if it is new."""
        state = (block.number, index, sub, None if self.scouting else held)
        at = self.keys.setdefault(state, len(self.nodes))
        if at == len(self.nodes):
            self.machine.around.spend(len(env))
            self.nodes.append(self._node(block, index, sub, env, trail, acts))
            self.nodes[at].held = held
        self.reached.append(at)
        values = []
        for symbol in self.nodes[at].symbols if path.meaning else ():
            if symbol in path.meaning and path.meaning[symbol] != atom(symbol):
                values.append((symbol, path.meaning[symbol]))
        return Transition(at, tuple(values), tuple(path.advances.items()), tuple(path.requires))

    def _node(self, block: Block, index: int, sub: int, env: Env, trail: Trail, acts: list[RingAction]) -> Node:
        symbols: set[Symbol] = set()
        for value in compress(env.values(), map(OF_SYMBOLS.__contains__, map(type, env.values()))):
            symbols |= self._registers_in(value)
        if index < len(block.steps):
            step = block.steps[index]
            node = Node(block.number, index, sub, step.instruction.line, env, trail, [], NO_ACTS)
            if sub == GUARD:
                node.condition = self.machine.guard(step, env)  # type: ignore[assignment]
            else:
                node.acts, node.act = acts, acts[sub]
                if isinstance(node.act.ring, int) and Kind.SYNC in self.flow.roots:
                    met = 1 + any(rank != self.machine.rank for rank, _ in node.act.targets)
                    if published(env) < met:
                        raise Unreadable(node.line, "the barrier may not be ready yet: no barrier of all threads stands before")
        else:
            assert block.branch is not None and block.branch.predicate
            value = env[ASKED] if ASKED in env else self.machine.uniform(env[block.branch.predicate], block.branch.line)
            condition: Formula = value  # type: ignore[assignment]
            node = Node(block.number, index, sub, block.branch.line, env, trail, [], NO_ACTS)
            node.condition = negate(condition) if block.branch.negated else condition
        node.symbols = tuple(sorted(symbols, key=_name)) if len(symbols) > 1 else tuple(symbols)
        if node.condition is not None and len(self.machine.present) > 1:
            self.machine.around.loads |= {node.line for one in symbols_in(node.condition) if LOADED in one.name}
        return node


def published(env: Env) -> int:
    value = env.get(PUBLISHED, 0)
    return value if isinstance(value, int) else 0
