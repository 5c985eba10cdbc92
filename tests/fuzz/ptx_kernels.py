"""Random PTX kernels as no compiler of ours writes them: warps that hand stages to each other over mbarriers and named barriers, where
lanes part and meet again, counts depend on sizes and threads, and numbers lie at the limits of their types.

A kernel is right as it is made, unless what it does is spelled in two ways that differ at some sizes; then most of them are changed at a
place or two (`ptx_changes`). What is right is for the judges to say (`ptx_judge`): nothing here knows.
"""

import random
from collections.abc import Callable
from dataclasses import dataclass

from fuzz.ptx_places import Place
from fuzz.ptx_writer import LIMITS, Numbers, Text, Value

SIZES = ("n", "m")
SHARED_BYTES = 1 << 16
BARRIERS = 24


@dataclass(frozen=True)
class Pipe:
    """A ring of `stages` barriers on each side, at offsets `full` and `empty`; `producers`, `consumers`: warps. `fills`, `frees`: the ways
    in which a warp arrives. `peer`: what is filled and freed are stages of the other CTA of the cluster."""

    stages: int
    full: int
    empty: int
    producers: tuple[int, ...]
    consumers: tuple[int, ...]
    fills: str
    frees: str
    lanes: int
    count: int
    peer: bool
    trips: tuple[str, int]


# Arrivals of one warp, by the way in which it arrives.
def arrivals(pipe: Pipe, way: str) -> int:
    return {"all": 32, "parted": 32, "copies": 32, "some": pipe.lanes, "count": pipe.count}.get(way, 1)


@dataclass
class Draft:
    """A kernel as it is drawn. `threads`: of a block; `ctas`: of a cluster."""

    draw: random.Random
    text: Text
    warps: int
    threads: int
    ctas: int
    pipes: list[Pipe]
    numbers: Numbers
    tid: str = ""
    lane: str = ""
    warp: str = ""
    base: str = ""
    buffer: str = ""
    signs: bool = False  # at a named barrier, in the end
    narrow: bool = True  # sizes are of 16 bits: no sum or product of them wraps


def ptx(draw: random.Random) -> str:
    """The text of a kernel `k(n, m, x)`: two sizes, and a pointer to SHARED_BYTES bytes."""
    return _assembled(_drafted(draw))


def _assembled(draft: Draft) -> str:
    cluster = f".reqnctapercluster {draft.ctas}, 1, 1\n.explicitcluster\n" if draft.ctas > 1 else ""
    size = "u16" if draft.narrow else "u32"
    body = "\n".join(line if line.endswith(":") else "  " + line for line in draft.text.lines)
    return (
        ".version 8.7\n.target sm_100a\n.address_size 64\n"
        f".visible .entry k(\n  .param .{size} n,\n  .param .{size} m,\n  .param .u64 x\n)\n"
        f".reqntid {draft.threads}, 1, 1\n{cluster}{{\n{draft.text.declared()}"
        f"  .shared .align 128 .b8 buf[{SHARED_BYTES}];\n  .shared .align 8 .b64 bar[{BARRIERS}];\n{body}\n  ret;\n}}\n"
    )


def _drafted(draw: random.Random) -> Draft:
    warps = draw.choice((2, 2, 2, 3, 4))
    threads = 32 * warps
    ctas = 2 if draw.random() < 0.15 else 1
    numbers = {"n": draw.randrange(6), "m": draw.randrange(6), "lane": draw.randrange(32), "tid": draw.randrange(threads)}
    draft = Draft(draw, Text(draw), warps, threads, ctas, [], numbers)
    draft.signs, draft.narrow = draw.random() < 0.2, draw.random() < 0.75
    offset = 0
    for _ in range(draw.choice((1, 1, 1, 2))):
        pipe = _pipe(draft, offset)
        draft.pipes.append(pipe)
        offset = pipe.empty + 8 * pipe.stages
    _prologue(draft)
    done = draft.text.label()
    labels = [draft.text.label() for _ in range(warps - 1)]
    for warp, label in enumerate(labels):
        flag = draft.text.register(1)
        test = draw.choice((f"setp.eq.u32 {flag}, {draft.warp}, {warp};", f"setp.lt.u32 {flag}, {draft.tid}, {32 * warp + 32};"))
        draft.text.add(test, f"@{flag} bra {label};")
    for warp in (warps - 1, *range(warps - 1)):
        if warp < warps - 1:
            draft.text.add(f"{labels[warp]}:")
        _role(draft, warp)
        draft.text.add(f"bra {done};")
    draft.text.add(f"{done}:")
    _epilogue(draft)
    return draft


