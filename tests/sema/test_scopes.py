"""What names mean in blocks, loops, compile-time branches and helpers."""

import pytest
from analysed import FRAME, analysed, kernel, statements, told, value

from pipec.diag.message import Sink
from pipec.isa.targets import TARGETS
from pipec.sema import analyse, tree
from pipec.sema.types import F32, I32, I64, TileType
from pipec.source import Source
from pipec.syntax.parse import parse

# ---------------------------------------------------------------------------------------------------- variables and scopes


def test_a_variable_keeps_its_type() -> None:
    first, second = statements("q = n\nq = b")
    assert isinstance(first, tree.Assign) and isinstance(second, tree.Assign) and first.variable is second.variable
    assert isinstance(second.value, tree.Convert), "a narrower value is widened to the variable's type"
    assert told("q = n\nq = alpha") == ["TypeChanged"]
    assert told("q = n\nq += alpha") == ["MixedTypes"]
    assert told("q = alpha\nq += s.x") == ["TypeChanged"]
    assert told("n += 1") == ["WrongType"]


def test_a_stated_type() -> None:
    (assignment,) = statements("q: i64 = n")
    assert isinstance(assignment, tree.Assign) and assignment.variable.type is I64
    assert told("q: i64 = alpha") == ["WrongType"]


def test_names_end_with_their_block() -> None:
    kernels, sink = analysed("if n > 0:\n    q = 1\nr = q")
    assert not kernels
    (diagnostic,) = sink.diagnostics
    assert "`q`" in diagnostic.title and len(diagnostic.labels) == 2


def test_what_a_with_assigns_outlasts_it() -> None:
    """All threads run its block once; a stage that it holds ends with it, and so does what one elected thread assigns."""
    assert told("with ring.consume() as t:\n    q = n\nr = q") == []
    assert told("with ring.consume() as t:\n    with ring.consume() as t2:\n        q = registers(t2.x)\nr = q + 1.0") == []
    assert told("with ring.consume() as t:\n    q = accumulator(f32, 64, 64)\nr = registers(q * 2.0)") == []
    assert told("if n > 0:\n    with ring.consume() as t:\n        q = n\nr = q") == ["OutOfBlock"]
    assert told("for i in range(n):\n    with ring.consume() as t:\n        q = n\nr = q") == ["OutOfBlock"]
    assert told("with ring.consume() as t:\n    if n > 0:\n        q = n\nr = q") == ["OutOfBlock"]
    assert told("with elect():\n    q = n\nr = q") == ["OutOfBlock"]
    assert told("with ring.consume() as t:\n    q = n\nr = t") == ["OutOfBlock"]
    assert told("with nothing.consume() as t:\n    with t as o:\n        q = n\nr = q") == ["UnknownName"]


def test_so_does_what_a_turn_puts_into_registers() -> None:
    """They are the thread's own. What a name stands for would be loaded again, when other blocks have changed it."""
    turn = "with semaphore(c[0], block.x, grid.x):\n    "

    def behind(body: str) -> list[str]:
        return told(turn + body, more="c: tensor[i32, 1], ")

    assert behind("q = registers(load(x[0, 0], 16, 64))\nr = registers(q + 1.0)") == []
    assert behind("q = load(v[0])\nr = q") == []
    assert behind("q = accumulator(f32, 64, 64)\nr = registers(q * 2.0)") == []
    assert behind("with ring.consume() as t:\n        q = registers(t.x)\nr = registers(q + 1.0)") == []
    assert behind("q = load(x[0, 0], 16, 64)\nr = registers(q + 1.0)") == ["OutOfBlock"]
    assert behind("with ring.consume() as t:\n        q = t.x * 2.0\nr = registers(q + 1.0)") == ["OutOfBlock"]
    assert behind("if n > 0:\n        q = load(v[0])\nr = q") == ["OutOfBlock"]


def test_what_outlasts_a_with_begins_anew_until_it_is_read() -> None:
    """A name may stand for something else in the next block, of another type; once it was read behind its block, it is a variable there."""
    block = "with ring.consume() as t:\n    "
    assert told(f"{block}q = n\nq = alpha") == []
    assert told(f"{block}q = registers(t.x)\n{block}q = registers(t.h)") == []
    assert told(f"{block}q = t.x * 2.0\nfor i in range(n):\n    {block}    q = t.h\n        r = q") == []
    assert told(f"{block}q = n\nr = q\nq = alpha") == ["TypeChanged"]
    assigned = [one for one in statements(f"{block}q = n\n{block}q = n + 1\nr = q") if isinstance(one, tree.Assign)]
    first, last, read = assigned
    assert isinstance(read.value, tree.ReadVariable) and read.value.variable is last.variable is not first.variable


