"""Shared by all tests: their options. (This file also puts tests/ on the path for the helpers beside it.)"""

import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--update-golden", action="store_true", help="rewrite the golden files from what the compiler says now")
    parser.addoption("--whole-matrix", action="store_true", help="every case of matrices of which a run otherwise takes a sample")


@pytest.fixture
def update_golden(request: pytest.FixtureRequest) -> bool:
    return request.config.getoption("--update-golden")
