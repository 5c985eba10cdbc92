"""Cluster launch control: requests for clusters that have not started, and the responses (PTX ISA 9.7.13.17-18)."""

from pipec.kir.plan.types import RESPONSE_BYTES
from pipec.lower.context import RoleContext
from pipec.lower.emit.arithmetic import floor_divide
from pipec.lower.emit.value import TRUE, Value, integer
from pipec.lower.synchronisation import clusters
from pipec.sema.tree import Handle
from pipec.sema.types import I32


def request(role: RoleContext, handle: Handle, barrier: Value) -> None:
    """The response is written to the stage; its bytes complete on `barrier`, which the acquire made expect them.

    In a cluster the first CTA requests for all, and the response is written to the same addresses in each.
    """
    builder = role.builder
    others = clusters.others_ask(role, handle.pipeline)
    first = None if others is None else builder.binary("xor", others, TRUE)
    with role.one_thread("request"), role.only_if(first, "request.first"):
        name = "clc.try_cancel" if first is None else "clc.try_cancel.multicast"
        builder.call(name, _answer(role, handle), barrier)


def read_response(role: RoleContext, handle: Handle) -> Value:
    """The number of the cluster that the response grants, which is the index of its tile; -1 if it grants none.

    The response has the cluster's first CTA in a grid of clusters along x. The next response is written through the async proxy, so this
    read is fenced before the arrival that allows it (hardware.md 6).
    """
    builder = role.builder
    block = builder.call("clc.first_block", _answer(role, handle))
    builder.call("fence.proxy.async.shared")
    return floor_divide(builder, I32, block, integer(role.kernel.plan.kernel.cluster.shape[0]), remainder=False)


def _answer(role: RoleContext, handle: Handle) -> Value:
    offset = role.kernel.plan.response_offset
    assert offset is not None
    return role.builder.offset_pointer(
        role.kernel.shared_pointer(offset), role.builder.multiply(role.stage(handle), RESPONSE_BYTES)
    )
