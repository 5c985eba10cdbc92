"""The relevant instructions for the protocol, by opcode: one row each.

Everything that could block, arrive at a barrier or change one has a row of its own; an instruction without a row is not understood, and
its kernel is not read.
"""

from enum import Enum
from functools import cache

from pipec.verify.reader.text.instructions import Instruction


class Kind(Enum):
    """The effect of an instruction on the protocol, in the words of docs/proof.md."""

    COMPUTE = (
        "defines its first operand; integer arithmetic is followed, comparisons of `f32` are functions of the bits compared, "
        "other results are unknown"
    )
    EFFECT = "nothing: nobody waits for it, and it signals nobody"
    MEET = "the lanes of the warp reconverge"
    MEET_COMPUTE = (
        "the lanes of the warp reconverge; the results of `elect.sync` and `shfl.sync.idx` are followed, that of a `vote.sync` in a "
        "process of one warp is unknown but the same for all, others are unknown"
    )
    BRANCH = "a branch, on a value that all threads of a process have in common"
    END = "the threads exit; lanes of a warp, all threads of a block and of a cluster meet without them"
    INIT = (
        "one thread initialises a barrier, in a variable in shared memory, for a constant number of arrivals, before the first "
        "synchronisation of all threads"
    )
    GIVE_UP = "one thread ends a barrier, once; all threads have synchronised, and none touches a barrier after that"
    ARRIVE = (
        "arrivals by the threads that execute it; `expect_tx`: bytes announced with it; a remote address: at that CTA's barrier"
    )
    EXPECT = "bytes announced"
    TRY = (
        "in a loop that ends when it succeeds, a wait for the parity; elsewhere a look, for which the phase before must be known to be "
        "complete, and both outcomes must lead to the next such wait on the ring or past it; never executed, where nobody reads the "
        "result, it names a use that the process goes past without a wait"
    )
    COPIES_ARRIVE = "an arrival by each thread, later"
    COMMIT = "an arrival by each thread, later; `multicast`: at the barriers of all CTAs in the mask"
    LOAD = "delivers the bytes of the copy to its barrier; `multicast`: to those of all CTAs in the mask"
    ANSWER = (
        "delivers 16 bytes to its barrier; what is read from the answer is a function of the request's number; one role asks, and again "
        "only where the last request was granted"
    )
    SYNC = "an arrival at a named barrier and the wait for it"
    VOTE = "as `bar.sync`; the result is unknown, the same for all threads that meet"
    SIGN = "an arrival at a named barrier"
    CLUSTER_ARRIVE = "an arrival at the barrier of the cluster"
    CLUSTER_WAIT = "the wait for the barrier of the cluster"
    GRID_WAIT = "a named assumption about the preceding grid"
    MORE_REGISTERS = "a named assumption about registers; the lanes of the warp reconverge"
    ALLOCATE = "a named assumption about tensor memory; the lanes of the warp reconverge"
    FREE = "gives tensor memory back; the lanes of the warp reconverge"
    OBSERVE = "defines its first operand, which is unknown; in a loop, a wait for a turn or a named assumption"
    PUBLISH = "nothing, or passes a turn on"
    UNREAD = "not read"

    __hash__ = object.__hash__  # members compare by identity; Enum's hash costs a call per table lookup


COMPUTING = frozenset({Kind.COMPUTE, Kind.MEET_COMPUTE, Kind.OBSERVE, Kind.VOTE})
MEETINGS = frozenset({Kind.MEET, Kind.MEET_COMPUTE, Kind.MORE_REGISTERS, Kind.ALLOCATE, Kind.FREE})
_NO_EVENTS = {
    Kind.COMPUTE,
    Kind.EFFECT,
    Kind.BRANCH,
    Kind.END,
    Kind.INIT,
    Kind.GRID_WAIT,
    Kind.OBSERVE,
    Kind.PUBLISH,
    Kind.UNREAD,
}
EVENTS = frozenset(Kind) - _NO_EVENTS

_COMPUTE = """abs activemask add addc and bfe bfi bfind bmsk brev bswap clz cnot copysign cos createpolicy cvt cvta div dp2a dp4a ex2 fma
 fns getctarank isspacep istypep ld ldu lg2 lop3 mad madc mapa max min mov mul mul24 neg not or popc prmt rcp rem rsqrt sad selp set setp
 shf shl shr sin slct sqrt sub subc suld szext tanh testp tex tld4 txq vabsdiff vadd vmad vmax vmin vset vshl vshr vsub xor atom alloca
 vadd2 vadd4 vsub2 vsub4 vavrg2 vavrg4 vmin2 vmin4 vmax2 vmax4 vset2 vset4"""
