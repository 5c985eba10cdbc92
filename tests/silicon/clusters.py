"""Clusters: ranks and ids, addresses, barriers, and every way to reach another CTA's shared memory."""

from collections.abc import Iterator
from math import prod

import numpy as np
from silicon.program import CLUSTER_SYNC, Buffer, Program, dump, first_thread, init, poison, put, wait

_IDS = [
    *(
        f"%{name}.{axis}"
        for name in ("ctaid", "nctaid", "clusterid", "nclusterid", "cluster_ctaid", "cluster_nctaid")
        for axis in "xyz"
    ),
    "%cluster_ctarank",
    "%cluster_nctarank",
]


def _ids(cluster: tuple[int, int, int], grid: tuple[int, int, int]) -> Program:
    """Each CTA, found by its linear number in the grid, stores its special registers and where its shared memory lies."""
    count = len(_IDS) + 4
    lines = ["mov.u32 %r1, %ctaid.z; mov.u32 %r2, %nctaid.y; mov.u32 %r3, %ctaid.y; mad.lo.u32 %r1, %r1, %r2, %r3;"]
    lines.append("mov.u32 %r2, %nctaid.x; mov.u32 %r3, %ctaid.x; mad.lo.u32 %r1, %r1, %r2, %r3;")
    lines.append(f"ld.param.u64 %rd1, [p0]; mad.wide.u32 %rd1, %r1, {4 * count}, %rd1;")
    values = [f"mov.u32 %r4, {name};" for name in _IDS]
    values.append("mov.pred %p1, %is_explicit_cluster; selp.u32 %r4, 1, 0, %p1;")
    values.append("mov.u32 %r4, smem;")
    values.append(
        "mov.u32 %r5, %cluster_nctarank; sub.u32 %r5, %r5, 1; mov.u32 %r4, smem; mapa.shared::cluster.u32 %r4, %r4, %r5;"
    )
    values.append("getctarank.shared::cluster.u32 %r4, %r4;")
    lines += [f"{text} st.global.b32 [%rd1+{4 * i}], %r4;" for i, text in enumerate(values)]
    name = "cluster_ids_" + "x".join(map(str, cluster))
    return Program(
        name,
        "\n".join(lines),
        (Buffer(np.zeros(count * prod(grid), np.uint32), True),),
        threads=1,
        grid=grid,
        cluster=cluster,
        shared=64,
    )


def _remote(name: str, text: str, ctas: int = 4, bits: int = 32) -> Program:
    """Words of shared memory of all CTAs after `text`, in which %r1 is the own base, %r2 that of the next CTA, %r3 the thread."""
    size = 256
    body = poison(size, 32) + "mov.u32 %r1, smem; mov.u32 %r3, %tid.x; mov.u32 %r9, %cluster_ctarank;\n"
    body += f"add.u32 %r4, %r9, 1; rem.u32 %r4, %r4, {ctas}; mapa.shared::cluster.u32 %r2, %r1, %r4;\n"
    body += (
        "mad.lo.u32 %r5, %r9, 1000, %r3; cvt.u64.u32 %rd5, %r5; mad.lo.u64 %rd5, %rd5, 4294967297, 7; cvt.rn.f32.u32 %f5, %r5;\n"
    )
    body += f"shl.b32 %r6, %r3, {3 if bits == 64 else 2}; add.u32 %r7, %r2, %r6; add.u32 %r8, %r1, %r6; "
    body += "cvt.u64.u32 %rd2, %r1; cvta.shared.u64 %rd2, %rd2;\n"
    body += "mapa.u64 %rd3, %rd2, %r4; cvt.u64.u32 %rd6, %r6; add.u64 %rd3, %rd3, %rd6;\n"
    body += CLUSTER_SYNC + text + "\n" + CLUSTER_SYNC + dump(0, size, 32)
    grid = (ctas, 1, 1)
    return Program(
        f"dsmem_{name}",
        body,
        (Buffer(np.zeros(size * ctas, np.uint8), True),),
        threads=32,
        grid=grid,
        cluster=grid,
        shared=size + 128,
    )


_ATOMS = {
    "add_u32": "atom.relaxed.cluster.shared::cluster.add.u32 %r10, [%r7], %r5;",
    "add_s32": "red.relaxed.cluster.shared::cluster.add.s32 [%r2], %r5;",
    "min_s32": "red.relaxed.cluster.shared::cluster.min.s32 [%r2], %r5;",
    "max_u32": "red.relaxed.cluster.shared::cluster.max.u32 [%r2], %r5;",
    "inc": "red.relaxed.cluster.shared::cluster.inc.u32 [%r2], 77;",
    "dec": "red.relaxed.cluster.shared::cluster.dec.u32 [%r2], 0xF0000000;",
    "and": "red.relaxed.cluster.shared::cluster.and.b32 [%r2], %r5;",
    "or": "red.relaxed.cluster.shared::cluster.or.b32 [%r2], %r5;",
    "xor": "red.relaxed.cluster.shared::cluster.xor.b32 [%r2], %r5;",
    "exch": "atom.relaxed.cluster.shared::cluster.exch.b32 %r10, [%r7], %r5;",
    "cas": "atom.relaxed.cluster.shared::cluster.cas.b32 %r10, [%r7], 0xA5A5A5A5, %r5;",
}
_PLAIN = {
    "store": "st.shared::cluster.b32 [%r7], %r5;",
    "store_generic": "st.b32 [%rd3], %r5;",
    "load": "st.shared::cta.b32 [%r8], %r5; {sync} ld.shared::cluster.b32 %r10, [%r7]; {sync} st.shared::cta.b32 [%r8], %r10;",
    "load_generic": "st.shared::cta.b32 [%r8], %r5; {sync} ld.b32 %r10, [%rd3]; {sync} st.shared::cta.b32 [%r8], %r10;",
    "store_relaxed": "st.relaxed.cluster.shared::cluster.b32 [%r7], %r5;",
    "atom_returns": "st.shared::cta.b32 [%r8], %r5; {sync} atom.shared::cluster.add.u32 %r10, [%r7], 3; {sync} "
    "st.shared::cta.b32 [%r8+128], %r10;",
}