def test_what_outlasts_a_with_is_not_what_a_loop_has_changed() -> None:
    """There the name began anew: behind it, neither value would be right."""
    block = "with ring.consume() as t:\n    "
    assert told(f"{block}q = n\nfor i in range(n):\n    q = i\nr = q") == ["OutOfBlock"]
    assert told(f"{block}q = n\nfor i in range(n):\n    if i > 0:\n        q = i\n    r = q") == ["OutOfBlock"]
    assert told(f"{block}q = n\n{block}if n > 0:\n        q = 1\nr = q") == ["OutOfBlock"]
    assert told(f"{block}q = n\nfor i in range(n):\n    r = q\n    q = i\nr = q") == []
    assert told(f"{block}q = n\nif n > 0:\n    q = 1\n{block}q = 2\nr = q") == []


def test_an_outer_variable_is_assigned_inside() -> None:
    first, branch = statements("q = n\nif n > 0:\n    q = 1")
    assert isinstance(first, tree.Assign) and isinstance(branch, tree.If)
    (inner,) = branch.then
    assert isinstance(inner, tree.Assign) and inner.variable is first.variable


def test_names_of_the_kernel_cannot_be_assigned_in_a_role() -> None:
    for name in ("M", "BM", "n", "x", "ring"):
        assert told(f"{name} = 1") == ["Redefined"]


def test_a_kernel_with_a_mistake_is_left_out() -> None:
    kernels, sink = analysed("r = nothing")
    assert kernels == [] and sink.failed


def test_one_mistake_is_reported_once() -> None:
    assert told("q = nothing\nr = q + 1\nt = r * q") == ["UnknownName"]
    assert told("q = nothing\nr = neither") == ["UnknownName", "UnknownName"]
    assert told("r = nothing + neither") == ["UnknownName", "UnknownName"]


def test_did_you_mean() -> None:
    _, sink = analysed("r = alpa")
    assert "`alpha`" in str(sink.diagnostics[0])


# ------------------------------------------------------------------------------------------------------------------ loops


def test_a_loop_counts_whatever_its_variable_is_set_to() -> None:
    (loop,) = statements("for i in range(4):\n    i = 7\n    q = i")
    assert isinstance(loop, tree.For)
    shadow, use = loop.body
    assert isinstance(shadow, tree.Assign) and shadow.variable is not loop.variable
    assert isinstance(use, tree.Assign) and isinstance(use.value, tree.ReadVariable) and use.value.variable is shadow.variable


def test_ranges() -> None:
    loops = statements("for i in range(n):\n    pass\nfor i in range(1, n, -2):\n    pass")
    assert [(loop.start.value, loop.step) for loop in loops] == [(0, 1), (1, -2)]  # type: ignore[union-attr]
    assert all(loop.variable.type is I32 for loop in loops)  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("for i in range(0, 4, 0):\n    pass", "BadRange"),
        ("for i in n:\n    pass", "BadRange"),
        ("for i in range(alpha):\n    pass", "WrongType"),
        ("for i in range(0, 4, n):\n    pass", "NotComptime"),
        ("for n in range(4):\n    pass", "Redefined"),
        ("for i in range():\n    pass", "WrongArguments"),
        ("while True:\n    pass", "EndlessLoop"),
        ("while n:\n    pass", "WrongType"),
        ("return", "MisplacedReturn"),
    ],
)
def test_statements_that_do_not_fit(body: str, message: str) -> None:
    assert told(body) == [message]


def test_a_loop_that_never_runs_is_left_out() -> None:
    assert statements("while False:\n    q = nothing") == []


# -------------------------------------------------------------------------------------------------- compile-time branches


def test_a_compile_time_branch_is_chosen() -> None:
    (taken,) = statements("if BM == 16:\n    q = 1\nelse:\n    q = nothing")
    assert isinstance(taken, tree.Assign)
    (taken,) = statements("if BM == 17:\n    q = nothing\nelif BM == 18:\n    q = nothing\nelse:\n    q = 3")
    assert isinstance(taken, tree.Assign) and isinstance(taken.value, tree.Constant) and taken.value.value == 3


def test_a_name_of_a_compile_time_branch_stays() -> None:
    *_, used = statements("if BM == 16:\n    q = n\nr = q")
    assert isinstance(used, tree.Assign) and isinstance(used.value, tree.ReadVariable)


def test_a_branch_outside_roles_chooses_declarations() -> None:
    text = "if BM == {}:\n    other = SharedTiles(tile[f32, 8, 8], count=1)\nelse:\n    pass"
    assert len(kernel(kernel=text.format(16)).buffers) == 3
    assert len(kernel(kernel=text.format(17)).buffers) == 2
    assert told(kernel="if n > 1:\n    pass") == ["NotComptime"]


def test_comptime_names() -> None:
    assert value("TWO * BM", before="comptime TWO = 2").value == 32  # type: ignore[union-attr]
    assert value("T3 + 1", kernel="comptime T3 = BM + 3").value == 20  # type: ignore[union-attr]
    assert told(before="comptime A = 1\ncomptime A = 2") == ["Redefined"]
    assert told("comptime Q = n") == ["NotComptime"]


