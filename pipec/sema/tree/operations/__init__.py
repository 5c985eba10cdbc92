"""What a role does: the leaves of its body. `pipec.kir` places them in control-flow graphs unchanged.

Each class declares its effects, the only description of what an operation reads, writes, waits for and signals, and which threads take
part. All public classes of these files are part of the tree.
"""

from pipec.sema.tree.operations.copies import *
from pipec.sema.tree.operations.grids import *
from pipec.sema.tree.operations.multiplications import *
from pipec.sema.tree.operations.operation import *
from pipec.sema.tree.operations.reductions import *
from pipec.sema.tree.operations.stages import *
from pipec.sema.tree.operations.votes import *
