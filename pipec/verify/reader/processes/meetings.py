"""How often a thread has synchronised with all others at `bar.sync 0`."""

from pipec.verify.reader.flow.graph import EXIT
from pipec.verify.reader.flow.slice import Flow
from pipec.verify.reader.text.opcodes import Kind

MANY = -1  # not the same on all paths


def meets(flow: Flow, at: int) -> bool:
    one = flow.code[at]
    return flow.kinds[at] is Kind.SYNC and one.operands == ("0",) and one.predicate is None


def meetings_before(flow: Flow) -> dict[int, int]:
    """By instruction."""
    begins, work = {0: 0}, [0]
    meeting = {at for at in flow.graph.notable if meets(flow, at)}
    found: dict[int, int] = {}
    while work:
        block = flow.graph.blocks[work.pop()]
        count = begins[block.number]
        for at in range(block.first, block.last):
            found[at] = count
            if count != MANY and at in meeting:
                count += 1
        for after in block.next:
            if after == EXIT:
                continue
            joined = count if begins.get(after, count) == count else MANY
            if begins.get(after) != joined:
                begins[after] = joined
                work.append(after)
    return found
