"""The code between two places of a PTX kernel: matrix products, stores, other instructions. Read from the text; nothing is executed.

Only what affects time is read: shapes of products from opcodes (wgmma) and from constant instruction descriptors (tcgen05.mma); bytes of
stores; counts of everything else. Loops without barriers count as often as constants in the text say, and once if none do.
"""

import re
from collections.abc import Callable
from functools import cached_property
from math import inf

from pipec.predict.ptx.accesses import access_bytes
from pipec.predict.ptx.loops import Cost, Line, Loop, costliest, loops, reached, times
from pipec.predict.ptx.products import Unknown, copied_scales, is_tcgen05_product, tcgen05_product, wgmma_product
from pipec.predict.work import Instructions, Slots
from pipec.record import record

_LABEL = re.compile(r"^\s*([\w$]+):(?!:)")
_INSTRUCTION = re.compile(r"^\s*(?:(@!?%?\w+)\s+)?([a-z][\w.:]*)\s*(.*)$", re.DOTALL)
_CONSTANT = re.compile(r"mov\.\w+\s+(%\w+)\s*,\s*(\d+)\s*$")
_SPECIAL = ("ex2", "lg2", "rcp", "rsqrt", "sqrt", "sin", "cos", "tanh", "div")
_FREE = frozenset(("mov", "bra"))  # in SASS loop-carried values stay in their registers, and branches are issued in parallel
_TO_GLOBAL = ("st.global", "red.global")
_FROM_GLOBAL = ("ld.global", "ld.relaxed.gpu.global", "ld.volatile.global")
_FROM_OTHERS = ("ld.shared::cluster", "ld.weak.shared::cluster")
_PACKED = re.compile(r"x([24])\b")
_REGISTERS = re.compile(r"%\w+")
_FETCH = re.compile(r"cp\.async\.c[ag]\.shared")
_BULK = ("cp.async.bulk", "cp.reduce.async.bulk")
_WARPGROUP = 128


class Unclear(Exception):
    """Something that affects time cannot be determined from the text; says what, and in which line."""

    def __init__(self, line: int, what: str) -> None:
        super().__init__(what)
        self.line, self.what = line, what


@record
class Multiply:
    """One matrix product of all threads of the process together."""

    instructions: Instructions
    late: bool  # wgmma: waited for by groups


@record
class Fetch:
    """Bytes that all threads of the process together copy to shared memory by `cp.async`; waited for by groups."""

    size: float


@record
class Group:
    """`commit`: the products so far, or the `fetches`, form a group. Otherwise a wait for all but the last `pending` groups."""

    commit: bool
    pending: int = 0
    fetches: bool = False


@record
class Stretch:
    """What one thread does between two places: `asked`, products and copies in order; by all threads together, bytes `loaded` from global
    memory into registers, elements `stored` there, and bytes read from other CTAs (`remote`)."""

    slots: Slots
    loaded: float
    stored: float
    remote: float
    asked: tuple[Multiply | Fetch | Group, ...]


_NO_SLOTS = Slots(0.0, 0.0)


@record
class _Done:
    """By one instruction; `staged` elements are written to shared memory, and `leaves`: what was staged goes to global memory."""

    slots: Slots = _NO_SLOTS
    loaded: float = 0.0
    stored: float = 0.0
    staged: float = 0.0
    remote: float = 0.0
    leaves: bool = False
    asked: tuple[Multiply | Fetch | Group, ...] = ()
    groups: bool = False


def _cost(done: list[_Done], often: int) -> Cost:
    moved = sum(one.loaded + one.stored + one.staged + one.remote for one in done)
    return Cost(
        sum(len(one.asked) for one in done) * often,
        moved * often,
        sum(one.slots.plain + one.slots.special for one in done) * often,
    )


