"""A training step of attention, simulated: forward, the sums of the rows, and the kernels of the gradients, against float64 NumPy.

The gradients in NumPy are held to differences of the output itself. Allowed, relative to a gradient's largest value: 2**-7 for
probabilities, their gradients and the results, each rounded to bfloat16, of which the errors of a row mostly cancel.
"""

from collections.abc import Callable

import ml_dtypes
import numpy as np
import pytest
from examples.catalogue import EXAMPLES, Case, compiled

from pipec.runtime import launch

SCALE = 0.125
HEADS, KEPT, QUERIES, KEYS = 4, 2, 136, 136


def attention(q: np.ndarray, k: np.ndarray, v: np.ndarray, causal: bool) -> tuple[np.ndarray, np.ndarray]:
    """The output and the probabilities, of as many heads of keys as of queries."""
    scores = q @ k.mT * SCALE
    if causal:
        queries, keys = np.indices(scores.shape[1:])
        scores = np.where(keys <= queries, scores, -np.inf)
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    weights /= weights.sum(-1, keepdims=True)
    return weights @ v, weights


def gradients(q: np.ndarray, k: np.ndarray, v: np.ndarray, dout: np.ndarray, causal: bool) -> dict[str, np.ndarray]:
    out, weights = attention(q, k, v, causal)
    scores = weights * (dout @ v.mT - (out * dout).sum(-1, keepdims=True)) * SCALE
    return {"dq": scores @ k, "dk": scores.mT @ q, "dv": weights.mT @ dout}


def drawn(size: int) -> dict[str, np.ndarray]:
    generator = np.random.default_rng(size)
    lengths = {"q": (HEADS, QUERIES), "dout": (HEADS, QUERIES), "k": (KEPT, KEYS), "v": (KEPT, KEYS)}
    return {name: generator.standard_normal((*shape, size)).astype(ml_dtypes.bfloat16) for name, shape in lengths.items()}


