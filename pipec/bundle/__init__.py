"""Kernels compiled ahead of time: a folder with machine code for several targets and tiles, launched from C or from Python.

    pipec build gemm.pipe -o gemm_bundle
    gemm = pipec.bundle.load("gemm_bundle")["gemm"]

Loading requires neither the compiler nor its dependencies (LLVM, Lark).
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pipec.bundle.loading import Bundle, load
    from pipec.bundle.manifest import BundleError

_LAZY = {"Bundle": "loading", "BundleError": "manifest", "load": "loading"}

__all__ = ["Bundle", "BundleError", "load"]


def __getattr__(name: str) -> Any:
    if name not in _LAZY:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    value = getattr(import_module(f"{__name__}.{_LAZY[name]}"), name)
    globals()[name] = value
    return value
