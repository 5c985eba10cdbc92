"""Loops of a walk: values that change between iterations are generalised at the loop header."""

from pipec.verify.network import Unreadable
from pipec.verify.reader.flow.graph import Block
from pipec.verify.reader.flow.slice import Flow
from pipec.verify.reader.processes.rounds import MOST_TURNS, Rounds, Trail
from pipec.verify.reader.values.machine import Machine
from pipec.verify.reader.values.surroundings import CTA_BITS, LOADED, MET, RESIDUE, Env, Synchronised
from pipec.verify.reader.values.tables import Hints, Special, cursor_of, fitted, size_of, union
from pipec.verify.reader.values.values import UNKNOWN, Lanes, Mixed, Peek, Table, Value
from pipec.verify.terms import (
    Both,
    Compare,
    Either,
    Formula,
    Linear,
    Symbol,
    add,
    atom,
    substitute,
    substituted,
    symbols_in,
    symbols_of,
)

_MOST_REPEATED = 512  # iterations within which a loop that is followed concretely should return to an earlier state
PUBLISHED = ("published",)
# Types of values that may contain symbols.
OF_SYMBOLS: frozenset[type] = frozenset({Linear, Compare, Both, Either})
_NO_SYMBOLS: frozenset[Symbol] = frozenset()
# The progress of a walk: nodes found, the current node (-1: the start), those after it, barriers initialised.
Here = tuple[int, int, tuple[int, ...], dict[int, tuple[int, int, tuple[int, ...]]]]


class Restart(Exception):
    """A generalisation was found for the loop with this header: restart from where it was first reached."""

    def __init__(self, block: int) -> None:
        super().__init__()
        self.block = block


def _alike(one: Value, other: Value) -> bool:
    return one is other or one == other


class Path:
    """The events between two states. `meaning`: of symbols that get a new value on the way, in terms of the source."""

    __slots__ = ("advances", "meaning", "requires")

    def __init__(self) -> None:
        self.meaning: dict[Symbol, Linear | None] = {}
        self.requires: list[Formula] = []
        self.advances: dict[object, int] = {}

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


