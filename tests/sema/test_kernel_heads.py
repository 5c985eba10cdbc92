"""Parameters and their overrides, dimensions, grids, and the names that every role of a kernel sees."""

import pytest
from analysed import BF16, kernel, told, value

from pipec.sema import tree
from pipec.sema.declarations.parameters import parse_override
from pipec.sema.types import I32

# ---------------------------------------------------------------------------------------- parameters, dimensions and grids


@pytest.mark.parametrize(
    ("given", "result"),
    [
        ("128", 128),
        (" 0x10 ", 16),
        ("-3", -3),
        ("0b101", 5),
        ("0.5", 0.5),
        ("1e3", 1000.0),
        ("true", True),
        ("False", False),
        ("bf16", BF16),
        ("bool", "bool"),
        ("what", "what"),
        ("9" * 5000, float("inf")),
        (7, 7),
        (0.25, 0.25),
    ],
)
def test_overrides_are_read(given: object, result: object) -> None:
    found = parse_override(given)
    assert found == result and type(found) is type(result)


def test_overrides_set_parameters() -> None:
    parameters = 'A: int = 1, B: float = 2.0, C: bool = False, D: dtype = f32, E = 3, F: str = "word", G: str = ""'
    overrides = {"A": "5", "B": 4, "C": "true", "D": "bf16", "E": 0.5, "G": "7"}
    constants = kernel(constants=parameters, overrides=overrides).constants
    assert constants == {"A": 5, "B": 4.0, "C": True, "D": BF16, "E": 0.5, "F": "word", "G": "7"}
    assert kernel(constants="A: int", overrides={"A": 1}).constants == {"A": 1}


@pytest.mark.parametrize(
    ("parameter", "overrides"),
    [
        ("A: int = 1", {"A": "0.5"}),
        ("A: int = 1", {"A": True}),
        ("A: float = 1.0", {"A": "true"}),
        ("A: bool = True", {"A": 1}),
        ("A: dtype = f32", {"A": "float"}),
        ("A = 1", {"A": "word"}),
        ('A: str = "word"', {"A": 7}),
        ("A = 1", {"A": None}),
        ("A: int = 1", {"Z": 1}),
        ("A: int", {}),
        ("A: int = 1.5", {}),
        ("A: text = 1", {}),
        ("A: int = 1, A: int = 2", {}),
    ],
)
def test_parameters_that_do_not_fit(parameter: str, overrides: dict[str, object]) -> None:
    assert len(told(constants=parameter, overrides=overrides)) == 1


def test_floats_beyond_their_type() -> None:
    for text in ("nan", "inf", "-inf", "1e38"):
        assert told("r = alpha * A", constants="A: float = 1.0", overrides={"A": text}) == []
    assert told("r = alpha * A", constants="A: float = 1.0", overrides={"A": "1e39"}) == ["DoesNotFit"]
    assert told("r = alpha * -1e39") == ["DoesNotFit"]
    assert told("r = s.h * 1e39") == ["DoesNotFit"]
    assert told("r = cast[f16](70000)") == ["DoesNotFit"]
    assert told("r = cast[e4m3](70000.0)") == [], "it saturates"


def test_parameters_and_dimensions() -> None:
    made = kernel()
    assert made.parameters == ("x", "h", "v", "w", "n", "alpha", "u", "b")
    assert [tensor.shape for tensor in made.tensors] == [("M", "N"), ("M", "N"), ("M",), ("N",)]
    assert [scalar.name for scalar in made.scalars] == ["n", "alpha", "u", "b"]


@pytest.mark.parametrize("grid", ["M", "ceildiv(M, BM)", "n, M // 2, 3", "min(M, 4) + 1", "min(M, gpu.multiprocessors // 2)"])
def test_grids(grid: str) -> None:
    sizes = kernel(grid=grid).grid
    assert len(sizes) == 3 and all(size.type is I32 for size in sizes)


@pytest.mark.parametrize("grid", ["alpha", "block.x", "M, N, 1, 1", "", "u", "M if n > 0 else N", "True", "gpu.sms"])
def test_grids_that_do_not_fit(grid: str) -> None:
    assert len(told(grid=grid)) == 1


def test_uniform_names_of_a_kernel() -> None:
    assert isinstance(value("tiles + 1", kernel="tiles = ceildiv(M, BM)"), tree.Binary)
    assert isinstance(value("where + 1", kernel="where = block.x * BM if n > 0 else 0"), tree.Binary)
    assert isinstance(value("twice + alpha", kernel="twice = fma(alpha, alpha, 1.0)"), tree.Binary)
    for differs in ("lane_id()", "role_thread() // 32", "n + role_warp()", "abs(lane_id())", "1 if lane_id() == 0 else 2"):
        assert told(kernel=f"where = {differs}") == ["NotBlockUniform"]
    assert told(kernel="where = block.x\nassume(where > 0)") == ["NotLaunchUniform"]


def test_the_multiprocessors_are_for_the_grid() -> None:
    for kernel_text in ("most = gpu.multiprocessors", "assume(M < gpu.multiprocessors)", "comptime MOST = gpu.multiprocessors"):
        assert told(kernel=kernel_text) == ["HostValue"], kernel_text
    assert told("r = n + gpu.multiprocessors", grid="gpu.multiprocessors") == ["HostValue"]
