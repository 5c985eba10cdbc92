"""`--strict-skips`: a run in which a test is skipped for a reason that is not among these fails. CI installs what the others need."""

from dataclasses import dataclass, field

import pytest

MISSING = ("needs an sm_90a GPU: ", "needs two sm_90a GPUs: ", "torch is not installed")
# The other two are about what is tested: the rights of the user who runs it, and sizes at which a kernel does nothing.
ALLOWED = (*MISSING, "root reads everything", "nothing waits at this size", "the history is not here")


@dataclass
class StrictSkips:
    """A plugin of the process that reports; workers send it what became of their tests."""

    told: list[str] = field(default_factory=list)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self._note(report)

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        self._note(report)

    def _note(self, report: pytest.TestReport | pytest.CollectReport) -> None:
        if not report.skipped or hasattr(report, "wasxfail"):
            return
        reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else str(report.longrepr)
        if not reason.removeprefix("Skipped: ").startswith(ALLOWED):
            self.told.append(f"{report.nodeid}: {reason}")

    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        if self.told and session.exitstatus == pytest.ExitCode.OK:
            session.exitstatus = pytest.ExitCode.TESTS_FAILED

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        if self.told:
            terminalreporter.section("skipped, and --strict-skips does not allow it", red=True)
            for line in self.told:
                terminalreporter.line(line)