def _pipe(draft: Draft, offset: int) -> Pipe:
    draw, warps = draft.draw, [*range(draft.warps)]
    draw.shuffle(warps)
    many = draw.choice((1, 1, 2)) if draft.warps > 2 else 1
    producers = tuple(warps[:many]) if draw.random() < 0.3 else (warps[0],)
    rest = [warp for warp in warps if warp not in producers] or list(producers)
    consumers = tuple(rest[: draw.choice((1, 1, 2))])
    stages, peer = draw.choice((1, 1, 2, 2, 3, 4)), draft.ctas > 1 and draw.random() < 0.6
    ways = ["all", "elect", "lane", "some", "count", "parted", "section"]
    # Bytes are announced and copies made in the CTA itself.
    fills = draw.choice(ways if peer else [*ways, "bytes", "bytes", "twice", "copies"])
    trips = draw.choice(
        (
            ("size", 0),
            ("size", 0),
            ("number", draw.randrange(6)),
            ("number", stages),
            ("number", 2 * stages + 1),
            *((("limit", draw.randrange(4)),) * (draw.random() < 0.3)),
        )
    )
    return Pipe(
        stages, offset, offset + 8 * stages, producers, consumers, fills, draw.choice(ways), draw.choice((1, 2, 7, 16, 31)),
        draw.choice((1, 2, 5, 1048575)) if len(producers) + len(consumers) == 2 else draw.choice((1, 2, 5)), peer, trips,
    )  # fmt: skip


def _prologue(draft: Draft) -> None:
    text, draw = draft.text, draft.draw
    draft.tid, draft.warp, draft.base, draft.buffer = (text.register() for _ in range(4))
    text.add(f"mov.u32 {draft.tid}, %tid.x;", f"shr.u32 {draft.warp}, {draft.tid}, 5;")
    if draw.random() < 0.3:
        text.add(f"shfl.sync.idx.b32 {draft.warp}, {draft.warp}, 0, 31, -1;")
    draft.lane = text.register()
    text.add(draw.choice((f"mov.u32 {draft.lane}, %laneid;", f"and.b32 {draft.lane}, {draft.tid}, 31;")))
    text.add(f"mov.u32 {draft.base}, bar;", f"mov.u32 {draft.buffer}, buf;")
    for name in SIZES:
        if draft.narrow:
            text.add(f"ld.param.u16 %{name}h, [{name}];", f"cvt.u32.u16 %{name}, %{name}h;")
        else:
            text.add(f"ld.param.u32 %{name}, [{name}];")
    text.add("ld.param.u64 %x, [x];")
    text.lines.insert(0, ".reg .b32 %n, %m;\n  .reg .b16 %nh, %mh;\n  .reg .b64 %x;")
    flag, ready = text.register(1), text.label()
    who = draw.choice((0, 0, 0, draft.threads - 1))
    text.add(f"setp.ne.u32 {flag}, {draft.tid}, {who};", f"@{flag} bra {ready};")
    for pipe in draft.pipes:
        for stage in range(pipe.stages):
            full = arrivals(pipe, pipe.fills) * len(pipe.producers)
            empty = arrivals(pipe, pipe.frees) * len(pipe.consumers)
            text.add(f"mbarrier.init.shared::cta.b64 [{draft.base}+{pipe.full + 8 * stage}], {full};")
            text.add(f"mbarrier.init.shared::cta.b64 [{draft.base}+{pipe.empty + 8 * stage}], {empty};")
    text.add(f"{ready}:")
    if draft.ctas > 1:
        text.add("fence.mbarrier_init.release.cluster;", "barrier.cluster.arrive.aligned;", "barrier.cluster.wait.aligned;")
    text.add(draw.choice(("bar.sync 0;", "bar.sync 0;", "barrier.sync 0;", f"bar.sync 0, {32 * draft.warps};")))


