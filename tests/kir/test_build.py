import pytest
from hand_built import Gemm

from pipec.kir import ir
from pipec.kir.build import build
from pipec.kir.text import kernel_text
from pipec.kir.verify import MalformedKernel, verify
from pipec.record import replace
from pipec.sema import tree
from pipec.sema.tree.text import expression_text
from pipec.sema.types import BOOL, I32


def load_role(gemm: Gemm, *body: tree.Statement) -> ir.Role:
    kernel = build(gemm.kernel(load=body))
    verify(kernel)
    return kernel.roles[0]


def participations(role: ir.Role) -> list[tuple[str, int | None]]:
    return [(block.participation.threads, block.participation.chosen) for block in role.blocks]


def assign(gemm: Gemm, name: str, value: tree.Expression) -> tree.Assign:
    return tree.Assign(tree.Variable(name, I32, value.span), value, value.span)


def test_gemm_text():
    kernel = build(Gemm().kernel())
    verify(kernel)
    text = kernel_text(kernel)
    assert "pipeline input: InputTilePipeline stages=4" in text
    assert "role mma: warps=1 produces output consumes input" in text
    assert "mma acc, t.a, t.b" in text
    assert "k.stop = ceildiv(K, 64)" in text
    assert "# for k in range(0, ceildiv(K, 64), 1)" in text


def test_for_loop_shape():
    gemm = Gemm()
    role = load_role(gemm, gemm.loop(gemm.k))
    (loop,) = role.loops
    assert role.blocks[0].terminator == ir.Jump(loop.header)
    header = role.blocks[loop.header].terminator
    assert isinstance(header, ir.Branch)
    assert header.then in loop.blocks and header.otherwise not in loop.blocks
    assert role.blocks[header.then].terminator == ir.Jump(loop.header)
    assert loop.parent is None and loop.step == 1 and loop.variable is gemm.k
    assert loop.stop is not None and expression_text(loop.stop) == expression_text(gemm.trips)


def test_nested_loops_know_their_parent():
    gemm = Gemm()
    role = load_role(gemm, gemm.loop(gemm.k, gemm.loop(gemm.mma_k)), gemm.loop(gemm.k))
    assert [loop.parent for loop in role.loops] == [None, 0, None]
    assert role.loops[1].blocks < role.loops[0].blocks


def test_negative_step_counts_down():
    gemm = Gemm()
    role = load_role(gemm, tree.For(gemm.k, gemm.number(8), gemm.number(0), -2, (), gemm.k.span))
    header = role.blocks[role.loops[0].header].terminator
    assert isinstance(header, ir.Branch) and isinstance(header.condition, tree.Binary)
    assert header.condition.operator == ">"


def test_constant_condition_keeps_one_side():
    gemm = Gemm()
    span = gemm.at("grid")
    role = load_role(gemm, tree.If(tree.Constant(True, BOOL, span), (tree.Drain(gemm.input, span),), (), span))
    assert len(role.blocks) == 1 and len(role.blocks[0].operations) == 1


@pytest.mark.parametrize(
    ("operator", "value", "then"),
    [
        ("<", 4, ("some", frozenset(range(4)))),
        ("<=", 3, ("some", frozenset(range(4)))),
        ("==", 5, ("some", frozenset((5,)))),
        ("<", 32, ("all", None)),
        (">", 4, ("some", frozenset(range(5, 32)))),
        ("==", 32, ("some", frozenset())),
    ],
)
def test_lane_guards(operator, value, then):
    gemm = Gemm()
    condition = gemm.condition("k in range", "lane_id", operator, value)
    role = load_role(gemm, tree.If(condition, (), (), condition.span))
    assert participations(role) == [("all", None), then, ("all", None)]


def test_the_other_lanes_are_known_too():
    gemm = Gemm()
    condition = gemm.condition("k in range", "lane_id", "<", 4)
    drain = tree.Drain(gemm.input, condition.span)
    role = load_role(gemm, tree.If(condition, (), (drain,), condition.span))
    assert participations(role) == [
        ("all", None),
        ("some", frozenset(range(4))),
        ("some", frozenset(range(4, 32))),
        ("all", None),
    ]


def test_elect_makes_one_thread():
    gemm = Gemm()
    role = load_role(gemm, tree.Elect((gemm.loop(gemm.k),), gemm.at("grid")))
    assert [threads for threads, _ in participations(role)] == ["all", "one", "one", "one", "one", "all"]
    assert role.blocks[1].participation.guard == gemm.at("grid")


def test_thread_dependence_flows_through_variables():
    gemm = Gemm()
    lane = tree.Special("lane_id", I32, gemm.at("grid"))
    first = assign(gemm, "x", lane)
    read = tree.ReadVariable(first.variable, lane.span)
    second = assign(gemm, "y", tree.Binary("+", read, gemm.number(1), I32, lane.span))
    condition = tree.Binary("<", tree.ReadVariable(second.variable, lane.span), gemm.number(3), BOOL, lane.span)
    role = load_role(gemm, first, second, tree.If(condition, (), (), condition.span))
    assert participations(role)[1] == ("some", frozenset((0, 1)))


def test_thread_dependence_through_control_flow():
    """A variable assigned under a thread-dependent guard differs between threads even when the values assigned do not."""
    gemm = Gemm()
    guard = gemm.condition("k in range", "lane_id", "==", 0)
    flag = tree.Variable("flag", I32, guard.span)
    set_flag = tree.Assign(flag, gemm.number(1), guard.span)
    condition = tree.Binary("==", tree.ReadVariable(flag, guard.span), gemm.number(1), BOOL, guard.span)
    role = load_role(
        gemm,
        tree.Assign(flag, gemm.number(0), guard.span),
        tree.If(guard, (set_flag,), (), guard.span),
        tree.While(condition, (), guard.span),
    )
    assert participations(role)[-2] == ("unknown", None)
    assert participations(role)[-1] == ("all", None)


def test_verifier_refuses_an_unreached_block():
    kernel = build(Gemm().kernel())
    role = kernel.roles[0]
    lost = ir.Block((), ir.Jump(1), ir.ALL_THREADS)
    kernel = replace(kernel, roles=(replace(role, blocks=(*role.blocks, lost)),))
    with pytest.raises(MalformedKernel, match="never reached"):
        verify(kernel)
