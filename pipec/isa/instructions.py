"""The instruction table: every NVVM intrinsic and inline-PTX template that lowering may emit, one row each.

A row has the LLVM name, the operands, the PTX spelling, the threads that must run it together and the section of the PTX ISA. To add an
instruction, add a row here, and its semantics in `pipec.sim`.
"""

from pipec.isa import global_memory
from pipec.isa.dtypes import BYTE_FLOATS
from pipec.isa.instruction import (
    BFLOAT2,
    CLUSTER,
    F32,
    GENERIC,
    GLOBAL,
    HALF2,
    I1,
    I16,
    I32,
    I64,
    SHARED,
    TENSOR,
    VOID,
    Instruction,
    intrinsic,
)
from pipec.isa.reductions import OPERATIONS
from pipec.isa.specials import SPECIALS
from pipec.vocabulary import CACHE_POLICIES, Converged


def _special_registers() -> list[Instruction]:
    rows = [("thread.x", "tid.x", "%tid.x"), ("lane", "laneid", "%laneid")]
    rows += [(row.name, row.llvm, row.ptx) for row in SPECIALS.values()]
    return [
        Instruction(name, f"llvm.nvvm.read.ptx.sreg.{llvm}", I32, (), ptx, "thread", "10", pure=True) for name, llvm, ptx in rows
    ]


def _remote_arrive(spelling: str) -> str:
    return (
        "{\\0A\\09.reg .b32 remote;\\0A\\09@$2 mapa.shared::cluster.u32 remote, $0, $1;"
        f"\\0A\\09@$2 {spelling} _, [remote];\\0A\\09}}"
    )


_REMOTE_STORE = (
    "{\\0A\\09.reg .b32 remote;\\0A\\09@$3 mapa.shared::cluster.u32 remote, $0, $1;"
    "\\0A\\09@$3 st.shared::cluster.b32 [remote], $2;\\0A\\09}"
)


_NOT_AWAITED = (
    "{\\0A\\09.reg .pred never, found;\\0A\\09setp.ne.b32 never, 0, 0;"
    "\\0A\\09@never mbarrier.test_wait.parity.shared.b64 found, [$0], $1;\\0A\\09}"
)


