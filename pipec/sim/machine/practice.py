"""Where the simulator can hold a kernel either to what PTX guarantees or to what shipped compilers rely on.

A kernel that violates PTX in one of these ways is rejected under the rules "documents"; under "practice" it runs as chips are known to
run it, and the result lists what it relied on.
"""

from __future__ import annotations

from typing import Literal

from pipec.record import record

Rules = Literal["documents", "practice"]
PracticeName = Literal[
    "quarter-relative lanes",
    "lanes of the pair",
    "scale id in the address",
    "descriptor without its constant",
    "half a tensor map",
    "bulk stores at exit",
    "overwriting without a proxy fence",
    "equal stores",
    "registers before tcgen05.wait::ld",
    "replicated loads",
    "registers behind wgmma.fence",
    "moves before wgmma.wait_group",
    "barriers that are left",
    "loads and stores past the first cache",
    "unwritten memory that does not matter",
    "one store by equal lanes",
    "bytes announced for nobody",
    "own memory behind a relaxed cluster barrier",
    "no tcgen05.fence at all",
    "loads before a relaxed cluster barrier",
    "arrivals before a relaxed cluster barrier",
    "requests for clusters in order",
    "reads before another CTA's copy",
    "allocations of a pair meet",
    "cluster arrivals without a wait",
    "cluster arrivals in advance",
    "registers set without lanes that exit",
    "registers set by warps alone",
    "waits of onlookers",
    "loads that an atomic checks",
    "mbarriers of a CTA without a fence",
    "mbarriers of no count",
    "stores before an arrival of copies",
]


@record
class Practice:
    """One row of the table in docs/fidelity.md: what PTX requires, what is done instead, and the evidence for it."""

    promised: str
    done: str
    evidence: str


