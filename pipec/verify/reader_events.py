"""What one class of threads does at an instruction: the value it computes, or the events it is."""

from collections import Counter
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field, replace
from enum import IntEnum
from functools import cached_property

from pipec.verify.logic import RANGES
from pipec.verify.network import Unreadable
from pipec.verify.reader_flow import Block, Step
from pipec.verify.reader_interface import Interface
from pipec.verify.reader_opcodes import COMPUTING, Kind
from pipec.verify.reader_text import Instruction, Kernel, address, integer
from pipec.verify.reader_values import UNKNOWN, Arithmetic, Lanes, Operation, Peek, Remote, Table, Value, number_of, operation
from pipec.verify.terms import Apply, Both, Compare, Either, Formula, Linear, Symbol, add, atom, choose

# The registers' values by name, and under ("position", ring) the position on a ring modulo two rounds of it.
Env = dict[object, Value]
Plan = tuple[Callable[[Sequence[int]], int] | None, list[tuple[str | None, int]]]
Require = Callable[[tuple[Formula, ...]], None]
# Keys in an environment: a Met; and whether lanes of a warp of the class have gone another way, so that their registers may differ.
APART = ("apart",)
MET = ("met",)
LOADED = "loaded at "  # in the name of a symbol
_CTA = 24  # in an address of the cluster's shared memory, the CTA's rank stands above this bit
_OFFSET = (1 << _CTA) - 1


class Met(IntEnum):
    """Which threads of a class have met since they last waited for others: all, those of each warp, or none."""

    NONE = 0
    LANES = 1
    ALL = 2


class Later(Exception):
    """What the class reads is written by a class that has not been walked yet."""


class Split(Exception):
    """The threads do not all do the same: what those groups do must be looked at apart."""

    def __init__(self, groups: list[tuple[int, ...]]) -> None:
        super().__init__()
        self.groups = groups


@dataclass(frozen=True)
class Act:
    """One action of the network. `ring`: a number for an mbarrier ring, a key otherwise. `position`: the ring whose cursor this is, if
    registers may be functions of it; `advance`: how far the cursor moves on. `targets`: ranks of the CTAs whose barriers are reached, and
    how often. `part`: see network.Arrive."""

    waits: bool
    ring: object
    cursor: object
    shift: int
    advance: int = 0
    position: int | None = None
    count: int = 0
    expects: int = 0
    delivers: int = 0
    targets: tuple[tuple[int, int], ...] = ()
    part: bool = False


@dataclass(frozen=True)
class Spot:
    """A barrier: of `ring`, of the CTA of `rank`. `stage`: a number, or one for each entry of a table over `cursor`."""

    ring: int
    stage: int | tuple[int | None, ...]
    rank: int
    cursor: int | None


@dataclass(frozen=True)
class Group:
    """Registers that depend on each other over one turn of a loop. `positions`: the rings among them."""

    names: frozenset[object]
    positions: frozenset[int]


@dataclass(frozen=True)
class Barriers:
    """The rings of mbarriers: `places` by offset: ring and stage; `stages`, `other` by ring."""

    places: dict[int, tuple[int, int]]
    stages: tuple[int, ...]
    other: tuple[int | None, ...]


@dataclass
class Surroundings:
    """What all threads have in common."""

    kernel: Kernel
    interface: Interface
    arithmetic: Arithmetic
    barriers: Barriers
    threads: int
    block: tuple[int, int, int]
    cluster: tuple[int, int, int]
    pointers: frozenset[str]
    unwritten: Callable[[str], bool]
    # Where the scheduler's answers go: by offset, the ring on which they are awaited, its stage, and whether all CTAs get the same.
    answers: dict[int, tuple[int, int, bool]] = field(default_factory=dict)
    loads: set[int] = field(default_factory=set)  # lines where what several threads load decides something
    columns: dict[int, dict[int, int]] = field(default_factory=dict)  # of tensor memory asked for, by rank and line
    # By rank: whether an operand is a register, and its value if it is not.
    operands: dict[int, dict[str, tuple[bool, object]]] = field(default_factory=dict)
    plans: dict[int, dict[int, Plan]] = field(default_factory=dict)  # by rank and number of the instruction

    @cached_property
    def asks(self) -> bool:
        """Whether the kernel asks the scheduler for work at all."""
        return any(one.opcode.startswith("clusterlaunchcontrol.try_cancel") for one in self.kernel.code)

    @property
    def ranks(self) -> int:
        x, y, z = self.cluster
        return x * y * z