def _barriers() -> list[Instruction]:
    mbarrier = "9.7.13.15"
    return [
        intrinsic("mbarrier.init", "mbarrier.init.shared", VOID, (SHARED, I32), "mbarrier.init.shared.b64", "thread", mbarrier),
        intrinsic("mbarrier.arrive", "mbarrier.arrive.scope.cta.space.cta", I64, (SHARED, I32), "mbarrier.arrive.shared.b64",
                   "thread", mbarrier),
        intrinsic("mbarrier.arrive.expect_tx", "mbarrier.arrive.expect.tx.scope.cta.space.cta", I64, (SHARED, I32),
                   "mbarrier.arrive.expect_tx.shared.b64", "thread", mbarrier),
        # Without a branch, so that the warp stays converged.
        Instruction("mbarrier.arrive.if", "@$1 mbarrier.arrive.shared::cta.b64 _, [$0];", VOID, (SHARED, I1),
                    "mbarrier.arrive.shared::cta.b64", "thread", mbarrier, constraints="r,b"),
        Instruction("mbarrier.arrive.expect_tx.if", "@$2 mbarrier.arrive.expect_tx.shared::cta.b64 _, [$0], $1;", VOID, (SHARED, I32, I1),
                    "mbarrier.arrive.expect_tx.shared::cta.b64", "thread", mbarrier, constraints="r,r,b"),
        # On the corresponding barrier in another CTA of the cluster. Releasing at cluster scope costs a fence of all memory.
        *(Instruction(f"mbarrier.arrive.remote{scope}.if", _remote_arrive(spelling), VOID, (SHARED, I32, I1), spelling, "thread",
                      mbarrier, constraints="r,r,b")
          for scope, spelling in (("", "mbarrier.arrive.shared::cluster.b64"),
                                  (".cluster", "mbarrier.arrive.release.cluster.shared::cluster.b64"),
                                  (".relaxed", "mbarrier.arrive.relaxed.cluster.shared::cluster.b64"))),
        # Before relaxed arrivals: one fence replaces a release in each of them.
        Instruction("fence.cluster", "fence.acq_rel.cluster;", VOID, (), "fence.acq_rel.cluster", "thread", "9.7.13.4", constraints=""),
        Instruction("store.remote.if", _REMOTE_STORE, VOID, (SHARED, I32, I32, I1), "st.shared::cluster.b32", "thread", "9.7.9.12",
                    constraints="r,r,r,b"),
        # Also acquires what threads of another CTA did before they arrived.
        intrinsic("mbarrier.try_wait.parity.cluster", "mbarrier.try.wait.parity.scope.cluster.space.cta", I1, (SHARED, I32),
                   "mbarrier.try_wait.parity.acquire.cluster.shared.b64", "thread", mbarrier),
        intrinsic("mbarrier.try_wait.parity", "mbarrier.try.wait.parity.scope.cta.space.cta", I1, (SHARED, I32),
                   "mbarrier.try_wait.parity.shared.b64", "thread", mbarrier),
        # Never executed: marks a skipped wait in the PTX, and the assembler removes it.
        Instruction("mbarrier.not_awaited", _NOT_AWAITED, VOID, (SHARED, I32), "mbarrier.test_wait.parity.shared.b64", "thread",
                    mbarrier, constraints="r,r"),
        intrinsic("fence.mbarrier_init", "fence.mbarrier_init.release.cluster", VOID, (), "fence.mbarrier_init.release.cluster",
                   "thread", "9.7.13.4"),
        intrinsic("fence.proxy.async.shared", "fence.proxy.async.shared_cta", VOID, (), "fence.proxy.async.shared::cta", "thread",
                   "9.7.13.4"),
        intrinsic("griddepcontrol.wait", "griddepcontrol.wait", VOID, (), "griddepcontrol.wait", "thread", "9.7.13.13"),
        intrinsic("griddepcontrol.launch_dependents", "griddepcontrol.launch.dependents", VOID, (),
                   "griddepcontrol.launch_dependents", "thread", "9.7.13.13"),
        intrinsic("fence.proxy.async.global", "fence.proxy.async.global", VOID, (), "fence.proxy.async.global", "thread", "9.7.13.4"),
        intrinsic("mapa", "mapa.shared.cluster", CLUSTER, (SHARED, I32), "mapa.shared::cluster", "thread", "9.7.9.23"),
        # Relaxed: the arrival need not publish anything, which would cost a fence of all memory in every thread.
        intrinsic("barrier.cluster.arrive", "barrier.cluster.arrive.aligned", VOID, (), "barrier.cluster.arrive.aligned", "warp",
                   "9.7.13.3"),
        intrinsic("barrier.cluster.arrive.relaxed", "barrier.cluster.arrive.relaxed.aligned", VOID, (),
                   "barrier.cluster.arrive.relaxed.aligned", "warp", "9.7.13.3"),
        intrinsic("barrier.cluster.wait", "barrier.cluster.wait.aligned", VOID, (), "barrier.cluster.wait.aligned", "warp",
                   "9.7.13.3"),
        intrinsic("barrier.cta", "barrier.cta.sync.aligned.all", VOID, (I32,), "bar.sync", "cta", "9.7.13.1"),
        intrinsic("barrier.named", "barrier.cta.sync.aligned.count", VOID, (I32, I32), "bar.sync", "warp", "9.7.13.1"),
        *(intrinsic(f"barrier.{kind}", f"barrier.cta.red.{operation}.aligned.count", I1, (I32, I32, I1), f"bar.red.{operation}.pred",
                    "warp", "9.7.13.1") for kind, operation in (("any", "or"), ("all", "and"))),
        *(intrinsic(f"vote.{kind}", f"vote.{kind}.sync", I1, (I32, I1), f"vote.sync.{kind}.pred", "warp", "9.7.13.8")
          for kind in ("any", "all")),
        intrinsic("barrier.warp", "bar.warp.sync", VOID, (I32,), "bar.warp.sync", "warp", "9.7.13.2"),
        intrinsic("elect", "elect.sync", "{ i32, i1 }", (I32,), "elect.sync", "warp", "9.7.13.14"),
        # A template, so that LLVM knows nothing about the result.
        Instruction("copy", "mov.b32 $0, $1;", I32, (I32,), "mov.b32", "thread", "9.7.9.1", constraints="=r,r", pure=True),
        # The lowest n bits, all of them from 32 on.
        Instruction("bits.lowest", "bmsk.clamp.b32 $0, 0, $1;", I32, (I32,), "bmsk.clamp.b32", "thread", "9.7.1.22", constraints="=r,r",
                    pure=True),
        intrinsic("shuffle.idx", "shfl.sync.idx.i32", I32, (I32, I32, I32, I32), "shfl.sync.idx.b32", "warp", "9.7.9.6"),
        intrinsic("shuffle.bfly", "shfl.sync.bfly.i32", I32, (I32, I32, I32, I32), "shfl.sync.bfly.b32", "warp", "9.7.9.6"),
        intrinsic("setmaxnreg.inc", "setmaxnreg.inc.sync.aligned.u32", VOID, ("i32=",), "setmaxnreg.inc.sync.aligned.u32",
                   "warpgroup", "9.7.20.5"),
        intrinsic("setmaxnreg.dec", "setmaxnreg.dec.sync.aligned.u32", VOID, ("i32=",), "setmaxnreg.dec.sync.aligned.u32",
                   "warpgroup", "9.7.20.5"),
    ]  # fmt: skip


