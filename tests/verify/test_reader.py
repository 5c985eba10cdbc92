"""The reader of PTX: what it makes of the kernels of the examples."""

import re
from contextlib import suppress
from pathlib import Path

import pytest

from pipec.driver import compile_source
from pipec.protocol.prove import prove
from pipec.record import replace
from pipec.source import Source
from pipec.verify.checker.check import check
from pipec.verify.network import Arrive, End, Test, Unreadable, Wait
from pipec.verify.reader.processes.walk import Walk
from pipec.verify.reader.read import read
from pipec.verify.reader.text.operations import number_of, operation
from pipec.verify.reader.values.interpretation import Interpretation

GOLDEN = Path(__file__).parents[1] / "golden"
GEMM = (GOLDEN / "gemm.ptx").read_text()


def test_the_processes_of_a_gemm() -> None:
    network = read(GEMM)
    assert [(process.role, process.threads) for process in network.processes] == [
        ("epilogue", 128),
        ("load", 32),
        ("mma", 32),
    ]
    assert [(ring.stages, ring.count) for ring in network.rings if ring.kind == "mbarrier"] == [(4, 1), (4, 1), (1, 1), (1, 128)]


def test_each_sub_stage_is_a_ring() -> None:
    network = read((GOLDEN / "role_pipeline.ptx").read_text(), "sub_stages")
    rings = [ring for ring in network.rings if ring.kind == "mbarrier"]
    assert [ring.stages for ring in rings] == [2, 2, 2, 2]
    assert all(ring.instances[1] - ring.instances[0] == 16 for ring in rings)


def test_the_number_of_a_warp_may_come_from_any_of_its_lanes() -> None:
    other = re.sub(r"(shfl.sync.idx.b32\s+\S+ \S+) 0, 31", r"\1 3, 31", GEMM)
    assert other != GEMM and read(other) == read(GEMM)


def test_a_barrier_that_threads_only_go_past_is_no_part_of_them() -> None:
    """One warp goes past the try of a barrier, and waits at none."""
    text = """.version 9.0
.target sm_100a
.address_size 64
.visible .entry k(
  .param .u16 n,
)
.reqntid 64, 1, 1
{
  .shared .align 8 .b64 bar[24];
  mov.u32 %r1, %tid.x;
  shr.u32 %r2, %r1, 5;
  mov.u32 %r3, bar;
  ld.param.u16 %nh, [n];
  cvt.u32.u16 %n, %nh;
  setp.ne.u32 %p1, %r1, 0;
  @%p1 bra L1;
  mbarrier.init.shared::cta.b64 [%r3+0], 32;
  mbarrier.init.shared::cta.b64 [%r3+16], 1;
  mbarrier.init.shared::cta.b64 [%r3+8], 32;
  mbarrier.init.shared::cta.b64 [%r3+24], 1;
L1:
  bar.sync 0;
  setp.eq.u32 %p2, %r2, 0;
  min.u32 %r6, %n, 1000;
  mov.u32 %r8, 0;
  mov.u32 %r9, 0;
  mov.u32 %r10, 0;
  setp.ge.s32 %p3, %r8, %r6;
  mad.lo.u32 %r11, %r9, 8, %r3;
L6:
  and.b32 %r15, %n, 65535;
  mov.u32 %r17, 0;
  mov.u32 %r18, 0;
  mov.u32 %r19, 0;
L9:
  setp.ge.s32 %p9, %r17, %r15;
  @%p9 bra L10;
  mad.lo.u32 %r20, %r18, 8, %r3;
  xor.b32 %r21, %r19, 1;
  @!%p2 mbarrier.test_wait.parity.shared::cta.b64 %p10, [%r20+16], %r21;
L11:
  setp.eq.u32 %p11, %r18, 2;
L10:
}
"""
    network = read(text)
    assert len(network.processes) == 2
    assert not any(
        isinstance(state.action, Wait) and state.line > 30 for process in network.processes for state in process.states
    )


