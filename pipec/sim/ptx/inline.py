"""Inlines called functions, so that a kernel is one list of instructions.

A `.param` variable of a call sequence and the callee's parameter become one variable; every call has its own copy of the callee's
registers, labels and local variables (PTX ISA 7.1, 9.7.12.5). An indirect call becomes a chain of comparisons with every function that
has matching parameters and whose address is taken. A call that cannot be inlined (recursive, or of a function without a body) stays, and
is reported when it is executed.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from pipec.budgets import BUDGETS
from pipec.record import record, replace

from ..errors import budget_ended, malformed
from .tree import (
    Address,
    Base,
    Function,
    Guard,
    Instruction,
    Module,
    Negated,
    Operand,
    Pair,
    Part,
    Register,
    Symbol,
    Variable,
    Vector,
)

_BUDGET = "inlined instructions"


def with_calls_inlined(module: Module, kernel: Function) -> Function:
    """`kernel` itself when it has no calls. Raises SimulationError("malformed") when arguments and parameters differ."""
    if not any(_is_call(item) for item in kernel.instructions):
        return kernel
    flat = Function(kernel.name, kernel.is_kernel, kernel.line, parameters=kernel.parameters, directives=kernel.directives)
    flat.variables, flat.registers = list(kernel.variables), list(kernel.registers)
    flat.scope_parents, flat.tables = list(kernel.scope_parents), dict(kernel.tables)
    _Inliner(module, flat).body(kernel, (kernel.name,), _Copy({}, 0, 0), None)
    return flat


def _is_call(item: Instruction) -> bool:
    return item.root == "call"


class _Copy:
    """The renaming of one copy of a function: symbols get new names, registers and scopes are shifted."""

    def __init__(self, symbols: dict[str, str], registers: int, scopes: int) -> None:
        self.symbols, self.registers, self.scopes = symbols, registers, scopes

    def register(self, register: Register) -> Register:
        return replace(register, index=register.index + self.registers)

    def operand(self, value: Operand) -> Operand:
        match value:
            case Register():
                return self.register(value)
            case Symbol():
                return replace(value, name=self.symbols.get(value.name, value.name))
            case Address():
                return Address(self.base(value.base), value.offset, self.operands(value.coordinates))
            case Vector():
                return Vector(self.operands(value.items))
            case Pair():
                return Pair(self.operand(value.first), self.operand(value.second))
            case Negated():
                return Negated(self.operand(value.operand))
            case Part():
                return replace(value, operand=self.operand(value.operand))
        return value

    def base(self, value: Base) -> Base:
        match value:
            case Register():
                return self.register(value)
            case Symbol():
                return replace(value, name=self.symbols.get(value.name, value.name))
        return value

    def operands(self, values: tuple[Operand, ...]) -> tuple[Operand, ...]:
        return tuple(self.operand(value) for value in values)

    def instruction(self, item: Instruction) -> Instruction:
        guard = Guard(self.register(item.guard.register), item.guard.negated) if item.guard else None
        return replace(item, operands=self.operands(item.operands), guard=guard, scope=item.scope + self.scopes)


class _Inliner:
    def __init__(self, module: Module, flat: Function) -> None:
        self.module, self.flat = module, flat
        self.copies = self.work = 0
        self.known = {variable.name for variable in flat.variables}

    def body(self, function: Function, chain: tuple[str, ...], copy: _Copy, leave: str | None) -> None:
        """Appends a copy of the instructions; `ret` branches to the label `leave` (None: it stays a `ret`)."""
        flat, starts = self.flat, []
        for item in function.instructions:
            starts.append(len(flat.instructions))
            moved = copy.instruction(item)
            if leave is not None and item.root == "ret":
                self._bra(moved, leave, moved.guard)
            elif not (_is_call(item) and self.call(moved, chain)):
                flat.instructions.append(moved)
        starts.append(len(flat.instructions))
        for (scope, label), index in function.labels.items():
            flat.labels[scope + copy.scopes, label] = starts[index]
        if leave is not None:
            flat.labels[copy.scopes, leave] = starts[-1]

    def call(self, item: Instruction, chain: tuple[str, ...]) -> bool:
        """Inlines the callee; False if that is impossible."""
        call = _Call.of(item)
        candidates = [callee for callee in self._candidates(item, call) if callee.name not in chain]
        if isinstance(call.target, Symbol) and not candidates:
            return False
        done = self._label("return")
        if item.guard is not None:
            self._bra(item, done, Guard(item.guard.register, not item.guard.negated))
        plain = replace(item, guard=None)
        if isinstance(call.target, Symbol):
            self._direct(plain, call, candidates[0], chain)
        else:
            for callee in candidates:
                if call.fits(callee):
                    self._if_address(plain, call, callee, chain, done)
            self.flat.instructions.append(plain)
        self.flat.labels[item.scope, done] = len(self.flat.instructions)
        return True

    def _candidates(self, item: Instruction, call: _Call) -> list[Function]:
        """The functions with a body that a call may reach."""
        functions = self.module.functions
        names: Sequence[str] = list(functions)
        if isinstance(call.target, Symbol):
            names = [self.module.aliases.get(call.target.name, call.target.name)]
        elif isinstance(call.listed, Symbol):
            # A list of targets; a prototype is not a list, and then every function is tried.
            names = self.flat.find(self.flat.tables, item.scope, call.listed.name) or names
        found = (functions[name] for name in names if name in functions)
        return [function for function in found if function.has_body and not function.is_kernel]

    def _if_address(self, item: Instruction, call: _Call, callee: Function, chain: tuple[str, ...], done: str) -> None:
        other = self._label("other")
        differs = Register(other, len(self.flat.registers), "pred")
        self.flat.registers.append(differs)
        self.flat.instructions.append(replace(item, opcode="setp.ne.u64", operands=(differs, call.target, Symbol(callee.name))))
        self._bra(item, other, Guard(differs, False))
        self._direct(item, call, callee, chain)
        self._bra(item, done, None)
        self.flat.labels[item.scope, other] = len(self.flat.instructions)

    def _direct(self, item: Instruction, call: _Call, callee: Function, chain: tuple[str, ...]) -> None:
        if not call.fits(callee):
            raise malformed(
                f"`{callee.name}` has {len(callee.parameters)} parameters and {len(callee.results)} results; "
                f"the call gives {len(call.arguments)} and takes {len(call.results)}",
                item.line,
            )
        # Everything that a copy adds counts, even for an empty function: calls that double at every level need no instructions.
        self.work += 1 + len(callee.instructions) + len(callee.registers) + len(callee.variables) + len(callee.scope_parents)
        if self.work > BUDGETS[_BUDGET].limit:
            raise budget_ended(_BUDGET, item.line)
        copy = self._copy(callee)
        before = [*self._passed(item, callee.parameters, call.arguments, copy, inwards=True)]
        after = [*self._passed(item, callee.results, call.results, copy, inwards=False)]
        self.flat.instructions.extend(before)
        # A function's stack allocations are freed when it returns.
        frame = self._frame() if any(one.root == "alloca" for one in callee.instructions) else None
        if frame is not None:
            self.flat.instructions.append(replace(item, opcode="stacksave.u64", operands=(frame,)))
        self.body(callee, (*chain, callee.name), copy, self._label("return"))
        if frame is not None:
            self.flat.instructions.append(replace(item, opcode="stackrestore.u64", operands=(frame,)))
        self.flat.instructions.extend(after)

    def _frame(self) -> Register:
        found = Register(self._label("frame"), len(self.flat.registers), "b64")
        self.flat.registers.append(found)
        return found

    def _copy(self, callee: Function) -> _Copy:
        """Registers, scopes, tables and variables of another copy of `callee`."""
        flat = self.flat
        formal = [v for v in (*callee.parameters, *callee.results) if v.register is None]
        own = [*formal, *(v for v in callee.variables if v.space == "local")]
        symbols = {variable.name: self._label(variable.name) for variable in own}
        copy = _Copy(symbols, len(flat.registers), len(flat.scope_parents))
        flat.registers.extend(copy.register(register) for register in callee.registers)
        flat.scope_parents.extend(parent + copy.scopes if parent >= 0 else -1 for parent in callee.scope_parents)
        flat.variables.extend(replace(v, name=symbols[v.name], space="local") for v in own)
        self.known.update(symbols.values())
        shared = [v for v in callee.variables if v.space != "local" and v.name not in self.known]
        flat.variables.extend(shared)
        self.known.update(v.name for v in shared)
        flat.tables.update({(scope + copy.scopes, name): labels for (scope, name), labels in callee.tables.items()})
        return copy

    def _passed(
        self, item: Instruction, formals: list[Variable], actuals: tuple[Operand, ...], copy: _Copy, inwards: bool
    ) -> Iterator[Instruction]:
        """Arguments and results: `.param` variables are identified, registers and literals are moved."""
        for formal, actual in zip(formals, actuals, strict=True):
            kind = f"b{max(8, 8 * formal.size)}"
            if formal.register is not None:
                inner: Operand = copy.register(formal.register)
                kind = formal.register.type
                load, store = "ld.param", "st.param"
            else:
                inner = Address(Symbol(copy.symbols[formal.name]))
                load, store = "st.param", "ld.param"
            if isinstance(actual, Symbol) and formal.register is None:
                copy.symbols[formal.name] = actual.name
                continue
            outer = Address(actual) if isinstance(actual, Symbol) else actual
            if formal.register is not None and not isinstance(actual, Symbol):
                load = store = "mov"
            pair = (inner, outer) if inwards else (outer, inner)
            yield replace(item, opcode=f"{load if inwards else store}.{kind}", operands=pair)

    def _bra(self, item: Instruction, label: str, guard: Guard | None) -> None:
        self.flat.instructions.append(replace(item, opcode="bra", operands=(Symbol(label),), guard=guard))

    def _label(self, what: str) -> str:
        self.copies += 1
        return f"{what}@{self.copies}"


@record
class _Call:
    """`call (r), f, (a, b), p;` and shorter forms; `listed` is the list of targets or the prototype."""

    results: tuple[Operand, ...]
    target: Operand
    arguments: tuple[Operand, ...]
    listed: Operand | None

    @staticmethod
    def of(item: Instruction) -> _Call:
        operands = list(item.operands)
        results = _taken(operands)
        if not operands:
            raise malformed("call names no function", item.line)
        target = operands.pop(0)
        arguments = _taken(operands)
        return _Call(results, target, arguments, operands[0] if operands else None)

    def fits(self, callee: Function) -> bool:
        return (len(self.results), len(self.arguments)) == (len(callee.results), len(callee.parameters))


def _taken(operands: list[Operand]) -> tuple[Operand, ...]:
    """Takes the leading parenthesised list from `operands`; empty when there is none."""
    if not operands or not isinstance(operands[0], Vector):
        return ()
    first = operands[0]
    del operands[0]
    return first.items
