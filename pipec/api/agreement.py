"""The common call interface of interchangeable kernels: the arguments that a caller passes."""

from collections.abc import Mapping, Sequence

from pipec.diag.catalogue.language.tuning import KernelsDiffer
from pipec.diag.message import Failure
from pipec.interface import KernelInterface, ScalarArgument, TensorArgument

Argument = TensorArgument | ScalarArgument


def check_agreement(
    common: KernelInterface, steps: Sequence[KernelInterface], scratch: Mapping[str, TensorArgument], arch: tuple[str, str]
) -> None:
    """`steps`: the kernels that run, one after the other, in place of the one with the interface `common`. `arch`: the targets of both.
    Raises Failure with the first difference."""
    name = steps[0].name

    def differ(problem: str, help: str) -> None:
        raise Failure(KernelsDiffer(kernel=name, first=common.name, problem=problem, remedy=help))

    if arch[0] != arch[1]:
        differ(f"it is compiled for {arch[1]}, not {arch[0]}", "compile all of them for one target")
    given = {one.name: one for one in common.arguments}
    found: dict[str, list[Argument]] = {}
    for step in steps:
        for argument in step.arguments:
            if argument.name not in given and argument.name not in scratch:
                hint = f'`scratch=["{argument.name}"]` passes zeros, made for each call, where the kernel works in such a tensor'
                differ(f"its parameter `{argument.name}` is none of `{common.name}`", hint)
            found.setdefault(argument.name, []).append(argument)
    for wanted in common.arguments:
        if wanted.name not in found:
            differ(f"it has no parameter `{wanted.name}`", "leave it out")
        for argument in found[wanted.name]:
            if _declared(argument) != _declared(wanted):
                differ(f"its parameter is `{_declared(argument)}`, not `{_declared(wanted)}`", "leave it out")
        if _effect(found[wanted.name]) != _effect([wanted]):
            here, there = (_EFFECTS[_effect(arguments)] for arguments in (found[wanted.name], [wanted]))
            differ(f"it {here} `{wanted.name}`, which `{common.name}` {there}", "leave it out")
    # A single kernel takes the parameters in its own order; several kernels, each with some of them, define no order.
    if len(steps) == 1 and (order := [one for one in found if one in given]) != [*given]:
        differ(f"its parameters are in the order {', '.join(order)}, not {', '.join(given)}", "change the order of one of them")
    sizes = {extent for one in given.values() if isinstance(one, TensorArgument) for extent in one.shape}
    for tensor in (one for one in scratch.values() if one.name in found):
        if unknown := [extent for extent in tensor.shape if isinstance(extent, str) and extent not in sizes]:
            differ(
                f"the size `{unknown[0]}` of its parameter `{tensor.name}` follows from none of `{common.name}`", "leave it out"
            )


def _declared(argument: Argument) -> str:
    sizes = f"[{', '.join(map(str, argument.shape))}]" if isinstance(argument, TensorArgument) else ""
    return f"{argument.name}: {argument.dtype}{sizes}"


_EFFECTS = {"reads": "only reads", "writes": "only writes", "changes": "reads and writes"}


def _effect(arguments: Sequence[Argument]) -> str:
    """The combined effect of several uses of a tensor."""
    tensors = [one for one in arguments if isinstance(one, TensorArgument)]
    if not any(one.written for one in tensors):
        return "reads"
    first = tensors[0]
    return "changes" if first.accumulated or not first.written else "writes"
