"""Tensor memory: what a CTA asks for is given back, each part once, and by nobody who cannot know where it is.

A CTA that asks for too much waits for itself, and the next one on its multiprocessor waits for what is not given back. An address that
was not handed out, columns other than those asked for, a request for more than before or behind the permit, and `.cta_group::2`
without a pair of CTAs are undefined (PTX ISA, Tensor Memory allocation; tcgen05, CTA pair).
"""

from collections.abc import Collection, Iterable

from pipec.verify.network import Unreadable
from pipec.verify.reader.flow.overwritten import Slot
from pipec.verify.reader.flow.slice import Flow
from pipec.verify.reader.processes.meetings import MANY, meetings_before
from pipec.verify.reader.text.opcodes import Kind
from pipec.verify.reader.values.machine import Machine
from pipec.verify.reader.values.surroundings import ANY_SLOT, OFFSET, Columns, Freed, Surroundings

_MOST_COLUMNS = 512
_WAITING = frozenset({Kind.SYNC, Kind.VOTE, Kind.TRY, Kind.CLUSTER_WAIT})


def check_loops(flow: Flow) -> None:
    """Checks that tensor memory is allocated and freed a known number of times."""
    looped = frozenset[int]().union(*flow.graph.loops.values())
    for at, kind in flow.graph.notable.items():
        if kind in (Kind.ALLOCATE, Kind.FREE) and flow.graph.place[at] in looped:
            raise Unreadable(flow.code[at].line, "tensor memory that is asked for or given back in a loop is not understood")


def check_tensor_memory(flow: Flow, around: Surroundings, ctas: Iterable[Iterable[tuple[Machine, Collection[Columns]]]]) -> None:
    """`ctas`: their classes of threads, each with what it may hold at the end: columns asked for less those given back, by place."""
    _check_pairs(flow, around)
    for asked in around.columns.values():
        if sum(asked.values()) > _MOST_COLUMNS:
            raise Unreadable(flow.code[min(asked)[0]].line, f"a CTA asks for more than {_MOST_COLUMNS} columns of tensor memory")
    for (number, _), *others in around.slots.values():
        if others:
            raise Unreadable(flow.code[number].line, "two addresses of tensor memory in one place are not understood")
    for rank, classes in enumerate(ctas):
        _check_given_back(flow, around, rank, [held for _, held in classes])
        _check_sizes(flow, around.columns.get(rank, {}))
        _check_permit(flow, around.columns.get(rank, {}), [machine for machine, _ in classes])
    for freed in around.freed:
        _check_freed(flow, around, freed)
    if len({tuple(asked) for asked in around.columns.values()}) > 1:
        raise Unreadable(flow.kernel.line, "the CTAs of a cluster do not all ask for tensor memory")


def slots_of(around: Surroundings) -> dict[int, Slot]:
    """By the offset of the place of an address: who asks, and who loads what is given back."""
    return {
        slot & OFFSET: (number, [freed.read for freed in around.freed if freed.slot == slot])
        for slot, ((number, _), *_) in around.slots.items()
    }


def _check_pairs(flow: Flow, around: Surroundings) -> None:
    groups = {
        part for opcode in {*flow.code.opcodes} if opcode[:7] == "tcgen05" for part in opcode.split(".") if "cta_group" in part
    }
    if len(groups) > 1:
        raise Unreadable(flow.kernel.line, "tcgen05 for one CTA and for two in one kernel is not understood")
    if "cta_group::2" in groups and around.ranks % 2:
        raise Unreadable(flow.kernel.line, f"a pair of CTAs in a cluster of {around.ranks} is not understood")


def _check_given_back(flow: Flow, around: Surroundings, rank: int, classes: list[Collection[Columns]]) -> None:
    """Different threads may ask and give back, but each class must have the same balance on all paths."""
    asked = around.columns.get(rank, {})
    whole = [slot for slot, ((number, warp), *_) in around.slots.items() if asked.get((number, warp)) == _MOST_COLUMNS]
    total: dict[int, int] = {}
    for held in classes:
        for slot, columns in next(iter(held), ()):
            # Nothing else is left beside all columns: they begin with the first.
            place = whole[0] if slot == ANY_SLOT and len(whole) == len(asked) == 1 else slot
            total[place] = total.get(place, 0) + columns
    if any(len(held) > 1 for held in classes) or any(total.values()):
        first = min((at for each in around.columns.values() for at, _ in each), default=None)
        raise Unreadable(
            flow.kernel.line if first is None else flow.code[first].line,
            "a CTA does not give back as much tensor memory as it asks for, on every way",
        )


def _check_freed(flow: Flow, around: Surroundings, freed: Freed) -> None:
    line, asked = flow.code[freed.number].line, around.columns.get(freed.rank, {})
    rows = asked if freed.slot == ANY_SLOT else around.slots.get(freed.slot, {})
    if len(rows) != 1 or freed.slot == ANY_SLOT and freed.columns != _MOST_COLUMNS:
        raise Unreadable(line, "which tensor memory is given back is not understood")
    ((number, warp),) = rows
    if asked[number, warp] != freed.columns:
        raise Unreadable(line, "another number of columns of tensor memory is given back than was asked for")
    if warp in {thread // 32 for thread in freed.threads}:
        known = freed.held
    else:
        known = not flow.graph.comes_to(number, freed.read)
        known &= not any(flow.graph.comes_to(freed.read, start, _WAITING) for start in (None, number))
    if not known:
        raise Unreadable(line, "tensor memory that may not have been asked for yet is given back")


def _check_sizes(flow: Flow, asked: dict[tuple[int, int], int]) -> None:
    """No request is for more columns than one before it in the CTA."""
    rows = [(one, other) for one in asked for other in asked if asked[one] < asked[other]]
    apart = any(warp != other for (_, warp), (_, other) in rows)
    met = meetings_before(flow) if apart else {}
    for (smaller, warp), (larger, other) in rows:
        after = not MANY < met[larger] < met[smaller] if warp != other else flow.graph.comes_to(larger, smaller)
        if after:
            raise Unreadable(
                flow.code[larger].line, "more columns of tensor memory than were asked for before are not understood"
            )


def _check_permit(flow: Flow, asked: dict[tuple[int, int], int], machines: list[Machine]) -> None:
    """Nobody asks behind the permit: in the order of the text, and where another warp gives it up, by a meeting of all threads."""
    given_up = [at for at in flow.graph.notable if flow.code.opcodes[at].startswith("tcgen05.relinquish_alloc_permit")]
    if not given_up:
        return
    if late := flow.graph.coming_to(given_up, frozenset({Kind.ALLOCATE})):
        raise Unreadable(
            flow.code[late[0]].line, "tensor memory that is asked for after the permit has been given up is not understood"
        )
    rows = [row for machine in machines for row in machine.together]
    warps = {at: {thread // 32 for one, some in rows if one == at for thread in some} for at in given_up}
    others = [(at, number) for at in given_up for number, warp in asked if warps[at] - {warp}]
    met = meetings_before(flow) if others else {}
    for at, number in others:
        if MANY in (met[at], met[number]) or met[at] <= met[number]:
            why = "the permit for tensor memory is given up while another warp may ask for some"
            raise Unreadable(flow.code[at].line, why)
