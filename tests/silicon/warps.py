"""Instructions among the threads of a warp or a CTA: elect, shuffles, votes, matches, reductions, barriers, fences, registers."""

from collections.abc import Iterator

import numpy as np
from silicon.program import Buffer, Program, generator, put

_VALUE = "mov.u32 %r9, %tid.x; mov.u32 %r8, %laneid; ld.param.u64 %rd1, [p0]; mad.wide.u32 %rd2, %r9, 8, %rd1; "
_VALUE += "ld.global.b64 %rd3, [%rd2]; mov.b64 {%r1, %r2}, %rd3;\n"


def _program(name: str, text: str, results: tuple[str, ...] = (), threads: int = 64, most: int = 1 << 32) -> Program:
    """`text` computes from %r1, %r2 and %rd3 (any value below `most`), %r8 the lane, %r9 the thread; `results` are kept."""
    data = generator(name).integers(0, most, (threads, 2), np.uint64).astype(np.uint32)
    body = _VALUE + text + "\n" + "".join(put(1, register, slot=slot) for slot, register in enumerate(results))
    return Program(
        name, body, (Buffer(data), Buffer(np.zeros(threads * max(1, len(results)), np.uint32), True)), threads=threads, shared=256
    )


def _elect() -> Iterator[Program]:
    masks = (0xFFFFFFFF, 0xFFFFFFFE, 0xF0, 0x80000000, 0xAAAA0000, 0x00010100)
    text, results = "", []
    for number, mask in enumerate(masks):
        first, second = f"%r{20 + 2 * number}", f"%r{21 + 2 * number}"
        text += f"mov.u32 {first}, 99; mov.u32 {second}, 99; mov.u32 %r3, 1; shl.b32 %r3, %r3, %r8; "
        text += f"and.b32 %r3, %r3, {mask}; setp.ne.u32 %p2, %r3, 0;\n"
        text += f"@!%p2 bra out{number}; elect.sync {first}|%p1, {mask}; selp.u32 {second}, 1, 0, %p1;\n"
        text += f"out{number}: bar.warp.sync 0xFFFFFFFF;\n"
        results += [first, second]
    yield _program("elect", text, tuple(results))
    yield _program("elect_sink", "elect.sync _|%p1, 0xFFFFFFFF; selp.u32 %r3, 1, 0, %p1;", ("%r3",))


def _shuffles() -> Iterator[Program]:
    for mode, controls in (
        ("up", (0, 0x1F, 0x1000, 0x1800)), ("down", (0x1F, 0x181F, 0x101F, 0x7)), ("bfly", (0x1F, 0x181F, 0x1C1F, 0x7)),
        ("idx", (0x1F, 0x181F, 0x101F, 0xF)),
    ):  # fmt: skip
        text, results = "", []
        for number, (control, distance) in enumerate(zip(controls, ("1", "5", "%r2", "31"), strict=True)):
            first, second = f"%r{20 + 2 * number}", f"%r{21 + 2 * number}"
            text += f"shfl.sync.{mode}.b32 {first}|%p1, %r1, {distance}, {control}, 0xFFFFFFFF; selp.u32 {second}, 1, 0, %p1;\n"
            results += [first, second]
        yield _program(f"shfl_{mode}", text, tuple(results))
    text = "and.b32 %r3, %r8, 1; setp.eq.u32 %p2, %r3, 1; mov.u32 %r4, 7; @%p2 bra odd;\n"
    text += "shfl.sync.idx.b32 %r4, %r1, 6, 0x1F, 0x55555555; bra both;\n"
    text += "odd: shfl.sync.idx.b32 %r4, %r1, 9, 0x1F, 0xAAAAAAAA;\nboth: bar.warp.sync 0xFFFFFFFF;"
    yield _program("shfl_halves", text, ("%r4",))
    yield _program(
        "shfl_control_in_registers",
        "and.b32 %r3, %r2, 0x1F1F; shfl.sync.idx.b32 %r4|%p1, %r1, %r1, %r3, -1; selp.u32 %r5, 1, 0, %p1;",
        ("%r4", "%r5"),
    )


