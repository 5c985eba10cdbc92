"""`pipec run` judges whole kernels: what is wrong is said to be wrong, and what is right passes."""

from pathlib import Path

import pytest

from pipec.commands.cli import main

Capture = pytest.CaptureFixture[str]

KERNEL = '''kernel k[BM: int = 32, BN: int = 32](x: tensor[T, M, N], y: tensor[T, M, N]):
    """
    numpy: REFERENCE
    shapes: M=32, N=64
    """
    grid(GRID, ceildiv(N, BN))
    role all(warps=1):
        m = block.x * BM
        n = block.y * BN
        store(y[m, n], VALUE)
'''
LOADED = "load(x[m, n], BM, BN)"


def judged(tmp_path: Path, *, value: str, reference: str, grid: str = "ceildiv(M, BM)", dtype: str = "f32") -> int:
    text = KERNEL.replace("VALUE", value).replace("REFERENCE", reference).replace("GRID", grid).replace("T,", f"{dtype},")
    (tmp_path / "k.pipe").write_text(text, encoding="utf-8")
    return main(["run", str(tmp_path / "k.pipe"), "--device", "sim"])


@pytest.mark.parametrize(
    ("value", "reference"),
    [
        (f"{LOADED} * 2.0", "y = 2 * x"),
        (f"{LOADED} + load(y[m, n], BM, BN) * 2.0", "y = 2 * y + x"),
        (f"{LOADED} * 1.0e38 * 1.0e38", "y = where(x > 0, 1e999, -1e999)"),
        (f"{LOADED} / ({LOADED} - {LOADED})", "y = x / 0"),
        (f"({LOADED} - {LOADED}) / ({LOADED} - {LOADED})", "y = 0 * x / 0"),
    ],
    ids=["scaled", "in place", "infinities", "division by zero", "no number"],
)
def test_correct_results_pass(value: str, reference: str, tmp_path: Path, capsys: Capture) -> None:
    assert judged(tmp_path, value=value, reference=reference) == 0, capsys.readouterr().err
    assert "against float64 NumPy over 2,048 elements" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("value", "reference", "code"),
    [
        ("fill(12345.0, f32, BM, BN)", "y = x + where(x >= max(x), 1e999, 0)", "E1006"),
        ("fill(12345.0, f32, BM, BN)", "y = y", "E1005"),
        ("fill(0.0, f32, BM, BN)", "y = 0 * y", "E1005"),
        ("fill(12345.0, f32, BM, BN)", "y = x / 0", "E1006"),
        (f"{LOADED} * 1.0e38 * 1.0e38", "y = 0 * x / 0", "E1006"),
        (f"{LOADED} * 1.0e38 * 1.0e38", "y = 0 - where(x > 0, 1e999, -1e999)", "E1006"),
        (f"{LOADED} * 1.001", "y = x", "E1006"),
        (f"{LOADED} + 0.0001", "y = x + where(x >= max(x), 1e30, 0)", "E1006"),
    ],
)
def test_what_is_wrong_is_caught(value: str, reference: str, code: str, tmp_path: Path, capsys: Capture) -> None:
    assert judged(tmp_path, value=value, reference=reference) == 1
    assert f"error[{code}]" in capsys.readouterr().err


@pytest.mark.parametrize("dtype", ["f32", "bf16", "f16", "i32", "u8", "i8"])
@pytest.mark.parametrize("number", ["0", "1"])
def test_elements_never_written(dtype: str, number: str, tmp_path: Path, capsys: Capture) -> None:
    """The grid is one block short in M; zeros would hide it where the result is zero."""
    value = f"cast[{dtype}](fill({number}, i32, BM, BN))"
    assert judged(tmp_path, value=value, reference=f"y = 0 * x + {number}", dtype=dtype) == 0, capsys.readouterr().err
    capsys.readouterr()
    assert judged(tmp_path, value=value, reference=f"y = 0 * x + {number}", dtype=dtype, grid="ceildiv(M, BM) - 1") == 1
    err = capsys.readouterr().err
    assert "error[E1020]" in err and "2,048 of 2,048 elements are never written" in err


def test_a_given_value_of_another_shape_is_named(tmp_path: Path, capsys: Capture) -> None:
    assert judged(tmp_path, value=LOADED, reference="y = x\n    given: x = offsets(1, 2)") == 1
    said = capsys.readouterr().err
    assert "error[E1005]" in said
    assert "the value given for `x` is of shape (3,), and `x` is of shape" in said
    assert "it reads `x = offsets(1, 2); y = x`" in said
    assert "k.pipe:4:12" in said and "given: x = offsets(1, 2)\n   |            ^^^^^^^^^^^^^^^^^ here" in said


OUTPUTS = '''kernel k(x: tensor[f32, 32, 64], right: tensor[f32, 32, 64], more: tensor[f32, 32, 64], less: tensor[f32, 32, 64]):
    """
    numpy: right = x
    numpy: more = x + 1
    numpy: less = x - 1
    """
    grid(1)
    role all(warps=1):
        store(right[0, 0], load(x[0, 0], 32, 64))
        store(more[0, 0], load(x[0, 0], 32, 64) + 2.0)
        store(less[0, 0], load(x[0, 0], 32, 64))
'''


def test_each_output_agrees_or_is_wrong(tmp_path: Path, capsys: Capture) -> None:
    """All are said to be, and each that is wrong is an error."""
    (tmp_path / "k.pipe").write_text(OUTPUTS, encoding="utf-8")
    assert main(["run", str(tmp_path / "k.pipe"), "--device", "sim"]) == 1
    said = capsys.readouterr()
    verdicts = [line.strip().rsplit(":", 1)[0] for line in said.out.splitlines() if "largest error" in line]
    assert verdicts == ["right: agrees", "more: wrong", "less: wrong"]
    assert said.err.count("error[E1006]") == 2 and "`more` of" in said.err and "`less` of" in said.err
