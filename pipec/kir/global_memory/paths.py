"""What holds wherever a role gets to an access: the outcomes of branches, and the turn that it has taken."""

from collections.abc import Iterator

from pipec.kir import ir
from pipec.kir.global_memory.accesses import Access
from pipec.record import record
from pipec.sema import tree
from pipec.terms.term import ONE, ZERO, Operator, Term, atom_of, operands
from pipec.terms.walk import leaves

# Leaves that may be another value at the access than at the branch.
_PASSING = frozenset((Operator.UNKNOWN, Operator.WRITTEN_ELEMENT, Operator.ELECTED, Operator.SCHEDULER_ANSWER))
_MOST_BRANCHES = 40  # of a role; beyond that nothing is asked


@record
class Known:
    """`zeros`: terms that are 0. `signs`: terms that are not negative."""

    zeros: tuple[Term, ...]
    signs: tuple[Term, ...]


def conditions(role: ir.Role, at: int) -> Known:
    """What the branches on the way to a block say, in the current iteration of the loops around it."""
    zeros: list[Term] = []
    signs: list[Term] = []
    branches = [(number, block.terminator) for number, block in enumerate(role.blocks) if isinstance(block.terminator, ir.Branch)]
    for number, branch in branches if len(branches) <= _MOST_BRANCHES else ():
        for outcome, target in ((True, branch.then), (False, branch.otherwise)):
            if branch.then != branch.otherwise and _passes(role, number, target, at):
                for term, sign in _meaning(role.values.of(branch.condition), outcome):
                    if not any(leaf.operator in _PASSING for leaf in leaves(term)):
                        (signs if sign else zeros).append(term)
    return Known(tuple(zeros), tuple(signs))


def _passes(role: ir.Role, number: int, target: int, block: int) -> bool:
    """Whether a block is reached only along this edge, in each iteration of the loops around the branch."""
    around = [loop for loop in role.loops if number in loop.blocks]
    if any(block not in loop.blocks for loop in around):
        return False
    innermost = min(around, key=lambda loop: len(loop.blocks), default=None)
    start = innermost.header if innermost is not None else 0
    inside = innermost.blocks if innermost is not None else frozenset(range(len(role.blocks)))
    seen, unseen = set[int](), [start]
    while unseen:
        here = unseen.pop()
        if here == block:
            return False
        if here in seen or here not in inside:
            continue
        seen.add(here)
        # The next iteration starts at the header, which has been seen.
        unseen += [one for one in ir.successors(role.blocks[here].terminator) if (here, one) != (number, target)]
    return True


def _meaning(condition: Term, outcome: bool) -> Iterator[tuple[Term, bool]]:
    """Terms that are 0 (False) or not negative (True)."""
    atom = atom_of(condition)
    if atom is None:
        negated = atom_of(ONE - condition)
        if negated is not None:
            yield from _meaning(ONE - condition, not outcome)
        return
    inside = operands(atom)
    match atom.operator:
        case Operator.IS_ZERO if outcome:
            yield inside[0], False
        case Operator.NONNEGATIVE:
            yield inside[0] if outcome else -inside[0] - 1, True
        case Operator.SELECT if outcome and inside[2] is ZERO:  # and
            yield from _meaning(inside[0], True)
            yield from _meaning(inside[1], True)
        case Operator.SELECT if not outcome and inside[1] is ONE:  # or
            yield from _meaning(inside[0], False)
            yield from _meaning(inside[2], False)
        case Operator.SPECIAL | Operator.PARAMETER | Operator.COUNTER if (atom.least, atom.largest) == (0, 1):
            yield condition - int(outcome), False


def turn_at(role: ir.Role, access: Access) -> tree.AwaitTurn | None:
    """The turn that the role holds at an access: it has waited for it, and not passed it on."""
    places = {
        kind: [
            (number, site)
            for number, block in enumerate(role.blocks)
            for site, one in enumerate(block.operations)
            if isinstance(one, kind)
        ]
        for kind in (tree.AwaitTurn, tree.PassTurn)
    }
    if len(places[tree.AwaitTurn]) != 1 or len(places[tree.PassTurn]) != 1:
        return None
    ((taken, first),), ((passed, last),) = places[tree.AwaitTurn], places[tree.PassTurn]
    here = access.block, access.site
    if _reaches(role, (0, -1), here, (taken, first)) or _reaches(role, (passed, last), here, (taken, first)):
        return None
    operation = role.blocks[taken].operations[first]
    assert isinstance(operation, tree.AwaitTurn)
    return operation


def _reaches(role: ir.Role, start: tuple[int, int], end: tuple[int, int], but: tuple[int, int]) -> bool:
    """Whether there is a way from behind one operation to another that does not pass a third."""
    seen, unseen = set[tuple[int, int]](), [start]
    while unseen:
        block, site = unseen.pop()
        behind = [place for place in (end, but) if place[0] == block and place[1] > site]
        if behind:
            if min(behind) == end:
                return True
            continue
        for one in ir.successors(role.blocks[block].terminator):
            if (one, -1) not in seen:
                seen.add((one, -1))
                unseen.append((one, -1))
    return False