def test_static_assert_shows_the_values() -> None:
    assert statements("static_assert(BM % 16 == 0)") == []
    _, sink = analysed('static_assert(BM > 16, "tiles of more than 16 rows")')
    (diagnostic,) = sink.diagnostics
    assert "tiles of more than 16 rows" in diagnostic.title and "BM = 16" in (diagnostic.note or "")


# ---------------------------------------------------------------------------------------------------------------- helpers


def test_a_helper_is_expanded_where_it_is_called() -> None:
    result = value("twice(alpha)", before="fn twice(a):\n    return a + a\n")
    assert isinstance(result, tree.Binary) and result.left == result.right
    folded = value("twice(3)", before="fn twice(a):\n    return a + a\n")
    assert isinstance(folded, tree.Constant) and folded.value == 6


def test_arguments_are_evaluated_once() -> None:
    first, second = statements("r = twice(alpha * alpha)", before="fn twice(a):\n    return a + a\n")
    assert isinstance(first, tree.Assign) and isinstance(first.value, tree.Binary) and first.value.operator == "*"
    assert isinstance(second, tree.Assign) and isinstance(second.value, tree.Binary)
    assert isinstance(second.value.left, tree.ReadVariable) and second.value.left.variable is first.variable


def test_helpers_take_stages_and_see_the_kernel_but_not_the_caller() -> None:
    assert value("first(s)", before="fn first(stage):\n    return stage.x * alpha\n").type == TileType(F32, 16, 64)
    assert told("local = n\nr = peek()", before="fn peek():\n    return local\n") == ["UnknownName"]


def test_helpers_and_their_names() -> None:
    text = "fn set(a):\n    q = a\n    return q\n"
    *_, last = statements("q = alpha\nr = set(n)\nt = q", before=text)
    assert isinstance(last, tree.Assign) and last.variable.type is F32, "a helper's names are its own"
    assert len(told("r = f(1)", before="fn f(a):\n    return f(a)\n")) == 1
    assert len(told("r = f(1)", before="fn f(a):\n    return g(a)\nfn g(a):\n    return f(a)\n")) == 1
    assert len(told("r = f(1, 2)", before="fn f(a):\n    return a\n")) == 1
    assert len(told("r = f()", before="fn f(a):\n    return a\n")) == 1
    assert len(told("r = f(b=1)", before="fn f(a):\n    return a\n")) == 1


def test_runaway_helpers_end() -> None:
    helpers = "fn f0(a):\n    q = a + n\n" + "".join(f"fn f{i}(a):\n" + f"    f{i - 1}(a)\n" * 10 for i in range(1, 7))
    assert set(told("f6(1)", before=helpers)) == {"TooManyInlined"}


# ------------------------------------------------------------------------------------------------------ stages and tiles


def test_scoped_and_linear_stages() -> None:
    acquire, *_, release = kernel().roles[1].body
    assert isinstance(acquire, tree.Acquire) and isinstance(release, tree.Release)
    assert acquire.handle is release.handle and release.signals
    assert (acquire.handle.side, acquire.handle.form) == ("consumer", "scoped")


@pytest.mark.parametrize(
    "body",
    [
        "q = ring.consume()",
        "ring.acquire_consumer()",
        "with ring.acquire_consumer() as t:\n    pass",
        "with n as t:\n    pass",
        "q = s.y",
        "q = s.mbarr()",
        "s.release",
        "q = x[0]",
        "q = n[0]",
        "store(x[0, 0], n)",
        "tma.load(s.x, n)",
        "tma.lod(s.x, x[0, 0])",
        "q = ring.T",
        "q = elect()",
        "q = range(3)",
        "n",
        "n + 1",
        "n()",
        "bf16(n)",
        "q = InputTilePipeline(n, stages=2)",
        "grid(1)",
        "role inner():\n    pass",
    ],
)
def test_one_message_for_one_mistake(body: str) -> None:
    assert len(told(body)) == 1


def test_the_tree_points_at_its_source() -> None:
    added = value("alpha + n0".replace("n0", "1"))
    assert added.span.text() == "alpha + 1"


@pytest.mark.parametrize(("name", "stages"), [("sm_100a", 3), ("sm_90a", 2)])
def test_what_the_target_says_is_known(name: str, stages: int) -> None:
    text = FRAME.format(
        before="",
        constants="BM: int = 16",
        grid="1",
        more="",
        kernel="    comptime STAGES = 3 if target.tensor_memory else 2",
        body="            pass",
    ).replace("stages=2", 'stages=STAGES if target.name == "' + name + '" and target.shared_bytes > 1000 else 0')
    sink = Sink()
    file = parse(Source("t.pipe", text), sink)
    assert file is not None
    (found,) = analyse(file, sink, {}, target=TARGETS[name])
    assert [pipeline.stages for pipeline in found.pipelines] == [stages]
