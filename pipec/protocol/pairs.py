"""Which barriers are the two sides of a pipeline."""

from collections.abc import Sequence

from pipec.protocol.judgement import Side
from pipec.verify.network import Arrive, Network


def pairs_of(network: Network, sides: Sequence[Side]) -> tuple[tuple[int, int], ...]:
    """Per pipeline the rings of its full and empty barriers; a side may have several, for CTAs with different behaviour."""
    ring_of = {(ring.instances[0], ring.ranks): number for number, ring in enumerate(network.rings) if ring.kind == "mbarrier"}
    ranks = sorted({ring.ranks for ring in network.rings})
    offset = {(one.pipeline, one.side): one.offset for one in sides}
    used = _used(network)
    pairs = []
    for pipeline in dict.fromkeys(one.pipeline for one in sides):
        for each in ranks:
            full = ring_of.get((offset.get((pipeline, "full"), -1), each))
            empty = ring_of.get((offset.get((pipeline, "empty"), -1), each))
            if full is None or empty is None or full not in used:
                continue
            # A reader in another CTA of the cluster releases there.
            if empty in used or len(ranks) == 1:
                pairs.append((full, empty))
    return tuple(pairs)


def _used(network: Network) -> set[int]:
    """The rings at which anything arrives: barriers in one CTA of a pair may be unused."""
    actions = (state.action for process in network.processes for state in process.states)
    return {action.use.ring for action in actions if isinstance(action, Arrive)}
