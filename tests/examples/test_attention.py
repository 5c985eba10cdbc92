"""The attention kernels against float64 NumPy: head sizes, masks, lengths that are no multiples of the tiles, all timings.

Allowed, with V the largest value: half a unit of the bfloat16 output; 2**-9 V for the probabilities, which are rounded to bfloat16 and
sum to 1, or 2**-8 V where the largest of them need not be 1, which is rounded to itself; 2**-12 V for exp2 of scores rounded to float32
(2 ulp, and 2**-24 of a score up to 32) and the order of the sums.
"""

import ml_dtypes
import numpy as np
import pytest
from examples.catalogue import ATTENTION, EXAMPLES, Case, cases, compiled
from samples import volume

from pipec.reference import compare, expected_values, precision_of, reference_lines, shape_sets
from pipec.runtime import LaunchOptions, launch
from pipec.sim import Options as Simulation

CASES = [case for case in cases() if case.path.stem in ATTENTION]
# One block of keys and one query; two blocks of queries; more blocks of keys than stages; fewer keys than a block.
SHAPES = [(1, 1, 1), (1, 300, 64), (2, 130, 330), (1, 257, 63)]


def expected_output(q: np.ndarray, k: np.ndarray, v: np.ndarray, scale: float, causal: bool) -> np.ndarray:
    q, k, v = (array.astype(np.float64) for array in (q, k, v))
    scores = q @ k.swapaxes(1, 2) * scale
    if causal:
        queries, keys = np.indices(scores.shape[1:])
        scores = np.where(keys <= queries, scores, -np.inf)
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    return weights / weights.sum(-1, keepdims=True) @ v


def drawn(case: Case, heads: int, queries: int, keys: int, scale: float) -> dict:
    """Arguments; the output is filled with what the kernel must overwrite."""
    size = int(dict(case.constants).get("D", 64))
    generator = np.random.default_rng(heads + queries + keys)
    q, k, v = (generator.standard_normal((heads, length, size)).astype(ml_dtypes.bfloat16) for length in (queries, keys, keys))
    given = {"q": q, "k": k, "v": v, "out": np.full((heads, queries, size), 7, ml_dtypes.bfloat16), "scale": scale}
    more = {"lengths": np.ones(1, np.int32), "lse": np.full((heads, queries), 7, np.float32)}
    return given | (more if case.path.stem == "attention" else {})


def compare_output(case: Case, given: dict) -> None:
    """With the reference above; and as `pipec run` does, by the docstring's line."""
    (plan,) = compiled(case).plans or []
    kernel = plan.kernel
    q, k, v = given["q"], given["k"], given["v"]
    expected = expected_output(q, k, v, given["scale"], dict(case.constants).get("CAUSAL") == "true")
    largest = np.abs(v.astype(np.float64)).max()
    error = np.abs(given["out"].astype(np.float64) - expected)
    rounded = 2.0**-8 if "ENOUGH" in kernel.constants else 2.0**-9
    assert (error <= np.abs(expected) * 2.0**-9 + largest * (rounded + 2.0**-12)).all(), error.max()
    lines = reference_lines(kernel.document)
    stated = expected_values(lines, given, constants=kernel.constants, precision=precision_of(kernel))["out"]
    assert np.abs(stated.value - expected).max() < 1e-6, "the docstring's line"
    assert compare("out", given["out"], stated).passed


def check(case: Case, heads: int, queries: int, keys: int, scale: float, simulation: Simulation) -> None:
    (plan,) = compiled(case).plans or []
    given = drawn(case, heads, queries, keys, scale)
    result = launch(plan.interface, compiled(case).ptx or "", given, device="sim", options=LaunchOptions(simulation))
    assert result.simulation is not None and result.simulation.warnings == []
    compare_output(case, given)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_equals_numpy(case: Case) -> None:
    (plan,) = compiled(case).plans or []
    for values in shape_sets(plan.kernel.document)[-volume(2, 9) :]:  # the largest stands first
        check(case, int(values["H"]), int(values["S"]), int(values["T"]), float(values["scale"]), Simulation())


