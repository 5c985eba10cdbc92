"""Semantic analysis: resolves names, checks types, folds compile-time values. `analyse` is the entry point."""

from pipec.sema.kernels import analyse

__all__ = ["analyse"]
