"""A kernel that selects its tile at the call: by measurements for its sizes, else by the model, else the values in the file.

The choice is made once per set of shapes and remembered; a call then costs a lookup by shapes. On the simulator, and if no GPU fits, the
values in the file are used: speed does not matter there, and every run does the same.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from functools import cached_property
from math import isfinite
from typing import TYPE_CHECKING, Any, Generic, Literal, TypeVar

from pipec.diag.message import Failure
from pipec.interface import KernelInterface, TensorArgument
from pipec.record import record
from pipec.tune.choice import Candidate, Offer
from pipec.tune.store import keep, keep_ranked, kept, ranked_before, shipped
from pipec.tune.table import Row, bucket, found
from pipec.verify.conditions import met, names_in
from pipec.verify.data import formula_of

if TYPE_CHECKING:
    from pipec.runtime.again import Recent

Variant = TypeVar("Variant")
Origin = Literal["measured", "table", "model", "file"]

_MOST_SHAPES = 4096  # size of the memo, which is cleared when full
Shapes = tuple[Any, ...]


@record
class Gpu:
    """The properties of a device that a choice depends on."""

    name: str
    multiprocessors: int


@record
class Chosen:
    """`origin`: measured here, in the table beside the kernel, chosen by the model, or the values in the file."""

    candidate: Candidate
    origin: Origin


def label(kernel: str, pinned: Mapping[str, object]) -> str:
    """The name of a kernel in tables, including values set from outside."""
    values = " ".join(f"{name}={value}" for name, value in sorted(pinned.items()))
    return kernel + (f"[{values}]" if values else "")


class Tuned(Generic[Variant]):
    """`compiled` creates a candidate's kernel; `gpu_of` finds the device of a call's arguments, None if it will not run on one;
    `interface_of` gives the interface of a candidate's kernel, which restricts its sizes."""

    def __init__(
        self,
        choices: Offer,
        interface: KernelInterface,
        compiled: Callable[[Candidate], Variant],
        gpu_of: Callable[[Sequence[Any], str], Gpu | None],
        interface_of: Callable[[Variant], KernelInterface] | None = None,
    ) -> None:
        self.choices, self.interface, self._compiled, self._gpu_of = choices, interface, compiled, gpu_of
        self._interface_of = interface_of or (lambda made: interface)
        self._tensors = [(i, a) for i, a in enumerate(interface.arguments) if isinstance(a, TensorArgument)]
        self._by_shapes: dict[tuple[str, Shapes], Variant | None] = {}
        self._by_bucket: dict[tuple[Gpu, tuple[tuple[str, int], ...]], Chosen] = {}
        self._variants: dict[Candidate, Variant] = {}
        self._rows: dict[str, list[Row]] = {}

    @cached_property
    def recent(self) -> "Recent":
        """The launches of all candidates. Imported late: a process that only compiles never launches."""
        from pipec.runtime.again import Recent

        return Recent(lambda arguments: [arguments[index] for index, _ in self._tensors])

    @property
    def label(self) -> str:
        return label(self.interface.name, self.choices.pinned)

    def variant(self, arguments: Sequence[Any], device: str) -> Variant | None:
        """The kernel to call with these arguments; None: the one with the values in the file."""
        shapes = self._shapes(arguments)
        if shapes is None or device == "sim":
            return None
        key = device, shapes
        if key in self._by_shapes:
            return self._by_shapes[key]
        sizes, gpu = self._sizes(shapes), self._gpu_of(arguments, device)
        if sizes is None or gpu is None:
            return None
        made = self._made(sizes, gpu)
        if len(self._by_shapes) >= _MOST_SHAPES:
            self._by_shapes.clear()
        self._by_shapes[key] = made
        return made

    def _made(self, sizes: Mapping[str, int], gpu: Gpu) -> Variant | None:
        """The first choice that compiles and can be launched with these sizes; None: the values in the file."""
        without: set[Candidate] = set()
        if not launchable(self.interface, sizes):
            without.add(self.choices.file)
        while (chosen := self.chosen(sizes, gpu, without).candidate) != self.choices.file:
            try:
                made = self.of(chosen)
            except Failure as failure:
                # The checks or the proof refuse it; the user has not asked for these particular values.
                self.choices.refuse(chosen, failure.diagnostics)
                self._by_bucket.clear()
                continue
            if launchable(self._interface_of(made), sizes):
                return made
            without.add(chosen)
        return None

    def of(self, candidate: Candidate) -> Variant:
        """A candidate's kernel, compiled once. Propagates compile errors."""
        if candidate not in self._variants:
            self._variants[candidate] = self._compiled(candidate)
        return self._variants[candidate]

    def chosen(self, sizes: Mapping[str, int], gpu: Gpu, without: Collection[Candidate] = ()) -> Chosen:
        """The candidate for these sizes on a device, excluding `without` while there are others. It is not checked, as `_made` compiles it.
        Raises Failure if the table beside the kernel is damaged."""
        for origin, rows in (("measured", self._measured(gpu.name)), ("table", self._shipped())):
            row = found(rows, gpu.name, self.label, sizes)
            candidate = None if row is None else self.choices.of_values(dict(row.values), checked=False)
            if candidate is not None and candidate not in without:
                return Chosen(candidate, "measured" if origin == "measured" else "table")
        if without:  # failing to launch with these exact sizes says nothing about others in their bucket
            return self._of_model(self.choices.selected(sizes, gpu.multiprocessors, without, checked=False).candidate)
        key = gpu, tuple(sorted((name, bucket(size)) for name, size in sizes.items()))
        if key not in self._by_bucket:
            self._by_bucket[key] = self._of_model(self._ranked_before(sizes, gpu) or self._ranked_now(sizes, gpu))
        return self._by_bucket[key]

    def _of_model(self, candidate: Candidate) -> Chosen:
        return Chosen(candidate, "file" if candidate == self.choices.file else "model")

    def _ranked_before(self, sizes: Mapping[str, int], gpu: Gpu) -> Candidate | None:
        """The model's choice in an earlier process for these sizes, or others in their bucket."""
        row = found(ranked_before(self.choices.source, gpu.name, gpu.multiprocessors), gpu.name, self.label, sizes)
        return None if row is None else self.choices.of_values(dict(row.values), checked=False)

    def _ranked_now(self, sizes: Mapping[str, int], gpu: Gpu) -> Candidate:
        found = self.choices.selected(sizes, gpu.multiprocessors, checked=False)
        if isfinite(found.seconds):
            values = tuple((name, str(value)) for name, value in found.candidate.values)
            times = [one * 1e6 if isfinite(one) else found.seconds * 1e6 for one in (found.seconds, found.file_seconds)]
            row = Row(gpu.name, self.label, tuple(sorted(sizes.items())), values, *times)
            keep_ranked(self.choices.source, row, gpu.multiprocessors)
        return found.candidate

    def remember(self, row: Row) -> None:
        """Records a measurement, also for later processes."""
        keep(self.choices.source, row)
        self._rows.clear()
        self._by_shapes.clear()
        self.recent.forget()

    def _measured(self, device: str) -> list[Row]:
        if device not in self._rows:
            self._rows[device] = kept(self.choices.source, device)
        return self._rows[device]

    def _shipped(self) -> list[Row]:
        if "" not in self._rows:
            self._rows[""] = shipped(self.choices.source)
        return self._rows[""]

    # ---------------------------------------------------------------------------------------------------------- sizes

    def _shapes(self, arguments: Sequence[Any]) -> Shapes | None:
        """The lookup key; None for arguments without shapes, which are left to the launcher."""
        try:
            return tuple([tuple(arguments[index].shape) for index, _ in self._tensors])
        except (AttributeError, IndexError, TypeError):
            return None

    def sizes(self, arguments: Sequence[Any]) -> dict[str, int] | None:
        """Dimension -> extent of these arguments; None if they do not fit the kernel, which the launcher reports."""
        shapes = self._shapes(arguments)
        return None if shapes is None else self._sizes(shapes)

    def _sizes(self, shapes: Shapes) -> dict[str, int] | None:
        sizes: dict[str, int] = {}
        for (_, argument), shape in zip(self._tensors, shapes, strict=True):
            if len(shape) != len(argument.shape):
                return None
            for name, extent in zip(argument.shape, shape, strict=True):
                if not isinstance(extent, int) or (isinstance(name, str) and sizes.setdefault(name, extent) != extent):
                    return None
        return sizes


def launchable(interface: KernelInterface, sizes: Mapping[str, int]) -> bool:
    """Whether the kernel's conditions allow these sizes; conditions on the grid or on scalars are checked at launch."""
    conditions = map(formula_of, interface.conditions)
    return all(met(one, sizes) for one in conditions if {*names_in(one)} <= sizes.keys())
