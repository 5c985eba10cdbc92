"""pipec: warp-specialised producer/consumer kernels, checked, compiled to NVIDIA PTX, simulated and launched."""

from pathlib import Path

from pipec._version import VERSION as __version__

# In a bare checkout the packages `pipec.grammar` and `pipec.runtime` live beside this folder, not inside it.
_CHECKOUT = Path(__file__).resolve().parent.parent
if (_CHECKOUT / "grammar" / "pipec.lark").is_file():
    __path__.append(str(_CHECKOUT))

__all__ = ["__version__"]
