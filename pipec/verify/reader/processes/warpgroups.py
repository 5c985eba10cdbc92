"""Instructions of warpgroups: products of `wgmma`, and `setmaxnreg`.

All four warps of a warpgroup execute the same ones (PTX ISA, wgmma.mma_async and setmaxnreg); what others do is undefined.
"""

from collections.abc import Iterable

from pipec.verify.network import Unreadable
from pipec.verify.reader.text.statements import Kernel
from pipec.verify.reader.values.machine import Machine

WARPGROUP_THREADS = 128


def check_warpgroups(kernel: Kernel, threads: int, machines: Iterable[Machine]) -> None:
    """Raises Unreadable where only some warps of a warpgroup come to such an instruction. `machines`: of all `threads` of a CTA."""
    executing: dict[int, set[int]] = {}
    for machine in machines:
        for at, some in machine.of_warpgroups:
            executing.setdefault(at, set()).update(some)
    for at, found in executing.items():
        one = kernel.code[at]
        # (A product takes four warps. The registers of fewer, where the CTA has no more, are set by all that it has.)
        there = threads if one.head == "setmaxnreg" else threads // WARPGROUP_THREADS * WARPGROUP_THREADS
        firsts = {thread - thread % WARPGROUP_THREADS for thread in found}
        if len(found) < sum(min(WARPGROUP_THREADS, there - first) for first in firsts) or max(found) >= there:
            raise Unreadable(one.line, f"{one.opcode} in some warps of a warpgroup, and not in others, is not understood")
