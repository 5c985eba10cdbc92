"""Compile-time values are folded; each expression has its type, and what does not fit is told."""

import pytest
from analysed import BF16, told, value

from pipec.sema import tree
from pipec.sema.types import BOOL, F32, I32, I64, U32, TileType

# ---------------------------------------------------------------------------------------------------------------- folding


@pytest.mark.parametrize(
    ("text", "result"),
    [
        ("1 + 2 * 3", 7),
        ("-7 // 2", -4),
        ("-7 % 4", 1),
        ("7 // -2", -4),
        ("1 << 5 | 1", 33),
        ("~5 & 0xff", 250),
        ("6 ^ 3", 5),
        ("-16 >> 2", -4),
        ("1 < 2 < 3", True),
        ("1 < 2 and not 3 < 2", True),
        ("bf16 == bf16", True),
        ("bf16 != f32", True),
        ("0.5 * 3", 1.5),
        ("1.0 / 4", 0.25),
        ("min(3, 2)", 2),
        ("max(3, 2, )", 3),
        ("abs(-4)", 4),
        ("ceildiv(7, 2)", 4),
        ("ceildiv(-7, 2)", -3),
        ("2 if BM == 16 else 3", 2),
        ("select(BM > 16, 2, 3)", 3),
        ("BM * 2", 32),
    ],
)
def test_compile_time_values_are_folded(text: str, result: object) -> None:
    folded = value(text)
    assert isinstance(folded, tree.Constant)
    assert folded.value == result and type(folded.value) is type(result)
    assert folded.type is {bool: BOOL, int: I32, float: F32}[type(result)]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("1 // 0", "DivisionByZero"),
        ("1 % 0", "DivisionByZero"),
        ("1.0 / 0", "DivisionByZero"),
        ("ceildiv(1, 0)", "DivisionByZero"),
        ("n // 0", "DivisionByZero"),
        ("1 / 2", "BadOperand"),
        ("1.5 & 1", "BadOperand"),
        ("True + 1", "BadOperand"),
        ("1 and True", "BadOperand"),
        ("-True", "BadOperand"),
        ("not 1", "BadOperand"),
        ("bf16 + 1", "BadOperand"),
        ('"a" + "b"', "BadOperand"),
        ("1 << 64", "DoesNotFit"),
        ("1 << -1", "DoesNotFit"),
        ("(1 << 60) * 16", "DoesNotFit"),
        ("1e300 * 1e300", "DoesNotFit"),
        ("3000000000", "DoesNotFit"),
        ("b + 200", "DoesNotFit"),
        ("u - -1", "DoesNotFit"),
    ],
)
def test_what_cannot_be_folded(text: str, message: str) -> None:
    assert told(f"r = {text}") == [message]


# ------------------------------------------------------------------------------------------------------------------ types


@pytest.mark.parametrize(
    ("text", "type_"),
    [
        ("n + 1", I32),
        ("1 + n", I32),
        ("u + 1", U32),
        ("alpha * 2", F32),
        ("alpha / 2", F32),
        ("n + b", I32),
        ("n < 3", BOOL),
        ("n < 3 and alpha > 0.5", BOOL),
        ("M", I32),
        ("block.x", I32),
        ("lane_id()", I32),
        ("cast[i64](n) + n", I64),
        ("cast[bf16](alpha)", BF16),
        ("cast[f32](h0) if False else alpha", F32),
        ("n if n > 0 else 0", I32),
        ("s.x + 1", TileType(F32, 16, 64)),
        ("alpha + s.x", TileType(F32, 16, 64)),
        ("s.x + s.h", TileType(F32, 16, 64)),
        ("s.h * s.h", TileType(BF16, 16, 64)),
        ("s.x < 1", TileType(BOOL, 16, 64)),
        ("s.x if s.x > 0 else 0", TileType(F32, 16, 64)),
        ("exp(s.h)", TileType(F32, 16, 64)),
        ("row_max(s.x)", TileType(F32, 16, 1)),
        ("row_sum(s.h)", TileType(F32, 16, 1)),
        ("s.x - row_max(s.x)", TileType(F32, 16, 64)),
        ("per_row(v[0], 16) + per_column(w[0], 64)", TileType(F32, 16, 64)),
        ("load(x[0, 0], 16, 64)", TileType(F32, 16, 64)),
        ("cast[bf16](s.x)", TileType(BF16, 16, 64)),
        ("s.x == s.h", TileType(BOOL, 16, 64)),
    ],
)
def test_types(text: str, type_: object) -> None:
    assert value(text.replace("h0", "alpha")).type == type_


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("n + alpha", "MixedTypes"),
        ("n + u", "MixedTypes"),
        ("s.h + cast[f16](alpha)", "MixedTypes"),
        ("min(n, alpha)", "MixedTypes"),
        ("n if n > 0 else alpha", "MixedTypes"),
        ("s.x + load(x[0, 0], 32, 64)", "ShapeMismatch"),
        ("s.x + per_row(v[0], 32)", "ShapeMismatch"),
        ("n / 2", "BadOperand"),
        ("alpha // 2", "BadOperand"),
        ("alpha & 1", "BadOperand"),
        ("-u", "BadOperand"),
        ("~alpha", "BadOperand"),
        ("n and True", "WrongType"),
        ("cast[e4m3](s.x) + 1", "BadOperand"),
        ("exp(n)", "BadOperand"),
        ("alpha if n else alpha", "WrongType"),
        ("n + 1.5", "WrongType"),
        ("n + True", "WrongType"),
        ("cast[bool](n)", "WrongType"),
        ("cast[tf32](alpha)", "WrongType"),
        ("cast[n](alpha)", "NotComptime"),
    ],
)
def test_types_that_do_not_fit(text: str, message: str) -> None:
    assert told(f"r = {text}") == [message]


def test_widening_is_written_into_the_tree() -> None:
    added = value("s.x + s.h")
    assert isinstance(added, tree.Binary) and isinstance(added.left, tree.ReadBuffer)
    assert isinstance(added.right, tree.Convert) and added.right.type == TileType(F32, 16, 64)


def test_a_literal_takes_the_type_beside_it() -> None:
    added = value("alpha + 1")
    assert isinstance(added, tree.Binary)
    assert isinstance(added.right, tree.Constant) and added.right.type is F32 and added.right.value == 1.0


def test_a_scalar_beside_a_tile_is_spread() -> None:
    added = value("s.x + alpha")
    assert isinstance(added, tree.Binary) and isinstance(added.right, tree.Splat)
    assert added.right.type == TileType(F32, 1, 1)
