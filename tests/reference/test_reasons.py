"""A reference that nothing could contradict is refused (E1005) by the part of the line that loses the bound, and by what it had of it."""

from pathlib import Path

import pytest

from pipec.commands.cli import main

Capture = pytest.CaptureFixture[str]
KERNEL = '''kernel k(x: tensor[f32, 32, 64], z: tensor[f32, 32, 64], y: tensor[f32, 32, 64]):
    """What no run can judge.

    numpy: y = {}
    """
    grid(1)
    role all(warps=1):
        store.direct(y[0, 0], load(x[0, 0], 32, 64))
'''


def said(tmp_path: Path, capsys: Capture, expression: str) -> str:
    (tmp_path / "k.pipe").write_text(KERNEL.format(expression), encoding="utf-8")
    assert main(["run", str(tmp_path / "k.pipe"), "--device", "sim"]) == 1
    return capsys.readouterr().err


@pytest.mark.parametrize(
    ("expression", "part", "says"),
    [
        ("2 + 1 / (x + z - x - z)", "1 / (x + z - x - z)", "divides by what rounding may make zero (`x + z - x - z` is"),
        ("where(exp(x) == exp(x), 1e999, 0)", "exp(x) == exp(x)", "compares numbers that are as good as equal (`exp(x)` is"),
        (
            "where(1 - (x + z <= z + x) * (x < 9), x, -1e999)",
            "x + z <= z + x",
            "compares numbers that are as good as equal (`x + z` is",
        ),
        (
            "argmax(exp(0 * x), axis=1)[:, None] + x",
            "argmax(exp(0 * x), axis=1)",
            "chooses among numbers that are as good as equal",
        ),
        (
            "exp((x + 1e9) - x - 1e9)",
            "exp(x + 1000000000.0 - x - 1000000000.0)",
            "makes much of what rounding may change (`x + 1000000000.0",
        ),
        ("log(x + z - x - z)", "log(x + z - x - z)", "makes much of what rounding may change (`x + z - x - z` is"),
        (
            "(z + x + 1e9) - 1e9",
            "z + x + 1000000000.0 - 1000000000.0",
            "takes numbers from each other that are as good as equal (`z + x",
        ),
        ("where(x + z == z + x, 1, 0) + 0 * x", "x + z == z + x", "compares numbers that are as good as equal"),
        ("m\n    numpy: y = x", "m", "there is no argument `m`"),
        (
            "x\n    numpy: m = 1 / (x + 1 - x - 1)\n    numpy: y = z * m",
            "1 / (x + 1 - x - 1)",
            "divides by what rounding may make zero",
        ),
    ],
)
def test_the_part_that_loses_the_bound_is_named(expression: str, part: str, says: str, tmp_path: Path, capsys: Capture) -> None:
    err = said(tmp_path, capsys, expression)
    assert "error[E1005]" in err and says in err and (f"`{part}`" in err)
    shown, marks = err.split("\n  --> ")[1].split("\n")[2:4]
    marked = shown[marks.index("^") : marks.rindex("^") + 1]
    assert marked.replace("(", "").replace(")", "") == _written(expression, part).replace("(", "").replace(")", "")


def _written(expression: str, part: str) -> str:
    """As the line has it: what is printed of it has its parentheses and numbers in Python's form."""
    return part.replace("1000000000.0", "1e9")


def test_a_masked_number_is_no_reason(tmp_path: Path, capsys: Capture) -> None:
    """Before, its error of 1.5e22 was that of the largest."""
    err = said(tmp_path, capsys, "exp(max(where(arange(64) < 3, -1e30, x), axis=1))[:, None]")
    assert "error[E1006]" in err
