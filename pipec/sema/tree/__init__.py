"""The typed tree: a kernel after name resolution, type checking and folding of compile-time values.

A kernel has roles, and a role has statements, whose leaves are operations on pure expressions. Nodes compare by identity, so that derived
facts can be keyed by node: unrolled loops and inlined helpers create nodes with the same text and span.
"""

from pipec.sema.tree.effects import *
from pipec.sema.tree.expressions import *
from pipec.sema.tree.kernels import *
from pipec.sema.tree.operations import *
from pipec.sema.tree.symbols import *
