"""Whether blocks, and iterations of a role, store different elements: what is shown of random kernels, beside a count of the elements."""

import itertools
import random
import re

import pytest
from index_kernels import SIZES, TEMPLATES, Filled, Template, collision, filled
from samples import numbers

import pipec
from pipec.driver import STAGES, Compilation, Options, compile_source
from pipec.kir.global_memory import accesses
from pipec.kir.global_memory.access_pairs import AccessPair, Answer
from pipec.kir.global_memory.overlaps import answers_of_blocks
from pipec.kir.ir import Kernel
from pipec.source import Source

FEW, KERNELS = 3, 8  # of each template


def planned(text: str) -> Kernel | None:
    """None if the kernel is refused before."""
    state = Compilation(Source("k.pipe", text), Options())
    for name, stage in STAGES.items():
        stage(state)
        if state.failed:
            return None
        if name == "plan":
            break
    assert state.plans is not None
    return state.plans[0].kernel


def answers(text: str) -> tuple[Answer, Answer] | None:
    """Of two blocks, and of two iterations; None if the kernel is refused before."""
    kernel = planned(text)
    if kernel is None:
        return None
    rows = accesses.collect(kernel)
    ((role, access),) = [(row.role, access) for row in rows for access in row.accesses]
    return answers_of_blocks(kernel, rows)["y"], AccessPair(kernel).apart_in_block((role, access), (role, access))


def collides(kernel: Filled, *, in_blocks: bool) -> str:
    """Sizes at which two blocks store the same element, or two iterations do; empty if there are none."""
    found = ((sizes, collision(kernel, sizes, in_blocks=in_blocks)) for sizes in SIZES)
    return next((f"{sizes}: {met}" for sizes, met in found if met is not None), "")


@pytest.mark.parametrize("template", TEMPLATES, ids=lambda one: one.name)
def test_nothing_is_shown_that_is_not_so(template: Template) -> None:
    for number in numbers(f"kernels of {template.name}", FEW, KERNELS):
        kernel = filled(template, random.Random(f"{template.name}/{number}"), 0.6)
        for answer, in_blocks in zip(answers(kernel.text) or (), (True, False), strict=False):
            met = collides(kernel, in_blocks=in_blocks) if answer != "open" else ""
            assert not met, f"{kernel.text}\n{met}"


@pytest.mark.parametrize("template", TEMPLATES, ids=lambda one: one.name)
def test_what_is_right_is_shown(template: Template) -> None:
    kernel = filled(template, random.Random(1), 1.0)
    assert not collides(kernel, in_blocks=True) and not collides(kernel, in_blocks=False)
    given = answers(kernel.text)
    assert given is not None and "open" not in given, kernel.text


def test_the_end_of_a_loop_bounds_nothing_behind_it() -> None:
    """With C = 1, blocks (1, 0) and (0, 1) store row 8 behind the loop, which (1, 0) does not enter."""
    store = "store(y[{}], load(x[0, 0], 8, 64))"
    text = (
        "kernel k(x: tensor[f32, 8, 64], y: tensor[f32, R, C], m: i32):\n    grid(m, 5)\n    role work(warps=4):\n"
        "        for i in range(block.x, min(C, 2), 2):\n"
        f"            {store.format('i * 8, 64 + block.y * 64')}\n"
        f"        {store.format('(block.x + block.y * C) * 8, 0')}\n"
    )
    kernel = planned(text)
    assert kernel is not None and answers_of_blocks(kernel, accesses.collect(kernel))["y"] == "open"