@pytest.mark.sample(0.4, of="case")
@pytest.mark.parametrize("shape", SHAPES, ids=lambda shape: "x".join(map(str, shape)))
@pytest.mark.parametrize("case", [case for case in CASES if "D" not in dict(case.constants)], ids=lambda case: case.name)
def test_lengths(shape: tuple[int, int, int], case: Case) -> None:
    check(case, *shape, 0.125, Simulation())


@pytest.mark.sample(0.5, of="case")
@pytest.mark.parametrize("timing", ["late", "random"])
@pytest.mark.parametrize(
    "case", [case for case in CASES if dict(case.constants) in ({}, {"D": "128", "CAUSAL": "true"})], ids=lambda case: case.name
)
def test_equals_numpy_whatever_the_timing(case: Case, timing: str) -> None:
    check(case, 1, 200, 200, 0.25, Simulation(timing=timing, seed=7))


@pytest.mark.parametrize("grows", [1, 4, 12])
def test_a_maximum_that_grows(grows: int) -> None:
    """From one block of keys to the next by less and by more than what the output is corrected for, and back; not in all rows."""
    case = next(case for case in CASES if case.path.stem == "attention" and not case.constants)
    (plan,) = compiled(case).plans or []
    given = drawn(case, 1, 150, 500, 0.125)
    given["k"][:, 128:256] *= grows
    given["k"][:, 384:] *= 2 * grows
    launch(plan.interface, compiled(case).ptx or "", given, device="sim")
    compare_output(case, given)


@pytest.mark.parametrize(
    ("stem", "tile"),
    [
        ("attention", {}),
        ("attention", {"CTAS": "2"}),
        ("attention_sm90_persistent", {"BN": "64", "BLOCKS": "1", "GROUP": "3", "BM": "64"}),
        ("attention_sm90_roles", {"BN": "128", "BLOCKS": "1", "GROUP": "3", "GROUPS": "2"}),
    ],
    ids=["attention", "attention-CTAS2", "attention_sm90_persistent", "attention_sm90_roles"],
)
@pytest.mark.parametrize("causal", [False, True], ids=["all", "causal"])
def test_heads_share_keys_and_sequences_have_lengths(causal: bool, stem: str, tile: dict[str, str]) -> None:
    """Two sequences, four heads of queries on two of keys in each; on Hopper one block walks over all tiles, so it goes from length to
    length."""
    case = Case(EXAMPLES / f"{stem}.pipe", tuple({"RAGGED": "true", "CAUSAL": str(causal).lower(), **tile}.items()))
    (plan,) = compiled(case).plans or []
    generator = np.random.default_rng(5)
    lengths = np.array([130, 70], np.int32)
    q, k, v = (generator.standard_normal((heads, 150, 64)).astype(ml_dtypes.bfloat16) for heads in (4, 2, 2))
    given = {"q": q, "k": k, "v": v, "lengths": lengths, "out": np.full(q.shape, 7, ml_dtypes.bfloat16), "scale": 0.125}
    given["lse"] = np.full(q.shape[:2], 7, np.float32)
    rounded = 2.0**-8 if stem == "attention" else 2.0**-9
    launch(plan.interface, compiled(case).ptx or "", given, device="sim")
    for head in range(4):
        kept, seen = slice(head // 2, head // 2 + 1), lengths[head // 2]
        wanted = expected_output(q[head : head + 1], k[kept, :seen], v[kept, :seen], 0.125, causal)[0]
        error = np.abs(given["out"][head].astype(np.float64) - wanted)
        assert (error <= np.abs(wanted) * 2.0**-9 + np.abs(v.astype(np.float64)).max() * (rounded + 2.0**-12)).all(), error.max()
