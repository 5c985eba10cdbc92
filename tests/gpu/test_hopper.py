"""On an sm_90a GPU: what Hopper shares with Blackwell (mbarrier, TMA, the launch path, register arithmetic) runs on silicon.

Each kernel runs on the GPU and in the simulator with the same inputs, and is compared with float64 NumPy; where the arithmetic is exact,
the two must agree bit for bit.
"""

import numpy as np
import pytest
from examples.catalogue import EXAMPLES, VARIANTS
from gpu.gpus import needs_gpu

import pipec
from pipec.reference import compare, expected_values, reference_lines, shape_sets
from pipec.runtime import random_arguments

pytestmark = needs_gpu

ELEMENTWISE = (EXAMPLES / "elementwise.pipe").read_text(encoding="utf-8")


@pytest.mark.parametrize("constants", [{}, *VARIANTS["elementwise"]], ids=str)
def test_elementwise_pipelines(constants: dict[str, str]) -> None:
    program = pipec.compile(ELEMENTWISE, arch="sm_90a", constants=constants)
    kernel = program["scale_shift"]
    document = ELEMENTWISE.split('"""')[1]
    for values in shape_sets(document):
        numbers = {name: float(value) if "." in value else int(value) for name, value in values.items()}
        results = {}
        for device in ("cuda", "sim"):
            arguments = random_arguments(kernel.interface, numbers, seed=3)
            assert kernel(**arguments, device=device).device.startswith(device)
            results[device] = arguments["y"]
            outcome = compare("y", arguments["y"], expected_values(reference_lines(document), arguments)["y"])
            assert outcome.passed, (device, values, outcome)
        assert np.array_equal(results["cuda"].view(np.uint16), results["sim"].view(np.uint16))


COPY = (EXAMPLES / "copy_tma.pipe").read_text(encoding="utf-8")


@pytest.mark.parametrize("constants", [{}, *VARIANTS["copy_tma"]], ids=str)
@pytest.mark.parametrize("shape", [(512, 2048), (200, 1040), (8, 16), (0, 16)], ids=str)
def test_copies_bit_for_bit(constants: dict[str, str], shape: tuple[int, int]) -> None:
    kernel = pipec.compile(COPY, arch="sm_90a", constants=constants)["copy_tma"]
    arguments = random_arguments(kernel.interface, {"M": shape[0], "N": shape[1]}, seed=3)
    expected = arguments["x"].tobytes()
    assert kernel(**arguments, device="cuda").device.startswith("cuda")
    assert arguments["x"].tobytes() == expected and arguments["y"].tobytes() == expected


RMS_NORM = (EXAMPLES / "rms_norm_cluster.pipe").read_text(encoding="utf-8")


@pytest.mark.parametrize("constants", [{}, {"CX": 2}, *VARIANTS["rms_norm_cluster"]], ids=str)
def test_clusters_read_each_others_memory(constants: dict[str, str]) -> None:
    kernel = pipec.compile(RMS_NORM, arch="sm_90a", constants=constants)["rms_norm_cluster"]
    results = {}
    for device in ("cuda", "sim"):
        arguments = random_arguments(kernel.interface, {"M": 200, "N": 200, "epsilon": 0.5}, seed=3)
        assert kernel(**arguments, device=device).device.startswith(device)
        results[device] = arguments["y"]
        outcome = compare("y", arguments["y"], expected_values(reference_lines(RMS_NORM), arguments)["y"])
        assert outcome.passed, (device, outcome)
    assert np.allclose(results["cuda"], results["sim"], rtol=1e-6), "rsqrt differs in its last bits"


FUNCTION = """
kernel apply[T: dtype = f32](x: tensor[f32, M, N], y: tensor[T, M, N], v: tensor[f32, N], w: tensor[f32, M]):
    grid(ceildiv(M, 128), ceildiv(N, 64))
    ring = InputTilePipeline(TilePayload(x=tile[f32, 128, 64]), stages=2)

    role load(warps=1) produces ring:
        with ring.produce() as s:
            tma.load(s.x, x[block.x * 128, block.y * 64])

    role compute(warps=4) consumes ring:
        with ring.consume() as s:
            t = s.x
            c = per_column(v[block.y * 64], 64)
            r = per_row(w[block.x * 128], 128)
            STORE(y[block.x * 128, block.y * 64], cast[T](VALUE))
"""