class Code:
    """The text of one kernel; places are line numbers, from 1."""

    def __init__(self, text: str, name: str, threads: int) -> None:
        self._lines = text.split("\n")
        self._threads = threads
        self._first = next(
            (at for at, line in enumerate(self._lines, 1) if re.search(rf"\.entry\s+{re.escape(name)}\b", line)), 1
        )
        self._last = next(
            (at for at in range(self._first, len(self._lines) + 1) if self._lines[at - 1].startswith("}")), len(self._lines)
        )

    @property
    def registers(self) -> int:
        """The maximum number of registers of a thread at the start, as stated by the entry; 0 if it is not stated."""
        match = re.search(r"\.maxnreg\s+(\d+)", self._head)
        return int(match[1]) if match else 0

    @property
    def cluster(self) -> tuple[int, int, int]:
        """CTAs of a cluster along x, y and z."""
        match = re.search(r"\.reqnctapercluster\s+(\d+)(?:\s*,\s*(\d+))?(?:\s*,\s*(\d+))?", self._head)
        x, y, z = (int(extent or 1) for extent in match.groups()) if match else (1, 1, 1)
        return x, y, z

    @cached_property
    def tensor_columns(self) -> int:
        """Columns of tensor memory that a CTA allocates: each `tcgen05.alloc` counts that asks for a constant number, as all do that do
        not choose among several."""
        every = [one for instructions in self._parsed.values() for one in instructions]
        constants = {match[1]: int(match[2]) for one in every if (match := _CONSTANT.match(f"{one.opcode} {one.operands}"))}
        asked = [one.operands.rpartition(",")[2].strip() for one in every if one.opcode.startswith("tcgen05.alloc.")]
        return sum(int(one) if one.isdecimal() else constants.get(one, 0) for one in asked)

    @cached_property
    def in_registers(self) -> bool:
        """Whether warpgroups multiply in registers."""
        return self._has("wgmma.")

    @cached_property
    def overlaps(self) -> bool:
        """Whether it may start before the preceding grids have ended."""
        return self._has("griddepcontrol.wait")

    def _has(self, operation: str) -> bool:
        return any(one.opcode.startswith(operation) for instructions in self._parsed.values() for one in instructions)

    @property
    def _head(self) -> str:
        """The text before the body."""
        return "\n".join(self._lines[self._first - 1 : self._last]).partition("\n{")[0]

    @cached_property
    def _parsed(self) -> dict[int, list[Line]]:
        found: dict[int, list[Line]] = {}
        for at in range(self._first, self._last + 1):
            line = _LABEL.sub("", self._lines[at - 1].partition("//")[0])
            parts = [_INSTRUCTION.match(part.strip(" \t{}")) for part in line.split(";")]
            found[at] = [Line((part[1] or "").removeprefix("@"), part[2], part[3]) for part in parts if part is not None]
        return found

    @cached_property
    def _labels(self) -> dict[str, int]:
        places = ((at, _LABEL.match(self._lines[at - 1])) for at in range(self._first, self._last + 1))
        return {match[1]: at for at, match in places if match is not None}

    @cached_property
    def _next(self) -> dict[int, tuple[int, ...]]:
        """Line -> its possible successors."""
        found = {}
        for at, instructions in self._parsed.items():
            after: list[int] = []
            falls = at < self._last
            for one in instructions:
                operation = one.opcode.partition(".")[0]
                if operation == "bra" and one.operands.strip() in self._labels:
                    after.append(self._labels[one.operands.strip()])
                if operation in ("bra", "ret", "exit", "trap") and not one.guard:
                    falls = False
            found[at] = (*after, *([at + 1] if falls else []))
        return found

    def opcodes(self, line: int) -> str:
        return " ".join(one.opcode for one in self._parsed.get(line, ()))

    def between(self, start: int, end: int, places: frozenset[int], threads: int) -> Stretch:
        """After line `start` and before `end`, not passing through another of `places`; of a branch the costlier side counts. `threads`
        execute it."""
        way = self._on_the_way(start, end, places)
        inner = [loop for loop in self._loops if loop.lines <= way]
        done = {line: [self._done(line, one, threads) for one in self._parsed[line]] for line in way}
        costs = {line: _cost(done[line], times(line, inner)) for line in way}
        path = costliest(start, way, self._next, self._before, costs)
        parts = [(one, times(line, inner)) for line in path for one in done[line]]
        slots = _NO_SLOTS
        for one, often in parts:
            slots = slots.and_also(one.slots, often)
        # The size of a bulk store is in its tensor map or a register; it equals what was written to shared memory for it.
        leaves = any(one.leaves for one, _ in parts)
        return Stretch(
            slots,
            sum(one.loaded * often for one, often in parts),
            sum((one.stored + one.staged * leaves) * often for one, often in parts),
            sum(one.remote * often for one, often in parts),
            tuple(request for one, often in parts for request in one.asked * (1 if one.groups else often)),
        )

    def _done(self, line: int, one: Line, threads: int) -> _Done:
        request = self._product(line, one, threads) or _fetch(line, one, threads)
        if request is not None:
            return _Done(asked=(request,), groups=isinstance(request, Group))
        operation = one.opcode.partition(".")[0]
        special = float(operation in _SPECIAL)
        plain = 1 - special if operation not in _FREE else 0.0
        return _Done(
            slots=Slots(plain, special),
            loaded=access_bytes(one.opcode) * threads if one.opcode.startswith(_FROM_GLOBAL) else 0.0,
            stored=self._elements(one) * threads if one.opcode.startswith(_TO_GLOBAL) else 0.0,
            staged=self._elements(one) * threads if one.opcode.startswith("st.shared") else 0.0,
            remote=access_bytes(one.opcode) * threads if self._from_others(one) else 0.0,
            leaves=one.opcode.startswith(_BULK) and ".global.shared" in one.opcode,
        )

    def _elements(self, store: Line) -> float:
        """How many one thread stores: as many as were packed into its registers, otherwise one for each of them, or for each 32 bits."""
        registers = _REGISTERS.findall(store.operands.rpartition("]")[2])
        packed = [self._packed(register) for register in registers]
        return sum(packed) if packed and all(packed) else max(access_bytes(store.opcode) / 4, len(registers))

    def _packed(self, register: str, depth: int = 3) -> int:
        """Elements that an instruction has packed into a register; 0 if none did."""
        definitions = self._definitions.get(register, [])
        if len(definitions) != 1 or depth == 0:
            return 0
        (one,) = definitions
        if (match := _PACKED.search(one.opcode)) is not None:
            return int(match[1])
        parts = _REGISTERS.findall(one.operands.partition(",")[2]) if one.opcode.startswith("mov.") else []
        packed = [self._packed(part, depth - 1) for part in parts]
        return sum(packed) if packed and all(packed) else 0

    def _from_others(self, one: Line) -> bool:
        """Whether it reads the shared memory of another CTA than the first of the cluster, which is the one that is followed."""
        if not one.opcode.startswith(_FROM_OTHERS):
            return False
        address = one.operands.rpartition("[")[2].partition("]")[0].partition("+")[0].strip()
        return self._ranks(address) != {"0"}

    def _ranks(self, register: str, depth: int = 12) -> set[str]:
        """Operands of `mapa` that an address is computed from."""
        found: set[str] = set()
        for one in self._definitions.get(register, []) if depth else []:
            if one.opcode.startswith("mapa."):
                found.add(one.parts[-1])
            else:
                found = found.union(*(self._ranks(part, depth - 1) for part in one.parts[1:]))
        return found

    @cached_property
    def reads_from_others(self) -> bool:
        """Whether threads read the shared memory of other CTAs, so that none may end before all have read."""
        return any(self._from_others(one) for instructions in self._parsed.values() for one in instructions)

    @cached_property
    def _loops(self) -> tuple[Loop, ...]:
        return loops(self._parsed, self._next, self._before, self._labels, self._definitions)

    def _on_the_way(self, start: int, end: int, places: frozenset[int]) -> set[int]:
        forward = reached(self._next.get(start, ()), self._next, places)
        backward = reached(self._before.get(end, ()), self._before, places)
        return forward & backward

    @cached_property
    def _before(self) -> dict[int, tuple[int, ...]]:
        found: dict[int, tuple[int, ...]] = {}
        for line, after in self._next.items():
            for other in after:
                found[other] = (*found.get(other, ()), line)
        return found

    # -------------------------------------------------------------------------------------------------------- products

    def _product(self, line: int, one: Line, threads: int) -> Multiply | Group | None:
        if one.opcode.startswith("wgmma."):
            if one.opcode.startswith("wgmma.commit_group"):
                return Group(commit=True)
            if one.opcode.startswith("wgmma.wait_group"):
                return Group(commit=False, pending=int(one.operands))
            if not one.opcode.startswith("wgmma.mma"):
                return None
            near = one.operands.count("{") > 1
            return Multiply(_known(line, wgmma_product, one.opcode, near, max(1, threads // _WARPGROUP)), late=True)
        if one.opcode.startswith(("mma.", "wmma.mma")):
            raise Unclear(line, f"what `{one.opcode}` takes is not on record")
        copied = copied_scales(one.opcode)
        if copied is not None:
            return Multiply(copied, late=False)
        return self._tcgen05(line, one) if is_tcgen05_product(one.opcode) else None

    def _tcgen05(self, line: int, one: Line) -> Multiply:
        operands = [operand.strip() for operand in one.operands.split(",")]
        least, most = self._range(operands[3])
        if least != most:
            raise Unclear(line, f"the instruction descriptor `{operands[3]}` is worked out at run time")
        return Multiply(_known(line, tcgen05_product, one.opcode, int(least), "[" in operands[1]), late=False)

    def _range(self, operand: str, depth: int = 12) -> tuple[float, float]:
        """Bounds of an operand, if few instructions determine them."""
        if re.fullmatch(r"-?\d+|0x[0-9a-fA-F]+", operand):
            return int(operand, 0), int(operand, 0)
        if operand.startswith("%tid"):
            return 0, self._threads - 1
        definitions = self._definitions.get(operand, [])
        if len(definitions) != 1 or depth == 0:
            return -inf, inf
        one = definitions[0]
        sources = [self._range(source.strip().split("|")[0], depth - 1) for source in one.operands.split(",")[1:]]
        return _folded(one.opcode.partition(".")[0], sources)

    @cached_property
    def _definitions(self) -> dict[str, list[Line]]:
        found: dict[str, list[Line]] = {}
        for instructions in self._parsed.values():
            for one in instructions:
                target = one.operands.partition(",")[0].split("|")[0].strip()
                found.setdefault(target, []).append(one)
        return found


def _known(line: int, find: Callable[..., Instructions], *given: object) -> Instructions:
    try:
        return find(*given)
    except Unknown as unknown:
        raise Unclear(line, unknown.what) from None


def _folded(operation: str, sources: list[tuple[float, float]]) -> tuple[float, float]:
    if not sources:
        return -inf, inf
    (low, high), second = sources[0], sources[1] if len(sources) > 1 else (0.0, 0.0)
    match operation:
        case "mov" | "shfl" | "cvt":
            return low, high
        case "add":
            return low + second[0], high + second[1]
        case "shr" if low >= 0 and high < inf and second[0] == second[1]:
            return int(low) >> int(second[0]), int(high) >> int(second[0])
        case "shl" if low >= 0 and high < inf and second[0] == second[1]:
            return int(low) << int(second[0]), int(high) << int(second[0])
        case "or" if low == high and second[0] == second[1] and inf not in (high, second[1]):
            return int(low) | int(second[0]), int(low) | int(second[0])
        case _:
            return -inf, inf


def _fetch(line: int, one: Line, threads: int) -> Fetch | Group | None:
    if one.opcode.startswith("cp.async.commit_group"):
        return Group(commit=True, fetches=True)
    if one.opcode.startswith(("cp.async.wait_group", "cp.async.wait_all")):
        return Group(commit=False, pending=int(one.operands or 0), fetches=True)
    if _FETCH.match(one.opcode) is None:
        return None
    size = one.operands.rsplit("]", 1)[-1].split(",")[1].strip() if "," in one.operands.rsplit("]", 1)[-1] else ""
    if not size.isdecimal():
        raise Unclear(line, f"how much `{one.opcode}` copies is worked out at run time")
    return Fetch(float(int(size) * threads))
