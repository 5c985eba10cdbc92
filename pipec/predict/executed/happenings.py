"""What the warps of a cluster did, in the order of each warp: what a recording hands to the replay."""

from collections.abc import Mapping, Sequence
from typing import Literal, NamedTuple

from pipec.predict.work import Instructions
from pipec.record import record

# A thing that is signalled and waited for, unique in a recording: a phase of an mbarrier, for instance.
Signal = tuple[str | int, ...]

Kind = Literal[
    "step",  # nothing but the instruction itself: a branch, or the target of one
    "use",  # of what the loads at these program counters have brought: waits for them
    "load",  # from global memory into registers
    "store",  # from registers to global memory
    "fetch",  # cp.async
    "commit",  # of a group of this kind
    "await",  # all but the last `pending` groups of this kind
    "copy",  # by the copy engine, to shared memory
    "put",  # by the copy engine, to global memory
    "multiply",
    "arrive",  # at a signal
    "arrive_products",  # when the products so far are complete (tcgen05.commit)
    "arrive_fetches",  # when the cp.async so far are complete
    "wait",  # for a signal
    "meet",  # arrive at a barrier of threads, and wait for it unless it is an arrival only
    "exchange",  # an atomic operation in global memory whose result is used
    "sleep",
]


class Happening(NamedTuple):
    """`pc`: of the instruction. `size` in bytes (of "sleep": nanoseconds), `rows` of a copy; `signals` concerned, with the number of
    contributions to each. Of a load, `again`: bytes that its block has loaded before, and at most `since` bytes ago; of a store,
    `partial`: sectors that it does not write as a whole, `atoms`: that it changes."""

    pc: int
    kind: Kind
    size: float = 0.0
    rows: float = 0.0
    signals: tuple[Signal, ...] = ()
    group: str = ""
    pending: int = 0
    product: Instructions | None = None
    pcs: tuple[int, ...] = ()
    again: float = 0.0
    since: float = 0.0
    partial: float = 0.0
    atoms: float = 0.0


class Passes(NamedTuple):
    """How often an access of a warp goes through the banks of shared memory; `aligned`: it would be at a multiple of 16 bytes with 0 as
    its constant offset."""

    number: float
    aligned: bool


def averaged(each: Sequence[Passes]) -> Passes:
    return Passes(sum(one.number for one in each) / len(each), all(one.aligned for one in each))


@record
class Stream:
    """Of one warp: `rank` of its CTA in the cluster, `index` in the CTA."""

    rank: int
    index: int
    happenings: list[Happening]


@record
class Recording:
    """One cluster. `expected`: contributions that complete a signal; `touched`: bytes of each piece of memory that it read and wrote, by
    name: (allocation's size, read, written); `passes`: by program counter, how often an access goes through the banks of shared memory."""

    streams: tuple[Stream, ...]
    expected: Mapping[Signal, int]
    touched: Mapping[str, tuple[int, float, float]]
    columns: int  # of tensor memory
    passes: Mapping[int, Passes]
