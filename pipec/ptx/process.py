"""Runs the assembler as a subprocess, with limits on time and memory as far as the system supports them."""

import signal
import subprocess
import sys

from pipec.budgets import BUDGETS, BudgetEnded


def run_within_budgets(command: list[str], timeout: int) -> subprocess.CompletedProcess[str]:
    """Raises BudgetEnded, and TimeoutExpired after `timeout` seconds of wall time for a program that only waits."""
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, errors="replace") as process:
        _limit(process.pid)
        try:
            output, errors = process.communicate(timeout=timeout)
        except BaseException:
            process.kill()
            raise
    if _was_stopped(process.returncode):
        raise BudgetEnded(BUDGETS["assembly"])
    return subprocess.CompletedProcess(command, process.returncode, output, errors)


def _limit(process: int) -> None:
    """Only Linux can limit a running process; elsewhere the timeout is the only limit."""
    if sys.platform == "linux":
        import resource

        seconds = BUDGETS["assembly"].limit
        try:
            resource.prlimit(process, resource.RLIMIT_CPU, (seconds, seconds + 1))
            resource.prlimit(process, resource.RLIMIT_DATA, (BUDGETS["memory"].limit * 1_000_000,) * 2)
        except OSError:
            pass  # it has ended already, or a stricter limit is set


def _was_stopped(status: int) -> bool:
    return sys.platform != "win32" and -status in (signal.SIGXCPU, signal.SIGKILL)
