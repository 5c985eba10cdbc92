"""Held by whoever calls LLVM: its options and targets are state of the process, and setting them up while another thread generates code
makes that one loop for ever or crash."""

from threading import RLock
from typing import Final

LLVM_LOCK: Final = RLock()
