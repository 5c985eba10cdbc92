"""A small writer of LLVM IR text: typed values, blocks, the current source line. It checks nothing; LLVM's verifier does."""

import operator
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from pipec.budgets import Meter
from pipec.isa.instruction import Instruction
from pipec.isa.instructions import INSTRUCTIONS
from pipec.lower.emit.value import CLUSTER, FALSE, GLOBAL, SHARED, TENSOR, TRUE, Value, integer, negated
from pipec.lower.emit.variables import Block, Slot, Variables

# The inline-PTX constraint for an operand of the type; pointers to shared and tensor memory have 32 bits.
_REGISTERS = {"i1": "b", "i16": "h", "i32": "r", "i64": "l", SHARED: "r", TENSOR: "r", CLUSTER: "r", GLOBAL: "l", "ptr": "l"}


# Names of instruction results, and of variables' values.
_COMPUTED = re.compile(r"%(?:v?\d|p\d+\.)")
_NAMED = re.compile(r"%p\d+\.[\w.$-]+")


class Actions:
    """Deferred instructions, and the values that they use."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.told: list[Value] = []

    def taken(self) -> tuple[list[str], list[Value]]:
        """Returns and clears what has been collected."""
        found = self.lines, self.told
        self.lines, self.told = [], []
        return found


class Builder:
    """Appends the instructions of one function; `location` (a metadata number) is attached to each, and `meter` counts them."""

    def __init__(self, meter: Meter) -> None:
        self._spend = meter.spend
        self.lines: list[str] = []
        self.location = ""
        self._entry: list[str] = []
        self._values = 0
        self._names = {"entry"}
        self._counts: dict[str, int] = {}
        self._variables = Variables(self._fresh)
        self._computed: dict[
            str, tuple[Value, Block]
        ] = {}  # common subexpressions: the last computation of each text, and its block
        self.pairs: dict[tuple[str, str], Value] = {}  # pairs of values packed in this block (pipec.lower.emit.packed)
        self.structures: dict[str, str] = {}  # named types that the module must define
        self.words: dict[str, tuple[Value, int]] = {}  # numbers in the top bits of a word: see `top`
        self._parts: dict[str, tuple[Value, int]] = {}  # sums: a value and a constant
        self._flips: dict[str, tuple[Value, int]] = {}  # exclusive ors: a value and a constant
        self._scaled: dict[str, tuple[Value, Value]] = {}  # products with a literal, and their factors
        self._negated: dict[str, Value] = {}  # negated floats, and their operands
        self._prelude: list[str] = []  # instructions collected by `early`
        self._start: int | None = None  # where they are inserted
        self._computed_early: dict[str, tuple[Value, Block]] = {}
        self._deferred: Actions | None = None
        self.effects = 0  # the number of instructions with effects, and of blocks, so far

    # ---------------------------------------------------------------------------------------------------- structure

    def label(self, hint: str) -> str:
        """A unique name for a label or a slot: the hint, with a number if it is taken."""
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
        """Begins a block: the `head` of a loop, or one that all its predecessors precede."""
        self._variables.begin(label, head=head)
        self.effects += 1
        self.lines.append(f"{label}:")
        self.pairs.clear()

    def jump(self, label: str, suffix: str = "") -> None:
        self._variables.jump(label)
        self.lines.append(f"  br label %{label}{suffix or self.location}")

    def branch(self, condition: Value, then: str, otherwise: str, suffix: str = "") -> None:
        """`suffix` replaces the location, for loop metadata."""
        self._variables.jump(then)
        self._variables.jump(otherwise)
        self.lines.append(f"  br {condition}, label %{then}, label %{otherwise}{suffix or self.location}")

    def begin_prelude(self) -> None:
        """Sets the insertion point of instructions emitted by `early`, which dominates everything that follows."""
        self._start, self._computed_early = len(self.lines), {}

    def end_prelude(self) -> None:
        assert self._start is not None
        self.lines[self._start : self._start] = self._prelude
        self._prelude, self._start = [], None

    @contextmanager
    def early(self) -> Iterator[None]:
        """Emits into the prelude, using only values that are available there."""
        before = self.lines, self._computed, self.pairs, self._deferred
        self.lines, self._computed, self.pairs, self._deferred = self._prelude, self._computed_early, {}, None
        yield
        self.lines, self._computed, self.pairs, self._deferred = before

    @contextmanager
    def deferring(self, actions: "Actions") -> Iterator[None]:
        """Defers instructions with effects, while their operands are computed here."""
        before, self._deferred = self._deferred, actions
        yield
        self._deferred = before

    def use(self, values: Sequence[Value]) -> None:
        """Forces the values to be computed here, rather than sunk into a branch that uses them. Emits no instruction."""
        different = tuple(dict.fromkeys(values))
        if different:
            constraints = ",".join(_REGISTERS[value.type] for value in different)
            self.effect(f'call void asm sideeffect "", "{constraints}"({", ".join(map(str, different))})')

    def returns(self) -> None:
        self.lines.append(f"  ret void{self.location}")

    def variable(self, type_: str, hint: str) -> Slot:
        return Slot(self._variables, type_, hint)

    def declare(self, row: Instruction) -> None:
        """A directive at the head of the function, where no LLVM pass duplicates it."""
        self._entry.append(f"  call void {_callee(row)}()")

    def body(self) -> str:
        """The text of all instructions, once everything is emitted."""
        begins, replaced = self._variables.finish()
        lines = [*self._entry]
        for line in self.lines:
            lines.append(line)
            if line[0] != " ":
                lines += begins.get(line[:-1], ())
        return _NAMED.sub(lambda found: replaced.get(found[0], found[0]), "\n".join(lines))

    # ------------------------------------------------------------------------------------------------- instructions

    def emit(self, type_: str, text: str) -> Value:
        """Emits a pure computation; reuses the result of an identical one that dominates this point."""
        found = self._computed.get(text)
        if found is not None and self._variables.passed(found[1]):
            return found[0]
        value = self._result(type_, text)
        self._computed[text] = value, self._variables.here
        return value

    def result(self, type_: str, text: str) -> Value:
        """The result of an instruction that may return a different value each time."""
        self.effects += 1
        return self._result(type_, text)

    def _result(self, type_: str, text: str) -> Value:
        self._spend()
        self._values += 1
        # LLVM keeps no names for numbered values; numbers must increase in text order, and the prelude comes first.
        name = f"%{self._values}" if self.lines is not self._prelude else f"%v{self._values}"
        self.lines.append(f"  {name} = {text}{self.location}")
        return Value(type_, name)

    def effect(self, text: str) -> None:
        self.effects += 1
        self._spend()
        self.lines.append(f"  {text}{self.location}")

    def call(self, name: str, *arguments: Value) -> Value:
        """Emits an instruction of the table."""
        return self.issue(INSTRUCTIONS[name], *arguments)

    def issue(self, row: Instruction, *arguments: Value) -> Value:
        """Emits an instruction whose row was created on demand (pipec.isa.wgmma)."""
        result = row.result if row.constraints is None else self._named(row.result)
        text = f"call {result} {_callee(row)}({', '.join(map(str, arguments))}){_attributes(row)}"
        if len(arguments) != len(row.operands):
            raise AssertionError(f"{row.name}: {len(arguments)} operands, the table says {len(row.operands)}")
        if self._deferred is not None and row.acts:
            if row.result != "void":
                self._values += 1
                text = f"%v{self._values} = {text}"  # LLVM would number it, but it is emitted out of order
            self._defer(self._deferred, text, arguments)
            return Value("void", "")
        if row.result == "void":
            self.effect(text)
            return Value("void", "")
        return self.emit(result, text) if row.pure else self.result(result, text)

    def _named(self, type_: str) -> str:
        """Names a struct type with many equal members: otherwise each extraction would list them all."""
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
        """Negates a float. A product with a known factor absorbs it without an instruction."""
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
            first, constant = self.parts(left)
            if first.name == "0" and constant + right >= 0:
                return integer(constant + right)
            if constant + right == 0:
                return first
            total = self.binary("add", left, integer(right, left.type))
            self._parts[total.name] = first, constant + right
            return total
        return self.binary("add", left, right)

    def parts(self, value: Value) -> tuple[Value, int]:
        """Decomposes a value into a base and an added constant; a literal has base 0."""
        if value.type == "i32" and value.name.isdigit():
            return integer(0), int(value.name)
        return self._parts.get(value.name, (value, 0))

    def sum(self, left: Value, right: Value) -> Value:
        """Factors out constants, so that sums with a common base share it, and memory accesses take the constants as offsets."""
        right, constant = self.parts(right)
        return self.add(self.binary("add", left, right), constant)

    def multiple(self, number: Value, factor: int) -> tuple[Value, int]:
        """A multiple of a number, as a value and a constant to be added, for example to an address in front of a loop."""
        first, constant = self.parts(number)
        return self.multiply(first, factor), constant * factor

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
        """The number in the bits of a word from `shift` on, whose lower bits are 0: a multiple of it may then be a single shift as well."""
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
        """Toggling twice gives the original value: a role unrolled over two buffers toggles between them."""
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
        """A pointer into the shared memory of the cluster; addresses of this CTA are valid, too."""
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


# Constant folding of non-negative operands, for which signed and unsigned operators agree.
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
    """The result if it is known without an instruction: LLVM would find it too, but has to parse the text first."""
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
    """The numbers, if both operands are non-negative literals."""
    if left.type == "i32" and left.name.isdigit() and right.name.isdigit():
        return int(left.name), int(right.name)
    return None


def _callee(row: Instruction) -> str:
    if row.constraints is None:
        return f"@{row.llvm}"
    effect = "" if row.pure else " sideeffect"
    return f'asm{effect} "{row.llvm}", "{row.constraints}"'


def _attributes(row: Instruction) -> str:
    """Attributes that LLVM knows for intrinsics but not for inline PTX."""
    if row.constraints is None:
        return ""
    if row.pure:
        return " memory(none)"
    return "" if row.participation == "thread" else " convergent"
