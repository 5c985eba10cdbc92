"""Machine code for the driver: a cubin from ptxas or nvJitLink where one is installed, kept on disk; else the PTX itself.

What is kept (see pipec.cache) is known by what it was made of: PTX, architecture, and the assembler's version.
"""

from typing import TYPE_CHECKING

from pipec import cache
from pipec.diag.message import Sink
from pipec.isa.targets import TARGETS
from pipec.runtime.errors import LaunchError

if TYPE_CHECKING:
    from pipec.runtime.image import Image

_CUBIN = "cubin"  # the kind of entry in the cache
_ELF = b"\x7fELF"


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
    key = cache.key_of(image.ptx, image.arch, *(text for tool in sorted(tools.items()) for text in tool))
    kept = cache.read(_CUBIN, key)
    return kept if kept is not None and kept.startswith(_ELF) else _assembled(image, kernel, key)


def _assembled(image: "Image", kernel: str, key: str) -> bytes:
    from pipec.ptx.assemble import assemble

    sink = Sink()
    assert image.ptx is not None
    done = assemble(image.ptx, image.arch, sink)
    if done is None:
        raise LaunchError(kernel, "; ".join(diagnostic.title for diagnostic in sink.diagnostics))
    cache.write(_CUBIN, key, done.cubin)
    return done.cubin
