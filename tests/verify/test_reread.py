"""A text of which only the conditions of launches have changed is read again from what was found before; any other text is read anew."""

import re

import pytest
from examples.catalogue import cases, compiled

from pipec.verify.reader import read as reader
from pipec.verify.reader.read import read, reading_of
from pipec.verify.reader.text.statements import entries_of


def _text(name: str) -> str:
    ptx = compiled(next(case for case in cases() if case.name == name)).ptx
    assert ptx is not None
    return ptx


def test_conditions_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    ptx = _text("layer_norm")
    (kernel,) = entries_of(ptx)
    without = re.sub(r'"conditions": \[\[.*?\]\]\]\]', '"conditions": []', ptx, count=1)
    assert without != ptx
    expected, before = read(ptx, kernel), reading_of(without, kernel)
    assert before.network.facts != expected.facts
    monkeypatch.setattr(reader, "Flow", None)  # nothing is followed once more
    assert before.again(ptx) == expected
    assert before.again(without) == before.network


def test_another_text_is_read_anew() -> None:
    ptx = _text("gemm")
    before = reading_of(ptx, "gemm")
    other = re.sub(r"(mbarrier\.init\.\S+\s+\[\$shared\+229440\], )%r\d+", r"\g<1>2", ptx)
    assert other != ptx
    changed = before.again(other)
    assert changed == read(other, "gemm") and changed != before.network
