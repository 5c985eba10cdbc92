"""Which blocks are ordered by their turns: through other counters and blocks, and by copies that are complete before the turn ends."""

import pytest

from pipec.driver import Options, compile_source
from pipec.kir.global_memory.turn_order import PassedOn, TurnOrder
from pipec.source import Source

P, Q = ("p", (0,)), ("q", (0,))
COPY = """
kernel k[S: int = 4](y: tensor[f32, 64, 64], d: tensor[f32, S, 64, 64], turns: tensor[i32, 1]):
    grid(S)
    ring = InputTilePipeline(TilePayload(y=tile[f32, 64, 64]), stages=1)
    back = ProducerConsumerPipeline(stages=1)
    role add(warps=1) produces ring consumes back:
        with semaphore(turns[0], block.x, S):
            store(y[0, 0], fill(1.0, f32, 64, 64), reduce="add")
            with ring.produce() as s:
                tma.load(s.y, y[0, 0])
            {add}
        {after}
    role keep(warps=4) consumes ring produces back:
        {before}
        with ring.consume() as s:
            {keep}
            store(d[block.x, 0, 0], s.y)
"""
HEARD = "with back.consume() as b: pass"
SAID = "with back.produce() as b: pass"
COUNTERS = """
kernel k(x: tensor[f32, 64, 64], y: tensor[f32, 64, 64], p: tensor[i32, 1], q: tensor[i32, 1]):
    grid(3)
    role a(warps=4):
        if block.x < 2:
            with semaphore(p[0], block.x, 2):
                if block.x == {first}:
                    store(y[0, 0], load(x[0, 0], 64, 64))
        if block.x > 0:
            with semaphore(q[0], {turn}, 2):
                if block.x == {second}:
                    store(y[0, 0], load(x[0, 0], 64, 64), reduce="add")
"""


def codes(text: str) -> set[str]:
    state = compile_source(Source("k.pipe", text), Options("sm_100a", allow_undecided=True))
    return {one.code for one in state.diagnostics} - {"E0604"}  # accepted where the protocol is open


@pytest.mark.parametrize(
    ("parts", "raced"),
    [
        ({"add": "ring.drain_producer()", "after": HEARD, "keep": SAID}, False),  # waits until the stage is given back
        ({"add": HEARD, "keep": SAID}, False),  # another role has waited for the stage
        ({"add": HEARD, "before": SAID}, True),  # it has not yet
        ({"add": "pass", "after": HEARD, "keep": SAID}, True),  # nobody has, when the turn ends
    ],
)
def test_a_copy_is_complete_before_its_turn_ends(parts: dict[str, str], *, raced: bool) -> None:
    text = COPY.format(**{"add": "pass", "after": "", "before": "", "keep": ""} | parts)
    assert codes(text) == ({"E0618"} if raced else set())


@pytest.mark.parametrize(
    ("first", "second", "turn", "raced"),
    [
        (0, 2, "block.x - 1", False),  # block 1 takes a turn behind block 0, and one before block 2
        (1, 2, "block.x - 1", False),
        (1, 2, "2 - block.x", True),  # block 2 takes its turn before block 1
        (0, 2, "2 - block.x", True),
    ],
)
def test_turns_of_several_counters(first: int, second: int, turn: str, *, raced: bool) -> None:
    assert codes(COUNTERS.format(first=first, second=second, turn=turn)) == ({"E0618"} if raced else set())


def test_order_of_turns() -> None:
    order = TurnOrder([PassedOn((P, 0), frozenset()), PassedOn((Q, 0), frozenset({(P, 1)})), PassedOn((P, 5), frozenset())])
    first = frozenset({(P, 0)})
    assert order.comes_before(first, frozenset({(P, 1)})) and order.comes_before(first, frozenset({(Q, 1)}))
    assert not order.comes_before(first, frozenset({(P, 0), (Q, 0)})) and not order.comes_before(first, frozenset())
    assert not order.comes_before(frozenset({(P, 5)}), frozenset({(Q, 1)}))
    assert not TurnOrder(()).comes_before(first, frozenset({(Q, 1)}))


