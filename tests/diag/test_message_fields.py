"""The fields of messages: a type checker knows them, and each is used by the text that it belongs to."""

import subprocess
import sys
from pathlib import Path
from string import Formatter

import pytest

from pipec.diag.explain import load_catalogue
from pipec.diag.message import Message

ROOT = Path(__file__).resolve().parents[2]

PROGRAM = """
from pipec.diag.catalogue.stages.linear import ReleasedNotHeld
from pipec.diag.message import Message, primary
from pipec.source import Span

def right(at: Span) -> Message:
    return ReleasedNotHeld(stage="s", pipeline="p", at=at, obtained=None)

def missing(at: Span) -> Message:
    return ReleasedNotHeld(stage="s", at=at, obtained=None)  # [call-arg]

def unknown(at: Span) -> Message:
    return ReleasedNotHeld(stage="s", pipeline="p", at=at, obtained=None, where=at)  # [call-arg]

def wrong_type(at: Span) -> Message:
    return ReleasedNotHeld(stage=1, pipeline="p", at=at, obtained=None)  # [arg-type]

def no_place() -> Message:
    return ReleasedNotHeld(stage="s", pipeline="p", at=None, obtained=None)  # [arg-type]

def by_position(at: Span) -> Message:
    return ReleasedNotHeld("s", "p", at, None)  # [call-arg]
"""


def test_a_wrong_or_missing_field_is_a_type_error(tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text(PROGRAM)
    command = [sys.executable, "-m", "mypy", "--config-file", str(ROOT / "pyproject.toml"), "--follow-imports", "silent"]
    command += ["--cache-dir", str(tmp_path / "cache"), "--no-error-summary", str(program)]
    run = subprocess.run(command, cwd=ROOT, check=False, capture_output=True, text=True, timeout=170)
    found = [(int(line.split(":")[1]), line.rsplit(" ", 1)[1]) for line in run.stdout.splitlines() if ": error:" in line]
    expected = [(n, line.rsplit("  # ", 1)[1]) for n, line in enumerate(PROGRAM.splitlines(), 1) if "  # [" in line]
    assert found == expected, run.stdout + run.stderr


def _named(text: str | None) -> set[str]:
    return {name for _, name, _, _ in Formatter().parse(text or "") if name}


@pytest.mark.parametrize("kind", load_catalogue().values(), ids=lambda kind: kind.code)
def test_texts_use_the_fields_and_no_others(kind: type[Message]) -> None:
    fields = set(kind.__annotations__)
    templates = (*kind.labels, *kind.edits)
    used = {template.field for template in templates}.union(*(_named(template.text) for template in templates))
    used |= _named(kind.title) | _named(kind.note) | _named(kind.help)
    assert used == fields
