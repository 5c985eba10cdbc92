"""What could make a thread wait other than a barrier: named, so that a proof states its assumptions.

Loops outside the slice either count to a bound, and then terminate, or are named. A loop that polls memory until another thread changes
it is understood if it is a turn (turns.py).
"""

import re
from collections.abc import Collection, Iterator
from functools import cache
from graphlib import CycleError, TopologicalSorter

from pipec.verify.network import Assumption, AssumptionKind, Unreadable
from pipec.verify.reader.flow.graph import EXIT, Stretch
from pipec.verify.reader.flow.slice import Flow
from pipec.verify.reader.processes.meetings import MANY, meetings_before, meets
from pipec.verify.reader.processes.peers import of_peers
from pipec.verify.reader.processes.turns import turns
from pipec.verify.reader.text.instructions import Instruction
from pipec.verify.reader.text.lexical import integer
from pipec.verify.reader.text.opcodes import Kind, kind_of
from pipec.verify.reader.text.operations import wrapped
from pipec.verify.reader.text.statements import registers
from pipec.verify.reader.values.surroundings import Surroundings

# By register: its definitions in a loop; None for one that not every iteration executes exactly once.
Definitions = dict[str, list[Instruction | None]]
_BY_KIND: dict[Kind, AssumptionKind] = {
    Kind.GRID_WAIT: "preceding grid",
    Kind.ALLOCATE: "tensor memory",
    Kind.ANSWER: "answers",
    Kind.MORE_REGISTERS: "registers",
}
_OF_INTEGERS = re.compile(r"[bsu]\d+")  # types
_MOST_BLOCKS = 300  # of a loop that is analysed


def assumptions(flow: Flow, around: Surroundings, signals: Collection[int], stores: list[int]) -> tuple[Assumption, ...]:
    """One per kind, with the lines. `signals`: the lines of those to barriers of other CTAs; `stores`: of those that may hit a barrier."""
    lines: dict[AssumptionKind, list[int]] = of_peers(flow, signals, around.spread) if around.ranks > 1 else {}
    notable = flow.graph.notable
    for at, kind in notable.items():
        if kind in _BY_KIND:
            lines.setdefault(_BY_KIND[kind], []).append(flow.code[at].line)
    if "reqnctapercluster" not in flow.kernel.directives:
        lines["cluster"] = _of_clusters(flow)
    if Kind.GIVE_UP in notable.values():
        lines["given up"] = [flow.code[at].line for at, kind in notable.items() if kind in _LATER]
    loops: list[int] = []
    polls: list[int] = []
    for first, body in flow.graph.loops.items():
        if not _followed(flow, body) and not _counts(flow, first, body):
            looks = list(_observing(flow, body))
            polls += looks
            loops += [] if looks else [flow.code[flow.graph.blocks[first].first].line]
    if around.loads:
        lines["loads"] = list(around.loads)
    if stores:
        lines["stores"] = stores
    if loops:
        lines["loops"] = loops
    if polls:
        lines["turns" if set(polls) <= turns(flow, around) else "polling"] = [flow.code[at].line for at in polls]
    return tuple(Assumption(kind, tuple(sorted(found))) for kind, found in sorted(lines.items()) if found)


# What arrives on a barrier some time after the instruction.
_LATER = frozenset({Kind.LOAD, Kind.ANSWER, Kind.COMMIT, Kind.COPIES_ARRIVE})
_CLUSTER_REGISTERS = re.compile(r"%(?:n?cluster|is_explicit_cluster)")


def _of_clusters(flow: Flow) -> list[int]:
    """The lines whose behaviour differs if the launch has clusters."""
    opcodes = {opcode for opcode in {*flow.code.opcodes} if _of_cluster(opcode)}
    asked = _CLUSTER_REGISTERS.search(flow.kernel.body) is not None
    if not opcodes and not asked:
        return []
    found = [one for one in flow.code if one.opcode in opcodes or asked and _CLUSTER_REGISTERS.search(one.text)]
    return [one.line for one in found if flow.graph.place[one.number] != EXIT]


@cache
def _of_cluster(opcode: str) -> bool:
    parts = opcode.split(".")
    if kind_of(opcode) in (Kind.CLUSTER_ARRIVE, Kind.CLUSTER_WAIT) or parts[0] in ("mapa", "getctarank"):
        return True
    return "multicast::cluster" in parts or "cta_group::2" in parts


_TOUCHING = frozenset(
    {Kind.INIT, Kind.ARRIVE, Kind.EXPECT, Kind.TRY, Kind.COPIES_ARRIVE, Kind.COMMIT, Kind.LOAD, Kind.ANSWER},
)