_EFFECT = """st red fence membar prefetch prefetchu discard applypriority nanosleep pmevent sust sured multimem"""

_DELIVERS = ("cp.async.bulk", "cp.reduce.async.bulk", "st.async", "red.async")

# The longest row that is a prefix of the opcode (in whole parts) applies.
ROWS: dict[str, Kind] = {
    **dict.fromkeys(_COMPUTE.split(), Kind.COMPUTE),
    **dict.fromkeys(_EFFECT.split(), Kind.EFFECT),
    "multimem.ld_reduce": Kind.COMPUTE,
    **dict.fromkeys(("ld.acquire", "ld.relaxed", "ld.volatile", "ld.mmio"), Kind.OBSERVE),
    "st.release": Kind.PUBLISH,
    "bra": Kind.BRANCH,
    "ret": Kind.END,
    "exit": Kind.END,
    "mbarrier.init": Kind.INIT,
    "mbarrier.inval": Kind.GIVE_UP,
    "mbarrier.arrive": Kind.ARRIVE,
    "mbarrier.arrive.noComplete": Kind.UNREAD,
    "mbarrier.expect_tx": Kind.EXPECT,
    "mbarrier.test_wait": Kind.TRY,
    "mbarrier.try_wait": Kind.TRY,
    "mbarrier.pending_count": Kind.COMPUTE,
    "bar.sync": Kind.SYNC,
    "bar.cta.sync": Kind.SYNC,
    "barrier.sync": Kind.SYNC,
    "barrier.cta.sync": Kind.SYNC,
    **dict.fromkeys(("bar.red", "bar.cta.red", "barrier.red", "barrier.cta.red"), Kind.VOTE),
    "bar.arrive": Kind.SIGN,
    "bar.cta.arrive": Kind.SIGN,
    "barrier.arrive": Kind.SIGN,
    "barrier.cta.arrive": Kind.SIGN,
    "bar.warp.sync": Kind.MEET,
    "barrier.cluster.arrive": Kind.CLUSTER_ARRIVE,
    "barrier.cluster.wait": Kind.CLUSTER_WAIT,
    **dict.fromkeys(
        ("cp.async.ca", "cp.async.cg", "cp.async.commit_group", "cp.async.wait_group", "cp.async.wait_all"), Kind.EFFECT
    ),
    **dict.fromkeys(("cp.async.bulk.commit_group", "cp.async.bulk.wait_group", "cp.async.bulk.prefetch"), Kind.EFFECT),
    "cp.async.bulk … bulk_group": Kind.EFFECT,
    "cp.reduce.async.bulk … bulk_group": Kind.EFFECT,
    **dict.fromkeys((f"{copy} … complete_tx::bytes" for copy in _DELIVERS), Kind.LOAD),
    "cp.async.mbarrier.arrive": Kind.UNREAD,
    "cp.async.mbarrier.arrive.noinc": Kind.COPIES_ARRIVE,
    **dict.fromkeys(("tcgen05.cp", "tcgen05.mma", "tcgen05.shift"), Kind.EFFECT),
    **dict.fromkeys(("tcgen05.fence::before_thread_sync", "tcgen05.fence::after_thread_sync"), Kind.EFFECT),
    "tcgen05.alloc": Kind.ALLOCATE,
    "tcgen05.dealloc": Kind.FREE,
    "tcgen05.relinquish_alloc_permit": Kind.MEET,
    "tcgen05.ld": Kind.MEET_COMPUTE,
    "tcgen05.ld.red": Kind.UNREAD,  # defines its second operand, too
    "tcgen05.st": Kind.MEET,
    "tcgen05.wait::ld": Kind.MEET,
    "tcgen05.wait::st": Kind.MEET,
    "tcgen05.commit": Kind.COMMIT,
    **dict.fromkeys(("wgmma.fence", "wgmma.commit_group", "wgmma.wait_group"), Kind.MEET),
    "wgmma.mma_async": Kind.MEET_COMPUTE,
    "elect": Kind.MEET_COMPUTE,
    "shfl": Kind.MEET_COMPUTE,
    "vote": Kind.MEET_COMPUTE,
    "match": Kind.MEET_COMPUTE,
    "redux": Kind.MEET_COMPUTE,
    "mma": Kind.MEET_COMPUTE,
    "wmma": Kind.MEET_COMPUTE,
    "wmma.store": Kind.MEET,
    "ldmatrix": Kind.MEET_COMPUTE,
    "stmatrix": Kind.MEET,
    "movmatrix": Kind.MEET_COMPUTE,
    "setmaxnreg.inc": Kind.MORE_REGISTERS,
    "setmaxnreg.dec": Kind.MEET,
    "griddepcontrol.launch_dependents": Kind.EFFECT,
    "griddepcontrol.wait": Kind.GRID_WAIT,
    "clusterlaunchcontrol.try_cancel": Kind.ANSWER,
    "clusterlaunchcontrol.query_cancel": Kind.COMPUTE,
}


