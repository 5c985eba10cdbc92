"""Which observers see the same value: threads of a role, CTAs of a cluster.

Each observer has its own view of a term: leaves that differ between observers, such as a thread's index, are replaced by the observer's
own leaf or by a number. Observers whose views are one object see the same value, in the same iteration of the enclosing loops. A
loop-carried value is uniform until an initial value or an iteration is found that makes it differ; after a loop, unless one observer may
leave it earlier than another.
"""

from collections.abc import Callable, Iterable

from pipec.isa.specials import AXES, family_and_axis
from pipec.kir.values.analysis import Values
from pipec.sema import tree
from pipec.terms.term import Atom, Operator, Term, leaf, number
from pipec.terms.walk import Substitution

_MOST_ROUNDS = 50  # rounds of the search for loop-carried values; then all of them are taken to differ
_OF_THREADS = ("lane_id", "role_thread", "role_warp")


class Sameness:
    """`see` maps a leaf to an observer's view; None if all see the same."""

    def __init__(self, values: Values, observers: int, see: Callable[[Atom, int], Term | None]) -> None:
        self._values, self._see = values, see
        self._differing: set[Atom] = set()
        self._views = [self._view(observer) for observer in range(observers)]
        for left in range(_MOST_ROUNDS, -1, -1):
            found = {
                atom for atom in self._iterated() if atom not in self._differing and (not left or self._comes_to_differ(atom))
            }
            if not found:
                break
            self._differing |= found
            self._views = [self._view(observer) for observer in range(observers)]

    def seen(self, expression: tree.Expression) -> tuple[Term, ...]:
        """The term as seen by each observer."""
        term = self._values.of(expression)
        return tuple(view(term) for view in self._views)

    def differs(self, expression: tree.Expression, among: Iterable[int] | None = None) -> bool:
        """Whether it may differ between any two observers, or between those in `among`."""
        return self._term_differs(self._values.of(expression), among)

    def repeats_differ(self, loop: tree.For | tree.While) -> bool:
        """Whether one observer may run the loop more often than another."""
        return any(self._term_differs(term) for term in self._values.controls[loop])

    def _term_differs(self, term: Term, among: Iterable[int] | None = None) -> bool:
        return len({self._views[observer](term) for observer in (range(len(self._views)) if among is None else among)}) > 1

    def _iterated(self) -> Iterable[Atom]:
        return (*self._values.counts, *self._values.recurrences, *self._values.left)

    def _comes_to_differ(self, atom: Atom) -> bool:
        values = self._values
        if atom in values.counts:
            return self._term_differs(values.counts[atom].start)
        if atom in values.recurrences:
            row = values.recurrences[atom]
            return self._term_differs(row.initial) or self._term_differs(row.following)
        loop = atom.operands[0]
        assert isinstance(loop, tree.For | tree.While)
        return self._term_differs(values.left[atom]) or self.repeats_differ(loop)

    def _view(self, observer: int) -> Substitution:
        def replace(atom: Atom) -> Term | None:
            return own(atom, observer) if atom in self._differing else self._see(atom, observer)

        return Substitution(replace)


def own(atom: Atom, observer: int) -> Term:
    return leaf(Operator.OBSERVED, atom, observer, least=atom.least, largest=atom.largest)


def of_threads(values: Values) -> Sameness:
    """Two threads of the role represent all. A load is the same for all threads that use the same address; each thread peeks at a stage
    on its own."""
    return Sameness(values, 2, _thread_sees)


def of_elected(values: Values) -> Sameness:
    """What one elected thread computes, whichever it is: all elections of the role are won by the same thread."""
    return Sameness(values, 2, lambda atom, thread: None if atom.operator is Operator.ELECTED else _thread_sees(atom, thread))


def _thread_sees(atom: Atom, thread: int) -> Term | None:
    match atom.operator, atom.operands[0]:
        case Operator.SPECIAL, name:
            return own(atom, thread) if name in _OF_THREADS else None
        case Operator.UNKNOWN, tree.StageIndex() | tree.ReadResponse() | tree.Vote():
            return None
        case Operator.UNKNOWN | Operator.ELECTED, _:
            return own(atom, thread)
        case _:
            return None


def of_ctas(values: Values) -> Sameness:
    """The CTAs of a cluster by rank, compared thread by thread. Loads from a tensor that the kernel writes differ, as do a CTA's own
    observations; the responses of a tile scheduler are sent to all."""
    cluster = values.launch.cluster
    places = cluster.places()

    def see(atom: Atom, rank: int) -> Term | None:
        match atom.operator, atom.operands[0]:
            case Operator.SPECIAL, str() as name:
                family, axis = family_and_axis(name)
                if family not in ("block", "cta", "grid"):
                    return None
                index = AXES.index(axis)
                if family == "cta":
                    return number(places[rank][index])
                shared = values.launch.special(f"{'cluster' if family == 'block' else 'clusters'}.{axis}", 0)
                return shared * cluster.shape[index] + (places[rank][index] if family == "block" else 0)
            case Operator.UNKNOWN | Operator.WRITTEN_ELEMENT, _:
                return own(atom, rank)
            case _:
                return None

    return Sameness(values, cluster.size, see)
