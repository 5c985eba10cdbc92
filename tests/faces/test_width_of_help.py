"""What the environment says of the terminal's width is not to be relied on."""

import pytest

from pipec.commands.cli import main


@pytest.mark.parametrize("columns", ["", "0", "1", "80", "-5", "wide", "²", "9" * 5000])
def test_any_width(columns: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """Python reads no numbers of thousands of digits."""
    monkeypatch.setenv("COLUMNS", columns)
    assert main(["explain", "E0804"]) == 0
    assert "overwrites products" in capsys.readouterr().out
