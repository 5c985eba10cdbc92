"""What analysis makes of names, types and compile-time values."""

import pytest

from pipec.diag.message import Message, Sink
from pipec.isa.dtypes import DTYPES
from pipec.isa.targets import TARGETS
from pipec.sema import analyse, tree
from pipec.sema.declarations.parameters import parse_override
from pipec.sema.types import BOOL, F32, I32, I64, U32, TileType
from pipec.source import Source
from pipec.syntax.parse import parse

BF16 = DTYPES["bf16"]

_FRAME = """{before}
kernel k[{constants}](x: tensor[f32, M, N], h: tensor[bf16, M, N], v: tensor[f32, M], w: tensor[f32, N], n: i32, alpha: f32, u: u32, b: i8):
    grid({grid})
{kernel}
    ring = InputTilePipeline(TilePayload(x=tile[f32, 16, 64], h=tile[bf16, 16, 64]), stages=2)
    role fill(warps=1) produces ring:
        with ring.produce() as s:
            tma.load(s.x, x[0, 0])
            tma.load(s.h, h[0, 0])
    role work(warps=4) consumes ring:
        with ring.consume() as s:
{body}
"""


def analysed(
    body: str = "pass",
    *,
    before: str = "",
    kernel: str = "",
    constants: str = "BM: int = 16",
    grid: str = "1",
    overrides: dict[str, object] | None = None,
) -> tuple[list[tree.Kernel], Sink]:
    def indented(text: str, by: int) -> str:
        return "\n".join(" " * by + line for line in text.split("\n"))

    text = _FRAME.format(before=before, constants=constants, grid=grid, kernel=indented(kernel, 4), body=indented(body, 12))
    sink = Sink()
    file = parse(Source("t.pipe", text), sink)
    assert file is not None, [diagnostic.title for diagnostic in sink.diagnostics]
    return analyse(file, sink, overrides or {}), sink


def kernel(body: str = "pass", **options: object) -> tree.Kernel:
    kernels, sink = analysed(body, **options)  # type: ignore[arg-type]
    assert [(diagnostic.code, diagnostic.title) for diagnostic in sink.diagnostics] == []
    return kernels[0]


def statements(body: str, **options: object) -> list[tree.Statement]:
    """What the body in the `with` of the role `work` became, without the stage's own acquire and release."""
    return list(kernel(body, **options).roles[1].body[1:-1])


def value(text: str, **options: object) -> tree.Expression:
    """The typed tree of one expression."""
    assignment = statements(f"r = {text}", **options)[-1]
    assert isinstance(assignment, tree.Assign)
    return assignment.value


def told(body: str = "pass", **options: object) -> list[str]:
    """The messages of the catalogue that were reported, by name."""
    _, sink = analysed(body, **options)  # type: ignore[arg-type]
    return [Message.by_code[diagnostic.code].__name__ for diagnostic in sink.diagnostics]


# ---------------------------------------------------------------------------------------------------------------- folding


@pytest.mark.parametrize(
    ("text", "result"),
    [
        ("1 + 2 * 3", 7),
        ("-7 // 2", -4),
        ("-7 % 4", 1),
        ("7 // -2", -4),
        ("1 << 5 | 1", 33),
        ("~5 & 0xff", 250),
        ("6 ^ 3", 5),
        ("-16 >> 2", -4),
        ("1 < 2 < 3", True),
        ("1 < 2 and not 3 < 2", True),
        ("bf16 == bf16", True),
        ("bf16 != f32", True),
        ("0.5 * 3", 1.5),
        ("1.0 / 4", 0.25),
        ("min(3, 2)", 2),
        ("max(3, 2, )", 3),
        ("abs(-4)", 4),
        ("ceildiv(7, 2)", 4),
        ("ceildiv(-7, 2)", -3),
        ("2 if BM == 16 else 3", 2),
        ("select(BM > 16, 2, 3)", 3),
        ("BM * 2", 32),
    ],
)
def test_compile_time_values_are_folded(text: str, result: object) -> None:
    folded = value(text)
    assert isinstance(folded, tree.Constant)
    assert folded.value == result and type(folded.value) is type(result)
    assert folded.type is {bool: BOOL, int: I32, float: F32}[type(result)]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("1 // 0", "DivisionByZero"),
        ("1 % 0", "DivisionByZero"),
        ("1.0 / 0", "DivisionByZero"),
        ("ceildiv(1, 0)", "DivisionByZero"),
        ("n // 0", "DivisionByZero"),
        ("1 / 2", "BadOperand"),
        ("1.5 & 1", "BadOperand"),
        ("True + 1", "BadOperand"),
        ("1 and True", "BadOperand"),
        ("-True", "BadOperand"),
        ("not 1", "BadOperand"),
        ("bf16 + 1", "BadOperand"),
        ('"a" + "b"', "BadOperand"),
        ("1 << 64", "DoesNotFit"),
        ("1 << -1", "DoesNotFit"),
        ("(1 << 60) * 16", "DoesNotFit"),
        ("1e300 * 1e300", "DoesNotFit"),
        ("3000000000", "DoesNotFit"),
        ("b + 200", "DoesNotFit"),
        ("u - -1", "DoesNotFit"),
    ],
)
def test_what_cannot_be_folded(text: str, message: str) -> None:
    assert told(f"r = {text}") == [message]