@pytest.mark.parametrize(
    ("grid", "turn", "place", "answer"),
    [
        ("2, 2", "s[block.y], block.x, 2", "0, 0", "open"),  # blocks of other rows have counters of their own
        ("2, 2", "s[block.y], block.x, 2", "block.y * 8, 0", "shown"),
        (
            "2, 2",
            "s[0], block.x, 2",
            "(block.x + block.y) * 8, 0",
            "open",
        ),  # (0, 1) may still store row 8 when it is the turn of (1, 0)
        ("2, 6", "s[block.x], block.y % 3, 3", "block.x * 8, block.y // 3 * 64", "open"),
        ("2, 3", "s[block.x], block.y, 3", "block.x * 8, 0", "shown"),
    ],
)
def test_turns_order_blocks_if_each_is_one_blocks(grid: str, turn: str, place: str, answer: Answer) -> None:
    text = (
        f"kernel k(x: tensor[f32, 8, 64], y: tensor[f32, R, C], s: tensor[i32, S]):\n    grid({grid})\n    role work(warps=4):\n"
        f"        with semaphore({turn}):\n            store(y[{place}], load(x[0, 0], 8, 64))\n"
    )
    kernel = planned(text)
    assert kernel is not None and answers_of_blocks(kernel, accesses.collect(kernel))["y"] == answer


@pytest.mark.parametrize(
    ("offset", "answer"), [("i * 4", "fitting"), ("i * 8", "open"), ("load(o[i, 0])", "open"), ("load(o[0, 0])", "fitting")]
)
def test_what_two_blocks_do_not_share_separates_them_less(offset: str, answer: Answer) -> None:
    """In the second iteration a block may store where the next one stores in its first."""
    text = (
        "kernel k(x: tensor[f32, 4, 64], y: tensor[f32, R, C], o: tensor[i32, P, 1]):\n    grid(R, 1)\n    role work(warps=4):\n"
        f"        for i in range(2):\n            store(y[block.x * 8 + {offset}, 0], load(x[0, 0], 4, 64))\n"
    )
    kernel = planned(text)
    assert kernel is not None and answers_of_blocks(kernel, accesses.collect(kernel))["y"] == answer


@pytest.mark.parametrize("axis", ["y", "z"])
@pytest.mark.parametrize(("row", "answer"), [("cta.x * 8", "open"), ("cta.{} * 8", "shown"), ("(cta.x + cta.{}) * 8", "shown")])
def test_only_the_leaders_of_pairs_store(axis: str, row: str, answer: Answer) -> None:
    """Of a cluster of two pairs they are the blocks that come first on its first axis."""
    shape, row = "2, 2" if axis == "y" else "2, 1, 2", row.format(axis)
    text = (
        f"kernel k(y: tensor[f32, M, 16]):\n    grid({shape})\n    cluster({shape})\n"
        f'    role work(warps=1, on="leader"):\n        store.direct(y[{row}, 0], fill(1.0, f32, 8, 8))\n'
    )
    kernel = planned(text)
    assert kernel is not None and answers_of_blocks(kernel, accesses.collect(kernel))["y"] == answer


@pytest.mark.parametrize(("rows", "answer"), [(32, "shown"), (24, "open"), (16, "open")])
def test_loops_that_count_down_come_to_their_last_number(rows: int, answer: Answer) -> None:
    """Four tiles of eight rows, the first of which is stored last."""
    text = (
        "kernel k(y: tensor[f32, M, 16], n: i32):\n    grid(8)\n    role work(warps=1):\n        for i in range(3, -1, -1):\n"
        f"            store.direct(y[block.x * {rows} + i * 8, 0], fill(1.0, f32, 8, 8))\n"
    )
    kernel = planned(text)
    assert kernel is not None and answers_of_blocks(kernel, accesses.collect(kernel))["y"] == answer


MEETING = """kernel k(y: tensor[f32, M, 16], N: i32):
    grid({grid})
{cluster}    role all(warps=1):
        for i in range({turns}):
            store.direct(y[{row}, 0], fill(1.0, f32, 8, 8))
"""


@pytest.mark.parametrize(
    ("grid", "width", "turns", "row"),
    [
        ("ceildiv(M, 8)", 1, "N", "block.x * 8 + i * 4"),
        ("N * 2", 2, "1", "cluster.x * 8"),
        ("N * 2", 2, "1", "cluster.x * 8 + cta.x * 8"),
        ("8", 2, "1", "min(cluster.x, clusters.x - 2) * 16 + cta.x * 8"),
    ],
)
def test_blocks_that_meet_are_refused(grid: str, width: int, turns: str, row: str) -> None:
    """By what a loop adds to a block's place; two blocks of a cluster, and of the first and the last clusters."""
    cluster = f"    cluster({width})\n" if width > 1 else ""
    text = MEETING.format(grid=grid, cluster=cluster, turns=turns, row=row)
    assert [one.code for one in compile_source(Source("k.pipe", text), Options("sm_90a")).diagnostics] == ["E0618"]


