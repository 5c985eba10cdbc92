"""Loops inside of each other in one role, of which another one has some in one loop: batches, rows, columns and blocks of K."""

import textwrap

import pytest

from pipec.driver import Options, compile_source
from pipec.protocol.program.nests import depths
from pipec.source import Source
from pipec.verify.network import Action, Edge, End, Process, State, Test
from pipec.verify.terms import Compare, Linear, Symbol, add, atom

TEXT = """
kernel k(x: tensor[f32, B, M], y: tensor[f32, N, K], counts: tensor[i32, B]):
    grid({grid})
    assume({assumed})
    rows = ceildiv(M, 64)
    cols = ceildiv(N, 128)
    kb = ceildiv(K, 64)
    tiles = rows * cols
    p = ProducerConsumerPipeline(stages=3)
    role load(warps=1) produces p:
{load}
    role take(warps=1) consumes p:
{take}
"""
PERSISTENT = "min(ceildiv(N, 128), gpu.multiprocessors)"


def nest(*loops: str) -> str:
    lines = [*(f"for {loop}:" for loop in loops), "{it}"]
    return "\n".join("    " * depth + line for depth, line in enumerate(lines))


B, ROWS, COLS, KB = "b in range(B)", "m in range(rows)", "n in range(cols)", "k in range(kb)"
ELEMENTS, DEPTH = "m in range(0, M, 64)", "k in range(0, K, 64)"
WALK, SHARE = "n in range(block.x, cols, grid.x)", "ceildiv(cols - block.x, grid.x)"
WHILE = """
j = 0
while j < B * rows:
    n = block.x
    while n < cols:
        for k in range(kb):
            {it}
        n += grid.x
    j += 1
""".strip()
RIGHT = {
    "batches and rows": (nest(B, ROWS, COLS, KB), nest("i in range(B * rows)", COLS, KB)),
    "rows and columns": (nest(B, ROWS, COLS, KB), nest(B, "i in range(rows * cols)", KB)),
    "columns and blocks": (nest(B, ROWS, COLS, KB), nest(B, ROWS, "i in range(cols * kb)")),
    "all in a batch": (nest(B, ROWS, COLS, KB), nest(B, "i in range(rows * cols * kb)")),
    "three of them": (nest(ROWS, COLS, KB), nest("i in range(rows * (cols * kb))")),
    "either has two in one": (nest("i in range(B * rows)", COLS, KB), nest(B, "i in range(rows * cols)", KB)),
    "two and two, one and two": (
        nest("i in range(B * rows)", "j in range(cols * kb)"),
        nest(B, "i in range(rows * cols)", KB),
    ),
    "elements": (nest(ELEMENTS, DEPTH), nest("i in range(kb * rows)")),
    "a walk inside": (nest(B, ELEMENTS, WALK, DEPTH), WHILE),
    "a share and its blocks": (nest(B, ROWS, WALK, KB), nest(B, ROWS, f"i in range({SHARE} * kb)")),
    "rows and a share": (nest(B, ROWS, WALK, KB), nest(B, f"i in range(rows * {SHARE})", KB)),
    "a square": (nest("i in range(B)", "j in range(B)", KB), nest("i in range(B * B)", KB)),
}
WRONG = {
    "one more": (nest(B, ROWS, COLS, KB), nest("i in range(B * rows + 1)", COLS, KB)),
    "another factor": (nest(B, ROWS, COLS, KB), nest("i in range(B * cols)", COLS, KB)),
    "another loop inside": (nest(B, ROWS, COLS, KB), nest("i in range(B * rows)", ROWS, KB)),
    "one more of each": (nest(B, ROWS, COLS, KB), nest(B, "i in range((rows + 1) * cols)", KB)),
    "from 1": (nest(B, ROWS, KB), nest("i in range(1, B * rows)", KB)),
    "one more element": (nest("m in range(0, M + 1, 64)", DEPTH), nest("i in range(rows * kb)")),
    "all columns": (nest(B, ROWS, WALK, KB), nest(B, f"i in range(rows * {SHARE})", KB).replace("cols - block.x", "cols")),
    "of the first batch": (nest(B, "m in range(b)", KB), nest("i in range(B * B)", KB)),
}