# ------------------------------------------------------------------------------------------------------------------ types


@pytest.mark.parametrize(
    ("text", "type_"),
    [
        ("n + 1", I32),
        ("1 + n", I32),
        ("u + 1", U32),
        ("alpha * 2", F32),
        ("alpha / 2", F32),
        ("n + b", I32),
        ("n < 3", BOOL),
        ("n < 3 and alpha > 0.5", BOOL),
        ("M", I32),
        ("block.x", I32),
        ("lane_id()", I32),
        ("cast[i64](n) + n", I64),
        ("cast[bf16](alpha)", BF16),
        ("cast[f32](h0) if False else alpha", F32),
        ("n if n > 0 else 0", I32),
        ("s.x + 1", TileType(F32, 16, 64)),
        ("alpha + s.x", TileType(F32, 16, 64)),
        ("s.x + s.h", TileType(F32, 16, 64)),
        ("s.h * s.h", TileType(BF16, 16, 64)),
        ("s.x < 1", TileType(BOOL, 16, 64)),
        ("s.x if s.x > 0 else 0", TileType(F32, 16, 64)),
        ("exp(s.h)", TileType(F32, 16, 64)),
        ("row_max(s.x)", TileType(F32, 16, 1)),
        ("row_sum(s.h)", TileType(F32, 16, 1)),
        ("s.x - row_max(s.x)", TileType(F32, 16, 64)),
        ("per_row(v[0], 16) + per_column(w[0], 64)", TileType(F32, 16, 64)),
        ("load(x[0, 0], 16, 64)", TileType(F32, 16, 64)),
        ("cast[bf16](s.x)", TileType(BF16, 16, 64)),
        ("s.x == s.h", TileType(BOOL, 16, 64)),
    ],
)
def test_types(text: str, type_: object) -> None:
    assert value(text.replace("h0", "alpha")).type == type_


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("n + alpha", "MixedTypes"),
        ("n + u", "MixedTypes"),
        ("s.h + cast[f16](alpha)", "MixedTypes"),
        ("min(n, alpha)", "MixedTypes"),
        ("n if n > 0 else alpha", "MixedTypes"),
        ("s.x + load(x[0, 0], 32, 64)", "ShapeMismatch"),
        ("s.x + per_row(v[0], 32)", "ShapeMismatch"),
        ("n / 2", "BadOperand"),
        ("alpha // 2", "BadOperand"),
        ("alpha & 1", "BadOperand"),
        ("-u", "BadOperand"),
        ("~alpha", "BadOperand"),
        ("n and True", "WrongType"),
        ("cast[e4m3](s.x) + 1", "BadOperand"),
        ("exp(n)", "BadOperand"),
        ("alpha if n else alpha", "WrongType"),
        ("n + 1.5", "WrongType"),
        ("n + True", "WrongType"),
        ("cast[bool](n)", "WrongType"),
        ("cast[tf32](alpha)", "WrongType"),
        ("cast[n](alpha)", "NotComptime"),
    ],
)
def test_types_that_do_not_fit(text: str, message: str) -> None:
    assert told(f"r = {text}") == [message]


def test_widening_is_written_into_the_tree() -> None:
    added = value("s.x + s.h")
    assert isinstance(added, tree.Binary) and isinstance(added.left, tree.ReadBuffer)
    assert isinstance(added.right, tree.Convert) and added.right.type == TileType(F32, 16, 64)


def test_a_literal_takes_the_type_beside_it() -> None:
    added = value("alpha + 1")
    assert isinstance(added, tree.Binary)
    assert isinstance(added.right, tree.Constant) and added.right.type is F32 and added.right.value == 1.0


def test_a_scalar_beside_a_tile_is_spread() -> None:
    added = value("s.x + alpha")
    assert isinstance(added, tree.Binary) and isinstance(added.right, tree.Splat)
    assert added.right.type == TileType(F32, 1, 1)


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