def _groups() -> Iterator[Program]:
    """Instructions whose lanes form two groups: those of the mask 0x0F0F0F0F and the others."""
    split = "shr.u32 %r3, %r8, 2; and.b32 %r3, %r3, 1; setp.eq.u32 %p2, %r3, 1; @%p2 bra other;\n{0}\nbra both;\nother:\n"
    split += "{1}\nboth: bar.warp.sync -1;"
    for kind in ("u32", "s32"):
        for operation in ("add", "min", "max"):
            text = f"redux.sync.{operation}.{kind} %r4, %r1, "
            whole = text.replace("%r4", "%r5") + "0xFFFFFFFF;\n"
            yield _program(
                f"redux_{operation}_{kind}", whole + split.format(text + "0x0F0F0F0F;", text + "0xF0F0F0F0;"), ("%r4", "%r5")
            )
    for operation in ("and", "or", "xor"):
        text = f"redux.sync.{operation}.b32 %r4, %r1, "
        yield _program(f"redux_{operation}", split.format(text + "0x0F0F0F0F;", text + "0xF0F0F0F0;"), ("%r4",))
    for bits, value in (("32", "%r1"), ("64", "%rd3")):
        few = "and.b32 %r1, %r1, 3; and.b64 %rd3, %rd3, 0x300000001;\n"
        text = f"match.any.sync.b{bits} %r4, {value}, "
        yield _program(f"match_any_b{bits}", few + split.format(text + "0x0F0F0F0F;", text + "0xF0F0F0F0;"), ("%r4",))
        text = f"match.all.sync.b{bits} %r4|%p1, {value}, "
        same = "setp.lt.u32 %p3, %r9, 32; selp.u32 %r1, 5, %r1, %p3; selp.b64 %rd3, 5, %rd3, %p3; shr.u32 %r6, %r8, 2; "
        same += "and.b32 %r6, %r6, 1;\n"
        done = "\nselp.u32 %r5, 1, 0, %p1;"
        yield _program(
            f"match_all_b{bits}", same + split.format(text + "0x0F0F0F0F;", text + "0xF0F0F0F0;") + done, ("%r4", "%r5")
        )
    predicate = "and.b32 %r4, %r1, 3; setp.ne.u32 %p3, %r4, 0;\n"
    for mode in ("all", "any", "uni"):
        text = f"vote.sync.{mode}.pred %p1, %p3, "
        yield _program(
            f"vote_{mode}",
            predicate + split.format(text + "0x0F0F0F0F;", text + "0xF0F0F0F0;") + "\nselp.u32 %r5, 1, 0, %p1;",
            ("%r5",),
        )
    text = "vote.sync.ballot.b32 %r5, %p3, "
    yield _program("vote_ballot", predicate + split.format(text + "0x0F0F0F0F;", text + "0xF0F0F0F0;"), ("%r5",))
    yield _program(
        "vote_negated",
        predicate + "vote.sync.any.pred %p1, !%p3, -1; vote.sync.ballot.b32 %r5, !%p3, -1; selp.u32 %r6, 1, 0, %p1;",
        ("%r5", "%r6"),
    )
    masks = " ".join(f"mov.u32 %r{20 + i}, %lanemask_{name};" for i, name in enumerate(("eq", "le", "lt", "ge", "gt")))
    yield _program("lane_masks", masks + " mov.u32 %r25, %laneid; mov.u32 %r26, %ntid.x;", tuple(f"%r{20 + i}" for i in range(7)))


