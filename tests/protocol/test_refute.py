"""Sizes at which roles wait for ever are found whatever the roles ask, and only where some launch gets there."""

import random

import numpy as np
import pytest

from pipec.driver import Compilation, Options, compile_source
from pipec.protocol.forms.ranges import ANYTHING, TILES, Ranges, certain, range_of
from pipec.protocol.judge import judge
from pipec.protocol.refuting.refute import refute, tried
from pipec.record import replace
from pipec.runtime import LaunchOptions, launch
from pipec.sim import Options as Simulation
from pipec.source import Source
from pipec.verify.reader.readings import readings_of
from pipec.verify.terms import Apply, Choose, Compare, Floor, Linear, Symbol, add, atom, choose, floor, symbols_in

RING = """kernel k(x: tensor[f32, M, 32], y: tensor[f32, M, 32], ix: tensor[i32, 4], n: i32):
    {grid}
    ring = InputTilePipeline(TilePayload(x=tile[f32, 64, 32]), stages=2{scope})
    role load(warps=1) produces ring:
{produced}
    role work(warps=2) consumes ring:
{consumed}
"""
FILL = "with ring.produce() as s:\n    write(s.x, fill(1.0, f32, 64, 32))"
TAKE = "with ring.consume() as s:\n    store.direct(y[block.x * 64, 0], s.x)"


def judged(produced: str, consumed: str, grid: str = "grid(1)", scope: str = "") -> Compilation:
    """FILL and TAKE in a body stand for a stage filled and taken."""
    bodies = []
    for body in (produced, consumed):
        lines = []
        for line in body.split("\n"):
            indent = " " * (8 + len(line) - len(line.lstrip()))
            stage = {"FILL": FILL, "TAKE": TAKE}.get(line.strip(), line.strip())
            lines += [indent + one for one in stage.split("\n")]
        bodies.append("\n".join(lines))
    text = RING.format(grid=grid, scope=f', scope="{scope}"' if scope else "", produced=bodies[0], consumed=bodies[1])
    return compile_source(Source("k.pipe", text), Options())


def told(state: Compilation) -> list[tuple[str, str]]:
    return [(one.code, one.title) for one in state.diagnostics]


TILED = 'tiles = TileScheduler(ceildiv(M, 64), mode="clc")'


@pytest.mark.parametrize(
    ("consumed", "expected"),
    [
        ("for tile in tiles:\n    TAKE\nTAKE", ("E0601", "role `work` waits for ever when tiles per block = 1")),
        (
            "TAKE",
            ("E0602", "`ring` is filled 2 times, but consumed once by role `work` when tiles per block = 2"),
        ),
    ],
)
def test_blocks_that_the_hardware_hands_out_are_counted(consumed: str, expected: tuple[str, str]) -> None:
    assert told(judged("for tile in tiles:\n    FILL", consumed, TILED)) == [expected]


def test_what_the_scheduler_hands_out_is_not_guessed() -> None:
    """Which tile comes next depends on the other blocks: a branch on it refutes nothing."""
    later = "i = 0\nfor tile in tiles:\n    if i > 0 and tile.x > {}:\n        {}\n    i += 1"
    found = told(judged(later.format(3, "FILL"), later.format(4, "TAKE"), TILED))
    assert [code for code, _ in found] == ["E0604"]


def test_ctas_that_do_the_same_hang_alike() -> None:
    found = told(
        judged("FILL\nfor i in range(n):\n    FILL", "for i in range(n + 2):\n    TAKE", "cluster(2)\n    grid(2)", "cluster")
    )
    assert found == [("E0601", "role `work` waits for ever when n = 0")]


@pytest.mark.parametrize(("taken", "found"), [(1024, []), (1023, ["E0602"]), (1056, ["E0601"])])
def test_a_size_that_is_stated_is_tried(taken: int, found: list[str]) -> None:
    """What waits for ever does so at no other size."""
    produced = "for i in range(n * M):\n    FILL"
    state = judged(produced, f"for i in range(n):\n    for j in range({taken}):\n        TAKE", "grid(1)\n    assume(M == 1024)")
    assert [one.code for one in state.diagnostics] == found


def test_a_grid_of_no_blocks_is_not_launched() -> None:
    """There is nothing to take when M = 0, but then there is no block that would wait for it."""
    state = judged("if M > 0:\n    FILL", "TAKE", "grid(ceildiv(M, 64))")
    assert [code for code, _ in told(state)] in ([], ["E0604"])
    assert told(judged("if M > 64:\n    FILL", "TAKE", "grid(ceildiv(M, 64))"))[0][0] == "E0601"


