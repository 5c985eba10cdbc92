"""Right kernels as they are plainly written: the same turns said in other words by each role."""

from itertools import combinations

import pytest

from pipec.driver import Options, compile_source
from pipec.source import Source
from tests.protocol.drawing import Draw, Kernel, Lines, indented, source

STEPS = ["steps = ceildiv(N, 64)"]
SHARE = [*STEPS, "per = ceildiv(steps, grid.x)"]


def pair(a: Lines, b: Lines, blocks: str = "8") -> Kernel:
    return Kernel({"p": (3, "a", "b")}, {"a": a, "b": b}, blocks=blocks)


TILES = ["for t in range(block.x, M, grid.x):"]
KEYS = {
    "by steps": "for j in range(0, n1, 64):",
    "rounded up": "for j in range(ceildiv(n1, 64)):",
    "rounded up by hand": "for j in range((n1 + 63) // 64):",
}
HALVES = {  # two turns in one, and what is left behind them
    "from where the whole ones end": [
        "full = N // 2 * 2",
        "for k in range(0, full, 2):",
        *["    {p-}"] * 2,
        "for k in range(full, N):",
        "    {p-}",
    ],
    "if there is one": ["for k in range(0, N - 1, 2):", *["    {p-}"] * 2, "if N % 2 != 0:", "    {p-}"],
    "after four in one": [
        "full = N // 4 * 4",
        "for k in range(0, full, 4):",
        *["    {p-}"] * 4,
        "for k in range(full, N):",
        "    {p-}",
    ],
}


def dealt(*heads: str) -> Kernel:
    """K blocks of each tile, dealt out in turn to as many consumers as there are heads of their loops."""
    ways = len(heads)
    taken: Lines = [*TILES, "    for k in range(N):"]
    for number in range(ways):
        taken += [f"        if k % {ways} == {number}:", f"            {{p{number}+}}"]
    pipes = {f"p{number}": (2, "a", f"c{number}") for number in range(ways)}
    roles = {"a": taken} | {f"c{n}": [*TILES, f"    for k in {head}:", f"        {{p{n}-}}"] for n, head in enumerate(heads)}
    return Kernel(pipes, roles, blocks="4")


def twice_unrolled(start: str, odd: str) -> Kernel:
    """The K blocks of a tile, two in each turn."""
    whole = ["    steps = ceildiv(N, 64)", f"    for k in range({start}, steps - 1, 2):", *["        {p-}"] * 2]
    rest = [f"    if steps % 2 == {odd}:", "        {p-}"]
    return pair([*TILES, "    for k in range(ceildiv(N, 64)):", "        {p+}"], [*TILES, *whole, *rest], blocks="4")


def one_after_the_other(last: str) -> Kernel:
    """Two operands in one loop, and in two that step by the elements of a block."""
    steps = ["    for k in range(0, M, 64):", "        {p-}", f"    for k in range(0, {last}, 64):", "        {p-}"]
    both = "    for k in range(ceildiv(M, 64) + ceildiv(N, 64)):"
    return pair([*TILES, both, "        {p+}"], [*TILES, *steps], blocks="3")


def one_loop(count: str, back: str = "0", blocks: str = "4") -> Kernel:
    """One loop over the K blocks of all tiles, with a counter that is set back for each, against loops in each other."""
    heads = ["for t in range(block.x, M, grid.x):"]
    flat = ["steps = ceildiv(N, 64)", "k = 0", f"for i in range(steps * {count}):", "    {p-}", "    k += 1"]
    flat += ["    if k == steps:", "        {q+}", f"        k = {back}"]
    outputs = ["if N > 0:", *indented([*heads, "    {q-}"])]
    roles = {"a": [*heads, "    for k in range(ceildiv(N, 64)):", "        {p+}"], "b": flat, "c": outputs}
    return Kernel({"p": (4, "a", "b"), "q": (2, "b", "c")}, roles, blocks=blocks)


