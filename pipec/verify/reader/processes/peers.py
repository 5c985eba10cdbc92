"""What the CTAs of a cluster do to each other: at the begin a peer's barriers must be initialised, and at the end it must still be there.

Neither is part of the proof. Where the usual forms are not found, it is a named assumption: barriers are initialised and published, by a
fence or by the arrival at the barrier of the cluster, before anybody is past the wait there; and all threads arrive there, and wait, behind
their last signal to a peer. A copy or commit arrives later than it is issued, and that somebody waits for it is not looked at here.
"""

from collections.abc import Collection, Iterable, Iterator

from pipec.verify.network import AssumptionKind
from pipec.verify.reader.flow.graph import EXIT, Graph
from pipec.verify.reader.flow.slice import Flow
from pipec.verify.reader.text.instructions import Instruction
from pipec.verify.reader.text.opcodes import Kind

_SIGNALLING = frozenset({Kind.ARRIVE, Kind.EXPECT, Kind.LOAD, Kind.COMMIT, Kind.COPIES_ARRIVE, Kind.ANSWER})
_MEETING = frozenset({Kind.CLUSTER_ARRIVE, Kind.CLUSTER_WAIT})
_AT_ONCE = frozenset({Kind.ARRIVE, Kind.EXPECT, Kind.EFFECT, Kind.COMPUTE})
_STORES = frozenset({"st", "red", "atom"})
_WIDE = frozenset({"cluster", "gpu", "sys", "gl"})  # scopes of fences


def of_peers(flow: Flow, lines: Collection[int], spread: Collection[int]) -> dict[AssumptionKind, list[int]]:
    """`lines`: of signals to barriers of other CTAs; `spread`: of copies to another CTA than that of their barrier, or their own."""
    graph = flow.graph
    stored = [at for at in _stores(flow) if graph.place[at] != EXIT]
    signals = [at for at in graph.notable if graph.notable[at] in _SIGNALLING and flow.code[at].line in lines]
    found: dict[AssumptionKind, list[int]] = {}
    if signals and not _initialised(graph, signals):
        found["fresh barriers"] = [flow.code[at].line for at in signals]
    ends = _all_meet(graph)
    unshown: tuple[tuple[AssumptionKind, list[int]], ...] = (("peers", signals), ("stored", stored))
    for kind, instructions in unshown:
        if unmet := [at for at in instructions if not ends or not _met_behind(graph, at)]:
            found[kind] = [flow.code[at].line for at in unmet]
    found["stored"] = sorted({*found.get("stored", ()), *spread})
    return found


def _stores(flow: Flow) -> Iterator[int]:
    """Plain stores to the shared memory of a cluster."""
    opcodes = {
        one
        for one in {*flow.code.opcodes}
        if ".shared::cluster" in one and ".async" not in one and one.partition(".")[0] in _STORES
    }
    return (at for at, opcode in enumerate(flow.code.opcodes) if opcode in opcodes)


def _initialised(graph: Graph, signals: list[int]) -> bool:
    """Whether all barriers are initialised and published before the first meeting of the cluster, which comes before all signals."""
    kinds = graph.notable
    inits = [at for at, kind in kinds.items() if kind is Kind.INIT]
    arrivals = {at for at, kind in kinds.items() if kind is Kind.CLUSTER_ARRIVE}
    waits = {at for at, kind in kinds.items() if kind is Kind.CLUSTER_WAIT and graph.code[at].predicate is None}
    if _reached(graph, [-1], waits) & {*signals} or _reached(graph, arrivals, ()) & {*inits}:
        return False
    relaxed = {at for at in arrivals if "relaxed" in graph.code[at].parts}
    fences = [one for one in graph.code if relaxed and one.head in ("fence", "membar") and _publishes(one)]
    for at in inits:
        before = {one.number for one in fences if one.predicate is None or _as_predicated(graph, one, graph.code[at])}
        if _reached(graph, [at], before | arrivals - relaxed) & relaxed:
            return False
    return True


def _publishes(fence: Instruction) -> bool:
    return "mbarrier_init" in fence.parts or not _WIDE.isdisjoint(fence.parts[1:]) and not {"proxy", "acquire"} & {*fence.parts}


def _as_predicated(graph: Graph, one: Instruction, other: Instruction) -> bool:
    """Whether the threads that execute an instruction execute the other one, too."""
    same = (one.predicate, one.negated) == (other.predicate, other.negated)
    return same and one.predicate is not None and len(graph.definitions(one.predicate)) == 1


def _all_meet(graph: Graph) -> bool:
    """Whether all threads come to the barrier of the cluster equally often, and are past it when they end."""
    counted: dict[int, tuple[int, int]] = {0: (0, 0)}
    ends, work = set[tuple[int, int]](), [0]
    while work:
        block = graph.blocks[work.pop()]
        came, went = counted[block.number]
        for at in range(block.first, block.last):
            if (kind := graph.notable.get(at)) in _MEETING:
                if graph.code[at].predicate is not None:
                    return False
                came, went = came + (kind is Kind.CLUSTER_ARRIVE), went + (kind is Kind.CLUSTER_WAIT)
        for after in block.next:
            if after == EXIT:
                ends.add((came, went))
            elif after not in counted:
                counted[after] = came, went
                work.append(after)
            elif counted[after] != (came, went):
                return False
    return len(ends) == 1 and all(came == went for came, went in ends)


def _met_behind(graph: Graph, at: int) -> bool:
    """Whether the thread that stores or arrives there then arrives at the barrier of the cluster, which its signal does not follow."""
    behind = {
        one for one, kind in graph.notable.items() if kind is Kind.CLUSTER_ARRIVE and "relaxed" not in graph.code[one].parts
    }
    return graph.kinds[at] in _AT_ONCE and EXIT not in _reached(graph, [at], behind)


def _reached(graph: Graph, starts: Iterable[int], without: Collection[int]) -> set[int]:
    """The notable instructions, and EXIT, that a thread may come to from behind these (-1: the begin), without executing those."""
    found, seen = set[int](), set[int]()
    work = [(0, 0) if start < 0 else (graph.place[start], start + 1) for start in starts]
    while work:
        place, first = work.pop()
        block = graph.blocks[place]
        for at in range(first, block.last):
            if at in graph.notable:
                found.add(at)
            if at in without:
                break
        else:
            found.update(one for one in block.next if one == EXIT)
            onwards = [one for one in block.next if one != EXIT and one not in seen]
            seen.update(onwards)
            work += [(one, graph.blocks[one].first) for one in onwards]
    return found
