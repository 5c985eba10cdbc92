"""Every element function against the value in its row, which `numpy:` lines use as well: a new row is tested as it stands."""

import numpy as np
import pytest
from running import NUMPY, exact, run

from pipec.lower.emit import functions as lowering
from pipec.reference.arithmetic import CIRCULAR, FUNCTION, Arithmetic
from pipec.reference.bounded import Precision, bounded
from pipec.reference.functions import functions
from pipec.sema.language.functions import FUNCTIONS, LARGEST_ANGLE, ElementFunction

SOURCE = """
kernel k(x: tensor[{kind}, 64, 64], y: tensor[{kind}, 64, 64]):
    grid(1)
    ring = InputTilePipeline(TilePayload(x=tile[{kind}, 64, 64]), stages=1)
    role load(warps=1) produces ring:
        with ring.produce() as s:
            tma.load(s.x, x[0, 0])
    role compute(warps=2) consumes ring:
        with ring.consume() as s:
            store(y[0, 0], {call})
"""
SMALLEST = 2.0**-20  # what approximations lose near 0 and 1, where the results are small
OTHERS = {"float": (0.75, 2.0), "number": (0.75,), "integer": (3,)}


def computed(row: ElementFunction, x: np.ndarray, kind: str) -> tuple[np.ndarray, tuple[float, ...]]:
    others = OTHERS[row.domain][: len(row.parameters) - 1]
    call = f"{row.name}({', '.join(['s.x', *map(str, others)])})"
    y = np.full(x.shape, 77, NUMPY[kind])
    run(SOURCE.format(kind=kind, call=call), "k", x.astype(NUMPY[kind]), y)
    return exact(y), others


@pytest.mark.parametrize("row", [row for row in FUNCTIONS.values() if row.domain != "integer"], ids=lambda row: row.name)
def test_a_function_is_its_value(row: ElementFunction) -> None:
    x = np.random.default_rng(2).standard_normal((64, 64)).astype(np.float32) * 4
    found, others = computed(row, x, "f32")
    named = functions(Arithmetic(Precision()))
    with np.errstate(all="ignore"):
        expected = row.value(np, exact(x), *others)
        error = FUNCTION * np.abs(expected) + SMALLEST
        if row.name in named and not others:
            own = named[row.name].value(bounded(exact(x)))
            np.testing.assert_array_equal(np.isnan(own.value), np.isnan(expected))
            error = np.minimum(error, own.error)
    inside = np.isfinite(expected)
    assert inside.any()
    np.testing.assert_array_equal(np.isnan(found), np.isnan(expected))
    assert (np.abs(found - expected)[inside] <= error[inside] + 1e-30).all()


@pytest.mark.parametrize("name", ["floor", "ceil", "round"])
def test_whole_numbers(name: str) -> None:
    """Halves, numbers beside whole ones, those that are too large to have a fraction, and zeros with their signs: all exact."""
    chance, row = np.random.default_rng(6), FUNCTIONS[name]
    halves = np.arange(-512, 512) / 2
    beside = np.nextafter(halves.astype(np.float32), np.float32(chance.choice((-np.inf, np.inf))))
    large = 2.0 ** chance.uniform(20, 127, 1024) * chance.choice((-1, 1), 1024)
    odd = [0.0, -0.0, 2.0**-149, -(2.0**-149), 2.0**23 - 0.5, -(2.0**23) + 0.5, np.inf, -np.inf, np.nan, 0.5, -0.5, 1.5]
    x = np.concatenate([halves, beside, large, chance.uniform(-9, 9, 1012), odd]).astype(np.float32).reshape(64, 64)
    found, _ = computed(row, x, "f32")
    expected = row.value(np, exact(x))
    np.testing.assert_array_equal(found, expected)
    zeros = expected == 0
    np.testing.assert_array_equal(np.signbit(found[zeros]), np.signbit(expected[zeros]))


@pytest.mark.parametrize("name", ["sin", "cos"])
def test_angles_of_all_sizes(name: str) -> None:
    """Of many turns, near multiples of a quarter turn, small, and beyond what is computed."""
    chance, row = np.random.default_rng(5), FUNCTIONS[name]
    many = chance.uniform(-LARGEST_ANGLE, LARGEST_ANGLE, 2048)
    quarters = np.arange(1024) * (np.pi / 2) * chance.choice((-1, 1, 7, 60), 1024)
    small = 2.0 ** chance.uniform(-149, 0, 1008) * chance.choice((-1, 1), 1008)
    odd = [0.0, -0.0, LARGEST_ANGLE, -LARGEST_ANGLE, np.nextafter(np.float32(LARGEST_ANGLE), np.float32(np.inf))]
    odd += [1e6, -1e9, 3e38, -3e38, np.inf, -np.inf, np.nan, np.pi, -np.pi / 2, 1.0, 2.0]
    x = np.concatenate([many, quarters, small, odd]).astype(np.float32).reshape(64, 64)
    found, _ = computed(row, x, "f32")
    with np.errstate(invalid="ignore"):
        expected = row.value(np, exact(x))
    assert np.isnan(expected).sum() == 8
    np.testing.assert_array_equal(np.isnan(found), np.isnan(expected))
    assert np.nanmax(np.abs(found - expected)) <= CIRCULAR
    if name == "sin":
        np.testing.assert_array_equal(np.signbit(found[x == 0]), np.signbit(x[x == 0]))
        tiny = np.abs(exact(x)) < 2.0**-13
        np.testing.assert_array_equal(found[tiny], exact(x)[tiny])


@pytest.mark.parametrize("row", [row for row in FUNCTIONS.values() if row.domain != "float"], ids=lambda row: row.name)
def test_a_function_of_integers_is_its_value(row: ElementFunction) -> None:
    x = np.random.default_rng(3).integers(-1000, 1000, (64, 64))
    others = (3,) * (len(row.parameters) - 1)
    y = np.full(x.shape, 77, np.int32)
    call = f"{row.name}({', '.join(['s.x', *map(str, others)])})"
    run(SOURCE.format(kind="i32", call=call), "k", x.astype(np.int32), y)
    np.testing.assert_array_equal(y, row.value(np, x.astype(np.float64), *others))


def test_a_row_that_nothing_lowers_is_found_at_import(monkeypatch: pytest.MonkeyPatch) -> None:
    extra = ElementFunction("cube", ("x",), "float", "x * x * x", lambda np, x: x**3, monotone=True)
    monkeypatch.setitem(FUNCTIONS, "cube", extra)
    with pytest.raises(ImportError, match="no entry for cube"):
        lowering._compare_tables()