MANY_TILES = "ceildiv(M, 128) * ceildiv(N, 128)"
#: The share of a block of the tiles, in other words: the lines before the body, and what comes behind it in each turn.
SHARES: dict[str, tuple[Lines, Lines]] = {
    "range": ([f"for t in range(block.x, {MANY_TILES}, grid.x):"], []),
    "while": (["t = block.x", f"while t < {MANY_TILES}:"], ["t += grid.x"]),
    "counted": ([f"for i in range(ceildiv({MANY_TILES} - block.x, grid.x)):"], []),
    "counted by hand": ([f"tiles = {MANY_TILES}", "for i in range((tiles - block.x + grid.x - 1) // grid.x):"], []),
    "counted down": ([f"left = ceildiv({MANY_TILES} - block.x, grid.x)", "while left > 0:"], ["left -= 1"]),
    "from the last one": ([f"tiles = {MANY_TILES}", "for i in range((tiles - 1 - block.x) // grid.x, -1, -1):"], []),
    "rows by columns": (
        ["rows = ceildiv(M, 128)", "columns = ceildiv(N, 128)", "t = block.x", "while t < rows * columns:"],
        ["t = t + grid.x"],
    ),
}
ONE_MORE: dict[str, tuple[Lines, Lines]] = {
    "one too many": ([f"for t in range(block.x, {MANY_TILES} + 1, grid.x):"], []),
    "counted, with one too many": ([f"for i in range(ceildiv({MANY_TILES} + 1 - block.x, grid.x)):"], []),
    "counted by hand, with one too many": (
        [f"tiles = {MANY_TILES}", "for i in range((tiles - block.x + grid.x) // grid.x):"],
        [],
    ),
}


def shares(filled: str, emptied: str, blocks: str = "132") -> Kernel:
    """The tiles of two dimensions, K blocks in each, as a load, an MMA and a store would walk over them."""

    def share(name: str, body: Lines) -> Lines:
        before, behind = (SHARES | ONE_MORE)[name]
        return [*before, *indented([*body, *behind])]

    roles = {
        "a": share(filled, ["for k in range(ceildiv(n, 64)):", "    {p+}"]),
        "b": share(filled, ["for k in range(ceildiv(n, 64)):", "    {p-}", "{q+}"]),
        "c": share(emptied, ["{q-}"]),
    }
    return Kernel({"p": (3, "a", "b"), "q": (2, "b", "c")}, roles, blocks=blocks)


def counted_shares(start: str = "block.x", where: str = "t % M", blocks: str = "132") -> Kernel:
    """As many K blocks in a tile as memory says; one role counts its tiles, and knows which one it is from that."""
    steps = [f"    for k in range(load(ix[{where}])):"]
    walked = [f"for t in range(block.x, {MANY_TILES}, grid.x):", *steps, "        {p+}"]
    counted = [
        f"for i in range(ceildiv({MANY_TILES} - block.x, grid.x)):",
        f"    t = {start} + i * grid.x",
        *steps,
        "        {p-}",
    ]
    return pair(walked, counted, blocks=blocks)


def last_of_a_tile(condition: str, blocks: str = "4") -> Kernel:
    """One loop over the K blocks of all tiles, which asks of each whether it is the last one of its tile."""
    flat = ["steps = ceildiv(N, 64)", "for i in range(ceildiv(M - block.x, grid.x) * steps):", "    {p-}"]
    flat += [f"    if {condition}:", "        {q+}"]
    roles = {
        "a": [*TILES, "    for k in range(ceildiv(N, 64)):", "        {p+}"],
        "b": flat,
        "c": ["if N > 0:", *indented([*TILES, "    {q-}"])],
    }
    return Kernel({"p": (4, "a", "b"), "q": (2, "b", "c")}, roles, blocks=blocks)


def of_a_decoded_tile(filled: str, emptied: str) -> Kernel:
    """The tiles of M rows and N batches, whose K blocks end with a number made of the row."""
    heads = ["for t in range(block.x, M * N, grid.x):"]
    roles = {
        "a": [*heads, "    row = t % M", f"    for j in range({filled}):", "        {p+}"],
        "b": [*heads, "    row = t % M", f"    for j in range({emptied}):", "        {p-}", "    {q+}"],
        "c": [*heads, "    {q-}"],
    }
    return Kernel({"p": (3, "a", "b"), "q": (2, "b", "c")}, roles, blocks="min(M, 132)")


def ping_pong(first: str, second: str, turn: int = 0) -> Kernel:
    """Two consumers, each with every other tile of a block."""
    blocks = ["    for k in range(ceildiv(N, 64)):"]
    filled = ["it = 0", *TILES, *blocks, f"        if it % 2 == {turn}:", "            {p+}", "        else:", "            {q+}"]
    roles = {"a": [*filled, "    it += 1"]}
    for role, pipe, start in (("b", "p", first), ("c", "q", second)):
        roles[role] = [f"for t in range({start}, M, 2 * grid.x):", *blocks, f"        {{{pipe}-}}"]
    return Kernel({"p": (4, "a", "b"), "q": (4, "a", "c")}, roles, blocks="min(M, 132)")


TILES_IN_MEMORY = "ceildiv(load(ix[0]), 64)"