def test_blocks_that_meet_only_where_two_sizes_differ_are_refused() -> None:
    """A row of tiles is as long as a column has them: right where there are as many of both."""
    text = """kernel k(y: tensor[f32, M, N]):
    grid(ceildiv(M, 16) * ceildiv(N, 16))
    role all(warps=1):
        store.direct(y[block.x // ceildiv(N, 16) * 16, block.x % ceildiv({}, 16) * 16], fill(1.0, f32, 16, 16))
"""
    codes = [[one.code for one in compile_source(Source("k.pipe", text.format(size))).diagnostics] for size in "MN"]
    assert codes == [["E0618"], []]


UNLIKE = """kernel k(y: tensor[f32, M, 64], n: i32, m: i32):
    assume({assumed})
    grid({grid})
    role all(warps=1):
        store.direct(y[({place}) * {rows}, 0], fill(1.0, f32, {rows}, 8))
"""


@pytest.mark.parametrize("rows", [8, 32, 128])
@pytest.mark.parametrize(
    ("assumed", "grid", "place", "met"),
    [
        ("n > 0", "ceildiv(M, 512), n", "block.x * ceildiv(M, 512) + block.y", True),
        ("n > 0", "ceildiv(M, 512), n", "block.x * n + block.y", False),
        ("n > 0 and m > 0", "m, n", "block.y * n + block.x", True),
        ("n > 0 and m > 0", "m, n", "block.y * m + block.x", False),
        ("n > 0 and m > 0 and m <= n", "m, n", "block.y * n + block.x", False),
        ("n > 0 and m > 0", "m * n", "block.x // n * n + block.x % m", True),
        ("n > 0 and m > 0", "m * n", "block.x // n * n + block.x % n", False),
        ("n > 0 and n * T + T >= M", "ceildiv(M, T)", "block.x % n", True),
        ("n > 0 and n * T >= M", "ceildiv(M, T)", "block.x % n", False),
        ("n * T + T >= M", "ceildiv(M, T) + 1", "min(block.x, n)", True),
        ("n * T + T >= M", "ceildiv(M, T)", "min(block.x, n)", False),
        ("n > 0", "n", "block.x * 4 % 262144", True),
        ("n > 0 and n <= 65536", "n", "block.x * 4 % 262144", False),
    ],
)
def test_blocks_that_meet_only_where_parameters_differ_are_refused(
    rows: int, assumed: str, grid: str, place: str, met: bool
) -> None:
    """Or only just where the assumptions end, or in blocks far away."""
    assumed, grid = (one.replace("T", str(rows)) for one in (assumed, grid))
    text = UNLIKE.format(assumed=assumed, grid=grid, place=place, rows=rows)
    assert [one.code for one in compile_source(Source("k.pipe", text), until="limits").diagnostics] == ["E0618"] * met


VALUES = """kernel k(x: tensor[f32, M, 64], y: tensor[f32, M, 64], n: i32, alpha: f32):
    assume(M % 128 == 0{assumed})
    grid(ceildiv(M, 32))
    role all(warps=4):
        t = load(x[block.x * 32, 0], 64, 64)
        {body}
"""
OWN, FIRST = (f"store.direct(y[{place}, 0], t, rows=32)" for place in ("block.x * 32", "0"))


