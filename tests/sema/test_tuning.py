"""`tune`: the combinations that there are to choose from."""

from itertools import product

import pytest

from pipec.driver import Compilation, Options, compile_source
from pipec.sema.tree import Tuning
from pipec.source import Source

KERNEL = """
comptime MOST = 256

fn area(rows, columns):
    return rows * columns

kernel scale[T: dtype = f32, BM: int = 64, BN: int = 2 * BM, STAGES: int = 2](x: tensor[T, M, N], y: tensor[T, M, N]):
{tune}
    grid(ceildiv(M, BM), ceildiv(N, BN))
    ring = InputTilePipeline(TilePayload(x=tile[T, BM, BN]), stages=STAGES)

    role load(warps=1) produces ring:
        with ring.produce() as s:
            tma.load(s.x, x[block.x * BM, block.y * BN])

    role compute(warps=4) consumes ring:
        with ring.consume() as s:
            store(y[block.x * BM, block.y * BN], s.x)
"""


def state(tune: str, **constants: object) -> Compilation:
    source = Source("scale.pipe", KERNEL.format(tune="\n".join(f"    {line}" for line in tune.split(";"))))
    return compile_source(source, Options(None, constants), until="limits")


def tuning(tune: str, **constants: object) -> Tuning:
    done = state(tune, **constants)
    assert not done.failed and done.trees, done.diagnostics
    found = done.trees[0].tuning
    assert found is not None
    return found


def test_all_combinations_the_values_in_the_file_first() -> None:
    found = tuning("tune BM in (32, 64), STAGES in (1, 2, 3)")
    assert found.names == ("BM", "STAGES")
    assert found.candidates[0] == (64, 2)
    assert set(found.candidates) == set(product((32, 64), (1, 2, 3))) and len(found.candidates) == found.combinations == 6


def test_the_values_in_the_file_are_a_candidate_in_any_case() -> None:
    assert tuning("tune STAGES in (3, 4) where STAGES > 3").candidates == ((2,), (4,))


def test_where_sees_the_file_and_parameters_of_the_candidate() -> None:
    found = tuning("tune BM in (16, 32, 64, 128) where area(BM, 2) <= MOST // 2")
    assert set(found.candidates) == {(16,), (32,), (64,)}
    # The default of BN is made of BM: it follows the candidate.
    assert set(tuning("tune BM in (16, 32, 64, 128) where BN < 128").candidates) == {(64,), (16,), (32,)}


def test_statements_multiply_and_every_condition_counts() -> None:
    found = tuning("tune BM in (32, 64) where BM * STAGES > 32;tune STAGES in (1, 2) where STAGES < 3")
    assert found.combinations == 4 and set(found.candidates) == {(64, 2), (32, 2), (64, 1)}


def test_element_types_and_long_lists_in_several_lines() -> None:
    assert tuning("tune T in (f32, bf16), BM in (32,;        64)").combinations == 4


def test_what_is_set_from_outside_is_not_tuned() -> None:
    found = tuning("tune BM in (32, 64), STAGES in (1, 2, 3)", BM="16")
    assert found.names == ("STAGES",) and found.candidates == ((2,), (1,), (3,))
    everything = tuning("tune BM in (32, 64) where BM < 64", BM=80)
    assert everything.names == () and everything.candidates == ((),)
    # The condition was not written for what is set from outside.
    assert tuning("tune BM in (32, 64), STAGES in (1, 2) where BM < 64", BM=80).candidates == ((2,),)


def test_tune_is_a_word_of_the_language_and_where_is_not() -> None:
    assert state("comptime where = 3;tune BM in (32, 64) where BM > 0").failed is False
    assert state("comptime tune = 3").diagnostics[0].code.startswith("E01")


def test_a_kernel_without_it_has_no_tuning() -> None:
    done = state("pass")
    assert done.trees and done.trees[0].tuning is None


def test_a_parameter_whose_default_is_wrong_is_reported_once() -> None:
    source = Source("scale.pipe", KERNEL.format(tune="    tune BM in (32, 64)").replace("BM: int = 64", "BM: int = nowhere"))
    assert [one.code for one in compile_source(source, Options(), until="limits").diagnostics] == ["E0201"]


@pytest.mark.parametrize("count", [22, 23])
def test_the_budget_of_combinations(count: int) -> None:
    values = ", ".join(str(8 * number) for number in range(1, count + 1))
    done = state(f"tune BM in ({values}), BN in ({values})")
    assert [one.code for one in done.diagnostics] == ([] if count**2 <= 512 else ["E0283"])
