"""Lines that describe the arguments of a kernel: those of the compiler are understood, edited ones no internal error."""

import json
import random
import re
from pathlib import Path
from typing import Any

import pytest
from samples import volume

from pipec.commands.cli import main
from pipec.commands.launching.described import described, fits
from pipec.interface import to_json
from pipec.ptx.normalise import INTERFACE_MARK
from pipec.verify.network import Unreadable
from pipec.verify.reader.text.interface import interface_of

GOLDEN = Path(__file__).parents[1] / "golden"
ODD = (None, True, 0, -1, 1.5, float("inf"), float("nan"), "x", "", [], {}, [[]], 10**30, ["//", "M", 0], ["+", 1], {"": 0})


def lines() -> dict[str, str]:
    found = {}
    for path in sorted(GOLDEN.rglob("*.ptx")):
        for text in re.findall(f"^{INTERFACE_MARK}(.*)$", path.read_text(encoding="utf-8"), re.MULTILINE):
            found[json.loads(text)["kernel"]] = text
    return found


def edited(value: Any, draw: random.Random) -> Any:
    """The value with something else somewhere in it."""
    if draw.random() < 0.15 or not isinstance(value, (dict, list)) or not value:
        return draw.choice(ODD)
    made = value.copy()
    key = draw.choice(list(made)) if isinstance(made, dict) else draw.randrange(len(made))
    if draw.random() < 0.1:
        del made[key]
    else:
        made[key] = edited(made[key], draw)
    return made


def test_what_the_compiler_writes_is_understood() -> None:
    for name, text in lines().items():
        found = described(text)
        assert found is not None, name
        assert json.loads(to_json(found)) == json.loads(text)


@pytest.mark.parametrize("text", ["", "{", "[]", "1", '"x"', "null", "{}", '{"kernel": "k"}', "1" * 5000, "[" * 100_000])
def test_anything_else_describes_nothing(text: str) -> None:
    assert described(text) is None


def test_values_of_types() -> None:
    assert fits((1, "a"), tuple[int, str]) and not fits((1, 2), tuple[int, str]) and not fits((1,), tuple[int, str])
    assert fits((), tuple[int, ...]) and fits((1, 2), tuple[int, ...]) and not fits((1, True), tuple[int, ...])
    assert fits(None, int | None) and fits(3, int | None) and not fits("3", int | None) and fits(True, bool)


@pytest.mark.parametrize("seed", range(3))
def test_an_edited_line_is_no_internal_error(seed: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    draw = random.Random(seed)
    texts = [path.read_text(encoding="utf-8") for path in sorted(GOLDEN.rglob("*.ptx")) if path.stat().st_size < 30_000]
    for _ in range(volume(12, 300)):
        text = draw.choice(texts)
        (before, line), *_ = [(found.start(1), found[1]) for found in re.finditer(f"{INTERFACE_MARK}(.*)", text)]
        row = json.loads(line)
        made = json.dumps(edited(row, draw))
        path = tmp_path / "k.ptx"
        path.write_text(text[:before] + made + text[before + len(line) :], encoding="utf-8")
        sizes = [f"{one['dimension']}=64" for one in row["parameters"] if one["kind"] == "dimension"]
        sizes += [f"{one['scalar']}=1" for one in row["parameters"] if one["kind"] == "scalar"]
        assert main(
            ["sim", str(path), "--steps", "2000", "--kernel", row["kernel"], *(["--shape", *sizes] if sizes else [])]
        ) in (0, 1)
        said = capsys.readouterr()
        assert "E0001" not in said.err and "Traceback" not in said.err, made
        try:
            interface_of(path.read_text(encoding="utf-8"), row["kernel"])
        except Unreadable:
            pass
