"""Forms that grow large are folded up; what is not decided so is read with another limit, and the checker takes either."""

import re
from pathlib import Path

import pytest

from pipec.driver import Options, compile_source
from pipec.protocol.judge import judge
from pipec.source import Source
from pipec.verify.accept import accept
from pipec.verify.checker.configuration import Refused
from pipec.verify.document import Proof
from pipec.verify.reader.read import read, readings_of
from pipec.verify.reader.values.arithmetic import LIMITS

EXAMPLES = Path(__file__).parents[2] / "examples"
# What one limit, or the other, leaves open: quotients by 7 of a block's place, and tiles of 192 rows.
DIVIDED = ("gemm_split_k", {"SPLITS": 7})
KERNELS = [
    DIVIDED,
    ("gemm_sm90_split_k", {"SPLITS": 7}),
    ("gemm_split_k_serial", {"SPLITS": 7}),
    ("gemm_sm90_persistent", {"BM": 192, "BN": 160}),
    ("gemm_sm90_persistent", {"BM": 192, "BN": 96}),
]


def compiled(name: str, constants: dict[str, int]) -> tuple[str, Proof]:
    state = compile_source(Source(name, (EXAMPLES / f"{name}.pipe").read_text()), Options(constants=constants))
    assert state.ptx is not None and not state.failed
    (proof,) = state.certificates.values()
    return state.ptx, proof


@pytest.mark.parametrize(("name", "constants"), KERNELS)
def test_neither_limit_is_a_cliff(name: str, constants: dict[str, int]) -> None:
    ptx, proof = compiled(name, constants)
    assert accept(ptx, proof).kernel == proof.certificate.kernel


def test_another_limit_is_read_only_where_it_makes_a_difference() -> None:
    ptx, _ = compiled(*DIVIDED)
    first, second = readings_of(ptx)
    assert [first.arithmetic.limit, second.arithmetic.limit] == [*LIMITS]
    assert first.network != second.network == read(ptx, None, LIMITS[1])
    small, _ = compiled("elementwise", {})
    assert len([*readings_of(small)]) == 1


def test_a_proof_of_another_text_is_refused_with_both() -> None:
    ptx, proof = compiled(*DIVIDED)
    wrong, waits = re.subn(r"(try_wait\.parity\S+ \t?%p\d+, \[[^]]+\]), %r\d+;", r"\1, 0;", ptx)
    assert waits
    with pytest.raises(Refused):
        accept(wrong, proof)


def test_a_condition_that_no_launch_can_check_decides_nothing() -> None:
    ptx, _ = compiled(*DIVIDED)
    unasked = judge(ptx, "gemm_split_k")
    assert unasked.certificate is not None and unasked.certificate.assumes
    assert not judge(ptx, "gemm_split_k", asked=lambda assumed: not assumed).certificate.assumes  # type: ignore[union-attr]