class Machine:
    """Instructions as `threads` (a class of them) of the CTA of `rank` execute them.

    `lags`: by ring, how many uses behind its cursor the class waits: none for who takes what is there, all stages for who makes room.
    `waited`: the rings for which the class waits, None while that is not known; `waits`, `relied`: found on the way.
    """

    def __init__(self, around: Surroundings, threads: tuple[int, ...], rank: int, name: str = "") -> None:
        self.name = name
        self.around, self.threads, self.rank = around, threads, rank
        self.arithmetic = around.arithmetic
        warps: dict[int, int] = {}
        for thread in threads:
            warps[thread // 32] = warps.get(thread // 32, 0) + 1
        self.partial = any(count < min(32, around.threads - 32 * warp) for warp, count in warps.items())
        self.lags: dict[int, int] = {}
        self.waited: frozenset[int] | None = None
        self.waits: set[int] = set()
        self.relied: set[int] = set()
        self._rings: dict[int, set[int]] = {}
        # By offset: arrivals, line, thread. Filled before the first barrier of the CTA.
        self.inits: dict[int, tuple[int, int, tuple[int, ...]]] = {}
        self.prologue = False
        # Constants are the same for all classes of a CTA.
        self._operands = around.operands.setdefault(rank, {})
        self._plans = around.plans.setdefault(rank, {})

    def same(self, value: Value) -> Value:
        return self.arithmetic.same(value)

    # Operands.

    def value(self, text: str, env: Env) -> Value:
        found = self._operand(text)
        return env.get(text, UNKNOWN) if found[0] else found[1]  # type: ignore[return-value]

    def _operand(self, text: str) -> tuple[bool, object]:
        found = self._operands.get(text)
        if found is None:
            found = self._operands[text] = self._constant(text)
        return found

    def _constant(self, text: str) -> tuple[bool, object]:
        """Whether an operand is a register, and its value if it is not."""
        number = integer(text)
        if number is not None:
            return False, number if number < 1 << 63 else number - (1 << 64)
        if text in self.around.kernel.shared:
            return False, self.around.kernel.shared[text] | self.rank << _CTA
        if text in self.around.kernel.parameters:
            return False, self.same(atom(Symbol(f"&{text}")))
        if text.startswith("%"):
            special = self._special(text[1:])
            if special is not None:
                return False, special
        elif text[:2] in ("0f", "0d", "0F", "0D"):
            return False, UNKNOWN
        return True, None

    def _special(self, name: str) -> Value | None:
        root, _, axis = name.partition(".")
        place = "xyz".find(axis) if axis else -1
        block, cluster = self.around.block, self.around.cluster
        if root == "tid" and place >= 0:
            under = (1, block[0], block[0] * block[1])[place]
            return self.same(Lanes(tuple(thread // under % block[place] for thread in range(self.around.threads))))
        if root == "laneid":
            return self.same(Lanes(tuple(thread % 32 for thread in range(self.around.threads))))
        if root == "ntid" and place >= 0:
            return block[place]
        if root == "cluster_ctarank":
            return self.rank
        if root == "cluster_nctarank":
            return self.around.ranks
        if root == "cluster_nctaid" and place >= 0:
            return cluster[place]
        if root == "cluster_ctaid" and place >= 0:
            return self._within_cluster(place)
        if root in ("clusterid", "nclusterid", "nctaid") and place >= 0:
            return self.same(atom(Symbol(f"%{name}")))
        if root == "ctaid" and place >= 0:
            if self.around.ranks == 1:
                return self.same(atom(Symbol(f"%{name}")))
            form = Linear(self._within_cluster(place), ((Symbol(f"%clusterid.{axis}"), cluster[place]),))
            return self.same(form)
        return UNKNOWN if name in _VARYING or root in _VARYING else None

    def _within_cluster(self, place: int) -> int:
        x, y, _ = self.around.cluster
        return (self.rank % x, self.rank // x % y, self.rank // (x * y))[place]

    def uniform(self, value: Value, line: int) -> Value:
        """The value that all threads of the class have. Splits the class where they differ."""
        if not isinstance(value, Lanes):
            return value
        groups: dict[int, list[int]] = {}
        for thread in self.threads:
            groups.setdefault(value.entries[thread], []).append(thread)
        if len(groups) == 1:
            return next(iter(groups))
        if len(groups) > 64:
            raise Unreadable(line, "each thread goes a way of its own")
        raise Split([tuple(group) for group in groups.values()])

    def divides(self, value: Value) -> bool:
        """Whether a branch on it divides a warp."""
        if not isinstance(value, Lanes):
            return False
        warps = {thread // 32 for thread in self.threads}
        lanes = [{value.entries[lane] for lane in range(32 * warp, min(32 * warp + 32, self.around.threads))} for warp in warps]
        return any(len(entries) > 1 for entries in lanes)

    def guard(self, step: Step, env: Env) -> int | Formula:
        """Whether the instruction is executed; 1 too if by some threads of the class only and that stops nobody."""
        one = step.instruction
        if one.predicate is None:
            return 1
        value = env.get(one.predicate, UNKNOWN)
        if isinstance(value, Lanes) and step.kind in _NOBODY_WAITS:
            return int(bool(self._taking(one, env)))
        value = self.uniform(value, one.line)
        if isinstance(value, int):
            return int(bool(value) != one.negated)
        if isinstance(value, (Compare, Both, Either)):
            if one.negated:
                value = self.same(self.arithmetic.apply(_NOT, [value])[0])
            return value  # type: ignore[return-value]
        raise Unreadable(one.line, "what decides whether this is executed is not understood")

    def _part(self, taking: Collection[int], env: Env) -> bool:
        """Whether those threads, which execute something, may not know what others of the class have waited for."""
        match env.get(MET, Met.NONE):
            case Met.ALL:
                return not taking
            case Met.LANES:
                return {thread // 32 for thread in taking} != {thread // 32 for thread in self.threads}
            case _:
                return len(taking) < len(self.threads)

    def met(self, act: Act) -> int:
        """After a wait: which threads of the class have come as far as each other."""
        return Met.ALL if isinstance(act.ring, tuple) and act.ring[0] == "named" else Met.NONE

    def _taking(self, one: Instruction, env: Env) -> tuple[int, ...]:
        """The threads that execute it."""
        value = env.get(one.predicate, UNKNOWN) if one.predicate else 1
        if not isinstance(value, Lanes):
            return self.threads
        return tuple(thread for thread in self.threads if bool(value.entries[thread]) != one.negated)

    # Values.

    def compute(self, step: Step, env: Env, require: Require) -> None:
        one = step.instruction
        numbers = self._numbers(one, env)
        if numbers is not None:
            env[one.operands[0]] = numbers
            return
        if one.parts[0] == "mapa" and (remote := self._remote(one, env)) is not None:
            env[one.operands[0]] = remote
            return
        made = self._computed(one, env, require)
        if one.predicate is not None and len(made) == 1:
            ((name, value),) = made.items()
            made = {name: self._selected(one, env, value, env.get(name, UNKNOWN))}
        elif one.predicate is not None:
            made = dict.fromkeys(made, UNKNOWN)
        env.update(made)

    def _numbers(self, one: Instruction, env: Env) -> int | None:
        """The result where all operands are numbers, which is so most often."""
        plan = self._plans.get(one.number)
        if plan is None:
            plan = self._plans[one.number] = self._plan(one)
        rule, operands = plan
        if rule is None:
            return None
        values = []
        for name, number in operands:
            value = number if name is None else env.get(name)
            if type(value) is not int:
                return None
            values.append(value)
        return rule(values)

    def _plan(self, one: Instruction) -> Plan:
        """How to compute with numbers: the rule, and for each operand the register, or the number that it is."""
        op = operation(one.opcode)
        if op is None or one.predicate is not None:
            return None, []
        operands: list[tuple[str | None, int]] = []
        for text in one.operands[1:]:
            is_register, value = self._operand(text)
            if not is_register and type(value) is not int:
                return None, []
            operands.append((text, 0) if is_register else (None, value))  # type: ignore[arg-type]
        return number_of(op), operands

    def _remote(self, one: Instruction, env: Env) -> Value | None:
        """An address that each thread maps to a CTA of its own choice, or only some threads map."""
        taking = env.get(one.predicate, UNKNOWN) if one.predicate else 1
        where, rank = self.value(one.operands[1], env), self.value(one.operands[2], env)
        if not isinstance(taking, Lanes) and not isinstance(rank, Lanes):
            return None
        if not isinstance(taking, (int, Lanes)) or not isinstance(rank, (int, Lanes)) or not isinstance(where, (int, Table)):
            return UNKNOWN
        held = taking.entries if isinstance(taking, Lanes) else (taking,) * self.around.threads
        ranks = rank.entries if isinstance(rank, Lanes) else (rank,) * self.around.threads
        return self.same(Remote(where, tuple(r if bool(p) != one.negated else -1 for p, r in zip(held, ranks, strict=True))))

    def _selected(self, one: Instruction, env: Env, new: Value, old: Value) -> Value:
        when = env.get(one.predicate, UNKNOWN)
        if isinstance(when, int):
            return new if bool(when) != one.negated else old
        if one.negated:
            new, old = old, new
        if isinstance(when, Lanes):
            columns = [value.entries if isinstance(value, Lanes) else (value,) * self.around.threads for value in (new, old)]
            if all(isinstance(column[0], int) for column in columns):
                return self.same(Lanes(tuple(a if p else b for p, a, b in zip(when.entries, *columns, strict=True))))
        if isinstance(when, (Compare, Both, Either)) and isinstance(new, (int, Linear)) and isinstance(old, (int, Linear)):
            return self.same(choose(when, *(Linear(v) if isinstance(v, int) else v for v in (new, old))))
        if isinstance(when, Table):
            return self.arithmetic.apply(_SELECT, [new, old, when])[0]
        return UNKNOWN

    def _computed(self, one: Instruction, env: Env, require: Require) -> dict[str, Value]:
        op = operation(one.opcode)
        operands = one.operands
        if op is not None:
            values = [self.value(text, env) for text in operands[1:]]
            kinds = {type(value) for value in values}
            if Lanes in kinds and kinds - {Lanes, int}:
                values = [self._common(value) for value in values]
            value, requires = self.arithmetic.apply(op, values)
            if requires:
                require(requires)
            return {operands[0]: value}
        special = _SPECIAL.get(".".join(one.parts[:2])) or _SPECIAL.get(one.parts[0])
        if special is not None:
            return special(self, one, env)
        return dict.fromkeys(one.first, UNKNOWN)

    def _common(self, value: Value) -> Value:
        if not isinstance(value, Lanes):
            return value
        mine = {value.entries[thread] for thread in self.threads}
        return mine.pop() if len(mine) == 1 else value

    def elected(self, one: Instruction, env: Env) -> dict[str, Value]:
        self._whole_warp(one, env)
        leader = self.same(Lanes(tuple(int(thread % 32 == 0) for thread in range(self.around.threads))))
        return dict(zip(one.first, (0, leader), strict=False))

    def _whole_warp(self, one: Instruction, env: Env) -> None:
        mask = self.value(one.operands[-1], env)
        if not isinstance(mask, int) or mask & 0xFFFFFFFF != 0xFFFFFFFF:
            raise Unreadable(one.line, "a meeting of some lanes of a warp is not understood")

    def shuffled(self, one: Instruction, env: Env) -> dict[str, Value]:
        result: dict[str, Value] = dict.fromkeys(one.first, UNKNOWN)
        self._whole_warp(one, env)
        if one.parts[2:3] != ("idx",) or len(one.operands) != 5:
            return result
        value, lane, clamp = (self.value(text, env) for text in one.operands[1:4])
        if not isinstance(lane, int) or clamp != 31 or not isinstance(value, (int, Lanes, Linear)):
            return result
        if isinstance(value, Lanes):
            last = self.around.threads - 1
            sources = [min(thread // 32 * 32 + lane % 32, last) for thread in range(last + 1)]
            if not env.get(APART, 0) or {sources[thread] for thread in self.threads} <= {*self.threads}:
                result[one.first[0]] = self.same(Lanes(tuple(value.entries[source] for source in sources)))
        elif not self.partial:
            result[one.first[0]] = value
        return result

    def parameter(self, one: Instruction, env: Env) -> dict[str, Value]:
        result: dict[str, Value] = dict.fromkeys(one.first, UNKNOWN)
        if len(one.operands) == 2 and len(one.first) == 1:
            name, offset = address(one.operands[1], one.line)
            if name in self.around.kernel.parameters and not offset and one.parts[-1][0] in "usb":
                result[one.first[0]] = self.same(atom(Symbol(name)))
        return result

    def loaded(self, one: Instruction, env: Env) -> dict[str, Value]:
        """A load of global memory that nobody writes while the kernel runs is a function of its address."""
        result: dict[str, Value] = dict.fromkeys(one.first, UNKNOWN)
        if len(one.first) != 1 or len(one.operands) != 2 or one.parts[-1] not in ("b32", "u32", "s32"):
            return result
        name, offset = address(one.operands[1], one.line)
        value = self._common(self.value(name, env)) if name else 0
        if isinstance(value, Linear):
            symbols = [term for term, times in value.terms if isinstance(term, Symbol) and times == 1]
            pointers = [symbol for symbol in symbols if symbol.name in self.around.pointers]
            if len(pointers) == 1 and self.around.unwritten(pointers[0].name):
                result[one.first[0]] = self.same(atom(Apply("ld.global.s32", (add(value, Linear(offset)),))))
            else:
                result[one.first[0]] = self._drawn(one)
        return result

    def _drawn(self, one: Instruction) -> Value:
        """A number of which nothing is known but that all threads of the class find it at the same place."""
        symbol = self.draws(one)
        self.arithmetic.ranges[symbol.name] = RANGES["s32"]
        return self.same(atom(symbol))

    def draws(self, one: Instruction) -> Symbol:
        """The symbol for what a load finds; each time it is executed a new number."""
        return Symbol(f"{self.name}:{LOADED}{one.line} of {self.rank}")

    def from_shared(self, one: Instruction, env: Env) -> dict[str, Value]:
        """What is read from shared memory is not known, but for an answer of the scheduler: it depends on the use that brought it."""
        result: dict[str, Value] = dict.fromkeys(one.first, UNKNOWN)
        name, offset = address(one.operands[1], one.line)
        value = self._common(self.value(name, env)) if name else 0
        if len(one.first) != 1 or not isinstance(value, (int, Table, Linear)):
            return result
        if one.parts[-1] in ("b32", "u32", "s32"):
            result[one.first[0]] = self._drawn(one)
        if not isinstance(value, (int, Table)) or not self.around.asks:
            return result
        entries = value.entries if isinstance(value, Table) else (value,)
        found = [None if entry is None else self.around.answers.get(entry + offset & _OFFSET) for entry in entries]
        known = [row for row in found if row is not None]
        if not self.around.answers:
            raise Later
        if len(known) != sum(entry is not None for entry in entries) or len({(ring, same) for ring, _, same in known}) != 1:
            return result
        ring, stage, same = known[0]
        at: Value = Table(value.cursor, tuple(row and row[1] for row in found)) if isinstance(value, Table) else stage
        stages = self.around.barriers.stages[ring]
        back = self._apart(one, at, self._position(ring, env), stages) - stages
        use = Linear(back, ((self.cursor_symbol(ring), 1),))
        function = f"answer {ring}" if same else f"answer {ring} of {self.rank}"
        return {one.first[0]: self.same(atom(Apply(function, (use,))))}

    def cursor_symbol(self, ring: int) -> Symbol:
        """How many uses of a ring lie behind the cursor."""
        return Symbol(f"{self.name}:cursor {ring}")

    def queried(self, one: Instruction, env: Env) -> dict[str, Value]:
        """What an answer of the scheduler says."""
        answer = self.value(one.operands[1], env)
        if not isinstance(answer, Linear) or len(one.first) != 1:
            return dict.fromkeys(one.first, UNKNOWN)
        if "is_canceled" in one.parts:
            return {one.first[0]: self.same(Compare("ne", atom(Apply("is_canceled", (answer,)))))}
        return {one.first[0]: self.same(atom(Apply(f"{one.parts[2]}.ctaid", (answer,))))}

    # Repeating a turn of a loop, with the branches as they went.

    def needed(self, passed: list[Block], names: int) -> list[Step]:
        """The steps of a turn on which registers (bits of a number) and positions on rings depend."""
        steps = [step for block in passed for step in block.steps]
        moving = [step.kind is Kind.TRY and step.spin or step.instruction.number in self._rings for step in steps]
        for step, moves in zip(steps, moving, strict=True):
            names |= step.uses if moves else 0
        before = -1
        while names != before:
            before = names
            for step in reversed(steps):
                if step.defines & names:
                    names |= step.uses
        return [step for step, moves in zip(steps, moving, strict=True) if moves or step.defines & names]

    def repeat(self, steps: list[Step], env: Env) -> Env:
        """Takes the steps of a turn once more."""
        for step in steps:
            if step.kind in COMPUTING:
                self.compute(step, env, lambda formulas: None)
            elif step.kind is Kind.TRY:
                self._repeat_try(step, env)
            elif any(self.signalled(ring) for ring in self._rings.get(step.instruction.number, ())):
                self._repeat_signal(step, env)
        return env

    def _repeat_signal(self, step: Step, env: Env) -> None:
        """An arrival that is counted by itself."""
        if self.guard(step, env) != 1:
            return
        for act in self.acts(step, env):
            if act.advance and act.position is not None:
                env[("position", act.position)] = self.moved(self._position(act.position, env), act.position, act.advance)

    def _repeat_try(self, step: Step, env: Env) -> None:
        if not step.spin:
            env.update(self.peek(step.instruction, env))
            return
        spot, rounds = self._awaited(step.instruction, env)
        if isinstance(rounds, int) and isinstance(self._position(spot.ring, env), int):
            act = self._wait(step.instruction, env)
            key = ("position", spot.ring)
            env[key] = self.moved(env.get(key, 0), spot.ring, act.advance)

    def groups(self, passed: list[Block], names: list[object], env: Env) -> list[Group]:
        """The registers and positions that depend on each other over this turn, where a position is among them."""
        sources: dict[object, frozenset[object]] = {name: frozenset((name,)) for name in names}
        nothing: frozenset[object] = frozenset()
        rings: set[object] = set()
        for block in passed:
            for step in block.steps:
                one = step.instruction
                if step.kind in COMPUTING:
                    used = nothing.union(*(sources.get(text, nothing) for text in one.operands[1:]))
                    if one.predicate:
                        used |= sources.get(one.predicate, nothing) | sources.get(one.operands[0], nothing)
                    for name in one.first:
                        sources[name] = used
                elif step.kind is not Kind.TRY and one.number in self._rings:
                    at = next(number for number, text in enumerate(one.operands) if text.startswith("["))
                    for ring in self._rings[one.number]:
                        key = ("position", ring)
                        rings.add(key)
                        used = sources.get(address(one.operands[at], one.line)[0], nothing)
                        sources[key] = sources.get(key, frozenset((key,))) | used
                elif step.kind is Kind.TRY:
                    used = sources.get(address(one.operands[1], one.line)[0], nothing) | sources.get(one.operands[2], nothing)
                    if not step.spin:
                        sources[one.first[0]] = used
                        continue
                    for ring in self._rings.get(one.number, ()):
                        key = ("position", ring)
                        rings.add(key)
                        sources[key] = sources.get(key, frozenset((key,))) | used
        found: list[set[object]] = []
        for member in {*names, *rings}:
            joined = {member, *sources.get(member, ())}
            apart = []
            for group in found:
                if group & joined:
                    joined |= group
                else:
                    apart.append(group)
            found = [*apart, joined]
        groups = [Group(frozenset(group), frozenset(one[1] for one in group if isinstance(one, tuple))) for group in found]
        return [group for group in groups if group.positions]

    # Barriers.

    def period(self, ring: int) -> int:
        """After how many uses the position on a ring is where it was."""
        stages = self.around.barriers.stages[ring]
        return stages if self.signalled(ring) else 2 * stages

    def signalled(self, ring: int) -> bool:
        """Whether the class counts its own arrivals at the ring, since it waits neither for it nor for its other side."""
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

    def _spot(self, one: Instruction, text: str, env: Env) -> Spot:
        """The barrier at an address."""
        name, offset = (text, 0) if text.startswith("%where") else address(text, one.line)
        value = self.uniform(self.value(name, env), one.line) if name else 0
        if isinstance(value, int):
            found = self._place(one, value + offset)
            return Spot(found[0], found[1], found[2], None)
        if not isinstance(value, Table):
            raise Unreadable(one.line, "the address of the barrier is not understood")
        places = [None if entry is None else self._place(one, entry + offset) for entry in value.entries]
        known = [place for place in places if place is not None]
        if len({(ring, rank) for ring, _, rank in known}) != 1:
            raise Unreadable(one.line, "the barriers of several rings in one place are not understood")
        return Spot(known[0][0], tuple(None if place is None else place[1] for place in places), known[0][2], value.cursor)

    def _place(self, one: Instruction, where: int) -> tuple[int, int, int]:
        found = self.around.barriers.places.get(where & _OFFSET)
        rank = where >> _CTA
        if found is None or not 0 <= rank < self.around.ranks:
            raise Unreadable(one.line, f"there is no barrier at offset {where & _OFFSET}")
        return found[0], found[1], rank

    def _awaited(self, one: Instruction, env: Env) -> tuple["Spot", Value]:
        """The barrier that is tried, and stage + stages * parity."""
        if "parity" not in one.parts or len(one.operands) < 3:
            raise Unreadable(one.line, "a wait without a parity is not understood")
        spot = self._spot(one, one.operands[1], env)
        if spot.rank != self.rank:
            raise Unreadable(one.line, "a wait for the barrier of another CTA is not understood")
        stages = self.around.barriers.stages[spot.ring]
        parity = self.uniform(self.value(one.operands[2], env), one.line)
        rounds = _joined(spot.cursor, spot.stage, parity, lambda stage, bit: stage + stages * (bit & 1))
        if rounds is None:
            raise Unreadable(one.line, "the parity waited for is not understood")
        return spot, rounds

    def _wait(self, one: Instruction, env: Env) -> Act:
        spot, rounds = self._awaited(one, env)
        ring, stages = spot.ring, self.around.barriers.stages[spot.ring]
        self.waits.add(ring)
        self._rings.setdefault(one.number, set()).add(ring)
        ahead = self._apart(one, rounds, self._position(ring, env), 2 * stages)
        lag = self.lags.setdefault(ring, 0 if ahead < stages else stages)
        ahead = (ahead + lag) % (2 * stages)
        if ahead < stages:
            return Act(True, ring, ring, ahead - lag, ahead + 1, ring)
        return Act(True, ring, ring, ahead - 2 * stages - lag, 0, ring)

    def _apart(self, one: Instruction, at: Value, position: Value, modulus: int) -> int:
        """How far one place on a ring lies behind another; the same for all values of the cursor."""
        cursor = next((value.cursor for value in (at, position) if isinstance(value, Table)), None)
        apart = _joined(cursor, at, position, lambda place, start: (place - start) % modulus)
        apart = self.same(apart) if apart is not None else None
        if not isinstance(apart, int):
            raise Unreadable(one.line, "the stage is not a fixed number of stages away from the last one")
        return apart

    def _use(self, one: Instruction, spot: Spot, env: Env, arrivals: int) -> Act:
        """Which use of a ring an arrival belongs to. After a wait for the other side: the use that it made free, or an earlier one."""
        ring, stages = spot.ring, self.around.barriers.stages[spot.ring]
        stage: Value = spot.stage if spot.cursor is None else Table(spot.cursor, spot.stage)  # type: ignore[arg-type, assignment]
        for driver in (self.around.barriers.other[ring], spot.cursor):
            if driver is None or self.signalled(driver):
                continue
            self.relied.add(driver)
            self._rings.setdefault(one.number, set()).add(driver)
            behind = self._apart(one, stage, self._position(driver, env), stages)
            # The position is that of the next use; the last one lies one before.
            return Act(False, ring, driver, behind - stages, 0, driver, targets=((spot.rank, 1),))
        self.relied.add(ring)
        self._rings.setdefault(one.number, set()).add(ring)
        ahead = self._apart(one, stage, self._position(ring, env), stages)
        if not self.signalled(ring):
            return Act(False, ring, ring, ahead, 0, ring, targets=((spot.rank, 1),))
        if arrivals:
            return Act(False, ring, ring, ahead, ahead + 1, ring, targets=((spot.rank, 1),))
        return Act(False, ring, ring, -1 if ahead == stages - 1 else ahead, 0, ring, targets=((spot.rank, 1),))

    def peek(self, one: Instruction, env: Env) -> dict[str, Value]:
        """The outcome of a try_wait outside of a loop that waits."""
        if "parity" not in one.parts:
            raise Unreadable(one.line, "a wait without a parity is not understood")
        name, offset = address(one.operands[1], one.line)
        where: Value = self.uniform(self.value(name, env), one.line) if name else 0
        if not isinstance(where, (int, Table)):
            return {one.operands[0]: UNKNOWN}
        where = self.arithmetic.apply(_ADD, [where, offset])[0]
        return {one.operands[0]: self.same(Peek(where, self.uniform(self.value(one.operands[2], env), one.line)))}

    def peeked(self, one: Instruction, peek: Peek, env: Env) -> Act:
        """The wait that a peek with outcome true stands for."""
        name = "%where of the peek"
        there: Env = {**env, name: peek.address, "%parity of the peek": peek.parity}
        awaited = Instruction(one.number, one.line, "mbarrier.try_wait.parity", None, False, f"_, [{name}], %parity of the peek")
        awaited.__dict__["operands"] = ("_", name, "%parity of the peek")
        return self._wait(awaited, there)

    # Events.

    def publishes(self, act: Act) -> int:
        """Whether all threads of the CTA meet here (1), or all of the cluster (2)."""
        if act.ring == ("cluster",):
            return 2
        return int(isinstance(act.ring, tuple) and act.ring[0] == "named" and act.ring[2] >= self.around.threads)

    def acts(self, step: Step, env: Env) -> list[Act]:
        """What the instruction does to the protocol, one action after the other."""
        rule = _EVENTS.get(step.kind)
        if rule is None:
            raise Unreadable(step.instruction.line, f"{step.instruction.opcode} is not understood")
        return rule(self, step, env)

    def number(self, one: Instruction, text: str, env: Env, what: str) -> int:
        value = self.uniform(self.value(text, env), one.line)
        if not isinstance(value, int):
            raise Unreadable(one.line, f"{what} is not a constant")
        return value

    def _init(self, step: Step, env: Env) -> list[Act]:
        one = step.instruction
        name, offset = address(one.operands[0], one.line)
        where = self.number(one, name, env, "the address of the barrier") + offset if name else offset
        count = self.number(one, one.operands[1], env, "the number of arrivals")
        if len(self._taking(one, env)) != 1 or where >> _CTA != self.rank:
            raise Unreadable(one.line, "a barrier is made ready by one thread of its CTA")
        known = self.inits.setdefault(where & _OFFSET, (count, one.line, self.threads))
        if known != (count, one.line, self.threads) or not 0 < count < 1 << 20 or where % 8:
            raise Unreadable(one.line, "a barrier is made ready once, for at least one arrival")
        return []

    def _try(self, step: Step, env: Env) -> list[Act]:
        return [self._wait(step.instruction, env)] if step.spin else []

    def _arrive(self, step: Step, env: Env) -> list[Act]:
        one = step.instruction
        if "noComplete" in one.parts:
            raise Unreadable(one.line, f"{one.opcode} is not understood")
        at = next((number for number, text in enumerate(one.operands) if text.startswith("[")), None)
        if at is None:
            raise Unreadable(one.line, "the arrival has no barrier")
        amount = self.number(one, one.operands[at + 1], env, "the number of arrivals") if at + 1 < len(one.operands) else None
        taking = self._taking(one, env)
        threads = len(taking)
        base = self.value(address(one.operands[at], one.line)[0], env)
        if isinstance(base, Remote):
            return [self._arrive_remote(one, one.operands[at], base, amount, env)]
        expects = "expect_tx" in one.parts
        count = 0 if one.parts[1] == "expect_tx" else threads * (1 if expects or amount is None else amount)
        use = self._use(one, self._spot(one, one.operands[at], env), env, count)
        return [replace(use, count=count, expects=threads * (amount or 0) if expects else 0, part=self._part(taking, env))]

    def _arrive_remote(self, one: Instruction, where: str, base: Remote, amount: int | None, env: Env) -> Act:
        """Arrivals at barriers that each thread chose."""
        spot = self._spot(one, where, {**env, address(where, one.line)[0]: base.address})
        taking = self._taking(one, env)
        reached = Counter(base.ranks[thread] for thread in taking)
        if not all(0 <= rank < self.around.ranks for rank in reached) or "expect_tx" in one.parts:
            raise Unreadable(one.line, "the CTA whose barrier is meant is not understood")
        count = 1 if amount is None else amount
        use = self._use(one, spot, env, count)
        return replace(use, count=count, targets=tuple(sorted(reached.items())), part=self._part(taking, env))

    def _copies(self, step: Step, env: Env) -> list[Act]:
        one = step.instruction
        taking = self._taking(one, env)
        count = len(taking)
        use = self._use(one, self._spot(one, one.operands[0], env), env, count)
        return [replace(use, count=count, part=self._part(taking, env))]

    def _commit(self, step: Step, env: Env) -> list[Act]:
        one = step.instruction
        taking = self._taking(one, env)
        count = len(taking)
        use = self._signal(one, one.operands[0], one.operands[1:2], env, count)
        return [replace(use, count=count, part=self._part(taking, env))]

    def _signal(self, one: Instruction, where: str, mask: tuple[str, ...], env: Env, arrivals: int) -> Act:
        """The use of a barrier, of each CTA that a multicast reaches. For a pair of CTAs the address says which of the two has the
        barrier (PTX ISA, cp.async.bulk.tensor)."""
        spot = self._spot(one, where, env)
        use = self._use(one, spot, env, arrivals)
        if "multicast::cluster" not in one.parts:
            return use
        if not mask:
            raise Unreadable(one.line, "a multicast without a mask")
        ranks = self.number(one, mask[0], env, "the mask of the multicast") & 0xFFFF
        if not ranks or ranks >> self.around.ranks:
            raise Unreadable(one.line, "the multicast reaches CTAs that the cluster does not have")
        reached: dict[int, int] = {}
        for rank in range(self.around.ranks):
            if ranks >> rank & 1:
                holder = rank & ~1 | spot.rank & 1 if _PAIR in one.parts and one.parts[0] == "cp" else rank
                reached[holder] = reached.get(holder, 0) + 1
        return replace(use, targets=tuple(reached.items()))

    def _load(self, step: Step, env: Env) -> list[Act]:
        one = step.instruction
        tensor = "tensor" in one.parts
        at = 2 if tensor or one.parts[0] == "st" else 3
        if len(one.operands) <= at:
            raise Unreadable(one.line, "the copy has no barrier")
        size = self._box(one, env) if tensor else self.number(one, one.operands[2], env, "the size of the copy")
        after = tuple(text for text in one.operands[at + 1 :] if not text.startswith("{"))
        use = self._signal(one, one.operands[at], after[:1], env, 0)
        if "shared::cluster" in one.parts and "multicast::cluster" not in one.parts and _PAIR not in one.parts:
            self._own(one, one.operands[0], use, env)
        taking = self._taking(one, env)
        return [replace(use, delivers=size * len(taking), part=self._part(taking, env))]

    def _own(self, one: Instruction, where: str, use: Act, env: Env) -> None:
        """Without a pair, the barrier is that of the CTA which gets the data."""
        name, offset = address(where, one.line)
        value = self.uniform(self.value(name, env), one.line) if name else 0
        entries = value.entries if isinstance(value, Table) else (value,)
        ranks = {entry + offset >> _CTA if isinstance(entry, int) else None for entry in entries if entry is not None}
        if ranks != {use.targets[0][0]}:
            raise Unreadable(one.line, "which CTA gets the data is not understood")

    def _box(self, one: Instruction, env: Env) -> int:
        name = address(one.operands[1].partition(",")[0].rstrip("] ") + "]", one.line)[0]
        value = self.value(name, env)
        if isinstance(value, Linear) and len(value.terms) == 1 and not value.constant:
            symbol = value.terms[0][0]
            size = self.around.interface.boxes.get(symbol.name.removeprefix("&")) if isinstance(symbol, Symbol) else None
            if size is not None and not any(part.startswith(("im2col", "tile::")) for part in one.parts):
                return size
        raise Unreadable(one.line, "the number of bytes that the copy brings is not known")

    def _answer(self, step: Step, env: Env) -> list[Act]:
        one = step.instruction
        spot = self._spot(one, one.operands[1], env)
        use = self._use(one, spot, env, 0)
        self._note_answer(one, spot, env)
        if "multicast::cluster::all" in one.parts:
            use = replace(use, targets=tuple((rank, 1) for rank in range(self.around.ranks)))
        taking = self._taking(one, env)
        return [replace(use, delivers=16 * len(taking), part=self._part(taking, env))]

    def _note_answer(self, one: Instruction, spot: Spot, env: Env) -> None:
        name, offset = address(one.operands[0], one.line)
        value = self.uniform(self.value(name, env), one.line) if name else 0
        pairs: list[tuple[object, object]] = [(value, spot.stage)]
        if isinstance(value, Table) and isinstance(spot.stage, tuple) and value.cursor == spot.cursor:
            pairs = list(zip(value.entries, spot.stage, strict=True))
        same = self.around.ranks == 1 or "multicast::cluster::all" in one.parts
        for where, stage in pairs:
            if isinstance(where, int) and isinstance(stage, int):
                row = (spot.ring, stage, same)
                if self.around.answers.setdefault(where + offset & _OFFSET, row) != row:
                    raise Unreadable(one.line, "answers of the scheduler for different stages go to one place")
            elif where is not None:
                raise Unreadable(one.line, "where the answer of the scheduler goes is not understood")

    def _sync(self, step: Step, env: Env) -> list[Act]:
        one = step.instruction
        name = self.number(one, one.operands[0], env, "the number of the barrier")
        everybody = -(-self.around.threads // 32) * 32
        count = self.number(one, one.operands[1], env, "the number of threads") if len(one.operands) > 1 else everybody
        if not 0 <= name < 16 or count <= 0:
            raise Unreadable(one.line, f"there is no barrier {name} for {count} threads")
        ring = ("named", name, count)
        arrival = Act(False, ring, ("named", name), 0, count=len(self.threads))
        if step.kind is Kind.SIGN:
            return [replace(arrival, advance=1)]
        return [arrival, Act(True, ring, ("named", name), 0, 1)]

    def _cluster_arrive(self, step: Step, env: Env) -> list[Act]:
        return [Act(False, ("cluster",), ("cluster",), 0, count=len(self.threads))]

    def _cluster_wait(self, step: Step, env: Env) -> list[Act]:
        return [Act(True, ("cluster",), ("cluster",), 0, 1)]

    def _meet(self, step: Step, env: Env) -> list[Act]:
        if step.instruction.head in ("bar", "shfl", "elect", "vote", "match", "redux"):
            self._whole_warp(step.instruction, env)
        if not self.partial:
            return []
        arrival = Act(False, ("warp",), ("warp",), 0, count=len(self.threads))
        return [arrival, Act(True, ("warp",), ("warp",), 0, 1)]

    def _allocate(self, step: Step, env: Env) -> list[Act]:
        one = step.instruction
        columns = self.number(one, one.operands[1], env, "the number of columns")
        self.around.columns.setdefault(self.rank, {})[one.line] = columns
        return self._meet(step, env)

    def _observe(self, step: Step, env: Env) -> list[Act]:
        """A loop that looks at memory until it finds a number."""
        one = step.instruction
        return [Act(True, ("poll", self._where(one, one.operands[1], env), self.value(step.until, env)), ("poll",), 0)]

    def _publish(self, step: Step, env: Env) -> list[Act]:
        one = step.instruction
        return [Act(False, ("pass", self._where(one, one.operands[0], env), self.value(one.operands[1], env)), ("pass",), 0)]

    def _where(self, one: Instruction, text: str, env: Env) -> Value:
        name, offset = address(text, one.line)
        return self.arithmetic.apply(_ADD_WIDE, [self.value(name, env), offset])[0] if name else offset


_ADD = Operation("add", "", 32, True, 32)
_ADD_WIDE = Operation("add", "", 64, True, 64)
_PAIR = "cta_group::2"
_NOT = Operation("not", "", 1, False, 1)
_SELECT = Operation("selp", "", 32, False, 32)
_NOBODY_WAITS = frozenset({Kind.ARRIVE, Kind.EXPECT, Kind.COPIES_ARRIVE, Kind.COMMIT, Kind.LOAD, Kind.ANSWER, Kind.COMPUTE})
_SPECIAL: dict[str, Callable[[Machine, Instruction, Env], dict[str, Value]]] = {
    "elect": Machine.elected,
    "shfl": Machine.shuffled,
    "ld.param": Machine.parameter,
    "ld.global": Machine.loaded,
    "ld.shared": Machine.from_shared,
    "clusterlaunchcontrol.query_cancel": Machine.queried,
}
_EVENTS: dict[Kind, Callable[[Machine, Step, Env], list[Act]]] = {
    Kind.INIT: Machine._init,
    Kind.TRY: Machine._try,
    Kind.ARRIVE: Machine._arrive,
    Kind.EXPECT: Machine._arrive,
    Kind.COPIES_ARRIVE: Machine._copies,
    Kind.COMMIT: Machine._commit,
    Kind.LOAD: Machine._load,
    Kind.ANSWER: Machine._answer,
    Kind.SYNC: Machine._sync,
    Kind.SIGN: Machine._sync,
    Kind.CLUSTER_ARRIVE: Machine._cluster_arrive,
    Kind.CLUSTER_WAIT: Machine._cluster_wait,
    Kind.MEET: Machine._meet,
    Kind.MEET_COMPUTE: Machine._meet,
    Kind.MORE_REGISTERS: Machine._meet,
    Kind.ALLOCATE: Machine._allocate,
    Kind.OBSERVE: Machine._observe,
    Kind.PUBLISH: Machine._publish,
}
_VARYING = frozenset(
    (
        *("warpid", "nwarpid", "smid", "nsmid", "gridid", "clock", "clock_hi", "clock64"),
        *("globaltimer", "globaltimer_lo", "globaltimer_hi", "is_explicit_cluster"),
        *("lanemask_eq", "lanemask_le", "lanemask_lt", "lanemask_ge", "lanemask_gt"),
        *("dynamic_smem_size", "total_smem_size", "aggr_smem_size", "current_graph_exec"),
    )
)


def _joined(
    cursor: int | None, left: "Value | tuple[int | None, ...]", right: Value, how: Callable[[int, int], int]
) -> Value | None:
    """A function of two numbers, of which each may be a table over the same cursor."""
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
