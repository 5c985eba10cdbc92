"""A kernel as an operator of a tensor library: its inputs, returned tensors, and inputs changed in place."""

from collections.abc import Iterable

from pipec.interface import ScalarArgument, TensorArgument
from pipec.isa.dtypes import DTYPES
from pipec.record import record


class NotAnOperator(ValueError):
    """The kernel cannot be such an operator; the text says why, and what can be done."""


@record
class Signature:
    """The signature of the operator: `inputs` in the kernel's order; `returned` tensors are created by the operator, with sizes that
    follow from the inputs; `changed` inputs are written in place."""

    inputs: tuple[TensorArgument | ScalarArgument, ...]
    returned: tuple[TensorArgument, ...]
    changed: tuple[str, ...]

    @property
    def schema(self) -> str:
        """In the syntax of torch.library."""
        parts = [self._parameter(one) for one in self.inputs]
        results = ", ".join(["Tensor"] * len(self.returned))
        return f"({', '.join(parts)}) -> {results if len(self.returned) == 1 else f'({results})'}"

    def _parameter(self, one: TensorArgument | ScalarArgument) -> str:
        if isinstance(one, ScalarArgument):
            return f"{'float' if one.dtype.startswith(('f', 'bf')) else 'bool' if one.dtype == 'bool' else 'SymInt'} {one.name}"
        if one.name in self.changed:
            return f"Tensor(a{self.changed.index(one.name)}!) {one.name}"
        return f"Tensor {one.name}"


def signature(arguments: Iterable[TensorArgument | ScalarArgument]) -> Signature:
    """Tensors that the kernel only writes are returned, if their sizes follow from the others; those that it accumulates into, or reads
    as well, are changed inputs. Raises NotAnOperator."""
    listed = tuple(arguments)
    known = {
        extent
        for one in listed
        if isinstance(one, TensorArgument) and (not one.written or one.accumulated)
        for extent in one.shape
        if isinstance(extent, str)
    }
    returned = tuple(
        one
        for one in listed
        if isinstance(one, TensorArgument) and one.written and not one.accumulated and known >= set(_names(one))
    )
    packed = next((one for one in returned if DTYPES[one.dtype].is_packed), None)
    if packed is not None:
        raise NotAnOperator(f"`{packed.name}` has elements of {packed.dtype}, several to a byte, which no tensor library has")
    inputs = tuple(one for one in listed if one not in returned)
    changed = tuple(one.name for one in inputs if isinstance(one, TensorArgument) and one.written)
    return Signature(inputs, returned, changed)


def _names(one: TensorArgument) -> list[str]:
    return [extent for extent in one.shape if isinstance(extent, str)]
