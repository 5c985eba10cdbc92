"""The behaviour of loops, found by repeating the last iteration: registers that cycle with the position on a ring, registers that take
only a few values, and counters of which only a residue matters.
"""

from collections.abc import Iterable

from pipec.verify.network import Unreadable
from pipec.verify.reader.flow.graph import Block, Step
from pipec.verify.reader.flow.slice import Flow
from pipec.verify.reader.values.machine import Machine
from pipec.verify.reader.values.surroundings import RESIDUE, Env, Group
from pipec.verify.reader.values.tables import Special, as_table
from pipec.verify.reader.values.values import UNKNOWN, Peek, Table, Value
from pipec.verify.terms import Linear, symbols_of

MOST_TURNS = 8
# A value with an increment that is not a multiple of this does not return to its start within MOST_TURNS iterations.
_COMES_ROUND = (1 << 32) // MOST_TURNS
_MOST_WOUND = 48  # iterations within which the rings of a loop should return to their positions
# Blocks passed, newest first: (before, block, values at a loop header). Block -1: an undecided branch, of that block.
Trail = tuple["Trail", int, Env | int | None] | None


class Rounds:
    """Repeats iterations of a loop."""

    def __init__(self, flow: Flow, machine: Machine, name: str) -> None:
        self.flow, self.machine, self.name = flow, machine, name
        self.turns: dict[int, list[Step]] = {}  # by loop header: the steps of an iteration for cycling registers

    @staticmethod
    def _value(env: Env, name: object) -> Value:
        return env.get(name, 0 if type(name) is tuple else UNKNOWN)

    def _toggles(self, block: Block, last: Env, name: object, trail: Trail) -> bool:
        """Whether a register takes only a few values (the number of a staging buffer, a deferred release that is initially empty): then
        it is followed concretely."""
        env, seen = dict(last), [last.get(name)]
        steps = self.machine.needed(self._passed(block, trail), self.flow.bits.get(str(name), 0))
        if self.machine.moved_by(steps, str(name)) % _COMES_ROUND:
            return False
        for _ in range(MOST_TURNS):
            env = self.machine.repeat(steps, env)
            if env.get(name) in seen:
                return True
            seen.append(env.get(name))
        return False

    def _modulus(self, block: Block, last: Env, env: Env, name: object, trail: Trail) -> int | None:
        """The modulus of a counter that determines stages and phases: after that many iterations the rings are back at their positions."""
        old, new = self._value(last, name), self._value(env, name)
        if not isinstance(old, int) or not isinstance(new, int):
            # A residue that matters in an inner loop matters here, too.
            known = {symbol for value in (old, new) if isinstance(value, Linear) for symbol in symbols_of(value)}
            moduli = {key[2] for key in (*last, *env) if type(key) is tuple and key[0] == RESIDUE and key[1] in known}
            return max(moduli, default=None)
        passed = self._passed(block, trail)
        if not any(name in group.names for group in self.machine.groups(passed, [name], last)):
            return None
        now, steps = dict(last), self.machine.needed(passed, self.flow.bits.get(str(name), 0))
        counts: list[int] = []
        places: list[dict[object, Value]] = []
        for _ in range(2 * _MOST_WOUND):
            count = self._value(now, name)
            if not isinstance(count, int) or len(counts) > 1 and count - counts[-1] != counts[1] - counts[0]:
                return None
            counts.append(count)
            places.append(
                {key: place for key, place in now.items() if type(key) is tuple and key[0] == "position" and place != 0}
            )
            try:
                now = self.machine.repeat(steps, now)
            except Unreadable:
                return None
        turns = next((one for one in range(1, _MOST_WOUND) if places[one:] == places[:-one]), 1)
        return abs(counts[1] - counts[0]) * turns if turns > 1 else None

    def _residue(self, value: Value, env: Env, modulus: int) -> int | None:
        """The residue of a value."""
        if isinstance(value, int):
            return value % modulus
        if not isinstance(value, Linear):
            return None
        known = {key[1]: (key[2], left) for key, left in env.items() if type(key) is tuple and key[0] == RESIDUE}
        total = value.constant
        for one, times in value.terms:
            of, left = known.get(one, (1, 0))
            if times * of % modulus or not isinstance(left, int):
                return None
            total += times * left
        return total % modulus

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
        """Registers that cycle together with the position on a ring, as tables over it, found by repeating the last iteration."""
        passed = self._passed(block, trail)
        groups = [group for group in self.machine.groups(passed, names, last) if self._goes_round(group, last)]
        if not groups:
            return {}
        env = dict(last)
        longest = 4 * max(self.machine.period(ring) for group in groups for ring in group.positions)
        found: dict[object, Special] = {}
        open_ = {group: sorted(group.names, key=str) for group in groups}
        states: dict[Group, list[tuple[Value, ...]]] = {group: [] for group in groups}
        together = frozenset().union(*(group.names for group in groups))
        steps = self.machine.needed(passed, self.flow.mask([name for name in together if isinstance(name, str)]))
        self.turns[block.number] = steps
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

    def _comes_back(self, block: Block, ring: int, env: Env, names: Iterable[object]) -> bool:
        """Whether the cycle found leads back to the current register values, wherever the position on the ring is."""
        steps = self.turns.get(block.number)
        if steps is None:
            return True
        period, at = self.machine.period(ring), self._value(env, ("position", ring))
        places = [place for place, entry in enumerate(at.entries) if entry is not None] if isinstance(at, Table) else [at]
        return all(
            self._repeats(steps, {name: _entry(value, ring, place) for name, value in env.items()}, [*names], period)
            for place in places
        )

    def _repeats(self, steps: list[Step], env: Env, names: list[object], turns: int) -> bool:
        """Whether registers return to their current values within this many iterations."""
        begun = [env.get(name) for name in names]
        for _ in range(turns):
            try:
                env = self.machine.repeat(steps, env)
            except Unreadable:
                return True  # unsupported steps are inconclusive
            if [env.get(name) for name in names] == begun:
                return True
        return False

    def _goes_round(self, group: Group, env: Env) -> bool:
        """Whether some ring has a numeric position: once it is a table, the iteration would be repeated at the same position."""
        return any(
            self.machine.signalled(ring) or isinstance(self._value(env, ("position", ring)), int) for ring in group.positions
        )

    def _orbit(self, group: Group, names: list[object], round_: list[tuple[Value, ...]]) -> dict[object, Special]:
        """The registers of a group as tables. The first iterations may differ: a deferred release is initially empty."""
        for ring in sorted(group.positions, key=self.machine.period, reverse=True):
            at = names.index(("position", ring))
            places = [state[at] for state in round_]
            if len(set(places)) == len(places) > 1:
                break
        else:
            return {}
        found: dict[object, Special] = {}
        for column, name in enumerate(names):
            made = as_table(ring, self.machine.period(ring), places, [state[column] for state in round_])
            if isinstance(made, (Table, Peek)):
                found[name] = made
        return found


def _entry(value: Value, ring: int, place: Value) -> Value:
    """The value at a position on a ring."""
    return value.entries[place] if isinstance(value, Table) and value.cursor == ring and isinstance(place, int) else value  # type: ignore[return-value]
