"""A kernel placed in memory: the addresses of its symbols, the register slots of its operands."""

from __future__ import annotations

import functools
from collections.abc import Callable
from math import prod
from typing import Literal

import numpy as np

from pipec.blocked_waits import Names
from pipec.record import record

from ..errors import SimulationError, SourceLocation
from ..ptx.inline import with_calls_inlined
from ..ptx.specials import SPECIALS
from ..ptx.tree import Function, Immediate, Instruction, Module, Special, Symbol, Variable, VariableSpace
from ..ptx.types import LANES, TYPES, Bytes, LaneValues, unsigned
from ..units import limits
from ..units.alignment import round_up
from .guesses import guesses
from .memory.global_memory import GlobalMemory
from .memory.spaces import CODE_WINDOW, SHARED_BASE, WINDOWS
from .races.executions import Executions
from .registers import Layout, RegisterFile

# CUDA programming guide, technical specifications per compute capability.
_MAXIMUM_LOCAL = 512 << 10
_STACK = 64 << 10  # bytes per thread, in kernels that allocate any
# Loads and stores by the lanes of a warp, of which it keeps a record (`compiled.access`).
_LOADS, _STORES = frozenset({"ld", "ldu", "multimem"}), frozenset({"st"})
# Of which the ones with these qualifiers are strong, or may count as strong (`practice`).
_STRONG = frozenset({"relaxed", "acquire", "volatile", "cg", "cv", "lu"})
# Matrix loads and stores by a warp as a whole, whose lanes are not distinguished.
MATRICES = frozenset({"ldmatrix", "stmatrix"})


@record
class SharedAddress:
    """An address in shared memory, which contains the rank of the CTA and therefore differs between warps."""

    offset: int
    width: int


