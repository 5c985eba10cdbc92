"""Compiles every variant of a file's kernels and writes the bundle: deterministic in source, options and assembler."""

import hashlib
from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import product
from pathlib import Path

from pipec._version import VERSION
from pipec.bundle.c_code import c_files, identifier
from pipec.bundle.manifest import NAME, Choice, Form, Kernel, Manifest, Origin, Variant, dimensions_of, to_text
from pipec.diag.catalogue.commands import bundles as messages
from pipec.diag.message import Failure, Sink
from pipec.driver import Compilation, Options, compile_source
from pipec.interface import KernelInterface, TensorArgument
from pipec.isa.targets import TARGETS
from pipec.predict.sizes import unknown
from pipec.ptx.assemble import assemble
from pipec.record import record
from pipec.source import Source
from pipec.tune.choice import Candidate, Choices, Ranked
from pipec.tune.several import Several
from pipec.tune.store import shipped
from pipec.tune.tuned import label

Sizes = tuple[int, ...]

# The default sizes for which variants are chosen, by number of dimensions: each point costs a prediction of every candidate.
_LEVELS = {
    1: (1, 4, 16, 64, 256, 512, 1024, 2048, 4096, 8192, 16384, 65536),
    2: (1, 16, 128, 512, 2048, 8192),
    3: (16, 512, 2048, 8192),
}
_FEW = (128, 2048)  # with more dimensions
MOST_POINTS = 256


@record
class Request:
    """What to build. `targets`: empty for the one that the source names. `shapes`: the sizes to choose variants for, by dimension.
    `tiles`: the maximum number of variants of a kernel per target."""

    constants: Mapping[str, object]
    targets: tuple[str, ...]
    kernel: str | None
    shapes: Mapping[str, Sizes]
    tiles: int
    allow_undecided: bool = False


@record
class Built:
    """A bundle in memory: `files` has all of its files."""

    manifest: Manifest
    files: Mapping[str, bytes]


def build(source: Source, name: str, request: Request) -> Built:
    """Raises Failure for errors in the source or in the request."""
    codes: dict[str, bytes] = {}
    forms: dict[str, list[Form]] = {}
    for target in request.targets or (None,):
        options = Options(
            target, dict(request.constants), request.kernel, allow_undecided=request.allow_undecided, remembers=True
        )
        first = _compiled(source, options, "limits")
        interfaces = [plan.interface for plan in first.plans or ()]
        for interface in interfaces:
            _check_shapes(request, interface, interfaces)
            form = _Former(Choices(first, interface.name), first.arch, interface, request, codes).form()
            forms.setdefault(interface.name, []).append(form)
    return _written(name, Path(source.name).name, request, forms, codes)


@record
class Chosen:
    """Kernels to choose among, for one target. `interface`: that of the choice, with its name."""

    arch: str
    interface: KernelInterface
    several: Several


def build_chosen(chosen: Sequence[Chosen], name: str, source: str, request: Request) -> Built:
    """A bundle with one kernel, whose variants for each target are tiles of several. Alternatives that consist of more than one kernel are
    left out: they need memory between their kernels, and a launch from C allocates none. `source` names the choice. Raises Failure."""
    codes: dict[str, bytes] = {}
    forms: dict[str, list[Form]] = {}
    for one in chosen:
        _check_shapes(request, one.interface, [one.interface])
        form = _Former(one.several.alone, one.arch, one.interface, request, codes).form()
        forms.setdefault(one.interface.name, []).append(form)
    return _written(name, source, request, forms, codes)


def _written(name: str, source: str, request: Request, forms: Mapping[str, Sequence[Form]], codes: Mapping[str, bytes]) -> Built:
    for found in forms.values():
        # One C function serves all targets and tiles; its parameter types are derived from element types and ranks.
        _check_alike([variant for form in found for variant in form.variants])
    kernels = tuple(Kernel(kernel, tuple(found)) for kernel, found in forms.items())
    constants = tuple((constant, str(value)) for constant, value in request.constants.items())
    # The digests cover files generated from the manifest, so it is written twice: without them, then with them.
    draft = Manifest(identifier(name), VERSION, source, constants, kernels, {})
    files = {**codes, **{file: text.encode() for file, text in c_files(draft, codes).items()}}
    digests = {file: hashlib.sha256(data).hexdigest() for file, data in files.items()}
    manifest = Manifest(draft.name, draft.compiler, draft.source, draft.constants, draft.kernels, digests)
    return Built(manifest, {**files, NAME: to_text(manifest).encode()})


def _compiled(source: Source, options: Options, until: str) -> Compilation:
    state = compile_source(source, options, until)
    if state.failed:
        raise Failure(*state.diagnostics)
    return state


def _check_shapes(request: Request, interface: KernelInterface, all_: Sequence[KernelInterface]) -> None:
    """Each requested size must belong to some kernel, and there must not be so many that choosing takes minutes."""
    known = dimensions_of(interface)
    for name in request.shapes:
        if not any(name in dimensions_of(one) for one in all_):
            raise unknown(f"there is no dimension `{name}`", [interface.name], known)
    count = 1
    for name in known:
        count *= len(request.shapes.get(name, (0,)))
    if count > MOST_POINTS:
        raise Failure(messages.TooManyPoints(kernel=interface.name, count=count, most=MOST_POINTS))