def failed(load: str, take: str, assumed: str = "K >= 0") -> bool:
    produced = textwrap.indent(load.format(it="p.producer_signal_and_step()"), " " * 8)
    taken = textwrap.indent(take.format(it="p.consumer_signal_and_step()"), " " * 8)
    grid = PERSISTENT if "block.x" in load + take else "1"
    text = TEXT.format(grid=grid, assumed=assumed, load=produced, take=taken)
    return compile_source(Source("k.pipe", text), Options("sm_90a")).failed


@pytest.mark.parametrize("right", RIGHT)
def test_it_is_proved(right: str) -> None:
    assert not failed(*RIGHT[right])


@pytest.mark.parametrize("wrong", WRONG)
def test_its_neighbour_is_not(wrong: str) -> None:
    assert failed(*WRONG[wrong])


BETWEEN = """
kernel k(x: tensor[f32, B, H, T], y: tensor[f32, K]):
    grid(1)
    assume(K >= 0)
    tt = ceildiv(T, 32)
    kb = ceildiv(K, 64)
    p = ProducerConsumerPipeline(stages=3)
    q = ProducerConsumerPipeline(stages=2)
    role load(warps=1) produces p:
{load}
    role change(warps=1) consumes p produces q:
        for i in range({turns}):
            p.consumer_signal_and_step()
            q.producer_signal_and_step()
    role write_(warps=1) consumes q:
{take}
"""
HEADS, STEPS, TWO = "h in range(H)", "t in range(0, T, 32)", "b in range(B * H)"
THREE_ROLES = {
    "rows by two": ((B, HEADS, "t in range(tt)"), "B * H * tt", (TWO, STEPS)),
    "as many": ((B, HEADS, "t in range(tt)"), "B * H * tt", (B, HEADS, STEPS)),
    "grouped otherwise": ((B, HEADS, STEPS), "tt * (H * B)", (B, "t in range(H * tt)")),
    "blocks of K": ((B, HEADS, KB), "kb * B * H", (TWO, KB)),
}
NOT_THREE_ROLES = {
    "one more of the outer one": ((B, HEADS, STEPS), "(B + 1) * H * tt", (TWO, STEPS)),
    "one more of the inner one": ((B, HEADS, STEPS), "B * H * (tt + 1)", (TWO, STEPS)),
    "one less in one": ((B, HEADS, STEPS), "B * H * tt", (TWO, "t in range(32, T, 32)")),
    "another factor": ((B, HEADS, STEPS), "B * B * tt", (TWO, STEPS)),
}


def in_three_roles(load: tuple[str, ...], turns: str, take: tuple[str, ...]) -> bool:
    produced = textwrap.indent(nest(*load).format(it="p.producer_signal_and_step()"), " " * 8)
    taken = textwrap.indent(nest(*take).format(it="q.consumer_signal_and_step()"), " " * 8)
    text = BETWEEN.format(load=produced, turns=turns, take=taken)
    return not compile_source(Source("k.pipe", text), Options("sm_90a")).failed


@pytest.mark.parametrize("name", THREE_ROLES)
def test_one_loop_between_two_roles_with_loops_inside_each_other(name: str) -> None:
    assert in_three_roles(*THREE_ROLES[name])


@pytest.mark.parametrize("name", NOT_THREE_ROLES)
def test_its_neighbour_in_three_roles_is_not(name: str) -> None:
    assert not in_three_roles(*NOT_THREE_ROLES[name])


