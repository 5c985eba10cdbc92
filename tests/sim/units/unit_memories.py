"""Plain memories for the unit tests."""

from contextlib import contextmanager

import numpy as np
import pytest

from pipec.sim.units.errors import UnitError
from pipec.sim.units.tcgen05.mma import MmaOperands
from pipec.sim.units.tcgen05.mma import mma as tcgen05_mma


class FlatShared:
    """256 KB of shared memory that knows which bytes were written."""

    def __init__(self):
        self.data = np.zeros(1 << 18, np.uint8)
        self.written = np.zeros(1 << 18, bool)

    def read(self, offsets):
        if not self.written[offsets].all():
            raise UnitError("uninitialised", "shared byte was never written")
        return self.data[offsets]

    def read_granules(self, granules):
        return self.read((granules[..., None] * 16 + np.arange(16)).reshape(len(granules), -1))

    def write(self, offsets, values):
        self.data[offsets] = values
        self.written[offsets] = True


class FlatGlobal:
    """A byte array at `base`; touching anything else is an error."""

    def __init__(self, size, base=0x10000):
        self.base = base
        self.data = np.zeros(size, np.uint8)
        self.touched = np.zeros(size, bool)

    def _index(self, addresses):
        index = addresses - self.base
        assert ((index >= 0) & (index < self.data.size)).all(), "access outside the allocation"
        return index

    def gather(self, addresses):
        return self.data[self._index(addresses)]

    def scatter(self, addresses, values):
        self.data[self._index(addresses)] = values
        self.touched[self._index(addresses)] = True

    def gather_runs(self, starts, length):
        return self.gather(starts[:, None] + np.arange(length))

    def scatter_runs(self, starts, values):
        self.scatter(starts[:, None] + np.arange(values.shape[1]), values)


@contextmanager
def raises(kind, *fragments):
    """Expect a UnitError of `kind` whose message contains every fragment."""
    with pytest.raises(UnitError) as caught:
        yield
    assert caught.value.kind == kind, caught.value
    for fragment in fragments:
        assert fragment in caught.value.message


_BESIDE = ("a_shifted", "disable_output_lane", "scale_input_d", "numerics")  # options of `mma` that are no operands


def mma(kind, idesc, a, b, tensors, shared, d_address, accumulate, cta_group=1, **options):
    """One tcgen05.mma with operands and options in one list."""
    beside = {name: options.pop(name) for name in _BESIDE if name in options}
    return tcgen05_mma(MmaOperands(kind, idesc, a, b, d_address, accumulate, cta_group, **options), tensors, shared, **beside)
