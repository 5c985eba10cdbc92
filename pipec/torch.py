"""A kernel as an operator of torch: in eager mode, under torch.compile, in CUDA graphs, with autocast and gradients.

    linear = pipec.torch.op(pipec.compile("gemm.pipe")["gemm"], name="linear")
    d = linear(a, b)

torch must be installed; this is the only module that imports it at import time.
"""

from collections.abc import Callable, Sequence
from typing import Any

import torch

from pipec.api.program import CompiledKernel
from pipec.interface import TensorArgument
from pipec.isa.dtypes import DTYPES
from pipec.operators import NotAnOperator, Signature, signature

NAMESPACE = "pipec"
Gradient = Callable[..., Any]


def op(
    kernel: CompiledKernel,
    *,
    name: str | None = None,
    backward: Gradient | None = None,
    autocast: torch.dtype | None = None,
) -> Callable[..., Any]:
    """Registers `pipec::NAME` (the kernel's name by default) with torch.library and returns it.

    The operator takes the kernel's arguments in order, without the tensors that the kernel only writes and whose sizes follow from the
    others: those are created and returned. Other tensors that the kernel changes are declared as mutated, so that torch tracks their
    versions. CUDA tensors run on the GPU, on torch's current stream; CPU tensors in the simulator.

    `backward(inputs, results, *gradients)` computes a gradient (or None) for each input from the gradients of the results; without it
    torch rejects an input that requires a gradient. Under autocast floating-point inputs are converted to `autocast`. Raises
    NotAnOperator.
    """
    form = signature(kernel.interface.arguments)
    if not form.returned and not form.changed:
        raise NotAnOperator(f"`{kernel.name}` writes nothing")
    if backward is not None and form.changed:
        raise NotAnOperator(
            f"`{kernel.name}` changes {', '.join(form.changed)} in place, so torch records no gradient through it"
        )
    short = name or kernel.name
    full = f"{NAMESPACE}::{short}"
    library = _library(short)
    library.define(short + form.schema)
    create = _creation(form)
    library.impl(short, _implementation(kernel, form, create), "CompositeExplicitAutograd")
    torch.library.register_fake(full, lambda *given: _packed(create(given)), lib=library)
    if not form.changed:
        _with_gradient(full, library, backward or _no_gradient(full), len(form.returned))
    if autocast is not None:
        for device in ("cuda", "cpu"):
            torch.library.register_autocast(full, device, autocast, lib=library)
    called: Callable[..., Any] = getattr(getattr(torch.ops, NAMESPACE), short).default
    return called


_LIBRARIES: dict[str, torch.library.Library] = {}  # an operator exists as long as its library object


def _library(name: str) -> torch.library.Library:
    """A new library for one operator, which replaces an earlier operator of the same name.

    torch.library.custom_op would do, but wraps every call in checks that cost the host several times the launch."""
    if (old := _LIBRARIES.pop(name, None)) is not None:
        old._destroy()
    _LIBRARIES[name] = torch.library.Library(NAMESPACE, "FRAGMENT")  # noqa: TOR901 - kept above
    return _LIBRARIES[name]


Create = Callable[[Sequence[Any]], list[torch.Tensor]]


def _implementation(kernel: CompiledKernel, form: Signature, create: Create) -> Callable[..., Any]:
    order = tuple(one.name for one in kernel.interface.arguments)
    inputs = tuple(one.name for one in form.inputs)
    returned = tuple(one.name for one in form.returned)
    # The source of each kernel argument: an input, or after those a created tensor.
    places = tuple(inputs.index(name) if name in inputs else len(inputs) + returned.index(name) for name in order)
    changed = tuple(map(inputs.index, form.changed))
    tensors = tuple(at for at, one in enumerate(form.inputs) if isinstance(one, TensorArgument))

    def run(*given: Any) -> Any:
        if changed:
            if torch.is_grad_enabled() and any(given[at].requires_grad for at in tensors):
                raise RuntimeError(f"`{kernel.name}` changes tensors in place, so autograd records no gradient through it")
            for at in changed:  # one by one: only recent versions of torch take several
                torch.autograd.graph.increment_version(given[at])
        made = create(given)
        values = (*given, *made)
        # torch records the gradient around this call, if any, not inside it.
        with torch.no_grad():
            kernel(*[values[place] for place in places])
        return _packed(made)

    return run


def _creation(form: Signature) -> Create:
    """Creates the result tensors, empty, on the device of the inputs; sizes may be symbolic."""
    tensors = [(at, one) for at, one in enumerate(form.inputs) if isinstance(one, TensorArgument)]
    first = tensors[0][0]
    sources: dict[str | int, list[tuple[int, int]]] = {}
    for at, one in tensors:
        for axis, extent in enumerate(one.shape):
            sources.setdefault(extent, []).append((at, axis))
    # Both libraries have the same names of element types.
    results = [(one.shape, getattr(torch, DTYPES[one.dtype].numpy or one.dtype)) for one in form.returned]

    def size(given: Sequence[Any], extent: str) -> Any:
        # A tensor with too few dimensions is reported by the launch.
        return next(given[at].shape[axis] for at, axis in sources[extent] if axis < given[at].dim())

    def create(given: Sequence[Any]) -> list[torch.Tensor]:
        like = given[first]
        return [
            like.new_empty([size(given, extent) if isinstance(extent, str) else extent for extent in shape], dtype=dtype)
            for shape, dtype in results
        ]

    return create


def _packed(made: list[torch.Tensor]) -> Any:
    return made[0] if len(made) == 1 else tuple(made) or None


def _no_gradient(name: str) -> Gradient:
    def refuse(*_: Any) -> Any:
        raise RuntimeError(f"{name} has no autograd formula: pass `backward` to pipec.torch.op")

    return refuse


def _with_gradient(name: str, library: torch.library.Library, backward: Gradient, results: int) -> None:
    # torch passes these by name.
    def setup(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
        outputs = (output,) if results == 1 else tuple(output)
        ctx.rest = tuple(None if isinstance(value, torch.Tensor) else value for value in inputs)
        ctx.save_for_backward(*(value for value in inputs if isinstance(value, torch.Tensor)), *outputs)

    def gradient(ctx: Any, *gradients: torch.Tensor) -> Any:
        saved = list(ctx.saved_tensors)
        outputs = tuple(saved[len(saved) - results :])
        tensors = iter(saved)
        inputs = tuple(next(tensors) if value is None else value for value in ctx.rest)
        return backward(inputs, outputs, *gradients)

    torch.library.register_autograd(name, gradient, setup_context=setup, lib=library)
