"""Reading sources and writing results: the only file access of the command line and the Python interface."""

import os
import sys
from pathlib import Path

from pipec.diag.catalogue import run, syntax
from pipec.diag.message import Failure
from pipec.source import Source


def read_source(name: str) -> Source:
    """The text of a file. Raises Failure when it cannot be read or is no text."""
    try:
        return Source(name, Path(name).read_bytes().decode("utf-8-sig"))
    except UnicodeDecodeError as error:
        raise Failure(syntax.NotText(name=name, offset=error.start, byte=error.object[error.start])) from None
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise Failure(syntax.Unreadable(name=name, reason=reason.lower())) from None


def write_output(output: str | None, data: str | bytes) -> None:
    """Whole or not at all: a file appears under its name only when it is complete. None and "-" are standard output."""
    encoded = data.encode() if isinstance(data, str) else data
    if output is None or output == "-":
        sys.stdout.buffer.write(encoded)
        sys.stdout.buffer.flush()
        return
    target = Path(output)
    partial = target.with_name(f".{target.name}.{os.getpid()}.partial")
    try:
        partial.write_bytes(encoded)
        partial.replace(target)
    except (OSError, ValueError) as error:
        _forget(partial)
        reason = getattr(error, "strerror", None) or str(error)
        raise Failure(run.CannotWrite(name=output, reason=reason.lower())) from None


def _forget(path: Path) -> None:
    try:
        path.unlink(missing_ok=True)
    except (OSError, ValueError):
        pass  # there was nothing to leave behind
