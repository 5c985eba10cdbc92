"""Tables of measured tiles: what is written is read, what is broken is told, and which row a call takes."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipec.tune.table import Row, TableError, bucket, found, merged, parsed, rendered


def row(m: int, values: str = "BM=64", device: str = "NVIDIA H200", kernel: str = "gemm", time: float = 10.0) -> Row:
    pairs = tuple((name, value) for name, _, value in (word.partition("=") for word in values.split()))
    return Row(device, kernel, (("K", 64), ("M", m)), pairs, time, 12.0)


def test_a_table_is_read_as_it_was_written() -> None:
    rows = [row(512), row(64, "BM=128 T=bf16", kernel="gemm[AB=e4m3 X=1]"), row(64, device="NVIDIA B200")]
    assert sorted(map(str, parsed(rendered(rows)))) == sorted(map(str, rows))
    assert rendered(parsed(rendered(rows))) == rendered(rows)


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        ("NVIDIA H200 | gemm | M=4 | BM=4 | 1.0", "5 cells"),
        (" | gemm | M=4 | BM=4 | 1.0 | 1.0", "cells"),
        ("H | gemm | M=4 M=5 | BM=4 | 1.0 | 1.0", "twice"),
        ("H | gemm | M=-4 | BM=4 | 1.0 | 1.0", "no size"),
        ("H | gemm | M=٤ | BM=4 | 1.0 | 1.0", "no size"),
        ("H | gemm | M=99999999999 | BM=4 | 1.0 | 1.0", "no size"),
        ("H | gemm | M=4 | BM:4 | 1.0 | 1.0", "NAME=VALUE"),
        ("H | gemm | M=4 | BM=__import__('os') | 1.0 | 1.0", "NAME=VALUE"),
        ("H | gemm | M=4 | BM=4 | fast | 1.0", "microseconds"),
        ("H | gemm | M=4 | BM=4 | nan | 1.0", "microseconds"),
        ("H | gemm | M=4 | BM=4 | 1.0 | -1", "microseconds"),
    ],
)
def test_a_line_that_is_no_row_is_named(line: str, problem: str) -> None:
    with pytest.raises(TableError, match=problem) as told:
        parsed(f"# head\n\n{line}\n")
    assert told.value.line == 3


@given(st.text(max_size=200))
def test_any_text_is_a_table_or_an_error(text: str) -> None:
    try:
        parsed(text)
    except TableError as error:
        assert error.line >= 1


@given(st.integers(0, 2**31))
def test_buckets(size: int) -> None:
    """At least as large as the size, by a quarter at most; the bucket's own size is in it; larger sizes are in no smaller bucket."""
    most = bucket(size)
    assert size <= most and bucket(most) == most and bucket(size + 1) >= most
    assert most <= max(size * 2 if size <= 16 else size * 1.25, 1)


def test_exact_sizes_win_over_near_ones_and_near_ones_share_a_bucket() -> None:
    rows = [row(1000, "BM=1"), row(1010, "BM=2"), row(2000, "BM=3")]
    take = lambda m, **other: found(rows, other.get("device", "NVIDIA H200"), other.get("kernel", "gemm"), {"M": m, "K": 64})
    assert take(1000) == rows[0] and take(1010) == rows[1] and take(1015) == rows[1] and take(1001) == rows[0]
    assert take(700) is None and take(3000) is None
    assert take(1000, device="NVIDIA H100") is None and take(1000, kernel="other") is None
    assert found(rows, "NVIDIA H200", "gemm", {"M": 1000}) is None


def test_new_rows_replace_those_of_the_same_sizes() -> None:
    assert merged([row(64, "BM=1"), row(32)], [row(64, "BM=2")]) == [row(64, "BM=2"), row(32)]
