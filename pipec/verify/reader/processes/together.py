"""Instructions that threads execute together: products of `wgmma`, and `setmaxnreg`; branches that are said to be uniform.

All four warps of a warpgroup execute the same ones (PTX ISA, wgmma.mma_async and setmaxnreg), and at a `bra.uni` all active lanes of a
warp go the same way; what others do is undefined.
"""

from collections.abc import Iterable

from pipec.verify.network import Unreadable
from pipec.verify.reader.text.statements import Kernel
from pipec.verify.reader.values.machine import Machine

WARPGROUP_THREADS = 128
_OF_WARPGROUPS = frozenset({"wgmma", "setmaxnreg"})


def check_together(kernel: Kernel, threads: int, machines: Iterable[Machine]) -> None:
    """Raises Unreadable where only some warps of a warpgroup come to such an instruction. `machines`: of all `threads` of a CTA."""
    executing: dict[int, list[set[int]]] = {}
    for machine in machines:
        mine: dict[int, set[int]] = {}
        for at, some in machine.together:
            mine.setdefault(at, set()).update(some)
        for at, found in mine.items():
            executing.setdefault(at, []).append(found)
    for at, classes in executing.items():
        one = kernel.code[at]
        if one.head in _OF_WARPGROUPS:
            _check_warpgroups(kernel, at, threads, set().union(*classes))
        elif "uni" in one.parts:
            warps = [warp for found in classes for warp in {thread // 32 for thread in found}]
            if len(warps) > len({*warps}):
                # Each class has a predicate of its own, and the lanes may be together.
                raise Unreadable(one.line, f"{one.opcode} by lanes of a warp that were apart is not understood")


def _check_warpgroups(kernel: Kernel, at: int, threads: int, found: set[int]) -> None:
    one = kernel.code[at]
    # (A product takes four warps. The registers of fewer, where the CTA has no more, are set by all that it has.)
    there = threads if one.head == "setmaxnreg" else threads // WARPGROUP_THREADS * WARPGROUP_THREADS
    firsts = {thread - thread % WARPGROUP_THREADS for thread in found}
    if len(found) < sum(min(WARPGROUP_THREADS, there - first) for first in firsts) or max(found) >= there:
        raise Unreadable(one.line, f"{one.opcode} in some warps of a warpgroup, and not in others, is not understood")
