"""Numbers whose sign makes a kernel pointless in every launch: divisors that are never positive (E0273), grids without blocks (E0274).

Where a compile-time parameter means a number of rows or of blocks, a negative one gives such numbers: tiles are then computed twice or
not at all, and no hand-over is wrong.
"""

from collections.abc import Iterator

from pipec.diag.catalogue.grid import signs as messages
from pipec.diag.message import Sink
from pipec.isa.dtypes import DType
from pipec.isa.specials import AXES
from pipec.kir.ir import Branch, Kernel, Role
from pipec.kir.lazy_tiles import lazy_tiles
from pipec.kir.walk import operands, subexpressions
from pipec.sema import tree
from pipec.source import Span
from pipec.terms.term import Term

_DIVIDING = frozenset({"//", "%", "ceildiv"})


def check(kernel: Kernel, sink: Sink) -> None:
    reported: set[Span] = set()
    for divisor, term in divisors(kernel):
        if term.largest <= 0 and divisor.span not in reported:
            reported.add(divisor.span)
            sink.report(messages.DivisorNeverPositive(most=term.largest, at=divisor.span))
    for axis, extent in zip(AXES, kernel.grid, strict=True):
        most = kernel.launch.term(extent).largest
        if most <= 0 and not reported:
            sink.report(messages.NoBlocksEver(axis=axis, most=most, at=extent.span))


def divisors(kernel: Kernel) -> Iterator[tuple[tree.Expression, Term]]:
    """What a launch divides by, with the range of its values. (A constant is what its author wrote.)"""
    for extent in kernel.grid:
        yield from ((one, kernel.launch.term(one)) for one in _of(subexpressions(extent)))
    for role in kernel.roles:
        yield from ((one, role.values.of(one)) for one in _of(_evaluated(role)))


def _evaluated(role: Role) -> Iterator[tree.Expression]:
    names = lazy_tiles(role)
    for block in role.blocks:
        for operation in block.operations:
            for operand in operands(operation):
                yield from subexpressions(operand, names)
        if isinstance(block.terminator, Branch):
            yield from subexpressions(block.terminator.condition, names)


def _of(expressions: Iterator[tree.Expression]) -> Iterator[tree.Expression]:
    for one in expressions:
        match one:
            case tree.Binary(operator=function, right=divisor) | tree.Call(function=function, arguments=(_, divisor)):
                scalar = isinstance(divisor.type, DType) and divisor.type.is_integer
                if function in _DIVIDING and scalar and not isinstance(divisor, tree.Constant):
                    yield divisor
            case _:
                pass
