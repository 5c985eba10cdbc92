"""How much of what is right is proved: random networks of the kinds that kernels are made of."""

from collections import Counter

from samples import volume

from pipec.protocol.prove import Undecided, prove
from pipec.protocol.refuting.refute import refute
from pipec.verify.checker.check import check
from tests.protocol.right import KINDS, right

_EACH = volume(2, 4)


def test_random_right_networks_are_proved() -> None:
    """What is proved is accepted by the checker, and nothing is refuted."""
    proved: Counter[str] = Counter()
    for seed in range(_EACH * len(KINDS)):
        kind, network = right(seed)
        try:
            check(network, prove(network))
        except Undecided:
            assert refute(network)[0] is None, (kind, seed)
        else:
            proved[kind] += 1
    lacking = {kind.__name__: proved[kind.__name__] for kind in KINDS if proved[kind.__name__] < _EACH}
    assert not lacking
