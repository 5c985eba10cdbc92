"""What a role does: the leaves of its body. `pipec.kir` puts them into control-flow graphs unchanged.

Each class declares its effects; nothing else says what an operation reads, writes, waits for or signals, and who takes part.
"""

from pipec.sema.tree.operations.copies import Assign, CopyAsync, Store, TmaLoad, TmaStore, Write
from pipec.sema.tree.operations.grids import AwaitGrids, AwaitTurn, LaunchDependents, PassTurn
from pipec.sema.tree.operations.multiplications import ClearAccumulator, Mma, RegisterMma, WriteAccumulator
from pipec.sema.tree.operations.operation import OPERATIONS, Operation
from pipec.sema.tree.operations.stages import Acquire, Drain, ExpectBytes, Peek, Release, RequestTile, Signal

__all__ = [
    "OPERATIONS",
    "Acquire",
    "Assign",
    "AwaitGrids",
    "AwaitTurn",
    "ClearAccumulator",
    "CopyAsync",
    "Drain",
    "ExpectBytes",
    "LaunchDependents",
    "Mma",
    "Operation",
    "PassTurn",
    "Peek",
    "RegisterMma",
    "Release",
    "RequestTile",
    "Signal",
    "Store",
    "TmaLoad",
    "TmaStore",
    "Write",
    "WriteAccumulator",
]
