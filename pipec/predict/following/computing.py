"""What threads do themselves: instructions, reads from memory and from other CTAs, and turns at a semaphore."""

from typing import NamedTuple

from pipec.predict.following.events import Busy, Engine, Why, because, later_of
from pipec.predict.following.threads import Threads
from pipec.predict.following.values import Value
from pipec.predict.work import SCHEDULERS
from pipec.sema import tree

ON_SCHEDULERS = str(Engine.SCHEDULERS)  # beside the names of roles, whose threads store on their own


def await_turn(threads: Threads, turns: Value) -> None:
    threads.turns = turns(threads.known), threads.now.time


def take_turns(threads: Threads) -> None:
    """Concurrent blocks reach their turns together, and the last of them waits for all others: each passes the turn on when its
    stores have completed, through a counter that the next one polls."""
    turns, since = threads.turns
    others = max(0.0, (turns or 1) * threads.around.conditions.at_once - 1)
    if others:
        begun = threads.now.time
        section = begun - since + threads.device.turn_over
        threads.now = threads.now.later(because(Why.TURNS, threads.name), others * section)
        threads.stretch("wait for turns of other blocks", begun, threads.now.time)


def fetch(threads: Threads, cycles: float) -> None:
    """Through the network between multiprocessors, which leaves the schedulers to others."""
    before = threads.now
    threads.now = before.later(because(Why.LATENCY, threads.name), cycles)
    threads.stretch("read from other CTAs", before.time, threads.now.time)


class Work(NamedTuple):
    """What an operation takes of its threads each time: `cycles` of issuing, in which they fill `engine` for `filled` cycles; it `lasts`
    longer where they wait for results. `counted`: as whose time they count."""

    what: str
    engine: str
    cycles: float
    filled: float
    lasts: float
    counted: Busy


def work_of(threads: Threads, what: str, engine: str, cycles: float) -> Work:
    filled = cycles * min(1.0, threads.plan.role.warps / SCHEDULERS)
    # With one warp per scheduler, a warpgroup waits for its own results meanwhile.
    waits = threads.multiplies and engine == ON_SCHEDULERS
    return Work(
        what, engine, cycles, filled, cycles * (threads.device.dependent if waits else 1.0), Busy(Engine.WORK, threads.name)
    )


def compute(threads: Threads, work: Work) -> None:
    """Interleaved with other groups and blocks of any role, whose instructions the same schedulers issue."""
    before, around, reason, engine = threads.now, threads.around, because(Why.WORK, threads.name), work.engine
    start = later_of(before, around.working[engine])
    around.working[engine] = start.later(reason, work.filled)
    threads.now = start.later(reason, work.lasts)
    if around.drawn:
        threads.stretch(work.what, before.time, threads.now.time)
    around.busy[work.counted] += work.cycles
    if engine == ON_SCHEDULERS:
        around.busy[Busy(Engine.SCHEDULERS)] += work.filled


def read(threads: Threads, tiles: tuple[tree.ReadTensor, ...]) -> None:
    """Threads wait for their loads from global memory, which come through the L2 like copies."""
    before, around = threads.now, threads.around
    for tile in tiles:
        size = tile.type.rows * tile.type.columns * tile.source.tensor.dtype.bits / 8 * threads.part
        first = later_of(before, around.copies)
        around.copies = first.later(because(Why.READ, threads.name), size / around.conditions.bytes_per_cycle)
    whole = [tile for tile in tiles if tile.axis is None]
    if not whole:
        return  # row and column vectors are small, stay in the L2 and are loaded early
    late = threads.device.load + around.conditions.farther
    threads.now = around.copies.later(because(Why.LATENCY, whole[-1].source.tensor.name), late)
    threads.stretch("read", before.time, threads.now.time)
