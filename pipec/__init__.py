"""pipec: warp-specialised producer/consumer kernels, checked, compiled to NVIDIA PTX, simulated and launched.

program = pipec.compile("gemm.pipe", constants={"BM": 128})
program["gemm"](a, b, d)
gemm = pipec.kernel(\"\"\" kernel gemm(...): ... \"\"\")
"""

from pathlib import Path
from typing import TYPE_CHECKING, Any

from pipec._version import VERSION as __version__

# In a bare checkout the packages `pipec.grammar` and `pipec.runtime` are next to this folder, not inside it.
_CHECKOUT = Path(__file__).resolve().parent.parent
if (_CHECKOUT / "grammar" / "pipec.lark").is_file():
    __path__.append(str(_CHECKOUT))

if TYPE_CHECKING:
    from pipec.api.choosing import choose
    from pipec.api.embed import check, compile, kernel
    from pipec.api.program import CompiledKernel, CompileError, Program

# Imported on first use, to keep `import pipec` cheap.
_LAZY = {
    "check": "pipec.api.embed",
    "choose": "pipec.api.choosing",
    "compile": "pipec.api.embed",
    "kernel": "pipec.api.embed",
    "CompileError": "pipec.api.program",
    "CompiledKernel": "pipec.api.program",
    "Program": "pipec.api.program",
}

__all__ = ["CompileError", "CompiledKernel", "Program", "__version__", "check", "choose", "compile", "kernel"]


def __getattr__(name: str) -> Any:
    if name not in _LAZY:
        raise AttributeError(f"module 'pipec' has no attribute {name!r}")
    from importlib import import_module

    value = getattr(import_module(_LAZY[name]), name)
    globals()[name] = value
    return value