def _check_alike(variants: Sequence[Variant]) -> None:
    """One function launches all of them."""
    first = variants[0].interface
    for variant in variants:
        if _signature(variant.interface) != _signature(first):
            values = " ".join(f"{name}={value}" for name, value in variant.values)
            raise Failure(messages.FormsDiffer(kernel=first.name, values=values or "another target"))


def _signature(interface: KernelInterface) -> list[object]:
    return [
        (one.name, one.dtype, one.shape, one.written) if isinstance(one, TensorArgument) else (one.name, one.dtype)
        for one in interface.arguments
    ]


@record
class _Wanted:
    """The candidate for these sizes; `ranked`: all of them by predicted time, if there is a prediction."""

    sizes: Sizes
    candidate: Candidate
    origin: Origin
    ranked: Sequence[Ranked] = ()


class _Former:
    """Builds the forms of one kernel for one target, from the candidates of an offer; `codes` collects the code."""

    def __init__(
        self, offer: Choices | Several, arch: str, interface: KernelInterface, request: Request, codes: dict[str, bytes]
    ) -> None:
        self._offer, self._arch, self._interface = offer, arch, interface
        self._request, self._codes = request, codes
        self._dimensions = dimensions_of(interface)

    def form(self) -> Form:
        wanted = [*self._measured(), *self._predicted()] if len(self._offer.candidates) > 1 else []
        kept = self._kept(wanted)
        if not kept:
            return Form(self._arch, (self._variant(self._offer.file, 0),), ())
        variants = tuple(self._variant(candidate, number) for number, candidate in enumerate(kept))
        choices = (Choice(one.sizes, kept.index(one.candidate), one.origin) for one in (_among(kept, one) for one in wanted))
        return Form(self._arch, variants, tuple(choices) if len(kept) > 1 else ())

    def _measured(self) -> list[_Wanted]:
        """From the table beside the source: rows of devices that run the target's code."""
        found = []
        name = label(self._interface.name, self._offer.pinned)
        for row in shipped(self._offer.source):
            sizes = dict(row.sizes)
            if row.kernel != name or not TARGETS[self._arch].is_of(row.device) or sizes.keys() != {*self._dimensions}:
                continue
            candidate = self._offer.of_values(dict(row.values))
            if candidate is not None:
                found.append(_Wanted(tuple(sizes[one] for one in self._dimensions), candidate, "table"))
        return found

    def _predicted(self) -> list[_Wanted]:
        found = []
        for sizes in self._points():
            ranked = self._offer.ranked(dict(zip(self._dimensions, sizes, strict=True)))
            found.append(_Wanted(sizes, self._offer.best_of(ranked), "model", ranked))
        return found

    def _points(self) -> list[Sizes]:
        count = len(self._dimensions)
        levels = [self._request.shapes.get(name, _LEVELS.get(count, _FEW)) for name in self._dimensions]
        points = list(product(*levels))
        # With many dimensions there are too many points to predict; then one variant is built, with the values in the file.
        return points if len(points) <= MOST_POINTS else []

    def _kept(self, wanted: Sequence[_Wanted]) -> list[Candidate]:
        """The measured candidates, then those that suit the most sizes; in order of first use."""
        count = Counter(one.candidate for one in wanted)
        measured = {one.candidate for one in wanted if one.origin == "table"}
        # `sorted` is stable and `Counter` preserves insertion order, so that two builds keep the same tiles.
        kept = sorted(count, key=lambda one: (one not in measured, -count[one]))[: self._request.tiles]
        # Numbered by first use, not by rank, so that another measurement does not rename the files of the bundle.
        return [candidate for candidate in count if candidate in kept]

    def _variant(self, candidate: Candidate, number: int) -> Variant:
        """Compiled and assembled. Raises Failure."""
        state = self._offer.built(candidate, self._interface.name)
        if state.failed:
            raise Failure(*state.diagnostics)
        assert state.ptx is not None and state.plans is not None
        sink = Sink()
        assembled = assemble(state.ptx, state.arch, sink, sources={state.source.name: state.source})
        if assembled is None:
            raise Failure(*sink.diagnostics)
        stem = f"{self._interface.name}-{state.arch}-{number}"
        self._codes[f"{stem}.cubin"], self._codes[f"{stem}.ptx"] = assembled.cubin, state.ptx.encode()
        values = tuple((name, str(value)) for name, value in candidate.values)
        return Variant(values, state.plans[0].interface, f"{stem}.cubin", f"{stem}.ptx")


def _among(kept: Sequence[Candidate], wanted: _Wanted) -> _Wanted:
    """The best of the candidates that are kept."""
    if wanted.candidate in kept:
        return wanted
    candidate = next((one.candidate for one in wanted.ranked if one.candidate in kept), kept[0])
    return _Wanted(wanted.sizes, candidate, "model")
