"""A small writer of LLVM IR text: typed values, blocks, the current source line. It checks nothing: LLVM's verifier does."""

import operator
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from pipec.budgets import Meter
from pipec.isa.instruction import Instruction
from pipec.isa.instructions import INSTRUCTIONS
from pipec.lower.emit.value import CLUSTER, FALSE, GLOBAL, SHARED, TENSOR, TRUE, Value, integer, negated
from pipec.lower.emit.variables import Block, Slot, Variables

# The constraint of inline PTX that takes an operand of the type; pointers to shared and tensor memory have 32 bits.
_REGISTERS = {"i1": "b", "i16": "h", "i32": "r", "i64": "l", SHARED: "r", TENSOR: "r", CLUSTER: "r", GLOBAL: "l", "ptr": "l"}


# Names of what instructions give, and of what variables hold.
_COMPUTED = re.compile(r"%(?:v?\d|p\d+\.)")
_NAMED = re.compile(r"%p\d+\.[\w.$-]+")


class Actions:
    """Instructions that are written later, and the values that they take."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.told: list[Value] = []

    def taken(self) -> tuple[list[str], list[Value]]:
        """What was collected so far, which is then left out."""
        found = self.lines, self.told
        self.lines, self.told = [], []
        return found


class Builder:
    """Appends the instructions of one function; `location` (a metadata number) goes on each, and `meter` counts them."""

    def __init__(self, meter: Meter) -> None:
        self._spend = meter.spend
        self.lines: list[str] = []
        self.location = ""
        self._entry: list[str] = []
        self._values = 0
        self._names = {"entry"}
        self._counts: dict[str, int] = {}
        self._variables = Variables(self._fresh)
        self._computed: dict[str, tuple[Value, Block]] = {}  # what was computed last, by text, and in which block
        self.pairs: dict[tuple[str, str], Value] = {}  # two values, as this block has them in one (pipec.lower.emit.packed)
        self.structures: dict[str, str] = {}  # types that the module has to define, by name
        self.words: dict[str, tuple[Value, int]] = {}  # numbers in the highest bits of a word: see `top`
        self._parts: dict[str, tuple[Value, int]] = {}  # a value and a constant, of which one is the sum
        self._flips: dict[str, tuple[Value, int]] = {}  # a value and bits of it, of which one is the exclusive or
        self._scaled: dict[str, tuple[Value, Value]] = {}  # products with a literal, and of what they are
        self._negated: dict[str, Value] = {}  # a float, and that of which it is the negative
        self._prelude: list[str] = []  # what `early` has collected
        self._start: int | None = None  # where it goes
        self._computed_early: dict[str, tuple[Value, Block]] = {}
        self._deferred: Actions | None = None
        self.effects = 0  # instructions so far that do more than compute a value of others, and blocks

    # ---------------------------------------------------------------------------------------------------- structure

    def label(self, hint: str) -> str:
        """A fresh name for a label or a slot: the hint, with a number where it is taken."""
        name = hint
        while name in self._names:
            self._counts[hint] = self._counts.get(hint, 1) + 1
            name = f"{hint}.{self._counts[hint]}"
        self._names.add(name)
        return name

    def _fresh(self, hint: str) -> str:
        """A name for a value of a variable."""
        self._values += 1
        return self.label(f"p{self._values}.{hint}")

    def place(self, label: str, *, head: bool = False) -> None:
        """A block begins: the `head` of a loop, or one that all jumps to it come before."""
        self._variables.begin(label, head=head)
        self.effects += 1
        self.lines.append(f"{label}:")
        self.pairs.clear()

    def jump(self, label: str, suffix: str = "") -> None:
        self._variables.jump(label)
        self.lines.append(f"  br label %{label}{suffix or self.location}")

    def branch(self, condition: Value, then: str, otherwise: str, suffix: str = "") -> None:
        """`suffix` says something of a loop, in place of where it comes from."""
        self._variables.jump(then)
        self._variables.jump(otherwise)
        self.lines.append(f"  br {condition}, label %{then}, label %{otherwise}{suffix or self.location}")

    def begin_prelude(self) -> None:
        """What is computed `early` from here on stands here, where it comes before everything that follows."""
        self._start, self._computed_early = len(self.lines), {}

    def end_prelude(self) -> None:
        assert self._start is not None
        self.lines[self._start : self._start] = self._prelude
        self._prelude, self._start = [], None

    @contextmanager
    def early(self) -> Iterator[None]:
        """What is written inside stands in the prelude: it uses nothing that was computed since."""
        before = self.lines, self._computed, self.pairs
        self.lines, self._computed, self.pairs = self._prelude, self._computed_early, {}
        yield
        self.lines, self._computed, self.pairs = before

    @contextmanager
    def deferring(self, actions: "Actions") -> Iterator[None]:
        """Instructions that act are collected, while what they are told is computed here."""
        before, self._deferred = self._deferred, actions
        yield
        self._deferred = before

    def use(self, values: Sequence[Value]) -> None:
        """The values are there at this point, and not computed later where a branch needs them. No instruction comes of it."""
        different = tuple(dict.fromkeys(values))
        if different:
            constraints = ",".join(_REGISTERS[value.type] for value in different)
            self.effect(f'call void asm sideeffect "", "{constraints}"({", ".join(map(str, different))})')

    def returns(self) -> None:
        self.lines.append(f"  ret void{self.location}")

    def variable(self, type_: str, hint: str) -> Slot:
        return Slot(self._variables, type_, hint)

    def declare(self, row: Instruction) -> None:
        """A directive at the head of the function, where no pass of LLVM makes a second copy of it."""
        self._entry.append(f"  call void {_callee(row)}()")

    def body(self) -> str:
        """All instructions, once everything is written."""
        begins, replaced = self._variables.finish()
        lines = [*self._entry]
        for line in self.lines:
            lines.append(line)
            if line[0] != " ":
                lines += begins.get(line[:-1], ())
        return _NAMED.sub(lambda found: replaced.get(found[0], found[0]), "\n".join(lines))

    # ------------------------------------------------------------------------------------------------- instructions

    def emit(self, type_: str, text: str) -> Value:
        """What depends on its operands alone: not computed again where it is known."""
        found = self._computed.get(text)
        if found is not None and self._variables.passed(found[1]):
            return found[0]
        value = self._result(type_, text)
        self._computed[text] = value, self._variables.here
        return value

    def result(self, type_: str, text: str) -> Value:
        """Of an instruction that may give another one each time."""
        self.effects += 1
        return self._result(type_, text)

    def _result(self, type_: str, text: str) -> Value:
        self._spend()
        self._values += 1
        # LLVM keeps no names for what has a number alone; numbers have to grow from line to line, and the prelude comes before the rest.
        name = f"%{self._values}" if self.lines is not self._prelude else f"%v{self._values}"
        self.lines.append(f"  {name} = {text}{self.location}")
        return Value(type_, name)

    def effect(self, text: str) -> None:
        self.effects += 1
        self._spend()
        self.lines.append(f"  {text}{self.location}")

    def call(self, name: str, *arguments: Value) -> Value:
        """An instruction of the table."""
        return self.issue(INSTRUCTIONS[name], *arguments)

    def issue(self, row: Instruction, *arguments: Value) -> Value:
        """An instruction whose row was made for the occasion (pipec.isa.wgmma)."""
        result = row.result if row.constraints is None else self._named(row.result)
        text = f"call {result} {_callee(row)}({', '.join(map(str, arguments))}){_attributes(row)}"
        if len(arguments) != len(row.operands):
            raise AssertionError(f"{row.name}: {len(arguments)} operands, the table says {len(row.operands)}")
        if self._deferred is not None and row.acts:
            if row.result != "void":
                self._values += 1
                text = f"%v{self._values} = {text}"  # LLVM would number it, and it is written behind others
            self._defer(self._deferred, text, arguments)
            return Value("void", "")
        if row.result == "void":
            self.effect(text)
            return Value("void", "")
        return self.emit(result, text) if row.pure else self.result(result, text)

    def _named(self, type_: str) -> str:
        """A structure of many equal members by a name: each member that is taken would otherwise list them all."""
        if not type_.startswith("{"):
            return type_
        first, *others = type_.strip("{} ").split(", ")
        if others.count(first) < len(others):
            return type_
        name = f"%x{len(others) + 1}.{first}"
        self.structures[name] = type_
        return name

    def binary(self, operation: str, left: Value, right: Value) -> Value:
        folded = _folded(operation, left, right)
        if folded is not None:
            return folded
        if operation == "fmul" and right.name.startswith("0x"):
            return self._scale(left, right)
        return self.emit(left.type, f"{operation} {left}, {right.name}")

    def _scale(self, value: Value, constant: Value) -> Value:
        if value.name in self._negated:
            value, constant = self._negated[value.name], negated(constant)
        result = self.emit(value.type, f"fmul {value}, {constant.name}")
        self._scaled[result.name] = value, constant
        return result

    def negate(self, value: Value) -> Value:
        """Of a float. Beside a factor that is known it is no instruction."""
        if value.name in self._scaled:
            factor, constant = self._scaled[value.name]
            return self._scale(factor, negated(constant))
        result = self.emit(value.type, f"fneg {value}")
        self._negated[result.name] = value
        return result

    def compare(self, predicate: str, left: Value, right: Value) -> Value:
        known = _known(left, right)
        if known is not None:
            return TRUE if _ORDERS[predicate](*known) else FALSE
        kind = "fcmp" if left.type in ("float", "half", "bfloat", "double") else "icmp"
        return self.emit("i1", f"{kind} {predicate} {left}, {right.name}")

    def cast(self, operation: str, value: Value, type_: str) -> Value:
        return value if value.type == type_ else self.emit(type_, f"{operation} {value} to {type_}")

    def select(self, condition: Value, when_true: Value, when_false: Value) -> Value:
        return self.emit(when_true.type, f"select {condition}, {when_true}, {when_false}")

    def constant(self, value: int) -> Value:
        return integer(value)

    def add(self, left: Value, right: Value | int) -> Value:
        if isinstance(right, int):
            if right == 0:
                return left
            total = self.binary("add", left, integer(right, left.type))
            first, constant = self.parts(left)
            self._parts[total.name] = first, constant + right
            return total
        return self.binary("add", left, right)

    def parts(self, value: Value) -> tuple[Value, int]:
        """What a value was made of by adding a constant, and the constant; all of a literal is constant."""
        if value.type == "i32" and value.name.isdigit():
            return integer(0), int(value.name)
        return self._parts.get(value.name, (value, 0))

    def sum(self, left: Value, right: Value) -> Value:
        """As many sums with one value share what they have in common and differ by constants, which memory accesses take as they are."""
        right, constant = self.parts(right)
        return self.add(self.binary("add", left, right), constant)

    def multiply(self, left: Value, right: Value | int) -> Value:
        if isinstance(right, int):
            if right == 1:
                return left
            word, shift = self.words.get(left.name, (left, 0))
            power = right.bit_length() - 1
            if right > 0 and right == 1 << power and power <= shift:
                return self.bits("lshr", word, shift - power)
            right = integer(right, left.type)
        return self.binary("mul", left, right)

    def top(self, word: Value, shift: int) -> Value:
        """The number in the bits of a word from `shift` on, whose other bits are 0: a multiple of it may then be one shift as well."""
        number = self.bits("lshr", word, shift)
        if not number.name.isdigit():
            self.words[number.name] = word, shift
        return number

    def bits(self, operation: str, left: Value, right: int) -> Value:
        """and, or, xor, shl, lshr, ashr, urem, udiv with a constant."""
        if right == 0 and operation in ("or", "xor", "shl", "lshr", "ashr"):
            return left
        if operation == "xor":
            return self._flipped(left, right)
        return self.binary(operation, left, integer(right, left.type))

    def _flipped(self, value: Value, bits: int) -> Value:
        """What turns to and fro is itself again: as often as a role is written out with the other of two places."""
        first, before = self._flips.get(value.name, (value, 0))
        if first is not value and bits == before:
            return first
        result = self.binary("xor", first, integer(bits ^ before, value.type))
        if not result.name.isdigit():
            self._flips[result.name] = first, bits ^ before
        return result

    def extract(self, value: Value, index: int, type_: str = "i32") -> Value:
        return self.emit(type_, f"extractvalue {value}, {index}")

    def elements(self, value: Value, count: int, type_: str = "i32") -> list[Value]:
        """The members of a struct result, in order (a single one is not wrapped)."""
        return [value] if count == 1 else [self.extract(value, index, type_) for index in range(count)]

    def vector(self, values: Sequence[Value]) -> Value:
        type_ = f"<{len(values)} x {values[0].type}>"
        vector = Value(type_, "poison")
        for index, value in enumerate(values):
            vector = self.emit(type_, f"insertelement {vector}, {value}, i32 {index}")
        return vector

    def element(self, vector: Value, index: int, type_: str) -> Value:
        return self.emit(type_, f"extractelement {vector}, i32 {index}")

    def shared_pointer(self, address: Value) -> Value:
        return self.emit(SHARED, f"inttoptr {address} to {SHARED}")

    def cluster_pointer(self, address: Value) -> Value:
        """Of shared memory anywhere in the cluster; an address of this CTA's is one."""
        return self.emit(CLUSTER, f"inttoptr {address} to {CLUSTER}")

    def tensor_pointer(self, address: Value) -> Value:
        return self.emit(TENSOR, f"inttoptr {address} to {TENSOR}")

    def offset_pointer(self, pointer: Value, offset: Value) -> Value:
        return self.emit(pointer.type, f"getelementptr i8, {pointer}, {offset}")

    def load(self, type_: str, pointer: Value, alignment: int) -> Value:
        return self.result(type_, f"load {type_}, {pointer}, align {alignment}")

    def store(self, value: Value, pointer: Value, alignment: int) -> None:
        text = f"store {value}, {pointer}, align {alignment}"
        if self._deferred is not None:
            self._defer(self._deferred, text, (value, pointer))
        else:
            self.effect(text)

    def _defer(self, actions: Actions, text: str, told: Sequence[Value]) -> None:
        self._spend()
        actions.lines.append(f"  {text}{self.location}")
        actions.told += [value for value in told if _COMPUTED.match(value.name)]


