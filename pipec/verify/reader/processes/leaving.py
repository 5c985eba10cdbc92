"""Where exited threads are no longer waited for.

Lanes of a warp, all threads of a block and all threads of a cluster synchronise without those that have exited (CUDA C++ Programming
Guide: "all non-exited threads", of __syncwarp, of the votes and shuffles of a warp, and of __syncthreads; PTX ISA, barrier.cluster). A
named barrier with an explicit thread count waits for that many. An `.aligned` instruction must be executed by all lanes that are left: some
that do something else before they exit may still be there.
"""

from collections.abc import Iterator, Mapping

from pipec.verify.network import Arrive, Process, Ring, Wait, edges_of
from pipec.verify.reader.values.machine import Machine

# Instructions that the remaining lanes execute together; others (such as `mma`) need whole warps.
_OF_WHO_IS_LEFT = frozenset({"bar", "barrier", "shfl", "vote", "match", "redux", "elect"})


def leaves(
    process: Process,
    threads: tuple[int, ...],
    machine: Machine,
    meeting: object,
    numbers: Mapping[object, int],
    rings: list[Ring],
) -> tuple[tuple[int, int], ...]:
    """The rings at which the threads of a process are not waited for after it has ended, with the reduction in arrivals. `meeting`: the
    key of the ring on which the lanes of its warps synchronise; `numbers`: of all rings, by key."""
    found = []
    together = {ring for key, ring in numbers.items() if _brings_together(key, meeting)}
    stays = _acts_before_its_end(process, together)
    for key, count in _left(threads, machine, meeting, numbers):
        ring = numbers[key]
        if stays and _is_aligned(key, machine):
            continue
        # A process that has already arrived must not be discounted.
        if rings[ring].kind != "mbarrier" and not _may_end_after_arriving(process, ring):
            found.append((ring, count))
    return tuple(found)


def _left(
    threads: tuple[int, ...], machine: Machine, meeting: object, numbers: Mapping[object, int]
) -> Iterator[tuple[object, int]]:
    around = machine.around
    everybody = -(-around.threads // 32) * 32
    for key in numbers:
        match key:
            case ("cluster",):
                yield key, len(threads)
            case ("named", name, int(count)) if name not in around.counted and count == everybody:
                # The last warp counts as a whole one.
                yield key, len(threads) + (everybody - around.threads if around.threads - 1 in threads else 0)
            case ("warp", _) if key == meeting and _may_leave(threads, machine):
                yield key, len(threads)
            case (of, ("warp", what)) if of == meeting and _may_leave(threads, machine):
                head = around.kernel.code[what].head if isinstance(what, int) else str(what).partition(".")[0]
                if head in _OF_WHO_IS_LEFT:
                    yield key, len(threads)
            case _:
                pass


def _brings_together(key: object, meeting: object) -> bool:
    """Whether lanes of the warps meet at a ring, or whole warps do."""
    return key == meeting or isinstance(key, tuple) and key[0] in ("named", "cluster", meeting)


def _is_aligned(key: object, machine: Machine) -> bool:
    """Whether lanes meet at a ring where they execute an `.aligned` instruction."""
    match key:
        case (_, ("warp", int(at))):
            one = machine.around.kernel.code[at]
            return "aligned" in one.parts or one.head == "bar"
        case _:
            return False


def _acts_before_its_end(process: Process, together: set[int]) -> bool:
    """Whether a process may do something else between the last meeting of its warps and its end."""
    before: dict[int, list[int]] = {}
    for at, state in enumerate(process.states):
        for edge in edges_of(state.action):
            before.setdefault(edge.target, []).append(at)
    work = [at for at, state in enumerate(process.states) if not edges_of(state.action)]
    seen: set[int] = set()
    while work:
        at = work.pop()
        action = process.states[at].action
        if at in seen or isinstance(action, (Arrive, Wait)) and action.use.ring in together:
            continue
        if isinstance(action, (Arrive, Wait)):
            return True
        seen.add(at)
        work += before.get(at, ())
    return False


def _may_leave(threads: tuple[int, ...], machine: Machine) -> bool:
    """Except the lane that `elect.sync` is assumed to elect: without it the machine elects another one."""
    return all(thread % 32 for thread in threads) or not machine.around.kernel.code.elects


def _may_end_after_arriving(process: Process, ring: int) -> bool:
    """Whether the process may end after an arrival at the ring without the corresponding wait."""
    work = [
        state.action.edge.target for state in process.states if isinstance(state.action, Arrive) and state.action.use.ring == ring
    ]
    seen: set[int] = set()
    while work:
        at = work.pop()
        action = process.states[at].action
        if at in seen or isinstance(action, Wait) and action.use.ring == ring:
            continue
        seen.add(at)
        edges = edges_of(action)
        if not edges:
            return True
        work += [edge.target for edge in edges]
    return False