class Image:
    """`static_smem` and `dynamic_smem` are bytes of shared memory; `slots` counts the registers of a warp: those that the
    kernel declares, and those that hold constants, addresses and special registers."""

    def __init__(self, module: Module, function: Function, memory: GlobalMemory, dynamic_smem: int) -> None:
        self.module, self.function = module, with_calls_inlined(module, function)
        function = self.function
        self.metadata = module.metadata.get(function.name, {})
        self.dynamic_smem = dynamic_smem
        self.addresses: dict[str, int] = {}
        self.spaces: dict[str, VariableSpace | Literal["code"]] = {}
        self.constants: dict[tuple[int, int], int] = {}
        self.specials: dict[str, int] = {}
        self.slots = len(function.registers)
        self.spare: list[RegisterFile] = []  # of warps that have exited
        self.spare_executions: list[Executions] = []
        self.used_early: frozenset[int] = frozenset()  # registers used where a tcgen05.ld may still be loading them
        self.unset: dict[int, int] = {}  # registers that may be read before they are written, with the first instruction that may
        self.unlooped: frozenset[int] = frozenset()  # tests of mbarriers whose failure is not obviously answered by another test
        self.unset_sums: dict[int, frozenset[int]] = {}  # by wgmma, what it may add to before anything is written there
        self.granule = 4  # bytes of the smallest pieces of shared memory that CTAs have accessed
        self.extra: list[LaneValues | SharedAddress | Special] = []
        self.successors: list[list[int]] = []  # of each instruction, after decoding
        self.regions: dict[tuple[int, int], set[int]] = {}  # `threads.roles`, by branch and arm
        self._place(memory)
        self.names = Names(self.metadata, self.dynamic_base)
        self._who: dict[int, str] = {}

    @functools.cached_property
    def constant_loads(self) -> set[int]:
        """The loads, by program counter, that go through the cache for constant data."""
        return {pc for pc, item in enumerate(self.function.instructions) if item.root == "ld" and ".nc" in item.opcode}

    @functools.cached_property
    def guesses(self) -> frozenset[int]:
        return guesses(self.function.instructions)

    @functools.cached_property
    def shuffles(self) -> bool:
        return any(item.root == "shfl" for item in self.function.instructions)

    @functools.cached_property
    def strong_loads(self) -> bool:
        """Whether any load may be a strong one."""
        return any(item.root == "ld" and _STRONG.intersection(item.opcode.split(".")) for item in self.function.instructions)

    @functools.cached_property
    def launch_registers(self) -> int | None:
        """Registers per thread at the start of a CTA, as ptxas 13.0 compiles a kernel with setmaxnreg: as many as `.maxnreg` or the launch
        bounds allow, but no more than it asks for anywhere. None: neither is given, and ptxas ignores setmaxnreg ("unable to determine
        register count at entry")."""
        directives = self.function.directives
        threads = directives.get("reqntid") or directives.get("maxntid")
        if "maxnreg" in directives:
            allowed = directives["maxnreg"][0]
        elif threads is not None and "minnctapersm" in directives:
            (resident,) = directives["minnctapersm"]
            each = limits.REGISTERS // (round_up(prod(threads), LANES) * max(1, resident))
            allowed = min(limits.MOST_REGISTERS, each // limits.REGISTER_STEP * limits.REGISTER_STEP)
        else:
            return None
        asked = [item.operands[0] for item in self.function.instructions if item.opcode.startswith("setmaxnreg.inc")]
        counts = [one.value for one in asked if isinstance(one, Immediate)]
        return min(allowed, max(counts)) if counts else allowed

    # ---- addresses

    def _place(self, memory: GlobalMemory) -> None:
        named = [*self.module.variables, *self.function.variables]
        variables = [v for v in named if not v.external or v.space == "shared"]
        self._elsewhere = {v.name for v in named} - {v.name for v in variables}
        for number, name in enumerate(self.module.functions):
            self.addresses[name], self.spaces[name] = CODE_WINDOW + 16 * number, "code"
        self._consecutive(self.function.parameters, 0)
        self._shared([v for v in variables if v.space == "shared"])
        local = [v for v in variables if v.space == "local"]
        # Every thread's part begins at the largest alignment of any variable.
        self.local_bytes = round_up(self._end(self._consecutive(local, 0)), max([16, *(v.alignment for v in local)]))
        # The stack follows the variables.
        self.stack = self.local_bytes
        if any(item.root == "alloca" for item in self.function.instructions):
            self.local_bytes += _STACK
        if self.local_bytes > _MAXIMUM_LOCAL:
            raise SimulationError("argument", f"{self.local_bytes} bytes of local memory per thread, at most {_MAXIMUM_LOCAL}")
        constants = [v for v in variables if v.space == "const"]
        self.constant_data = np.zeros(self._end(self._consecutive(constants, 0)), np.uint8)
        self._global = [v for v in variables if v.space == "global" and v.size]
        self.place_globals(memory)
        for variable in constants:
            self._initialise(variable, self.constant_data[self.addresses[variable.name] :])

    def place_globals(self, memory: GlobalMemory) -> None:
        """Places the global variables in the memory of a launch; they get the same addresses in every memory with the same preceding
        allocations."""
        placed = [memory.add(np.zeros(one.size, np.uint8), True, f"variable {one.name}") for one in self._global]
        for variable, allocation in zip(self._global, placed, strict=True):
            self.addresses[variable.name], self.spaces[variable.name] = allocation.base, "global"
        for variable, allocation in zip(self._global, placed, strict=True):
            self._initialise(variable, allocation.data)

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
        """Static data from 0x400, followed by dynamic data as measured (SM100 notes 12.1: base of dynamic smem)."""
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

    def _initialise(self, variable: Variable, data: Bytes) -> None:
        for offset, size, value in variable.initial:
            if isinstance(value, Symbol):
                value = self.generic_address(value) if value.generic else self._plain_address(value, variable.line)
            data[offset : offset + size] = np.frombuffer((value & ((1 << 8 * size) - 1)).to_bytes(size, "little"), np.uint8)

    def _plain_address(self, symbol: Symbol, line: int) -> int:
        if symbol.name not in self.addresses:
            raise SimulationError("malformed", self.undefined(symbol.name), line)
        return self.addresses[symbol.name] + symbol.offset

    def undefined(self, name: str) -> str:
        """Why a symbol has no address."""
        where = "declared `.extern`, and defined nowhere in this module" if name in self._elsewhere else "not defined"
        return f"symbol `{name}` is {where}"

    def generic_address(self, symbol: Symbol) -> int:
        if symbol.name not in self.addresses:
            raise SimulationError("malformed", self.undefined(symbol.name))
        space = self.spaces[symbol.name]
        # Addresses of code and of global memory are generic addresses already.
        window = 0 if space == "code" or space == "reg" else WINDOWS[space]
        return self.addresses[symbol.name] + symbol.offset + window

    # ---- slots

    def _new_slot(self, content: LaneValues | SharedAddress | Special) -> int:
        self.extra.append(content)
        self.slots += 1
        return self.slots - 1

    def constant_slot(self, bits: int, width: int) -> int:
        if (bits, width) not in self.constants:
            self.constants[bits, width] = self._new_slot(constant_lanes(bits, width))
        return self.constants[bits, width]

    def symbol_slot(self, symbol: Symbol, width: int) -> int:
        """The slot of a symbol that has an address."""
        address = self.addresses[symbol.name] + symbol.offset
        if self.spaces[symbol.name] != "shared":
            return self.constant_slot(address & ((1 << width) - 1), width)
        return self._new_slot(SharedAddress(address, width))

    def special_slot(self, special: Special) -> int:
        """The slot of a supported special register."""
        if special.name not in self.specials:
            self.specials[special.name] = self._new_slot(special)
        return self.specials[special.name]

    @functools.cached_property
    def waits_for_stores(self) -> bool:
        """Whether the kernel contains a wait for bulk stores."""
        return any(item.opcode.startswith("cp.async.bulk.wait_group") for item in self.function.instructions)

    @functools.cached_property
    def copies_tensors(self) -> bool:
        """Whether the kernel contains a tensor copy."""
        return any(item.opcode.startswith("cp.async.bulk.tensor") for item in self.function.instructions)

    @functools.cached_property
    def accesses(self) -> dict[int, int]:
        """The loads and stores, numbered, by program counter: loads, then stores, then matrix loads and stores."""
        items = list(enumerate(self.function.instructions))
        places = [[pc for pc, item in items if item.root in roots] for roots in (_LOADS, _STORES, MATRICES)]
        return {pc: number for number, pc in enumerate(pc for one in places for pc in one)}

    @functools.cached_property
    def load_count(self) -> int:
        return self._count(_LOADS)

    @functools.cached_property
    def store_count(self) -> int:
        return self._count(_STORES)

    def _count(self, roots: frozenset[str]) -> int:
        return sum(self.function.instructions[pc].root in roots for pc in self.accesses)

    @functools.cached_property
    def branches(self) -> dict[int, int]:
        """The forward branches, numbered, by program counter: the directions that a warp takes reveal its role."""
        ahead = [pc for pc, targets in enumerate(self.successors) if any(target > pc + 1 for target in targets)]
        return {pc: number for number, pc in enumerate(ahead)}

    def executions(self) -> Executions:
        """A new warp's record of its loads and stores."""
        if not self.spare_executions:
            return Executions(self.accesses, self.load_count, self.load_count + self.store_count)
        found = self.spare_executions.pop()
        found.clear()
        return found

    @functools.cached_property
    def layout(self) -> Layout:
        """The layout of a warp's registers, after all instructions are decoded."""
        extra = [_width(one) for one in self.extra]
        return Layout([*(TYPES[register.type].bits for register in self.function.registers), *extra])

    @functools.cached_property
    def _template(self) -> RegisterFile:
        """The initial registers of all warps."""
        made = RegisterFile(self.layout)
        for row, one in zip(made.rows[len(self.function.registers) :], self.extra, strict=True):
            if isinstance(one, np.ndarray):
                row[...] = one
        return made

    def register_file(self) -> RegisterFile:
        """The unmodified register file of a warp that has exited, or a new one."""
        return self.spare.pop() if self.spare else RegisterFile(self.layout)

    def who(self, warp: int) -> str:
        """`blocked.Names.who`, cached for each warp of a CTA."""
        found = self._who.get(warp)
        if found is None:
            found = self._who[warp] = self.names.who(warp)
        return found

    @functools.cached_property
    def places_in_grid(self) -> list[tuple[int, str]]:
        """The special registers that distinguish clusters, by their slots."""
        named = (
            (slot, one.name) for slot, one in enumerate(self.extra, len(self.function.registers)) if isinstance(one, Special)
        )
        return [(slot, name) for slot, name in named if name.startswith(("%ctaid.", "%clusterid."))]

    def registers_for(self, of_warp: Callable[[SharedAddress | Special], LaneValues]) -> RegisterFile:
        """The registers of a new warp; `of_warp` gives the warp-dependent values."""
        made = self.register_file()
        # Overwrites what the previous warp has left.
        made.data[:] = self._template.data
        for slot, one in enumerate(self.extra, len(self.function.registers)):
            if not isinstance(one, np.ndarray):
                made.rows[slot][...] = of_warp(one)
        return made

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

    def item(self, pc: int) -> Instruction | None:
        """The instruction at `pc`; None past the last one."""
        items = self.function.instructions
        return items[pc] if pc < len(items) else None

    def source(self, item: Instruction | None) -> SourceLocation | None:
        if item is None or item.location is None:
            return None
        file, line, column = item.location
        return SourceLocation(self.module.files.get(file, f"file {file}"), line, column)


def parameter_layout(function: Function) -> list[tuple[int, int]]:
    """(offset, size) of each kernel parameter."""
    layout, offset = [], 0
    for variable in function.parameters:
        offset = round_up(offset, max(1, variable.alignment))
        layout.append((offset, variable.size))
        offset += variable.size
    return layout


def constant_lanes(bits: int, width: int) -> LaneValues:
    """A register with the bit pattern `bits` in every lane."""
    if width == 128:
        half = (1 << 64) - 1
        return np.tile(np.array([bits & half, bits >> 64], np.uint64), (LANES, 1))
    return np.full(LANES, bits, unsigned(width).dtype)


def _width(content: LaneValues | SharedAddress | Special) -> int:
    """Width of the register that holds it."""
    if isinstance(content, SharedAddress):
        return content.width
    if isinstance(content, Special):
        return SPECIALS[content.name].bits
    return 128 if content.ndim == 2 else 1 if content.dtype == np.bool_ else 8 * content.dtype.itemsize
