"""Deadlocks that come late in any order of sizes, as in the fifth block, or with certain numbers in memory, are found by random draws."""

import random
import re

import pytest
from protocol.test_bounded_offsets import KERNEL as BOUNDED
from protocol.test_bounded_offsets import TILES
from protocol.test_guards_by_tile import DEALT, WRONG_SHARES
from protocol.test_refute import judged, told

from pipec.driver import Options, compile_source
from pipec.protocol.effort import steps_so_far
from pipec.protocol.forms.sample import Numbers
from pipec.protocol.refuting.drawn import drawn_sizes, lessened
from pipec.protocol.refuting.launches import Launches, LaunchesOf
from pipec.source import Source
from pipec.verify.network import Network
from pipec.verify.reader.read import Reading
from pipec.verify.terms import Symbol

# What the roles of a search for a proof would take that comes to nothing is ten times as much.
MOST = 150_000


def stuck(text: str) -> tuple[str, int]:
    """What is said of a kernel that is not proved for what memory may hold, and the steps that it took."""
    begun = steps_so_far()
    (found,) = compile_source(Source("k.pipe", text), Options("sm_90a")).diagnostics
    return f"{found.code} {next(label.text for label in found.labels if label.primary)}", steps_so_far() - begun


@pytest.mark.parametrize(("first", "begun", "more"), WRONG_SHARES)
def test_tiles_that_another_block_takes(first: str, begun: str, more: str) -> None:
    said, steps = stuck(DEALT.format(first=first, begun=begun, more=more))
    assert said.startswith("E0604") and "if memory can hold that" in said and "begins[0]" in said
    assert steps < MOST


@pytest.mark.parametrize("wrong", ["ceildiv(hi - lo, 64)", "(hi - lo) // 128", "ceildiv(hi, 128)", "ceildiv(hi - lo + 1, 128)"])
def test_numbers_at_a_place_that_only_the_block_says(wrong: str) -> None:
    """At the numbers that are named, it does differ."""
    said, steps = stuck(BOUNDED.replace("LOADED", TILES).replace("COMPUTED", wrong))
    assert said.startswith("E0604") and "if memory can hold that" in said and steps < MOST
    values = {
        name: int(number)
        for name, number in re.findall(r"([\w.]+|offs\[\d\]) = (-?\d+)", said.replace("[", ".").replace("]", ""))
    }
    block = values.get("block.x", 0)
    low, high = (min(max(values.get(f"offs.{block + more}", 0), 0), values["M"]) for more in (0, 1))
    meaning = {"lo": low, "hi": high, "ceildiv": lambda one, other: -(-one // other)}
    assert max(0, eval(TILES, meaning)) != max(0, eval(wrong, meaning))


def _late(draw: random.Random) -> tuple[str, str, dict[str, int]]:
    """A loop, and another one with one more turn from a block and sizes on."""
    least = {"block.x": draw.randrange(1, 6), "M": 64 * draw.randrange(1, 5) + 1, "n": draw.randrange(1, 9)}
    condition = " and ".join(f"{name} >= {value}" for name, value in least.items())
    bound = draw.choice(("ceildiv(M, 64)", "ceildiv(M, 64) + block.x", "ceildiv(M, 64) * 2"))
    return bound, f"{bound} + (1 if {condition} else 0)", least


@pytest.mark.parametrize("seed", range(12))
def test_one_turn_more_in_late_blocks_is_found_and_the_sizes_are_the_least(seed: int) -> None:
    bound, other, least = _late(random.Random(f"late/{seed}"))
    ((code, title),) = told(judged(f"for i in range({bound}):\n    FILL", f"for i in range({other}):\n    TAKE", "grid(9)"))
    sizes = {name: int(value) for name, value in re.findall(r"([\w.]+) = (\d+)", title)}
    assert code == "E0601" and all(sizes[name] >= value for name, value in least.items())
    assert sizes["block.x"] <= 8 and sizes["M"] <= least["M"] + 64 and sizes["n"] <= 2 * least["n"]


@pytest.mark.parametrize("seed", range(6))
def test_what_never_differs_is_not_refused(seed: int) -> None:
    bound, _, least = _late(random.Random(f"never/{seed}"))
    other = f"{bound} + (1 if M < {least['M']} and M > {least['M'] + 4} else 0)"
    assert "E0601" not in [
        code for code, _ in told(judged(f"for i in range({bound}):\n    FILL", f"for i in range({other}):\n    TAKE", "grid(9)"))
    ]


def test_names_have_no_part_in_it() -> None:
    first, begun, more = WRONG_SHARES[1]
    text = DEALT.format(first=first, begun=begun, more=more)
    said, _ = stuck(text)
    other, _ = stuck(re.sub(r"\bbegins\b", "a_begins", re.sub(r"\bM\b", "ZZ", re.sub(r"\bN\b", "AA", text))))
    old = re.sub(r"\ba_begins\b", "begins", re.sub(r"\bZZ\b", "M", re.sub(r"\bAA\b", "N", other)))
    assert sorted(re.split(r" when |, ", old)) == sorted(re.split(r" when |, ", said))


def test_sizes_are_lessened_within_what_a_launch_can_have() -> None:
    m, n = Symbol("m"), Symbol("n")
    network = Network("k", (), (), ())
    tried: list[dict[Symbol, int]] = []

    def still(sizes: dict[Symbol, int]) -> bool:
        tried.append(sizes)
        return sizes[m] * sizes[n] >= 12

    class Some(Launches):
        def __call__(self, numbers: Numbers) -> bool:
            return numbers[n] >= 3

    found = lessened({m: 40, n: 30}, network, Some(), still)
    assert found[m] * found[n] >= 12 and found[n] >= 3 and found[m] * found[n] < 40
    assert all(sizes[n] >= 3 for sizes in tried) and len(tried) <= 100


def test_what_is_drawn_can_be_launched() -> None:
    """Grids are as large as sizes make them, and blocks are in them; each launch has these sizes."""
    text = "kernel k(x: tensor[f32, M, N]):\n    grid(M, min(N, 5))\n" + "".join(DEALT.splitlines(keepends=True)[3:])
    text = text.replace(", begins: tensor[i32, E]", "").replace("load(begins[g + 1]) - load(begins[g])", "g + block.y")
    state = compile_source(Source("k.pipe", text.format(first="block.x", begun="block.x", more="1")), Options("sm_90a"))
    assert state.plans is not None and state.ptx is not None
    interface = state.plans[0].interface
    drawn = [*drawn_sizes(Reading(state.ptx, "k").network, LaunchesOf(interface))]
    assert len(drawn) > 200
    seen = {(sizes[Symbol("%nctaid.x")], sizes[Symbol("%ctaid.x")]) for sizes in drawn}
    assert all(place < extent for extent, place in seen) and len(seen) > 20
    assert all(sizes[Symbol("%nctaid.x")] == sizes[Symbol("k_dim_M")] for sizes in drawn)
