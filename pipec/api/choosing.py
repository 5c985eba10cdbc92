"""Several kernels combined into one: `gemm = pipec.choose(wide, narrow, (partial_sums, round_sums), scratch=["sums"])`.

The result is a kernel. A call on a GPU selects the kernel and the tile for its sizes, as a kernel with `tune` selects its tile.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import cached_property, partial
from operator import itemgetter
from typing import TYPE_CHECKING, Any

import numpy as np

from pipec.api.agreement import check_agreement
from pipec.api.planned import Planned
from pipec.api.program import CompiledKernel, CompileError
from pipec.diag.catalogue.commands.run import BadCall
from pipec.diag.message import Failure
from pipec.diag.shown import shown
from pipec.interface import KernelInterface, TensorArgument
from pipec.isa.dtypes import DTYPES
from pipec.record import replace
from pipec.tune.choice import Candidate
from pipec.tune.devices import gpu_for
from pipec.tune.several import Member, Several
from pipec.tune.tuned import Tuned

if TYPE_CHECKING:
    from pipec.predict.launch import Prediction
    from pipec.runtime import LaunchResult
    from pipec.runtime.again import Again

_LONGEST = 80  # of a kernel's name in a table
Step = CompiledKernel | Planned
Alternative = Step | tuple[Step, ...]


def choose(*kernels: Alternative, scratch: Sequence[str] = (), name: str | None = None) -> CompiledKernel:
    """Combines kernels with the same arguments into one, which on a GPU runs the best one for the sizes; in the simulator, the first.

    Each alternative is a kernel, or a tuple of kernels that run one after the other. `scratch` names parameters that the first kernel
    does not have; each call passes zeros of its own for them. `name` identifies the choice in tables of tiles. Raises CompileError if
    the parameters of the kernels do not agree.
    """
    alternatives = [one if isinstance(one, tuple) else (one,) for one in kernels]
    listed = all(one and all(map(_may_answer, one)) for one in alternatives)
    if not alternatives or not listed or not isinstance(first := alternatives[0][0], CompiledKernel):
        expected = "kernels of compiled programs, or tuples of them"
        raise CompileError([BadCall(parameter="kernels", expected=expected, found=shown(kernels)).diagnostic()])
    try:
        made = [_Alternative(steps, first, frozenset(scratch)) for steps in alternatives]
    except Failure as failure:
        raise CompileError(failure.diagnostics) from None
    named = dict(zip(_names(made), made, strict=True))
    several = Several([Member(label, one.choices, one.others) for label, one in named.items()])
    interface = replace(first.interface, name=name or " or ".join(named))

    def compiled(candidate: Candidate) -> "_Running":
        label, own = several.split(candidate)
        return named[label].of(own)

    tuned: Tuned[Any] = Tuned(several, interface, compiled, partial(gpu_for, first.arch), lambda running: running.interface)
    return replace(first, tuned=tuned, predicted=partial(_predicted, several, tuned), choices=None)


def _may_answer(step: object) -> bool:
    return isinstance(step, Planned) or (isinstance(step, CompiledKernel) and step.choices is not None)


def _names(made: Sequence["_Alternative"]) -> list[str]:
    """The name of the first kernel of each alternative, numbered if it occurs more than once."""
    names: list[str] = []
    for one in made:
        again = sum(name.partition(".")[0] == one.name for name in names)
        names.append(f"{one.name}.{again + 1}" if again else one.name)
    return names


def _predicted(
    several: Several, tuned: Tuned[Any], sizes: Mapping[str, int], device: str | None, clock: float | None
) -> "Prediction":
    running: _Running = tuned.of(several.choose(sizes))
    return running.predict(device=device, clock=clock, **sizes)


class _Alternative:
    """One kernel, or several in sequence, in place of the first. Raises Failure if their parameters do not agree with its own: those of
    kernels that have no plan yet are looked at on first use."""

    def __init__(self, steps: tuple[Step, ...], first: CompiledKernel, scratch: frozenset[str]) -> None:
        self._steps, self._first, self._may_scratch = steps, first, scratch
        self.name = steps[0].name[:_LONGEST]
        self.choices, *others = (step.choices() for step in steps if step.choices is not None)
        self.others = tuple(others)
        if all(isinstance(step, CompiledKernel) for step in steps):
            assert self.scratch is not None

    @cached_property
    def scratch(self) -> Mapping[str, TensorArgument]:
        """The parameters for which each call passes zeros."""
        steps, first = self._steps, self._first
        own = {one.name for one in first.interface.arguments}
        arguments = (one for step in steps for one in step.interface.arguments if isinstance(one, TensorArgument))
        found = {one.name: one for one in arguments if one.name in self._may_scratch - own}
        for step in steps:
            check_agreement(first.interface, [one.interface for one in steps], found, (first.arch, step.arch))
        return found

    def of(self, candidate: Candidate) -> "_Running":
        """With these values of the first step's tuned parameters; the others use the values in their files."""
        kernel, *others = self._steps
        own = candidate if candidate != self.choices.file else None
        # The candidate has been chosen already.
        steps = tuple(replace(step, tuned=None) for step in (kernel.of(own), *(other.of(None) for other in others)))
        return steps[0] if len(steps) == 1 and not self.scratch else InTurn(steps, self.scratch, replace(self._first, tuned=None))


