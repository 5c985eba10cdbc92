"""Blocks that wait for each other's turns must all get their tensor memory, however many share a multiprocessor."""

import pytest

from pipec.driver import Options, compile_source
from pipec.predict.occupancy import resident_blocks
from pipec.source import Source

COLUMNS = 512  # of a multiprocessor
KERNEL = """
kernel k(a: tensor[bf16, M, 64], b: tensor[bf16, N, 64], d: tensor[f32, M, N], turns: tensor[i32, 1]):
    grid(1, 1, 4)
    input  = InputTilePipeline(TilePayload(a=tile[bf16, 128, 16], b=tile[bf16, {n}, 16]), stages={stages})
    output = OutputTilePipeline(tmem[f32, 128, {n}], stages={tiles})
    role load(warps=1) produces input:
        with input.produce() as s:
            tma.load(s.a, a[0, block.z * 16])
            tma.load(s.b, b[0, block.z * 16])
    role multiply(warps=1) consumes input produces output:
        with output.produce() as acc:
            with input.consume() as s:
                mma(acc, s.a, s.b)
    role add(warps=4) consumes output:
        with output.consume() as acc{turn}:
            store(d[0, 0], acc, reduce="add")
"""


def planned(n: int, stages: int, tiles: int, turn: str) -> tuple[int, int, int]:
    """Threads, bytes of shared memory, columns of tensor memory."""
    text = KERNEL.format(n=n, stages=stages, tiles=tiles, turn=turn)
    state = compile_source(Source("k.pipe", text), Options("sm_100a"))
    assert not state.failed and state.plans is not None, state.diagnostics
    plan = state.plans[0]
    assert plan.interface.shared_bytes == plan.shared_bytes >= max(item.offset + item.bytes for item in plan.shared_items)
    return plan.threads, plan.shared_bytes, plan.allocated_columns


@pytest.mark.parametrize("stages", [1, 4])
@pytest.mark.parametrize(("n", "tiles"), [(32, 1), (64, 1), (128, 1), (256, 1), (256, 2)])
def test_as_many_blocks_are_together_as_get_tensor_memory(n: int, tiles: int, stages: int) -> None:
    threads, shared, columns = planned(n, stages, tiles, ", semaphore(turns[0], block.z, 4)")
    assert resident_blocks(shared, threads) * columns <= COLUMNS
    # One byte less of what is only kept from others would let in another one.
    _, needed, same = planned(n, stages, tiles, "")
    assert columns == same and shared >= needed
    if shared > needed:
        assert resident_blocks(shared - 128, 32) * columns > COLUMNS


def test_other_blocks_need_no_room() -> None:
    threads, shared, columns = planned(256, 1, 2, "")
    assert resident_blocks(shared, threads) * columns > COLUMNS
