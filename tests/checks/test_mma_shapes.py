"""The tables of MMA shapes say what hardware.md 3.1 does."""

from pipec.checks.tiles import mma
from pipec.isa.dtypes import DTYPES


def test_columns_of_integers_are_multiples_of_16_from_32_on() -> None:
    one, pair = mma._INTEGER_COLUMNS
    assert one == tuple(n for n in range(8, 257, 8) if n <= 24 or n % 16 == 0 and n >= 32)
    assert pair == tuple(n for n in range(1, 257) if n % 32 == 0)


def test_columns_of_other_types_are_multiples_of_8_and_of_16_in_a_pair() -> None:
    one, pair = mma._COLUMNS
    assert one == tuple(n for n in range(1, 257) if n % 8 == 0)
    assert pair == tuple(n for n in range(1, 257) if n % 16 == 0)


def test_columns_of_transposed_bytes_are_multiples_of_16_and_of_32_in_a_pair() -> None:
    for group, step in ((1, 16), (2, 32)):
        columns, rule = mma._column_rule(DTYPES["e4m3"], transposed=True, group=group)
        assert columns == tuple(n for n in range(1, 257) if n % step == 0) and f"a multiple of {step} from {step}" in rule