def as_many_as_memory_says(start: str = "block.x", last: str = TILES_IN_MEMORY) -> Kernel:
    """Tiles whose number is in memory, walked over by hand in one role."""
    by_range = [f"for t in range(block.x, {TILES_IN_MEMORY}, grid.x):"]
    walked = [f"tiles = {last}", f"t = {start}", "while t < tiles:", "    {p-}", "    {q+}", "    t += grid.x"]
    roles = {"a": [*by_range, "    {p+}"], "b": walked, "c": [*by_range, "    {q-}"]}
    return Kernel({"p": (3, "a", "b"), "q": (1, "b", "c")}, roles, blocks="min(M, 132)")


def by_hand(start: str = "block.x", step: str = "grid.x", head: str = TILES[0], blocks: str = "min(M, 132)") -> Kernel:
    """The tiles of a block in a loop whose counter is moved on by hand."""
    return pair([f"t = {start}", "while t < M:", "    {p+}", f"    t += {step}"], [head, "    {p-}"], blocks=blocks)


def in_tiles(body: Lines) -> Kernel:
    """With an output for each tile."""
    outputs = [*TILES, "    with q.produce() as s:", *indented(indented(body))]
    roles = {"a": [*TILES, "    for k in range(N):", "        {p+}"], "b": outputs, "c": [*TILES, "    {q-}"]}
    return Kernel({"p": (3, "a", "b"), "q": (2, "b", "c")}, roles, blocks="4")


def from_end_to_end(start: str = "end") -> Kernel:
    """Chunks of eight blocks of K, each of which begins where the one before it ends."""
    chunks = ["i = 0", "while i < N:", "    end = min(i + 8, N)", "    for k in range(i, end):", "        {p-}", "    {q+}"]
    outputs = ["i = 0", "while i < N:", "    end = min(i + 8, N)", "    {q-}", "    i = end"]
    roles = {"a": ["for k in range(N):", "    {p+}"], "b": [*chunks, f"    i = {start}"], "c": outputs}
    return Kernel({"p": (3, "a", "b"), "q": (2, "b", "c")}, roles)


def parts_of_tiles(parts: int, blocks: str) -> Kernel:
    """A tile is stored in parts, by a role that counts the parts of all its tiles."""
    flat = [f"for i in range({parts} * ceildiv(M - block.x, grid.x)):", "    {e-}"]
    nested = [*TILES, "    with q.consume() as s:", f"        for i in range({parts}):", "            {e+}"]
    roles = {"b": [*TILES, "    {q+}"], "c": nested, "d": flat}
    return Kernel({"q": (2, "b", "c"), "e": (2, "c", "d")}, roles, blocks=blocks)


