"""The network, run, against what the simulator sees when it runs the same PTX: two readings that share no code.

Every thread's sequence of waits and arrivals (which barrier, which phase) must be that of its process.
"""

import math
import re
from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import groupby

import pytest
from examples.catalogue import Run, cases, compiled, runs
from samples import some, volume
from verify.interpret import Running, run

from pipec.reference import trial_of
from pipec.runtime import LaunchOptions, launch
from pipec.sim import Options as Simulation
from pipec.sim import load
from pipec.sim.instructions import decode
from pipec.sim.instructions.asynchronous import mbarrier
from pipec.sim.units.mbarrier import Mbarrier
from pipec.verify.reader.read import read
from pipec.verify.reader.values import arithmetic

Event = tuple[str, int, int]
Thread = tuple[tuple[int, ...], int]


@dataclass
class Seen:
    """What each thread did, by CTA and number of the thread."""

    events: dict[Thread, list[Event]] = field(default_factory=lambda: defaultdict(list))
    grids: dict[tuple[int, ...], tuple[int, ...]] = field(default_factory=dict)
    first: int = 0


@pytest.fixture
def seen(monkeypatch: pytest.MonkeyPatch) -> Iterator[Seen]:
    """Notes the waits and arrivals of a simulation."""
    found, log = Seen(), []

    def noted(operation: Callable[..., bool]) -> Callable[..., bool]:
        def arrive(state: Mbarrier, *values: int) -> bool:
            log.append(state.phase)
            return operation(state, *values)

        return arrive

    for name in ("arrive", "arrive_expect_tx", "expect_tx"):
        monkeypatch.setattr(Mbarrier, name, noted(getattr(Mbarrier, name)))
    tried = mbarrier._test

    def test(warp, address, wanted, parity, what):  # type: ignore[no-untyped-def]
        result = tried(warp, address, wanted, parity, what)
        log.append((result[0], result[1].offset, result[2]))
        return result

    monkeypatch.setattr(mbarrier, "_test", test)
    monkeypatch.setattr(load, "unlooped_tests", lambda *_: frozenset())  # a peek that fails only because it may is no wait

    def watching(meaning: decode.Meaning, waits: bool) -> decode.Meaning:
        def decoded(d: decode.Decoder) -> Callable:
            execute = meaning(d)

            def watched(warp):  # type: ignore[no-untyped-def]
                lanes, cta = warp.lanes(), warp.cta
                log.clear()
                outcome = execute(warp)
                found.grids[cta.index] = cta.grid
                found.first = min(cta.mbarriers)
                if waits and log and outcome is None and log[0][0]:
                    word = ("wait mbarrier", *log[0][1:])
                elif not waits and log:
                    word = ("mbarrier", warp.thread.barrier_used, log[0])
                else:
                    return outcome
                for lane in lanes:
                    found.events[cta.index, warp.index * 32 + lane].append(word)
                return outcome

            return watched

        return decoded

    for name, waits in (("mbarrier.arrive", False), ("mbarrier.expect_tx", False), ("mbarrier.try_wait", True)):
        monkeypatch.setitem(decode._MEANINGS, name, watching(decode._MEANINGS[name], waits))
    monkeypatch.setattr(arithmetic, "LIMITS", (5000,))
    return found


# What is loaded decides there, or the hardware's scheduler, or a quotient that the reader takes as it is (of the window, by 96).
WITHOUT_NUMBERS = (
    *("gemm_grouped", "gemm_sm90_grouped", "gemm_sm90_gathered", "gemm_clc"),
    *("attention_sm90_window", "attention_sm90_paged"),
)


def chosen() -> list[Run]:
    found = []
    for case in cases():
        if not case.constants and case.path.stem not in WITHOUT_NUMBERS:
            for _, of_one in groupby(runs(case), lambda one: one.kernel):
                found += sorted(list(of_one)[:3], key=lambda one: math.prod(one.numbers.values()))[: volume(1, 3)]
    return some("threads", found, 0.25)


@pytest.mark.sample(0.01, of="trip")
@pytest.mark.parametrize("trip", chosen(), ids=lambda trip: trip.name)
def test_threads_do_what_their_process_says(trip: Run, seen: Seen) -> None:
    ptx, plan, numbers = compiled(trip.case).ptx or "", trip.plan, trip.numbers
    network = read(ptx, plan.kernel.name)
    launch(plan.interface, ptx, trial_of(plan, numbers, seed=1).arguments, device="sim", options=LaunchOptions(Simulation()))
    if not seen.events:
        pytest.skip("nothing waits at this size")
    # Where the simulator places the variable in shared memory.
    base = seen.first - min(min(ring.instances) for ring in network.rings if ring.kind == "mbarrier")
    lines = {line for line, text in enumerate(ptx.split("\n"), 1) if re.search(r"[\t ]mbarrier\.(arrive|expect_tx)", text)}
    shape = plan.interface.cluster
    scalars = {scalar.name for scalar in plan.kernel.scalars}
    sizes = {
        f"{plan.kernel.name}_{'scalar' if name in scalars else 'dim'}_{name}": int(number) for name, number in numbers.items()
    }
    ran = {}
    for cta, grid in seen.grids.items():
        cluster = tuple(place // extent for place, extent in zip(cta, shape, strict=True))
        x, y, z = (place % extent for place, extent in zip(cta, shape, strict=True))
        rank = x + shape[0] * (y + shape[1] * z)
        if cluster not in ran:
            for axis, place, mine, extent, across in zip("xyz", cta, cluster, grid, shape, strict=True):
                sizes |= {f"%ctaid.{axis}": place, f"%nctaid.{axis}": extent}
                sizes |= {f"%clusterid.{axis}": mine, f"%nclusterid.{axis}": extent // across}
            ran[cluster] = run(network, sizes)
        for one in ran[cluster]:
            if rank in one.process.ranks:
                threads = [32 * warp + lane for warp in one.process.warps for lane in range(32)]
                mine = [
                    [(word, at - base, phase) for word, at, phase in seen.events.get((cta, thread), [])] for thread in threads
                ]
                _compare(one, mine, lines)


def _compare(one: Running, mine: list[list[Event]], lines: set[int]) -> None:
    """`mine`: of all threads of the warps of the process; those of other processes of these warps do something else. `lines`: those of
    arrivals that come from a thread itself. An arrival may be by some threads of a process only."""
    wanted = [
        event[:3]
        for event, line in zip(one.seen, one.lines, strict=True)
        if event[0] == "wait mbarrier" or event[0] == "mbarrier" and line in lines
    ]
    if len(one.process.ranks) > 1:
        # An arrival at all CTAs of a cluster is one event of the network.
        wanted, mine = _once(wanted), [_once(events) for events in mine]
    alike = [events for events in mine if _waits(events) == _waits(wanted) and set(events) <= set(wanted)]
    assert len(alike) >= one.process.threads, (one.process.role, wanted[:12], next(filter(None, mine), [])[:12])
    assert wanted in alike, (one.process.role, wanted[:12], alike[0][:12])


def _once(events: list[Event]) -> list[Event]:
    return [event for event, _ in groupby(events)]


def _waits(events: list[Event]) -> list[Event]:
    return [event for event in events if event[0] != "mbarrier"]
