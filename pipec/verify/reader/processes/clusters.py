"""The barrier of a cluster: a thread waits for it between two arrivals, and arrives before it waits (PTX ISA, barrier.cluster)."""

from pipec.verify.network import Arrive, Process, Unreadable, Wait, edges_of


def check_alternates(process: Process, ring: int) -> None:
    """Raises Unreadable where the process may arrive at the ring twice without a wait in between, or wait without an arrival."""
    work, seen = [(process.start, False)], set[tuple[int, bool]]()
    while work:
        at, arrived = work.pop()
        if (at, arrived) in seen:
            continue
        seen.add((at, arrived))
        state = process.states[at]
        action = state.action
        if isinstance(action, (Arrive, Wait)) and action.use.ring == ring:
            if arrived == isinstance(action, Arrive):
                what = "twice without a wait in between" if arrived else "only behind the wait for it"
                raise Unreadable(state.line, f"threads that arrive at the barrier of the cluster {what} are not understood")
            arrived = not arrived
        work += [(edge.target, arrived) for edge in edges_of(action)]