def test_a_block_beyond_the_grid_is_none() -> None:
    wrong = "if block.x < ceildiv(M, 64):\n    FILL"
    assert [code for code, _ in told(judged(wrong, "TAKE", "grid(ceildiv(M, 64))"))] in ([], ["E0604"])
    found = told(judged(wrong, "TAKE", "grid(ceildiv(M, 64) + 1)"))
    assert found == [("E0601", "role `work` waits for ever when M = 0, block.x = 0")]


def test_what_memory_holds_is_not_guessed() -> None:
    fill = "for i in range(load(ix[0])):\n    FILL"
    take = "for i in range(load(ix[0]) + load(ix[1])):\n    TAKE"
    assert [code for code, _ in told(judged(fill, take))] == ["E0604"]


def test_what_does_not_depend_on_memory_is_found_beside_it() -> None:
    """A value that is loaded on the way, and that decides nothing that pipelines wait for."""
    fill = "least = load(ix[0])\nfor i in range(n):\n    FILL\n    least = min(least, load(ix[1]))"
    assert told(judged(fill, "for i in range(n + 1):\n    TAKE"))[0][0] == "E0601"


# ------------------------------------------------------------------------------------------------------------------ ranges

N = Symbol("n")
LOADED = atom(Apply("ld.global.u32", (Linear(0),)))


def at_least(form: Linear) -> Compare:
    return Compare("ge", form)


@pytest.mark.parametrize(
    ("form", "expected"),
    [
        (Linear(3, ((N, -2),)), (-3, 1)),
        (atom(Floor(Linear(0, ((N, 5),)), 4)), (1, 3)),
        (LOADED, (0, 2**32 - 1)),
        (atom(Choose(at_least(Linear(-4, ((N, 1),))), Linear(7), Linear(9))), (9, 9)),
        (atom(Choose(at_least(Linear(-2, ((N, 1),))), Linear(7), Linear(9))), (7, 9)),
        (atom(Apply("mul.lo.s32", (Linear(2**16), Linear(2**15)))), (-(2**31), -(2**31))),
        (atom(Apply("mul.hi.s32", (Linear(-(2**20)), Linear(2**13)))), (-2, -2)),
        (atom(Apply("xor.u32.s32", (Linear(-4), Linear(5)))), (-7, -7)),
        (atom(Apply("div.s32", (Linear(6), Linear(0)))), (-(2**31), 2**31 - 1)),
        (atom(Apply("s32", (atom(N),))), (1, 3)),
        (atom(Apply("shuffled", (atom(N),))), ANYTHING),
    ],
)
def test_ranges(form: Linear, expected: tuple[int, int]) -> None:
    assert range_of(form, Ranges({N: (1, 3)})) == expected


def test_a_value_less_itself_is_nothing() -> None:
    assert range_of(add(LOADED, LOADED, -1), Ranges()) == (0, 0)


@pytest.mark.parametrize(("constant", "expected"), [(0, True), (-1, True), (-2, None), (-4, False)])
def test_conditions_come_out_as_the_whole_range_does(constant: int, expected: bool | None) -> None:
    form = Linear(constant, ((N, 1),))
    assert certain(at_least(form), Ranges({N: (1, 3)})) is expected


def test_answers_say_as_many_blocks_as_there_are() -> None:
    answers = [atom(Apply("is_canceled", (atom(Apply("answer 2", (Linear(number),))),))) for number in range(3)]
    assert [range_of(one, Ranges({TILES: (2, 2)}))[0] for one in answers] == [1, 0, 0]
    assert range_of(answers[0], Ranges()) == (0, 1)


def test_a_bit_that_only_the_largest_sizes_have() -> None:
    source = """kernel k(y: tensor[f32, M]):
    grid(1)
    p = ProducerConsumerPipeline(stages=2)
    role a(warps=1) produces p:
        p.producer_signal_and_step()
    role b(warps=1) consumes p:
        p.consumer_signal_and_step()
        if M & 1073741824 != 0:
            p.consumer_signal_and_step()
"""
    (told,) = compile_source(Source("bit.pipe", source), Options("sm_100a")).diagnostics
    assert told.code == "E0601" and "M = 1073741824" in told.title


# ---------------------------------------------------------------------------------------- what the machine counts otherwise

