"""Machine code for the driver: a cubin from ptxas or nvJitLink where one is installed, kept on disk; else the PTX itself.

The cache's key is the content: PTX, architecture, and the assembler's version. `PIPEC_CACHE_DIR` moves it, "" turns it off.
"""

import hashlib
import os
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from pipec.diag.message import Sink
from pipec.isa.targets import TARGETS
from pipec.runtime.errors import LaunchError

if TYPE_CHECKING:
    from pipec.runtime.launcher import Image


def cache_folder() -> Path | None:
    """Where cubins are kept: $PIPEC_CACHE_DIR, else pipec in the user's cache folder; None when turned off."""
    chosen = os.environ.get("PIPEC_CACHE_DIR")
    if chosen is not None:
        return Path(chosen) if chosen else None
    root = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
    return Path(root) / "pipec"


def machine_code(image: "Image", kernel: str) -> bytes:
    """What cuLibraryLoadData takes: a cubin, or PTX ending in a zero byte for the driver to compile."""
    if image.cubin is not None:
        return image.cubin
    if image.ptx is None:
        raise LaunchError(kernel, "there is neither PTX nor machine code to load")
    from pipec.ptx import assemble

    tools = assemble.available() if image.arch in TARGETS else {}
    if not tools:
        return image.ptx.encode() + b"\0"
    key = hashlib.sha256("\0".join((image.ptx, image.arch, *tools.values())).encode()).hexdigest()
    return read(key) or _assembled(image, kernel, key)


def _assembled(image: "Image", kernel: str, key: str) -> bytes:
    from pipec.ptx.assemble import assemble

    sink = Sink()
    assert image.ptx is not None
    done = assemble(image.ptx, image.arch, sink)
    if done is None:
        raise LaunchError(kernel, "; ".join(diagnostic.title for diagnostic in sink.diagnostics))
    write(key, done.cubin)
    return done.cubin


def read(key: str) -> bytes | None:
    """A cached cubin."""
    folder = cache_folder()
    if folder is None:
        return None
    try:
        return (folder / f"{key}.cubin").read_bytes() or None
    except OSError:
        return None


def write(key: str, cubin: bytes) -> None:
    """Keeps a cubin; the file appears whole or not at all. A folder that cannot be written is no error."""
    folder = cache_folder()
    if folder is None:
        return
    with suppress(OSError):
        folder.mkdir(parents=True, exist_ok=True)
        descriptor, partial = tempfile.mkstemp(dir=folder, suffix=".partial")
        try:
            with os.fdopen(descriptor, "wb") as file:
                file.write(cubin)
            os.replace(partial, folder / f"{key}.cubin")
        except OSError:
            os.unlink(partial)
            raise
