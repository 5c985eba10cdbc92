"""A grid is made of whole clusters: the number of a cluster, and how many there are, may be read or computed of the blocks'."""

import re
from pathlib import Path

import pytest

from pipec.protocol.judge import judge
from pipec.verify.network import Unreadable
from pipec.verify.reader.read import read

GOLDEN = Path(__file__).parents[1] / "golden"
TEXT = (GOLDEN / "gemm_2cta_persistent.ptx").read_text()
NUMBER = re.compile(r"mov\.u32 \t(%r\d+), %(n?)ctaid\.x;\n\tshr\.u32 \t(%r\d+), \1, 1;\n")


def test_either_is_read_alike() -> None:
    registers, found = NUMBER.subn(r"mov.u32 \t\3, %\2clusterid.x;\n\n", TEXT)  # on as many lines
    assert found == 6
    assert read(registers) == read(TEXT)


@pytest.mark.parametrize(
    "wrong",
    [
        pytest.param(r"mov.u32 \t\3, %\2ctaid.x;", id="blocks"),
        pytest.param(r"mov.u32 \t\1, %\2ctaid.x;\n\tshr.u32 \t\3, \1, 2;", id="four blocks in a cluster"),
        pytest.param(r"mov.u32 \t\1, %\2ctaid.x;\n\tadd.u32 \1, \1, 2;\n\tshr.u32 \t\3, \1, 1;", id="one more"),
        pytest.param(r"mov.u32 \t\1, %\2ctaid.y;\n\tshr.u32 \t\3, \1, 1;", id="another axis"),
    ],
)
@pytest.mark.parametrize("place", range(6))
def test_another_number_in_one_role_is_not_proved(wrong: str, place: int) -> None:
    """That role does other tiles than the others: its first one is another, or its steps are."""
    one = list(NUMBER.finditer(TEXT))[place]
    other = TEXT[: one.start()] + one.expand(wrong) + "\n" + TEXT[one.end() :]
    assert judge(other, "gemm_2cta_persistent").certificate is None


@pytest.mark.parametrize(("operand", "proved"), [("%nctaid.x", True), ("%ctaid.x", False)])
def test_half_a_cluster_more(operand: str, proved: bool) -> None:
    """No grid has it, so that the number of clusters is the same; but of a pair's blocks, one then has the number of the next pair."""
    text = TEXT
    for one in list(NUMBER.finditer(TEXT))[::-1]:
        if f"%{one[2]}ctaid.x" == operand:
            number = f"mov.u32 \t{one[1]}, {operand};\n\tadd.u32 {one[1]}, {one[1]}, 1;\n\tshr.u32 \t{one[3]}, {one[1]}, 1;\n"
            text = text[: one.start()] + number + text[one.end() :]
    assert text != TEXT
    assert (judge(text, "gemm_2cta_persistent").certificate is not None) == proved


@pytest.mark.parametrize(("shape", "ctas"), [("2, 4, 4", 32), ("1, 8, 4", 32), ("2, 0, 1", 0), ("0, 8, 8", 0)])
def test_a_cluster_has_1_to_16_blocks(shape: str, ctas: int) -> None:
    with pytest.raises(Unreadable, match=f"a cluster of {ctas} CTAs"):
        read(re.sub(r"(\.reqnctapercluster) [\d, ]+", rf"\1 {shape}", TEXT))
