"""The candidates of one kernel, ranked by the model for given sizes, and the first of them that passes the checks."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from heapq import heapify, heappop, heappush
from math import inf

from pipec.diag.message import Diagnostic
from pipec.driver import Compilation, compile_source
from pipec.garbage import uncollected
from pipec.isa.targets import TARGETS
from pipec.predict.closed import Estimate, at_least
from pipec.predict.device import BY_ARCH
from pipec.predict.parameters import without_tuning
from pipec.predict.tile_loops import written
from pipec.record import record, replace
from pipec.sema import tree
from pipec.source import Source
from pipec.syntax import ast
from pipec.tune.works import Typed, Value, Works, typed

_GAIN = 1.02  # the predicted gain required of a tile other than the file's


@record
class Candidate:
    """Values of the tuned parameters. As text they are what `-D` takes: `BM=128 BN=256`."""

    values: tuple[tuple[str, object], ...]

    @property
    def constants(self) -> dict[str, object]:
        return dict(self.values)

    def __str__(self) -> str:
        return " ".join(f"{name}={value}" for name, value in self.values)


@record
class Ranked:
    candidate: Candidate
    prediction: Estimate


@record(eq=False)
class Possible:
    """A candidate that is predicted to take `least` seconds or more; `estimate` says how many."""

    candidate: Candidate
    least: float
    estimate: Callable[[], Estimate]


@record
class Selected:
    """A choice with its predicted seconds, and those of the values in the file: infinite if these cannot run."""

    candidate: Candidate
    seconds: float
    file_seconds: float


class Offer(ABC):
    """Candidates to choose from: those of one kernel (Choices), or of several combined ones (pipec.tune.several)."""

    @property
    @abstractmethod
    def source(self) -> Source:
        """The source that measurements refer to, and beside which a table is stored."""

    @property
    @abstractmethod
    def pinned(self) -> Mapping[str, object]:
        """Parameters set from outside."""

    @property
    @abstractmethod
    def candidates(self) -> tuple[Candidate, ...]:
        """The values in the file first; they are the only ones of a kernel without `tune`."""

    @abstractmethod
    def refusal(self, candidate: Candidate) -> tuple[Diagnostic, ...]:
        """The objections of the checks to a candidate; empty if it passes. Takes some tens of milliseconds the first time."""

    @abstractmethod
    def refused(self, candidate: Candidate) -> bool:
        """Whether there are objections already. Whoever compiles a candidate next learns of others then (`refuse`), and would plan it twice
        if it were checked before."""

    @abstractmethod
    def refuse(self, candidate: Candidate, found: Sequence[Diagnostic]) -> None:
        """Records errors found when the candidate was fully compiled; it is not chosen again."""

    @abstractmethod
    def possible(self, sizes: Mapping[str, int], multiprocessors: int | None = None) -> list[Possible]:
        """Candidates, without those whose stages alone exceed a block's shared memory."""

    def ranked(self, sizes: Mapping[str, int], multiprocessors: int | None = None) -> list[Ranked]:
        """Candidates by predicted time, the fastest first."""
        return [*in_order(self.possible(sizes, multiprocessors))]

    @property
    def file(self) -> Candidate:
        """The values in the file."""
        return self.candidates[0]

    def of_values(self, values: Mapping[str, str], *, checked: bool = True) -> Candidate | None:
        """The candidate with these values, as text; None if the kernel does not have it any more, or its checks reject it. `checked`: as in
        `selected`."""
        for candidate in self.candidates:
            if {name: str(value) for name, value in candidate.values} == values:
                return candidate if candidate == self.file or not self._rejected(candidate, checked) else None
        return None

    def choose(
        self, sizes: Mapping[str, int], multiprocessors: int | None = None, without: Collection[Candidate] = ()
    ) -> Candidate:
        """The candidate that is fastest by the model and passes the checks: the values in the file, unless another one gains more than
        the model's error. Those in `without` cannot run; if nothing else is left, the values in the file are used anyway."""
        return self.selected(sizes, multiprocessors, without).candidate

    def selected(
        self,
        sizes: Mapping[str, int],
        multiprocessors: int | None = None,
        without: Collection[Candidate] = (),
        *,
        checked: bool = True,
    ) -> Selected:
        """The same, with its predicted time. Not `checked`: the caller compiles it, which checks it."""
        with uncollected():
            possible = [one for one in self.possible(sizes, multiprocessors) if one.candidate not in without]
            own = next((one.estimate().seconds for one in possible if one.candidate == self.file), inf)
            return self._selected(in_order(possible), own, checked=checked)

    def best_of(self, candidates: Sequence[Ranked]) -> Candidate:
        """The same for candidates that are already ranked."""
        own = next((one.prediction.seconds for one in candidates if one.candidate == self.file), inf)
        return self._selected(candidates, own).candidate

    def _rejected(self, candidate: Candidate, checked: bool) -> bool:
        return bool(self.refusal(candidate)) if checked else self.refused(candidate)

    def _selected(self, ranked: Iterable[Ranked], own: float, *, checked: bool = True) -> Selected:
        for one in ranked:
            seconds = one.prediction.seconds
            # The author's values are known to work; the model's error exceeds a gain of two per cent.
            if own <= seconds * _GAIN:
                break
            # Checked last and only for the one to be used: a check takes tens of milliseconds, a prediction less than one.
            if not self._rejected(one.candidate, checked):
                return Selected(one.candidate, seconds, own)
        return Selected(self.file, own, own)


