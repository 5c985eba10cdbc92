"""Whether a loop takes anything of a tile, with what that says of sizes asked first.

Whether the smaller one of a size and a number that is made of counters is positive depends on both, `min(K, 64 * m + 64) >= 1` first of
all on `K >= 1`: a role that takes nothing of one tile because of the size takes nothing of the next one.
"""

from pipec.record import replace
from pipec.verify.checker.certificate import Onward, Restatement
from pipec.verify.reader.values.extremes import counts
from pipec.verify.terms import Choose, Compare, Floor, Formula, Linear, add, decided, is_larger, is_smaller, negate


def parted(one: Restatement) -> Restatement:
    """The restatement with a test of sizes in front of each such one."""
    places = list(one.places)
    for at, place in enumerate(one.places):
        if place.asks is not None and (found := _of_sizes(place.asks)) is not None:
            asked, decides = found
            stays = Onward(None, len(places))
            yes, no = place.onwards
            places[at] = replace(place, asks=asked, onwards=(yes, stays) if decides else (stays, no))
            places.append(place)
    return replace(one, places=tuple(places)) if len(places) > len(one.places) else one


def _of_sizes(condition: Formula) -> tuple[Formula, bool] | None:
    """The condition on sizes; and whether the test holds if it does, or else does not if it does not. For a test whether a number is
    positive, or whether it is not."""
    match condition:
        case Compare("ge", Linear(more, ((Floor(Linear(inner, ((Choose() as one, 1),)), divisor), times),))) if abs(times) == 1:
            # A quotient is at least a number exactly if what is divided is at least that many times the divisor.
            least = divisor * -more - inner if times == 1 else divisor * (more + 1) - inner
        case Compare("ge", Linear(more, ((Choose() as one, times),))) if abs(times) == 1:
            least = -more if times == 1 else more + 1
        case _:
            return None
    smaller = is_smaller(one)
    if least != 1 or not (smaller or is_larger(one)) or counts(one.yes) == counts(one.no):
        return None
    positive = decided(Compare("ge", add(one.no if counts(one.yes) else one.yes, Linear(-1))))
    return (positive, not smaller) if times == 1 else (negate(positive), smaller)