FLAT = """
kernel flat(a: tensor[bf16, M, K], b: tensor[bf16, N, K], d: tensor[bf16, M, N]):
    assume(K > 0)
    rows = ceildiv(M, 64)
    tiles = rows * ceildiv(N, 64)
    kb = ceildiv(K, 64)
    grid(min(tiles, gpu.multiprocessors))
    ring = InputTilePipeline(StandardTilePayload(a=tile[bf16, 64, 64], b=tile[bf16, 64, 64]), stages=3)

    role load(warps=1) produces ring:
        for t in range(block.x, tiles, grid.x):
            for k in range({depth}):
                with ring.produce() as s:
                    tma.load(s.a, a[t % rows * 64, k * 64])
                    tma.load(s.b, b[t // rows * 64, k * 64])

    role compute(warps=4) consumes ring:
        acc = accumulator(f32, 64, 64)
{compute}
"""
STORE = """
    store(d[t % rows * 64, t // rows * 64], cast[bf16](acc))
    write(acc, fill(0.0, f32, 64, 64))
""".strip("\n")
TAKE = "    with ring.consume() as s:\n        mma(acc, s.a, s.b)"
LOOP = "for i in range(ceildiv(tiles - block.x, grid.x) * kb):"
ENDS = "    if i % kb == kb - 1:\n        t = block.x + i // kb * grid.x\n" + textwrap.indent(STORE, "    ")
BEGINS = "    if i % kb == 0:\n        write(acc, fill(0.0, f32, 64, 64))"
LAST = "    if i % kb == kb - 1:\n        t = block.x + i // kb * grid.x\n    " + STORE.splitlines()[0]
GOES_ROUND = "    k += 1\n    if k == kb:\n" + textwrap.indent(STORE, "    ") + "\n        k = 0\n        t += grid.x"
ACCUMULATED = {
    "at the end": (LOOP, TAKE, ENDS),
    "in front": (LOOP, BEGINS, TAKE, LAST),
    "by a counter": ("t = block.x", "k = 0", LOOP, TAKE, GOES_ROUND),
    "by counters alone": ("t = block.x", "k = 0", "while t < tiles:", TAKE, GOES_ROUND),
}


def multiplied(*lines: str, depth: str = "kb") -> bool:
    compute = textwrap.indent("\n".join(lines), " " * 8)
    return not compile_source(Source("k.pipe", FLAT.format(depth=depth, compute=compute)), Options("sm_90a")).failed


@pytest.mark.parametrize("way", ACCUMULATED)
def test_an_accumulator_is_stored_behind_the_last_block_of_a_tile(way: str) -> None:
    assert multiplied(*ACCUMULATED[way])


@pytest.mark.parametrize("way", ACCUMULATED)
def test_its_neighbour_has_a_block_more(way: str) -> None:
    assert not multiplied(*ACCUMULATED[way], depth="kb + 1")


COUNTED = "for b in range(B):\n    many = {many}\n    for {loop}:\n        "
ROWS_OF_ONE = COUNTED.format(many="{many}", loop="m in range(0, many, 64)") + "for k in range(kb):\n            {it}"
TURNS_OF_ONE = COUNTED.format(many="{many}", loop="i in range(ceildiv(many, 64) * kb)") + "{it}"
CAPPED = "min(max(load(counts[b]), 0), M)"
LOADED = {
    "capped": (CAPPED, CAPPED, True),
    "the other one may have one more": (CAPPED, CAPPED.replace("M)", "M + 1)"), False),
    "of another batch": (CAPPED, CAPPED.replace("[b]", "[0]"), False),
    "at least one in one of them": (CAPPED, CAPPED.replace("0)", "1)"), False),
}


@pytest.mark.parametrize("name", LOADED)
def test_numbers_in_memory_that_are_bounded(name: str) -> None:
    """That the product of a number that is not negative is no smaller than the type's least is nothing to ask of a launch."""
    flat, rows, right = LOADED[name]
    flat, rows = TURNS_OF_ONE.replace("{many}", flat), ROWS_OF_ONE.replace("{many}", rows)
    assert failed(flat, rows, "K > 0") is not right


def test_how_deep_loops_are_that_begin_in_one_state() -> None:
    """Both have a turn for sure: there is no test in front of them, and their turns begin with the same step."""
    inner, outer, n, m = Symbol("0:i"), Symbol("0:o"), Symbol("n"), Symbol("m")

    def another(counter: Symbol, bound: Symbol) -> Compare:
        return Compare("ge", add(add(atom(bound), atom(counter), -1), Linear(-2)))

    actions: tuple[Action, ...] = (
        Test(Compare("ge", atom(n)), Edge(1), Edge(1)),
        Test(another(inner, n), Edge(0, ((inner, add(atom(inner), Linear(1))),)), Edge(2)),
        Test(another(outer, m), Edge(0, ((outer, add(atom(outer), Linear(1))), (inner, Linear(0)))), Edge(3)),
        End(),
    )
    states = tuple(State(line, action, ()) for line, action in enumerate(actions))
    assert depths(Process("a", 1, (0,), (0,), 0, states, 0)) == {0: 2, 1: 2, 2: 1}
