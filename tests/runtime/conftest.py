"""Shared by the runtime's tests: a driver that records."""

import pytest
from fake_driver import FakeApi, install


@pytest.fixture
def api(monkeypatch):
    return install(monkeypatch, FakeApi())