def test_where_lanes_meet_in_a_shuffle_its_value_may_be_anything() -> None:
    """Elements of a row are exchanged by shuffles: where in memory they are, and whether that number wraps, no wait depends on."""
    tiles = """
kernel k(x: tensor[f32, M, N], row: tensor[f32, N], y: tensor[f32, M, N]):
    tiles = TileScheduler(ceildiv(M, 128), ceildiv(N, 64), mode="clc")
    ring = InputTilePipeline(TilePayload(x=tile[f32, 128, 64]), stages=2)
    role load(warps=1) produces ring:
        for t in tiles:
            with ring.produce() as s:
                tma.load(s.x, x[t.x * 128, t.y * 64])
    role out(warps=4) consumes ring:
        for t in tiles:
            with ring.consume() as s:
                store(y[t.x * 128, t.y * 64], s.x * per_column(row[t.y * 64], 64))
"""
    state = compile_source(Source("k.pipe", tiles))
    assert state.ptx is not None and "shfl.sync.idx" in state.ptx and state.protocol["k"].outcome == "proved"


def test_an_unused_register_distinguishes_no_states() -> None:
    """Of a counter's first value a buffer's number is made, which goes round with the loop: nothing waits for that number."""
    starts = re.findall(r"mov\.b32 \t(%r\d+), (%r\d+);", GEMM)
    counters = {name: of for name, of in starts if f"mov.b32 \t{of}, 0;" in GEMM and f"add.s32 \t{name}, {name}, 1;" in GEMM}
    assert counters
    text = GEMM
    for name, of in counters.items():
        text = text.replace(f"mov.b32 \t{name}, {of};", f"mov.b32 %r9{of[2:]}, 0; mov.b32 {name}, %r9{of[2:]};")
        turn = f"add.s32 \t{name}, {name}, 1;"
        text = text.replace(turn, f"{turn} xor.b32 %r9{of[2:]}, %r9{of[2:]}, 1;")
    assert read(text) == read(GEMM)


_SPINS = re.compile(r"not\.pred +\t(%p\d+), (%p\d+);\n\t@\1 bra +\t(\S+);\n")


@pytest.mark.parametrize("between", ["", "nanosleep.u32 20; "])
def test_a_wait_is_one_however_its_loop_goes_back(between: str) -> None:
    """C++ code has `@%p bra DONE; bra AGAIN;`: one branch that leaves the loop, and one that goes back."""
    spelled, number = _SPINS.subn(rf"@\2 bra \3_ON; {between}bra.uni \3; \3_ON:\n\n", GEMM)
    assert number == GEMM.count("try_wait") and read(spelled) == read(GEMM)
    turns = spelled.replace("bra.uni $", "add.s32 %r9, %r9, 1; setp.lt.s32 %p9, %r9, 99; @%p9 bra $", 1)
    with pytest.raises(Unreadable, match="understood"):
        read(turns)


def test_memory_that_is_written_says_nothing() -> None:
    """Two loads of one place give one value only where nobody stores there."""
    text = (GOLDEN / "gemm_grouped.ptx").read_text()
    load = re.search(r"\t@%p\d+ ld.global.b32 %r\d+, (\[%rd\d+\]);\n", text)
    # (A limit at which no number is so large that it becomes a function without parts.)
    assert load and "ld.global" in repr(read(text, "gemm_grouped", Interpretation(200)).processes)
    written = f"{text[: load.start()]}\tst.global.b32 \t{load[1]}, 0;\n{text[load.start() :]}"
    assert "ld.global" not in repr(read(written, "gemm_grouped", Interpretation(200)).processes)


def kernels() -> list:
    return [
        pytest.param(path, name, id=f"{path.stem}-{name}")
        for path in sorted(GOLDEN.glob("*.ptx"))
        for name in re.findall(r"\.entry (\w+)", path.read_text())
    ]


@pytest.mark.parametrize(("path", "name"), kernels())
def test_every_example_is_read(path: Path, name: str) -> None:
    network = read(path.read_text(), name)
    assert network.name == name
    assert sum(len(process.states) for process in network.processes) < 500
    ends = {state.line for process in network.processes for state in process.states if isinstance(state.action, End)}
    entry = path.read_text().index(f".entry {name}(")
    assert ends == {path.read_text()[: path.read_text().index("\n}", entry)].count("\n") + 1}, "the last instruction"
    for process in network.processes:
        tests = [state.action for at, state in enumerate(process.states) if at != process.start]
        assert not [test for test in tests if isinstance(test, Test) and test.yes == test.no], "a branch that decides nothing"


