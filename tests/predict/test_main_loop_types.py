"""Main loops of other operand types: each row of the B200 table that has an instruction is a kernel with a time."""

from pathlib import Path

import pytest

from benchmarks.prediction.main_loop_types import TYPES, Row, has_instruction, predicted, rows_of, with_type
from benchmarks.prediction.predict import DATA

TABLE = list(rows_of(DATA / "b200_main_loop_bf16.csv"))


def of_type(name: str) -> list[Row]:
    return [row for row in (with_type(row, name) for row in TABLE) if has_instruction(row)]


@pytest.mark.parametrize(("name", "count"), [("BF16", 351), ("TF32", 351), ("FP8", 351), ("MXFP8", 69), ("NVFP4", 165)])
def test_rows_that_an_instruction_multiplies(name: str, count: int) -> None:
    """One CTA has no block-scaled instruction of 64 rows, and TMA brings four factors of a row at a time."""
    assert len(of_type(name)) == count


@pytest.mark.parametrize("name", ["TF32", "FP8"])
def test_time_depends_on_bytes_of_k(name: str) -> None:
    """An instruction multiplies 32 bytes of K, in as many cycles for each type, but for the 0.27 that 8 bits save (device.py)."""
    for wide, narrow in list(zip(TABLE, of_type(name), strict=True))[2::31]:
        assert predicted(narrow).seconds == pytest.approx(predicted(wide).seconds, rel=0.012)


@pytest.mark.parametrize(("name", "plain"), [("MXFP8", "FP8"), ("NVFP4", "FP8")])
def test_factors_take_time_and_never_save_any(name: str, plain: str) -> None:
    for row in of_type(name)[1::17]:
        without = predicted(with_type(row, plain)).seconds
        assert without < predicted(row).seconds < 2.2 * without


def test_times_of_a_table_are_read_as_they_stand(tmp_path: Path) -> None:
    table = tmp_path / "rows.csv"
    table.write_text("M,N,K,TILE_M,TILE_N,TILE_K,STAGES,dtype,time_ms,TFLOPS\n128,64,131072,128,64,128,4,FP8,0.5,1\n")
    (row,) = rows_of(table)
    assert row == Row("FP8", 128, 64, 131072, 128, 4, 0.0005) and TYPES[row.type].element == "e4m3"
    assert row.stage_bytes == 192 * 128 + 16 and 1e-4 < predicted(row).seconds < 1e-3
