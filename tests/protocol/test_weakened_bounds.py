"""Inequalities that are taken up of a situation, and how much weaker they may become."""

import pytest

from pipec.protocol.search.invariants import Facts


@pytest.mark.parametrize("factor", [1, 3, 1 << 20])
def test_bounds_are_weakened_to_near_what_is_written(factor: int) -> None:
    """Whatever the common factor of the coefficients: a constant of another unit would be far away, and all in between would be tried."""
    facts = Facts((0,), points=[{0: -1000}])
    facts.propose([(1000 * factor, ((0, factor),))], [])
    assert facts.bounds == {((0, 1),): 1000} and set(facts.options[((0, 1),)]) <= {*range(998, 1004)}
