"""Ordinary accesses to the memory of barriers, which are undefined between `mbarrier.init` and `mbarrier.inval` (PTX ISA, mbarrier), and
stores over an address of tensor memory that is still to be read.

It is looked where their addresses lead at most (bounds.py). What leads to such places only is not read. Of a store that may lead there, or
is not known to stay in its variable, it is assumed that it does not; of a load that is of no matter.
"""

import re
from collections.abc import Collection, Mapping
from functools import cache

from pipec.record import record
from pipec.verify.network import Unreadable
from pipec.verify.reader.flow.bounds import LANES, Bounds
from pipec.verify.reader.flow.graph import EXIT, Graph
from pipec.verify.reader.flow.intervals import variable_of
from pipec.verify.reader.text.lexical import integer
from pipec.verify.reader.text.opcodes import Kind

_TYPE = re.compile(r"\.(?:[bsuf]|bf)(\d+)(x2)?\Z")
_VECTOR = re.compile(r"\.v(\d)")
_PLACE = re.compile(r"\[\s*([%$\w]+)\s*(?:([+-])\s*(-?\w+)\s*)?\]")
_SPACES = frozenset({"shared", "shared::cta", "shared::cluster", "global", "local", "param", "const"})
_ROW = 16  # bytes of a matrix, and of a `cp.async` at most
_ROWS = {"x1": 8, "x2": 16}  # of matrices that a `stmatrix` stores, if not of all lanes
_ANYTHING = 1 << 30  # bytes
_UNKNOWN = "%"  # a register that nothing defines
_MEETING = frozenset({Kind.SYNC, Kind.VOTE, Kind.TRY, Kind.CLUSTER_WAIT})
# Of a place for an address of tensor memory: the instruction that asks for the memory, and those that load the address.
Slot = tuple[int, Collection[int]]


@record
class Places:
    """Places in shared memory that are not to be stored over: `barriers`, each with the instruction that initialises it, and `slots`, those
    of addresses of tensor memory. `copied`: the bytes of copies, by where they go and the instruction, where that is known exactly;
    `sizes`: the bytes of each copy."""

    barriers: Mapping[int, int]
    slots: Mapping[int, Slot]
    copied: Mapping[tuple[int, int], int]
    sizes: Mapping[int, int]


def check_overwritten(graph: Graph, places: Places, block: tuple[int, int, int], ranks: int) -> list[int]:
    """The lines of stores that may hit such a place, as far as is known. `block`: the threads of a CTA along its axes; `ranks`: how many
    CTAs a cluster has. Raises Unreadable."""
    if not places.barriers and not places.slots:
        return []
    exactly: dict[int, list[int]] = {}
    for first, number in places.copied:
        exactly.setdefault(number, []).append(first)
    unknown, asked = [], _asked(graph)
    bounds = Bounds(graph, block, ranks, {name for at, name, _ in asked if at not in exactly})
    for at, name, by in asked:
        opcode = graph.code.opcodes[at]
        access, size = _access(opcode), _size(graph, places, at)
        assert access is not None
        stores, generic = access
        if at in exactly:
            spans = [(first, first + size, True) for first in exactly[at]]
        elif (one := bounds.at(name, at, _rows(opcode) if stores and opcode[:8] == "stmatrix" else LANES)) is None:
            continue
        elif one[0]:
            start = graph.kernel.shared[variable_of(one[0])] + by
            spans = [(start + one[1], start + one[2] + size, one[1] == one[2])]
        elif stores and (not generic or bounds.may_lead_to_variable(name)):
            spans = [(0, _ANYTHING, False)]
        else:
            continue
        if any(_may_hit(graph, places, at, *span) for span in spans) and stores:
            unknown.append(graph.code[at].line)
    return unknown


def _asked(graph: Graph) -> list[tuple[int, str, int]]:
    """The accesses to shared memory: the instruction, the name in its address, and the number of bytes behind that."""
    code, found = graph.code, []
    accesses = {opcode: access for opcode in {*code.opcodes} if (access := _access(opcode)) is not None}
    if "cvta.shared" not in graph.kernel.body:
        accesses = {opcode: access for opcode, access in accesses.items() if not access[1]}
    for at, opcode in enumerate(code.opcodes):
        if opcode in accesses and graph.place[at] != EXIT:
            place = _PLACE.search(code.outlines[at][4])
            name, sign, digits = place.groups("") if place else (_UNKNOWN, "", "")
            by = integer(digits) or 0 if sign else 0
            found.append((at, name, -by if sign == "-" else by))
    return found


