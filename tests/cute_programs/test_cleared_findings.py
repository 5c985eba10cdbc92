"""Warnings are collected until they are cleared; without the DSL."""

from types import SimpleNamespace

import pytest

import pipec.cute
from pipec.host.distinct import DistinctFindings
from pipec.sim.findings import Finding


def test_findings_are_those_since_they_were_cleared(monkeypatch: pytest.MonkeyPatch) -> None:
    device = SimpleNamespace(findings=DistinctFindings())
    monkeypatch.setattr(pipec.cute, "_installed", [device])
    found = Finding("exit", "warn", "undefined", "left", 1, None, {})
    device.findings.add([found])
    assert [one.message for one in pipec.cute.findings()] == ["left"]
    assert len(pipec.cute.findings(clear=True)) == 1 and pipec.cute.findings() == []
    device.findings.add([found])
    assert len(pipec.cute.findings()) == 1, "it is told again"