@cache
def kind_of(opcode: str) -> Kind:
    parts = opcode.split(".")
    if "async" in parts:
        for ending in ("mbarrier::complete_tx::bytes", "bulk_group"):
            copies = [copy for copy in _DELIVERS if ending in parts and opcode.startswith(copy)]
            if copies:
                return ROWS.get(f"{copies[0]} … {ending.removeprefix('mbarrier::')}", Kind.UNREAD)
        if parts[0] in ("st", "red"):
            return Kind.UNREAD
    for length in range(min(len(parts), _LONGEST), 0, -1):
        row = ".".join(parts[:length])
        if row in ROWS:
            others = [part for part in parts if part in _ANYWHERE[row]] if row in _ANYWHERE else []
            return _ANYWHERE[row][others[0]] if others else ROWS[row]
    return Kind.UNREAD


_LONGEST = max(row.count(".") for row in ROWS) + 1  # parts of a row

# Assemblers take what follows the name of an instruction in any order.
_ANYWHERE: dict[str, dict[str, Kind]] = {
    "ld": dict.fromkeys(("acquire", "relaxed", "volatile", "mmio"), Kind.OBSERVE),
    "st": {"release": Kind.PUBLISH},
    "mbarrier.arrive": {"noComplete": Kind.UNREAD},
    "tcgen05.ld": {"red": Kind.UNREAD},
    "cp.async.mbarrier.arrive": {"noinc": Kind.COPIES_ARRIVE},
}


DEFINING = frozenset({Kind.COMPUTE, Kind.MEET_COMPUTE, Kind.TRY, Kind.ARRIVE, Kind.OBSERVE, Kind.VOTE})


def defines(instruction: Instruction, of: Kind) -> tuple[str, ...]:
    """The registers that it writes."""
    if of not in DEFINING or instruction.text[:1] in ("[", ""):
        return ()
    return instruction.first


# The least number of operands of an instruction, where what it does is read from them.
LEAST: dict[Kind, int] = {
    Kind.INIT: 2,
    Kind.GIVE_UP: 1,
    Kind.ARRIVE: 1,
    Kind.EXPECT: 2,
    Kind.TRY: 3,
    Kind.COPIES_ARRIVE: 1,
    Kind.COMMIT: 1,
    Kind.LOAD: 3,
    Kind.ANSWER: 2,
    Kind.SYNC: 1,
    Kind.VOTE: 3,
    Kind.SIGN: 1,
    Kind.ALLOCATE: 2,
    Kind.FREE: 2,
    Kind.OBSERVE: 2,
    Kind.PUBLISH: 2,
}
# The operands of an event that determine its effect on the protocol (by index).
_DECIDING: dict[Kind, tuple[int, ...]] = {
    Kind.INIT: (0, 1),
    Kind.GIVE_UP: (0,),
    Kind.EXPECT: (0, 1),
    Kind.TRY: (1, 2),
    Kind.COPIES_ARRIVE: (0,),
    Kind.COMMIT: (0, 1),
    Kind.LOAD: (1, 2, 3, 4),
    Kind.ANSWER: (0, 1),
    Kind.SYNC: (0, 1),
    Kind.VOTE: (1, -2),
    Kind.SIGN: (0, 1),
    Kind.ALLOCATE: (0, 1),
    Kind.FREE: (0, 1),
    Kind.OBSERVE: (1,),
    Kind.PUBLISH: (0, 1),
}


_OF_LANES = frozenset(
    {"bar", "elect", "shfl", "vote", "match", "redux"}
)  # their last operand is the mask of lanes that synchronise


def deciding(instruction: Instruction, of: Kind) -> tuple[str, ...]:
    """The operands that determine the effect of an event."""
    if of is Kind.MEET or of is Kind.MEET_COMPUTE:
        return instruction.operands[-1:] if instruction.head in _OF_LANES else ()
    operands = instruction.operands
    if of is Kind.ARRIVE:
        # The state operand before the barrier is only a destination.
        return operands[next((at for at, text in enumerate(operands) if text[:1] == "["), 0) :]
    if of is Kind.LOAD and "tensor" in instruction.parts:
        # The tensor map, not the coordinates: a box always has the same number of bytes.
        operands = (operands[0], operands[1].partition("{")[0], *operands[2:])
    if of is Kind.LOAD and "shared::cluster" in instruction.parts:
        return operands[:5]
    return tuple(operands[at] for at in _DECIDING.get(of, ()) if at < len(operands))
