"""Queries consider only the inequalities connected with them: these are the ones that a search through all of them finds."""

import random

import pytest

from pipec.protocol.deduction.premises import Premises
from pipec.protocol.deduction.rows import Row, Terms


def _row(rng: random.Random, variables: int) -> Row:
    asked = sorted(rng.sample(range(variables), rng.randint(1, 3)))
    return rng.randint(0, 9), tuple((variable, rng.choice((-2, -1, 1, 2))) for variable in asked)


def _connected(least: dict[Terms, int], asked: Terms) -> dict[Terms, int]:
    reached, found = {variable for variable, _ in asked}, dict[Terms, int]()
    while more := {terms: least[terms] for terms in least if terms not in found and reached & {each for each, _ in terms}}:
        found |= more
        reached |= {each for terms in more for each, _ in terms}
    return found


@pytest.mark.parametrize("seed", range(40))
def test_connected_inequalities(seed: int) -> None:
    rng = random.Random(seed)
    premises, copies = Premises(), list[Premises]()
    for _ in range(60):
        what = rng.random()
        if what < 0.5:
            premises.at_least(_row(rng, 24))
        elif what < 0.6:
            premises.equal(_row(rng, 24))
        elif what < 0.7:
            copies.append(premises)
            premises = premises.copy()
        for one in (premises, *copies[-2:]):
            asked = _row(rng, 24)[1]
            assert one._near(asked) == _connected(one.least, asked)
