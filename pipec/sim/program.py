"""A kernel made ready to run: symbols have addresses, operands are register slots, instructions are closures."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

import numpy as np

from pipec.blocked import Names

from . import instructions  # noqa: F401 - registers all meanings
from .decode import Decoder, Execute, constant_lanes, decode, initial_registers
from .errors import SimulationError, SourceLocation
from .flow import NOWHERE, reconvergence_points
from .inline import with_calls_inlined
from .memory import CODE_WINDOW, CONST_WINDOW, LOCAL_WINDOW, PARAM_WINDOW, SHARED_BASE, SHARED_WINDOW, GlobalMemory
from .tree import Function, Instruction, Module, Symbol, Variable

# CUDA programming guide, technical specifications per compute capability.
_MAXIMUM_LOCAL = 512 << 10
_ENDING = frozenset({"exit", "ret"})


@dataclass(slots=True)
class Step:
    """One executable instruction. `guard` is a register slot or -1; branches evaluate their guard themselves."""

    execute: Execute
    guard: int
    negated: bool
    line: int
    item: Instruction | None


def round_up(value: int, multiple: int) -> int:
    return -(-value // multiple) * multiple


class Program:
    """`parameter_bytes` is the size of the parameter block, `static_shared` that of the static shared data."""

    def __init__(self, module: Module, function: Function, memory: GlobalMemory, dynamic_smem: int) -> None:
        self.module, self.function = module, with_calls_inlined(module, function)
        function = self.function
        self.metadata = module.metadata.get(function.name, {})
        self.dynamic_smem = dynamic_smem
        self.addresses: dict[str, int] = {}
        self.spaces: dict[str, str] = {}
        self.constants: dict[tuple[int, int], int] = {}
        self.specials: dict[str, int] = {}
        self.shared_symbols: list[tuple[int, int]] = []
        self.initial = initial_registers([register.type for register in function.registers])
        self.slots = len(self.initial)
        self.extra: list[tuple[str, object]] = []
        self._place(memory)
        self.names = Names(self.metadata, self.dynamic_base)
        self.code = self._decode()
        self.meeting = self._reconvergence()

    # ---- addresses

    def _place(self, memory: GlobalMemory) -> None:
        variables = [*self.module.variables, *self.function.variables]
        for number, name in enumerate(self.module.functions):
            self.addresses[name], self.spaces[name] = CODE_WINDOW + 16 * number, "code"
        self.parameters = self._consecutive(self.function.parameters, 0)
        self.parameter_bytes = round_up(self.parameters[-1][1] + self.function.parameters[-1].size, 8) if self.parameters else 0
        self._shared([v for v in variables if v.space == "shared"])
        local = [v for v in variables if v.space == "local"]
        # Every thread's part begins aligned for any of the variables.
        self.local_bytes = round_up(self._end(self._consecutive(local, 0)), max([16, *(v.alignment for v in local)]))
        if self.local_bytes > _MAXIMUM_LOCAL:
            raise SimulationError("argument", f"{self.local_bytes} bytes of local memory per thread, at most {_MAXIMUM_LOCAL}")
        constants = [v for v in variables if v.space == "const"]
        self.constant_data = np.zeros(self._end(self._consecutive(constants, 0)), np.uint8)
        for variable in variables:
            if variable.space == "global" and variable.size:
                allocation = memory.add(np.zeros(variable.size, np.uint8), True, f"variable {variable.name}")
                self.addresses[variable.name], self.spaces[variable.name] = allocation.base, "global"
        for variable in variables:
            if variable.space == "const":
                self._initialise(variable, self.constant_data[self.addresses[variable.name] :])
            elif variable.space == "global" and variable.size:
                found = memory.find(self.addresses[variable.name])
                assert found is not None  # added above
                self._initialise(variable, found.data)

    def _consecutive(self, variables: list[Variable], offset: int) -> list[tuple[Variable, int]]:
        placed = []
        for variable in variables:
            offset = round_up(offset, max(1, variable.alignment))
            self.addresses[variable.name], self.spaces[variable.name] = offset, variable.space
            placed.append((variable, offset))
            offset += variable.size
        return placed

    @staticmethod
    def _end(placed: list[tuple[Variable, int]]) -> int:
        return max((offset + variable.size for variable, offset in placed), default=0)

    def _shared(self, variables: list[Variable]) -> None:
        """Static data from 0x400, dynamic data behind it as measured (SM100 notes 12.1: base of dynamic smem)."""
        static = [v for v in variables if v.size]
        dynamic = [v for v in variables if not v.size]
        static_end = max(SHARED_BASE, self._end(self._consecutive(static, SHARED_BASE)))
        alignment = max([16, *(v.alignment for v in dynamic)])
        size = static_end - SHARED_BASE
        self.dynamic_base = SHARED_BASE + round_up(size, alignment)
        for variable in dynamic:
            self.addresses[variable.name], self.spaces[variable.name] = self.dynamic_base, "shared"
        self.static_smem = size
        self.shared_end = self.dynamic_base + self.dynamic_smem if self.dynamic_smem else static_end

    def _initialise(self, variable: Variable, data: np.ndarray) -> None:
        for offset, size, value in variable.initial:
            if isinstance(value, Symbol):
                value = self.generic_address(value) if value.generic else self._plain_address(value, variable.line)
            data[offset : offset + size] = np.frombuffer((value & ((1 << 8 * size) - 1)).to_bytes(size, "little"), np.uint8)

    def _plain_address(self, symbol: Symbol, line: int) -> int:
        if symbol.name not in self.addresses:
            raise SimulationError("malformed", f"symbol `{symbol.name}` is not defined", line)
        return self.addresses[symbol.name] + symbol.offset

    def generic_address(self, symbol: Symbol) -> int:
        window = {"shared": SHARED_WINDOW, "const": CONST_WINDOW, "local": LOCAL_WINDOW, "param": PARAM_WINDOW}
        if symbol.name not in self.addresses:
            raise SimulationError("malformed", f"symbol `{symbol.name}` is not defined")
        return self.addresses[symbol.name] + symbol.offset + window.get(self.spaces[symbol.name], 0)

    def symbol_address(self, name: str, decoder: Decoder) -> int:
        if name not in self.addresses:
            decoder.fail(f"symbol `{name}` is not defined", "malformed")
        return self.addresses[name]

    # ---- slots

    def _new_slot(self, kind: str, value: object) -> int:
        self.extra.append((kind, value))
        self.slots += 1
        return self.slots - 1

    def constant_slot(self, bits: int, width: int) -> int:
        if (bits, width) not in self.constants:
            self.constants[bits, width] = self._new_slot("constant", constant_lanes(bits, width))
        return self.constants[bits, width]

    def symbol_slot(self, symbol: Symbol, width: int, decoder: Decoder) -> int:
        """Shared symbols carry the CTA's rank, so they are filled in per warp."""
        address = self.symbol_address(symbol.name, decoder) + symbol.offset
        if self.spaces[symbol.name] != "shared":
            return self.constant_slot(address & ((1 << width) - 1), width)
        return self._new_slot("shared", (address, width))

    def special_slot(self, name: str, decoder: Decoder) -> tuple[int, int]:
        from .specials import SPECIALS

        if name not in SPECIALS:
            decoder.fail(f"special register {name} is not known to the simulator")
        if name not in self.specials:
            self.specials[name] = self._new_slot("special", name)
        return self.specials[name], SPECIALS[name].bits

    def registers_for(self, warp_values) -> list:
        """The register list of a new warp; `warp_values(kind, value)` gives what depends on the warp."""
        return self.initial + [value if kind == "constant" else warp_values(kind, value) for kind, value in self.extra]

    # ---- code

    def target(self, name: str, item: Instruction) -> int:
        found = self.function.find(self.function.labels, item.scope, name)
        if found is None:
            raise SimulationError("malformed", f"label `{name}` is not defined", item.line)
        return found

    def targets(self, name: str, item: Instruction) -> list[int]:
        table = self.function.find(self.function.tables, item.scope, name)
        if table is None:
            raise SimulationError("malformed", f"branch table `{name}` is not defined", item.line)
        return [self.target(label, item) for label in table]

    def _decode(self) -> list[Step]:
        steps = []
        for item in self.function.instructions:
            guard, negated = (item.guard.register.index, item.guard.negated) if item.guard else (-1, False)
            branch = item.opcode.split(".")[0] == "bra"
            steps.append(Step(self._execute_or_fail(item), -1 if branch else guard, negated, item.line, item))
        from .instructions.control import end_of_kernel

        steps.append(Step(end_of_kernel, -1, False, 0, None))
        return steps

    def _execute_or_fail(self, item: Instruction):
        """Unsupported instructions fail when reached, everything else that is wrong fails now."""
        try:
            return decode(item, self)
        except SimulationError as error:
            if error.kind != "unsupported":
                raise error.located(item.line, self.source(item)) from None
            return partial(_unsupported, error.message)

    def _reconvergence(self) -> list[int]:
        count = len(self.function.instructions)
        successors = [self._successors(index, item) for index, item in enumerate(self.function.instructions)]
        points = reconvergence_points(successors)
        return [points.get(index, NOWHERE) for index in range(count + 1)]

    def _successors(self, index: int, item: Instruction) -> list[int]:
        root = item.opcode.split(".")[0]
        following = [index + 1] if item.guard or root not in ("bra", "brx", "trap", *_ENDING) else []
        if root == "bra":
            return [self.target(item.operands[0].name, item), *following]
        if root == "brx":
            return [*self.targets(item.operands[1].name, item), *following]
        if root in _ENDING and not item.guard:
            return [len(self.function.instructions)]
        return following

    def source(self, item: Instruction | None) -> SourceLocation | None:
        if item is None or item.location is None:
            return None
        file, line, column = item.location
        return SourceLocation(self.module.files.get(file, f"file {file}"), line, column)


def _unsupported(message: str, warp) -> None:
    raise SimulationError("unsupported", message)


def parameter_layout(function: Function) -> list[tuple[int, int]]:
    """(offset, size) of each kernel parameter."""
    layout, offset = [], 0
    for variable in function.parameters:
        offset = round_up(offset, max(1, variable.alignment))
        layout.append((offset, variable.size))
        offset += variable.size
    return layout