def shared(drawings: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """In float64, with a copy of each head of keys for each head of queries that shares it."""
    wide = {name: array.astype(np.float64) for name, array in drawings.items()}
    return {name: np.repeat(array, HEADS // KEPT, axis=0) if name in ("k", "v") else array for name, array in wide.items()}


@pytest.mark.parametrize("causal", [False, True], ids=["all", "causal"])
def test_the_gradients_in_numpy_are_those_of_the_output(causal: bool) -> None:
    given = shared(drawn(16))
    found = gradients(**given, causal=causal)
    generator, step = np.random.default_rng(1), 1e-5
    for name in ("q", "k", "v"):
        way = generator.standard_normal(given[name].shape)
        above, below = (
            (attention(**{one: given[one] + (sign * step * way if one == name else 0) for one in "qkv"}, causal=causal)[0])
            for sign in (1, -1)
        )
        slope = ((above - below) * given["dout"]).sum() / (2 * step)
        assert slope == pytest.approx((found[f"d{name}"] * way).sum(), rel=1e-6)


Launch = Callable[[str, str, dict[str, str], dict[str, object]], None]


def launches(device: str) -> Launch:
    """Of a kernel of an example, on a GPU or in the simulator, which warns of nothing."""

    def launched(stem: str, kernel: str, constants: dict[str, str], arguments: dict[str, object]) -> None:
        compilation = compiled(Case(EXAMPLES / f"{stem}.pipe", tuple(constants.items())))
        plan = next(plan for plan in compilation.plans or [] if plan.kernel.name == kernel)
        result = launch(plan.interface, compilation.ptx or "", arguments, device=device)
        assert device != "sim" or (result.simulation is not None and result.simulation.warnings == [])

    return launched


def forward(
    launched: Launch, stem: str, given: dict[str, np.ndarray], constants: dict[str, str]
) -> tuple[np.ndarray, np.ndarray]:
    """The output and the logarithms of its sums."""
    out, lse = np.full_like(given["q"], 7), np.full((HEADS, QUERIES), 7, np.float32)
    rows = {"q": given["q"], "k": given["k"], "v": given["v"]}
    launched(stem, stem, constants, {**rows, "lengths": np.ones(1, np.int32), "out": out, "lse": lse, "scale": SCALE})
    return out, lse


def in_three(
    launched: Launch, given: dict[str, np.ndarray], constants: dict[str, str], out: np.ndarray, inner: dict[str, object]
) -> None:
    """By attention_sm90_backward.pipe: a kernel for the sums, one for keys and values, one for queries."""
    stem = "attention_sm90_backward"
    sums = np.full((HEADS, QUERIES), 7, np.float32)
    launched(stem, f"{stem}_sums", constants, {"dout": given["dout"], "out": out, "sums": sums})
    results = {name: inner.pop(name) for name in ("dq", "dk", "dv")}
    launched(stem, f"{stem}_keys", constants, {**inner, "sums": sums, "dk": results["dk"], "dv": results["dv"]})
    launched(stem, f"{stem}_queries", constants, {**inner, "sums": sums, "dq": results["dq"]})


def fused(
    launched: Launch, given: dict[str, np.ndarray], constants: dict[str, str], out: np.ndarray, inner: dict[str, object]
) -> None:
    """By attention_sm90_backward_fused.pipe: one kernel for all gradients, between one for the sums and one that rounds."""
    stem, size, block = "attention_sm90_backward_fused", given["q"].shape[-1], 64 if given["q"].shape[-1] == 64 else 48
    sums = np.full((HEADS, QUERIES), 7, np.float32)
    parts = np.full((HEADS, -(-QUERIES // block), size, block), np.nan, np.float32)
    launched(stem, f"{stem}_sums", constants, {"dout": given["dout"], "out": out, "sums": sums, "parts": parts})
    dq = inner.pop("dq")
    launched(stem, stem, constants, {**inner, "sums": sums, "parts": parts})
    launched(stem, f"{stem}_round", constants, {"parts": parts, "dq": dq, "scale": SCALE})


def on_blackwell(
    launched: Launch, given: dict[str, np.ndarray], constants: dict[str, str], out: np.ndarray, inner: dict[str, object]
) -> None:
    """By attention_backward.pipe: one kernel for all gradients, between one for the sums and one that rounds."""
    stem = "attention_backward"
    sums = np.full((HEADS, QUERIES), 7, np.float32)
    total = np.full(given["q"].shape, 7, np.float32)
    launched(stem, f"{stem}_sums", constants, {"dout": given["dout"], "out": out, "sums": sums, "total": total})
    dq = inner.pop("dq")
    launched(stem, stem, constants, {**inner, "sums": sums, "total": total})
    launched(stem, f"{stem}_round", constants, {"total": total, "dq": dq, "scale": SCALE})


@pytest.mark.sample(0.01)
@pytest.mark.parametrize("size", [64, 128])
@pytest.mark.parametrize("causal", [False, True], ids=["all", "causal"])
@pytest.mark.parametrize("backward", [in_three, fused, on_blackwell])
def test_a_step_of_training(backward: Callable, size: int, causal: bool) -> None:
    check(backward, size, causal, device="sim")


def check(backward: Callable, size: int, causal: bool, device: str) -> None:
    given, launched = drawn(size), launches(device)
    constants = {"D": str(size), "CAUSAL": str(causal).lower()}
    if backward is on_blackwell:
        out, lse = forward(launched, "attention", given, constants)
    else:
        out, lse = forward(launched, "attention_sm90_persistent", given, {**constants, "BLOCKS": "4"})
    results = {name: np.full_like(given[name[1:]], 7) for name in ("dq", "dk", "dv")}
    backward(launched, given, constants, out, {**given, "lse": lse, "scale": SCALE, **results})

    expected = gradients(**shared(given), causal=causal)
    for name in ("dk", "dv"):  # of a head that is shared: the sum over those that share it
        expected[name] = expected[name].reshape(KEPT, HEADS // KEPT, KEYS, size).sum(1)
    for name, result in results.items():
        error = np.abs(result.astype(np.float64) - expected[name]).max()
        assert error <= 2.0**-7 * np.abs(expected[name]).max(), name
