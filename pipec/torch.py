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
    defined: Any = torch.library.custom_op(
        f"{NAMESPACE}::{name or kernel.name}", _implementation(kernel, form), mutates_args=form.changed, schema=form.schema
    )
    defined.register_fake(lambda *given: _packed(_made(form, given)))
    if backward is not None:
        _with_gradient(defined, backward, len(form.returned))
    if autocast is not None:
        for device in ("cuda", "cpu"):
            defined.register_autocast(device, autocast)
    called: Callable[..., Any] = defined
    return called


def _implementation(kernel: CompiledKernel, form: Signature) -> Callable[..., Any]:
    order = tuple(one.name for one in kernel.interface.arguments)
    inputs = tuple(one.name for one in form.inputs)
    returned = tuple(one.name for one in form.returned)
    # The source of each kernel argument: an input, or after those a created tensor.
    places = tuple(inputs.index(name) if name in inputs else len(inputs) + returned.index(name) for name in order)

    def run(*given: Any) -> Any:
        made = _made(form, given)
        values = (*given, *made)
        # torch records the gradient around this call, if any, not inside it.
        with torch.no_grad():
            kernel(*(values[place] for place in places))
        return _packed(made)

    return run


def _made(form: Signature, given: Sequence[Any]) -> tuple[torch.Tensor, ...]:
    """Empty result tensors on the device of the inputs; sizes may be symbolic."""
    tensors = [(one, value) for one, value in zip(form.inputs, given, strict=True) if isinstance(one, TensorArgument)]
    sizes = {
        extent: value.shape[axis]
        for one, value in reversed(tensors)
        for axis, extent in enumerate(one.shape)
        if isinstance(extent, str) and axis < value.dim()
    }
    first = tensors[0][1]
    return tuple(
        torch.empty(
            [sizes[extent] if isinstance(extent, str) else extent for extent in one.shape],
            dtype=getattr(torch, DTYPES[one.dtype].numpy or one.dtype),  # both libraries have the same names
            device=first.device,
        )
        for one in form.returned
    )


def _packed(made: tuple[torch.Tensor, ...]) -> Any:
    return made[0] if len(made) == 1 else made or None


def _with_gradient(defined: Any, backward: Gradient, results: int) -> None:
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

    defined.register_autograd(gradient, setup_context=setup)
