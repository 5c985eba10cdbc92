"""Limits processor time and memory of a command to the last two rows of `pipec.budgets`, for whatever the other budgets miss.

A thread checks both twenty times a second. If one is exceeded it signals the main thread, where the handler raises BudgetEnded. Native
code (LLVM, nvJitLink, NumPy) may not return to the interpreter; then the thread prints the diagnostic itself and terminates the process.
Subprocesses (ptxas) are killed by their caller as the exception propagates.
"""

import os
import signal
import sys
import threading
import time
from collections.abc import Callable
from types import FrameType, TracebackType
from typing import Self

from pipec.budgets import BUDGETS, Budget, BudgetEnded
from pipec.record import replace

_INTERVAL = 0.05  # seconds
_GRACE = 2.0  # seconds for the main thread to stop by itself
_MOST_OVER = 1.25  # factor on the memory limit: beyond it, terminate at once


class Guard:
    """A context in which a command runs. Inactive outside the main thread, the only one that receives signals, and on systems without
    /proc, that is, other than Linux.

    `refuse` prints the diagnostic if the main thread cannot. Times and sizes are relative to the start, for a process that runs several
    commands.
    """

    def __init__(self, seconds: int | None, megabytes: int | None, refuse: Callable[[BudgetEnded], object]) -> None:
        self._time = _row("processor time", seconds)
        self._memory = _row("memory", megabytes)
        self._refuse = refuse
        self._over = threading.Event()
        self._ended: BudgetEnded | None = None
        self._thread: threading.Thread | None = None
        self._before: object = None

    def __enter__(self) -> Self:
        if sys.platform == "linux" and threading.current_thread() is threading.main_thread() and _resident() is not None:
            # SIGXCPU is meant for this; SIGINT would look as if the user had interrupted the command.
            self._before = signal.signal(signal.SIGXCPU, self._raise)
            self._thread = threading.Thread(target=self._watch, args=(_seconds(), _resident() or 0), daemon=True)
            self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.lift()

    def lift(self) -> None:
        """Removes the limits: the command waits for a GPU, whose driver reserves memory and spins."""
        if self._thread is None:
            return
        self._over.set()
        # Joined, so that no signal can arrive after the handler is removed.
        self._thread.join()
        self._thread = None
        if sys.platform == "linux":
            signal.signal(signal.SIGXCPU, self._before)  # type: ignore[arg-type]

    def _raise(self, number: int, frame: FrameType | None) -> None:
        # If the thread has not set an error, it is a system limit (`ulimit -t`).
        raise self._ended or BudgetEnded(self._time)

    def _watch(self, seconds: float, resident: int) -> None:
        told = 0.0
        main = threading.main_thread().ident
        assert main is not None
        while not self._over.wait(_INTERVAL):
            spent, taken = _seconds() - seconds, ((_resident() or 0) - resident) / 1e6
            over = self._time if spent > self._time.limit else self._memory if taken > self._memory.limit else None
            if over is None:
                continue
            self._ended = self._ended or BudgetEnded(over)
            # Only once: a second signal could arrive while the first handler returns, and raise inside the report.
            if not told:
                told = time.monotonic()
                if sys.platform == "linux":
                    signal.pthread_kill(main, signal.SIGXCPU)
            elif time.monotonic() - told > _GRACE or taken > _MOST_OVER * self._memory.limit:
                self._refuse(self._ended)
                # No clean-up: the main thread is in native code, and finalisers could block for ever.
                os._exit(1)


def _row(name: str, limit: int | None) -> Budget:
    return BUDGETS[name] if limit is None else replace(BUDGETS[name], limit=limit)


def _seconds() -> float:
    """Processor time of this process and of the children it has waited for."""
    children = os.times()
    return time.process_time() + children.children_user + children.children_system


def _resident() -> int | None:
    """Resident memory of the process in bytes; None if the system does not report it."""
    if sys.platform != "linux":
        return None
    try:
        with open("/proc/self/statm", "rb") as file:
            return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except OSError:
        return None