def _barriers() -> Iterator[Program]:
    """Named barriers: sums and votes over the CTA, subsets of warps, arrivals without waiting."""
    reductions = (
        "setp.lt.u32 %p3, %r1, 0x40000000; barrier.cta.red.popc.aligned.u32 %r3, 0, %p3; bar.red.popc.u32 %r4, 1, 128, !%p3;\n"
    )
    reductions += (
        "bar.red.and.pred %p1, 2, %p3; selp.u32 %r5, 1, 0, %p1; bar.red.or.pred %p1, 3, 128, %p3; selp.u32 %r6, 1, 0, %p1;"
    )
    yield _program("bar_red", reductions, ("%r3", "%r4", "%r5", "%r6"), threads=128)
    text = (
        "mov.u32 %r3, smem; mad.lo.u32 %r4, %r9, 4, %r3; shr.u32 %r5, %r9, 5; setp.eq.u32 %p1, %r5, 0; setp.eq.u32 %p2, %r5, 1;\n"
    )
    text += "@!%p1 bra next; shl.b32 %r6, %r8, 2; add.u32 %r6, %r6, %r3; st.shared.b32 [%r6], %r1; bar.arrive 4, 64; "
    text += "mov.u32 %r7, 1; bra out;\n"
    text += "next: bar.sync 4, 64; shl.b32 %r6, %r8, 2; add.u32 %r6, %r6, %r3; ld.shared.b32 %r7, [%r6];\nout:"
    yield _program("bar_arrive", text, ("%r7",))
    loop = "mov.u32 %r3, smem; mad.lo.u32 %r4, %r9, 4, %r3; xor.b32 %r5, %r9, 33; mad.lo.u32 %r5, %r5, 4, %r3; mov.u32 %r6, 0;\n"
    loop += "again: st.shared.b32 [%r4], %r1; barrier.sync 5, 64; ld.shared.b32 %r7, [%r5]; barrier.cta.sync 6; "
    loop += "mad.lo.u32 %r1, %r1, 5, %r7;\n"
    yield _program("barrier_sync_loop", loop + "add.u32 %r6, %r6, 1; setp.lt.u32 %p1, %r6, 7; @%p1 bra again;", ("%r1",))


FENCES = (
    "membar.cta;", "membar.gl;", "membar.sys;", "fence.acq_rel.cta;", "fence.acq_rel.cluster;", "fence.acq_rel.gpu;", "fence.acq_rel.sys;",
    "fence.sc.cta;", "fence.sc.cluster;", "fence.sc.gpu;", "fence.sc.sys;", "fence.mbarrier_init.release.cluster;", "fence.proxy.alias;",
    "fence.proxy.async;", "fence.proxy.async.global;", "fence.proxy.async.shared::cta;", "fence.proxy.async.shared::cluster;",
    "fence.acquire.sync_restrict::shared::cluster.cluster;", "fence.release.sync_restrict::shared::cta.cluster;",
    "fence.proxy.async::generic.acquire.sync_restrict::shared::cluster.cluster;",
    "fence.proxy.async::generic.release.sync_restrict::shared::cta.cluster;",
    "fence.proxy.tensormap::generic.release.gpu;", "fence.proxy.tensormap::generic.acquire.gpu [%rd9], 128;",
    "griddepcontrol.wait;", "griddepcontrol.launch_dependents;",
    "prefetch.global.L1 [%rd2];", "prefetch.global.L2 [%rd2];", "prefetch.global.L2::evict_last [%rd2];",
    "nanosleep.u32 20;", "bar.warp.sync -1;",
    "applypriority.global.L2::evict_normal [%rd9], 128;",
)  # fmt: skip


def _fences() -> Program:
    """Every fence and hint between a store and a load of the neighbour: none changes a value."""
    text = "mov.u32 %r3, smem; mad.lo.u32 %r4, %r9, 4, %r3; xor.b32 %r5, %r9, 1; mad.lo.u32 %r5, %r5, 4, %r3; "
    text += "ld.param.u64 %rd9, [p1];\n"
    for fence in FENCES:
        text += (
            f"st.shared.b32 [%r4], %r1; {fence} bar.sync 0; ld.shared.b32 %r6, [%r5]; bar.sync 0; mad.lo.u32 %r1, %r1, 3, %r6;\n"
        )
    return _program("fences_and_hints", text, ("%r1",))


def _registers() -> Program:
    """setmaxnreg of two warpgroups: values survive, sums are right."""
    text = (
        "setp.lt.u32 %p1, %r9, 128; @%p1 bra first;\nsetmaxnreg.dec.sync.aligned.u32 40; mad.lo.u32 %r3, %r1, 3, %r2; bra both;\n"
    )
    text += "first: setmaxnreg.inc.sync.aligned.u32 200; mad.lo.u32 %r3, %r1, 5, %r2;\nboth: bar.sync 0; xor.b32 %r3, %r3, %r9;"
    plain = _program("setmaxnreg", text, ("%r3",), threads=256)
    return Program(plain.name, plain.body, plain.arguments, threads=256, shared=plain.shared, directives=".maxnreg 128")


def programs() -> Iterator[Program]:
    yield from _elect()
    yield from _shuffles()
    yield from _groups()
    yield from _barriers()
    yield _fences()
    yield _registers()
