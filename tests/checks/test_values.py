"""What the checks know of values: the first `accumulate` after an acquire, and coordinates that are multiples of 16 bytes."""

import pytest
from diagnose import diagnose

GEMM = """\
kernel gemm(a: tensor[bf16, M, K], b: tensor[bf16, N, K], d: tensor[f32, M, N], n: i32):
    grid(ceildiv(M, 128), ceildiv(N, 64))
    input  = InputTilePipeline(StandardTilePayload(a=tile[bf16, 128, 64], b=tile[bf16, 64, 64]), stages=4)
    output = OutputTilePipeline(tmem[f32, 128, 64], stages=1)
    role load(warps=1) produces input:
        for k in range(ceildiv(K, 64)):
            with input.produce() as s:
                tma.load(s.a, a[block.x * 128, k * 64])
                tma.load(s.b, b[block.y * 64, k * 64])
    role mma(warps=1) consumes input produces output:
        with output.produce() as acc:
{body}
    role epilogue(warps=4) consumes output:
        with output.consume() as acc:
            store(d[block.x * 128, block.y * 64], acc)
"""


def codes(text: str) -> list[str]:
    """Of everything but the protocol checks, which look at trip counts."""
    found = [diagnostic.code for diagnostic in diagnose("kernel.pipe", text)]
    return [code for code in found if not code.startswith("E06")]


def gemm(*body: str) -> list[str]:
    return codes(GEMM.replace("{body}", "\n".join(" " * 12 + line for line in body)))


LOOP = ("for k in range(ceildiv(K, 64)):", "    with input.consume() as s:")


HOLD = ("with input.consume() as s:", "    mma(acc, s.a, s.b)")


def behind(bounds: str) -> tuple[str, ...]:
    """An MMA behind a loop with one."""
    return (f"for h in {bounds}:", *(f"    {line}" for line in HOLD), *LOOP, "        mma(acc, s.a, s.b, accumulate=True)")


def apart(condition: str, one: str, other: str) -> tuple[str, ...]:
    """An MMA of its own where the condition holds."""
    return (
        *LOOP,
        f"        if {condition}:",
        f"            mma(acc, s.a, s.b, accumulate={one})",
        "        else:",
        f"            mma(acc, s.a, s.b, accumulate={other})",
    )


def under(condition: str, accumulate: str) -> tuple[str, ...]:
    """Two loops, in which the MMA runs under a condition."""
    head, inner, hold, mma = nested("n", accumulate)
    return (head, inner, hold, f"            if {condition}:", f"    {mma}")


def nested(bounds: str, accumulate: str) -> tuple[str, ...]:
    inner = (
        f"for k in range({bounds}):",
        "    with input.consume() as s:",
        f"        mma(acc, s.a, s.b, accumulate={accumulate})",
    )
    return ("for h in range(n):", *(f"    {line}" for line in inner))


@pytest.mark.parametrize(
    "body",
    [
        (*LOOP, "        mma(acc, s.a, s.b, accumulate=k > 0)"),
        (*LOOP, "        mma(acc, s.a, s.b, accumulate=not (k == 0) and n > 3)"),
        (*LOOP, "        mma(acc, s.a, s.b, accumulate=k > 0)", "        mma(acc, s.a, s.b, accumulate=True)"),
        ("for k in range(n, n + 4):", "    with input.consume() as s:", "        mma(acc, s.a, s.b, accumulate=k - n != 0)"),
        ("more: bool = False", *LOOP, "        mma(acc, s.a, s.b, accumulate=more)", "        more = True"),
        ("k = 0", "while k < n:", "    with input.consume() as s:", "        mma(acc, s.a, s.b, accumulate=k > 0)", "    k += 1"),
        (
            *LOOP,
            "        if k > n:",
            "            mma(acc, s.a, s.b)",
            "        else:",
            "            mma(acc, s.a, s.b, accumulate=k > 0)",
        ),
        # If the inner loop runs at all, it runs in the first turn of the outer one.
        nested("n", "h > 0 or k > 0"),
        nested("n", "h + k > 0"),
        nested("block.x, ceildiv(K, 64)", "h > 0 or k > block.x"),
        behind("range(1)"),
        behind("range(block.x, block.x + 2)"),
        # The first turn goes the other way.
        apart("k == 0", "False", "True"),
        apart("k > 0", "True", "False"),
        apart("k < 1", "False", "k > 0"),
        # Where the condition holds, it held in the first turn.
        under("n > 1", "h > 0 or k > 0"),
        under("n > 1 and block.x < 7", "h > 0 or k > 0"),
    ],
)
def test_the_first_mma_is_seen_to_overwrite(body: tuple[str, ...]) -> None:
    assert gemm(*body) == []


