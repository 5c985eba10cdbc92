"""The records of a watchdog as an exception: the same for the simulator's memory and for a GPU's."""

import json

from pipec import watchdog
from pipec.interface import KernelInterface, to_json
from pipec.runtime.errors import HangError

# Offset of dynamic shared memory, after the system's own (hardware.md 5.2; pipec declares no static memory).
SHARED_BASE = 0x400


def hang(interface: KernelInterface, memory: bytes, *, lost: bool) -> HangError | None:
    """The error described by the records; None if there are none."""
    if interface.watchdog is None:
        return None
    metadata = json.loads(to_json(interface))
    found = watchdog.entries(metadata, memory, SHARED_BASE)
    if not found:
        return None
    loop = watchdog.cycle(metadata, found)
    seconds = interface.watchdog.nanoseconds / 1e9
    return HangError(interface.name, seconds, found, loop, watchdog.report(found, loop), lost)