def test_a_stage_gets_all_its_bytes() -> None:
    load = read(GEMM).processes[1]
    arrivals = [state.action for state in load.states if isinstance(state.action, Arrive) and state.action.use.ring == 0]
    assert sum(one.expects for one in arrivals) == sum(one.delivers for one in arrivals) == (128 + 256) * 64 * 2
    (wait,) = [state.action for state in load.states if isinstance(state.action, Wait) and state.action.use.ring == 1]
    assert wait.use.shift == -4


@pytest.mark.parametrize(
    ("pattern", "instead"),
    [
        (r"(try_wait\S+ \S+, \[%r\d+\]), %r\d+;", r"\1, %ctaid.x;"),  # the parity is a matter of the block
        (r"bar\.sync \t0;", "mbarrier.inval.shared.b64 [$shared+229376];"),
        (r"add\.s32 \t(%r\d+), (%r\d+), %r\d+;", r"call (\1), something, (\2);"),
    ],
)
def test_what_is_not_understood_is_not_guessed(pattern: str, instead: str) -> None:
    text, count = re.subn(pattern, instead, GEMM, count=1)
    assert count == 1
    with pytest.raises(Unreadable):
        read(text)


def test_no_text_ends_in_another_exception() -> None:
    lines = GEMM.split("\n")
    for start in range(0, len(lines), 23):
        for text in ("\n".join(lines[:start]), "\n".join(lines[start:]), re.sub(r"\d", "", "\n".join(lines[start:]))):
            with suppress(Unreadable):
                read(text)


def test_wide_addends_keep_their_bits() -> None:
    wide = operation("mad.wide.u32")
    assert wide is not None
    assert number_of(wide)([-1, 2, 1 << 40]) == 2 * 0xFFFFFFFF + (1 << 40)


# The address of the barrier that the producer waits for.
ADDRESS = re.search(r"add\.s32 \t(%r\d+), (%r\d+), 229408;", GEMM)
assert ADDRESS
MADE, OF = ADDRESS[1], ADDRESS[2]


@pytest.mark.parametrize(
    ("after", "read_"),
    [
        ("mov.b64 {%r900, %r901}, %rd1;", True),
        (f"mov.b64 {{{MADE}, %r900}}, %rd1;", False),
        (f"setp.lt.s32 %p900|%p901, {OF}, 0;", True),
        (f"{{ .reg .b32 other; mov.b32 other, {MADE}; }}", True),
        ("{ .reg .b32 other; { .reg .b32 other; mov.b32 other, 1; } }", False),
        (f"{{ .reg .b32 {MADE}; mov.b32 {MADE}, 1; }}", False),  # another register than the kernel's of that name
        ("{ .reg .b32 one; mov.b32 one, 1; } { .reg .b32 one; mov.b32 one, 2; }", True),
        ("{ AGAIN: }", True),
        ("{ AGAIN: } { AGAIN: }", True),
        ("AGAIN: AGAIN:", False),
        ("{ AGAIN: { AGAIN: } AGAIN: }", False),
    ],
)
def test_registers_and_labels(after: str, read_: bool) -> None:
    """What is written in pairs is written, and nothing of one scope is taken for what has its name in another."""
    assert GEMM.count(ADDRESS[0]) == 1
    text = GEMM.replace(ADDRESS[0], f"{ADDRESS[0]}\n\t{after}")
    if read_:
        assert [replace(one, states=()) for one in read(text).processes] == [
            replace(one, states=()) for one in read(GEMM).processes
        ]
    else:
        with pytest.raises(Unreadable):
            read(text)


def test_an_address_is_no_number_but_none_is_zero() -> None:
    """Distances within a variable, and that it is not at 0, hold wherever the variable lies; nothing else does."""
    text = (Path(__file__).parent / "attacked" / "address.ptx").read_text(encoding="utf-8")
    asked = "setp.lt.u32 %p2, %r1, 300000;"
    assert asked in text
    for condition in ("setp.eq.u32 %p2, %r1, 0;", "add.u32 %r2, %r1, 8; setp.eq.u32 %p2, %r1, %r2;"):
        network = read(text.replace(asked, condition))
        check(network, prove(network))
    for condition in ("setp.eq.u32 %p2, %r1, 1024;", "and.b32 %r2, %r1, 1024; setp.ne.u32 %p2, %r2, 0;"):
        with pytest.raises(Unreadable, match="depends on where the variable lies"):
            read(text.replace(asked, condition))