BLOCKS = """
kernel k(y: tensor[f32, 64, 64], c: tensor[i32, T], ns: tensor[i32, 4], n: i32):
    grid(2, 1, 3)
    role a(warps=1):
        {before}
        {around}
            with semaphore(c[{counter}], block.z, {turns}):
                if block.z == 0:
                    store(y[0, 0], fill(1.0, f32, 64, 64), reduce="add")
            {after}
"""
ALIKE = [
    {"around": "for t in range(n):"},
    {"around": "for t in range(block.x, n, grid.x):"},
    {"around": "for t in range(load(ns[0])):"},
    {"around": "if n > 3:", "counter": "block.x"},
    {"before": "t = 0", "around": "while t < n:", "after": "t += 1"},
]
DIFFERENT = [
    {"around": "for t in range(block.z, n):"},
    {"around": "for t in range(load(ns[block.z])):"},
    {"around": "if block.z < 2:", "counter": "0"},
    {"around": "for t in range(n):", "counter": "t + block.z"},
    {"before": "t = 0", "around": "while t < n:", "after": "t += 1 + block.z"},
]


@pytest.mark.parametrize(
    ("parts", "turns", "counted"),
    [
        *((parts, turns, turns != 3) for parts in ALIKE for turns in (2, 3, 4)),
        *((parts, turns, False) for parts in DIFFERENT for turns in (2, 4)),
    ],
)
def test_as_many_turns_as_blocks_in_loops_and_under_conditions(parts: dict[str, str], turns: int, *, counted: bool) -> None:
    """Where blocks do not go the same ways, how many take a turn has nothing to do with the grid."""
    text = BLOCKS.format(**{"before": "pass", "counter": "t", "after": "pass", "turns": turns} | parts)
    state = compile_source(Source("k.pipe", text), Options("sm_100a", allow_undecided=True), until="limits")
    assert ("E0613" in {one.code for one in state.diagnostics}) is counted


def test_a_number_of_turns_that_differs_between_launches_is_assumed_to_be_that_of_the_blocks() -> None:
    text = BLOCKS.format(before="pass", around="for t in range(n):", counter="t", turns="max(n, 3)", after="pass").replace(
        "grid(2, 1, 3)", "grid(1, 1, 3)"
    )
    findings = compile_source(Source("k.pipe", text), Options("sm_100a", allow_undecided=True)).findings["k"]
    assert any("is zero again at the end" in one for one in findings.assumed)


TOLD = """
kernel k(x: tensor[f32, 64, 64], v: tensor[f32, 256], y: tensor[f32, 64, 64], z: tensor[f32, 3, 64, 64], turns: tensor[i32, 1]):
    grid(1, 1, 3)
    go = ProducerConsumerPipeline(stages=1)
    ring = InputTilePipeline(TilePayload(x=tile[f32, 64, 64], v=tile[f32, 1, 256]), stages=1)
    role work(warps=1) consumes go produces ring:
        {work}
    role take(warps=4) consumes ring produces go:
        with semaphore(turns[0], block.z, 3):
            with go.produce() as g: pass
            with ring.consume() as s:
                store(z[block.z, 0, 0], {read})
"""
STORE = "store(y[0, 0], load(y[0, 0], 64, 64) * 2.0 + 1.0)"
BEFORE = f"""with go.consume() as g: {STORE}
        with ring.produce() as s: {{fill}}"""
AFTER = f"""with ring.produce() as s:
            {{fill}}
            with go.consume() as g: {STORE}"""
BYTES, COPIES = "tma.load(s.x, x[0, 0])", "cp.async(s.v, v[0])"
THREADS = "write(s.x, fill(1.0, f32, 64, 64))"


@pytest.mark.parametrize(
    ("order", "fill", "read", "raced"),
    [
        (BEFORE, THREADS, "s.x", False),
        (AFTER, THREADS, "s.x", False),
        (BEFORE, BYTES, "s.x", False),  # announced with a fence, where the stage is obtained
        (AFTER, BYTES, "s.x", True),  # nothing comes behind the store
        (BEFORE, COPIES, "s.v", True),  # the copies arrive by themselves
        (AFTER, COPIES, "s.v", True),
    ],
)
def test_what_signals_tell_of_other_accesses(order: str, fill: str, read: str, *, raced: bool) -> None:
    text = TOLD.format(work=order.format(fill=fill), read=read)
    if read == "s.v":
        text = text.replace("x=tile[f32, 64, 64], ", "").replace(
            f"store(z[block.z, 0, 0], {read})", f"store.direct(z[block.z, 0, 0], {read})"
        )
    else:
        text = text.replace(", v=tile[f32, 1, 256]", "")
    # (A `with` around one statement on its line.)
    spread = "\n".join(
        f"{head}:\n{' ' * (len(head) - len(head.lstrip()) + 4)}{inside}" if inside else line
        for line in text.splitlines()
        for head, _, inside in [line.partition(": ") if line.lstrip().startswith("with") else (line, "", "")]
    )
    assert codes(spread) == ({"E0618"} if raced else set())
