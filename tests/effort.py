"""What a test need not take to its end: proofs that are not found soon, and cases behind those that it needs."""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from itertools import islice
from typing import Any

import pytest

from pipec.protocol import ways
from pipec.protocol.effort import Effort
from pipec.protocol.prove import prove
from pipec.verify.checker.certificate import Certificate
from pipec.verify.network import Network

STEPS = 300_000  # of each search; nearly all that is proved at all takes fewer


def give_up_soon(monkeypatch: pytest.MonkeyPatch, steps: int = STEPS, *, refuting: bool = True) -> None:
    """What is not proved soon takes the search to its end, which nothing is learnt from. `refuting`: deadlocks are looked for."""

    # The judge passes an effort of its own, which would take the place of one that is bound here.
    def soon(network: Network, effort: Effort | None = None, *given: Any, **named: Any) -> Certificate:
        allowed = steps if effort is None or effort.combinations is None else min(steps, effort.combinations)
        return prove(network, Effort(combinations=allowed), *given, **named)

    monkeypatch.setattr(ways, "prove", soon)
    if not refuting:
        monkeypatch.setattr(ways, "refute", lambda *_, **__: (None, 0))
        monkeypatch.setattr(ways, "refute_by_memory", lambda *_: (None, True))


@contextmanager
def given_up_soon(steps: int = STEPS, *, refuting: bool = True) -> Iterator[None]:
    """The same for a part of a test."""
    with pytest.MonkeyPatch.context() as patch:
        give_up_soon(patch, steps, refuting=refuting)
        yield


def reached(count: int, outcomes: Iterable[object]) -> bool:
    """Whether so many of them hold; those behind are not computed."""
    return sum(1 for _ in islice(filter(None, outcomes), count)) == count
