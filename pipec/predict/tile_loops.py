"""Which loops of a role iterate over a block's own tiles, and the contents of loop bodies."""

from collections.abc import Iterator
from functools import cache

from pipec.isa.specials import family_and_axis
from pipec.isa.targets import WARPGROUP_WARPS
from pipec.kir.walk import subexpressions
from pipec.sema import tree


def walks_over_tiles(kernel: tree.Kernel) -> bool:
    loops = (statement for role in kernel.roles for statement in role.body if isinstance(statement, tree.For))
    return any(map(goes_over_tiles, loops))


@cache
def goes_over_tiles(loop: tree.For) -> bool:
    """Whether the loop iterates over a block's own tiles: from its number in steps of the number of blocks, or that many times."""
    if loop.step > 1 and isinstance(loop.start, tree.Special):
        return True
    return any(_shared_out(part) for part in subexpressions(loop.stop))


def _shared_out(expression: tree.Expression) -> bool:
    """Whether it is a number of tiles divided by a number of blocks."""
    match expression:
        case tree.Call("ceildiv", (_, among)) | tree.Binary("//", _, among):
            return any(
                isinstance(part, tree.Special) and family_and_axis(part.name)[0] in ("grid", "clusters")
                for part in subexpressions(among)
            )
        case _:
            return False


def operations_in(body: tuple[tree.Statement, ...]) -> Iterator[tree.Operation]:
    """All of them, in all branches."""
    for statement in body:
        match statement:
            case tree.For() | tree.While() | tree.Elect():
                yield from operations_in(statement.body)
            case tree.If():
                yield from operations_in(statement.then)
                yield from operations_in(statement.otherwise)
            case _:
                yield statement


def statements_in(body: tuple[tree.Statement, ...]) -> Iterator[tree.Statement]:
    """All of them, in preorder."""
    for statement in body:
        yield statement
        match statement:
            case tree.For() | tree.While() | tree.Elect():
                yield from statements_in(statement.body)
            case tree.If():
                yield from statements_in(statement.then)
                yield from statements_in(statement.otherwise)
            case _:
                pass


def written(kernel: tree.Kernel) -> frozenset[str]:
    """The tensors that it writes."""
    operations = (one for role in kernel.roles for one in operations_in(role.body))
    return frozenset(one.destination.tensor.name for one in operations if isinstance(one, tree.Store | tree.TmaStore))


_COUNTED = tree.TmaLoad | tree.CopyAsync | tree.Mma | tree.RegisterMma | tree.Store | tree.TmaStore


@cache
def counts(branch: tree.If) -> bool:
    """Whether its branches load, multiply or store anything."""
    return any(isinstance(one, _COUNTED) for one in operations_in((branch,)))


def warpgroups(role: tree.Role) -> int:
    """Warpgroups that multiply in registers proceed at their own pace, each with its rows of a tile."""
    return max(1, role.warps // WARPGROUP_WARPS) if multiplies(role.body) else 1


@cache
def multiplies(body: tuple[tree.Statement, ...]) -> bool:
    """Whether it has register MMAs."""
    return any(isinstance(operation, tree.RegisterMma) for operation in operations_in(body))
