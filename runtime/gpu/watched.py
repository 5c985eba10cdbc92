"""Launches of a kernel with a watchdog: the records that it writes before it traps, and waiting for its end or for the records."""

import ctypes
from threading import Lock
from time import monotonic, sleep
from typing import Any

from pipec.interface import KernelInterface
from pipec.runtime.errors import LOST, HangError, LaunchError
from pipec.runtime.gpu.cuda_driver import Driver
from pipec.runtime.hangs import hang
from pipec.watchdog import BYTES

PATIENCE = 5.0  # seconds from a reported hang to the exception, if the driver does not end the stream
_SHORTEST, _LONGEST = 2e-5, 1e-3  # seconds between two polls of the stream


class Records:
    """The records are in host memory mapped to the device, so that they can be read after the context is lost."""

    def __init__(self, driver: Driver, interface: KernelInterface) -> None:
        self._driver, self._interface = driver, interface
        self._lock = Lock()
        self._memory: int | None = None  # once allocated
        self.lost = False  # the kernel hangs, and the driver has not reported it

    def address(self) -> int:
        """The device address of the records."""
        flags = self._driver.api.CU_MEMHOSTALLOC_DEVICEMAP | self._driver.api.CU_MEMHOSTALLOC_PORTABLE
        doing = "allocating the watchdog's records in host memory"
        with self._lock:
            if self._memory is None:
                with self._driver.uncaptured(self._interface.name):
                    memory = int(self._call("cuMemHostAlloc", BYTES, flags, doing=doing))
                ctypes.memset(memory, 0, BYTES)
                self._memory = memory
            return int(self._call("cuMemHostGetDevicePointer", self._memory, 0, doing=doing))

    def check(self) -> None:
        """Refuses a launch after a hang: it would wait for ever. Raises LaunchError."""
        if self.lost:
            raise LaunchError(self._interface.name, "it hangs since an earlier launch", LOST)

    def wait(self, stream: int, doing: str) -> None:
        """Returns when the stream is done. Raises HangError with the records of the watchdog, if any, else LaunchError.

        The trap that ends a kernel ends its stream with an error. With several processes on a GPU this was seen to take a minute or
        longer: then the records are raised without it.
        """
        pause, told = _SHORTEST, 0.0
        not_ready = self._driver.api.CUresult.CUDA_ERROR_NOT_READY
        while self._driver.api.cuStreamQuery(stream)[0] == not_ready:
            sleep(pause)
            pause = min(2 * pause, _LONGEST)
            if pause < _LONGEST or (found := self._hang()) is None:
                continue
            told = told or monotonic()
            if monotonic() - told > PATIENCE:
                self.lost = True
                raise found
        try:
            self._call("cuStreamSynchronize", stream, doing=doing)
        except LaunchError:
            if (found := self._hang()) is not None:
                raise found from None
            raise

    def _hang(self) -> HangError | None:
        written = b"" if self._memory is None else ctypes.string_at(self._memory, BYTES)
        return hang(self._interface, written, lost=True)

    def _call(self, function: str, *arguments: Any, doing: str) -> Any:
        return self._driver.call(function, *arguments, kernel=self._interface.name, doing=doing)
