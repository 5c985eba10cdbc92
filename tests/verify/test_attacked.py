"""Texts that were called proved once and hang, or do what PTX does not define, or that took minutes: none is proved."""

from pathlib import Path

import pytest

from pipec.protocol.judge import judge

ATTACKED = sorted((Path(__file__).parent / "attacked").glob("*.ptx"))


@pytest.mark.parametrize("path", ATTACKED, ids=[path.stem for path in ATTACKED])
def test_it_is_not_proved(path: Path) -> None:
    found = judge(path.read_text(encoding="utf-8"), "k")
    assert found.certificate is None and found.why