# What is known of operands that are not negative, for which signed and unsigned operators agree.
_FOLDED: dict[str, Callable[[int, int], int]] = {
    "add": operator.add,
    "mul": operator.mul,
    "and": operator.and_,
    "or": operator.or_,
    "xor": operator.xor,
    "lshr": operator.rshift,
    "ashr": operator.rshift,
}
_DIVIDING: dict[str, Callable[[int, int], int]] = {
    "udiv": operator.floordiv,
    "sdiv": operator.floordiv,
    "urem": operator.mod,
    "srem": operator.mod,
}
_ORDERS: dict[str, Callable[[int, int], bool]] = {
    "eq": operator.eq,
    "ne": operator.ne,
    **{f"{sign}{order}": getattr(operator, order) for sign in "su" for order in ("lt", "le", "gt", "ge")},
}
_ZERO_CHANGES_NOTHING = ("add", "sub", "or", "xor", "shl", "lshr", "ashr")


def _folded(operation: str, left: Value, right: Value) -> Value | None:
    """The result where it is known without an instruction: LLVM would find it too, but has to read the text first."""
    if right.name == "0" and operation in _ZERO_CHANGES_NOTHING:
        return left
    if left.name == "0" and operation == "add":
        return right
    known = _known(left, right)
    if known is None:
        return None
    operators = _DIVIDING if known[1] else {}
    folded = _FOLDED.get(operation) or operators.get(operation)
    result = folded(*known) if folded else 2**31
    return integer(result) if result < 2**31 else None


def _known(left: Value, right: Value) -> tuple[int, int] | None:
    """The numbers, where both operands are literals that are not negative."""
    if left.type == "i32" and left.name.isdigit() and right.name.isdigit():
        return int(left.name), int(right.name)
    return None


def _callee(row: Instruction) -> str:
    if row.constraints is None:
        return f"@{row.llvm}"
    effect = "" if row.pure else " sideeffect"
    return f'asm{effect} "{row.llvm}", "{row.constraints}"'


def _attributes(row: Instruction) -> str:
    """What LLVM knows of an intrinsic but has to be told of a template."""
    if row.constraints is None:
        return ""
    if row.pure:
        return " memory(none)"
    return "" if row.participation == "thread" else " convergent"