@pytest.mark.parametrize(
    ("body", "code"),
    [
        ((*LOOP, "        mma(acc, s.a, s.b, accumulate=k >= 0)"), "E0802"),
        ((*LOOP, "        mma(acc, s.a, s.b, accumulate=True)", "        mma(acc, s.a, s.b, accumulate=k > 0)"), "E0802"),
        ((*LOOP, "        mma(acc, s.a, s.b, accumulate=n > 0)"), "E0803"),
        (("m = n", *LOOP, "        mma(acc, s.a, s.b, accumulate=m + 1 < n)"), "E0803"),  # the largest n and 1 wrap around
        (("j = 0", "for i in range(n):", "    j += 1", *LOOP, "        mma(acc, s.a, s.b, accumulate=j > 0)"), "E0803"),
        ((*LOOP, "        if k > n:", "            mma(acc, s.a, s.b, accumulate=k > 0)"), "E0803"),
        (
            ("for k in range(n, n + 4):", "    with input.consume() as s:", "        mma(acc, s.a, s.b, accumulate=k > 0)"),
            "E0803",
        ),
        (nested("h", "h > 0 or k > 0"), "E0803"),  # it does not run in the first turn
        (nested("max(0, h - 2)", "h > 0 or k > 0"), "E0803"),
        (("i = 0", *nested("i", "h > 0"), "    i += 1"), "E0803"),
        (nested("n", "h + k >= 0"), "E0802"),
        (behind("range(n)"), "E0802"),
        (behind("range(n, n + 2)"), "E0802"),  # n + 2 may wrap around, and the loop not run
        (apart("k == 1", "False", "True"), "E0802"),
        (apart("k == n", "False", "True"), "E0802"),
        (apart("k > 0", "False", "True"), "E0802"),
        (under("h > 1", "h > 0 or k > 0"), "E0803"),
        (under("k > 0", "h > 0 or k > 0"), "E0803"),
        (under("n > h", "h > 0 or k > 0"), "E0803"),
    ],
)
def test_the_first_mma_may_add(body: tuple[str, ...], code: str) -> None:
    assert [found for found in gemm(*body) if found != "E0804"] == [code]  # a first MMA behind another one loses its products


COPY = """\
kernel scale(x: tensor[f32, M, N], y: tensor[f32, M, N], q: i32):
    grid(ceildiv(M, 128))
    ring = InputTilePipeline(TilePayload(x=tile[f32, 128, 32]), stages=2)
    role load(warps=1) produces ring:
        for k in range(ceildiv(N, 32)):
            with ring.produce() as s:
                tma.load(s.x, x[block.x * 128, k * 32])
    role compute(warps=4) consumes ring:
        j = 0
        for k in range(ceildiv(N, 32)):
            with ring.consume() as s:
                store(y[block.x * 128, {coordinate}], s.x)
            j += 32
"""


@pytest.mark.parametrize(
    "coordinate",
    [
        "k * 32",
        "k * 20 + 4",
        "j",
        "k * 32 + q",
        "k * 32 % N",
        "j if k > 0 else 8",
        "N - 4 * k",
        "min(j, N)",
        "k * 64 // 2",
        "k << 5",
        "N // 3",
    ],
)
def test_coordinates_that_fit(coordinate: str) -> None:
    assert codes(COPY.format(coordinate=coordinate)) == []


@pytest.mark.parametrize(
    "coordinate",
    ["k", "k * 30", "j + 1", "k * 32 + q + 2", "block.x", "j if k > 0 else 2", "k * 32 // 3", "ceildiv(k, 2)", "min(k * 32, 5)"],
)
def test_coordinates_that_do_not(coordinate: str) -> None:
    assert codes(COPY.format(coordinate=coordinate)) == ["E0724"]


@pytest.mark.parametrize(
    ("bounds", "coordinate", "fits"),
    [
        ("0, N, 32", "k", True),
        ("block.x * 32, N, 4", "k", True),
        ("0, N, 12", "k", True),
        ("N - 4, -1, -32", "k", True),
        ("0, N, 30", "k", False),
        ("1, N, 32", "k", False),
        ("0, N, 24", "k // 3", False),  # of multiples of 24, those of 8 are left where the counter wraps
    ],
)
def test_coordinates_that_are_counters(bounds: str, coordinate: str, fits: bool) -> None:
    """A counter that is moved on to the end of a size may wrap, for all that is known here; what powers of two divide stays."""
    text = COPY.format(coordinate=coordinate).replace("range(ceildiv(N, 32))", f"range({bounds})", 2)
    text = text.replace("tma.load(s.x, x[block.x * 128, k * 32])", "tma.load(s.x, x[block.x * 128, 0])")
    assert codes(text) == ([] if fits else ["E0724"])