def _matrix_stores() -> list[Instruction]:
    """8 x 8 matrices of 16-bit elements, one per register: lane l provides the address of row l % 8 of matrix l // 8, or with `.trans`
    of its column l % 8."""
    return [
        intrinsic(f"stmatrix.x{count}{way}", f"stmatrix.sync.aligned.m8n8.x{count}{way}.b16.p3", VOID, (SHARED, *(I32,) * count),
                   f"stmatrix.sync.aligned.m8n8.x{count}{way}.shared.b16", "warp", "9.7.14.5.16")
        for count in (2, 4)
        for way in ("", ".trans")
    ]  # fmt: skip


def _bulk_copies() -> list[Instruction]:
    section = "9.7.9.25"
    rows = [
        # The intrinsic prints the instruction twice (once as .param), hence the template.
        Instruction("prefetch.tensormap", "prefetch.tensormap [$0];", VOID, (GENERIC,), "prefetch.tensormap", "thread", "9.7.9.15",
                    constraints="l"),
        intrinsic("bulk.commit_group", "cp.async.bulk.commit.group", VOID, (), "cp.async.bulk.commit_group", "thread", section),
        intrinsic("bulk.wait_group", "cp.async.bulk.wait.group", VOID, ("i32=",), "cp.async.bulk.wait_group", "thread", section),
        intrinsic("bulk.wait_group.read", "cp.async.bulk.wait.group.read", VOID, ("i32=",), "cp.async.bulk.wait_group.read",
                   "thread", section),
    ]  # fmt: skip
    # The cache policy of copies; ptxas turns it into a constant.
    rows += [
        Instruction(f"cache.{policy}", f"createpolicy.fractional.L2::{policy}.b64 $0, 1.0;", I64, (),
                    f"createpolicy.fractional.L2::{policy}.b64", "thread", "9.7.9.18", constraints="=l", pure=True)
        for policy in CACHE_POLICIES
    ]  # fmt: skip
    for rank in range(2, 6):
        coordinates = (I32,) * rank
        rows.append(
            intrinsic(f"tma.load.{rank}d", f"cp.async.bulk.tensor.g2s.cta.tile.{rank}d", VOID,
                       (SHARED, SHARED, GENERIC, *coordinates, I64, "i1="),
                       f"cp.async.bulk.tensor.{rank}d.shared::cta.global.tile.mbarrier::complete_tx::bytes", "thread", section)
        )  # fmt: skip
        # Into shared memory of the cluster: barrier in any CTA, mask of CTAs, cache policy, multicast, with a policy, CTA group (0: own)
        rows.append(
            intrinsic(f"tma.load.cluster.{rank}d", f"cp.async.bulk.tensor.g2s.tile.{rank}d", VOID,
                       (CLUSTER, SHARED, GENERIC, *coordinates, I16, I64, "i1=", "i1=", "i32="),
                       f"cp.async.bulk.tensor.{rank}d.shared::cluster.global.tile.mbarrier::complete_tx::bytes", "thread", section)
        )  # fmt: skip
        rows.append(
            intrinsic(f"tma.store.{rank}d", f"cp.async.bulk.tensor.s2g.tile.{rank}d", VOID,
                       (SHARED, GENERIC, *coordinates, I64, "i1="),
                       f"cp.async.bulk.tensor.{rank}d.global.shared::cta.tile.bulk_group", "thread", section)
        )  # fmt: skip
        rows += [
            intrinsic(f"tma.reduce.{name}.{rank}d", f"cp.async.bulk.tensor.reduce.{name}.tile.{rank}d", VOID,
                       (SHARED, GENERIC, *coordinates, I64, "i1="),
                       f"cp.reduce.async.bulk.tensor.{rank}d.global.shared::cta.{name}.tile.bulk_group", "thread", section)
            for name in OPERATIONS
        ]  # fmt: skip
    return rows