PRACTICES: dict[PracticeName, Practice] = {
    "quarter-relative lanes": Practice(
        "`tcgen05.ld` and `st` of warp w start in lane 32 * (w % 4)",
        "lane 0 or 16 from any warp counts from the quarter of that warp",
        "DeepGEMM and Mojo pass lane 0 from all four warps, and their kernels run on B200",
    ),
    "lanes of the pair": Practice(
        "a CTA has lanes 0 to 127 of tensor memory",
        "in the second CTA of a pair, lanes 128 to 255 are its lanes 0 to 127",
        "opengemm 0.1.4 counts the rows of a pair's accumulator, and is tuned and tested on B200",
    ),
    "scale id in the address": Practice(
        "a scale-factor address of `tcgen05.mma` is an address of tensor memory",
        "bits 30 and 31 of the address are ignored",
        "CUTLASS keeps the scale-factor id of the instruction descriptor there (`mma_sm100_desc.hpp`)",
    ),
    "descriptor without its constant": Practice(
        "bits 46 to 48 of a `tcgen05` matrix descriptor hold 1",
        "they may hold 0",
        "JAX 0.10's Mosaic GPU, which is made for Blackwell, leaves them 0 in all of its descriptors",
    ),
    "half a tensor map": Practice(
        "a tensor map is 128 bytes, and all of them are copied",
        "only its first 64 bytes matter; the others need not be written, and may hold anything",
        "measured: H200, tiled maps without and with 128-byte swizzle and other values in bytes 64 to 127, in parameters and in "
        "global memory, load the same bytes",
    ),
    "bulk stores at exit": Practice(
        "shared memory that a bulk store reads must stay valid until `cp.async.bulk.wait_group` shows that it was read",
        "a CTA may exit before that; the store still reads its data",
        "measured: H200, 20,000 CTAs of 64 KiB each that exit right after their bulk store, committed or not: every byte arrives; "
        "DeepGEMM exits this way (a kernel without any wait, or whose wait after its last commit leaves that pending, gets a warning)",
    ),
    "overwriting without a proxy fence": Practice(
        "a `fence.proxy.async` is required between an ordinary store and a later asynchronous write to the same place",
        "a barrier between them suffices where no asynchronous operation reads the ordinary store",
        "Triton loads tiles by TMA over words of shared memory that held ordinary values, with barriers alone",
    ),
    "equal stores": Practice(
        "two unordered stores to one place are a race",
        "they are not where both store the value that is there already (of the lanes that meet in these places), nor are two copies of "
        "the same source by one warp to one place; accesses before the first and stores after the second are checked against both",
        "in Triton all threads that hold a copy of an element store it; its sanitizer assumes that the later of two such copies "
        "counts; threads beyond a tile of FlashAttention 4's preprocessing store rows of the next tile, as its own threads do",
    ),
    "registers before tcgen05.wait::ld": Practice(
        "a thread uses what `tcgen05.ld` loads once `tcgen05.wait::ld` has been executed",
        "the registers hold the loaded values; without a wait, a write to the tensor memory after that use gets only a warning",
        "kernels that shipped compilers emit use registers before the wait, or have none (CuTe DSL, where the source has none); the "
        "hardware tracks registers of a load like any others",
    ),
    "replicated loads": Practice(
        "an unordered store and load of the same place by two threads are a race",
        "in global memory they are not where the storing thread has itself loaded that address by the same instruction, volatile or "
        "not: the other load was a copy",
        "Triton spreads a block of fewer elements than threads over all threads, of which one stores each element",
    ),
    "registers behind wgmma.fence": Practice(
        "a `wgmma.fence` is required between any other access to a register and a `wgmma` that uses it",
        "one before the first `wgmma` of a warp suffices",
        "nvcc moves the zeroing of an accumulator behind the fence that follows it in the source (`tests/sim/ptx/hopper_tile.ptx`), "
        "and such kernels run on H200",
    ),
    "moves before wgmma.wait_group": Practice(
        "a register that a `wgmma` uses is not accessed before `wgmma.wait_group`",
        "a `mov` may read it before that, and copies its value after the wait; nothing else may use it or the copy until then",
        "Triton 3.9 unpacks 16-bit accumulators before the wait, in all products with `out_dtype=tl.float16` for sm_90a; ptxas makes the "
        "`mov` wait",
    ),
    "barriers that are left": Practice(
        "an mbarrier is invalidated before its memory holds anything else",
        "its memory may be written, or initialised again, once no thread waits on it and no bytes are outstanding",
        "Gluon reuses the memory of an mbarrier for tiles after its last use in the source, whether or not the program invalidates it",
    ),
    "loads and stores past the first cache": Practice(
        "`ld.cg`, `ld.cv`, `ld.lu`, `st.cg` and `st.wt` are weak accesses, which race with unordered ones",
        "in global memory they count as relaxed accesses at gpu scope",
        "ptxas 13.0 makes `LDG.E.STRONG.GPU` and `STG.E.STRONG.GPU` of them, the same instructions as for relaxed ones, on sm_90a and "
        "sm_100a",
    ),
    "unwritten memory that does not matter": Practice(
        "shared and tensor memory is written before it is read",
        "it may be read where that changes no result: the launch is repeated with other bytes in all unwritten memory",
        "CUB's merge sort and the reductions of quack, which is written in CuTe DSL, load unwritten memory and do not use it in their "
        "results",
    ),
    "one store by equal lanes": Practice(
        "each lane that executes a bulk or tensor store makes a copy of its own, and copies to one place race",
        "lanes that execute one store with the same operands make one copy; reductions are made once for each lane",
        "ptxas 13.0 emits one `UTMASTG` or `UBLKCP.G.S` for a store by a whole warp, and a loop for a reduction; in CuTe DSL's GEMMs "
        "whole warps execute the stores",
    ),
    "bytes announced for nobody": Practice(
        "bytes announced to an mbarrier arrive before its CTA exits",
        "a CTA may exit while a barrier expects bytes for which no copy was issued, since no thread can be waiting for them",
        "producers of FlashAttention 4 announce the bytes of a further stage when they wait for the release of their stages at the end",
    ),
    "own memory behind a relaxed cluster barrier": Practice(
        "`barrier.cluster.arrive.relaxed` does not make earlier writes visible",
        "a thread's writes to the shared memory of its own CTA, and the mbarriers it initialises there, are visible to the CTA's "
        "other threads",
        "DeepGEMM's CTA pairs read the address that `tcgen05.alloc` wrote after such a barrier, and run on B200",
    ),
    "no tcgen05.fence at all": Practice(
        "the two `tcgen05.fence` surround the synchronisation between threads that hand over tensor memory",
        "a kernel without any of them gets no warning; if it has one, each missing one is a warning",
        "Triton 3.9 emits none, and its kernels run on B200",
    ),
    "loads before a relaxed cluster barrier": Practice(
        "`barrier.cluster.arrive.relaxed` orders nothing: a read before it races with a write to the same place after it",
        "an ordinary load from the shared memory of the own CTA completes before the barrier; a load from another CTA's does not, nor "
        "does an MMA or a copy",
        "Triton 3.9 has such a barrier between the loads of the address that `tcgen05.alloc` wrote and multicast copies over it",
    ),
    "arrivals before a relaxed cluster barrier": Practice(
        "`barrier.cluster.arrive.relaxed` orders nothing: an arrival before it at an mbarrier of another CTA may come after the exit of "
        "that CTA",
        "it comes before the exit; a commit or a copy need not",
        "JAX 0.10's Mosaic GPU ends kernels of CTA pairs with such a barrier, behind arrivals that nobody waits for",
    ),
    "requests for clusters in order": Practice(
        "two `clusterlaunchcontrol.try_cancel` that write to one place race unless the first one's mbarrier is waited for",
        "those of one warp write in issue order; a load between the two waits is a race",
        "Triton's sanitizer accepts such a pair",
    ),
    "reads before another CTA's copy": Practice(
        "a wait for bytes that an operation of another CTA counts shows that this operation is complete, and nothing of what preceded it",
        "reads that were ordered before the operation was issued are over, so that what they read may be overwritten",
        "Triton 3.9's tutorial of GEMMs by CTA pairs (`14-multicta.py`): the leader requests a cluster once both CTAs have read the "
        "numbers of their tile, and the response lets the other CTA overwrite them",
    ),
    "allocations of a pair meet": Practice(
        "the other CTA of a pair is known to run before `tcgen05.alloc.cta_group::2`",
        "the allocation itself waits for the other CTA's",
        "CUTLASS's tutorials of GEMMs by pairs (`04_mma_tma_2sm_sm100.cu`) allocate before their only cluster barrier, which stands "
        "before the first copy and MMA",
    ),
    "cluster arrivals without a wait": Practice(
        "a thread waits for a phase of the cluster barrier before it arrives in the next one",
        "it may arrive without having waited once something else has shown it that the first phase is complete",
        "fbtriton 3.7's warp-specialised GEMM by pairs: the warps of its partitions arrive without waiting, and a warp that has waited "
        "lets them go on by a barrier of the CTA",
    ),
    "cluster arrivals in advance": Practice(
        "a thread waits for a phase of the cluster barrier before it arrives in the next one",
        "a warp may arrive twice if it then waits twice; arrivals are counted, so that the first wait shows nothing, and the second one "
        "what two would",
        "FlashAttention 4.0.0b36's kernel for latent attention with cluster launch control creates a pipeline, with a barrier of the "
        "cluster, between the two halves of another one's",
    ),
    "registers set without lanes that exit": Practice(
        "all lanes of a warp execute `setmaxnreg` together",
        "lanes that go on to their exit need not",
        "DeepGEMM's `sm90_tf32_hc_prenorm_gemm` has it in a branch of the elected lane; ptxas 13.0 makes `WARPSYNC.ALL` and "
        "`USETMAXREG` of it there, and lets the other lanes exit",
    ),
    "registers set by warps alone": Practice(
        "all warps of a warpgroup execute the same `setmaxnreg`",
        "each of them may execute another one, or none",
        "CUTLASS's example of attention in CuTe DSL for Blackwell (`fmha.py`) has one in the branch of each warp of its last warpgroup: "
        "for loads, for MMAs and for nothing",
    ),
    "waits of onlookers": Practice(
        "a warp that waits for phases of an mbarrier by parity may fall behind by any number of them, and then waits for ever",
        "one that arrives nowhere, sets nothing going and does nothing more than wait until it exits keeps up",
        "TileLang 0.1.15 lets all four warps of the producer's warpgroup wait for each stage, of which one then loads",
    ),
    "loads that an atomic checks": Practice(
        "an ordinary load and an unordered atomic operation on the same place are a race",
        "they are not where the loaded value is what a compare-and-swap expects, or decides whether an atomic minimum, maximum, `and`, "
        "`or` or compare-and-swap of the same address follows: it may be any earlier one",
        "CUDA's programming guide makes atomic operations of such a load and a loop around `atomicCAS`",
    ),
    "mbarriers of a CTA without a fence": Practice(
        "a `fence.mbarrier_init` or `fence.proxy.async` stands between the initialisation of an mbarrier and copies that signal it",
        "in a launch without clusters none is required, with clusters its absence is a warning",
        "Triton 3.9 emits none in kernels without clusters, which run on H200 and B200",
    ),
    "mbarriers of no count": Practice(
        "an mbarrier is initialised with a count of at least 1",
        "a count of 0 is no error where nobody uses that mbarrier; whoever does finds none",
        "Humming 0.1.15 counts 0 threads for the barriers of loads that a kernel does not have",
    ),
    "stores before an arrival of copies": Practice(
        "`cp.async.mbarrier.arrive` shows that the thread's copies are complete, and nothing else of what it did",
        "it also shows what the thread has stored to its CTA's shared memory before",
        "the latent attention of CUTLASS's CuTe DSL, and of tokenspeed-mla 2.0 after it, stores zeros in place of page numbers that a "
        "lane does not copy",
    ),
}