@pytest.mark.parametrize(
    ("condition", "coordinate", "fits"),
    [
        ("k % 4 == 0", "k", True),
        ("k & 3 == 0", "k", True),
        ("not k % 8 != 4", "k", True),
        ("k // 4 * 4 == k", "k", True),
        ("k == 4 * (q // 3)", "k", True),
        ("k % 12 == 0 and q > 1", "k", True),
        ("q > 1 and (k + 1) % 4 == 0", "k + 1", True),
        ("k % 4 == 1", "k - 1", True),
        ("k % 2 == 0", "2 * k + 8", True),
        ("k % 2 == 1", "2 * k + 2", True),
        ("k % 4 == 0", "k + q", True),
        ("k % 4 == 0", "8 * q - k", True),
        ("k % 4 == 1", "k", False),
        ("k % 2 == 0", "k", False),
        ("k % 3 == 0", "k", False),
        ("k % 4 != 0", "k", False),
        ("not k % 4 == 0", "k", False),
        ("k % 4 == 0 or q > 1", "k", False),
        ("k % 4 == 0", "k + 2", False),
        ("k % 4 == 0", "k + j // 16", False),
        ("(k + j) % 4 == 0", "k + 1", False),
        ("k % 2 == 1", "2 * k", False),
        ("j % 4 == 0", "k", False),
        ("k == 2 * (j // 32)", "k", False),
    ],
)
def test_coordinates_under_a_condition(condition: str, coordinate: str, fits: bool) -> None:
    text = COPY.format(coordinate=coordinate).replace("store(y", f"if {condition}:\n                    store(y")
    assert codes(text) == ([] if fits else ["E0724"])
    behind = text.replace(f"if {condition}:", f"if {condition}:\n                    pass").replace(
        " " * 20 + "store", " " * 16 + "store"
    )
    assert codes(COPY.format(coordinate=coordinate)) == codes(behind) == ["E0724"], "behind the branch nothing is known"


def test_coordinates_of_the_other_branch() -> None:
    text = COPY.format(coordinate="k").replace(
        "store(y[block.x * 128, k], s.x)",
        "if k % 4 != 0:\n                    j += 0\n                else:\n                    store(y[block.x * 128, k], s.x)",
    )
    assert codes(text) == [] and codes(text.replace("k % 4 != 0", "k % 4 == 0")) == ["E0724"]


def test_a_variable_that_is_assigned_in_a_branch_is_another_number() -> None:
    text = (
        COPY.format(coordinate="j")
        .replace("j += 32", "j += 1")
        .replace("store(y", "if j % 4 == 0:\n                    BEFORE\n                    store(y")
    )
    assert codes(text.replace("BEFORE", "q2 = 1")) == []
    assert codes(text.replace("BEFORE", "j += 1")) == ["E0724"]
    loop = "for r in range(2):\n                        j += 1\n                    store(y"
    assert codes(text.replace("BEFORE\n                    store(y", loop)) == ["E0724"]


def test_a_ring_may_be_drained_at_any_time() -> None:
    text = COPY.format(coordinate="k * 32").replace(
        "    role compute",
        "            if k % 2 == 1:\n                ring.drain_producer()\n        ring.drain_producer()\n    role compute",
    )
    assert codes(text) == []


CHAIN = """\
kernel chain(t: tensor[i32, M], x: tensor[f32, 64, N], y: tensor[f32, 64, N], q: i32):
    grid(1)
    role compute(warps=1):
        at = {first}
{steps}
        store(y[0, 0], load(x[at, 0], 32, 32))
"""


def chain(first: str, step: str, times: int) -> list[str]:
    return codes(CHAIN.format(first=first, steps="\n".join([f"        at = {step}"] * times)))


@pytest.mark.parametrize("step", ["(at * 3 + 1) ^ at", "load(t[at])", "at + load(t[at % 7]) * lane_id() * 0", "at * at + M"])
def test_long_chains_that_agree_in_all_threads(step: str) -> None:
    assert chain("q", step, 60) == []


@pytest.mark.parametrize("step", ["(at * 3 + 1) ^ at", "load(t[at])", "at + M * M"])
def test_long_chains_that_differ_between_threads(step: str) -> None:
    assert chain("lane_id()", step, 60) == ["E0420"]
