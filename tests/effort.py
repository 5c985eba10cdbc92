"""Proofs that are not found soon are given up."""

from functools import partial

import pytest

from pipec.protocol import judge
from pipec.protocol.effort import Effort
from pipec.protocol.prove import prove


def give_up_soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nearly all that is proved at all is proved soon; what is not takes the search to its end, which nothing is learnt from."""
    monkeypatch.setattr(judge, "prove", partial(prove, effort=Effort(visits=200, runs=120)))
