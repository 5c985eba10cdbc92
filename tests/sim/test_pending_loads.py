"""Registers that a tcgen05.ld may still be loading."""

from __future__ import annotations

from pipec.sim.instructions.tensor.pending_loads import pending_at


def test_what_is_pending_is_found_in_one_pass() -> None:
    """Kernels of other compilers have hundreds of loads in a row; a loop behind them is passed twice."""
    visited: list[int] = []
    ends, again = 500, 400  # the last instruction goes back to this one
    successors = [[index + 1] for index in range(ends)] + [[again, ends + 1]] + [[]]

    def after(index: int, before: int) -> int:
        visited.append(index)
        return before | 1 << index

    pending = pending_at(range(ends + 1), successors, after)
    assert len(visited) == ends + 2 + (ends + 1 - again)
    assert pending[again] == (1 << ends + 1) - 1 and pending[1] == 1
