"""Machine code for the driver: a cached cubin from ptxas or nvJitLink if one is installed; else the PTX itself.

Cache entries (see pipec.cache) are keyed by PTX, architecture, and the assembler's version.
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
    """Input for cuLibraryLoadData: a cubin, or zero-terminated PTX for the driver to compile."""
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