def _launch_control() -> list[Instruction]:
    """The response is 128 opaque bits; the granted CTA is undefined if there is none, so reading it is predicated."""
    query = "clusterlaunchcontrol.query_cancel"
    template = (
        "{\\0A\\09.reg .b128 answer;\\0A\\09.reg .pred granted;\\0A\\09ld.shared.b128 answer, [$1];\\0A\\09"
        f"{query}.is_canceled.pred.b128 granted, answer;\\0A\\09mov.b32 $0, -1;\\0A\\09"
        f"@granted {query}.get_first_ctaid::x.b32.b128 $0, answer;\\0A\\09}}"
    )
    return [
        intrinsic("clc.try_cancel", "clusterlaunchcontrol.try_cancel.async.shared", VOID, (SHARED, SHARED),
                   "clusterlaunchcontrol.try_cancel.async.shared::cta.mbarrier::complete_tx::bytes.b128", "thread", "9.7.13.17",
                   "sm_100a"),
        intrinsic("clc.try_cancel.multicast", "clusterlaunchcontrol.try_cancel.async.multicast.shared", VOID, (SHARED, SHARED),
                   "clusterlaunchcontrol.try_cancel.async.shared::cta.mbarrier::complete_tx::bytes.multicast::cluster::all.b128",
                   "thread", "9.7.13.17", "sm_100a"),
        Instruction("clc.first_block", template, I32, (SHARED,), query, "thread", "9.7.13.18", "sm_100a", "=&r,r"),
    ]  # fmt: skip


def _async_copies() -> list[Instruction]:
    """Non-bulk copies of one element. The size present and the predicate are run-time values, hence the template."""
    rows = [
        Instruction(f"cp.async.{size}", f"@$3 cp.async.ca.shared.global [$0], [$1], {size}, $2;", VOID, (SHARED, GLOBAL, I32, I1),
                    "cp.async.ca.shared.global", "thread", "9.7.9.25.3", constraints="r,l,r,b")
        for size in (4, 8)
    ]  # fmt: skip
    rows.append(
        intrinsic("cp.async.mbarrier.arrive", "cp.async.mbarrier.arrive.noinc.shared", VOID, (SHARED,),
                   "cp.async.mbarrier.arrive.noinc.shared.b64", "thread", "9.7.13.15.17")
    )  # fmt: skip
    return rows


def _tensor_memory_of(group: int) -> list[Instruction]:
    """The CTA group: this CTA, or the pair."""

    def row(name: str, llvm: str, operands: tuple[str, ...], ptx: str, participation: Converged, section: str) -> Instruction:
        ptx = f"tcgen05.{ptx}".replace("cta_group", f"cta_group::{group}")
        return intrinsic(
            f"tcgen05.{name}.cg{group}", f"tcgen05.{llvm}.cg{group}", VOID, operands, ptx, participation, section, "sm_100a"
        )

    commit = "commit.cta_group.mbarrier::arrive::one.shared::cluster"
    return [
        row("alloc", "alloc.shared", (SHARED, I32), "alloc.cta_group.sync.aligned.shared::cta.b32", "warp", "9.7.16.7"),
        row("dealloc", "dealloc", (TENSOR, I32), "dealloc.cta_group.sync.aligned.b32", "warp", "9.7.16.7"),
        row("relinquish", "relinq.alloc.permit", (), "relinquish_alloc_permit.cta_group.sync.aligned", "warp", "9.7.16.7"),
        row("commit", "commit.shared", (SHARED,), f"{commit}.b64", "thread", "9.7.16.12"),
        row("commit.multicast", "commit.mc.shared", (SHARED, I16), f"{commit}.multicast::cluster.b64", "thread", "9.7.16.12"),
        row("cp.32x128b.warpx4", "cp.32x128b_warpx4", (TENSOR, I64), "cp.cta_group.32x128b.warpx4", "thread", "9.7.16.9"),
    ]