def _epilogue(draft: Draft) -> None:
    text, draw = draft.text, draft.draw
    if draft.ctas > 1:
        text.add("bar.warp.sync -1;", "barrier.cluster.arrive.aligned;", "barrier.cluster.wait.aligned;")
    elif draw.random() < 0.3:
        flag, skip = text.register(1), text.label()
        text.add("bar.sync 0;", f"setp.ne.u32 {flag}, {draft.tid}, 0;", f"@{flag} bra {skip};")
        pipe = draw.choice(draft.pipes)
        text.add(f"mbarrier.inval.shared::cta.b64 [{draft.base}+{pipe.full}];", f"{skip}:")


# ------------------------------------------------------------------------------------------------------------------ roles


def _role(draft: Draft, warp: int) -> None:
    """What a warp does for each pipeline it has to do with, in the order in which all warps do it."""
    _noise(draft)
    for number, pipe in enumerate(draft.pipes):
        if warp in pipe.producers or warp in pipe.consumers:
            _guarded(draft, number, lambda pipe=pipe: _loop(draft, pipe, warp))
            _noise(draft)
    if draft.signs:
        _handshake(draft, warp)


def _handshake(draft: Draft, warp: int) -> None:
    """Warp 0 signs at a named barrier at which the others wait."""
    way = "arrive" if warp == 0 else "sync"
    name = draft.text.register()
    draft.text.add("bar.warp.sync -1;", f"mov.u32 {name}, 15;")
    draft.text.add(f"barrier.{way} {draft.draw.choice((name, '15'))}, {32 * draft.warps};")


def _guarded(draft: Draft, number: int, body: Callable[[], None]) -> None:
    """All warps ask whether a pipeline runs at all, by expressions over the same sizes."""
    asks = draft.pipes[number].stages % 2 == 1  # the same for all warps
    if not asks or draft.draw.random() < 0.55:
        body()
        return
    text = draft.text
    sizes = [Value("%n", 32, lambda at: at["n"]), Value("%m", 32, lambda at: at["m"])]
    constant = draft.draw.random() < 0.8
    value = text.number([] if constant else sizes, draft.draw.randrange(1, 4))
    flag, holds = text.predicate(value, draft.numbers)
    skip = text.label()
    # Taken for the numbers that were drawn; for others it may be skipped.
    text.add(f"@{'!' if holds(draft.numbers) else ''}{flag} bra {skip};")
    body()
    text.add(f"{skip}:")


def _noise(draft: Draft) -> None:
    """What changes nothing: lanes that part and meet, loops that count, results that nobody reads."""
    text, draw = draft.text, draft.draw
    match draw.randrange(12):
        case 0:
            flag, skip = text.register(1), text.label()
            text.add(f"setp.lt.u32 {flag}, {draft.lane}, {draw.choice((0, 1, 16, 32))};", f"@{flag} bra {skip};")
            text.add(*draw.choice(((), ("nanosleep.u32 20;",))), f"{skip}:")
            text.add(*(("bar.warp.sync -1;",) * (draw.random() < 0.9)))
        case 1:
            value, flag = text.register(), text.register(1)
            text.add(f"elect.sync {value}|{flag}, -1;")
        case 2:
            counter, flag, again = text.register(), text.register(1), text.label()
            bound = draw.choice((draft.lane, "%n", "5"))
            text.add(f"mov.u32 {counter}, 0;", f"{again}:", f"add.u32 {counter}, {counter}, 1;")
            text.add(f"setp.lt.u32 {flag}, {counter}, {bound};", f"@{flag} bra {again};")
        case 3:
            leaves = [Value(draft.lane, 32, lambda at: at["lane"]), Value("%n", 32, lambda at: at["n"])]
            text.number(leaves, 2)
        case _:
            pass


