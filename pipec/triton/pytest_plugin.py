"""`pytest -p pipec.triton.pytest_plugin`: runs tests of Triton kernels in the simulator, with its findings in their reports.

An error finding fails the test that launched the kernel; warnings are in a section of its report, and with --pipec-strict fail it as
well.
"""

from collections.abc import Iterator
from typing import get_args

import pytest

import pipec.triton
from pipec.isa.targets import DEFAULT_TARGET, TARGETS
from pipec.sim import Options
from pipec.sim.findings import CHECKS, Severity


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("pipec", "Triton kernels in pipec's simulator")
    group.addoption("--pipec-arch", default=DEFAULT_TARGET, choices=tuple(TARGETS), help="what Triton compiles for")
    group.addoption("--pipec-timing", default="order", help="when asynchronous operations complete")
    group.addoption(
        "--pipec-check", default=[], action="append", metavar="NAME=error|warn|off", help="severity of a kind of finding"
    )
    group.addoption("--pipec-strict", action="store_true", help="warnings fail the test, too")


def pytest_configure(config: pytest.Config) -> None:
    checks = dict(text.partition("=")[::2] for text in config.getoption("--pipec-check"))
    for name, severity in checks.items():
        if name not in CHECKS or severity not in get_args(Severity):
            raise pytest.UsageError(
                f"--pipec-check {name}={severity}: one of {', '.join(CHECKS)}, and {', '.join(get_args(Severity))}"
            )
    options = Options(config.getoption("--pipec-timing"), checks=checks, trace=False)
    pipec.triton.install(config.getoption("--pipec-arch"), options)


def pytest_unconfigure(config: pytest.Config) -> None:
    pipec.triton.uninstall()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Iterator[None]:
    pipec.triton.findings(clear=True)
    yield
    found = pipec.triton.findings(clear=True)
    if found:
        text = "\n".join(map(str, found))
        item.add_report_section("call", "pipec", text)
        if item.config.getoption("--pipec-strict"):
            pytest.fail(f"the simulator warns:\n{text}", pytrace=False)
