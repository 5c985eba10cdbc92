"""Arrays of other libraries, without the libraries: DLPack capsules of NumPy, and objects that speak the protocols."""

import ml_dtypes
import numpy as np
import pytest
from interfaces import bf16, gemm

from pipec.runtime.arguments.binding import bind
from pipec.runtime.arguments.views import NotAnArray, view_of
from pipec.runtime.errors import ArgumentError


class ThroughDLPack:
    """An object whose only way out is DLPack; `versioned` as array libraries since 2024 export."""

    def __init__(self, array, versioned=True):
        self._array, self._versioned = array, versioned

    def __dlpack_device__(self):
        return (1, 0)

    def __dlpack__(self, **options):
        if not self._versioned:
            if options:
                raise TypeError("unexpected keyword")
            return self._array.__dlpack__()
        return self._array.__dlpack__(max_version=options["max_version"])


@pytest.mark.parametrize("versioned", [False, True])
def test_dlpack_shares_the_memory(versioned):
    array = np.arange(24, dtype=np.float32).reshape(4, 6)[:, 1:5]
    view = view_of(ThroughDLPack(array, versioned))
    assert (view.address, view.shape, view.strides, view.dtype) == (array.ctypes.data, (4, 4), (24, 4), "float32")
    assert view.on_host and not view.readonly


def test_dlpack_marks_read_only_arrays():
    array = np.zeros(4, np.int8)
    array.flags.writeable = False
    assert view_of(ThroughDLPack(array)).readonly


class OnDevice:
    """What CuPy and Numba export; the address is never followed."""

    def __init__(self, shape, address=1 << 20, typestr="<V2", dtype=None, strides=None, index=0):
        self.dtype = dtype or np.dtype(ml_dtypes.bfloat16)
        self.device = type("Device", (), {"id": index})()
        self.__cuda_array_interface__ = {
            "version": 3,
            "shape": shape,
            "typestr": typestr,
            "data": (address, False),
            "strides": strides,
        }


def test_cuda_array_interface():
    view = view_of(OnDevice((8, 16), index=1))
    assert (view.address, view.strides, view.dtype, view.device) == (1 << 20, (32, 2), "bfloat16", "cuda:1")
    assert view_of(OnDevice((8,), typestr="<f4", strides=(8,))).strides == (8,)


def test_arrays_on_two_devices():
    arrays = [OnDevice((256, 64)), OnDevice((128, 64), 2 << 20), OnDevice((256, 128), 3 << 20)]
    assert bind(gemm(), arrays).device == "cuda:0"
    with pytest.raises(ArgumentError, match="`b`: it is on device `cuda:1`, but `a` is on `cuda:0`"):
        bind(gemm(), [arrays[0], OnDevice((128, 64), index=1), arrays[2]])
    with pytest.raises(ArgumentError, match="`d`: it is on device `cpu`"):
        bind(gemm(), [*arrays[:2], bf16(256, 128)])


def test_device_memory_that_overlaps_is_not_touched():
    arrays = [OnDevice((256, 64)), OnDevice((128, 64), 2 << 20), OnDevice((256, 128), (1 << 20) + 4096)]
    with pytest.raises(ArgumentError, match="shares memory with `a`"):
        bind(gemm(), arrays)


def test_what_is_no_array():
    with pytest.raises(NotAnArray, match="`list`"):
        view_of([1])


def test_bytes_in_place():
    array = np.arange(12, dtype=np.int16).reshape(3, 4)[:, :3]
    flat = view_of(array).bytes_in_place()
    assert flat.size == 22
    flat[0] = 99
    assert array[0, 0] == 99


def test_a_read_only_array_stays_read_only_in_place():
    array = np.zeros(4, np.int8)
    array.flags.writeable = False
    assert not view_of(array).bytes_in_place().flags.writeable
