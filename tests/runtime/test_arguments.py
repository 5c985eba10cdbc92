"""Binding and refusing arguments: every refusal names kernel and parameter, both values, and what to do."""

import ml_dtypes
import numpy as np
import pytest
from interfaces import bf16, gemm, gemm_arrays, interface, scale

from pipec.interface import TensorArgument, TensorMapParameter
from pipec.runtime.arguments.binding import bind
from pipec.runtime.arguments.parameters import TensorMapValue, values_of
from pipec.runtime.errors import ArgumentError


def refused(kernel, arguments, parameter, *words):
    with pytest.raises(ArgumentError) as caught:
        bind(kernel, arguments)
    error = caught.value
    assert error.kernel == kernel.name and error.parameter == parameter
    for word in words:
        assert word in str(error), str(error)
    return error


def test_dimensions_are_bound_by_name():
    bound = bind(gemm(), gemm_arrays(256, 128, 64))
    assert bound.dimensions == {"M": 256, "N": 128, "K": 64} and bound.device == "cpu"


def test_arguments_by_name():
    a, b, d = gemm_arrays()
    assert bind(gemm(), {"d": d, "a": a, "b": b}).dimensions["M"] == 256


def test_wrong_number_of_arguments():
    refused(gemm(), gemm_arrays()[:2], "d", "takes 3 arguments (a, b, d), got 2")
    refused(gemm(), [*gemm_arrays(), 1], "", "takes 3 arguments", "got 4")
    a, b, d = gemm_arrays()
    refused(gemm(), {"a": a, "d": d}, "b", "no value was passed")
    refused(gemm(), {"a": a, "b": b, "d": d, "e": d}, "e", "no such parameter")


def test_dimensions_must_agree():
    error = refused(gemm(), [bf16(256, 64), bf16(128, 72), bf16(256, 128)], "b", "`K` is 72 here (axis 1) but 64 in `a` (axis 1)")
    assert "agree" in error.help


def test_literal_dimension():
    kernel = interface([TensorArgument("t", "f32", (4, "N"), False, False, True)])
    refused(kernel, [np.zeros((8, 4), np.float32)], "t", "dimension 0 must be 4, got 8")


def test_rank():
    refused(gemm(), [bf16(256), *gemm_arrays()[1:]], "a", "expected 2 dimensions (M, K), got 1", "(256,)")


@pytest.mark.parametrize("dtype", [np.float32, np.float16, np.uint16, ">f4", object, ml_dtypes.float8_e4m3])
def test_element_type(dtype):
    error = refused(gemm(), [np.zeros((256, 64), dtype), *gemm_arrays()[1:]], "a", "expected element type bf16 (bfloat16), got")
    assert "ml_dtypes.bfloat16" in error.help


@pytest.mark.parametrize("value", [None, 3, "text", [[1.0]], object()])
def test_not_an_array(value):
    error = refused(gemm(), [value, *gemm_arrays()[1:]], "a", "is not an array")
    assert "__dlpack__" in error.help


@pytest.mark.parametrize(
    ("name", "numpy_name"), [("tf32", "float32"), ("i8", "int8"), ("e4m3", "float8_e4m3fn"), ("bool", "bool")]
)
def test_stored_types(name, numpy_name):
    kernel = interface([TensorArgument("t", name, ("N",), False, False, True)])
    dtype = getattr(ml_dtypes, numpy_name, None) or numpy_name
    assert bind(kernel, [np.zeros(32, dtype)]).views["t"].dtype == numpy_name


def test_innermost_dimension_is_contiguous():
    error = refused(gemm(), [bf16(64, 256).T, *gemm_arrays()[1:]], "a", "innermost dimension must be contiguous", "512 bytes")
    assert "ascontiguousarray" in error.help


def test_row_stride_of_a_tensor_map():
    error = refused(gemm(), [bf16(256, 100), bf16(128, 100), bf16(256, 128)], "a", "stride 200 bytes", "multiple of 16")
    assert "(256, 104)" in error.help and ":100]" in error.help
    padded = [bf16(256, 104)[:, :100], bf16(128, 104)[:, :100], bf16(256, 128)]
    assert bind(gemm(), padded).dimensions["K"] == 100


def test_one_row_has_no_row_stride():
    kernel = gemm()
    bound = bind(kernel, [bf16(1, 100), bf16(128, 104)[:, :100], bf16(1, 128)])
    assert bound.views["a"].strides == (208, 2)


def test_base_alignment():
    refused(gemm(), [bf16(256, 72)[:, 1:65], *gemm_arrays()[1:]], "a", "2 bytes past a multiple of 16")


def test_backwards():
    refused(gemm(), [bf16(256, 64)[::-1], *gemm_arrays()[1:]], "a", "runs backwards")


def test_stores_write_whole_16_bytes():
    kernel = gemm()
    d = bf16(256, 136)[:, :131]
    error = refused(kernel, [bf16(256, 64), bf16(131, 64), d], "d", "131 elements (262 bytes)", "10 bytes past the end of a row")
    assert "`N` a multiple of 8" in error.help


def test_read_only_output():
    a, b, d = gemm_arrays()
    d.flags.writeable = False
    refused(gemm(), [a, b, d], "d", "read-only")
    a.flags.writeable = False
    bind(gemm(), [a, b, bf16(256, 128)])


