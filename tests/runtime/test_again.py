"""Launches whose tensors are recognised as a whole: they do what launches do whose arguments are read one by one, and refuse as much."""

import gc
import weakref

import numpy as np
import pytest
from fake_driver import Torch
from interfaces import bf16, gemm, scale
from recorder import GEMM_SIZES, Recorder, address, tensors

from pipec.runtime import again as again_module
from pipec.runtime import launcher as launcher_module
from pipec.runtime.arguments.recognition import recogniser
from pipec.runtime.arguments.signatures import Reader
from pipec.runtime.errors import ArgumentError
from pipec.runtime.image import Image
from pipec.runtime.launcher import Launcher, LaunchOptions

CODE = Image(None, b"cubin", "sm_100a")


def facts(tensor):
    return tensor.shape, tensor.stride(), tensor.dtype, tensor.get_device(), tensor.requires_grad


class Recognising:
    """Stands in for torch's comparison; `state` is what torch's own depends on beside the tensors."""

    def __init__(self):
        self.state, self.made, self.recognised = 0, 0, 0

    def __call__(self, known):
        self.made += 1
        wanted, state = [facts(one) for one in known], self.state

        def recognise(*given):
            if len({id(one) for one in given}) < len(given) or not all(isinstance(one, Torch) for one in given):
                return False
            same = state == self.state and [facts(one) for one in given] == wanted
            self.recognised += same
            return same

        return recognise


@pytest.fixture
def recognising(monkeypatch):
    made = Recognising()
    monkeypatch.setattr(again_module, "recogniser", made)
    return made


@pytest.fixture
def read(monkeypatch):
    """How often arguments are read one by one."""
    times = []
    usual = Reader.__call__
    monkeypatch.setattr(Reader, "__call__", lambda self, arguments: times.append(1) or usual(self, arguments))
    return times


def test_fresh_tensors_are_recognised_and_not_read(api, recognising, read):
    call, recorder = Launcher(gemm(), CODE), Recorder(api, GEMM_SIZES)
    api.current = 1000
    pool = [tuple(tensors()) for _ in range(6)]
    results = [call(arrays) for arrays in pool]
    assert len(read) == 1 and recognising.recognised == 5 and recognising.made == 1
    assert all(result is results[0] for result in results)
    for arrays, (_, grid, blocks) in zip(pool, recorder.seen, strict=True):
        assert [address(block) for block in blocks[:3]] == [array.data_ptr() for array in arrays] and grid == (2, 2, 1)


def test_layers_of_several_shapes_called_in_turn_are_all_recognised(api, recognising, read):
    """As a model calls one operator for all of its layers: none is like the launch before it."""
    call, recorder = Launcher(gemm(), CODE), Recorder(api, GEMM_SIZES)
    shapes = (256, 128, 64), (128, 256, 64), (256, 128, 128)
    layers = [tuple(tensors(*shape)) for shape in shapes * 4]
    for arrays in layers:
        call(arrays)
    assert len(read) == recognising.made == 3 and recognising.recognised == 9
    for arrays, (_, _, blocks) in zip(layers, recorder.seen, strict=True):
        assert [address(block) for block in blocks[:3]] == [array.data_ptr() for array in arrays]


def test_launches_of_many_shapes_are_not_all_kept(api, recognising, read, monkeypatch):
    monkeypatch.setattr(again_module, "_MOST_SHAPES", 4)
    call = Launcher(gemm(), CODE)
    for m in range(64, 64 + 8 * 6, 8):
        call(tuple(tensors(m=m)))
    assert len(read) == 6
    call(tuple(tensors(m=64)))  # among the first, whose plan is kept, but not what recognises it
    assert len(read) == 7