def in_order(possible: Sequence[Possible]) -> Iterator[Ranked]:
    """By predicted time, the fastest first; each is predicted when no other one can be faster any more. Ties go to the order in which they
    were given, so that a choice is the same in every process."""
    waiting: list[tuple[float, int, Ranked | None]] = [(one.least, place, None) for place, one in enumerate(possible)]
    heapify(waiting)
    while waiting:
        _, place, ranked = heappop(waiting)
        if ranked is not None:
            yield ranked
            continue
        one = possible[place]
        ranked = Ranked(one.candidate, one.estimate())
        heappush(waiting, (ranked.prediction.seconds, place, ranked))


def _renamed(file: ast.File, kernel: str, name: str) -> ast.File:
    """With one kernel, under another name."""
    (one,) = (one for one in file.kernels if one.name.name == kernel)
    called = ast.Name(name, one.name.span)
    return ast.File((ast.Kernel(called, one.constants, one.parameters, one.body, one.span),), file.functions, file.constants)


class Choices(Offer):
    """`compilation` is of the values in the file, at least analysed; `kernel` the name of a kernel with `tune`."""

    def __init__(self, compilation: Compilation, kernel: str) -> None:
        self._compilation, self._kernel = compilation, kernel
        self._device = BY_ARCH[compilation.arch]
        self._refusals: dict[Candidate, tuple[Diagnostic, ...]] = {}

    @property
    def source(self) -> Source:
        return self._compilation.source

    @property
    def pinned(self) -> Mapping[str, object]:
        return self._compilation.options.constants

    @cached_property
    def candidates(self) -> tuple[Candidate, ...]:
        trees = self._compilation.trees or ()
        tuning = next((one.tuning for one in trees if one.name == self._kernel), None)
        if tuning is None:
            return (Candidate(()),)
        return tuple(Candidate(tuple(zip(tuning.names, values, strict=True))) for values in tuning.candidates)

    @cached_property
    def typed(self) -> Mapping[Candidate, Typed]:
        """Every candidate with a typed kernel and enough shared memory for its stages; the checks report the errors of the others."""
        values = [candidate.values for candidate in self.candidates]
        found = {Candidate(one): kernel for one, kernel in typed(self._compilation, self._kernel, values, self._tree)}
        most = TARGETS[self._compilation.arch].shared_bytes
        return {one: found[one] for one in self.candidates if one in found and found[one].shared_bytes <= most}

    def _tree(self, values: tuple[Value, ...]) -> tree.Kernel | None:
        if Candidate(values) == self.file:
            return next((one for one in self._compilation.trees or () if one.name == self._kernel), None)
        state = self._compiled(Candidate(values), "analyse", self._untuned)
        return None if state.failed or not state.trees else state.trees[0]

    @cached_property
    def _untuned(self) -> ast.File:
        """The lists of candidates have been read, and combining their values again takes longer than typing the rest."""
        assert self._compilation.file is not None
        return without_tuning(self._compilation.file)

    def _compiled(self, candidate: Candidate, until: str, file: ast.File | None) -> Compilation:
        options = self._compilation.options
        constants = {**options.constants, **candidate.constants}
        given = replace(options, constants=constants, kernel=self._kernel, watchdog=None, timestamps=False)
        return compile_source(self._compilation.source, given, until, file)

    def planned(self, candidate: Candidate) -> Compilation:
        """With a candidate's values, up to the resource checks."""
        return self._compiled(candidate, "limits", self._untuned)

    def built(self, candidate: Candidate, name: str) -> Compilation:
        """With a candidate's values, through all stages, as a kernel of this name."""
        assert self._compilation.file is not None
        options = self._compilation.options
        given = replace(options, constants={**options.constants, **candidate.constants}, kernel=name)
        return compile_source(self._compilation.source, given, parsed=_renamed(self._compilation.file, self._kernel, name))

    def refusal(self, candidate: Candidate) -> tuple[Diagnostic, ...]:
        if candidate not in self._refusals:
            self._refusals[candidate] = tuple(self.planned(candidate).diagnostics)
        return self._refusals[candidate]

    def refused(self, candidate: Candidate) -> bool:
        return bool(self._refusals.get(candidate))

    def refuse(self, candidate: Candidate, found: Sequence[Diagnostic]) -> None:
        self._refusals[candidate] = tuple(found)

    @cached_property
    def written(self) -> frozenset[str]:
        """The tensors that the kernel writes."""
        return frozenset().union(*(written(one) for one in self._compilation.trees or () if one.name == self._kernel))

    def possible(
        self, sizes: Mapping[str, int], multiprocessors: int | None = None, warm: frozenset[str] = frozenset()
    ) -> list[Possible]:
        """`warm`: the tensors that kernels in front have written."""
        device = self._device
        if multiprocessors is not None:
            device = replace(device, machine=device.machine.resized(multiprocessors))
        works = Works(sizes, device.machine.multiprocessors)
        counted = [(one, works.of(kernel)) for one, kernel in self.typed.items()]
        if warm:
            counted = [(one, replace(work, warm=warm)) for one, work in counted]
        return [Possible(one, *at_least(work, device)) for one, work in counted]