@pytest.mark.parametrize(
    ("body", "assumed", "met"),
    [
        ("store.direct(y[block.x * 32, 0], t, rows=n)", "", True),
        ("store.direct(y[block.x * 32, 0], t, rows=n)", " and n <= 32", False),
        ("store(y[block.x * 32, 0], t, rows=min(n, 32))", "", False),
        (f"if n == 30:\n            {FIRST}\n        else:\n            {OWN}", "", True),
        (f"if n == 30:\n            {FIRST}\n        else:\n            {OWN}", " and n != 30", False),
        (f"if M > 5000:\n            {FIRST}\n        else:\n            {OWN}", "", True),
        (f"if M > 5000:\n            {FIRST}\n        else:\n            {OWN}", " and M < 5000", False),
        (f"if alpha == 0.0:\n            {FIRST}\n        else:\n            {OWN}", "", True),
        (
            f"if -1.0 * alpha > 0.0:\n            {FIRST}\n        else:\n            {OWN}",
            "",
            False,
        ),  # assumed: no float is computed
        (f"if -alpha > 0.5:\n            {FIRST}\n        else:\n            {OWN}", "", True),
        (f"if alpha > 0.0 and alpha < 0.0:\n            {FIRST}\n        else:\n            {OWN}", "", False),
    ],
)
def test_blocks_that_meet_only_at_certain_numbers_are_refused(body: str, assumed: str, met: bool) -> None:
    """Of rows, and those with which a role compares a parameter, a size, or a float."""
    text = VALUES.format(body=body, assumed=assumed)
    assert [one.code for one in compile_source(Source("k.pipe", text), until="limits").diagnostics] == ["E0618"] * met


def test_blocks_beyond_those_that_a_grid_can_have_do_not_meet() -> None:
    """Along y there are at most 65535."""
    text = UNLIKE.format(assumed="n > 0", grid="1, n", place="block.y * 4 % 262140", rows=8)
    assert not compile_source(Source("k.pipe", text), until="limits").failed


@pytest.mark.parametrize(
    ("first", "second", "assumed", "met"),
    [
        ("0, n", "m, ceildiv(M, 64)", "m > 0", True),
        ("0, n", "m, ceildiv(M, 64)", "m >= n", False),
        ("0, ceildiv(N, 64)", "ceildiv(K, 64), ceildiv(M, 64)", "m > 0", True),
        ("0, N // 64", "ceildiv(N, 64), ceildiv(M, 64)", "m > 0", False),
        ("max(n, m), ceildiv(M, 64) - n", "m // 2, ceildiv(N, 64) // 2", "m > 0", True),
    ],
)
def test_roles_that_meet_only_where_sizes_differ_are_refused(first: str, second: str, assumed: str, met: bool) -> None:
    loops = "".join(
        f"    role r{number}(warps=4):\n        for t in range({bounds}):\n            store(y[t * 64, 0], load(x[t * 64, 0], 64, 64))\n"
        for number, bounds in enumerate((first, second))
    )
    tensors = "x: tensor[f32, M, 64], w: tensor[f32, N, K], y: tensor[f32, M, 64]"
    text = f"kernel k({tensors}, n: i32, m: i32):\n    assume({assumed})\n    grid(1)\n{loops}"
    assert [one.code for one in compile_source(Source("k.pipe", text), until="limits").diagnostics] == ["E0614"] * met


FAR_APART = """kernel k(y: tensor[f32, M, 64]):
    grid(1)
    role a(warps=4):
        for t in range(0, {last}):
            store(y[t * 64, 0], fill(1.0, f32, 64, 64))
    role b(warps=4):
        for t in range({first}, ceildiv(M, 64)):
            store(y[t * 64, 0], fill(2.0, f32, 64, 64))
"""


@pytest.mark.parametrize(
    ("last", "first", "met"), [("200", "199", True), ("200", "200", False), ("min(200, ceildiv(M, 64))", "199", True)]
)
def test_roles_that_meet_after_many_tiles_are_refused(last: str, first: str, met: bool) -> None:
    text = FAR_APART.format(last=last, first=first)
    assert [one.code for one in compile_source(Source("k.pipe", text), until="limits").diagnostics] == ["E0614"] * met


@pytest.mark.parametrize(("slots", "ordered"), [(150, True), (1 << 20, False)])
def test_stores_of_a_role_to_slots_that_come_round_late_are_ordered(slots: int, ordered: bool) -> None:
    text = f"""kernel k(y: tensor[f32, M, 64]):
    grid(1)
    role w(warps=4):
        for t in range(block.x, ceildiv(M, 64), grid.x):
            store(y[t % {slots} * 64, 0], fill(1.0, f32, 64, 64) * cast[f32](t))
"""
    state = compile_source(Source("k.pipe", text), until="limits")
    assert state.plans is not None
    assert bool(state.plans[0].roles[0].global_order.before) == ordered