def test_bits_of_an_address_below_its_alignment() -> None:
    """They are the same wherever the variable lies, and those above are not."""
    text = (Path(__file__).parent / "attacked" / "address.ptx").read_text(encoding="utf-8")
    asked = "setp.lt.u32 %p2, %r1, 300000;"
    (alignment,) = re.findall(r"\.shared \.align (\d+) \.b64", text)
    below = int(alignment) - 1
    for change in (f"and.b32 %r2, %r1, {below};", f"or.b32 %r3, %r1, {below}; sub.u32 %r2, %r3, %r1;"):
        network = read(text.replace(asked, f"{change} setp.ne.u32 %p2, %r2, {below * change.startswith('or')};"))
        check(network, prove(network))
        beyond = change.replace(str(below), str(below + 1))
        with pytest.raises(Unreadable, match="depends on where the variable lies"):
            read(text.replace(asked, f"{beyond} setp.ne.u32 %p2, %r2, 0;"))


@pytest.mark.parametrize("change", ["cvt.u16.u32 {low}, %r1;", "mov.b32 {{{low}, _}}, %r1;", "mov.b32 {{_, {low}}}, %r1;"])
def test_a_part_of_an_address_may_be_zero(change: str) -> None:
    text = (Path(__file__).parent / "attacked" / "address.ptx").read_text(encoding="utf-8")
    asked = "setp.lt.u32 %p2, %r1, 300000;"
    part = f"{{ .reg .b16 low; {change.format(low='low')} setp.eq.u16 %p2, low, 0; }}"
    with pytest.raises(Unreadable, match="depends on where the variable lies"):
        read(text.replace(asked, part))


def test_the_leader_of_a_pair_at_an_aligned_address() -> None:
    """Compilers clear the bit of the rank, and those that are 0 anyway, with one mask."""
    text = (Path(__file__).parent / "attacked" / "address.ptx").read_text(encoding="utf-8")
    asked = "setp.lt.u32 %p2, %r1, 300000;"
    for mask, read_ in ((~(1 << 24), True), (~(1 << 24 | 7), True), (~(1 << 24 | 15), False), (~(1 << 25), False)):
        changed = text.replace(asked, f"and.b32 %r3, %r1, {mask}; sub.u32 %r2, %r1, %r3; setp.ne.u32 %p2, %r2, 0;")
        if read_:
            network = read(changed)
            check(network, prove(network))
        else:
            with pytest.raises(Unreadable, match="depends on where the variable lies"):
                read(changed)


def test_a_result_that_is_thrown_away_is_no_register() -> None:
    """Nobody asks for what an arrival throws away: what another instruction throws away need not be followed, here made of an address."""
    text = (Path(__file__).parent / "attacked" / "address.ptx").read_text(encoding="utf-8")
    assert "arrive.shared::cta.b64 _, [%r1];" in text
    network = read(
        text.replace("%p2, %r1, 300000;", "%p2, 1, 0; mul.lo.u32 %r3, %r1, 3; mov.b64 {_, %r4}, %rd3; mov.b32 _, %r3;")
    )
    check(network, prove(network))


def test_an_arrival_behind_a_wait_for_room_is_for_the_round_that_the_wait_is_for() -> None:
    """One warp acquires and releases a ring: it waits for the parity opposite to that which it completes."""
    network = read((Path(__file__).parent / "arrival_after_opposite_wait.ptx").read_text(encoding="utf-8"))
    check(network, prove(network))


@pytest.mark.parametrize("example", ["gemm_sm90_cluster", "gemm_sm90_narrow"])
def test_loops_of_further_ctas_are_generalised_as_those_of_the_first(example: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The addresses that go round with a ring are those of the first CTA, moved: loops are found to need nothing else."""
    begun_anew: set[int] = set()
    back_to = Walk._back_to

    def noted(walk: Walk, block: int) -> None:
        begun_anew.add(walk.machine.rank)
        back_to(walk, block)

    monkeypatch.setattr(Walk, "_back_to", noted)
    read((GOLDEN / f"{example}.ptx").read_text(encoding="utf-8"))
    assert begun_anew == {0}