def check_given_up(flow: Flow) -> None:
    """Checks that a barrier is invalidated only when no thread uses barriers any more: all threads have passed `bar.sync 0` as often as
    the invalidating one, and no use of a barrier is reachable from where they may be."""
    notable = flow.graph.notable
    given_up = [at for at, kind in notable.items() if kind is Kind.GIVE_UP]
    if not given_up:
        return
    if any(flow.code[at].head == "barrier" and "cluster" in flow.code[at].parts for at in notable):
        raise Unreadable(flow.code[given_up[0]].line, "a barrier of a cluster that is given up is not understood")
    for at, kind in notable.items():
        named = {Kind.SYNC: 0, Kind.SIGN: 0, Kind.VOTE: 1}.get(kind)
        if named is not None and not meets(flow, at) and integer(flow.code[at].operands[named]) in (None, 0):
            raise Unreadable(flow.code[at].line, "how often all threads have met when a barrier is given up is not understood")
    met, meetings = meetings_before(flow), [at for at in notable if meets(flow, at)]
    touched = flow.graph.coming_to(meetings, _TOUCHING)
    for at in given_up:
        # (A meeting in a loop may be any, also the last one before.)
        if met[at] in (0, MANY) or any(met[one] in (met[at] - 1, MANY) for one in touched):
            raise Unreadable(flow.code[at].line, "a barrier is given up while somebody may still touch it")


# ---------------------------------------------------------------------------------------------------------------- loops


def _followed(flow: Flow, body: frozenset[int]) -> bool:
    """Whether all branches that leave the loop are in the slice: then it is part of the network, or a wait for a barrier."""
    for number in body:
        ways = flow.graph.blocks[number].next
        if len(ways) > 1 and not body.issuperset(ways):
            block = flow.blocks[number]
            if not block.test and not any(step.spin for step in block.steps):
                return False
    return True


def _observing(flow: Flow, body: frozenset[int]) -> Iterator[int]:
    """Instructions of the loop, by number, that observe concurrent changes."""
    for number in sorted(body):
        for at in range(flow.graph.blocks[number].first, flow.graph.blocks[number].last):
            if flow.kinds[at] is Kind.OBSERVE or flow.code[at].head == "atom":
                yield at
    yield from _read_again(flow, body)


def _read_again(flow: Flow, body: frozenset[int]) -> list[int]:
    """The loads that decide whether the loop continues, if nothing else that decides it changes between iterations: it ends only after
    another thread's store. Such loads should be `volatile`, but need not be."""
    definitions: dict[str, list[int]] = {}
    for number in body:
        for at in range(flow.graph.blocks[number].first, flow.graph.blocks[number].last):
            for name in flow.graph.defined(at):
                definitions.setdefault(name, []).append(at)
    branches = [flow.graph.blocks[number].branch for number in body if not body.issuperset(flow.graph.blocks[number].next)]
    work = [branch.predicate for branch in branches if branch is not None and branch.predicate]
    sources: dict[str, set[str]] = {}  # by register written in the loop: its sources there
    while work:
        name = work.pop()
        if name not in sources and name in definitions:
            texts = [" ".join(flow.code[at].operands[1:]) for at in definitions[name]]
            # If a predicate is false the register keeps its value: from the previous iteration, unless it was written in between.
            whole = [at for at in definitions[name] if flow.code[at].predicate is None]
            kept = [
                one.predicate
                if any(flow.graph.place[at] == flow.graph.place[one.number] and at < one.number for at in whole)
                else name
                for one in map(flow.code.__getitem__, definitions[name])
                if one.predicate is not None
            ]
            sources[name] = {*registers(" ".join([*texts, *kept]))} & definitions.keys()
            work += sources[name]
    try:
        TopologicalSorter(sources).prepare()
    except CycleError:
        return []  # a value is carried between iterations
    read = {at for name in sources for at in definitions[name] if flow.code[at].head == "ld"}
    return sorted(at for at in read if "param" not in flow.code[at].parts)


def _counts(flow: Flow, first: int, body: frozenset[int]) -> bool:
    """Whether a branch that every iteration executes leaves the loop once a register with a constant increment has passed a bound."""
    if len(body) > _MOST_BLOCKS:
        return False
    once = _every_turn(flow, first, body)
    definitions: Definitions = {}
    for number in body:
        for at in range(flow.graph.blocks[number].first, flow.graph.blocks[number].last):
            for name in flow.graph.defined(at):
                definitions.setdefault(name, []).append(flow.code[at] if number in once else None)
    return any(_ends(flow, flow.graph.blocks[number], body, definitions) for number in once)


def _every_turn(flow: Flow, first: int, body: frozenset[int]) -> set[int]:
    """The blocks that every iteration executes exactly once: they dominate the back edges, and are in no inner loop."""
    found = set()
    inner = {number for at, other in flow.graph.loops.items() if at != first and other < body for number in other}
    for number in body:
        seen: set[int] = set()
        work = [one for one in flow.graph.blocks[first].next if first != number]
        while work:
            one = work.pop()
            if one in body and one != number and one not in seen:
                seen.add(one)
                work += flow.graph.blocks[one].next if one != first else ()
        if first not in seen and number not in inner:
            found.add(number)
    return found


