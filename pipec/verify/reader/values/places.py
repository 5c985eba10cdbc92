"""Resolves barriers and uses of their rings: from an address and a parity to a position relative to a cursor."""

from collections.abc import Callable

from pipec.record import replace
from pipec.verify.network import Unreadable
from pipec.verify.reader.text.instructions import Instruction
from pipec.verify.reader.text.operations import Operation
from pipec.verify.reader.text.statements import address
from pipec.verify.reader.values.operands import Operands
from pipec.verify.reader.values.surroundings import (
    ANNOUNCED,
    CTA_BITS,
    FILLED,
    OFFSET,
    OPEN,
    OWED,
    REACHED,
    BarrierAddress,
    Env,
    RingAction,
)
from pipec.verify.reader.values.values import UNKNOWN, Peek, Table, Value
from pipec.verify.terms import Symbol

_MOST_EARLY = 228 << 10  # bytes of copies before the arrival that announces them: no CTA has more shared memory


class Places(Operands):
    """Barriers as addressed by a class of threads."""

    def cursor_symbol(self, ring: int) -> Symbol:
        """The number of uses of a ring behind the cursor."""
        return Symbol(f"{self.name}:cursor {ring}")

    def period(self, ring: int) -> int:
        """The number of uses after which the position on a ring recurs."""
        stages = self.around.barriers.stages[ring]
        return stages if self.signalled(ring) else 2 * stages

    def anywhere(self, ring: int) -> Value:
        """The position, known only to be that of the cursor."""
        return self.same(Table(ring, tuple(range(self.period(ring)))))

    def signalled(self, ring: int) -> bool:
        """Whether the class's arrivals at the ring are counted separately, since it waits neither for it nor for its other side."""
        return self.waited is not None and ring not in self.waited

    def moved(self, position: Value, ring: int, by: int) -> Value:
        if isinstance(position, int):
            return (position + by) % self.period(ring)
        assert isinstance(position, Table)
        return self.same(
            Table(position.cursor, tuple(None if e is None else (e + by) % self.period(ring) for e in position.entries))
        )

    def _position(self, ring: int, env: Env) -> Value:
        return env.get(("position", ring), 0)

    def _spot(self, one: Instruction, text: str, env: Env) -> BarrierAddress:
        """The barrier at an address."""
        name, offset = (text, 0) if text.startswith(_WHERE) else address(text, one.line)
        value = self.uniform(self.value(name, env), one.line) if name else 0
        if isinstance(value, int):
            found = self._place(one, value + offset)
            return BarrierAddress(found[0], found[1], found[2], None)
        if not isinstance(value, Table):
            raise Unreadable(one.line, "the address of the barrier is not understood")
        places = [None if entry is None else self._place(one, entry + offset) for entry in value.entries]
        known = [place for place in places if place is not None]
        if len({(ring, rank) for ring, _, rank in known}) != 1:
            raise Unreadable(one.line, "the barriers of several rings in one place are not understood")
        return BarrierAddress(
            known[0][0], tuple(None if place is None else place[1] for place in places), known[0][2], value.cursor
        )

    def _place(self, one: Instruction, where: int) -> tuple[int, int, int]:
        found = self.around.barriers.places.get(where & OFFSET)
        rank = where >> CTA_BITS
        if found is None or not 0 <= rank < self.around.ranks:
            raise Unreadable(one.line, f"there is no barrier at offset {where & OFFSET}")
        self._in_space(one, rank)
        return found[0], found[1], rank

    def _in_space(self, one: Instruction, rank: int) -> None:
        """An address of `.shared::cta`, which is what `.shared` means, is one in the CTA that executes the instruction. What another
        CTA's address does there is not defined."""
        if rank != self.rank and _OWN_SPACES.intersection(one.parts) and "shared::cluster" not in one.parts:
            raise Unreadable(one.line, f"{one.opcode} at an address of another CTA is not understood")

    def _awaited(self, one: Instruction, env: Env) -> tuple["BarrierAddress", Value]:
        """The barrier that is tried, and stage + stages * parity."""
        if "parity" not in one.parts:
            raise Unreadable(one.line, "a wait without a parity is not understood")
        where, text = one.operands[1:3]
        name = where if where.startswith(_WHERE) else address(where, one.line)[0]
        key = (one.number, self.acting, env.get(name), env.get(text))
        found = self._tried.get(key)
        if found is None:
            spot = self._spot(one, where, env)
            if spot.rank != self.rank:
                raise Unreadable(one.line, "a wait for the barrier of another CTA is not understood")
            stages = self.around.barriers.stages[spot.ring]
            parity = self.uniform(self.value(text, env), one.line)
            if any(bit not in (0, 1, None) for bit in (parity.entries if isinstance(parity, Table) else (parity,))):
                raise Unreadable(one.line, "a parity other than 0 and 1 is not understood")
            rounds = _joined(spot.cursor, spot.stage, parity, lambda stage, bit: stage + stages * bit)
            if rounds is None:
                raise Unreadable(one.line, "the parity waited for is not understood")
            found = self._tried[key] = spot, rounds
        return found

    def _wait(self, one: Instruction, env: Env) -> RingAction:
        act, lag = self._tried_for(one, env)
        assert isinstance(act.ring, int)
        self.lags[act.ring] = lag
        return act

    def _tried_for(self, one: Instruction, env: Env) -> tuple[RingAction, int]:
        """The wait that a try_wait belongs to, and how far the class is behind on the ring."""
        spot, rounds = self._awaited(one, env)
        ring, stages = spot.ring, self.around.barriers.stages[spot.ring]
        self.waits.add(ring)
        self._rings.setdefault(one.number, set()).add(ring)
        ahead = self._apart(one, rounds, self._position(ring, env), 2 * stages)
        lag = self.lags.get(ring, 0 if ahead < stages else stages)
        ahead = (ahead + lag) % (2 * stages)
        if ahead < stages:
            return RingAction(True, ring, ring, ahead - lag, ahead + 1, ring), lag
        return RingAction(True, ring, ring, ahead - 2 * stages - lag, 0, ring), lag

    def gone_past(self, one: Instruction, env: Env) -> RingAction:
        """A use for which the class does not wait: only advances the position."""
        return replace(self._wait(one, env), waits=False)

    def looked_at(self, one: Instruction, env: Env) -> RingAction:
        """What a try_wait outside a waiting loop relies on: while the phase before is open, the parity is that of the one before that."""
        act, _ = self._tried_for(one, env)
        assert isinstance(act.ring, int)
        return replace(act, shift=act.shift - self.around.barriers.stages[act.ring], advance=0, peeks=True)

    def _apart(self, one: Instruction, at: Value, position: Value, modulus: int) -> int:
        """The distance between two positions on a ring; must be the same for all values of the cursor."""
        key = at, position, modulus
        known = self.around.distances.get(key)
        if known is not None:
            return known
        cursor = next((value.cursor for value in (at, position) if isinstance(value, Table)), None)
        found = _joined(cursor, at, position, lambda place, start: (place - start) % modulus)
        apart = self.same(found) if found is not None else None
        if not isinstance(apart, int):
            raise Unreadable(one.line, "the stage is not a fixed number of stages away from the last one")
        self.around.distances[key] = apart
        return apart

    def _use(
        self,
        one: Instruction,
        spot: BarrierAddress,
        env: Env,
        arrivals: int,
        *,
        announces: int | None = None,
        copied: int = 0,
        several: bool = False,
    ) -> RingAction:
        """The use of a ring to which an arrival belongs. After a wait for the other side: the use that it made free, or an earlier one.
        `announces`, `copied`: bytes; None where none can be announced. `several`: the barriers of several CTAs are signalled at once."""
        ring, stages = spot.ring, self.around.barriers.stages[spot.ring]
        stage: Value = spot.stage if spot.cursor is None else Table(spot.cursor, spot.stage)  # type: ignore[arg-type, assignment]
        for driver in (self.around.barriers.other[ring], spot.cursor):
            # A wait of the class on the ring itself frees nothing there.
            if driver is None or driver == ring or self.signalled(driver):
                continue
            self.relied.add(driver)
            self._rings.setdefault(one.number, set()).add(driver)
            behind = self._apart(one, stage, self._position(driver, env), stages)
            # The position is that of the next use; the last one is one before.
            return RingAction(False, ring, driver, behind - stages, 0, driver, targets=((spot.rank, 1),))
        self.relied.add(ring)
        self._rings.setdefault(one.number, set()).add(ring)
        ahead = self._apart(one, stage, self._position(ring, env), stages)
        if not self.signalled(ring):
            # The last use of this barrier for which the class waited is this many uses behind its cursor, and this is the next one.
            lag = self.lags.get(ring, 0) if ("position", ring) in env else 0
            return RingAction(False, ring, ring, ahead - lag, 0, ring, targets=((spot.rank, 1),))
        announced = env.pop((ANNOUNCED, ring), 0) if arrivals else env.get((ANNOUNCED, ring), 0)
        if announces is not None and not arrivals and not ahead:
            env[(ANNOUNCED, ring)] = announced = 1
        early = stages == 1 and self._comes_early(one, ring, env, arrivals=arrivals > 0, announces=announces, copied=copied)
        if announced and not arrivals:
            # Bytes announced before the arrival, and copies after them, belong to the use of the arrival.
            return RingAction(False, ring, ring, ahead, 0, ring, targets=((spot.rank, 1),))
        rounds = self.around.rounds.get(ring, 1)
        if arrivals and rounds > 1:
            # The next use starts only after the last of them.
            before = env.get((FILLED, ring), 0)
            if not isinstance(before, int) or before and ahead:
                raise Unreadable(one.line, "arrivals of one phase that are not one after the other are not understood")
            env[(FILLED, ring)] = (before + 1) % rounds
            return RingAction(False, ring, ring, ahead, ahead + (before + 1 == rounds), ring, targets=((spot.rank, 1),))
        if arrivals:
            if self.around.ranks > 1 and not several and self._also(ring, spot.rank, env, ahead == stages - 1):
                return RingAction(False, ring, ring, -1, 0, ring, targets=((spot.rank, 1),))
            return RingAction(False, ring, ring, ahead, ahead + 1, ring, targets=((spot.rank, 1),))
        behind = ahead == stages - 1 and not early
        return RingAction(False, ring, ring, -1 if behind else ahead, 0, ring, targets=((spot.rank, 1),))

    def _also(self, ring: int, rank: int, env: Env, at_last: bool) -> bool:
        """Whether an arrival belongs to the last use, which has been signalled at barriers of other CTAs, but not at this one: each of them
        counts its own arrivals. `at_last`: its stage is that of the last use."""
        self.signals.setdefault(ring, set()).add(rank)
        if ring not in self.parted:
            return False
        before, mine, key = env.get((REACHED, ring), 0), 1 << rank, (REACHED, ring)
        assert isinstance(before, int)
        also = bool(before) and not before & mine and at_last
        env[key] = before | mine if also else mine
        if env[key] == (1 << self.around.ranks) - 1:
            del env[key]
        return also

    def _comes_early(self, one: Instruction, ring: int, env: Env, *, arrivals: bool, announces: int | None, copied: int) -> bool:
        """Whether a copy comes before the arrival that announces its bytes, or belongs with it. Of a ring of one stage the place does not
        tell it from one that comes after the arrival before: that is one as long as the arrival's bytes are missing."""
        owed, left = env.get((OWED, ring), 0), env.get((OPEN, ring), 0)
        assert isinstance(owed, int) and isinstance(left, int)
        early = not owed or (ANNOUNCED, ring) in env
        if arrivals:
            owed, left = max(left + (announces or 0), 0) if announces or left else owed, 0
        elif announces is not None:
            left += announces
        elif early:
            left -= copied
        else:
            owed = max(owed - copied, 0)
        if left < -_MOST_EARLY:
            raise Unreadable(one.line, "copies whose bytes other threads announce are not understood")
        for key, value in ((OWED, owed), (OPEN, left)):
            env[(key, ring)] = value
            if not value:
                del env[(key, ring)]
        return early

    def peek(self, one: Instruction, env: Env) -> dict[str, Value]:
        """The result of a try_wait outside a waiting loop."""
        if "parity" not in one.parts:
            raise Unreadable(one.line, "a wait without a parity is not understood")
        name, offset = address(one.operands[1], one.line)
        where: Value = self.uniform(self.value(name, env), one.line) if name else 0
        if not isinstance(where, (int, Table)):
            return {one.operands[0]: UNKNOWN}
        where = self.arithmetic.apply(_ADD, [where, offset])[0]
        try:
            act, _ = self._tried_for(one, env)
        except Unreadable:  # only where a turn of a loop is repeated on a trial: `looked_at` came first elsewhere
            return {one.operands[0]: UNKNOWN}
        assert isinstance(act.ring, int)
        parity = self.uniform(self.value(one.operands[2], env), one.line)
        return {one.operands[0]: self.same(Peek(where, parity, (act.ring, act.shift)))}

    def peeked(self, one: Instruction, peek: Peek, env: Env) -> RingAction:
        """The wait that corresponds to a successful peek."""
        name = f"{_WHERE} of the peek"
        there: Env = {**env, name: peek.address, "%parity of the peek": peek.parity}
        awaited = Instruction(one.number, one.line, "mbarrier.try_wait.parity", None, False, f"_, [{name}], %parity of the peek")
        awaited.__dict__["operands"] = ("_", name, "%parity of the peek")
        act = self._wait(awaited, there)
        if (act.ring, act.shift) != peek.use:
            raise Unreadable(one.line, "what a try_wait was about is not waited for next on its ring")
        return act


_ADD = Operation("add", "", 32, True, 32)
_OWN_SPACES = frozenset({"shared", "shared::cta"})
_WHERE = "%where"  # prefix of names that no register has


def _joined(
    cursor: int | None, left: "Value | tuple[int | None, ...]", right: Value, how: Callable[[int, int], int]
) -> Value | None:
    """Applies a binary function to numbers or tables over the same cursor."""
    columns: list[tuple[int | None, ...] | None] = []
    length = 1
    for value in (left, right):
        entries = value.entries if isinstance(value, Table) else value if isinstance(value, tuple) else None
        if isinstance(value, Table):
            if cursor is not None and value.cursor != cursor:
                return None
            cursor = value.cursor
        if entries is None and not isinstance(value, int):
            return None
        length = max(length, len(entries or ()))
        columns.append(entries)
    if columns == [None, None]:
        return how(left, right)  # type: ignore[arg-type]
    rows = [column if column is not None else (value,) * length for column, value in zip(columns, (left, right), strict=True)]
    if any(len(row) != length for row in rows):
        return None
    made = tuple(None if a is None or b is None else how(a, b) for a, b in zip(*rows, strict=True))
    return Table(cursor, made) if cursor is not None else None
