"""Loops of two roles that turn equally often at most sizes: the sizes at which they do not are found, wherever they lie."""

import pytest
from protocol.test_refute import judged, told

# Of the producer and the consumer: rounding down and up, off by one beside and at multiples, and far from the smallest sizes.
_BOUNDS = [
    ("M // 64", "ceildiv(M, 64)"),
    ("ceildiv(M, 64)", "M // 64"),
    ("ceildiv(M, 64)", "(M + 62) // 64"),
    ("ceildiv(M, 64)", "(M + 64) // 64"),
    ("ceildiv(M, 64)", "ceildiv(M, 96)"),
    ("(M + 16) // 32", "ceildiv(M, 32)"),
    ("min(M, 1000)", "M"),
    ("min(M // 64, 100)", "M // 64"),
    ("min(n, 40) + M // 64", "n + ceildiv(M, 64)"),
    ("n + 1", "max(n, 0) + 1"),
    ("min(n, 0) + 2", "2"),
    ("n % 64 + 2", "(n if n > 0 else n % 64 + 1) % 64 + 2"),
]


def _at(bound: str, sizes: dict[str, int]) -> int:
    return eval(bound, {"ceildiv": lambda one, other: -(-one // other), "min": min, "max": max}, sizes)


@pytest.mark.parametrize("bounds", _BOUNDS, ids=" and ".join)
def test_sizes_at_which_loops_differ_are_found(bounds: tuple[str, str]) -> None:
    produced, consumed = bounds
    ((code, title),) = told(judged(f"for i in range({produced}):\n    FILL", f"for i in range({consumed}):\n    TAKE"))
    assert code in ("E0601", "E0602"), title
    sizes = {name: int(number) for name, number in (one.split(" = ") for one in title.partition(" when ")[2].split(", "))}
    sizes = {"M": 0, "n": 0} | sizes
    assert _at(produced, sizes) != _at(consumed, sizes)


@pytest.mark.parametrize(
    "bounds", [("(M + 63) // 64", "ceildiv(M, 64)"), ("min(M, 1000)", "min(1000, M)"), ("n", "max(n, 0)")], ids=" and ".join
)
def test_loops_that_never_differ_are_not_refused(bounds: tuple[str, str]) -> None:
    produced, consumed = bounds
    assert told(judged(f"for i in range({produced}):\n    FILL", f"for i in range({consumed}):\n    TAKE")) == []
