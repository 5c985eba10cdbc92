"""The typed tree: what a kernel means once names are resolved, types known and compile-time values folded.

A kernel has roles, a role statements, whose leaves are operations on pure expressions. A node is equal to itself alone, so that what is
derived for it is kept under the node: unrolled loops and inlined helpers give nodes of the same text and span.
"""

from pipec.sema.tree.effects import *
from pipec.sema.tree.expressions import *
from pipec.sema.tree.kernels import *
from pipec.sema.tree.operations import *
from pipec.sema.tree.symbols import *