def _async(name: str, form: str, value: str, size: int, lanes: int = 8) -> Program:
    """The first lanes of each CTA send values to the next CTA, whose barrier counts their bytes."""
    text = f"add.u32 %r11, %r1, 320; add.u32 %r12, %r2, 320; mad.lo.u32 %r7, %r3, {size}, %r2; setp.lt.u32 %p5, %r3, {lanes};\n"
    text += "mov.b64 %rd7, %rd5; mov.f32 %f6, %f5; add.u32 %r13, %r5, 11; add.u32 %r14, %r5, 22; add.u32 %r15, %r5, 33; "
    text += "add.u64 %rd8, %rd5, 5;\n"
    text += (
        first_thread(init("%r11", 1) + f"mbarrier.arrive.expect_tx.shared::cta.b64 %rd4, [%r11], {size * lanes};") + CLUSTER_SYNC
    )
    text += f"@%p5 {form} [%r7], {value}, [%r12];\n" + wait("%r11", 0)
    return _remote(name, text)


_STORES = {
    "b32": ("b32", "%r5", 4), "b64": ("b64", "%rd5", 8), "u32": ("u32", "%r5", 4), "s64": ("s64", "%rd5", 8), "f32": ("f32", "%f5", 4),
    "v2_b32": ("v2.b32", "{%r5, %r13}", 8), "v4_b32": ("v4.b32", "{%r5, %r13, %r14, %r15}", 16), "v2_b64": ("v2.b64", "{%rd5, %rd8}", 16),
}  # fmt: skip
_REDUCTIONS = (
    *((operation, kind) for operation in ("add", "min", "max") for kind in ("u32", "s32")), ("add", "u64"),
    ("inc", "u32"), ("dec", "u32"), ("and", "b32"), ("or", "b32"), ("xor", "b32"),
)  # fmt: skip


def _barrier_forms() -> Program:
    """Each CTA writes, arrives and waits in every spelling, then reads its neighbour."""
    forms = [
        ("barrier.cluster.arrive.release.aligned;", "barrier.cluster.wait.acquire.aligned;"),
        ("barrier.cluster.arrive;", "barrier.cluster.wait;"),
        ("fence.acq_rel.cluster; barrier.cluster.arrive.relaxed;", "barrier.cluster.wait; fence.acq_rel.cluster;"),
        ("barrier.cluster.arrive.release;", "barrier.cluster.wait.acquire;"),
    ]
    text = "mov.u32 %r10, %r5;\n"
    for arrive, leave in forms:
        text += f"st.shared::cta.b32 [%r8], %r10; {arrive}\n{leave} ld.shared::cluster.b32 %r11, [%r7]; "
        text += "mad.lo.u32 %r10, %r10, 3, %r11;\n"
        text += CLUSTER_SYNC
    return _remote("barrier_forms", text + "st.shared::cta.b32 [%r8], %r10;")


def _uneven_exit() -> Program:
    """Threads that have exited count as arrived."""
    body = "mov.u32 %r1, %tid.x; mov.u32 %r9, %cluster_ctarank; mad.lo.u32 %r2, %r9, 100, %r1;\n" + put(0, "%r2")
    body += (
        "setp.gt.u32 %p1, %r1, 40; @%p1 exit;\nbarrier.cluster.arrive; barrier.cluster.wait;\nadd.u32 %r2, %r2, 5000;\n"
        + put(0, "%r2")
    )
    return Program(
        "cluster_barrier_after_exits",
        body,
        (Buffer(np.zeros(128, np.uint32), True),),
        threads=64,
        grid=(2, 1, 1),
        cluster=(2, 1, 1),
    )


def programs() -> Iterator[Program]:
    for cluster, grid in (
        ((1, 1, 1), (3, 2, 1)), ((2, 1, 1), (4, 1, 1)), ((1, 2, 1), (2, 4, 1)), ((1, 1, 2), (1, 2, 4)), ((2, 2, 2), (4, 2, 2)),
        ((4, 1, 1), (8, 2, 1)),
        ((2, 3, 1), (4, 3, 1)), ((8, 1, 1), (8, 1, 1)),
    ):  # fmt: skip
        yield _ids(cluster, grid)
    for name, text in _ATOMS.items():
        yield _remote(f"atomic_{name}", text)
    for name, text in _PLAIN.items():
        yield _remote(name, text.replace("{sync}", CLUSTER_SYNC.strip()))
    yield _barrier_forms()
    for name, (form, value, size) in _STORES.items():
        yield _async(f"st_async_{name}", f"st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.{form}", value, size)
    for operation, kind in _REDUCTIONS:
        value, size = ("%rd5", 8) if kind == "u64" else ("%r5", 4)
        form = f"red.async.relaxed.cluster.shared::cluster.mbarrier::complete_tx::bytes.{operation}.{kind}"
        yield _async(f"red_async_{operation}_{kind}", form, value, size)
    yield _uneven_exit()