def test_output_overlaps_an_input():
    memory = bf16(512, 64)
    square = interface(gemm().arguments[:1] + gemm().arguments[2:])
    refused(square, [memory[:256], memory[128:384]], "d", "shares memory with `a`")
    bind(square, [memory[:256], memory[256:]])
    bind(square, [memory[:, :32], memory[:, 32:]])  # interleaved rows, no byte in common


def test_inputs_may_be_the_same_array():
    a = bf16(128, 64)
    bind(gemm(), [a, a, bf16(128, 128)])


def test_output_overlaps_itself():
    d = np.lib.stride_tricks.as_strided(bf16(128), (256, 128), (0, 2))
    refused(gemm(), [bf16(256, 64), bf16(128, 64), d], "d", "elements overlap")


def test_dimension_limit():
    kernel = interface([TensorArgument("t", "i8", ("N",), False, False, True)])
    huge = np.lib.stride_tricks.as_strided(np.zeros(1, np.int8), (2**31,), (0,))
    refused(kernel, [huge], "t", "2147483648 elements")


def test_by_address_needs_no_gaps_without_a_stride_parameter():
    x, y = np.zeros((8, 16), np.float32), np.zeros((8, 16), np.float32)
    assert bind(scale(), [np.zeros((8, 19), np.float32)[:, :16], y, 2.0, 1]).views["x"].strides == (76, 4)
    refused(scale(), [x, np.zeros((8, 19), np.float32)[:, :16], 2.0, 1], "y", "no gaps", "76 bytes, expected 64")


def test_element_alignment():
    raw = np.zeros(4 * 129, np.uint8)[1:513].view(np.float32)
    refused(scale(), [raw.reshape(8, 16), np.zeros((8, 16), np.float32), 1, 1], "x", "1 bytes past a multiple of 4")


def test_scalars():
    x, y = np.zeros((8, 16), np.float32), np.zeros((8, 16), np.float32)
    bound = bind(scale(), [x, y, np.float64(1.5), np.int64(3)])
    assert bound.scalars["s"] == np.float32(1.5).tobytes() and bound.scalars["steps"] == b"\3\0\0\0"
    assert bound.integers == {"steps": 3, "M": 8, "N": 16}
    refused(scale(), [x, y, "1", 1], "s", "expected one f32 value")
    refused(scale(), [x, y, x, 1], "s", "of shape (8, 16)")
    refused(scale(), [x, y, 1e300, 1], "s", "does not fit f32")
    refused(scale(), [x, y, 1.0, 1.5], "steps", "expected a whole number for i32, got 1.5")
    refused(scale(), [x, y, 1.0, float("nan")], "steps", "whole number")
    refused(scale(), [x, y, 1.0, 2**31], "steps", "does not fit i32")
    assert bind(scale(), [x, y, float("inf"), 1]).scalars["s"] == np.float32("inf").tobytes()


def test_empty_arrays_are_bound():
    bound = bind(gemm(), [bf16(256, 0), bf16(128, 0), bf16(256, 128)])
    assert bound.dimensions["K"] == 0 and bound.views["a"].empty


def narrow_kernel(element, dtype="e2m1"):
    parameters = [TensorMapParameter("x_map", "x", element, (128, 128), "128B")]
    return interface([TensorArgument("x", dtype, ("M", "K"), False, True, False)], parameters)


def test_packed_elements_come_as_bytes():
    assert bind(narrow_kernel("b4x16"), [np.zeros((4, 48), np.uint8)]).dimensions == {"M": 4, "K": 96}
    assert bind(narrow_kernel("b6x16_p32", "e3m2"), [np.zeros((4, 96), np.uint8)]).dimensions == {"M": 4, "K": 128}
    error = refused(narrow_kernel("b4x16"), [np.zeros((4, 48), ml_dtypes.float4_e2m1fn)], "x", "expected e2m1 elements packed")
    assert "packed_arrays.pack" in error.help


def test_packed_rows_are_whole():
    refused(narrow_kernel("b6x16_p32", "e3m2"), [np.zeros((4, 32), np.uint8)], "x", "32 bytes are no whole number of e3m2")
    error = refused(narrow_kernel("b4x16_p64"), [np.zeros((4, 96), np.uint8)], "x", "rows of 192 e2m1", "whole pieces of 128")
    assert "multiple of 128" in error.help
    strided = np.zeros((4, 80), np.uint8)[:, :64]
    refused(narrow_kernel("b4x16_p64"), [strided], "x", "stride 80 bytes", "multiple of 32")


@pytest.mark.parametrize("dtype", [np.uint8, ml_dtypes.float8_e8m0fnu])
def test_scale_factors(dtype):
    kernel = interface(
        [TensorArgument("s", "ue8m0", ("M", "K", 512), False, True, False)],
        [TensorMapParameter("s_map", "s", "u32", (1, 1, 128), "none")],
    )
    bound = bind(kernel, [np.zeros((2, 3, 512), dtype)])
    (value,) = values_of(kernel, bound)
    assert isinstance(value, TensorMapValue)
    assert (value.dims, value.strides) == ((128, 3, 2), (512, 1536))
    refused(kernel, [np.zeros((2, 3, 512), np.float32)], "s", "expected element type ue8m0")


def test_maps_of_packed_elements_count_elements():
    kernel = narrow_kernel("b4x16")
    (value,) = values_of(kernel, bind(kernel, [np.zeros((4, 48), np.uint8)]))
    assert isinstance(value, TensorMapValue)
    assert (value.dims, value.strides) == ((96, 4), (48,))