class Loops(Rounds):
    """The loops of a walk. `special`: by header, the generalised values of registers.

    Registers that cycle together with a ring (stage and phase) become tables over the position of that ring's cursor; others (counters)
    become symbols. Each newly required generalisation restarts the walk with it.
    """

    def __init__(self, flow: Flow, machine: Machine, name: str, hints: Hints | None = None) -> None:
        super().__init__(flow, machine, name)
        self.special: Hints = {block: dict(found) for block, found in (hints or {}).items()}
        # By header, the tables among these that may have to be adapted to this CTA.
        self.hinted = {
            block: [name for name, one in found.items() if isinstance(one, Table)] for block, found in self.special.items()
        }
        self._symbols: dict[int, tuple[Value, frozenset[Symbol]]] = {}
        self.met: dict[int, Synchronised] = {}
        self.moduli: dict[tuple[int, object], int] = {}  # of counters, by block and register: the divisor
        self.first: dict[int, Here] = {}  # by loop header, in the order in which they were reached

    def _here(self) -> Here:
        raise NotImplementedError

    def hints(self) -> Hints:
        """The generalisations, for the same threads of another CTA. (Registers that cycle with a ring do so together or not at all.)"""
        made: Hints = {}
        for block, found in self.special.items():
            peeked = {cursor_of(one) for one in found.values() if isinstance(one, Peek)}
            made[block] = {
                name: one
                for name, one in found.items()
                if not isinstance(one, Peek) and (not isinstance(one, Table) or one.cursor not in peeked)
            }
        return made

    def _moved_here(self, block: Block, env: Env) -> None:
        """Adapts the tables of another CTA. If a register holds the corresponding shared-memory address in this CTA, so do all entries;
        if it holds no number, it is no table here. The iterations of the loop verify the guess."""
        special, left = self.special[block.number], []
        for name in self.hinted.pop(block.number, ()):
            table, value = special.get(name), self._value(env, name)
            if not isinstance(table, Table):
                continue  # iterations have shown otherwise
            at = self._value(env, ("position", table.cursor))
            entry = table.entries[at] if isinstance(at, int) else None
            if not isinstance(value, (int, Table)):
                del special[name]
            elif entry is None or not isinstance(value, int) or (value - entry) % (1 << CTA_BITS):
                left.append(name)
            else:
                special[name] = table.plus(value - entry)
        if left:
            self.hinted[block.number] = left

    def _turn(self, block: Block, env: Env, trail: Trail, path: Path) -> Trail:
        """At a loop header: generalised values replace those of this iteration."""
        if block.number not in self.first:
            self.first[block.number] = self._here()
        if block.number in self.hinted:
            self._moved_here(block, env)
        if MET in env:
            self._meet_alike(block, env)
        if Mixed in map(type, env.values()):
            env.update({name: UNKNOWN for name, value in env.items() if isinstance(value, Mixed)})
        special = self.special.get(block.number)
        if special:
            self._generalise(block, special, env, trail, path)
        before = self._before(block, trail)
        if before is None:
            return trail
        last, turns, undecided = before
        if turns > _MOST_REPEATED:
            raise Unreadable(self.flow.code[block.first].line, "a loop that does not come to an end is not understood")
        if not undecided and turns < MOST_TURNS:
            return trail
        names = self._carried(block, last, env)
        changed = self._changed(names, last, env)
        changed += self._drifting(block, last, env)
        if not changed:
            return trail
        if self._found(block, last, env, changed, names, trail):
            raise Restart(block.number)
        return trail

    def _drifting(self, block: Block, last: Env, env: Env) -> list[object]:
        """Registers that the loop does not write, whose values are made of a counter that moves on in it: the end of a range that was
        computed from its start, where one register holds the start and the counter. In each iteration they would be written differently."""
        return [
            name
            for name in self.flow.named(block.live & ~block.carried)
            if type(value := env.get(name)) is Linear and not _alike(self._value(last, name), value) and self._registers_in(value)
        ]

    def _carried(self, block: Block, last: Env, env: Env) -> list[object]:
        """The registers and positions that an iteration may change."""
        return [*self.flow.named(block.carried & block.live)] + [
            name for name in {*last, *env} if type(name) is tuple and name[0] == "position"
        ]

    def _changed(self, names: list[object], last: Env, env: Env) -> list[object]:
        return [name for name in names if not _alike(self._value(last, name), self._value(env, name))]

    def _meet_alike(self, block: Block, env: Env) -> None:
        """Which threads have synchronised must be the same in all iterations: the weakest over all of them."""
        known = self.met.get(block.number)
        if known is None:
            waits, meets = self.flow.waiting[block.number]
            known = (Synchronised.LANES if meets else Synchronised.NONE) if waits else Synchronised.ALL
        now = env[MET]
        assert isinstance(now, int)
        here = min(known, Synchronised(now))
        if self.met.setdefault(block.number, here) != here:
            self.met[block.number] = here
            raise Restart(block.number)
        env[MET] = here

    def _before(self, block: Block, trail: Trail) -> tuple[Env, int, bool] | None:
        """The values at the previous iteration of this loop, the number of iterations, and whether an undecided exit branch was passed
        since."""
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
        size = sum(size_of(one) for one in special.values())
        orbits = self._orbits(block, last, names, trail)
        for name, table in orbits.items():
            if isinstance(table, (Table, Peek)):
                special[name] = union(special.get(name), table)
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
            elif isinstance(old, int) and isinstance(new, int) and (table := self._beside(block, last, env, name, names, trail)):
                special[name] = table
            elif isinstance(old, int) and isinstance(new, int) and self._toggles(block, last, name, trail):
                continue
            else:
                special[name] = Symbol(f"{self.name}:{name}")
                if modulus := self._modulus(block, last, env, name, trail):
                    self.moduli[block.number, name] = modulus
                    self.machine.winds = True
        return size != sum(size_of(one) for one in special.values())

    def _beside(self, block: Block, last: Env, env: Env, name: object, names: list[object], trail: Trail) -> Table | None:
        """A number that changes with a ring's position, which is already a table, for some positions: such as the stage of a ring of
        two, after an inner loop with two iterations."""
        moved = [
            one
            for one in names
            if type(one) is tuple
            and isinstance(last.get(one), Table)
            and isinstance(env.get(one), Table)
            and last[one] != env[one]
        ]
        groups = self.machine.groups(self._passed(block, trail), names, last) if moved else []
        for place in moved:
            if any(name in group.names and place in group.names for group in groups):
                at, now = last[place], env[place]
                assert isinstance(at, Table) and isinstance(now, Table)
                before = Table(at.cursor, tuple(None if entry is None else last[name] for entry in at.entries))  # type: ignore[misc]
                made = fitted(before, env[name], now)
                return made if isinstance(made, Table) else None
        return None

    def _tabled(self, special: dict[object, Special], name: object, old: Value, new: Value, last: Env, env: Env) -> None:
        """A number in one iteration and a table in the next: the table, if it has the number at this position."""
        if isinstance(old, Table) and isinstance(new, Table):
            union = fitted(new, old, UNKNOWN)
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

    def _generalise(self, block: Block, special: dict[object, Special], env: Env, trail: Trail, path: Path) -> None:
        live = {*self.flow.named(block.live)}
        self._to_tables(
            block,
            {
                name: one
                for name, one in special.items()
                if isinstance(one, (Table, Peek)) and (type(name) is tuple or name in live)
            },
            env,
            trail,
        )
        for name, one in special.items():
            if one is None and name in env:
                env[name] = UNKNOWN
        given = {one: name for name, one in special.items() if isinstance(one, Symbol) and name in live and name in env}
        if not given:
            return
        for name in given.values():
            env[name] = self._begun(block, name, env[name])
        residues = {symbol: self._left(block, name, env) for symbol, name in given.items()} if self.machine.winds else {}
        meaning: dict[Symbol, Linear | None] = {}
        moved: dict[Symbol, Linear] = {}
        for symbol, name in given.items():
            value = env[name]
            if not isinstance(value, (int, Linear)):
                # A symbol is one value for all threads of the class; the value here may differ between threads.
                self.special[block.number][name] = None
                raise Restart(block.number)
            form = Linear(value) if isinstance(value, int) else value
            meaning[symbol] = path.in_source(form)
            if len(self.machine.present) > 1 and any(LOADED in one.name for one in symbols_of(form)):
                self.machine.around.loads.add(self.flow.code[block.first].line)
            if form.terms == ((symbol, 1),):
                moved[symbol] = add(atom(symbol), Linear(form.constant), -1)
        for other in live.difference(given.values()):
            if type(env.get(other)) in OF_SYMBOLS:
                self._rewrite(block, other, env, set(given), moved)
        for symbol, name in given.items():
            env[name] = self.machine.same(atom(symbol))
        for key in [key for key in env if type(key) is tuple and key[0] == RESIDUE and key[1] in given] if residues else ():
            del env[key]
        env.update({(RESIDUE, symbol, modulus): left for symbol, (modulus, left) in residues.items() if left is not None})
        path.meaning.update(meaning)

    def _begun(self, block: Block, name: object, value: Value) -> Value:
        """What a register is given in front of a loop: of sizes, the number that was read of them there, which fits its type, so that
        nothing is required for that. (What is made of counters is required to fit, and so is what has a residue: what is left of it
        modulo 2^32 has another.)"""
        if type(name) is not str or not isinstance(value, Linear) or self.machine.around.kernel.width(name) != 32:
            return value
        if (block.number, name) in self.moduli or self._registers_in(value):
            return value
        number = self.machine.around.arithmetic.signed.get(value)
        return value if number is None else self.machine.same(number)

    def _left(self, block: Block, name: object, env: Env) -> tuple[int, int | None]:
        """The modulus of a counter, and its residue."""
        modulus = self.moduli.get((block.number, name), 0)
        return modulus, self._residue(env[name], env, modulus) if modulus else None

    def _rewrite(self, block: Block, name: str, env: Env, given: set[Symbol], moved: dict[Symbol, Linear]) -> None:
        """A register whose value mentions a symbol that is redefined here: rewritten in terms of the new value, or generalised too."""
        value = env.get(name, UNKNOWN)
        met = self._registers_in(value) & given
        if not met:
            return
        if any(one not in moved for one in met):
            self.special[block.number][name] = Symbol(f"{self.name}:{name}") if isinstance(value, Linear) else None
            raise Restart(block.number)
        if isinstance(value, Linear):
            env[name] = self.machine.same(substitute(value, moved))
        else:
            env[name] = self.machine.same(substituted(value, moved))  # type: ignore[arg-type]

    def _to_tables(self, block: Block, tables: dict[object, Table | Peek], env: Env, trail: Trail) -> None:
        """Converts numbers to the tables that contain them, for all registers of a ring together or for none.

        A missing entry is added only if iterations of the loop return to it: for example after a wait for everything that was filled,
        the position is ahead of the stage until the loop has caught up, a state that never recurs."""
        for ring in {cursor_of(table) for table in tables.values()}:
            mine = {name: table for name, table in tables.items() if cursor_of(table) == ring}
            at = self._value(env, ("position", ring))
            made: dict[object, Table | Peek] = {}
            for name, table in mine.items():
                wanted = fitted(table, self._value(env, name), at)
                if not isinstance(wanted, (Table, Peek)):
                    break
                made[name] = wanted
            else:
                if made == mine:
                    env.update({name: self.machine.same(table) for name, table in made.items()})
                elif self._comes_back(block, ring, env, made):
                    # Registers that advanced with the ring in an inner loop do so here, too.
                    along = self._along(block, ring, env) | self._off_step(block, env, trail)
                    self.special[block.number].update({**along, **made})
                    raise Restart(block.number)

    def _along(self, block: Block, ring: int, env: Env) -> dict[object, Table]:
        """Registers that are tables over a ring and have not been generalised yet."""
        names = self.flow.named(block.carried & block.live)
        tables = {name: value for name in names if isinstance(value := env.get(name), Table) and value.cursor == ring}
        return {name: table for name, table in tables.items() if name not in self.special[block.number]}

    def _off_step(self, block: Block, env: Env, trail: Trail) -> dict[object, Table]:
        """Registers that were numbers as long as every iteration advanced by as many uses, and are others at the positions to which a
        shorter one leads: the stage of a ring of two, of which an iteration takes both unless it is the last."""
        before = self._before(block, trail)
        if before is None:
            return {}
        last, _, _ = before
        names = self._carried(block, last, env)
        found: dict[object, Table] = {}
        for name in self._changed(names, last, env):
            numbers = type(self._value(last, name)) is int and type(self._value(env, name)) is int
            if (
                numbers
                and name not in self.special[block.number]
                and (table := self._beside(block, last, env, name, names, trail))
            ):
                found[name] = table
        return found

    def _registers_in(self, value: Value) -> frozenset[Symbol]:
        if type(value) not in OF_SYMBOLS:
            return _NO_SYMBOLS
        # By identity: equal values in states are the same object, and hashing them takes longer.
        known, found = self._symbols.get(id(value), (None, _NO_SYMBOLS))
        if known is not value:
            all_of = symbols_of(value) if isinstance(value, Linear) else symbols_in(value)  # type: ignore[arg-type]
            found = frozenset(one for one in all_of if ":" in one.name and ":cursor" not in one.name)
            self._symbols[id(value)] = value, found
        return found