def _trips(draft: Draft, pipe: Pipe) -> str:
    """How often a pipeline turns: the same for all, spelled in one of several ways."""
    text, draw = draft.text, draft.draw
    name = text.register()
    kind, number = pipe.trips
    if kind == "number":
        text.add(f"mov.u32 {name}, {number};")
    elif kind == "size":
        other = text.register()
        text.add(*draw.choice((
            (f"mov.u32 {name}, %n;",),
            (f"add.u32 {name}, %n, 0;",),
            (f"shl.b32 {other}, %n, 1;", f"shr.u32 {name}, {other}, 1;"),
            (f"add.u32 {other}, %n, 1;", f"sub.u32 {name}, {other}, 1;"),
            (f"and.b32 {name}, %n, 65535;",),
            (f"min.u32 {name}, %n, 1000;",),
            (f"mul.lo.u32 {other}, %n, 3;", f"div.u32 {name}, {other}, 3;"),
            (f"max.s32 {name}, %n, 0;",),
        )))  # fmt: skip
    else:
        # At most so many turns, from the size or from a number at a limit.
        leaf = Value("%n", 32, lambda at: at["n"])
        value = text.number([leaf], 1) if draw.random() < 0.5 else text.constant(draw.choice(LIMITS))
        text.add(f"rem.u32 {name}, {value.name}, {number + 1};" if draw.random() < 0.5 else f"and.b32 {name}, {value.name}, 3;")
    return name


def _loop(draft: Draft, pipe: Pipe, warp: int) -> None:
    text, draw = draft.text, draft.draw
    trips = _trips(draft, pipe)
    place = Place(*(text.register() for _ in range(4)), draw.choice(("count",) * 30 + ("divide", "bits")))
    head, end, flag = text.label(), text.label(), text.register(1)
    text.add(f"mov.u32 {place.turn}, 0;", f"mov.u32 {place.stage}, 0;", f"mov.u32 {place.phase}, 0;")
    signed = draw.choice("us")
    text.add(f"{head}:", f"setp.ge.{signed}32 {flag}, {place.turn}, {trips};", f"@{flag} bra {end};")
    place.make(draft.text, pipe.stages, draft.base)
    if warp in pipe.producers:
        _wait(draft, place.address, pipe.empty, place.phase, opposite=True)
        _arrive(draft, pipe, _peer(draft, pipe, place.address), pipe.full, pipe.fills, remote=pipe.peer)
    if warp in pipe.consumers:
        _wait(draft, place.address, pipe.full, place.phase)
        if draw.random() < 0.15:
            _noise(draft)
        _arrive(draft, pipe, _peer(draft, pipe, place.address), pipe.empty, pipe.frees, remote=pipe.peer)
    place.step(draft.text, pipe.stages)
    text.add(f"add.u32 {place.turn}, {place.turn}, 1;", f"bra {head};", f"{end}:")


def _peer(draft: Draft, pipe: Pipe, address: str) -> str:
    if not pipe.peer:
        return address
    text, rank, remote = draft.text, draft.text.register(), draft.text.register()
    text.add(f"mov.u32 {rank}, %cluster_ctarank;", f"xor.b32 {rank}, {rank}, 1;")
    text.add(f"mapa.shared::cluster.u32 {remote}, {address}, {rank};")
    return remote


