"""With torch, on whatever device: tensors are recognised by exactly what the signature of a launch has of them, but for addresses."""

import weakref

import pytest

from pipec.runtime.arguments.recognition import recogniser

torch = pytest.importorskip("torch", reason="torch is not installed")


def signature(*tensors):
    """What pipec.runtime.arguments.signatures.Reader reads; of tensors on CUDA devices the number of the device tells it."""
    return [(one.shape, one.stride(), one.dtype, one.device, one.is_neg(), one.requires_grad) for one in tensors]


def several():
    base = torch.zeros(8, 16)
    yield torch.zeros(8, 16)
    yield torch.zeros(8, 15)
    yield torch.zeros(1, 16)
    yield torch.zeros(16)
    yield torch.zeros(16, 8).T
    yield torch.zeros(8, 32)[:, ::2]
    yield torch.zeros(8, 16, dtype=torch.bfloat16)
    yield torch.zeros(8, 16, requires_grad=True)
    yield torch.nn.Parameter(torch.zeros(8, 16), requires_grad=False)
    yield torch._neg_view(base)
    yield torch.zeros(0, 16)
    yield torch.zeros(8, 16, device="meta")
    if torch.cuda.is_available():
        yield torch.zeros(8, 16, device="cuda")


def test_what_is_recognised_has_the_same_signature():
    first = torch.zeros(8, 16)
    for one in several():
        recognise = recogniser([one, first])
        assert recognise is not None
        for other in several():
            same = signature(one) == signature(other) and type(one) is type(other)
            assert recognise(other, first) is same


def test_states_of_torch_are_distinguished_or_do_not_matter():
    """Whatever is not recognised is read; what is must be the same."""
    one = torch.zeros(8, 16)
    recognise = recogniser([one])
    with torch.no_grad():
        assert recognise(torch.zeros(8, 16)) is True
    with torch.inference_mode():
        made = torch.zeros(8, 16)
        assert recogniser([made])(torch.zeros(8, 16)) is True
        assert signature(made) == signature(one)
    assert recogniser([torch.zeros(8, 16).as_subclass(type("Mine", (torch.Tensor,), {}))]) is None


def test_nothing_of_the_tensors_is_kept():
    one = torch.zeros(1 << 20)
    recognise, kept = recogniser([one]), weakref.ref(one)
    assert recognise is not None and recognise(one)
    del one
    assert kept() is None and recognise(torch.zeros(1 << 20))
