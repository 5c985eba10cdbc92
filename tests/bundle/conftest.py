"""Shared by the tests of bundles: libcuda's stand-in in C, and the one in Python."""

import pytest
from bundle.c_bundle import FakeCuda, missing, stand_in
from fake_driver import FakeApi, install


@pytest.fixture(scope="session")
def cuda() -> FakeCuda:
    if missing():
        pytest.skip(f"bundles cannot be compiled here: {missing()}")
    return stand_in()


@pytest.fixture
def api(monkeypatch: pytest.MonkeyPatch) -> FakeApi:
    return install(monkeypatch, FakeApi())
