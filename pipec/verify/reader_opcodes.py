"""Which instructions matter to the protocol, by their opcodes: one row each.

Everything that could block, arrive at a barrier or change one has a row of its own; what has no row is not understood, and a kernel that
contains it is not read.
"""

from enum import Enum, auto
from functools import cache

from pipec.verify.network import Unreadable
from pipec.verify.reader_text import Instruction


class Kind(Enum):
    """What an instruction does to the protocol."""

    COMPUTE = auto()  # defines its first operand
    EFFECT = auto()  # defines nothing, and nobody waits for it
    MEET = auto()  # all lanes of the warp execute it together
    MEET_COMPUTE = auto()  # the same, and it defines its first operand
    BRANCH = auto()
    END = auto()
    INIT = auto()  # of an mbarrier
    ARRIVE = auto()
    EXPECT = auto()
    TRY = auto()  # try_wait, test_wait
    COPIES_ARRIVE = auto()  # when the thread's earlier cp.async are done
    COMMIT = auto()  # when earlier tcgen05 operations are done
    LOAD = auto()  # bytes for an mbarrier, by TMA or st.async
    ANSWER = auto()  # the scheduler's: 16 bytes for an mbarrier
    SYNC = auto()  # bar.sync
    SIGN = auto()  # bar.arrive
    CLUSTER_ARRIVE = auto()
    CLUSTER_WAIT = auto()
    GRID_WAIT = auto()
    MORE_REGISTERS = auto()


MEETINGS = frozenset({Kind.MEET, Kind.MEET_COMPUTE, Kind.MORE_REGISTERS})
EVENTS = frozenset(Kind) - {Kind.COMPUTE, Kind.EFFECT, Kind.BRANCH, Kind.END, Kind.INIT, Kind.GRID_WAIT}

_COMPUTE = """abs activemask add addc and bfe bfi bfind bmsk brev bswap clz cnot copysign cos createpolicy cvt cvta div dp2a dp4a ex2 fma
 fns getctarank isspacep istypep ld ldu lg2 lop3 mad madc mapa max min mov mul mul24 neg not or popc prmt rcp rem rsqrt sad selp set setp
 shf shl shr sin slct sqrt sub subc suld szext tanh testp tex tld4 txq vabsdiff vadd vmad vmax vmin vset vshl vshr vsub xor atom alloca
 vadd2 vadd4 vsub2 vsub4 vavrg2 vavrg4 vmin2 vmin4 vmax2 vmax4 vset2 vset4"""
_EFFECT = """st red fence membar prefetch prefetchu discard applypriority nanosleep pmevent sust sured multimem"""

# The longest row that the opcode starts with (in whole parts) holds.
_ROWS: dict[str, Kind | None] = {
    **dict.fromkeys(_COMPUTE.split(), Kind.COMPUTE),
    **dict.fromkeys(_EFFECT.split(), Kind.EFFECT),
    "multimem.ld_reduce": Kind.COMPUTE,
    "bar.red": None,
    "bra": Kind.BRANCH,
    "ret": Kind.END,
    "exit": Kind.END,
    "mbarrier.init": Kind.INIT,
    "mbarrier.inval": None,
    "mbarrier.arrive": Kind.ARRIVE,
    "mbarrier.arrive.noComplete": None,
    "mbarrier.expect_tx": Kind.EXPECT,
    "mbarrier.test_wait": Kind.TRY,
    "mbarrier.try_wait": Kind.TRY,
    "mbarrier.pending_count": Kind.COMPUTE,
    "bar.sync": Kind.SYNC,
    "bar.cta.sync": Kind.SYNC,
    "barrier.sync": Kind.SYNC,
    "barrier.cta.sync": Kind.SYNC,
    "bar.arrive": Kind.SIGN,
    "bar.cta.arrive": Kind.SIGN,
    "barrier.arrive": Kind.SIGN,
    "barrier.cta.arrive": Kind.SIGN,
    "bar.warp.sync": Kind.MEET,
    "barrier.cluster.arrive": Kind.CLUSTER_ARRIVE,
    "barrier.cluster.wait": Kind.CLUSTER_WAIT,
    "cp.async": Kind.EFFECT,
    "cp.async.mbarrier.arrive": None,
    "cp.async.mbarrier.arrive.noinc": Kind.COPIES_ARRIVE,
    "cp.reduce.async.bulk": Kind.EFFECT,
    "tcgen05": Kind.EFFECT,
    "tcgen05.alloc": Kind.MEET,
    "tcgen05.dealloc": Kind.MEET,
    "tcgen05.relinquish_alloc_permit": Kind.MEET,
    "tcgen05.ld": Kind.MEET_COMPUTE,
    "tcgen05.st": Kind.MEET,
    "tcgen05.wait::ld": Kind.MEET,
    "tcgen05.wait::st": Kind.MEET,
    "tcgen05.commit": Kind.COMMIT,
    "wgmma": Kind.MEET,
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
_DELIVERS = ("cp.async.bulk", "cp.reduce.async.bulk", "st.async", "red.async")


@cache
def _kind(opcode: str) -> Kind | None:
    if opcode.startswith(_DELIVERS) and "mbarrier::complete_tx::bytes" in opcode:
        return Kind.LOAD
    parts = opcode.split(".")
    if parts[0] in ("st", "red") and "async" in parts:
        return None
    for length in range(len(parts), 0, -1):
        row = ".".join(parts[:length])
        if row in _ROWS:
            return _ROWS[row]
    return None


def kind(instruction: Instruction) -> Kind:
    found = _kind(instruction.opcode)
    if found is None:
        raise Unreadable(instruction.line, f"{instruction.opcode} is not understood")
    return found


_WITH_STATE = frozenset({Kind.COMPUTE, Kind.MEET_COMPUTE, Kind.TRY, Kind.ARRIVE})


def defines(instruction: Instruction, of: Kind) -> tuple[str, ...]:
    """The registers that it writes."""
    if of not in _WITH_STATE or instruction.text[:1] in ("[", ""):
        return ()
    return instruction.first


# Which operands of an event decide what it does to the protocol (from the front; negative: from the back).
_DECIDING: dict[Kind, tuple[int, ...]] = {
    Kind.INIT: (0, 1),
    Kind.ARRIVE: (-2, -1),
    Kind.EXPECT: (0, 1),
    Kind.TRY: (1, 2),
    Kind.COPIES_ARRIVE: (0,),
    Kind.COMMIT: (0, 1),
    Kind.LOAD: (1, 2, 3, 4),
    Kind.ANSWER: (0, 1),
    Kind.SYNC: (0, 1),
    Kind.SIGN: (0, 1),
}


def deciding(instruction: Instruction, of: Kind) -> tuple[str, ...]:
    """The operands that decide what an event does."""
    operands = instruction.operands
    if of is Kind.LOAD and "shared::cluster" in instruction.parts:
        return operands[:5]
    if of in (Kind.MEET, Kind.MEET_COMPUTE):
        return operands[-1:] if instruction.head in ("bar", "elect", "shfl", "vote", "match", "redux") else ()
    return tuple(operands[at] for at in _DECIDING.get(of, ()) if -len(operands) <= at < len(operands))
