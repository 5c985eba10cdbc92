"""Pointers that stand in memory: arrays answer at the addresses that the host knows them by."""

from __future__ import annotations

import numpy as np
import pytest

from pipec.sim import SimulationError, TensorMap, TensorMapArgument, launch
from pipec.sim.machine.memory.global_memory import GlobalMemory

HEAD = ".version 9.0\n.target sm_100a\n.address_size 64\n"
REGISTERS = ".reg .pred %p<4>; .reg .b32 %t, %r<12>; .reg .b64 %d<12>; .reg .f32 %f<12>;"


def run(body: str, arguments: list, allocations: tuple = (), **shape) -> object:
    parameters = ", ".join(f".param .u64 p{number}" for number in range(len(arguments)))
    text = f"{HEAD}.entry k({parameters}) {{ {REGISTERS} mov.u32 %t, %tid.x;\n{body}\nret; }}"
    return launch(text, **{"block": 32, **shape}, arguments=arguments, allocations=allocations)


def unaligned(count: int, dtype: type = np.float32) -> np.ndarray:
    """An array that stands 16 bytes behind a multiple of 256."""
    data = np.zeros(4 * count + 512, np.uint8)
    start = -data.ctypes.data % 256 + 16
    return data[start : start + 4 * count].view(dtype)


SUM = """ld.param.u64 %d1, [p0]; ld.param.u64 %d2, [p1]; mov.f32 %f1, 0f00000000; mov.u32 %r1, 0;
next: mul.wide.u32 %d3, %r1, 8; add.s64 %d3, %d1, %d3; ld.global.u64 %d4, [%d3];
mul.wide.u32 %d5, %t, 4; add.s64 %d4, %d4, %d5; ld{space}.f32 %f2, [%d4]; add.f32 %f1, %f1, %f2;
add.u32 %r1, %r1, 1; setp.lt.u32 %p1, %r1, 3; @%p1 bra next;
add.s64 %d2, %d2, %d5; st.global.f32 [%d2], %f1;"""


@pytest.mark.parametrize("space", ["", ".global"])
def test_a_table_of_pointers(space):
    rng = np.random.default_rng(0)
    parts = [rng.integers(0, 100, 32).astype(np.float32) for _ in range(3)]
    table, out = np.array([part.ctypes.data for part in parts], np.uint64), np.zeros(32, np.float32)
    run(SUM.replace("{space}", space), [table, out], tuple(parts))
    assert (out == sum(parts)).all()


def test_an_argument_is_found_by_its_address_too():
    part, out = np.arange(32, dtype=np.float32), np.zeros(32, np.float32)
    run(
        SUM.replace("{space}", ".global"),
        [np.array([part.ctypes.data, part.ctypes.data, out.ctypes.data], np.uint64), out],
        (part,),
    )
    assert (out == 2 * part).all()


def test_lanes_follow_pointers_to_different_arrays():
    """A list in memory: each node has the address of the next one, and a value."""
    nodes = [np.zeros(2, np.uint64) for _ in range(32)]
    for number, node in enumerate(nodes):
        node[:] = nodes[(number + 1) % 32].ctypes.data, number
    heads, out = np.array([node.ctypes.data for node in nodes], np.uint64), np.zeros(32, np.uint64)
    run(
        """ld.param.u64 %d1, [p0]; ld.param.u64 %d2, [p1]; mul.wide.u32 %d3, %t, 8; add.s64 %d1, %d1, %d3; add.s64 %d2, %d2, %d3;
        ld.global.u64 %d4, [%d1]; ld.global.u64 %d4, [%d4]; ld.global.u64 %d4, [%d4]; ld.global.u64 %d5, [%d4+8];
        st.global.u64 [%d4+8], 7; st.global.u64 [%d2], %d5;""",
        [heads, out],
        tuple(nodes),
    )
    assert (out == (np.arange(32) + 2) % 32).all() and all(node[1] == 7 for node in nodes)


STORE = "ld.param.u64 %d1, [p0]; ld.global.u64 %d2, [%d1]; st.global.u32 [%d2{offset}], {value};"


def test_stores_arrive_and_bounds_hold():
    target = np.zeros(4, np.uint32)
    table = np.array([target.ctypes.data], np.uint64)
    run(STORE.format(offset="+8", value=5), [table], (target,))
    assert target.tolist() == [0, 0, 5, 0]
    with pytest.raises(SimulationError, match="out_of_bounds"):
        run(STORE.format(offset="+16", value=5), [table], (target,))
    target.flags.writeable = False
    with pytest.raises(SimulationError, match="store to allocation 0, which was passed as read-only"):
        run(STORE.format(offset="", value=5), [table], (target,))


def test_memory_that_was_not_registered_is_out_of_bounds():
    target = np.zeros(4, np.uint32)
    with pytest.raises(SimulationError, match="out_of_bounds"):
        run(STORE.format(offset="", value=5), [np.array([target.ctypes.data], np.uint64)])


def test_both_ways_to_an_array_race():
    target = np.zeros(64, np.uint32)
    table = np.array([target.ctypes.data], np.uint64)
    body = """ld.param.u64 %d1, [p0]; ld.param.u64 %d3, [p1]; ld.global.u64 %d2, [%d1]; mov.u32 %r1, %ctaid.x; setp.eq.u32 %p1, %r1, 0;
    @%p1 st.global.u32 [%d2], %t; @!%p1 st.global.u32 [%d3], 99;"""
    with pytest.raises(SimulationError, match="race"):
        run(body, [table, target], grid=2)


