"""Several kernels combined into one: the candidates of all of them, ranked together.

A candidate's first value names its kernel (`kernel=gemm_sm90_narrow BM=16 SPLITS=2`), so that tables, measurements and the choice at a
call work as for one kernel with one more parameter.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import cached_property, partial

from pipec.diag.message import Diagnostic
from pipec.driver import Compilation
from pipec.predict.closed import Estimate
from pipec.record import record
from pipec.source import Source
from pipec.tune.choice import Candidate, Choices, Offer, Possible, in_order

KERNEL = "kernel"


@record
class Member:
    """An alternative: a kernel, or several that run in sequence, of which the first is tuned. `name` identifies it."""

    name: str
    choices: Choices
    others: tuple[Choices, ...] = ()

    def named(self, candidate: Candidate) -> Candidate:
        """A candidate of its kernel as a candidate of the combination."""
        return Candidate(((KERNEL, self.name), *candidate.values))


class Several(Offer):
    """The file values of the first member are those of the combination."""

    def __init__(self, members: Sequence[Member]) -> None:
        self._members = {member.name: member for member in members}
        self._first = members[0]

    @cached_property
    def source(self) -> Source:
        """Named after the first one, beside which the table is stored; measurements apply to exactly these kernels with these settings."""
        parts = (one for member in self._members.values() for one in (member.choices, *member.others))
        text = "\n".join(f"{part.source.text}\n# {sorted(part.pinned.items(), key=str)}" for part in parts)
        return Source(self._first.choices.source.name, text)

    @property
    def pinned(self) -> Mapping[str, object]:
        """The settings common to all of them."""
        others = [member.choices.pinned for member in self._members.values()]
        return {
            name: value for name, value in self._first.choices.pinned.items() if all(one.get(name) == value for one in others)
        }

    @cached_property
    def candidates(self) -> tuple[Candidate, ...]:
        return tuple(member.named(one) for member in self._members.values() for one in member.choices.candidates)

    def split(self, candidate: Candidate) -> tuple[str, Candidate]:
        """The name of a candidate's member, and the candidate of that member's kernel."""
        (_, name), *values = candidate.values
        return str(name), Candidate(tuple(values))

    def planned(self, candidate: Candidate) -> tuple[Compilation, ...]:
        """A candidate's kernel, and those that run after it, up to the resource checks."""
        name, own = self.split(candidate)
        member = self._members[name]
        return member.choices.planned(own), *(later.planned(later.file) for later in member.others)

    @property
    def alone(self) -> "Several":
        """Those that are one kernel each: the others need memory of their own between theirs."""
        return Several([member for member in self._members.values() if not member.others])

    def built(self, candidate: Candidate, name: str) -> Compilation:
        """A candidate's first kernel, through all stages, as a kernel of this name."""
        member, own = self.split(candidate)
        return self._members[member].choices.built(own, name)

    @property
    def names(self) -> list[str]:
        return [*self._members]

    def choices(self, name: str) -> Choices:
        return self._members[name].choices

    def refusal(self, candidate: Candidate) -> tuple[Diagnostic, ...]:
        name, own = self.split(candidate)
        return self._members[name].choices.refusal(own)

    def refused(self, candidate: Candidate) -> bool:
        name, own = self.split(candidate)
        return self._members[name].choices.refused(own)

    def refuse(self, candidate: Candidate, found: Sequence[Diagnostic]) -> None:
        name, own = self.split(candidate)
        self._members[name].choices.refuse(own, found)

    def possible(self, sizes: Mapping[str, int], multiprocessors: int | None = None) -> list[Possible]:
        """Ties are resolved by the order in which the kernels were given."""
        found: list[Possible] = []
        for member in self._members.values():
            # Those that come later read what the one in front has written, when it has ended: an early start hides no more than usual.
            behind, written = 0.0, member.choices.written
            for later in member.others:
                behind += next(in_order(later.possible(sizes, multiprocessors, written))).prediction.seconds
                written |= later.written
            for one in member.choices.possible(sizes, multiprocessors):
                found.append(Possible(member.named(one.candidate), one.least + behind, partial(_and_then, one.estimate, behind)))
        return found


def _and_then(first: Callable[[], Estimate], seconds: float) -> Estimate:
    found = first()
    return Estimate(found.seconds + seconds, found.terms, found.bound)
