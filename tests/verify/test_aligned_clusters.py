"""The barrier of a cluster: lanes of a warp that have parted may come to it one by one, but not to an `.aligned` instruction; and a thread
waits for it between two arrivals."""

import pytest

from tests.verify.test_exited_threads import PAIR, judged

PARTED = "\t@%p2 bra $A;\n\t{0}\n\tbra $B;\n$A:\n\t{0}\n$B:\n\tbar.warp.sync -1;\n\t{1}\n"
# By the body, whether it is proved; %p2 holds in half of the lanes.
BODIES = {
    "barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;": True,
    "@%p2 bra $A; nanosleep.u32 20; $A: barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;": True,
    PARTED.format("barrier.cluster.arrive;", "barrier.cluster.wait;"): True,
    PARTED.format("barrier.cluster.arrive;", "barrier.cluster.wait.aligned;"): True,
    PARTED.format("barrier.cluster.arrive.aligned;", "barrier.cluster.wait.aligned;"): False,
    PARTED.format("barrier.cluster.arrive.relaxed.aligned;", "barrier.cluster.wait;"): False,
    PARTED.format("barrier.cluster.arrive; barrier.cluster.wait.aligned;", ""): False,
    "@%p2 barrier.cluster.arrive.aligned; @!%p2 barrier.cluster.arrive.aligned; barrier.cluster.wait;": False,
}


@pytest.mark.parametrize("body", BODIES)
def test_lanes_come_together_to_an_aligned_instruction(body: str) -> None:
    assert (judged(body, PAIR).certificate is not None) is BODIES[body]


ARRIVE, WAIT = "barrier.cluster.arrive;", "barrier.cluster.wait;"
# By what one warp does while the other exits, which counts as all of its arrivals: whether it is proved.
ALONE = {
    f"{ARRIVE} {WAIT}": True,
    f"{ARRIVE} {WAIT} {ARRIVE} {WAIT}": True,
    ARRIVE: True,
    f"{ARRIVE} {ARRIVE} {WAIT}": False,
    f"{ARRIVE} {WAIT} {ARRIVE} {ARRIVE}": False,
    f"{WAIT} {ARRIVE}": False,
    f"setp.eq.u32 %p7, %r2, 3; @%p7 bra $L; {ARRIVE} $L: {ARRIVE} {WAIT}": False,
}


@pytest.mark.parametrize("body", ALONE)
def test_arrivals_and_waits_alternate(body: str) -> None:
    assert (judged(f"@%p1 bra $END; {body}", PAIR).certificate is not None) is ALONE[body]
