"""Reading sources and writing results: the only file access of the command line and the Python interface."""

import errno
import io
import os
import stat
import sys
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from pipec.diag.catalogue.commands import run
from pipec.diag.catalogue.language import syntax
from pipec.diag.message import Failure
from pipec.source import Source

if TYPE_CHECKING:
    import numpy as np

# No source or PTX comes near this size; an endless device (/dev/zero) exceeds it.
_LARGEST = 64 << 20
# Creates a new file, and does not follow a link of that name.
_CREATE = (
    os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0) | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_NOFOLLOW", 0)
)


def read_source(name: str) -> Source:
    """The text of a file. Raises Failure if it cannot be read or is not text."""
    try:
        with Path(name).open("rb") as file:
            data = file.read(_LARGEST + 1)
    except (OSError, ValueError) as error:
        raise Failure(syntax.Unreadable(name=name, reason=_reason(error))) from None
    return _source(name, data)


def read_input(name: str) -> Source:
    """The text of a file given on the command line; `-` is standard input. Raises Failure."""
    if name != "-":
        return read_source(name)
    try:
        if sys.stdin is None:
            raise OSError("it is closed")
        data = sys.stdin.buffer.read(_LARGEST + 1)
    except (OSError, ValueError) as error:
        raise Failure(syntax.Unreadable(name="standard input", reason=_reason(error))) from None
    return _source("<stdin>", data)


def _source(name: str, data: bytes) -> Source:
    if len(data) > _LARGEST:
        raise Failure(syntax.Unreadable(name=name, reason=f"it is larger than {_LARGEST >> 20} MiB"))
    try:
        return Source(name, data.decode("utf-8-sig"))
    except UnicodeDecodeError as error:
        raise Failure(syntax.NotText(name=name, offset=error.start, byte=error.object[error.start])) from None


def spare(source: str, *outputs: str | None) -> None:
    """Refuses to overwrite the source, under any name, to write two outputs to one file, or to begin when one cannot be written.
    Raises Failure."""
    seen: dict[str, str] = {}
    for output in outputs:
        if output is None or output == "-":
            continue
        with suppress(OSError, ValueError):  # errors are reported when it is opened
            if source != "-" and Path(output).is_file() and Path(output).samefile(source):
                raise cannot_write(output, OSError("it is the file that is read"))
            if seen.setdefault(os.path.realpath(output), output) is not output:
                raise cannot_write(output, OSError("two outputs would be written there"))
        try:
            _target(output)
        except (OSError, ValueError) as error:
            raise cannot_write(output, error) from None


def read_array(name: str) -> "np.ndarray":
    """The array of a .npy file. Raises Failure."""
    import numpy as np

    try:
        with Path(name).open("rb") as file:
            return np.lib.format.read_array(file, allow_pickle=False)
    except (OSError, ValueError, EOFError, MemoryError) as error:
        raise Failure(syntax.Unreadable(name=name, reason=_reason(error))) from None


def write_array(name: str, array: "np.ndarray") -> None:
    """Writes a .npy file; types unknown to the format (bfloat16) are stored as integers with the same bits."""
    import numpy as np

    stored = array if array.dtype.isbuiltin == 1 else array.view(f"u{array.itemsize}")
    buffer = io.BytesIO()
    np.lib.format.write_array(buffer, stored, allow_pickle=False)
    write_output(name, buffer.getvalue())


def write_output(output: str | None, data: str | bytes) -> None:
    """Atomic: a file appears under its name only when it is complete. None and "-" are standard output."""
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
    if isinstance(stream, io.StringIO):  # of a caller that captures the output
        stream.write(data.decode(errors="replace"))
        return
    stream.flush()
    stream.buffer.write(data)
    stream.buffer.flush()


def _target(output: str) -> Path:
    """The file that is written: the target of a link, not the link. Raises OSError and ValueError if it can be seen not to be writable."""
    target = Path(os.path.realpath(output))
    if target.is_dir():
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
    if not target.parent.is_dir():
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT))
    if not os.access(target if target.exists() else target.parent, os.W_OK):
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
    return target


def _write_file(output: str, data: bytes) -> None:
    target = _target(output)
    if target.exists() and not target.is_file():  # a device or pipe is written to, never replaced by a file
        target.write_bytes(data)
        return
    mode = stat.S_IMODE(target.stat().st_mode) if target.exists() else None
    # Under another name, and readable only by its owner, until it is complete. (`tempfile` does the same, but importing it takes 3 ms.)
    partial = target.parent / f".{target.name[:100]}.{os.urandom(8).hex()}.partial"
    number = os.open(partial, _CREATE, 0o600)
    try:
        with os.fdopen(number, "wb") as file:
            file.write(data)
        partial.chmod(0o666 & ~_umask() if mode is None else mode)
        partial.replace(target)
    except BaseException:
        partial.unlink(missing_ok=True)
        raise


def _umask() -> int:
    """The umask of new files, which can only be read by setting it."""
    mask = os.umask(0o077)
    os.umask(mask)
    return mask


def _reason(error: Exception) -> str:
    return (getattr(error, "strerror", None) or str(error)).lower()
