"""Cluster launch control: requests for clusters that have not started, and the answers (PTX ISA 9.7.13.17-18)."""

from pipec.kir.plan_types import RESPONSE_BYTES
from pipec.lower.context import RoleContext
from pipec.lower.llvm import Value
from pipec.sema.tree import Handle


def request(role: RoleContext, handle: Handle, barrier: Value) -> None:
    """The answer arrives in the stage; its bytes complete on `barrier`, which the acquire told to expect them."""
    with role.one_thread("request"):
        role.builder.call("clc.try_cancel", _answer(role, handle), barrier)


def read_response(role: RoleContext, handle: Handle) -> Value:
    """The number of the cluster that the answer grants, which is the index of its tile; -1 when it grants none.

    The next answer is written through the async proxy, so this read is fenced before the arrival that lets it come (SM100.md 6).
    """
    builder = role.builder
    index = builder.call("clc.first_block", _answer(role, handle))
    builder.call("fence.proxy.async.shared")
    return index


def _answer(role: RoleContext, handle: Handle) -> Value:
    offset = role.kernel.plan.response_offset
    assert offset is not None
    return role.builder.offset_pointer(role.kernel.shared_pointer(offset), role.builder.multiply(role.stage(handle), RESPONSE_BYTES))
