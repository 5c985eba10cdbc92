"""What of a kernel an operator takes, makes and changes."""

import pytest

import pipec
from pipec.operators import NotAnOperator, signature

COPY = """
kernel copy(x: tensor[f32, M, 64], y: tensor[f32, {shape}], scale: f32, n: i32):
    grid(ceildiv(M, 64))
    role one(warps=4):
        {store}
"""


def schema(shape: str, store: str) -> str:
    return signature(pipec.compile(COPY.format(shape=shape, store=store))["copy"].interface.arguments).schema


def test_what_is_only_written_is_returned() -> None:
    store = "store(y[block.x * 64, 0], load(x[block.x * 64, 0], 64, 64) * scale)"
    assert schema("M, 64", store) == "(Tensor x, float scale, SymInt n) -> Tensor"


def test_what_no_other_tensor_has_the_size_of_is_changed_in_place() -> None:
    store = "store(y[block.x * 64, 0], load(x[block.x * 64, 0], 64, 64) * scale)"
    assert schema("N, 64", store) == "(Tensor x, Tensor(a0!) y, float scale, SymInt n) -> ()"


def test_what_is_added_to_is_changed_in_place() -> None:
    store = 'store.direct(y[block.x * 64, 0], load(x[block.x * 64, 0], 64, 64) * scale, reduce="add")'
    assert schema("M, 64", store) == "(Tensor x, Tensor(a0!) y, float scale, SymInt n) -> ()"


def test_packed_elements_are_refused() -> None:
    from pipec.interface import TensorArgument

    x = TensorArgument("x", "f32", ("M", 64), False, True, False)
    y = TensorArgument("y", "e2m1", ("M", 64), True, True, False)
    with pytest.raises(NotAnOperator, match="several to a byte"):
        signature([x, y])