AHEAD = """kernel k(y: tensor[f32, 8, 32], z: tensor[f32, 8, 32], n: i32):
    grid(1)
    ring = InputTilePipeline(TilePayload(x=tile[f32, 8, 32]), stages=1)
    role load(warps=1) produces ring:
        for i in range(n):
            with ring.produce() as s:
                write(s.x, fill(1.0, f32, 8, 32))
            with ring.produce() as s:
                write(s.x, fill(1.0, f32, 8, 32))
    role a(warps=1) consumes ring:
        for i in range(n):
            with ring.consume() as s:
                store.direct(z[0, 0], s.x)
            ring.skip()
    role b(warps=1) consumes ring:
        for i in range(n + 1):
            ring.skip()
            with ring.consume() as s:
                store.direct(y[0, 0], s.x)
"""


def test_a_wait_for_the_phase_after_next_does_not_block() -> None:
    """It finds the parity that it looks for, and reads what nobody has written: no role waits for ever."""
    assert [one.code for one in compile_source(Source("k.pipe", AHEAD), Options()).diagnostics] == ["E0604"]
    state = compile_source(Source("k.pipe", AHEAD), Options(unchecked=True))
    assert state.plans is not None and state.ptx is not None
    options = LaunchOptions(Simulation(checks={"race": "off", "uninitialised": "off"}))
    given = {"y": np.zeros((8, 32), np.float32), "z": np.zeros((8, 32), np.float32), "n": 0}
    launch(state.plans[0].interface, state.ptx, given, device="sim", options=options)


COUNTED = """.version 8.7
.target sm_100a
.address_size 64
.visible .entry k() .reqntid 64, 1, 1
{
  .reg .pred %p<9>;
  .reg .b32 %r<9>;
  .shared .align 8 .b64 bar[2];
  mov.u32 %r1, %tid.x;
  mov.u32 %r2, %laneid;
  mov.u32 %r3, bar;
  setp.ne.u32 %p1, %r1, 0;
  @%p1 bra START;
  mbarrier.init.shared::cta.b64 [%r3], {count};
START:
  barrier.sync 0;
  setp.ge.u32 %p2, %r1, 32;
  @%p2 bra WAIT;
  setp.ge.u32 %p3, %r2, 7;
  @%p3 bra ALL;
  mbarrier.arrive.shared::cta.b64 _, [%r3];
ALL:
  mbarrier.arrive.shared::cta.b64 _, [%r3];
  bra END;
WAIT:
  mbarrier.try_wait.parity.shared::cta.b64 %p4, [%r3], 0;
  @!%p4 bra WAIT;
END:
  exit;
}
"""


@pytest.mark.parametrize(("count", "refuted"), [(32, False), (40, True)])
def test_arrivals_count_towards_the_phase_that_is_open(count: int, refuted: bool) -> None:
    """Seven lanes arrive, and then all 32: the phase of 32 is complete, whichever of them was meant for it."""
    found = judge(COUNTED.replace("{count}", str(count)), "k")
    assert (found.deadlock is not None) is refuted


def test_what_has_been_evaluated_follows_its_symbols() -> None:
    """Beside ranges that evaluate everything anew."""
    draw = random.Random("ranges")
    symbols = [Symbol(f"%r{number}") for number in range(3)]
    forms = [atom(one) for one in symbols]
    for _ in range(12):
        left, right = draw.choice(forms), draw.choice(forms)
        forms += [add(left, right), floor(left, 3), choose(at_least(left), right, Linear(1)), atom(Apply("s32", (left,)))]
    known = Ranges()
    for _ in range(60):
        low = draw.randint(-9, 9)
        # As a step does, which sets several registers, some of them to what they are.
        known.assign([(one, (low, low + draw.randint(0, 2))) for one in draw.sample(symbols, 2)])
        assert [range_of(one, known) for one in forms] == [range_of(one, Ranges(known)) for one in forms]


def test_a_run_ends_where_a_loop_goes_round_for_ever() -> None:
    """With n = 0, `i` stays what it is."""
    state = judged(
        "for i in range(M):\n    FILL",
        "i = 0\nwhile i < M:\n    end = min((i // n + 1) * n, M)\n    for k in range(i, end):\n        TAKE\n    i = end",
    )
    assert state.ptx is not None
    network = next(iter(readings_of(state.ptx, "k"))).network
    of_any_step = replace(network, facts=tuple(fact for fact in network.facts if Symbol("k_scalar_n") not in symbols_in(fact)))
    before = tried.value
    deadlock, ended = refute(of_any_step)
    assert deadlock is None and ended
    # One run that does not may take as many.
    assert tried.value - before < 12_000