class InTurn:
    """Kernels that run one after the other on one stream, in place of `otherwise`. Scratch tensors are zero when the first kernel starts
    and belong to the call: nothing is kept, so that calls may overlap on any streams, and graphs can be captured.

    `again`: a launch like the last one, if its tensors can be recognised."""

    again: "Again | None" = None

    def __init__(
        self, steps: tuple[CompiledKernel, ...], scratch: Mapping[str, TensorArgument], otherwise: CompiledKernel
    ) -> None:
        self._steps, self._scratch, self._otherwise = steps, tuple(scratch.values()), otherwise
        self._names = tuple(one.name for one in otherwise.interface.arguments)
        self._places = tuple(tuple(one.name for one in step.interface.arguments) for step in steps)
        conditions = tuple(condition for step in steps for condition in step.interface.conditions)
        self.interface: KernelInterface = replace(steps[0].interface, conditions=conditions)

    def __call__(
        self, /, *arguments: Any, device: str = "auto", stream: Any = None, options: Any = None, **by_name: Any
    ) -> "LaunchResult":
        given = dict(zip(self._names, arguments, strict=False)) | by_name
        made = self._made(given, stream)
        if made is None:
            return self._otherwise(*arguments, device=device, stream=stream, options=options, **by_name)
        given |= made
        for step, names in zip(self._steps, self._places, strict=True):
            result = step(*(given[name] for name in names), device=device, stream=stream, options=options)
        usual = options is None and len(arguments) == len(self._names)
        self.again = self._repeated(arguments, list(made.values())) if usual else None
        return result

    def _repeated(self, arguments: tuple[Any, ...], made: Sequence[Any]) -> "Again | None":
        """For launches like the one just made. The first kernel recognises the tensors, which determine the sizes of the scratch tensors;
        the others are called as usual, since an argument that only they refuse must be reported by them."""
        first, *others = self._steps
        start, zeros = first.again, _zeros_like(made)
        if start is None or zeros is None:
            return None
        order = (*self._names, *(one.name for one in self._scratch))
        picks = [_selection([order.index(name) for name in names]) for names in self._places]
        at = order.index(next(one.name for one in self._otherwise.interface.arguments if isinstance(one, TensorArgument)))
        count, kind, device, launch_first, pick_first = len(arguments), type(arguments[at]), start.device, start.launch, picks[0]
        rest = list(zip(others, picks[1:], strict=True))

        def launch(arguments: tuple[Any, ...], stream: Any) -> "LaunchResult | None":
            if len(arguments) != count or type(arguments[at]) is not kind:
                return None
            given = (*arguments, *zeros(arguments[at], stream))
            result = launch_first(pick_first(given), stream)
            if result is not None:
                for step, pick in rest:
                    result = step(*pick(given), device=device, stream=stream)
            return result

        return replace(start, launch=launch)

    def _made(self, given: Mapping[str, Any], stream: Any) -> dict[str, Any] | None:
        """Zeros in the memory of the arguments' library; None for libraries other than torch and NumPy."""
        tensors = [(one, given[one.name]) for one in self._otherwise.interface.arguments if isinstance(one, TensorArgument)]
        sizes = {extent: value.shape[axis] for one, value in tensors for axis, extent in enumerate(one.shape)}
        shapes = [tuple(sizes.get(extent, extent) for extent in one.shape) for one in self._scratch]
        kinds = [DTYPES[one.dtype].numpy or one.dtype for one in self._scratch]
        like = tensors[0][1]
        if isinstance(like, np.ndarray):
            made: list[Any] = [np.zeros(shape, kind) for shape, kind in zip(shapes, kinds, strict=True)]
        elif hasattr(like, "new_zeros"):  # torch
            import torch

            made = _torch_zeros(like, shapes, [getattr(torch, kind) for kind in kinds], stream)
        else:
            return None
        return dict(zip((one.name for one in self._scratch), made, strict=True))

    def predict(self, *, device: str | None = None, clock: float | None = None, **sizes: int) -> "Prediction":
        """The prediction for the first kernel, with the total time: each kernel starts when the previous one has ended."""
        found = []
        for step in self._steps:
            own = {extent for one in step.interface.arguments if isinstance(one, TensorArgument) for extent in one.shape}
            found.append(step.predict(device=device, clock=clock, **{name: size for name, size in sizes.items() if name in own}))
        seconds = sum(one.seconds for one in found)
        within = sum(one.within[0] for one in found), sum(one.within[1] for one in found)
        return replace(found[0], kernel=", then ".join(one.kernel for one in found), seconds=seconds, within=within)


_Running = CompiledKernel | InTurn


def _selection(places: Sequence[int]) -> Callable[[Sequence[Any]], tuple[Any, ...]]:
    return itemgetter(*places) if len(places) > 1 else lambda given: tuple(given[at] for at in places)


def _zeros_like(made: Sequence[Any]) -> Callable[[Any, Any], list[Any]] | None:
    """Creates zeros like these tensors of torch, beside a tensor and for a stream; None for other libraries."""
    if any(not hasattr(one, "new_zeros") for one in made):
        return None
    shapes, kinds = [one.shape for one in made], [one.dtype for one in made]
    return lambda like, stream: _torch_zeros(like, shapes, kinds, stream)


def _torch_zeros(like: Any, shapes: Sequence[Sequence[int]], kinds: Sequence[Any], stream: Any) -> list[Any]:
    def made() -> list[Any]:
        return [like.new_zeros(shape, dtype=kind) for shape, kind in zip(shapes, kinds, strict=True)]

    if stream is None or not like.is_cuda:
        return made()
    import torch

    from pipec.runtime.gpu.streams import stream_handle

    # On the stream of the kernels, so that they see the zeros and the memory is not reused before they end.
    with torch.cuda.stream(torch.cuda.ExternalStream(stream_handle(stream), device=like.device)):
        return made()