@cache
def _access(opcode: str) -> tuple[bool, bool] | None:
    """Of an access to shared memory: whether it stores, and whether its address is a generic one."""
    parts = opcode.split(".")
    if parts[0] not in _ACCESSES or not {*_ACCESSES[parts[0]]} <= {*parts} or {"prefetch", "arrive"} & {*parts}:
        return None
    space = next((part for part in parts if part in _SPACES), "")
    if not space and ("async" in parts or parts[0] == "tcgen05"):
        space = "" if parts[0] == "cp" else "shared"
        return (True, False) if space else None
    return (parts[0][:2] != "ld", not space) if not space or space[:6] == "shared" else None


# The words that follow those that access shared memory.
_ACCESSES = {
    **dict.fromkeys(("ld", "ldmatrix", "st", "stmatrix", "red", "atom", "cp"), ()),
    "wmma": ("store",),
    "tcgen05": ("alloc",),
    "clusterlaunchcontrol": ("try_cancel",),
}


def _size(graph: Graph, places: Places, at: int) -> int:
    """How many bytes are accessed at most."""
    opcode, kind = graph.code.opcodes[at], graph.kinds[at]
    if kind is Kind.LOAD:
        return places.sizes.get(at, _ANYTHING)
    if kind is Kind.ALLOCATE:
        return 4
    if opcode[:10] == "cp.async.c" and len(graph.code[at].operands) > 2:
        return integer(graph.code[at].operands[2]) or _ROW
    return _bytes(opcode)


@cache
def _bytes(opcode: str) -> int:
    if opcode.startswith(("ldmatrix", "stmatrix", "cp.async.ca", "cp.async.cg", "clusterlaunchcontrol")):
        return _ROW
    kind, vector = _TYPE.search(opcode), _VECTOR.search(opcode)
    if kind is None or "bulk" in opcode or opcode[:4] == "wmma":
        return _ANYTHING
    return int(kind[1]) * (2 if kind[2] else 1) * (int(vector[1]) if vector else 1) // 8


def _rows(opcode: str) -> int:
    return next((rows for word, rows in _ROWS.items() if f".{word}." in opcode), LANES)


def _may_hit(graph: Graph, places: Places, at: int, first: int, last: int, exact: bool) -> bool:
    """Whether bytes of shared memory from `first` to in front of `last` may be such a place. `exact`: all of them are accessed."""
    kernel, barriers, opcode = graph.kernel, places.barriers, graph.code.opcodes[at]
    inside = any(place <= first and last <= place + kernel.bytes[name] for name, place in kernel.shared.items())
    # (Behind the end of its variable an access may hit another one, and in front of it.)
    over = [place for place in barriers if not (inside or exact) or first < place + 8 and place < last]
    if over and any(graph.comes_to(at, barriers[place]) for place in over):
        if exact or inside and all(place - place % 8 in barriers for place in range(first, last)):
            raise Unreadable(graph.code[at].line, f"{opcode} at the place of a barrier is not understood")
        return True
    if any(not _by_the_same(graph, at, barriers[place]) for place in over):
        return True
    if not inside and exact:
        return _may_hit(graph, places, at, 0, _ANYTHING, False)
    for place, slot in places.slots.items() if _stores(graph, at) else ():
        if (not inside or first < place + 4 and place < last) and _may_overwrite(graph, slot, at):
            if exact:
                raise Unreadable(graph.code[at].line, f"{opcode} over an address of tensor memory is not understood")
            return True
    return False


def _by_the_same(graph: Graph, at: int, init: int) -> bool:
    """Whether the thread that initialises a barrier has stored there before, and no other."""
    if graph.place[at] != graph.place[init]:
        return False
    one, other = graph.code[at], graph.code[init]
    if other.predicate is None:
        return True
    changes = graph.definitions(other.predicate)
    same = (one.predicate, one.negated) == (other.predicate, other.negated)
    return same and not any(min(at, init) < change < max(at, init) for change in changes)


def _stores(graph: Graph, at: int) -> bool:
    return graph.kinds[at] is not Kind.ALLOCATE and graph.code.opcodes[at][:2] != "ld"


def _may_overwrite(graph: Graph, slot: Slot, at: int) -> bool:
    """Whether a store may come before the address has been read, and not before it is put there. (A store in front of the allocation, in
    its block, is one by the same warp.)"""
    asked, reads = slot
    if not reads:
        return False
    before = graph.place[at] == graph.place[asked] and at < asked and not graph.comes_to(at, asked)
    return not before and not _apart(graph, at, asked) and not all(_apart(graph, read, at) for read in reads)


def _apart(graph: Graph, first: int, then: int) -> bool:
    """Whether threads always wait for others between the two, in this order."""
    ordered = graph.comes_to(then, first) and not graph.comes_to(first, then)
    return ordered and not graph.comes_to(then, first, _MEETING)