def _ends(flow: Flow, block: Stretch, body: frozenset[int], definitions: Definitions) -> bool:
    branch = flow.code[block.last - 1]
    inside = [one in body for one in block.next]
    if len(inside) != 2 or all(inside) or branch.predicate is None:
        return False
    stays_when, result = inside[0] != branch.negated, branch.predicate
    test = _only(definitions, result)
    while test is not None and test.opcode == "not.pred":
        stays_when, result = not stays_when, test.operands[1]
        test = _only(definitions, result)
    if test is None or test.head != "setp" or len(test.parts) != 3 or len(test.operands) != 3:
        return False
    # (Of two results, `%p|%q`, the second is the opposite. Bits that are counted may also be compared as a float, which may be no number.)
    if test.operands[0] != result or not _OF_INTEGERS.fullmatch(test.parts[2]):
        return False
    how, (_, left, right) = test.parts[1], test.operands
    for moving, bound, turned in ((left, right, False), (right, left, True)):
        staying = _staying(how, stays_when, turned)
        if staying is None or bound in definitions:
            continue
        by = _moves_by(definitions, moving)
        if by and _passes(staying, test.parts[2], by, integer(bound)):
            return True
        if staying == _comes_to_the_end(definitions, moving, test.parts[2]):
            return True
    return False


def _only(definitions: Definitions, name: str) -> Instruction | None:
    found = definitions.get(name, [])
    one = found[0] if len(found) == 1 else None
    return one if one is not None and one.predicate is None else None


def _moves_by(definitions: Definitions, name: str) -> int | None:
    """The increment of a register per iteration."""
    seen: dict[str, int] = {}
    by = 0
    while name not in seen:
        seen[name] = by
        one = _only(definitions, name)
        if one is None:
            return None
        if one.head == "mov":
            name = one.operands[1]
            continue
        step = integer(one.operands[2]) if one.head in ("add", "sub") and len(one.operands) == 3 else None
        if step is None or len(one.parts) != 2 or not _OF_INTEGERS.fullmatch(one.parts[1]):
            return None
        step = wrapped(step, int(one.parts[1][1:]))
        by += step if one.head == "add" else -step
        name = one.operands[1]
    # The part before the self-reference is the same offset in every iteration.
    return by - seen[name]


def _comes_to_the_end(definitions: Definitions, name: str, kind: str) -> str | None:
    """Of a register that takes steps from what it is at most (`min`), or at least: the comparison of `kind` that fails for any bound once
    it has come to the end of its type, where it stays. No step wraps around."""
    size = 1 << int(kind[1:])
    named: list[str] = []
    steps: list[
        tuple[str, int, int]
    ] = []  # from the last of a turn to the first: what it does, by how much, and its place in `named`
    while name not in named:
        one = _only(definitions, name)
        number = integer(one.operands[2]) if one is not None and len(one.operands) == 3 else None
        if one is None or one.head != "mov" and (number is None or one.parts[1:] not in ((kind,), (f"s{kind[1:]}",))):
            return None
        if number is not None:
            steps.append((one.opcode, number, len(named)))
        named.append(name)
        name = one.operands[1]
    if len(steps) != 2 or steps[0][2] < named.index(name):
        return None
    (add, by, _), (held, last, _) = steps
    least = -size // 2 if kind[0] == "s" else 0
    upwards = held == f"min.{kind}"
    end = least + size - 1 if upwards else least
    step = wrapped(by, int(kind[1:]))
    if add.partition(".")[0] != "add" or held not in (f"min.{kind}", f"max.{kind}") or (step > 0) != upwards or not step:
        return None
    return ("lt" if upwards else "gt") if (last - least) % size + least + step == end else None


_OPPOSITE = {
    "lt": "ge",
    "ge": "lt",
    "le": "gt",
    "gt": "le",
    "lo": "hs",
    "hs": "lo",
    "ls": "hi",
    "hi": "ls",
    "eq": "ne",
    "ne": "eq",
}
_TURNED = {"lt": "gt", "gt": "lt", "le": "ge", "ge": "le", "lo": "hi", "hi": "lo", "ls": "hs", "hs": "ls", "eq": "eq", "ne": "ne"}


def _staying(how: str, stays_when: bool, turned: bool) -> str | None:
    """The comparison, of what moves with what does not, under which another turn follows."""
    if how not in _OPPOSITE:
        return None
    how = _TURNED[how] if turned else how
    return how if stays_when else _OPPOSITE[how]


def _passes(how: str, kind: str, by: int, bound: int | None) -> bool:
    """Whether `moving how bound` cannot hold in all iterations, whatever the initial value. `kind`: the type of the comparison."""
    size = 1 << int(kind[1:])
    if how == "eq":
        return by % size != 0
    if how == "ne":
        return by % 2 == 1  # reaches every number
    upwards = how in ("lt", "le", "lo", "ls")
    if (by > 0) != upwards:
        return False
    strictly = how in ("lt", "gt", "lo", "hi")
    if abs(by) == 1 and strictly:
        return True
    if bound is None or kind[1:] not in ("32", "64") or kind[0] == "s" and how in ("lo", "ls", "hi", "hs"):
        return False
    # A step from the last number within the bound must not wrap around.
    least = -size // 2 if kind[0] == "s" else 0
    behind = (bound - least) % size + least + by - (strictly if upwards else -strictly)
    return least <= behind < least + size