EXACT = {
    "add": ("t + c * 2.0", lambda t, c, r: t + c * 2),
    "vectors": ("t * r - c", lambda t, c, r: t * r - c),
    "minimum": ("min(t, c)", lambda t, c, r: np.minimum(t, c)),
    "maximum": ("max(t, r)", lambda t, c, r: np.maximum(t, r)),
    "select": ("t if t > c else -t", lambda t, c, r: np.where(t > c, t, -t)),
    "relu": ("relu(t) + abs(c)", lambda t, c, r: np.maximum(t, 0) + np.abs(c)),
    "row_sum": ("row_sum(t) + t * 0.0", lambda t, c, r: np.repeat(t.reshape(t.shape[0], -1, 64).sum(2), 64, 1) + t * 0),
    "row_max": ("row_max(t) + t * 0.0", lambda t, c, r: np.repeat(t.reshape(t.shape[0], -1, 64).max(2), 64, 1) + t * 0),
}
APPROXIMATE = {
    "exp": ("exp(t)", lambda t, c, r: np.exp(t)),
    "exp2": ("exp2(t)", lambda t, c, r: np.exp2(t)),
    "rsqrt": ("rsqrt(abs(t) + 1.0)", lambda t, c, r: 1 / np.sqrt(np.abs(t) + 1)),
    "rcp_approx": ("rcp_approx(abs(t) + 1.0)", lambda t, c, r: 1 / (np.abs(t) + 1)),
    "sigmoid": ("sigmoid(t)", lambda t, c, r: 1 / (1 + np.exp(-t))),
    "tanh": ("tanh(t)", lambda t, c, r: np.tanh(t)),
    "tanh_approx": ("tanh_approx(t)", lambda t, c, r: np.tanh(t)),
    "division": ("t / (abs(c) + 1.0)", lambda t, c, r: t / (np.abs(c) + 1)),
    "whole numbers": (
        "round(t * 9.0) + floor(t) * 64.0 + ceil(t * 3.0)",
        lambda t, c, r: np.rint(t * 9) + np.floor(t) * 64 + np.ceil(t * 3),
    ),
    "sin": ("sin(t * 40.0)", lambda t, c, r: np.sin(t * 40)),
    "cos": ("cos(t * 40.0)", lambda t, c, r: np.cos(t * 40)),
    "gelu": ("gelu(t)", lambda t, c, r: np.vectorize(lambda z: z * 0.5 * (1 + __import__("math").erf(z / 2**0.5)))(t)),
}


def run(value: str, store: str, dtype: str, device: str, m: int, n: int) -> tuple[dict, np.ndarray]:
    kernel = pipec.compile(FUNCTION.replace("VALUE", value).replace("STORE", store), arch="sm_90a", constants={"T": dtype})[
        "apply"
    ]
    generator = np.random.default_rng(5)
    arguments = random_arguments(kernel.interface, {"M": m, "N": n}, seed=5)
    for name in ("x", "v", "w"):
        arguments[name][...] = generator.integers(-8, 9, arguments[name].shape).astype(np.float32) / 4
    kernel(**arguments, device=device)
    return arguments, arguments["y"]


@pytest.mark.parametrize("store", ["store", "store.direct"])
@pytest.mark.parametrize("name", EXACT)
def test_exact_arithmetic_agrees_bit_for_bit(name: str, store: str) -> None:
    value, expected = EXACT[name]
    arguments, on_gpu = run(value, store, "f32", "cuda", 128, 128)
    _, simulated = run(value, store, "f32", "sim", 128, 128)
    reference = expected(
        *(np.asarray(arrays, np.float64) for arrays in (arguments["x"], arguments["v"][None, :], arguments["w"][:, None]))
    )
    assert np.array_equal(on_gpu, reference.astype(np.float32))
    assert np.array_equal(on_gpu.view(np.uint32), simulated.view(np.uint32))


@pytest.mark.parametrize("dtype", ["bf16", "f16", "e4m3", "e5m2", "i8", "i32"])
def test_conversions_agree_bit_for_bit(dtype: str) -> None:
    _, on_gpu = run("t * 37.25 + c", "store.direct", dtype, "cuda", 200, 72)
    _, simulated = run("t * 37.25 + c", "store.direct", dtype, "sim", 200, 72)
    assert on_gpu.tobytes() == simulated.tobytes()


@pytest.mark.parametrize("name", APPROXIMATE)
def test_approximate_functions_stay_within_their_bound(name: str) -> None:
    value, expected = APPROXIMATE[name]
    arguments, on_gpu = run(value, "store", "f32", "cuda", 200, 72)
    _, simulated = run(value, "store", "f32", "sim", 200, 72)
    reference = expected(
        *(np.asarray(arrays, np.float64) for arrays in (arguments["x"], arguments["v"][None, :], arguments["w"][:, None]))
    )
    for found in (on_gpu, simulated):
        assert np.max(np.abs(found - reference) / np.maximum(np.abs(reference), 1e-2)) < 2.0**-10