KERNELS: dict[str, Kernel] = {
    "a block's range of K, and how long it is": pair(
        [*SHARE, "for k in range(block.x * per, min((block.x + 1) * per, steps)):", "    {p+}"],
        [*SHARE, "count = min((block.x + 1) * per, steps) - block.x * per", "for k in range(count):", "    {p-}"],
    ),
    "a block's range of K, and what is left of it": pair(
        [*SHARE, "for k in range(block.x * per, min((block.x + 1) * per, steps)):", "    {p+}"],
        [*SHARE, "for k in range(max(0, min(per, steps - block.x * per))):", "    {p-}"],
    ),
    "blocks of K in chunks, with what is left in the last one": pair(
        ["for k in range(N):", "    {p+}"],
        ["for first in range(0, N, 8):", "    for k in range(min(8, N - first)):", "        {p-}"],
    ),
    "turns dealt out to three roles in each tile": dealt("range(0, N, 3)", "range(1, N, 3)", "range(2, N, 3)"),
    "turns dealt out to two roles in each tile, counted": dealt("range(ceildiv(N, 2))", "range(N // 2)"),
    "two K blocks in each turn": twice_unrolled("0", "1"),
    "two operands, one after the other": one_after_the_other("N"),
    "one loop over the K blocks of all tiles": one_loop("ceildiv(M - block.x, 4)"),
    "all K blocks of as many tiles as a block has": pair(
        ["for i in range(ceildiv(M - block.x, grid.x) * ceildiv(N, 64)):", "    {p+}"],
        ["for t in range(block.x, M, grid.x):", "    for k in range(ceildiv(N, 64)):", "        {p-}"],
        blocks="min(M, 132)",
    ),
    "groups of four tiles, the last one with what is left": pair(
        ["for g in range(ceildiv(M, 4)):", "    for i in range(min(4, M - g * 4)):", "        {p+}"],
        ["for t in range(M):", "    {p-}"],
    ),
    "scales for four blocks of K, in the same loop": Kernel(
        {"p": (2, "a", "b"), "q": (3, "a", "b")},
        {
            "a": ["for k in range(N):", "    {p+}", "    if k % 4 == 0:", "        {q+}"],
            "b": ["for g in range(ceildiv(N, 4)):", "    {q-}", "    for k in range(min(4, N - 4 * g)):", "        {p-}"],
        },
    ),
    "chunks that end with K": pair(
        ["for k in range(N):", "    {p+}"],
        ["for c in range(ceildiv(N, 8)):", "    for k in range(c * 8, min(c * 8 + 8, N)):", "        {p-}"],
    ),
    "chunks, each of which begins where the one before it ends": from_end_to_end(),
    "scales for four blocks of K, in each tile": Kernel(
        {"p": (4, "a", "c"), "q": (2, "b", "c")},
        {
            "a": [*TILES, "    for k in range(N):", "        {p+}"],
            "b": [*TILES, "    for k in range(0, N, 4):", "        {q+}"],
            "c": [
                *TILES,
                "    for first in range(0, N, 4):",
                "        with q.consume() as s:",
                "            for k in range(first, min(first + 4, N)):",
                "                {p-}",
            ],
        },
        blocks="4",
    ),
    "one less than a number in memory, where that is positive": Kernel(
        {"p": (2, "a", "b"), "q": (2, "b", "c")},
        {
            "a": ["for j in range(load(ix[block.x])):", "    {p+}"],
            "b": [
                "n1 = load(ix[block.x])",
                "if n1 > 0:",
                "    {p-}",
                "    for j in range(n1 - 1):",
                "        {q+}",
                "        {p-}",
                "    {q+}",
            ],
            "c": ["for j in range(load(ix[block.x])):", "    {q-}"],
        },
        blocks="4",
    ),
    **{
        f"keys up to a length in memory and no more than there are, {one} and {other}": pair(
            ["n1 = min(load(ix[block.x]), M)", KEYS[one], "    {p+}"], ["n1 = min(M, load(ix[block.x]))", KEYS[other], "    {p-}"]
        )
        for one, other in (("by steps", "by steps"), ("by steps", "rounded up"), ("rounded up by hand", "by steps"))
    },
    "keys of each tile up to a length in memory": pair(
        ["for t in range(block.x, M, 4):", "    n1 = min(load(ix[t]), N)", f"    {KEYS['by steps']}", "        {p+}"],
        ["for t in range(block.x, M, 4):", "    for j in range(ceildiv(min(load(ix[t]), N), 64)):", "        {p-}"],
        blocks="4",
    ),
    # The rows of a group, whose offsets are in memory.
    **{
        f"rows from one number in memory to another, {how}": pair(
            [f"for r in range({first}, {last}, 128):", "    {p+}"],
            [f"first = {first}", f"last = {last}", "for r in range(first, last, 128):", "    {p-}"],
        )
        for how, first, last in (
            ("from 0 on", "max(0, load(ix[block.x]))", "min(load(ix[block.x + 1]), M)"),
            ("bounded on both sides", "min(max(load(ix[block.x]), 0), M)", "min(load(ix[block.x + 1]), M)"),
            ("up to a size", "max(0, load(ix[block.x]))", "M"),
        )
    },
    # As a compiler writes `t // (M * N)` and `L * M * N` beside each other: `L * (M * N)`.
    "tiles of three extents, multiplied in another order": pair(
        ["for t in range(block.x, (M * N) * M, grid.x):", "    {p+}"],
        ["for t in range(block.x, (M * M) * N, grid.x):", "    {p-}"],
    ),
    **{
        f"the next block of K begins a tile, of {blocks} blocks": last_of_a_tile("(i + 1) % steps == 0", blocks)
        for blocks in ("4", "min(M, 132)")
    },
    "K blocks up to the row that a tile is decoded to, downwards": of_a_decoded_tile("row + 1", "row, -1, -1"),
    "K blocks up to twice the row that a tile is decoded to": of_a_decoded_tile("min(M, 2 * row + 2)", "min(2 * (t % M) + 2, M)"),
    "as many tiles as memory says": as_many_as_memory_says(),
    "every other tile of a block": ping_pong("block.x", "block.x + grid.x"),
    **{
        f"the last block of K in a tile, of {blocks} blocks": last_of_a_tile("i % steps == steps - 1", blocks)
        for blocks in ("4", "8")
    },
    **{
        f"a counter moved on by hand, of {blocks} blocks": by_hand(blocks=blocks)
        for blocks in ("8", "min(M, 132)", "ceildiv(M, 2)")
    },
    "a counter moved on by hand, in all roles but one": Kernel(
        {"p": (3, "a", "b"), "q": (2, "b", "c")},
        {
            "a": ["t = block.x", "while t < M:", "    {p+}", "    t += grid.x"],
            "b": [TILES[0], "    {p-}", "    {q+}"],
            "c": ["t = block.x", "while t < M:", "    {q-}", "    t += grid.x"],
        },
        blocks="min(M, 132)",
    ),
    "two blocks of K in turn, counted by hand": by_hand(
        "2 * block.x", "2 * grid.x", "for t in range(2 * block.x, M, 2 * grid.x):"
    ),
    # Groups whose offsets are in memory; no sum of these is made.
    "rows of each group, one after the other": pair(
        [TILES[0], "    for r in range(load(ix[t]), load(ix[t + 1])):", "        {p+}"],
        [TILES[0], "    for r in range(load(ix[t]), load(ix[t + 1])):", "        {p-}"],
        blocks="4",
    ),
    **{f"the rest of a tile, {how}": in_tiles(body) for how, body in HALVES.items()},
    **{f"tiles of two dimensions, {one} and {other}": shares(one, other) for one, other in combinations(SHARES, 2)},
    "tiles of as many K blocks as memory says, counted": counted_shares(),
    "tiles of two dimensions, of as many blocks as there may be": shares("counted", "while", "min(M, 132)"),
    **{
        f"{parts} parts of tiles of {blocks} blocks against all parts": parts_of_tiles(parts, blocks)
        for parts, blocks in ((3, "8"), (4, "4"), (4, "8"))
    },
}


