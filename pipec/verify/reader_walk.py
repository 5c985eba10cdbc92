"""One class of threads, executed symbolically: from registers to an automaton of events.

A state is a place before an event or an undecided branch, with the values of the live registers. Values that change from turn to turn of
a loop are generalised at the loop's first block: registers that go round in circles together with a ring (stage and phase) become tables
over the position of that ring's cursor; others (counters) become symbols. Whatever is found to need that starts the walk anew with it.
"""

from dataclasses import dataclass, field

from pipec.verify.network import Unreadable
from pipec.verify.reader_events import APART, LOADED, MET, Act, Env, Group, Machine, Met
from pipec.verify.reader_flow import Block, Flow, Question, Step, live_before, shuffles, signals_in_part, touches
from pipec.verify.reader_graph import EXIT
from pipec.verify.reader_opcodes import MEETINGS, Kind
from pipec.verify.reader_values import UNKNOWN, Lanes, Peek, Remote, Table, Value
from pipec.verify.terms import (
    Both,
    Compare,
    Either,
    Formula,
    Linear,
    Symbol,
    add,
    atom,
    negate,
    substitute,
    substituted,
    symbols_in,
    symbols_of,
)

MOST_STATES = 20_000
MOST_TURNS = 8
_LARGEST_STAGE = 64  # what is larger may be an address
_PUBLISHED = ("published",)
_NO_POSITIONS = (_PUBLISHED, MET, APART)
# What is kept only where an instruction can still follow that asks for it.
_SELDOM: dict[tuple[str, ...], Question] = {MET: signals_in_part, APART: shuffles}
# What a register is generalised to: a function of a cursor (a peek of such a barrier), a symbol, or nothing known.
Special = Table | Peek | Symbol | None
Hints = dict[int, dict[object, Special]]  # by first block of a loop
# The part of an event that is the question whether it happens.
GUARD = -1
_NOTHING: list[Act] = []
# Blocks passed, newest first: (before, block, values at the first block of a loop). Block -1: an undecided branch, of that block.
Trail = tuple["Trail", int, Env | int | None] | None


class Again(Exception):
    """A generalisation was found: begin anew."""


@dataclass
class Path:
    """What happened on the way from one state to the next. `meaning`: of symbols given a new value on the way, in terms of the source."""

    meaning: dict[Symbol, Linear | None] = field(default_factory=dict)
    requires: list[Formula] = field(default_factory=list)
    advances: dict[object, int] = field(default_factory=dict)

    def copy(self) -> "Path":
        return Path(dict(self.meaning), list(self.requires), dict(self.advances))

    def in_source(self, form: Linear) -> Linear | None:
        if not self.meaning:
            return form
        if any(self.meaning.get(one, form) is None for one in symbols_of(form)):
            return None
        return substitute(form, {one: value for one, value in self.meaning.items() if value is not None})

    def require(self, formulas: tuple[Formula, ...]) -> None:
        for formula in formulas:
            if any(self.meaning.get(one, formula) is None for one in symbols_in(formula)):
                formula = Either(())
            elif self.meaning:
                formula = substituted(formula, {one: value for one, value in self.meaning.items() if value is not None})
            if formula not in self.requires:
                self.requires.append(formula)


@dataclass
class Node:
    """A state found. `act` for an event (number `sub` of its step), `condition` for a branch, neither at the end."""

    block: int
    index: int
    sub: int
    line: int
    env: Env
    trail: Trail
    acts: list[Act] = field(default_factory=list)
    act: Act | None = None
    condition: Formula | None = None
    edges: list["Way"] = field(default_factory=list)
    symbols: tuple[Symbol, ...] = ()


@dataclass
class Way:
    """An edge between nodes."""

    target: int
    values: tuple[tuple[Symbol, Linear | None], ...]
    advances: tuple[tuple[object, int], ...]
    requires: tuple[Formula, ...]