def test_stores_of_a_role_that_meet_only_where_sizes_differ_are_ordered() -> None:
    text = """kernel k(y: tensor[f32, M, 64], n: i32, m: i32):
    assume(n > 0 and m > 0)
    grid(1)
    role w(warps=4):
        for t in range(block.x, n * m, grid.x):
            store(y[(t // m * {0} + t % m) * 64, 0], fill(1.0, f32, 64, 64) * cast[f32](t))
"""
    orders = {}
    for stride in "nm":
        state = compile_source(Source("k.pipe", text.format(stride)), until="limits")
        assert state.plans is not None
        orders[stride] = bool(state.plans[0].roles[0].global_order.before)
    assert orders == {"n": True, "m": False}


SHARES = """kernel k(x: tensor[f32, M, 64], y: tensor[f32, M, 64]):
    tiles = ceildiv(M, {rows})
    grid(min(tiles, 4))
    role work(warps=1):
        for t in range({first}, {last}):
            store.direct(y[t * {rows}, 0], load(x[t * {rows}, 0], {rows}, 64))
"""


@pytest.mark.parametrize("rows", [8, 32, 128])
@pytest.mark.parametrize(
    ("first", "last", "met"),
    [
        ("block.x * tiles // grid.x", "(block.x + 1) * tiles // grid.x", False),
        ("block.x * tiles // grid.x", "ceildiv((block.x + 1) * tiles, grid.x)", True),
        ("block.x * (tiles // grid.x)", "(block.x + 1) * (tiles // grid.x) + tiles % grid.x", True),
        ("block.x * ceildiv(tiles, grid.x)", "min(tiles, (block.x + 1) * ceildiv(tiles, grid.x))", False),
        ("block.x * ceildiv(tiles, grid.x)", "min(tiles, block.x * ceildiv(tiles, grid.x) + ceildiv(tiles, grid.x) + 1)", True),
    ],
)
def test_shares_that_overlap_where_tiles_do_not_divide_evenly_are_refused(rows: int, first: str, last: str, met: bool) -> None:
    text = SHARES.format(rows=rows, first=first, last=last)
    codes = [one.code for one in compile_source(Source("k.pipe", text), until="limits").diagnostics]
    assert codes == ["E0618"] * met


@pytest.mark.parametrize(
    ("counter", "code"), [("0", "E0613"), ("block.x", "E0617"), ("block.x // 2", "E0617"), ("grid.x - block.x", "E0617")]
)
def test_turns_are_those_of_the_grid_where_its_blocks_share_the_counter(counter: str, code: str) -> None:
    """Two turns for four blocks: too few where all share one counter; else some block waits for a turn of a counter of its own."""
    text = f"""kernel k(c: tensor[i32, N], y: tensor[f32, 8, 64]):
    grid(4)
    role all(warps=1):
        with semaphore(c[{counter}], block.x, 2):
            store.direct(y[0, 0], fill(1.0, f32, 8, 64), reduce="add")
"""
    assert [one.code for one in compile_source(Source("k.pipe", text), Options("sm_90a")).diagnostics] == [code]


PLACES = (
    "block.x", "cta.x", "1 - cta.x", "cluster.x", "cluster.x * W + (cta.x + 1) % W", "cluster.x * W + W - 1 - cta.x",
    "grid.x - 1 - block.x", "block.x + grid.x", "cta.x + cluster.x * W", "block.x // W", "cta.rank", "block.x - cta.x",
)  # fmt: skip
# The second one's CTAs hand stages over to each other, which orders nothing in a tensor.
ROLES = (
    "    role work(warps=1):\n{body}\n",
    """    parts = InputTilePipeline(TilePayload(x=tile[f32, 32, 4]), stages=1, scope="cluster")
    role work(warps=1) produces parts:
{body}
        with parts.produce() as s:
            write(s.x, fill(1.0, f32, 32, 4))
    role read(warps=1) consumes parts:
        with parts.consume() as s:
            store.direct(z[block.x * 32, 0], s.x.of(0))
""",
)