def test_wide_vectors_take_the_array_to_be_aligned():
    source, out = unaligned(256), np.zeros(256, np.float32)
    source[:] = np.arange(256)
    table = np.array([source.ctypes.data], np.uint64)
    assert source.ctypes.data % 32 == 16
    registers = "{%f1,%f2,%f3,%f4,%f5,%f6,%f7,%f8}"
    body = f"""ld.param.u64 %d1, [p0]; ld.param.u64 %d2, [p1]; ld.global.u64 %d1, [%d1]; mul.wide.u32 %d3, %t, 32;
    add.s64 %d1, %d1, %d3; add.s64 %d2, %d2, %d3; ld.global.v8.f32 {registers}, [%d1{{skew}}]; st.global.v8.f32 [%d2], {registers};"""
    run(body.replace("{skew}", ""), [table, out], (source,))
    assert (out == source).all()
    with pytest.raises(SimulationError, match="misaligned"):
        run(body.replace("{skew}", "+8"), [table, out], (source,))


# A box of 8 x 8 elements, through the map at %d1, to %d2.
COPIED = """.reg .b32 %a; mov.b32 %a, tile;
    mbarrier.init.shared.b64 [bar], 1; mbarrier.arrive.expect_tx.shared.b64 _, [bar], 256;
    cp.async.bulk.tensor.2d.shared::cta.global.mbarrier::complete_tx::bytes [tile], [%d1, {0, 0}], [bar];
    wait: mbarrier.try_wait.parity.shared.b64 %p1, [bar], 0; @!%p1 bra wait;
    mov.u32 %r1, 0;
    copy: ld.shared.f32 %f1, [%a]; st.global.f32 [%d2], %f1; add.u32 %a, %a, 4; add.s64 %d2, %d2, 4; add.u32 %r1, %r1, 1;
    setp.lt.u32 %p2, %r1, 64; @%p2 bra copy;"""
MAPPED = f"""{HEAD}.entry k(.param .u64 p0, .param .u64 p1) {{ {REGISTERS} .shared .align 128 .b8 tile[256]; .shared .align 8 .b64 bar;
    ld.param.u64 %d1, [p0]; ld.param.u64 %d2, [p1]; FIND {COPIED}\nret; }}"""


def test_a_tensor_map_that_a_pointer_leads_to():
    """The map stands in memory, and so does the address of what it maps."""
    source, out = np.arange(64, dtype=np.float32).reshape(8, 8), np.zeros(64, np.float32)
    encoded = np.frombuffer(TensorMap("f32", (8, 8), (32,), (8, 8), address=source.ctypes.data).encode(), np.uint8).copy()
    table = np.array([encoded.ctypes.data], np.uint64)
    text = MAPPED.replace("FIND", "ld.global.u64 %d1, [%d1];")
    launch(text, block=1, arguments=[table, out], allocations=[encoded, source])
    assert (out == source.reshape(-1)).all()


def test_a_pointer_to_a_tensor_map():
    source, out = np.arange(64, dtype=np.float32).reshape(8, 8), np.zeros(64, np.float32)
    launch(MAPPED.replace("FIND", ""), block=1, arguments=[TensorMapArgument.of(source, (8, 8)), out])
    assert (out == source.reshape(-1)).all()


@pytest.mark.parametrize("wrong", [5, "x", None])
def test_what_is_no_array(wrong):
    with pytest.raises(SimulationError, match="argument"):
        launch(f"{HEAD}.entry k() {{ ret; }}", block=1, allocations=[wrong])


def test_an_empty_allocation():
    with pytest.raises(SimulationError, match="no elements"):
        launch(f"{HEAD}.entry k() {{ ret; }}", block=1, allocations=[np.zeros(0)])


def test_a_store_past_an_array_is_told_of_that_array():
    first, second = unaligned(64), unaligned(64)
    for array in (first, second):
        table = np.array([array.ctypes.data + array.nbytes], np.uint64)
        store = "ld.param.u64 %d1, [p0]; ld.global.u64 %d2, [%d1]; st.global.u32 [%d2], %t;"
        with pytest.raises(SimulationError, match=r" 0 bytes past the end of allocation \d+ \(256 bytes\)"):
            run(store, [table], (first, second), block=1)


def test_what_is_told_is_the_nearest_array_wherever_the_host_keeps_it():
    """As on hosts that keep arrays at lower addresses than the simulated ones: a heap that begins behind the program's text."""
    memory = GlobalMemory()
    first = memory.add(np.zeros(64, np.uint8), True, "the first")
    memory.answer_at(0x1000, 0x1000 + 64, first.base)
    assert " 0 bytes past the end of the first (64 bytes)" in refused(memory, first.base + 64)
    assert " 8 bytes past the end of the first (64 bytes)" in refused(memory, 0x1000 + 72)
    assert "which belongs to no argument" in refused(memory, 0x800)


def refused(memory: GlobalMemory, address: int) -> str:
    with pytest.raises(SimulationError) as caught:
        memory.load(np.array([address]), 4)
    return str(caught.value)