def test_one_mistake_is_told_once() -> None:
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


# ---------------------------------------------------------------------------------------- parameters, dimensions and grids


@pytest.mark.parametrize(
    ("given", "result"),
    [
        ("128", 128),
        (" 0x10 ", 16),
        ("-3", -3),
        ("0b101", 5),
        ("0.5", 0.5),
        ("1e3", 1000.0),
        ("true", True),
        ("False", False),
        ("bf16", BF16),
        ("bool", "bool"),
        ("what", "what"),
        ("9" * 5000, float("inf")),
        (7, 7),
        (0.25, 0.25),
    ],
)
def test_overrides_are_read(given: object, result: object) -> None:
    found = parse_override(given)
    assert found == result and type(found) is type(result)


def test_overrides_set_parameters() -> None:
    parameters = 'A: int = 1, B: float = 2.0, C: bool = False, D: dtype = f32, E = 3, F: str = "word", G: str = ""'
    overrides = {"A": "5", "B": 4, "C": "true", "D": "bf16", "E": 0.5, "G": "7"}
    constants = kernel(constants=parameters, overrides=overrides).constants
    assert constants == {"A": 5, "B": 4.0, "C": True, "D": BF16, "E": 0.5, "F": "word", "G": "7"}
    assert kernel(constants="A: int", overrides={"A": 1}).constants == {"A": 1}


@pytest.mark.parametrize(
    ("parameter", "overrides"),
    [
        ("A: int = 1", {"A": "0.5"}),
        ("A: int = 1", {"A": True}),
        ("A: float = 1.0", {"A": "true"}),
        ("A: bool = True", {"A": 1}),
        ("A: dtype = f32", {"A": "float"}),
        ("A = 1", {"A": "word"}),
        ('A: str = "word"', {"A": 7}),
        ("A = 1", {"A": None}),
        ("A: int = 1", {"Z": 1}),
        ("A: int", {}),
        ("A: int = 1.5", {}),
        ("A: text = 1", {}),
        ("A: int = 1, A: int = 2", {}),
    ],
)
def test_parameters_that_do_not_fit(parameter: str, overrides: dict[str, object]) -> None:
    assert len(told(constants=parameter, overrides=overrides)) == 1


def test_floats_beyond_their_type() -> None:
    for text in ("nan", "inf", "-inf", "1e38"):
        assert told("r = alpha * A", constants="A: float = 1.0", overrides={"A": text}) == []
    assert told("r = alpha * A", constants="A: float = 1.0", overrides={"A": "1e39"}) == ["DoesNotFit"]
    assert told("r = alpha * -1e39") == ["DoesNotFit"]
    assert told("r = s.h * 1e39") == ["DoesNotFit"]
    assert told("r = cast[f16](70000)") == ["DoesNotFit"]
    assert told("r = cast[e4m3](70000.0)") == [], "it saturates"


def test_parameters_and_dimensions() -> None:
    made = kernel()
    assert made.parameters == ("x", "h", "v", "w", "n", "alpha", "u", "b")
    assert [tensor.shape for tensor in made.tensors] == [("M", "N"), ("M", "N"), ("M",), ("N",)]
    assert [scalar.name for scalar in made.scalars] == ["n", "alpha", "u", "b"]


@pytest.mark.parametrize("grid", ["M", "ceildiv(M, BM)", "n, M // 2, 3", "min(M, 4) + 1"])
def test_grids(grid: str) -> None:
    sizes = kernel(grid=grid).grid
    assert len(sizes) == 3 and all(size.type is I32 for size in sizes)


@pytest.mark.parametrize("grid", ["alpha", "block.x", "M, N, 1, 1", "", "u", "M if n > 0 else N", "True"])
def test_grids_that_do_not_fit(grid: str) -> None:
    assert len(told(grid=grid)) == 1


def test_uniform_names_of_a_kernel() -> None:
    assert isinstance(value("tiles + 1", kernel="tiles = ceildiv(M, BM)"), tree.Binary)
    assert len(told(kernel="where = block.x")) == 1


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
    text = _FRAME.format(
        before="",
        constants="BM: int = 16",
        grid="1",
        kernel="    comptime STAGES = 3 if target.tensor_memory else 2",
        body="            pass",
    ).replace("stages=2", 'stages=STAGES if target.name == "' + name + '" and target.shared_bytes > 1000 else 0')
    sink = Sink()
    file = parse(Source("t.pipe", text), sink)
    assert file is not None
    (found,) = analyse(file, sink, {}, target=TARGETS[name])
    assert [pipeline.stages for pipeline in found.pipelines] == [stages]