@pytest.mark.parametrize("roles", ROLES, ids=("alone", "together"))
@pytest.mark.parametrize("width", [1, 2, 4])
def test_what_a_block_stores_no_other_may_touch_in_a_cluster_or_not(width: int, roles: str) -> None:
    """The grid is of eight blocks, so which elements each touches can be counted: what is refused is what two of them share."""
    draw = random.Random(f"{width} {roles}")
    for _ in range(12):
        stored, loaded = draw.choice(PLACES).replace("W", str(width)), draw.choice(PLACES).replace("W", str(width))
        body = f"        store.direct(y[({stored}) * 32, 0], load(x[0, 0], 32, 64))\n"
        body += f"        store.direct(z[block.x * 32, 0], load(y[({loaded}) * 32, 0], 32, 4))"
        text = "kernel k(x: tensor[f32, 32, 64], y: tensor[f32, 512, 64], z: tensor[f32, 256, 4]):\n    grid(8)\n"
        text += f"    cluster({width})\n" if width > 1 else ""
        if width > 1 or roles == ROLES[0]:
            codes = [
                one.code for one in compile_source(Source("k.pipe", text + roles.format(body=body)), until="limits").diagnostics
            ]
            stores, loads = ([_place(one, block, width) for block in range(8)] for one in (stored, loaded))
            pairs = itertools.permutations(range(8), 2)
            met = any(stores[one] >= 0 and stores[one] in (stores[other], loads[other]) for one, other in pairs)
            assert ("E0618" in codes) == met, f"{stored}, {loaded}: {codes}"


def _place(text: str, block: int, width: int) -> int:
    known = {"block.x": block, "grid.x": 8, "cta.x": block % width, "cta.rank": block % width, "cluster.x": block // width}
    return int(eval(re.sub(r"\w+\.\w+", lambda name: str(known[name[0]]), text)))


TWO_ROLES = """kernel k(x: tensor[f32, 64, 64], y: tensor[f32, M, 64], z: tensor[f32, N, 8], n: i32):
    grid(1)
    role one(warps=1):
        store(y[{first}, 0], load(x[0, 0], 64, 64))
    role two(warps=1):
        store.direct(y[{second}, 0], load(x[0, 0], 64, 64))
"""


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("0", "M - 32"),
        ("0", "M // 2"),
        ("64", "N - 64"),
        ("0", "M - 1000"),
        ("M - 4096", "64"),
        ("n * 64", "5120"),
        ("2 * N - 20000", "0"),
    ],
)
def test_stores_of_two_roles_that_meet_at_one_size_are_refused(first: str, second: str) -> None:
    text = TWO_ROLES.format(first=first, second=second)
    assert "E0614" in {one.code for one in compile_source(Source("k.pipe", text), until="limits").diagnostics}


def test_stores_of_two_roles_at_the_ends_of_a_tensor_are_right_if_it_is_assumed_to_be_long() -> None:
    text = TWO_ROLES.format(first="0", second="M - 64")
    assert compile_source(Source("k.pipe", text), until="limits").failed
    assert not compile_source(Source("k.pipe", text.replace("grid(1)", "grid(1)\n    assume(M >= 128)")), until="limits").failed


@pytest.mark.parametrize("rows", [8, 4])
def test_the_report_says_no_more_than_is_shown(rows: int) -> None:
    """Blocks that store half of the rows share no element either: that each is stored is not said."""
    text = f"kernel k(y: tensor[f32, R, 64]):\n    grid(ceildiv(R, 8))\n    role w(warps=4):\n        {{}}{rows}, 64))\n"
    report = pipec.compile(text.format("store.direct(y[block.x * 8, 0], fill(1.0, f32, ")).report["k"]
    assert "y: no element is stored by two blocks" in report.checked
    with pytest.raises(pipec.CompileError):
        pipec.compile(text.format(f"store.direct(y[block.x * {rows - 1}, 0], fill(1.0, f32, "))