class Walk:
    """The automaton of `threads` of the CTA of `rank`."""

    def __init__(self, flow: Flow, machine: Machine, name: str, hints: Hints | None = None) -> None:
        self.flow, self.machine, self.name = flow, machine, name
        self.special: Hints = {block: dict(found) for block, found in (hints or {}).items()}
        self._names: dict[int, tuple[str, ...]] = {}
        self._live: dict[tuple[int, int], tuple[str, ...]] = {}
        self._symbols: dict[Value, frozenset[Symbol]] = {}
        self.nodes: list[Node] = []
        self.keys: dict[object, int] = {}

    def run(self) -> list[Node]:
        for _ in range(200):
            self.nodes, self.keys = [], {}
            self.machine.inits.clear()
            try:
                self.start = self._explore()
            except Again:
                continue
            return self.nodes
        raise Unreadable(self.flow.kernel.line, "the loops are too deep")

    def hints(self) -> Hints:
        """What was generalised and does not depend on the CTA: no addresses."""
        return {
            block: {name: one for name, one in found.items() if not isinstance(one, Peek) and not _has_addresses(one)}
            for block, found in self.special.items()
        }

    def _explore(self) -> Way:
        start = self._enter(0, {}, None, Path())
        at = 0
        while at < len(self.nodes):
            self._expand(self.nodes[at])
            at += 1
            if len(self.nodes) > MOST_STATES:
                raise Unreadable(self.flow.kernel.line, f"more than {MOST_STATES} states")
        return start

    def _expand(self, node: Node) -> None:
        block = self.flow.blocks[node.block] if node.block != EXIT else None
        if block is None:
            return
        if node.condition is not None:
            self._expand_test(node, block)
            return
        assert node.act is not None
        if self.machine.prologue and self.machine.publishes(node.act):
            return
        env, path = dict(node.env), Path()
        self._pass(node.act, env, path)
        step = block.steps[node.index]
        if node.sub + 1 < len(node.acts):
            node.edges.append(self._place(block, node.index, node.sub + 1, env, node.trail, path, node.acts))
            return
        self._finish(step, env, path)
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
        for after in block.next:
            node.edges.append(self._enter(after, dict(node.env), (node.trail, -1, block.number), Path()))

    def _pass(self, act: Act, env: Env, path: Path) -> None:
        """The cursor moves on, and with it what is a function of it."""
        if act.waits and self.machine.publishes(act):
            env[_PUBLISHED] = max(self.machine.publishes(act), _published(env))
        if act.waits:
            env[MET] = self.machine.met(act)
        if not act.advance:
            return
        path.advances[act.cursor] = path.advances.get(act.cursor, 0) + act.advance
        if act.position is None:
            return
        ring = act.position
        counted = self.machine.cursor_symbol(ring) if self.machine.around.asks else None
        if counted is not None:
            path.meaning[counted] = Linear(act.advance, ((counted, 1),))
        for name, value in env.items():
            if isinstance(value, Table) and value.cursor == ring:
                env[name] = value.turned(act.advance)
            elif counted is not None and isinstance(value, (Linear, Compare, Both, Either)):
                # In terms of the new position.
                before = {counted: Linear(-act.advance, ((counted, 1),))}
                changed = substitute(value, before) if isinstance(value, Linear) else substituted(value, before)
                env[name] = self.machine.same(changed)
            elif isinstance(value, Peek):
                parts = [
                    part.turned(act.advance) if isinstance(part, Table) and part.cursor == ring else part
                    for part in (value.address, value.parity)
                ]
                env[name] = self.machine.same(Peek(parts[0], parts[1], value.negated))
        env[("position", ring)] = self.machine.moved(env.get(("position", ring), 0), ring, act.advance)

    def _compute(self, step: Step, env: Env, path: Path) -> None:
        self.machine.compute(step, env, path.require)
        one = step.instruction
        if one.head != "ld":
            return
        drawn = self.machine.draws(one)
        if drawn in self._registers_in(env.get(one.first[0], UNKNOWN)):
            path.meaning[drawn] = None
            for name, value in env.items():
                if name != one.first[0] and drawn in self._registers_in(value):
                    env[name] = UNKNOWN

    def _finish(self, step: Step, env: Env, path: Path) -> None:
        """What an event leaves in registers."""
        if step.kind in MEETINGS and env.get(MET, Met.NONE) == Met.NONE:
            env[MET] = Met.LANES
        if step.kind in (Kind.COMPUTE, Kind.MEET_COMPUTE):
            self._compute(step, env, path)
        elif step.kind is Kind.TRY and not step.spin:
            env.update(self.machine.peek(step.instruction, env))
        else:
            for name in self._masked(step.defines):
                env[name] = UNKNOWN

    def _enter(self, number: int, env: Env, trail: Trail, path: Path) -> Way:
        if number == EXIT:
            return self._end(path)
        block = self.flow.blocks[number]
        if block.loop:
            trail = (self._turn(block, env, trail, path), number, dict(env))
        else:
            trail = (trail, number, None)
        return self._go(block, 0, env, trail, path)

    def _end(self, path: Path) -> Way:
        at = self.keys.get("end")
        if at is None:
            at = self.keys["end"] = len(self.nodes)
            self.nodes.append(Node(EXIT, 0, 0, self.flow.code[-1].line, {}, None))
        return Way(at, (), tuple(path.advances.items()), tuple(path.requires))

    def _go(self, block: Block, index: int, env: Env, trail: Trail, path: Path) -> Way:
        """On to the next state."""
        steps = block.steps
        while True:
            while index < len(steps):
                step = steps[index]
                if step.kind is Kind.COMPUTE or step.kind is Kind.OBSERVE and not step.until:
                    self._compute(step, env, path)
                elif not isinstance(held := self.machine.guard(step, env), int):
                    return self._place(block, index, GUARD, env, trail, path)
                elif held and (acts := self.machine.acts(step, env)):
                    return self._place(block, index, 0, env, trail, path, acts)
                elif held:
                    self._finish(step, env, path)
                index += 1
            if not block.test:
                after = block.next[0]
            else:
                decided = self._decided(block, env, trail)
                if decided is None:
                    return self._place(block, index, 0, env, trail, path)
                after = block.next[decided]
            if after == EXIT:
                return self._end(path)
            block, index = self.flow.blocks[after], 0
            steps = block.steps
            if block.loop:
                trail = (self._turn(block, env, trail, path), after, dict(env))
            else:
                trail = (trail, after, None)

    def _decided(self, block: Block, env: Env, trail: Trail) -> int | None:
        """Which way the branch goes, None if that is a matter of the sizes."""
        assert block.branch is not None and block.branch.predicate
        value = env.get(block.branch.predicate, UNKNOWN)
        if self.machine.divides(value):
            env[APART] = 1
        value = self.machine.uniform(value, block.branch.line)
        if isinstance(value, int):
            return 0 if bool(value) != block.branch.negated else 1
        if isinstance(value, Peek):
            return self._peeked(block, value, env, trail)
        if value is UNKNOWN or isinstance(value, (Table, Lanes, Remote)):
            raise Unreadable(block.branch.line, "what decides this branch is not understood")
        return None

    def _peeked(self, block: Block, peek: Peek, env: Env, trail: Trail) -> int:
        """A branch on whether a barrier was found complete: the way of a barrier that was not, if it leads to the wait for that very
        use and from there to where the other way leads, too. Then the peek makes no difference but of time."""
        assert block.branch is not None
        ready = 0 if peek.negated == block.branch.negated else 1
        act = self.machine.peeked(block.branch, peek, env)
        slow = self._enter(block.next[1 - ready], dict(env), trail, Path())
        node = self.nodes[slow.target]
        if node.act == act and not (slow.values or slow.advances or slow.requires):
            ways = []
            for first, index, values, passed in (
                (None, 0, dict(env), trail),
                (self.flow.blocks[node.block], node.index + 1, dict(node.env), node.trail),
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

    # States.

    def _masked(self, mask: int) -> tuple[str, ...]:
        found = self._names.get(mask)
        if found is None:
            names = self.flow.names
            found = self._names[mask] = tuple(names[at] for at in range(mask.bit_length()) if mask >> at & 1)
        return found

    def _live_at(self, block: Block, index: int) -> tuple[str, ...]:
        found = self._live.get((block.number, index))
        if found is None:
            live = self.flow.live_after(block)
            for step in reversed(block.steps[index:]):
                live = live_before(step, live)
            found = self._live[block.number, index] = self._masked(live)
        return found

    def _place(self, block: Block, index: int, sub: int, env: Env, trail: Trail, path: Path, acts: list[Act] = _NOTHING) -> Way:
        live = self._live_at(block, index)
        kept: Env = {name: env[name] for name in live if name in env}
        if self.flow.comes_to(touches, block, index):
            kept.update((name, value) for name, value in env.items() if type(name) is tuple and name not in _SELDOM)
        for name, asking in _SELDOM.items():
            if name in env and self.flow.comes_to(asking, block, index):
                kept[name] = env[name]
        key = (block.number, index, sub, frozenset(kept.items()))
        at = self.keys.get(key)
        if at is None:
            at = self.keys[key] = len(self.nodes)
            self.nodes.append(self._node(block, index, sub, kept, trail, acts))
        node = self.nodes[at]
        values = []
        for symbol in node.symbols:
            if symbol in path.meaning and path.meaning[symbol] != atom(symbol):
                values.append((symbol, path.meaning[symbol]))
        return Way(at, tuple(values), tuple(path.advances.items()), tuple(path.requires))

    def _node(self, block: Block, index: int, sub: int, env: Env, trail: Trail, acts: list[Act]) -> Node:
        symbols: set[Symbol] = set()
        for value in env.values():
            symbols |= self._registers_in(value)
        if index < len(block.steps):
            step = block.steps[index]
            node = Node(block.number, index, sub, step.instruction.line, env, trail)
            if sub == GUARD:
                node.condition = self.machine.guard(step, env)  # type: ignore[assignment]
            else:
                node.acts, node.act = acts, acts[sub]
                if isinstance(node.act.ring, int) and _published(env) < 1 + any(
                    rank != self.machine.rank for rank, _ in node.act.targets
                ):
                    raise Unreadable(node.line, "the barrier may not be ready yet: no barrier of all threads stands before")
        else:
            assert block.branch is not None and block.branch.predicate
            value = self.machine.uniform(env[block.branch.predicate], block.branch.line)
            condition: Formula = value  # type: ignore[assignment]
            node = Node(block.number, index, sub, block.branch.line, env, trail)
            node.condition = negate(condition) if block.branch.negated else condition
        node.symbols = tuple(sorted(symbols, key=lambda one: one.name))
        if node.condition is not None and len(self.machine.threads) > 1:
            self.machine.around.loads |= {node.line for one in symbols_in(node.condition) if LOADED in one.name}
        return node

    def _registers_in(self, value: Value) -> frozenset[Symbol]:
        if isinstance(value, (int, Table, Lanes, Peek, Remote)) or value is UNKNOWN:
            return frozenset()
        found = self._symbols.get(value)
        if found is None:
            all_of = symbols_of(value) if isinstance(value, Linear) else symbols_in(value)  # type: ignore[arg-type]
            found = self._symbols[value] = frozenset(one for one in all_of if ":" in one.name and ":cursor" not in one.name)
        return found

    # Loops.

    def _turn(self, block: Block, env: Env, trail: Trail, path: Path) -> Trail:
        """At the first block of a loop: generalised values take the place of this turn's."""
        if MET in env:
            env[MET] = Met.NONE  # the same in all turns
        special = self.special.get(block.number)
        if special:
            self._generalise(block, special, env, path)
        before = self._before(block, trail)
        if before is None:
            return trail
        last, turns, undecided = before
        names: list[object] = [name for name in self._masked(block.carried & block.live)] + [
            name for name in {*last, *env} if type(name) is tuple and name not in _NO_POSITIONS
        ]
        changed: list[object] = [
            name
            for name in names
            if self._value(last, name) is not self._value(env, name) and self._value(last, name) != self._value(env, name)
        ]
        if not changed or not undecided and turns < MOST_TURNS:
            return trail
        if self._found(block, last, env, changed, names, trail):
            raise Again
        return trail

    @staticmethod
    def _value(env: Env, name: object) -> Value:
        return env.get(name, 0 if type(name) is tuple else UNKNOWN)

    def _before(self, block: Block, trail: Trail) -> tuple[Env, int, bool] | None:
        """The values at the last turn of this loop, how many turns it had, and whether there was an undecided way out since."""
        turns, undecided, last = 0, False, None
        while trail is not None:
            trail, number, what = trail
            if number == -1:
                assert isinstance(what, int)
                leaves = what in block.loop and any(one not in block.loop for one in self.flow.blocks[what].next)
                undecided = undecided or leaves and last is None
                number = what
            if number not in block.loop:
                break
            if number == block.number and isinstance(what, dict):
                last = last or what
                turns += 1
        return (last, turns, undecided) if last is not None else None

    def _found(self, block: Block, last: Env, env: Env, changed: list[object], names: list[object], trail: Trail) -> bool:
        """Adds what must be generalised. False if there is nothing to add."""
        special = self.special.setdefault(block.number, {})
        size = sum(_size(one) for one in special.values())
        orbits = self._orbits(block, last, names, trail)
        for name, table in orbits.items():
            if isinstance(table, (Table, Peek)):
                special[name] = _union(special.get(name), table)
        for name in changed:
            if name in orbits or name in special:
                continue
            old, new = self._value(last, name), self._value(env, name)
            if isinstance(new, Table) or isinstance(old, Table):
                self._tabled(special, name, old, new, last, env)
            elif (
                isinstance(old, Peek)
                or isinstance(new, Peek)
                or type(name) is tuple
                or isinstance(old, Lanes)
                or isinstance(new, Lanes)
            ):
                continue
            elif old is UNKNOWN or new is UNKNOWN or not isinstance(old, (int, Linear)) or not isinstance(new, (int, Linear)):
                special[name] = None
            elif isinstance(old, int) and isinstance(new, int) and self._toggles(block, last, name, trail):
                continue
            else:
                special[name] = Symbol(f"{self.name}:{name}")
        return size != sum(_size(one) for one in special.values())

    def _tabled(self, special: dict[object, Special], name: object, old: Value, new: Value, last: Env, env: Env) -> None:
        """A number in one turn and a table in the next: the table, if the number fits into it at its position."""
        if isinstance(old, Table) and isinstance(new, Table):
            union = _fitted(new, old, UNKNOWN)
            if isinstance(union, Table):
                special[name] = union
            return
        made: Table | None = None
        for value, where in ((old, last), (new, env)):
            if isinstance(value, Table):
                made = value
        assert made is not None
        for value, where in ((old, last), (new, env)):
            at = self._value(where, ("position", made.cursor))
            if isinstance(value, int) and isinstance(at, int):
                entries = list(made.entries)
                if entries[at] not in (None, value):
                    return
                entries[at] = value
                made = Table(made.cursor, tuple(entries))
        special[name] = made

    def _toggles(self, block: Block, last: Env, name: object, trail: Trail) -> bool:
        """Whether a register takes a few values only (a staging buffer's number, what is released late and is nothing at first): then it
        is followed as it is."""
        env, seen = dict(last), [last.get(name)]
        steps = self.machine.needed(self._passed(block, trail), self.flow.bits.get(str(name), 0))
        for _ in range(MOST_TURNS):
            env = self.machine.repeat(steps, env)
            if env.get(name) in seen:
                return True
            seen.append(env.get(name))
        return False

    def _passed(self, block: Block, trail: Trail) -> list[Block]:
        passed = []
        while trail is not None:
            trail, number, what = trail
            if number != -1:
                passed.append(self.flow.blocks[number])
            if number == block.number and isinstance(what, dict):
                break
        return passed[::-1]

    def _orbits(self, block: Block, last: Env, names: list[object], trail: Trail) -> dict[object, Special]:
        """Registers that go round together with the position on a ring, as tables over it, by repeating the turn just made."""
        passed = self._passed(block, trail)
        groups = self.machine.groups(passed, names, last)
        if not groups:
            return {}
        env = dict(last)
        longest = 4 * max(self.machine.period(ring) for group in groups for ring in group.positions)
        found: dict[object, Special] = {}
        open_ = {group: sorted(group.names, key=str) for group in groups}
        states: dict[Group, list[tuple[Value, ...]]] = {group: [] for group in groups}
        together = frozenset().union(*(group.names for group in groups))
        steps = self.machine.needed(passed, self.flow.mask([name for name in together if isinstance(name, str)]))
        for _ in range(longest):
            for group, own in list(open_.items()):
                now = tuple(self._value(env, name) for name in own)
                mine = states[group]
                mine.append(now)
                first = next((at for at in range(min(3, len(mine) - 1)) if mine[at] == now), None)
                if first is not None:
                    found.update(self._orbit(group, own, mine[first:-1]))
                    del open_[group]
            if not open_:
                break
            env = self.machine.repeat(steps, dict(env))
        return found

    def _orbit(self, group: Group, names: list[object], round_: list[tuple[Value, ...]]) -> dict[object, Special]:
        """The registers of a group as tables. The first turns may be others: what is released late is nothing at first."""
        for ring in sorted(group.positions, key=self.machine.period, reverse=True):
            at = names.index(("position", ring))
            places = [state[at] for state in round_]
            if len(set(places)) == len(places) > 1:
                break
        else:
            return {}
        found: dict[object, Special] = {}
        for column, name in enumerate(names):
            made = _column(ring, self.machine.period(ring), places, [state[column] for state in round_])
            if isinstance(made, (Table, Peek)):
                found[name] = made
        return found

    def _generalise(self, block: Block, special: dict[object, Special], env: Env, path: Path) -> None:
        live = set(self._masked(block.live))
        self._to_tables(
            block,
            {
                name: one
                for name, one in special.items()
                if isinstance(one, (Table, Peek)) and (type(name) is tuple or name in live)
            },
            env,
        )
        for name, one in special.items():
            if one is None and name in env:
                env[name] = UNKNOWN
        given = {one: name for name, one in special.items() if isinstance(one, Symbol) and name in live and name in env}
        if not given:
            return
        meaning: dict[Symbol, Linear | None] = {}
        moved: dict[Symbol, Linear] = {}
        for symbol, name in given.items():
            value = env[name]
            form = Linear(value) if isinstance(value, int) else value if isinstance(value, Linear) else None
            meaning[symbol] = path.in_source(form) if form is not None else None
            if form is not None and form.terms == ((symbol, 1),):
                moved[symbol] = add(atom(symbol), Linear(form.constant), -1)
        for other in live - set(given.values()):
            self._rewrite(block, other, env, set(given), moved)
        for symbol, name in given.items():
            env[name] = self.machine.same(atom(symbol))
        path.meaning.update(meaning)

    def _rewrite(self, block: Block, name: str, env: Env, given: set[Symbol], moved: dict[Symbol, Linear]) -> None:
        """A register that mentions a symbol which gets a new value here: in terms of the new value, or generalised too."""
        value = env.get(name, UNKNOWN)
        met = self._registers_in(value) & given
        if not met:
            return
        if any(one not in moved for one in met):
            self.special[block.number][name] = Symbol(f"{self.name}:{name}") if isinstance(value, Linear) else None
            raise Again
        if isinstance(value, Linear):
            env[name] = self.machine.same(substitute(value, moved))
        else:
            env[name] = self.machine.same(substituted(value, moved))  # type: ignore[arg-type]

    def _to_tables(self, block: Block, tables: dict[object, Table | Peek], env: Env) -> None:
        """Numbers become the tables that they are entries of, for all registers of a ring together or for none."""
        for ring in {_cursor(table) for table in tables.values()}:
            mine = {name: table for name, table in tables.items() if _cursor(table) == ring}
            at = self._value(env, ("position", ring))
            made: dict[object, Table | Peek] = {}
            for name, table in mine.items():
                wanted = _fitted(table, self._value(env, name), at)
                if not isinstance(wanted, (Table, Peek)):
                    break
                made[name] = wanted
            else:
                if made != mine:
                    self.special[block.number].update(made)
                    raise Again
                for name, table in made.items():
                    env[name] = self.machine.same(table)


def _has_addresses(one: Special) -> bool:
    return isinstance(one, Table) and any(entry is not None and entry > _LARGEST_STAGE for entry in one.entries)


def _published(env: Env) -> int:
    value = env.get(_PUBLISHED, 0)
    return value if isinstance(value, int) else 0


def _cursor(value: Table | Peek) -> int:
    if isinstance(value, Table):
        return value.cursor
    return next(part.cursor for part in (value.address, value.parity) if isinstance(part, Table))


def _size(one: Special) -> int:
    """How much is generalised; it only grows."""
    if isinstance(one, Table):
        return 1 + sum(entry is not None for entry in one.entries)
    if isinstance(one, Peek):
        return 1 + sum(_size(part) for part in (one.address, one.parity) if isinstance(part, Table))
    return 1


def _column(ring: int, period: int, places: list[Value], values: list[Value]) -> Value | None:
    """The values at the places of a ring as one."""
    if all(value == values[0] for value in values):
        return values[0]
    if all(isinstance(value, int) for value in values):
        entries: list[int | None] = [None] * period
        for place, value in zip(places, values, strict=True):
            assert isinstance(place, int) and isinstance(value, int)
            entries[place] = value
        return Table(ring, tuple(entries))
    peeks = [value for value in values if isinstance(value, Peek)]
    if len(peeks) == len(values) and len({peek.negated for peek in peeks}) == 1:
        address = _column(ring, period, places, [peek.address for peek in peeks])
        parity = _column(ring, period, places, [peek.parity for peek in peeks])
        if address is not None and parity is not None:
            return Peek(address, parity, peeks[0].negated)
    return None


def _fitted(table: Value, value: Value, at: Value) -> Value | None:
    """The table, with what the value says beside it; None if they disagree."""
    if isinstance(table, Peek):
        if not isinstance(value, Peek) or value.negated != table.negated:
            return None
        address, parity = _fitted(table.address, value.address, at), _fitted(table.parity, value.parity, at)
        return Peek(address, parity, table.negated) if address is not None and parity is not None else None
    if not isinstance(table, Table):
        return table if table == value else None
    if isinstance(value, int) and isinstance(at, int):
        value = Table(table.cursor, tuple(value if place == at else None for place in range(len(table.entries))))
    elif isinstance(value, int) and isinstance(at, Table):
        value = Table(table.cursor, tuple(value if entry is not None else None for entry in at.entries))
    if not isinstance(value, Table) or value.cursor != table.cursor or len(value.entries) != len(table.entries):
        return None
    if any(None not in (a, b) and a != b for a, b in zip(table.entries, value.entries, strict=True)):
        return None
    return Table(table.cursor, tuple(b if a is None else a for a, b in zip(table.entries, value.entries, strict=True)))


def _union(left: Special, right: Table | Peek) -> Special:
    if not isinstance(left, (Table, Peek)):
        return right
    made = _fitted(left, right, UNKNOWN)
    return made if isinstance(made, (Table, Peek)) else left