@pytest.mark.parametrize(
    "other",
    [
        lambda a, b, d: (Torch(bf16(384, 64)), b, Torch(bf16(384, 128))),
        lambda a, b, d: (Torch(bf16(256, 128)[:, :64]), b, d),
        lambda a, b, d: (a, b, Torch(bf16(257, 128)[1:])),
    ],
    ids=["sizes", "strides", "another row"],
)
def test_what_differs_is_launched_as_it_is(api, recognising, other):
    call, plain = Launcher(gemm(), CODE), Recorder(api, GEMM_SIZES)
    arrays = tuple(tensors())
    call(arrays)
    changed = other(*arrays)
    for given in (changed, arrays, changed):
        call(given)
    recognising.state += 1  # nothing is recognised by what there is
    alone = Launcher(gemm(), CODE)
    for given in (arrays, changed, arrays, changed):
        alone(list(given))
    half = len(plain.seen) // 2
    assert plain.seen[:half] == plain.seen[half:] and len(plain.seen) == 8


def test_low_bits_of_an_address_are_looked_at(api, recognising):
    """Rows that begin between multiples of 16 bytes: a tensor map cannot have them, whatever the tensor was recognised as."""
    call = Launcher(gemm(), CODE)
    a, b, d = tensors()
    call((a, b, d))
    memory = np.zeros(256 * 64 * 2 + 16, np.uint8)
    odd = Torch(memory[2:-14].view(a.array.dtype).reshape(256, 64))
    with pytest.raises(ArgumentError, match="`a`.*16"):
        call((odd, b, d))


def test_outputs_that_share_memory_are_refused(api, recognising):
    call = Launcher(gemm(), CODE)
    a, b, d = tensors(m=64, n=64, k=64)
    call((a, b, d))
    with pytest.raises(ArgumentError, match="`d`"):
        call((a, b, Torch(a.array)))
    assert recognising.recognised == 1


def test_scalars_belong_to_the_call_and_those_that_shape_the_grid_to_the_signature(api, recognising, read):
    call, recorder = Launcher(scale(), CODE), Recorder(api, (8, 8, 8, 4, 4, 4))
    x, y = (Torch(np.zeros((64, 32), np.float32)) for _ in "xy")
    for s, steps in ((1.0, 1), (2.0, 1), (3.0, 2), (4.0, 2), (5, 2), (6.0, True)):
        call((x, y, s, steps))
    grids = [grid[0] for _, grid, _ in recorder.seen]
    scalars = [(np.frombuffer(blocks[4], np.float32)[0], int.from_bytes(blocks[5], "little")) for _, _, blocks in recorder.seen]
    assert grids == [16, 16, 32, 32, 32, 16] and scalars == [(1, 1), (2, 1), (3, 2), (4, 2), (5, 2), (6, 1)]
    assert len(read) == 4  # a first launch, another value of what shapes the grid, and two other types


def test_too_many_or_too_few_arguments_and_what_is_no_tensor(api, recognising):
    call = Launcher(gemm(), CODE)
    a, b, d = tensors()
    call((a, b, d))
    for wrong in ((a, b), (a, b, d, d), (a, b, None), ()):
        with pytest.raises(ArgumentError):
            call(wrong)


def test_options_and_devices_have_launches_of_their_own(api, recognising, read):
    call = Launcher(gemm(), CODE)
    arrays = tuple(tensors())
    call(arrays)
    call(arrays, options=LaunchOptions(programmatic=True))
    call(arrays, device="cuda:0")
    call(arrays, device="cuda:0")
    call(arrays)
    assert len(read) == 3 and recognising.recognised == 2  # the last call repeats the first


def test_another_state_of_torch_is_learned_but_not_for_ever(api, recognising, read):
    call = Launcher(gemm(), CODE)
    arrays = tuple(tensors())
    for _ in range(30):
        recognising.state += 1
        call(arrays)
    assert recognising.made == launcher_module._TRIES and len(read) == 30
    again = Launcher(gemm(), CODE)
    for _ in range(3):
        again(arrays)
    recognising.state += 1
    read.clear()
    for _ in range(3):
        again(arrays)
    assert len(read) == 1


def test_nothing_of_the_arguments_is_kept(api, recognising):
    call = Launcher(gemm(), CODE)
    for _ in range(3):
        arrays = tuple(tensors())
        kept = [weakref.ref(one) for one in arrays]
        call(arrays)
        del arrays
        gc.collect()
        assert [one() for one in kept] == [None] * 3


def test_tensors_of_other_classes_are_read(api):
    """A class of the caller's may end, and another one begin at its address."""
    assert recogniser(tensors()) is None and recogniser([1.0]) is None
