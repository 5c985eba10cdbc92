"""What blocks need that are on one multiprocessor together and wait for each other."""

from pipec.isa.targets import RESERVED_SHARED_BYTES, Target
from pipec.kir.ir import Kernel
from pipec.sema import tree

_UNIT = 128  # bytes of shared memory that are allocated at a time


def bytes_in_turns(kernel: Kernel, target: Target, columns: int) -> int:
    """Dynamic shared memory of which a multiprocessor holds as many blocks as its tensor memory does, if the kernel's blocks take turns;
    else 0. `columns`: of tensor memory, for each block.

    A block that waits for its turn keeps its tensor memory. With more blocks than get some, those that do might be waiting for one that
    waits for theirs.
    """
    operations = (operation for role in kernel.roles for block in role.blocks for operation in block.operations)
    if not columns or not any(isinstance(operation, tree.AwaitTurn) for operation in operations):
        return 0
    too_many = target.tensor_columns // columns + 1
    least = (
        (target.shared_bytes + RESERVED_SHARED_BYTES) // too_many - RESERVED_SHARED_BYTES + 1
    )  # too many blocks of so many bytes do not fit
    return max(0, -(-least // _UNIT) * _UNIT)
