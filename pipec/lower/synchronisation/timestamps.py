"""Records the clock before and after a role's operations: records of pipec.timestamps, by one thread of the role."""

from pipec.kir.plan.timestamps import marked
from pipec.lower.context import KernelContext, RoleContext
from pipec.lower.emit.llvm import Builder
from pipec.lower.emit.value import GLOBAL, Value, integer
from pipec.sema import tree
from pipec.timestamps import ARGUMENT, EACH, WORDS

_BYTES = 8  # of a word


def start(kernel: KernelContext) -> None:
    """Numbers the marks; no effect without time stamps."""
    if kernel.plan.interface.timestamps is not None:
        kernel.marks = {operation: number for number, (_, operation) in enumerate(marked(kernel.plan))}


def start_role(role: RoleContext) -> None:
    if role.kernel.marks is not None:
        role.stamps = role.builder.variable("i32", f"{role.prefix}.stamps")
        role.stamps.write(integer(0))


def stamp(role: RoleContext, operation: tree.Operation, *, behind: bool) -> None:
    marks, table = role.kernel.marks, role.kernel.plan.interface.timestamps
    if marks is None or table is None or role.stamps is None or operation not in marks:
        return
    role.rejoin()
    builder = role.builder
    one, note, after = (builder.label(f"{role.prefix}.stamp.{part}") for part in ("one", "note", "after"))
    builder.branch(role.leader, one, after)
    builder.place(one)
    count = role.stamps.read()
    number = table.roles.index(role.plan.role.name)
    first = builder.add(builder.multiply(_block(builder), len(table.roles)), number)
    index = builder.add(builder.multiply(first, EACH), count)
    # Checks the space for the last record as well: the tensor may end within a role's part.
    room = Value("i32", f"%{_symbol(role.kernel)}_words")
    fits = builder.compare("ult", builder.multiply(builder.add(index, 1), WORDS), builder.add(room, 1))
    builder.branch(builder.binary("and", builder.compare("ult", count, integer(EACH)), fits), note, after)
    builder.place(note)
    place = builder.multiply(builder.cast("zext", index, "i64"), WORDS * _BYTES)
    address = builder.offset_pointer(Value(GLOBAL, f"%{_symbol(role.kernel)}"), place)
    builder.store(builder.call("clock"), address, _BYTES)
    builder.store(
        integer(2 * marks[operation] + 1 + behind, "i64"), builder.offset_pointer(address, integer(_BYTES, "i64")), _BYTES
    )
    role.stamps.write(builder.add(count, 1))
    builder.jump(after)
    builder.place(after)
    role.reconverge()


def _symbol(kernel: KernelContext) -> str:
    return f"{kernel.plan.kernel.name}_{ARGUMENT}"


def _block(builder: Builder) -> Value:
    """The block's number in its grid."""
    x, y, z = (builder.call(f"block.{axis}") for axis in "xyz")
    rows = builder.add(builder.binary("mul", z, builder.call("grid.y")), y)
    return builder.add(builder.binary("mul", rows, builder.call("grid.x")), x)
