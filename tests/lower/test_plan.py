"""What the plan derives for the GEMM, and how variations change it."""

from hand_built import Gemm

from pipec.interface import from_json, to_json
from pipec.isa.targets import TARGETS
from pipec.kir.build import build
from pipec.kir.plan.derive import Plan, plan
from pipec.record import replace
from pipec.sema import tree

TARGET = TARGETS["sm_100a"]


def planned(gemm: Gemm | None = None, **registers: int) -> Plan:
    kernel = build((gemm or Gemm()).kernel())
    roles = tuple(replace(role, registers=registers.get(role.name)) for role in kernel.roles)
    return plan(replace(kernel, roles=roles), TARGET)


def test_tensor_readers_come_first_and_the_rest_follow():
    found = planned()
    assert [(row.role.name, row.first_warp) for row in found.roles] == [("epilogue", 0), ("load", 4), ("mma", 5)]
    assert found.threads == 192
    assert [row.single_thread for row in found.roles] == [False, True, True]
    assert [row.named_barrier for row in found.roles] == [1, None, None]


def test_signals_and_bytes():
    found = planned()
    facts = {(pipeline.name, side): row for (pipeline, side), row in found.signals.items()}
    assert facts["input", "producer"].how == {"load": ("tma",)}
    assert facts["input", "producer"].transaction_bytes == (128 + 256) * 64 * 2
    assert facts["input", "consumer"].how == {"mma": ("commit",)}
    assert facts["output", "producer"].how == {"mma": ("commit",)}
    assert facts["output", "consumer"].how == {"epilogue": ("threads",)}
    assert {key: row.count for key, row in facts.items()} == {
        ("input", "producer"): 1,
        ("input", "consumer"): 1,
        ("output", "producer"): 1,
        ("output", "consumer"): 128,
    }


def test_memory():
    found = planned()
    assert all(offset % 1024 == 0 for offset in found.buffer_offsets.values())
    assert found.shared_bytes <= TARGET.shared_bytes
    assert [staging.buffers for staging in found.staging.values()] == [2]
    assert found.allocated_columns == 256
    ends = 0
    for item in found.shared_items:
        assert item.offset >= ends
        ends = item.offset + item.bytes
    assert ends <= found.shared_bytes


def test_register_budgets_hold_for_whole_warpgroups():
    found = planned(epilogue=232, load=40)
    assert found.threads == 256, "warps are padded to whole warpgroups"
    assert [(group.first_warp, group.warps, group.registers) for group in found.register_groups] == [(0, 4, 232), (4, 4, 40)]
    assert found.launch_registers == 248
    assert not planned().register_groups


def test_zero_fill_condition_comes_from_the_loop_bounds():
    (fill,) = planned().zero_fills.values()
    assert fill.flag_offset is None
    assert isinstance(fill.condition, tree.Binary)
    assert fill.condition.operator == ">="


def test_an_mma_on_every_path_needs_no_zero_fill():
    gemm = Gemm()
    body = gemm.mma_body()
    first = (tree.Acquire(gemm.t, gemm.t.span), gemm.mma_operation, tree.Release(gemm.t, True, gemm.t.span))
    kernel = gemm.kernel(mma=(body[0], *first, body[-1]))
    assert not plan(build(kernel), TARGET).zero_fills


def test_an_mma_under_a_run_time_condition_is_noted():
    gemm = Gemm()
    body = gemm.mma_body()
    condition = gemm.condition("mma(acc", "role_warp", "<", 1)
    kernel = gemm.kernel(mma=(body[0], tree.If(condition, (body[1],), (), condition.span), body[-1]))
    found = plan(build(kernel), TARGET)
    (fill,) = found.zero_fills.values()
    assert fill.condition is None
    assert fill.flag_offset is not None
    assert found.signals[gemm.output, "producer"].count == 2


def test_interface_survives_json():
    interface = planned().interface
    assert from_json(to_json(interface)) == interface
    assert "\n" not in to_json(interface)


def test_a_programmatic_launch_survives_json():
    interface = replace(planned().interface, programmatic_launch=True)
    assert from_json(to_json(interface)) == interface
    assert "programmatic" not in to_json(planned().interface)
