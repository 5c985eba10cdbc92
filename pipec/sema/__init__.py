"""Meaning: names resolved, types known, compile-time values folded. `analyse` is the way in."""

from pipec.sema.kernels import analyse

__all__ = ["analyse"]
