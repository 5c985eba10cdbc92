"""Kernel IR and its plan to LLVM IR with NVVM intrinsics."""

from pipec.lower.kernel import lower

__all__ = ["lower"]
