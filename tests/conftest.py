"""Shared by all tests: the `--update-golden` option. (This file also puts tests/ on the path for the helpers beside it.)"""

import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--update-golden", action="store_true", help="rewrite the golden files from what the compiler says now")


@pytest.fixture
def update_golden(request: pytest.FixtureRequest) -> bool:
    return request.config.getoption("--update-golden")
