"""Addresses and constants of a role that runs in a whole warp: computed once, before its loops.

ptxas treats whatever it can derive from constants as free, and recomputes it in every iteration: the upper half of each descriptor, the
offset of each tile. Here such values are derived from one that it does not know: the upper bits of the warp's number, broadcast from
lane 0, which are zero. Each address in a loop is then one addition.
"""

from pipec.lower.context import KernelContext, RoleContext
from pipec.lower.emit.value import SHARED, Value, integer

_WARP_BITS = 5  # of a warp's number: a CTA has at most 32
_ZEROS = 32 - _WARP_BITS
_MOST = 22  # registers for constants: ptxas has 80 uniform registers per warp, and copies any further ones at each use


def hides(role: RoleContext) -> bool:
    return role.plan.whole_warp


def keeps_barriers(role: RoleContext) -> bool:
    """Whether the address of a pipeline's barriers stays in a register: a role with register MMAs waits on it in every iteration, and
    ptxas would otherwise recompute it from the CTA's rank in the cluster each time."""
    return hides(role) or role.plan.mma_waits is not None


def constant(role: RoleContext, value: int) -> Value:
    """A constant (i32) kept in a register of its own."""
    if not hides(role) or role.zeros >= _MOST:
        return integer(value)
    with role.builder.early():
        return role.builder.add(_another_zero(role), value)


def in_turn(role: RoleContext, value: int, registers: int) -> Value:
    """Likewise, in one of at most `registers` registers, used round-robin: ptxas copies from there."""
    found = role.constants.setdefault(value, [])
    found.append(constant(role, value) if len(found) < registers else found[len(found) % registers])
    return found[-1]


def own(role: RoleContext, value: Value) -> Value:
    """A value, possibly computed late, in a register of its own."""
    if not hides(role) or role.zeros >= _MOST:
        return value
    with role.builder.early():
        zero = _another_zero(role)
    return role.builder.binary("add", value, zero)


def shared(role: RoleContext, offset: int, ahead: int = 0) -> Value:
    """The address (i32) of a byte of shared memory, kept in a register; `ahead` is added to it, the bias of the stage (see Cursor)."""
    return _kept(role, offset, ahead) if hides(role) else role.kernel.shared_address(offset)


def barriers(role: RoleContext, offset: int, ahead: int = 0) -> Value:
    """The address of the barriers at an offset, as a pointer."""
    if not keeps_barriers(role):
        return role.kernel.shared_pointer(offset)
    address = _kept(role, offset, ahead)
    with role.builder.early():
        return role.builder.emit(SHARED, f"inttoptr {address} to {SHARED}")


def _kept(role: RoleContext, offset: int, ahead: int) -> Value:
    if (offset, ahead) not in role.bases:
        with role.builder.early():
            first = role.builder.binary("add", _zero(role, 0), role.kernel.shared_address(offset))
            role.bases[offset, ahead] = role.builder.add(first, ahead)
    return role.bases[offset, ahead]


def read_tensor_base_for_all(kernel: KernelContext) -> None:
    """Reads the address from tcgen05.alloc in front of the roles, if one of them is executed by one thread: ptxas has no uniform register
    left for what such a role reads itself, and spills others."""
    if any(row.uses_tensor and row.single_thread and not row.whole_warp for row in kernel.plan.roles):
        kernel.tensor_base = _read_tensor_base(kernel)


def tensor_base(role: RoleContext) -> Value:
    """That address. Otherwise each role that uses tensor memory reads it at its start: others need neither it nor the fence."""
    if role.kernel.tensor_base is not None:
        return role.kernel.tensor_base
    if role.tensor_base is None:
        with role.builder.early():
            role.tensor_base = _read_tensor_base(role.kernel)
    return role.tensor_base


def _read_tensor_base(kernel: KernelContext) -> Value:
    assert kernel.plan.tensor_address_offset is not None
    kernel.builder.call("tcgen05.fence.after")
    return kernel.builder.load("i32", kernel.shared_pointer(kernel.plan.tensor_address_offset), 4)


def tensor(role: RoleContext, column: int) -> Value:
    """The address (i32) of a column of tensor memory, in lane 0. If one thread or warp issues, it is computed before the loops: ptxas
    has registers to spare, but would add the constant again at each use."""
    base = tensor_base(role)
    if not hides(role) and not role.plan.single_thread:
        return role.builder.add(base, column)
    if column not in role.columns:
        with role.builder.early():
            start = role.builder.binary("add", _another_zero(role), base) if hides(role) else base
            role.columns[column] = role.builder.add(start, column)
    return role.columns[column]


def tensor_map(role: RoleContext, symbol: str) -> Value:
    """The address of a tensor-map parameter."""
    parameter = Value("ptr", f"%{symbol}")
    if not hides(role):
        return parameter
    if symbol not in role.maps:
        with role.builder.early():
            # For each map another multiple of one zero: a multiplication and an addition in 64 bits are one instruction. The zero is the
            # highest bit, from which nothing else is derived.
            zero = role.builder.cast("zext", _zero(role, _ZEROS - 1), "i64")
            offset = role.builder.binary("mul nuw nsw", zero, integer(2 * len(role.maps) + 3, "i64"))
            role.maps[symbol] = role.builder.offset_pointer(parameter, offset)
    return role.maps[symbol]


def _another_zero(role: RoleContext) -> Value:
    """Derived from a different bit each time, so that ptxas cannot find two of them equal, or at a known distance."""
    role.zeros += 1
    return _zero(role, role.zeros % _ZEROS)


def _zero(role: RoleContext, number: int) -> Value:
    assert role.kernel.copied_warp is not None
    return role.builder.bits("lshr", role.kernel.copied_warp, _WARP_BITS + number)
