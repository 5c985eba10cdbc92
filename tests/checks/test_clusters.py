"""Clusters: which CTAs a multicast and a release reach, and whether two CTAs of a cluster see the same value."""

import math
from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipec.checks.cluster_values import ClusterValues, number
from pipec.driver import compile_source
from pipec.kir.clusters import line, mask
from pipec.sema import tree
from pipec.sema.types import I32
from pipec.source import Source

SPAN = Source("test", "x").span(1, 1, 1, 2)
SHAPES = [(2, 1, 1), (4, 2, 1), (2, 2, 2), (1, 4, 1), (8, 1, 1), (3, 2, 1)]


# --------------------------------------------------------------------------------------------------------------- masks


@pytest.mark.parametrize(("shape", "axis", "group"), [*product(SHAPES, "xyz", (1,)), *product(SHAPES[:3], "xyz", (2,))])
def test_a_line_is_who_differs_along_the_axis_alone(shape: tuple[int, int, int], axis: str, group: int) -> None:
    cluster = tree.Cluster(shape)
    index = "xyz".index(axis)
    places = cluster.places()
    shared = line(cluster, axis, group)
    for rank, place in enumerate(places):
        expected = 0
        for other, where in enumerate(places):
            same = all(where[i] == place[i] for i in range(3) if i != index)
            # In pairs along x only CTAs with the same place in their pair hold the same half.
            same = same and (group == 1 or other % 2 == rank % 2)
            expected |= same << other
        if shared is None:
            assert expected == 1 << rank
        else:
            assert mask(shared, cluster, rank) == expected
            assert expected.bit_count() == shared.count


# -------------------------------------------------------------------------------------------------------------- values

NAMES = ("block.x", "block.y", "grid.x", "cluster.x", "clusters.y", "cta.x", "cta.y", "cta.rank")


def constant(value: int) -> tree.Expression:
    return tree.Constant(value, I32, SPAN)


def binary(operator: str, left: tree.Expression, right: tree.Expression) -> tree.Expression:
    return tree.Binary(operator, left, right, I32, SPAN)


LEAVES = st.one_of(
    st.integers(-9, 9).map(constant),
    st.sampled_from(NAMES).map(lambda name: tree.Special(name, I32, SPAN)),
    st.sampled_from(("M", "N")).map(lambda name: tree.ReadDimension(name, I32, SPAN)),
)


def compound(inner: st.SearchStrategy) -> st.SearchStrategy:
    return st.one_of(
        st.builds(binary, st.sampled_from(("+", "-", "*")), inner, inner),
        st.builds(binary, st.sampled_from(("//", "%")), inner, st.sampled_from((1, 2, 3, 4, 8, 128)).map(constant)),
        st.builds(binary, st.sampled_from(("<", "==", ">=")), inner, inner),
        st.builds(binary, st.just(">>"), inner, st.integers(0, 4).map(constant)),
        st.builds(binary, st.just("&"), inner, st.sampled_from((0, 1, 3, 5)).map(constant)),
        st.builds(lambda name, a, b: tree.Call(name, (a, b), I32, SPAN), st.sampled_from(("min", "max")), inner, inner),
        st.builds(lambda a, b: tree.Call("ceildiv", (a, constant(b)), I32, SPAN), inner, st.sampled_from((2, 4, 64))),
        st.builds(lambda a: tree.Unary("-", a, I32, SPAN), inner),
    )


