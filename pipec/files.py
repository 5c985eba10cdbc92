"""Reading sources and writing results: the only file access of the command line and the Python interface."""

import errno
import io
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from pipec.diag.catalogue import run, syntax
from pipec.diag.message import Failure
from pipec.source import Source

if TYPE_CHECKING:
    import numpy as np

# No source and no PTX comes near this; a device that never ends (/dev/zero) does.
_LARGEST = 64 << 20


def read_source(name: str) -> Source:
    """The text of a file. Raises Failure when it cannot be read or is no text."""
    try:
        with Path(name).open("rb") as file:
            data = file.read(_LARGEST + 1)
        if len(data) > _LARGEST:
            raise Failure(syntax.Unreadable(name=name, reason=f"it is larger than {_LARGEST >> 20} MiB"))
        return Source(name, data.decode("utf-8-sig"))
    except UnicodeDecodeError as error:
        raise Failure(syntax.NotText(name=name, offset=error.start, byte=error.object[error.start])) from None
    except (OSError, ValueError) as error:
        raise Failure(syntax.Unreadable(name=name, reason=_reason(error))) from None


def read_array(name: str) -> "np.ndarray":
    """The array of a .npy file. Raises Failure."""
    import numpy as np

    try:
        with Path(name).open("rb") as file:
            return np.lib.format.read_array(file, allow_pickle=False)
    except (OSError, ValueError, EOFError, MemoryError) as error:
        raise Failure(syntax.Unreadable(name=name, reason=_reason(error))) from None


def write_array(name: str, array: "np.ndarray") -> None:
    """A .npy file; types that the format does not know (bfloat16) are written as integers of the same bits."""
    import numpy as np

    stored = array if array.dtype.isbuiltin == 1 else array.view(f"u{array.itemsize}")
    buffer = io.BytesIO()
    np.lib.format.write_array(buffer, stored, allow_pickle=False)
    write_output(name, buffer.getvalue())


def write_output(output: str | None, data: str | bytes) -> None:
    """Whole or not at all: a file appears under its name only when it is complete. None and "-" are standard output."""
    encoded = data.encode(errors="surrogateescape") if isinstance(data, str) else data
    to_stream = output is None or output == "-"
    try:
        if to_stream:
            _write_stream(encoded)
        else:
            _write_file(str(output), encoded)
    except BrokenPipeError:
        raise
    except (OSError, ValueError) as error:
        raise cannot_write("standard output" if to_stream else str(output), error) from None


def cannot_write(name: str, error: Exception) -> Failure:
    return Failure(run.CannotWrite(name=name, reason=_reason(error)))


def _write_stream(data: bytes) -> None:
    stream = sys.stdout
    if stream is None:
        raise OSError("it is closed")
    if isinstance(stream, io.StringIO):  # of a caller who collects what is printed
        stream.write(data.decode(errors="replace"))
        return
    stream.flush()
    stream.buffer.write(data)
    stream.buffer.flush()


def _write_file(output: str, data: bytes) -> None:
    # What a link points to is replaced, not the link; and a device or pipe is written to, never replaced by a file.
    target = Path(os.path.realpath(output))
    if target.is_dir():
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
    if target.exists() and not target.is_file():
        target.write_bytes(data)
        return
    partial = target.with_name(f".{target.name}.{os.getpid()}.partial")
    try:
        partial.write_bytes(data)
        partial.replace(target)
    except OSError:
        partial.unlink(missing_ok=True)
        raise


def _reason(error: Exception) -> str:
    return (getattr(error, "strerror", None) or str(error)).lower()
