"""Ordinary accesses to the memory of barriers, which are undefined between `mbarrier.init` and `mbarrier.inval` (PTX ISA, mbarrier), and
stores over an address of tensor memory that is still to be read.

Only addresses that are the same in all threads and at all times are looked at: those of variables, and numbers of bytes behind them.
Memory is assumed to be used as declared elsewhere (docs/proof.md).
"""

import re
from collections.abc import Collection, Mapping

from pipec.verify.network import Unreadable
from pipec.verify.reader.flow.graph import EXIT, Graph
from pipec.verify.reader.text.instructions import Instruction
from pipec.verify.reader.text.lexical import integer
from pipec.verify.reader.text.opcodes import Kind

# What makes a constant address of another one: the result, the source, and what is added.
_PASSED = re.compile(
    r"\b(?:mov\.[bus](?:32|64)|cvta(?:\.to)?\.shared(?:::cta)?\.u64|cvt\.u64\.u32|cvt\.u32\.u64|add\.[bus](?:32|64))\s+"
    r"([%$\w]+)\s*,\s*([%$\w]+)\s*(?:,\s*(-?\w+)\s*)?;"
)
_ACCESSES = re.compile(
    r"(?<![\w.])((?:ld|st|red|atom|ldmatrix|stmatrix|cp(?!\.async\.mbarrier\.))\.[\w.:]+)(\s[^;\[]{0,99}+\[\s*([%$\w]+)\s*(?:\+\s*(-?\w+)\s*)?\])"
)
_TYPE = re.compile(r"\.[a-z]+(\d+)(x2)?\Z")
_VECTOR = re.compile(r"\.v(\d)")
_OTHERWISE = 16  # bytes that matrices and copies take at least
# Of a place for an address of tensor memory: the instruction that asks for the memory, and those that load the address.
Slot = tuple[int, Collection[int]]


_MEETING = frozenset({Kind.SYNC, Kind.VOTE, Kind.TRY, Kind.CLUSTER_WAIT})


def check_overwritten(
    graph: Graph, barriers: Mapping[int, int], slots: Mapping[int, Slot], copied: Mapping[tuple[int, int], int]
) -> None:
    """`barriers`: their addresses, with the instruction that initialises each; `slots`: the places of addresses of tensor memory; `copied`:
    the bytes of copies, by where they go and the instruction. Raises Unreadable."""
    kernel = graph.kernel
    if Kind.GIVE_UP in graph.notable.values():
        barriers = {}
    if not barriers and not slots:
        return
    for (first, number), size in copied.items() if slots else ():
        for place, slot in slots.items():
            if first < place + 4 and place < first + size:
                _refuse_over(graph, slot, graph.code[number])
    held = dict(kernel.shared)
    for name, source, by in _PASSED.findall(kernel.body):
        if source in held and name not in held:
            held[name] = held[source] + (integer(by) or 0 if by else 0)
    for opcode, text, name, offset in _ACCESSES.findall(kernel.body):
        if name not in held or name not in kernel.shared and len(graph.definitions(name)) != 1:
            continue
        first = held[name] + (integer(offset) or 0 if offset else 0)
        for place in range(first - first % 8, first + _bytes(opcode), 8):
            if place in barriers:
                _refuse_behind(graph, barriers[place], opcode, text)
        for place, slot in slots.items():
            if first < place + 4 and place < first + _bytes(opcode) and not opcode.startswith(("ld", "cp.async.bulk.prefetch")):
                for one in _written_so(graph, opcode, text):
                    _refuse_over(graph, slot, one)


def _bytes(opcode: str) -> int:
    kind, vector = _TYPE.search(opcode), _VECTOR.search(opcode)
    if kind is None or opcode.startswith(("ldmatrix", "stmatrix", "cp")):
        return _OTHERWISE
    return int(kind[1]) * (2 if kind[2] else 1) * (int(vector[1]) if vector else 1) // 8


def _refuse_behind(graph: Graph, start: int, opcode: str, text: str) -> None:
    """Where such an access comes behind the initialisation."""
    for one in _written_so(graph, opcode, text):
        if graph.comes_to(one.number, start):
            raise Unreadable(one.line, f"{opcode} at the place of a barrier is not understood")


def _written_so(graph: Graph, opcode: str, text: str) -> list[Instruction]:
    return [one for one in graph.code if one.opcode == opcode and one.text.startswith(text.strip())]


def _refuse_over(graph: Graph, slot: Slot, one: Instruction) -> None:
    """Where such a store may come before the address has been read, and not before it is put there. (A store in front of the allocation,
    in its block, is one by the same warp.)"""
    asked, reads = slot
    at = one.number
    if graph.place[at] == EXIT or not reads:
        return
    before = graph.place[at] == graph.place[asked] and at < asked and not graph.comes_to(at, asked)
    if not before and not _apart(graph, at, asked) and not all(_apart(graph, read, at) for read in reads):
        raise Unreadable(one.line, f"{one.opcode} over an address of tensor memory is not understood")


def _apart(graph: Graph, first: int, then: int) -> bool:
    """Whether threads always wait for others between the two, in this order."""
    ordered = graph.comes_to(then, first) and not graph.comes_to(first, then)
    return ordered and not graph.comes_to(then, first, _MEETING)