def evaluate(node: tree.Expression, values: dict[str, int]) -> int:
    match node:
        case tree.Constant(value=value):
            return int(value)
        case tree.Special(name=name) | tree.ReadDimension(name=name):
            return values[name]
        case tree.Unary(operand=operand):
            return -evaluate(operand, values)
        case tree.Call(function="min" | "max" as name, arguments=arguments):
            return {"min": min, "max": max}[name](evaluate(argument, values) for argument in arguments)
        case tree.Call(arguments=(left, right)):
            return math.ceil(evaluate(left, values) / evaluate(right, values))
        case tree.Binary(operator=operator, left=left, right=right):
            a, b = evaluate(left, values), evaluate(right, values)
            if operator in (">>", "&"):
                return a >> b if operator == ">>" else a & b
            return int({"+": a + b, "-": a - b, "*": a * b, "<": a < b, "==": a == b, ">=": a >= b}.get(
                operator, a // b if operator == "//" and b else a % b if b else 0))  # fmt: skip
    raise AssertionError(node)


def launch(shape: tuple[int, int, int], place: tuple[int, int, int], common: dict[str, int]) -> dict[str, int]:
    """What the names read in one CTA of a launch."""
    values = dict(common)
    for index, axis in enumerate("xyz"):
        values[f"cta.{axis}"] = place[index]
        values[f"block.{axis}"] = common[f"cluster.{axis}"] * shape[index] + place[index]
        values[f"grid.{axis}"] = common[f"clusters.{axis}"] * shape[index]
    values["cta.rank"] = place[0] + shape[0] * (place[1] + shape[1] * place[2])
    return values


COMMON = st.fixed_dictionaries(
    {**{f"{family}.{axis}": st.integers(0, 50) for family in ("cluster", "clusters") for axis in "xyz"}, "M": st.integers(1, 999),
     "N": st.integers(1, 999)}
)  # fmt: skip


@given(st.recursive(LEAVES, compound, max_leaves=8), st.sampled_from(SHAPES), COMMON)
def test_equal_forms_are_equal_values(expression: tree.Expression, shape: tuple[int, int, int], common: dict[str, int]) -> None:
    cluster = tree.Cluster(shape)
    role = tree.Role("r", 1, None, (), (), (), SPAN, SPAN)
    forms = ClusterValues(cluster, role).forms(expression)
    values = [evaluate(expression, launch(shape, place, common)) for place in cluster.places()]
    for form, value in zip(forms, values, strict=True):
        assert number(form) in (None, value)
    for (form, value), (other_form, other) in product(zip(forms, values, strict=True), repeat=2):
        assert form != other_form or value == other


BLOCK, CTA, RANK = (tree.Special(name, I32, SPAN) for name in ("block.x", "cta.x", "cta.rank"))


@pytest.mark.parametrize(
    ("expression", "differs"),
    [
        (binary("//", BLOCK, constant(2)), False),
        (binary("*", binary("//", BLOCK, constant(2)), constant(256)), False),
        (BLOCK, True),
        (binary("-", BLOCK, CTA), False),
        (binary("%", BLOCK, constant(2)), True),
        (binary("//", RANK, constant(2)), False),
        (binary(">>", BLOCK, constant(1)), False),
        (binary("&", BLOCK, constant(1)), True),
        (binary("&", BLOCK, constant(0)), False),
        (tree.Call("min", (CTA, constant(0)), I32, SPAN), False),
        (binary("+", binary("//", binary("+", BLOCK, constant(1)), constant(2)), constant(0)), True),
    ],
)
def test_what_a_pair_has_in_common(expression: tree.Expression, differs: bool) -> None:
    role = tree.Role("r", 1, None, (), (), (), SPAN, SPAN)
    assert ClusterValues(tree.Cluster((2, 1, 1)), role).differs(expression) is differs


def test_variables_are_followed() -> None:
    same, other, counted = (tree.Variable(name, I32, SPAN) for name in ("same", "other", "counted"))
    read = {variable: tree.ReadVariable(variable, SPAN) for variable in (same, other, counted)}
    loop = tree.For(counted, read[other], constant(9), 1, (tree.Assign(same, binary("+", read[same], constant(1)), SPAN),), SPAN)
    body = (tree.Assign(same, constant(0), SPAN), tree.Assign(other, CTA, SPAN), loop)
    values = ClusterValues(tree.Cluster((2, 1, 1)), tree.Role("r", 1, None, (), (), body, SPAN, SPAN))
    assert values.differs(read[other])
    assert values.differs(read[counted]), "its loop starts elsewhere in the other CTA"
    assert values.differs(read[same]), "it is counted up a different number of times"


def test_a_tensor_that_the_kernel_writes_is_not_the_same_in_all_ctas() -> None:
    source = """
kernel bound(n: i32, ix: tensor[i32, 4], y: tensor[f32, M, 64]):
    grid(2)
    cluster(2)
    p = InputTilePipeline(TilePayload(x=tile[f32, 32, 64]), stages=2, scope="cluster")

    role all(warps=1) produces p consumes p:
        {store}
        for i in range(load(ix[0])):
            with p.produce() as s:
                write(s.x, fill(1.0, f32, 32, 64))
            with p.consume() as s:
                store(y[cta.rank * 32, 0], s.x.of(1 - cta.rank))
"""
    for store, codes in (("pass", set()), ("store.direct(ix[0], fill(3, i32, 1, 1))", {"E0603"})):
        found = compile_source(Source("test", source.format(store=store)), until="check").diagnostics
        assert {one.code for one in found} & {"E0603"} == codes, found


@pytest.mark.parametrize(
    ("rank", "codes"),
    [
        ("(cta.rank + n) % 4", set()),
        ("turn", set()),
        ("3 - turn", set()),
        ("turn ^ cta.rank", set()),
        ("min(max(n, 0), 3)", set()),
        ("n + 1 if n > 0 else 0", {"E0462"}),  # the condition is not looked at
        ("cta.x + turn", {"E0462"}),
        ("n", {"E0462"}),
        ("cta.rank + 1", {"E0457"}),
    ],
)
def test_the_rank_of_another_cta_is_seen_to_lie_in_the_cluster(rank: str, codes: set[str]) -> None:
    source = f"""
kernel other(n: i32, y: tensor[f32, M, 64]):
    grid(4)
    cluster(4)
    p = InputTilePipeline(TilePayload(x=tile[f32, 32, 64]), stages=1, scope="cluster")

    role all(warps=1) produces p consumes p:
        with p.produce() as s:
            write(s.x, fill(1.0, f32, 32, 64))
        with p.consume() as s:
            for turn in range(4):
                store(y[turn * 32, 0], s.x.of({rank}))
"""
    found = compile_source(Source("test", source), until="check").diagnostics
    assert {one.code for one in found} == codes, found
