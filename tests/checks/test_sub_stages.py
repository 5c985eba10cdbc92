"""RolePipeline: what the compiler derives for sub-stages, and how reports name them."""

from pipec.blocked_waits import Names
from pipec.driver import Options, compile_source
from pipec.interface import from_json, to_json
from pipec.sema import tree
from pipec.source import Source

TEXT = """
kernel k(x: tensor[f32, M, 64], y: tensor[f32, M, 64]):
    grid(1)
    ring = RolePipeline(stages=3, producer_sub_stages=2, consumer_sub_stages=4)
    role fill(warps=1) produces ring:
        ring.acquire[3]()
        ring.acquire[0]()
        ring.acquire[2]()
        ring.acquire[1]()
        ring.producer_mbar[1]().arrive()
        ring.commit()
    role drain(warps=2) consumes ring:
        ring.wait[1]()
        ring.wait()
        for_all(ring)

fn for_all(ring):
    ring.release_no_step[2]()
    ring.release_no_step()
    ring.release_no_step[3]()
    ring.release[1]()
"""


def test_barriers_of_the_two_sides_are_separate():
    (plan,) = compile_source(Source("k.pipe", TEXT), Options()).plans or []
    full, empty = plan.interface.barriers
    assert (full.stages, full.sub_stages, full.count) == (3, 2, 1)  # a role of one warp without tiles is one thread
    assert (empty.stages, empty.sub_stages, empty.count) == (3, 4, 64)
    assert empty.offset == full.offset + 3 * 2 * 8
    assert from_json(to_json(plan.interface)) == plan.interface


def test_reports_name_the_sub_stage():
    (plan,) = compile_source(Source("k.pipe", TEXT), Options()).plans or []
    full, empty = plan.interface.barriers
    rows = [
        {"pipeline": row.pipeline, "side": row.side, "stages": row.stages, "offset": row.offset, "sub_stages": row.sub_stages}
        for row in (full, empty)
    ]
    names = Names({"barriers": rows}, base=0)
    assert str(names.barrier(full.offset + 8 * 5)) == "pipeline `ring`, full barrier, stage 2, sub-stage 1"
    assert str(names.barrier(empty.offset + 8 * 6)) == "pipeline `ring`, empty barrier, stage 1, sub-stage 2"


UNROLLED = """
kernel k():
    grid(1)
    ring = RolePipeline(stages=2, producer_sub_stages=3)
    role fill(warps=1) produces ring:
        ring.acquire()
        for i in range(3):
            ring.producer_mbar[2 - i]().arrive()
        ring.step()
    role drain(warps=1) consumes ring:
        for i in range(3):
            ring.wait[i]()
        ring.release()
"""


def test_a_constant_loop_over_sub_stages_is_written_out():
    state = compile_source(Source("k.pipe", UNROLLED), Options(), until="build")
    assert state.diagnostics == []
    (kernel,) = state.kernels or []
    fill, drain = kernel.roles
    assert [operation.sub_stage for operation in fill.blocks[0].operations if isinstance(operation, tree.Signal)] == [2, 1, 0]
    assert [operation.first for operation in drain.blocks[0].operations if isinstance(operation, tree.Acquire)] == [
        True,
        False,
        False,
    ]