# Each differs from one of those above in one number.
WRONG = {
    "chunks, each of which begins behind the end of the one before it": from_end_to_end("end + 1"),
    "tiles of as many K blocks as memory says, counted from the next one": counted_shares("block.x + 1"),
    **{f"tiles of two dimensions, {one} and {other}": shares(one, other) for one in ("range", "counted") for other in ONE_MORE},
    "turns of three roles": dealt("range(0, N, 3)", "range(1, N, 3)", "range(1, N, 3)"),
    "turns of two roles": dealt("range(N // 2)", "range(N // 2)"),
    "two K blocks in each turn, from the second on": twice_unrolled("1", "1"),
    "two K blocks in each turn, and one more where none is left": twice_unrolled("0", "0"),
    "one loop over the K blocks of all tiles and one more": one_loop("(ceildiv(M - block.x, 4) + 1)"),
    "one loop over the K blocks of all tiles, set back too far": one_loop("ceildiv(M - block.x, 4)", "1"),
    "one operand twice": one_after_the_other("M"),
    "the last but one block of K in a tile": last_of_a_tile("i % steps == steps - 2"),
    "the next but one block of K begins a tile": last_of_a_tile("(i + 2) % steps == 0"),
    "K blocks up to the row that a tile is decoded to, and one less": of_a_decoded_tile("row + 1", "row"),
    "K blocks up to another row": of_a_decoded_tile("row + 1", "t // M + 1"),
    "as many tiles as memory says, from the next one on": as_many_as_memory_says("block.x + 1"),
    "as many tiles as memory says, but one": as_many_as_memory_says(last=f"{TILES_IN_MEMORY} - 1"),
    "the same tiles for both consumers": ping_pong("block.x", "block.x"),
    "every other tile of a block, the other way round": ping_pong("block.x", "block.x + grid.x", 1),
    "each block of K but the last in a tile": last_of_a_tile("i % steps != steps - 1"),
    "the last block of K in a tile of one more": last_of_a_tile("i % (steps + 1) == steps"),
    "a counter moved on by hand, by one block more": by_hand(step="(grid.x + 1)"),
    "a counter moved on by hand, from the next one on": by_hand("block.x + 1"),
}


@pytest.mark.parametrize("name", WRONG)
def test_its_neighbour_is_not(name: str) -> None:
    text = source(WRONG[name], Draw(name))
    assert compile_source(Source("wrong.pipe", text), Options("sm_100a")).failed, text


@pytest.mark.parametrize("name", KERNELS)
def test_it_is_proved(name: str) -> None:
    text = source(KERNELS[name], Draw(name))
    state = compile_source(Source("right.pipe", text), Options("sm_100a"))
    assert not state.failed, f"{text}\n{state.diagnostics}"


def test_roles_that_count_alike_ask_nothing_of_a_launch() -> None:
    """A condition on the number of tiles is for roles that say it in different words."""
    for emptied, asked in (("counted", False), ("while", True)):
        state = compile_source(Source("k.pipe", source(shares("counted", emptied), Draw(emptied))), Options("sm_100a"))
        assert state.ptx is not None and ('"conditions"' in state.ptx) is asked