def _tensor_memory() -> list[Instruction]:
    def row(name: str, llvm: str, operands: tuple[str, ...], ptx: str, participation: Converged, section: str) -> Instruction:
        return intrinsic(name, llvm, VOID, operands, ptx, participation, section, "sm_100a")

    rows = [
        *(row for group in (1, 2) for row in _tensor_memory_of(group)),
        # d, a descriptor, b descriptor, instruction descriptor, accumulate, kind, cta group, collector use
        row("tcgen05.mma", "tcgen05.mma.shared", (TENSOR, I64, I64, I32, I1, "i32=", "i32=", "i32="),
            "tcgen05.mma.cta_group::1.kind", "thread", "9.7.16.10"),
        row("tcgen05.mma.tensor", "tcgen05.mma.tensor", (TENSOR, TENSOR, I64, I32, I1, "i32=", "i32=", "i32="),
            "tcgen05.mma.cta_group::1.kind", "thread", "9.7.16.10"),
        # d, a descriptor, b descriptor, instruction descriptor, accumulate, scales of a, scales of b, cta group, collector use
        *(row(f"tcgen05.mma.{kind}", f"tcgen05.mma.shared.{kind}.block_scale{block}",
              (TENSOR, I64, I64, I32, I1, TENSOR, TENSOR, "i32=", "i32="),
              f"tcgen05.mma.cta_group::1.kind::{kind}.block_scale{block}", "thread", "9.7.16.10")
          for kind, block in (("mxf8f6f4", ""), ("mxf4", ""), ("mxf4nvf4", ".block16"))),
        row("tcgen05.wait.st", "tcgen05.wait.st", (), "tcgen05.wait::st.sync.aligned", "warp", "9.7.16.8"),
        row("tcgen05.fence.before", "tcgen05.fence.before.thread.sync", (), "tcgen05.fence::before_thread_sync", "thread",
            "9.7.16.11"),
        row("tcgen05.fence.after", "tcgen05.fence.after.thread.sync", (), "tcgen05.fence::after_thread_sync", "thread", "9.7.16.11"),
    ]  # fmt: skip
    for width in (1, 2, 4, 8, 16, 32, 64):
        for words in (I32, F32):
            rows += [_tensor_load("32x32b", width, words, ""), _tensor_load("16x32bx2", width, words, f", ${width + 1}")]
        rows.append(_tensor_store(width))
    return rows


def _tensor_load(shape: str, width: int, words: str, split: str) -> Instruction:
    """A load with its wait in one template: LLVM could move uses of the registers above a separate wait. `words`: their type."""
    registers = ", ".join(f"${index}" for index in range(width))
    spelling = f"tcgen05.ld.sync.aligned.{shape}.x{width}.b32"
    template = f"{spelling} {{{registers}}}, [${width}]{split};\\0A\\09tcgen05.wait::ld.sync.aligned;"
    result = words if width == 1 else f"{{ {', '.join([words] * width)} }}"
    constraints = ",".join(["=r" if words == I32 else "=f"] * width) + ",r" + (",n" if split else "")
    operands = (TENSOR, "i64=") if split else (TENSOR,)
    return Instruction(
        f"tcgen05.ld.{shape}.x{width}.{words}", template, result, operands, spelling, "warp", "9.7.16.8", "sm_100a", constraints
    )


def _tensor_store(width: int) -> Instruction:
    """A template, which takes its words separately: the intrinsic needs a vector, which LLVM would only split again."""
    spelling = f"tcgen05.st.sync.aligned.32x32b.x{width}.b32"
    registers = ", ".join(f"${index}" for index in range(1, width + 1))
    constraints = ",".join(["r"] * (width + 1))
    return Instruction(
        f"tcgen05.st.32x32b.x{width}", f"{spelling} [$0], {{{registers}}};", VOID, (TENSOR, *[I32] * width), spelling, "warp",
        "9.7.16.8", "sm_100a", constraints,
    )  # fmt: skip


