"""Which tensors a kernel writes: loads from other tensors always return the same value.

A tensor has several parameters: a pointer, tensor maps. The interface relates them, and the launcher ensures that a written tensor
shares memory with no other.
"""

from collections.abc import Collection, Iterable, Mapping
from functools import cached_property

from pipec.verify.reader.text.instructions import Instruction
from pipec.verify.reader.text.lexical import integer
from pipec.verify.reader.text.statements import Kernel, address, registers

# Discarded memory has unspecified contents.
_STORES = (
    *("st.", "red.", "atom.", "multimem.", "wmma.store.", "sust.", "sured.", "discard."),
    *("cp.async.bulk", "cp.reduce.async.bulk"),
)


# What these leave in a register comes from memory (that of a product or of tensor memory from what was copied there).
_READING = (
    *("ld.", "ldu.", "atom.", "tex.", "tld4.", "suld.", "multimem.ld_reduce.", "ldmatrix.", "wmma.load.", "wgmma.mma_async."),
    "tcgen05.ld.",
)


def _stores(opcode: str) -> bool:
    """Whether it may write global memory."""
    if not opcode.startswith(_STORES) or "shared::cluster.global" in opcode or "shared::cta.global" in opcode:
        return False
    return ".shared" not in opcode and ".local" not in opcode or ".global" in opcode


class Writes:
    """The parameters from which addresses of stores are derived, computed on demand. `tensors`: the tensor of a parameter, empty if it
    has none."""

    def __init__(self, kernel: Kernel, tensors: Mapping[str, str]) -> None:
        self.kernel = kernel
        self.tensors = tensors
        self._sources = _Sources(kernel)
        self._written: frozenset[str] | None = None

    def spares(self, parameter: str) -> bool:
        """Whether no store goes to the tensor of the parameter, as far as is known (and none to a loaded address)."""
        if self._written is None:
            self._written = self._search()
        return self._apart(parameter, self._written)

    def only_at(self, parameter: str, numbers: set[int]) -> bool:
        """Whether only these instructions store to the tensor of the parameter."""
        return self._apart(parameter, self._search(numbers))

    def _apart(self, parameter: str, written: Collection[str]) -> bool:
        mine = self.tensors.get(parameter)
        theirs = {self.tensors.get(one) for one in written}
        return parameter not in written and all(tensor == "" or tensor and mine and tensor != mine for tensor in theirs)

    def _search(self, except_at: Collection[int] = ()) -> frozenset[str]:
        """Parameters that flow into the address of a store; "" if an address may come from elsewhere, and lead anywhere."""
        sources, code = self._sources, self.kernel.code
        storing = {opcode for opcode in {*code.opcodes} if _stores(opcode)}
        addresses: dict[tuple[str, ...], None] = {}
        others: list[str] = []
        for at, opcode in enumerate(code.opcodes):
            if opcode in storing and at not in except_at and (where := _addressed(code[at])):
                addresses[tuple(registers(where))] = None
                others += registers(code[at].operands[-1]) if "bulk" in opcode else []
        written = [_closure(names, sources) for names in addresses]
        reached = frozenset(
            name for one in (*written, _closure(others, sources)) for name in one if name in self.kernel.parameters or not name
        )
        anywhere = any(self._from_memory(one) or not self._based(one) for one in written)
        return reached | {""} if anywhere else reached

    def _based(self, written: set[str]) -> bool:
        """Whether an address is made of that of a tensor, or of a variable in shared memory. (A number belongs to none.)"""
        return any(
            name in self.kernel.shared or name in self.kernel.parameters and self.tensors.get(name) != "" for name in written
        )

    def _from_memory(self, written: set[str]) -> bool:
        """Whether an address may have been assembled from loaded parts: if no parameter contributes to it, or if loaded numbers are
        concatenated."""
        if _MEMORY not in written:
            return False
        based = any(self.kernel.parameters.get(name, "")[1:] in ("64", "8") for name in written)  # a pointer, a tensor map
        return not based or any(_MEMORY in _closure([name], self._sources) for name in written & self._sources.packed)


class _Sources(dict[str, set[str]]):
    """From which registers, parameters and variables a register is computed; of those only that addresses are made of. `packed`: those
    that may have been concatenated."""

    def __init__(self, kernel: Kernel) -> None:
        super().__init__()
        self.kernel = kernel
        self.packed = set[str]()

    @cached_property
    def definitions(self) -> dict[str, list[int]]:
        found: dict[str, list[int]] = {}
        for at in range(len(self.kernel.code)):
            for name in self.kernel.code.first(at):
                found.setdefault(name, []).append(at)
        return found

    @cached_property
    def whole(self) -> set[str]:
        return _used_whole(self.kernel)

    def __missing__(self, name: str) -> set[str]:
        made = self[name] = set[str]()
        for one in map(self.kernel.code.__getitem__, self.definitions.get(name, ())):
            made.update(self._read(one))
            if _packs(one):
                self.packed.add(name)
        return made

    def _read(self, one: Instruction) -> list[str]:
        if one.opcode.startswith(_READING) and "param" not in one.parts:
            # A loaded number is not an address unless it is as wide as one, and used as such.
            narrow = one.parts[-1].lstrip("busf") in _NARROW or self.whole.isdisjoint(one.first)
            return [_MEMORY] if narrow else [_MEMORY, ""]
        found = registers(one.text)
        return [*found, ""] if one.opcode.startswith("ld.") and not _loads_one(one, self.kernel) else found


def _addressed(one: Instruction) -> str:
    """The operand with the address of a store, if it has one. (In front of it there may be a result, which may be discarded.)"""
    return next((text for text in one.operands if text[:1] == "["), "")


def _loads_one(one: Instruction, kernel: Kernel) -> bool:
    """Whether a load reads the parameter that it names, and not one behind it."""
    name, offset = address(one.operands[1], one.line)
    return name in kernel.parameters and not offset and len(one.first) == 1


_NARROW = frozenset({"8", "16", "32", "16x2"})  # numbers of bits, after the letter of a type
_MEMORY = "[]"  # represents loaded values among register names


def _used_whole(kernel: Kernel) -> set[str]:
    """The registers of which some instruction reads more than a part of at most 32 bits, or a comparison."""
    return {
        name
        for one in kernel.code
        if not (one.head == "setp" or one.head == "cvt" and one.parts[1].lstrip("bus") in _NARROW)
        for name in registers(one.text.partition(",")[2] if one.operands and one.operands[0] in one.first else one.text)
    }


def _packs(one: Instruction) -> bool:
    """Whether it may concatenate halves to a 64-bit number."""
    if one.parts[-1][1:] != "64":
        return False
    if one.head == "mov":
        return "{" in one.text.partition(",")[2]
    return one.head == "bfi" or one.head in ("or", "xor") and all(integer(text) is None for text in one.operands[1:])


def _closure(names: Iterable[str], sources: Mapping[str, set[str]]) -> set[str]:
    """All registers and parameters from which those registers are computed."""
    seen: set[str] = set()
    work = list(names)
    while work:
        name = work.pop()
        if name not in seen:
            seen.add(name)
            work += sources[name]
    return seen
