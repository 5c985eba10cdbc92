"""How loops of a process lie in each other."""

from pipec.verify.network import Process, Test, edges_of
from pipec.verify.terms import Formula, negate

Loop = tuple[int, Formula | None]  # the state where its turns begin, and what is asked for another one


def depths(process: Process) -> dict[int, int]:
    """The number of loops around each state that is in one. Loops that begin in one state are told apart by what they ask for another
    turn: a loop that has turns for sure begins where its first turn does, as that of the loop inside."""
    onwards = [tuple(dict.fromkeys(edge.target for edge in edges_of(state.action))) for state in process.states]
    within = _dominators(process, onwards)
    preceding: dict[int, list[int]] = {}
    for at, targets in enumerate(onwards):
        for target in targets if at in within else ():
            preceding.setdefault(target, []).append(at)
    bodies: dict[Loop, set[int]] = {}
    for at in within:
        for target in onwards[at]:
            if target in within[at]:
                bodies.setdefault((target, _asked(process, at, target)), set()).update(_reaching(at, target, preceding))
    return {at: number for at in within if (number := sum(at in body for body in bodies.values()))}


def _asked(process: Process, at: int, target: int) -> Formula | None:
    action = process.states[at].action
    if not isinstance(action, Test):
        return None
    return action.condition if action.yes.target == target else negate(action.condition)


def _dominators(process: Process, onwards: list[tuple[int, ...]]) -> dict[int, frozenset[int]]:
    """By reachable state those on all ways there."""
    found = {process.start: frozenset({process.start})}
    work = [process.start]
    while work:
        at = work.pop()
        for target in onwards[at]:
            before = found.get(target)
            now = found[at] | {target} if before is None else before & (found[at] | {target})
            if now != before:
                found[target] = now
                work.append(target)
    return found


def _reaching(at: int, head: int, preceding: dict[int, list[int]]) -> set[int]:
    """The states from which one comes there, up to the head."""
    found = {head, at}
    work = [] if at == head else [at]
    while work:
        new = [before for before in preceding.get(work.pop(), ()) if before not in found]
        found.update(new)
        work += new
    return found