def _register_mma() -> list[Instruction]:
    """Templates, because LLVM keeps them in order with those of pipec.isa.wgmma, which use registers that it does not see."""
    section = "9.7.15"
    fence, commit, wait = "wgmma.fence.sync.aligned", "wgmma.commit_group.sync.aligned", "wgmma.wait_group.sync.aligned"
    return [
        Instruction("wgmma.fence", f"{fence};", VOID, (), fence, "warpgroup", section, "sm_90a", ""),
        Instruction("wgmma.commit_group", f"{commit};", VOID, (), commit, "warpgroup", section, "sm_90a", ""),
        Instruction("wgmma.wait_group", f"{wait} $0;", VOID, ("i32=",), wait, "warpgroup", section, "sm_90a", "n"),
    ]


def _conversions() -> list[Instruction]:
    section = "9.7.9.21"
    return [
        intrinsic("cvt.bf16x2.f32", "ff2bf16x2.rn", BFLOAT2, (F32, F32), "cvt.rn.bf16x2.f32", "thread", section),
        intrinsic("cvt.f16x2.f32", "ff2f16x2.rn", HALF2, (F32, F32), "cvt.rn.f16x2.f32", "thread", section),
        *(
            intrinsic(f"cvt.{x}x2.f32", f"ff.to.{x}x2.rn", I16, (F32, F32), f"cvt.rn.satfinite.{x}x2.f32", "thread", section)
            for x in BYTE_FLOATS
        ),
        *(
            intrinsic(f"cvt.f16x2.{x}x2", f"{x}x2.to.f16x2.rn", HALF2, (I16,), f"cvt.rn.f16x2.{x}x2", "thread", section)
            for x in BYTE_FLOATS
        ),
        # LLVM would fold a plain fpext into `add.rn.f32.f16` and similar instructions, which few PTX tools support.
        Instruction(
            "cvt.f32.f16", "cvt.f32.f16 $0, $1;", F32, ("half",), "cvt.f32.f16", "thread", section, constraints="=f,h", pure=True
        ),
        intrinsic("cvt.s32.f32", "f2i.rz", I32, (F32,), "cvt.rzi.s32.f32", "thread", section),
        intrinsic("cvt.u32.f32", "f2ui.rz", I32, (F32,), "cvt.rzi.u32.f32", "thread", section),
        intrinsic("cvt.s64.f32", "f2ll.rz", I64, (F32,), "cvt.rzi.s64.f32", "thread", section),
        intrinsic("cvt.u64.f32", "f2ull.rz", I64, (F32,), "cvt.rzi.u64.f32", "thread", section),
    ]


def _functions() -> list[Instruction]:
    """Single-precision functions; errors as stated in the PTX ISA: ex2 2 ulp, lg2 2^-22, rsqrt 2^-22.9, rcp.approx 1 ulp, tanh 2^-11 of
    the value."""
    section = "9.7.3"
    names = ("ex2.approx", "ex2.approx.ftz", "lg2.approx", "rsqrt.approx", "sqrt.rn", "rcp.rn", "rcp.approx.ftz")
    rows = [intrinsic(name, f"{name}.f", F32, (F32,), f"{name}.f32", "thread", section) for name in names]
    rows.append(Instruction("tanh.approx", "tanh.approx.f32 $0, $1;", F32, (F32,), "tanh.approx.f32", "thread", section,
                            constraints="=f,f", pure=True))  # fmt: skip
    return rows


def _rows() -> list[Instruction]:
    return [
        *_special_registers(), *_barriers(), *_bulk_copies(), *_launch_control(),
        *_matrix_stores(),
        *_async_copies(), *_tensor_memory(), *_register_mma(), *_conversions(),
        *_functions(),
        *global_memory.guarded_memory(), *global_memory.ordered_memory(), *global_memory.reductions(), *global_memory.watchdog(),
    ]  # fmt: skip


INSTRUCTIONS: dict[str, Instruction] = {row.name: row for row in _rows()}
