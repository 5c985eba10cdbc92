"""Finds the fastest candidate by measurement: those that the model does not rule out are screened, then the best is compared with the
file's own values.

The means of measurement is passed in: `Bench` prepares launches and provides a clock, on a GPU (gpu.py) or, in tests, a simulated one.
"""

from collections.abc import Mapping, Sequence
from typing import Protocol

from pipec.record import record
from pipec.tune.choice import Candidate, Offer
from pipec.tune.rounds import Clock, Patience, Spread, compare, screen
from pipec.tune.table import Row

_SLOWER = 2.5  # candidates that the model predicts to be this much slower than its best are not measured
_MOST = 48  # candidates that are measured
_FINALISTS = 4
_ROUNDS = 15


class Bench(Protocol):
    """A device on which candidates are timed."""

    device: str
    multiprocessors: int

    def prepare(self, candidate: Candidate) -> str | None:
        """Compiles and loads a candidate and launches it once; returns None, or why it cannot run."""
        ...

    def clock(self) -> Clock:
        """A clock for the prepared candidates, named by their text."""
        ...


@record
class Outcome:
    """`ranking` has the candidates that ran with the median of their screening times, fastest first; `dropped` the others with the
    reason. `ratio`: the speed-up of the winner over the values in the file, in rounds of their own."""

    device: str
    sizes: Mapping[str, int]
    file: Candidate
    winner: Candidate
    seconds: Spread
    file_seconds: Spread
    ratio: Spread
    ranking: tuple[tuple[Candidate, float], ...]
    dropped: tuple[tuple[Candidate, str], ...]

    def row(self, kernel: str) -> Row:
        values = tuple((name, str(value)) for name, value in self.winner.values)
        times = self.seconds.median * 1e6, self.file_seconds.median * 1e6
        return Row(self.device, kernel, tuple(sorted(self.sizes.items())), values, *times)


class NothingRuns(RuntimeError):
    """Not even the values in the file could be run on this device."""


def best(choices: Offer, sizes: Mapping[str, int], bench: Bench, *, patience: Patience | None = None, seed: int = 0) -> Outcome:
    """The fastest candidate on a device. Raises NothingRuns if none runs there."""
    ready: dict[str, Candidate] = {}
    dropped: list[tuple[Candidate, str]] = []
    for candidate, reason in considered(choices, sizes, bench.multiprocessors):
        why = reason or bench.prepare(candidate)
        if why is None:
            ready[str(candidate)] = candidate
        else:
            dropped.append((candidate, why))
    if not ready:
        raise NothingRuns("; ".join(f"{candidate}: {why}" for candidate, why in dropped[:3]))
    clock = bench.clock()
    screened = screen(list(ready), clock, patience, seed)
    own = str(choices.file)
    finalists = list(dict.fromkeys([*screened.ranking[:_FINALISTS], *([own] if own in ready else [])]))
    final = compare(finalists, clock, _ROUNDS, seed)
    winner = min(finalists, key=lambda name: final.time(name).median)
    against = own if own in ready else winner
    # Equal within the noise: the values in the file are kept.
    if final.ratio(winner, against).low <= 1.0:
        winner = against
    return Outcome(
        bench.device,
        dict(sizes),
        choices.file,
        ready[winner],
        final.time(winner),
        final.time(against),
        final.ratio(winner, against),
        tuple((ready[name], screened.rounds.time(name).median) for name in screened.ranking),
        tuple(dropped),
    )


def considered(choices: Offer, sizes: Mapping[str, int], multiprocessors: int) -> Sequence[tuple[Candidate, str | None]]:
    """Each candidate with the reason not to measure it, the file's own first."""
    ranked = choices.ranked(sizes, multiprocessors)
    times = {one.candidate: one.prediction.seconds for one in ranked}
    fastest = ranked[0].prediction.seconds if ranked else 0.0
    worth = {one.candidate for one in ranked[:_MOST] if one.prediction.seconds <= _SLOWER * fastest} | {choices.file}
    found: list[tuple[Candidate, str | None]] = []
    for candidate in sorted(choices.candidates, key=lambda one: (one != choices.file, times.get(one, float("inf")))):
        if candidate in times and candidate not in worth:
            found.append((candidate, f"predicted to take {times[candidate] / fastest:.1f} times as long as the fastest"))
            continue
        reasons = choices.refusal(candidate)
        found.append((candidate, f"{reasons[0].code}: {reasons[0].title}" if reasons else None))
    return found
