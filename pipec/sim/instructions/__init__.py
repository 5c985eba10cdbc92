"""Instruction meanings, one module per family. Importing this package registers them all (the registry is in decode.py)."""

from .alu import bits, compare, convert, floating, integers, moves, packed, video  # noqa: F401
from .asynchronous import async_copy, bulk, clc, mbarrier, tensor_copies, tensormaps  # noqa: F401
from .control import barriers, branches, calls, collectives  # noqa: F401
from .memory import atomics, loadstore, matrix, multimem, stack  # noqa: F401
from .tensor import mma, pipe, tcgen05, wgmma, wmma  # noqa: F401
