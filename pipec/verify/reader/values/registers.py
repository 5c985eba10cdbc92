"""The computations of one class of threads: the registers that an instruction defines."""

from collections.abc import Callable
from math import inf

from pipec.verify.network import Unreadable
from pipec.verify.reader.flow.graph import Step
from pipec.verify.reader.flow.idle import Decides
from pipec.verify.reader.text.instructions import Instruction
from pipec.verify.reader.text.operations import Operation, float_test, number_of, operation, wrapped
from pipec.verify.reader.text.statements import address
from pipec.verify.reader.values.merged import not_negative, rounded_down
from pipec.verify.reader.values.places import Places
from pipec.verify.reader.values.surroundings import (
    APART,
    LOADED,
    OFFSET,
    RESIDUE,
    VOTED,
    Env,
    Later,
    Plan,
    Require,
    RingAction,
    held_in,
)
from pipec.verify.reader.values.values import UNKNOWN, Lanes, Mixed, Remote, Table, Value
from pipec.verify.terms import (
    RANGES,
    Apply,
    Both,
    Choose,
    Compare,
    Either,
    Linear,
    Symbol,
    add,
    atom,
    choose,
    negate,
    substitute,
    symbols_of,
)


class Registers(Places):
    """Executes the register effects of instructions for a class of threads."""

    def compute(self, step: Step, env: Env, require: Require) -> None:
        self.plan(step.instruction)(self, env, require)

    def plan(self, one: Instruction) -> Plan:
        found = self._plans.get(one.number)
        if found is None:
            found = self._plans[one.number] = self._plan(one)
        return found

    def _plan(self, one: Instruction) -> Plan:
        """How to execute an instruction, for all classes of a CTA: its kind and operands are resolved once."""
        plan = self._planned(one)
        if one.number in self.around.idle.unasked:
            plan = _unasked(one, plan)
        if one.number not in self.around.within:
            return plan

        def execute(machine: Registers, env: Env, require: Require) -> None:
            if all(machine._lies_within(machine.value(text, env)) for text in one.operands[1:]):
                plan(machine, env, require)
            else:
                env.update(dict.fromkeys(one.first, UNKNOWN))

        return execute

    def takes_apart(self, one: Instruction, env: Env) -> bool:
        """Whether the result may be another one in each thread, by more than numbers: it is not known to be the same in all of them just
        because it would be if all that is required of it held."""
        kept = [one.predicate, *one.first] if one.predicate is not None else []
        values = [*(self.value(text, env) for text in one.operands[1:]), *(env.get(name) for name in kept if name)]
        types = {*map(type, values)}
        return Mixed in types or Lanes in types and not types <= _LANES

    def _lies_within(self, value: Value) -> bool:
        """Whether an address is known to lie in a variable, or to be 0 (flow/addresses.py)."""
        match value:
            case int():
                shared, sizes = self.around.kernel.shared, self.around.kernel.bytes
                return not value or any(0 <= (value & OFFSET) - place <= sizes[name] for name, place in shared.items())
            case Table(_, entries):
                return all(entry is None or self._lies_within(entry) for entry in entries)
            case Lanes(entries):
                return all(self._lies_within(entries[thread]) for thread in self.present)
            case Linear(constant, terms):
                chosen = terms[0][0] if len(terms) == 1 and terms[0][1] == 1 else None
                if isinstance(chosen, Choose):
                    return all(self._lies_within(self.same(add(each, Linear(constant)))) for each in (chosen.yes, chosen.no))
                return not terms and self._lies_within(constant)
            case _:
                return True

    def _planned(self, one: Instruction) -> Plan:
        op = operation(one.opcode)
        fills = (
            op is not None and _defines_one(one) and not (op.name == "cvt" and self.around.kernel.is_wider(one.first[0], op.to))
        )
        if one.predicate is None and op is not None and fills and op.name != "mapa":
            return self._arithmetic(one, op)
        names, special, unpacked = one.first, None if op is not None else _special(one), self._unpacking(one)

        def execute(machine: Registers, env: Env, require: Require) -> None:
            if one.head == "mapa" and (remote := machine._remote(one, env)) is not None:
                env[names[0]] = remote
                return
            if op is not None and fills:
                values = [machine.value(text, env) for text in one.operands[1:]]
                made = {names[0]: machine._applied(op, values, require)}
            elif unpacked:
                word = machine.value(one.operands[1], env)
                made = {name: machine._part_of(word, steps, require) for name, steps in unpacked}
            else:
                made = special(machine, one, env) if special is not None else dict.fromkeys(names, UNKNOWN)
            if one.predicate is not None and len(made) == 1:
                ((name, value),) = made.items()
                made = {name: machine._selected(one, env, value, env.get(name, UNKNOWN))}
            elif one.predicate is not None:
                made = dict.fromkeys(made, UNKNOWN)
            env.update(made)

        return execute

    def _unpacking(self, one: Instruction) -> list[tuple[str, tuple[tuple[Operation, tuple[int, ...]], ...]]]:
        """Of `mov.b32 {a, b}, word`: the registers, and the operations that make each of the word, with their further operands."""
        if one.head != "mov" or one.operands[0][:1] != "{" or one.operands[1][:1] == "{" or one.parts[-1] not in ("b32", "b64"):
            return []
        names = [name.strip() for name in one.operands[0][1:-1].split(",")]
        width = int(one.parts[-1][1:])
        part, left = divmod(width, len(names))
        shift, cut = operation(f"shr.u{width}"), operation(f"cvt.u{part}.u{width}")
        if left or shift is None or cut is None or any(self.around.kernel.is_wider(name, part) for name in names):
            return []
        return [(name, ((shift, (place * part,)), (cut, ()))) for place, name in enumerate(names) if name != "_"]

    def _part_of(self, word: Value, steps: tuple[tuple[Operation, tuple[int, ...]], ...], require: Require) -> Value:
        for op, more in steps:
            word = self._applied(op, [word, *more], require)
        return word

    def _arithmetic(self, one: Instruction, op: Operation) -> Plan:
        """For plain arithmetic, almost always on numbers."""
        (target, *sources), rule, numbers = one.operands, number_of(op), {int} if op.name not in _DIVIDING else set()
        # By name, and the value for an operand that is not a register with a value.
        operands: list[tuple[str | None, Value]] = []
        for text in sources:
            is_register, value = self._operand(text)
            operands.append((text, UNKNOWN) if is_register else (None, value))  # type: ignore[arg-type]

        def execute(machine: Registers, env: Env, require: Require) -> None:
            values = [env.get(name, otherwise) for name, otherwise in operands]
            if {*map(type, values)} == numbers:
                env[target] = rule(values)  # type: ignore[arg-type]
            else:
                env[target] = machine._found(op, values, env, require)

        def execute_two(machine: Registers, env: Env, require: Require) -> None:
            left, right = env.get(first, one_), env.get(second, other)
            if type(left) in numbers and type(right) in numbers:
                env[target] = rule((left, right))  # type: ignore[arg-type]
            else:
                env[target] = machine._found(op, [left, right], env, require)

        if len(operands) != 2:
            return execute
        (first, one_), (second, other) = operands
        return execute_two

    def _found(self, op: Operation, values: list[Value], env: Env, require: Require) -> Value:
        found = self._applied(op, values, require)
        return self._wound(found, env, require) if self.winds and isinstance(found, Linear) else found

    def _wound(self, form: Linear, env: Env, require: Require) -> Value:
        """A value that depends on a loop counter only through its residue: `k % 3`, if that is known for `k`."""
        symbols = symbols_of(form)
        left: dict[Symbol, Linear] = {}
        for key, value in env.items():
            if type(key) is tuple and key[0] == RESIDUE and key[1] in symbols:
                assert isinstance(value, int)
                left[key[1]] = Linear(value, ((Symbol(f"turn of {key[1].name}"), key[2]),))
        if not left:
            return form
        divided: list[Linear] = []
        made = substitute(rounded_down(form, divided), left)
        if made.terms:
            # Compiled quotients test signs; a non-negative counter has counted iterations from 0.
            made = not_negative(made)
            divided += map(atom, left)
        if made.terms:
            return form
        require(tuple(Compare("ge", one) for one in divided))
        return made.constant

    def _applied(self, op: Operation, values: list[Value], require: Require) -> Value:
        if op.name in _DIVIDING and _may_be_zero(values[1], op.width):
            return UNKNOWN
        if Lanes in map(type, values) and not {*map(type, values)} <= _LANES:
            values = [self._common(value) for value in values]
        value, requires = self.arithmetic.apply(op, values)
        if requires:
            require(requires)
        return value

    def _remote(self, one: Instruction, env: Env) -> Value | None:
        """An address that each thread maps to a CTA of its own choice, or that only some threads map."""
        taking = env.get(one.predicate, UNKNOWN) if one.predicate else 1
        where, rank = self.value(one.operands[1], env), self.value(one.operands[2], env)
        if not isinstance(taking, Lanes) and not isinstance(rank, Lanes):
            return None
        if not isinstance(taking, (int, Lanes)) or not isinstance(rank, (int, Lanes)) or not isinstance(where, (int, Table)):
            return UNKNOWN
        return self.arithmetic.remembered(
            ("mapa", where, taking, rank, one.negated), lambda: self._mapped(where, taking, rank, one.negated)
        )

    def _mapped(self, where: int | Table, taking: int | Lanes, rank: int | Lanes, negated: bool) -> Value:
        held = taking.entries if isinstance(taking, Lanes) else (taking,) * self.around.threads
        ranks = rank.entries if isinstance(rank, Lanes) else (rank,) * self.around.threads
        return Remote(where, tuple(r if bool(p) != negated else -1 for p, r in zip(held, ranks, strict=True)))

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
            chosen = choose(when, *(Linear(v) if isinstance(v, int) else v for v in (new, old)))
            return self.same(chosen)
        if isinstance(when, Table):
            return self.arithmetic.apply(_SELECT, [new, old, when])[0]
        return UNKNOWN

    def _common(self, value: Value) -> Value:
        if not isinstance(value, Lanes):
            return value
        mine = {value.entries[thread] for thread in self.present}
        return mine.pop() if len(mine) == 1 else value

    def elected(self, one: Instruction, env: Env) -> dict[str, Value]:
        self._whole_warp(one, env)
        return dict(zip(one.first, (0, self.same(self.around.leaders)), strict=False))

    def _whole_warp(self, one: Instruction, env: Env) -> None:
        mask = self.value(one.operands[-1], env) if one.operands else UNKNOWN
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
            sources = {min(warp * 32 + lane % 32, last) for warp in {thread // 32 for thread in self.threads}}
            if not env.get(APART, 0) or sources <= {*self.threads}:
                result[one.first[0]] = self.arithmetic.shuffled(value, lane % 32)
        elif not self.partial:
            result[one.first[0]] = value
        return result

    def parameter(self, one: Instruction, env: Env) -> dict[str, Value]:
        result: dict[str, Value] = dict.fromkeys(one.first, UNKNOWN)
        if len(one.operands) == 2 and len(one.first) == 1:
            name, offset = address(one.operands[1], one.line)
            kind = one.parts[-1]
            wider = kind[1:].isdigit() and self.around.kernel.is_wider(one.first[0], int(kind[1:]))
            declared = self.around.kernel.parameters.get(name, "")
            if not offset and _loads_all(kind, declared, self.arithmetic.ranges.get(name, (-inf, inf)) if wider else None):
                result[one.first[0]] = self.same(atom(Symbol(name)))
        return result

    def loaded(self, one: Instruction, env: Env) -> dict[str, Value]:
        """A load of global memory that is not written while the kernel runs is a function of its address."""
        result: dict[str, Value] = dict.fromkeys(one.first, UNKNOWN)
        if len(one.first) != 1 or len(one.operands) != 2 or (kind := self._number_loaded(one)) is None:
            return result
        name, offset = address(one.operands[1], one.line)
        value = self._common(self.value(name, env)) if name else 0
        if isinstance(value, Linear):
            symbols = [term for term, times in value.terms if isinstance(term, Symbol) and times == 1]
            pointers = [symbol for symbol in symbols if symbol.name in self.around.pointers]
            if len(pointers) == 1 and self.around.unwritten(pointers[0].name):
                self.arithmetic.loads = True
                result[one.first[0]] = self.same(atom(Apply(f"ld.global.{kind}", (add(value, Linear(offset)),))))
            else:
                result[one.first[0]] = self._drawn(one, kind)
        return result

    def _number_loaded(self, one: Instruction) -> str | None:
        """The type of the number that a load leaves in its register, however the load is written."""
        sign, bits = one.parts[-1][:1], one.parts[-1][1:]
        if f"s{bits}" not in RANGES or sign not in ("b", "u", "s"):
            return None
        # In a register of as many bits a number has no sign: words count as signed, smaller ones not. Into a wider one it is extended.
        wider = self.around.kernel.is_wider(one.first[0], int(bits))
        return ("s" if (sign == "s" if wider else int(bits) >= 32) else "u") + bits

    def _drawn(self, one: Instruction, kind: str) -> Value:
        """An unknown number that is the same for all threads of the class."""
        symbol = self.draws(one)
        self.arithmetic.ranges[symbol.name] = RANGES[kind]
        return self.same(atom(symbol))

    def draws(self, one: Instruction) -> Symbol:
        """The symbol for the result of a load or a vote; each execution gives a new value."""
        return Symbol(f"{self.name}:{LOADED if one.head == 'ld' else VOTED}{one.number} of {self.rank}")

    def voted(self, one: Instruction, env: Env) -> dict[str, Value]:
        """The result of a vote is the same for all participants: the lanes of a warp, or all threads at a named barrier."""
        if one.head == "vote":
            self._whole_warp(one, env)
        if len(one.first) != 1 or one.head == "vote" and len({thread // 32 for thread in self.present}) > 1:
            return dict.fromkeys(one.first, UNKNOWN)
        symbol = self.draws(one)
        self.arithmetic.ranges[symbol.name] = RANGES["s32"]
        found = atom(symbol)
        return {one.first[0]: self.same(Compare("ne", found) if "pred" in one.parts else found)}

    def tested(self, one: Instruction, env: Env) -> dict[str, Value]:
        """A comparison of floats, of which nothing is known but that the same bits compare alike: roles may ask the same of a number."""
        result: dict[str, Value] = dict.fromkeys(one.first, UNKNOWN)
        test = float_test(one.opcode)
        if test is None or len(one.first) != 1 or len(one.operands) != 3:
            return result
        left, right = (self._word(text, env) for text in one.operands[1:])
        if left is not None and right is not None:
            asked = Compare("ne", atom(Apply(test.name, (right, left) if test.turned else (left, right))))
            result[one.first[0]] = self.same(negate(asked) if test.negated else asked)
        return result

    def _word(self, text: str, env: Env) -> Linear | None:
        """The 32 bits of an operand, if they are known and the same in all threads."""
        if text[:2] in ("0f", "0F"):
            return Linear(wrapped(int.from_bytes(bytes.fromhex(text[2:])), 32))
        value = self._common(self.value(text, env))
        if self.around.kernel.is_wider(text, 32) or not isinstance(value, (int, Linear)):
            return None
        return Linear(value) if isinstance(value, int) else value

    def from_shared(self, one: Instruction, env: Env) -> dict[str, Value]:
        """Values read from shared memory are unknown, except a response of the scheduler: it depends on the use that delivered it."""
        result: dict[str, Value] = dict.fromkeys(one.first, UNKNOWN)
        name, offset = address(one.operands[1], one.line)
        value = self._common(self.value(name, env)) if name else 0
        if len(one.first) != 1 or not isinstance(value, (int, Table, Linear)):
            return result
        if (kind := self._number_loaded(one)) == "s32":
            drawn = result[one.first[0]] = self._drawn(one, kind)
            if self.around.allocates and isinstance(value, int):
                row = value + offset, one.number, value + offset in held_in(env)
                self.around.read_at.setdefault(drawn, set()).add(row)
        answer = self._answer_at(one, env)
        if answer is not None:
            ring, back, same = answer
            use = Linear(back, ((self.cursor_symbol(ring), 1),))
            function = f"answer {ring}" if same else f"answer {ring} of {self.rank}"
            result[one.first[0]] = self.same(atom(Apply(function, (use,))))
        return result

    def reading(self, one: Instruction, env: Env) -> RingAction | None:
        """The use whose answer of the scheduler is read; from then on its place may be overwritten."""
        if one.head != "ld" or "shared" not in one.opcode:
            return None
        answer = self._answer_at(one, env)
        return None if answer is None else RingAction(True, answer[0], answer[0], answer[1], reads=True)

    def _answer_at(self, one: Instruction, env: Env) -> tuple[int, int, bool] | None:
        """The answer that is read, if it is one: its ring, how far its use is behind the position, and whether all CTAs get the same."""
        if not self.around.asks or "b128" not in one.parts or len(one.first) != 1:
            return None
        name, offset = address(one.operands[1], one.line)
        value = self._common(self.value(name, env)) if name else 0
        if not isinstance(value, (int, Table)):
            return None
        entries = value.entries if isinstance(value, Table) else (value,)
        found = [None if entry is None else self.around.answers.get(entry + offset & OFFSET) for entry in entries]
        known = [row for row in found if row is not None]
        if not self.around.answers:
            raise Later
        if len(known) != sum(entry is not None for entry in entries) or len({(ring, same) for ring, _, same in known}) != 1:
            return None
        ring, stage, same = known[0]
        at: Value = Table(value.cursor, tuple(row and row[1] for row in found)) if isinstance(value, Table) else stage
        stages = self.around.barriers.stages[ring]
        return ring, self._apart(one, at, self._position(ring, env), stages) - stages, same

    def queried(self, one: Instruction, env: Env) -> dict[str, Value]:
        """The contents of a scheduler response."""
        answer = self.value(one.operands[1], env)
        if not isinstance(answer, Linear) or len(one.first) != 1 or len(one.parts) < 3:
            return dict.fromkeys(one.first, UNKNOWN)
        if "is_canceled" in one.parts:
            return {one.first[0]: self.same(Compare("ne", atom(Apply("is_canceled", (answer,)))))}
        return {one.first[0]: self.same(atom(Apply(f"{one.parts[2]}.ctaid", (answer,))))}


def _unasked(one: Instruction, plan: Plan) -> Plan:
    """The same, of which nothing is required (flow/idle.py)."""

    def execute(machine: Registers, env: Env, _: Require) -> None:
        if machine.takes_apart(one, env):
            raise Decides
        plan(machine, env, lambda _: None)

    return execute


def _defines_one(one: Instruction) -> bool:
    """Not `{a, b}` or `p|q`."""
    return one.first == one.operands[:1]


def _loads_all(kind: str, declared: str, extended: tuple[float, float] | None) -> bool:
    """Whether a load with one type returns the value of a parameter with another: the same bits, and those that they are extended by.
    `extended`: if the register is wider, between which numbers the parameter lies, which may have a sign though its type has none."""
    if kind[:1] not in ("u", "s", "b") or kind[1:] != declared[1:]:
        return False
    if extended is not None:
        least, most = RANGES[f"{'s' if kind[0] == 's' else 'u'}{kind[1:]}"]
        return least <= extended[0] and extended[1] <= most
    return int(kind[1:]) >= 32 or {"u": "u", "b": "u", "s": "s"}[kind[0]] == declared[0]


def _may_be_zero(value: Value, width: int) -> bool:
    """Whether a known value, or one of its entries, is 0."""
    entries = value.entries if isinstance(value, (Lanes, Table)) else (value,)
    return any(isinstance(entry, int) and not entry & ((1 << width) - 1) for entry in entries)


_DIVIDING = frozenset({"div", "rem"})  # by 0: a machine-specific result in PTX
_LANES = {int, Lanes}
_SELECT = Operation("selp", "", 32, False, 32)
Special = Callable[[Registers, Instruction, Env], dict[str, Value]]
_SPECIAL: dict[str, Special] = {
    "elect": Registers.elected,
    "shfl": Registers.shuffled,
    **dict.fromkeys(("vote", "bar", "barrier"), Registers.voted),
    "setp": Registers.tested,
    "ld.param": Registers.parameter,
    "ld.global": Registers.loaded,
    "ld.shared": Registers.from_shared,
    "clusterlaunchcontrol.query_cancel": Registers.queried,
}


def _special(one: Instruction) -> Special | None:
    """The handler of an instruction with a value that is not arithmetic."""
    return _SPECIAL.get(".".join(one.parts[:2])) or _SPECIAL.get(one.head)
