"""Which CTAs of a cluster are there until all signals of others have come: those in which every last use of a barrier that others
signal has been waited for.

A use is complete only when all of its arrivals and bytes have come, and no barrier is half full in the end. So when the last use of each
barrier has been waited for, nothing is left to come; and the memory of a CTA lasts as long as the thread that has waited.
"""

from collections.abc import Mapping, Sequence

from pipec.record import replace
from pipec.verify.checker.configuration import Configuration
from pipec.verify.network import Arrive, Network


def signalled(network: Network) -> frozenset[int]:
    """The rings whose barriers threads of other CTAs signal later than they ask for it, or without a meeting behind it. Empty, too, if such
    a signal is nothing that the barrier counts, as a copy of 0 bytes: no use tells that it has come."""
    lines = _lines(network)
    signals = [
        action
        for process in network.processes
        for state in process.states
        if isinstance(action := state.action, Arrive) and state.line in lines and any(by != at for by, at in action.targets)
    ]
    counted = all(one.count or one.expects or one.delivers for one in signals)
    return frozenset(one.use.ring for one in signals) if counted else frozenset()


def _lines(network: Network) -> set[int]:
    return {line for one in network.assumptions if one.kind == "peers" for line in one.lines}


def without_peers(network: Network, drained: frozenset[int]) -> Network:
    """The network without the assumption that CTAs outlive signals of others, where that is shown: of the rings that are `drained`."""
    rings = signalled(network)
    if not rings or not rings <= drained:
        return network
    return replace(network, assumptions=tuple(one for one in network.assumptions if one.kind != "peers"))


def drained(
    ring: int, ways: Sequence[tuple[int | None, int, Configuration]], over: Mapping[int, Configuration], before: int
) -> bool:
    """Whether the last use of each barrier of a ring has been waited for wherever a schedule ends, and what is complete has been before.
    `ways`: from a node (None: from the start) to a node, with what has been waited for on it; `over`: the nodes at which it ends; `before`:
    the uses before the kernel."""
    held: dict[int | None, int] = {target: -1 for _, target, _ in ways} | {None: before}
    changed = True
    while changed:
        changed = False
        for source, target, at in ways:
            uses, by, _ = at.seen[ring]
            left = held[target] & (uses | at.lowered(held[source], by))
            changed |= left != held[target]
            held[target] = left
    # A use too far back to be in the sets is nobody's any more, and would be taken for one that has been waited for.
    lost = any(at.seen[ring][2] & ~held[source] for source, _, at in ways)
    return not lost and all(at.drained(ring, held[node]) for node, at in over.items())
