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
    "scale id in the address",
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
    "requests for clusters in order",
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
    "scale id in the address": Practice(
        "a scale-factor address of `tcgen05.mma` is an address of tensor memory",
        "bits 30 and 31 are left out of the address",
        "CUTLASS keeps the scale-factor id of the instruction descriptor there (`mma_sm100_desc.hpp`)",
    ),
    "half a tensor map": Practice(
        "a tensor map is 128 bytes, and all of them are copied",
        "its first 64 bytes say everything; the others need not be written, and may hold anything",
        "measured: H200, tiled maps without and with 128-byte swizzle and other values in bytes 64 to 127, in parameters and in "
        "global memory, load the same bytes",
    ),
    "bulk stores at exit": Practice(
        "shared memory that a bulk store reads stays until `cp.async.bulk.wait_group` has found it read",
        "a CTA may exit before; what it stores is read all the same",
        "measured: H200, 20,000 CTAs of 64 KiB each that exit right after their bulk store, committed or not: every byte arrives; "
        "DeepGEMM exits so (a kernel that has no wait at all gets a warning)",
    ),
    "overwriting without a proxy fence": Practice(
        "a `fence.proxy.async` stands between an ordinary store and a later asynchronous write to the same place",
        "a barrier between them is enough where nothing reads the ordinary store asynchronously",
        "Triton loads tiles by TMA over words of shared memory that held ordinary values, with barriers alone",
    ),
    "equal stores": Practice(
        "two stores to one place that nothing orders are a race",
        "they are none where both store what is there already, nor are two copies of the same by one warp to one place; what stood there "
        "before the first, and who stores after the second, is held against both",
        "Triton lets all threads that hold a copy of an element store it; its sanitizer takes the later of two such copies for the one "
        "that counts",
    ),
    "registers before tcgen05.wait::ld": Practice(
        "a thread uses what `tcgen05.ld` loads once `tcgen05.wait::ld` has been executed",
        "the registers hold what was loaded; without a wait, whoever writes the tensor memory after that use gets a warning only",
        "kernels that shipped compilers emit use registers before the wait, or execute none (CuTe DSL, where the source has none); "
        "registers of a load are tracked like those of others",
    ),
    "replicated loads": Practice(
        "a store and a load of the same place by another thread that nothing orders are a race",
        "in global memory they are none where the storing thread has itself loaded that address by the same instruction, volatile or not: "
        "the other load was a copy",
        "Triton spreads a block of fewer elements than threads over all threads, of which one stores each element",
    ),
    "registers behind wgmma.fence": Practice(
        "a `wgmma.fence` stands between any other access to a register and a `wgmma` that uses it",
        "one before the first `wgmma` of a warp is enough",
        "nvcc moves the zeros of an accumulator behind the fence that the source has before it (`tests/sim/ptx/hopper_tile.ptx`), and "
        "such kernels run on H200",
    ),
    "moves before wgmma.wait_group": Practice(
        "a register that a `wgmma` works on is not accessed before `wgmma.wait_group`",
        "a `mov` may take it before, and moves what it is after the wait; nothing else may use it or the copy until then",
        "Triton 3.9 unpacks 16-bit accumulators before the wait, in all products with `out_dtype=tl.float16` for sm_90a; ptxas makes the "
        "`mov` wait",
    ),
    "barriers that are left": Practice(
        "an mbarrier is invalidated before its memory holds anything else",
        "its memory may be written, or initialised again, once nobody waits for it and no bytes are due",
        "Gluon gives the place of an mbarrier to tiles after its last use in the source, whether or not the program invalidates it",
    ),
    "loads and stores past the first cache": Practice(
        "`ld.cg`, `ld.cv`, `ld.lu`, `st.cg` and `st.wt` are weak accesses, which may not meet others that nothing orders",
        "in global memory they count as relaxed ones of scope gpu",
        "ptxas 13.0 makes `LDG.E.STRONG.GPU` and `STG.E.STRONG.GPU` of them, the same instructions as of relaxed ones, for sm_90a and "
        "sm_100a",
    ),
    "unwritten memory that does not matter": Practice(
        "shared and tensor memory is written before it is read",
        "it may be read where that changes no result: the launch is run again, with other bytes in all memory that nothing writes",
        "CUB's merge sort and the reductions of quack, which is written in CuTe DSL, load what nobody wrote and leave it out of their "
        "results",
    ),
    "one store by equal lanes": Practice(
        "each lane that executes a bulk or tensor store makes a copy of its own, and copies to one place race",
        "lanes that execute one store with the same operands make one copy; reductions are made once for each lane",
        "ptxas 13.0 makes one `UTMASTG` or `UBLKCP.G.S` of a store by a whole warp, and a loop of a reduction; the stores of CuTe DSL's "
        "GEMMs are by whole warps",
    ),
    "bytes announced for nobody": Practice(
        "bytes that an mbarrier has been told of arrive before its CTA ends",
        "a CTA may end while a barrier expects bytes of which no copy was issued, since nobody can be waiting for them",
        "producers of FlashAttention 4 announce the bytes of a further stage when they wait for their stages to be given back at the end",
    ),
    "own memory behind a relaxed cluster barrier": Practice(
        "`barrier.cluster.arrive.relaxed` makes nothing visible that was written before it",
        "what a thread wrote to the shared memory of its own CTA is visible there to the CTA's other threads",
        "pairs of DeepGEMM read the address that `tcgen05.alloc` wrote behind such a barrier, and run on B200",
    ),
    "no tcgen05.fence at all": Practice(
        "the two `tcgen05.fence` stand around whatever orders threads that hand over tensor memory",
        "of a kernel that has none of them none is missed; where it has one, each that is missing is a warning",
        "Triton 3.9 emits none, and its kernels run on B200",
    ),
    "loads before a relaxed cluster barrier": Practice(
        "`barrier.cluster.arrive.relaxed` orders nothing: who has read before it and who overwrites that behind it race",
        "an ordinary load from the shared memory of its own CTA has read before the barrier; a load from another CTA's has not, nor has "
        "a product or a copy",
        "Triton 3.9 has such a barrier between the loads of the address that `tcgen05.alloc` wrote and multicast copies over it",
    ),
    "requests for clusters in order": Practice(
        "two `clusterlaunchcontrol.try_cancel` that write to one place race unless the first one's mbarrier is waited for",
        "those of one warp write in the order in which they were issued; a load between the two waits is a race",
        "Triton's sanitizer takes such a pair for right",
    ),
}