def _wait(draft: Draft, address: str, offset: int, phase: str, opposite: bool = False) -> None:
    text, draw = draft.text, draft.draw
    flag, parity, again = text.register(1), phase, text.label()
    if opposite:
        parity = text.register()
        text.add(f"xor.b32 {parity}, {phase}, 1;")
    opcode = draw.choice(("mbarrier.try_wait.parity", "mbarrier.try_wait.parity", "mbarrier.test_wait.parity"))
    first = f"{opcode}.shared::cta.b64 {flag}, [{address}+{offset}], {parity};"
    if draw.random() < 0.1:
        # A look before the wait.
        done = text.label()
        text.add(first, f"@{flag} bra {done};", f"{again}:", first, f"@!{flag} bra {again};", f"{done}:")
    elif draw.random() < 0.3:
        other = text.register(1)
        text.add(f"{again}:", first, f"not.pred {other}, {flag};", f"@{other} bra {again};")
    else:
        text.add(f"{again}:", first, f"@!{flag} bra {again};")


def _arrive(draft: Draft, pipe: Pipe, address: str, offset: int, way: str, remote: bool = False) -> None:
    text, draw = draft.text, draft.draw
    if way not in ("all", "copies") and draw.random() < 0.95:
        text.add("bar.warp.sync -1;")
    opcode = "mbarrier.arrive.release.cluster.shared::cluster.b64 _," if remote else "mbarrier.arrive.shared::cta.b64 _,"
    plain = f"{opcode} [{address}+{offset}]"
    if way == "all":
        text.add(f"{plain};")
    elif way == "copies":
        text.add(f"cp.async.ca.shared.global [{draft.buffer}], [%x], 16;")
        text.add(f"cp.async.mbarrier.arrive.noinc.shared::cta.b64 [{address}+{offset}];")
    elif way == "parted":
        flag, other, both = text.register(1), text.label(), text.label()
        text.add(f"setp.ge.u32 {flag}, {draft.lane}, {pipe.lanes};", f"@{flag} bra {other};", f"{plain};", f"bra {both};")
        text.add(f"{other}:", f"{plain};", f"{both}:", "bar.warp.sync -1;")
    else:
        _by_some(draft, pipe, way, plain, f"[{address}+{offset}]")


def _by_some(draft: Draft, pipe: Pipe, way: str, plain: str, barrier: str) -> None:
    """By some lanes: as a predicate of the instructions, or behind a branch."""
    text, draw = draft.text, draft.draw
    flag = text.register(1)
    if way in ("elect", "section", "bytes", "twice") and draw.random() < 0.7:
        text.add(f"elect.sync {text.register()}|{flag}, -1;")
    elif way == "some":
        text.add(f"setp.lt.u32 {flag}, {draft.lane}, {pipe.lanes};")
    else:
        text.add(f"setp.eq.u32 {flag}, {draft.lane}, {draw.choice((0, 0, 5, 31))};")
    behind = way == "section" or draw.random() < 0.3
    done = text.label()
    if behind:
        text.add(f"@!{flag} bra {done};")
    guard = "" if behind else f"@{flag} "
    text.add(*(guard + line for line in _arriving(draft, pipe, way, plain, barrier)))
    if behind:
        text.add(f"{done}:", *(("bar.warp.sync -1;",) * (draw.random() < 0.5)))


def _arriving(draft: Draft, pipe: Pipe, way: str, plain: str, barrier: str) -> list[str]:
    size = draft.draw.choice((16, 64, 128, 65536))
    copy = f"cp.async.bulk.shared::cta.global.mbarrier::complete_tx::bytes [{draft.buffer}], [%x], {size}, {barrier};"
    match way:
        case "count":
            return [f"{plain}, {pipe.count};"]
        case "bytes":
            return [f"mbarrier.arrive.expect_tx.shared::cta.b64 _, {barrier}, {size};", copy]
        case "twice":
            announce = f"mbarrier.expect_tx.relaxed.cta.shared::cta.b64 {barrier}, {size};"
            return [announce, copy, announce, copy, f"mbarrier.arrive.shared::cta.b64 _, {barrier};"]
        case _:
            return [f"{plain};"]
