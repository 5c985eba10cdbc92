"""When answers of the scheduler are read: before their place can be given back to it.

The number of a tile decides how often a role goes round, so that what is read must be the answer to the request that is meant. Whoever asks
again knows of a reader only by what it signals: between the wait for an answer and the reading, a role signals nobody.
"""

from pipec.verify.network import Unreadable
from pipec.verify.reader.flow.graph import Graph
from pipec.verify.reader.text.opcodes import Kind
from pipec.verify.reader.values.surroundings import Surroundings

_SIGNALS = frozenset(
    {Kind.ARRIVE, Kind.COPIES_ARRIVE, Kind.COMMIT, Kind.SIGN, Kind.SYNC, Kind.VOTE, Kind.CLUSTER_ARRIVE, Kind.PUBLISH},
)


def check_answers(graph: Graph, around: Surroundings) -> None:
    """Checks, of each instruction that reads an answer, that all ways to it come from a wait on its ring without a signal."""
    for at, ring in around.answers_read.items():
        if not _follows_wait(graph, at, around.waits_on.get(ring, set())):
            raise Unreadable(graph.code[at].line, "an answer of the scheduler is read when its place may have been given back")


def _follows_wait(graph: Graph, at: int, waits: set[int]) -> bool:
    seen: set[int] = set()
    work = [(graph.place[at], at)]
    while work:
        number, end = work.pop()
        block = graph.blocks[number]
        last = next((one for one in range(end - 1, block.first - 1, -1) if one in waits or graph.kinds[one] in _SIGNALS), None)
        if last is not None:
            if last not in waits:
                return False
            continue
        before = [one for one in graph.before.get(number, ()) if one not in seen]
        if not graph.before.get(number):
            return False
        seen.update(before)
        work += [(one, graph.blocks[one].last) for one in before]
    return True
