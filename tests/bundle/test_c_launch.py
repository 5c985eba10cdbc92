"""A launch from C is that from Python: the same tensor maps, parameters and configuration, the same refusals in the same words."""

import random
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from bundle.c_bundle import CBundle, DeviceArray, FakeCuda, example, layouts, needs_compiler, parameter_sizes
from fake_driver import FakeApi, parameter_bytes
from samples import some

from pipec.bundle.manifest import dimensions_of
from pipec.interface import KernelInterface, ScalarArgument
from pipec.runtime.errors import ArgumentError, LaunchError
from pipec.runtime.image import Image
from pipec.runtime.launcher import Launcher

pytestmark = [
    needs_compiler,
    pytest.mark.xdist_group("bundles in C"),  # one worker compiles each once
    # The device has room for four clusters, fewer than some kernels ask for: Python warns, C has nobody to tell.
    pytest.mark.filterwarnings("ignore:kernel .* shares its tiles out"),
]

_NOWHERE = 2**64 - 1  # in place of the address of a stand-in, where there is none
SUCCESS, BAD_ARGUMENT, NO_DEVICE, CANNOT_LAUNCH, DRIVER_FAILED = range(5)

# Maps, pointers, strides, scalars, packed elements, scale factors, clusters, conditions, blocks that stay; one to four dimensions.
KERNELS: dict[str, dict[str, int]] = {
    "gemm_sm90": {"M": 256, "N": 384, "K": 192},
    "gemm_sm90_cluster": {"M": 1024, "N": 512, "K": 192},
    "gemm_tiles": {"M": 512, "N": 256, "K": 64},
    "gemm_2cta_persistent": {"M": 2048, "N": 512, "K": 64},
    "gemm_nvfp4": {"M": 256, "N": 256, "K": 512, "M_CHUNKS": 2, "N_CHUNKS": 2, "K_CHUNKS": 8},
    "gemm_mxfp8_2cta": {"M": 256, "N": 256, "K": 512, "M_CHUNKS": 2, "N_CHUNKS": 2, "K_CHUNKS": 4},
    "attention_sm90": {"H": 2, "S": 256, "T": 128},
    "elementwise": {"M": 512, "N": 128},
    "gemm_split_k_serial": {"M": 256, "N": 128, "K": 640, "ROWS": 4, "COLUMNS": 4},
    "gemm_grouped": {"M": 520, "N": 256, "K": 128, "GROUPS": 5, "ENDS": 6},
    "rms_norm_cluster": {"M": 128, "N": 512},
    "programmatic_launch": {"M": 256, "N": 256, "K": 192},
    "copy_tma": {"M": 600, "N": 1024},  # 300 blocks, which share out the memory of the multiprocessors
}
FORMATS: dict[str, dict[str, str]] = {"gemm_mxfp8_2cta": {"A": "e2m1", "B": "e2m3"}}  # which tensor maps unpack
_TAKEN = some("bundles in C", list(KERNELS), 0.4)  # compiled once for both tests


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("bundles")


@pytest.fixture
def opened(request: pytest.FixtureRequest, cuda: FakeCuda, folder: Path) -> Iterator[CBundle]:
    bundle = _compiled(request.param, folder, cuda)
    cuda.reset(**_device(bundle))
    assert bundle.open() == SUCCESS, bundle.message
    bundle.stand_in = cuda.allocated()
    yield bundle
    cuda.reset()
    bundle.close()


@cache
def _compiled(name: str, folder: Path, cuda: FakeCuda) -> CBundle:
    return CBundle(example(name, **FORMATS.get(name, {})), folder / name, cuda)


def _device(bundle: CBundle) -> dict[str, int]:
    """A device that runs the bundle's first target."""
    major = int(bundle.manifest.kernels[0].forms[0].arch.removeprefix("sm_").rstrip("a")) // 10
    return {"major": major, "minor": 0, "multiprocessors": 148}


def _interfaces(bundle: CBundle) -> list[KernelInterface]:
    return [kernel.interface for kernel in bundle.manifest.kernels]


def values(interface: KernelInterface, arrays: Sequence[DeviceArray], scalars: float = 2) -> list[Any]:
    """Arrays and numbers in the kernel's order."""
    left = iter(arrays)
    return [scalars if isinstance(argument, ScalarArgument) else next(left) for argument in interface.arguments]


def python(interface: KernelInterface, arch: str, passed: Sequence[Any], api: FakeApi) -> str:
    """What the Python runtime says of a call; nothing where it launches."""
    api.capability = (int(arch.removeprefix("sm_").rstrip("a")) // 10, 0)
    api.launcher = Launcher(interface, Image(None, b"code", arch))  # keeps the parameters that are looked at afterwards
    try:
        api.launcher(tuple(passed))
    except (ArgumentError, LaunchError) as error:
        return error.problem
    return ""


def _numbers(values: Sequence[Any]) -> str:
    return ",".join(str(int(value)) for value in values)


def encoded(api: FakeApi) -> list[dict[str, str]]:
    """As the stand-in in C writes it."""
    names = ("type", "rank", "address", "dims", "strides", "box", "steps", "interleave", "swizzle", "promotion", "fill")
    found = []
    for function, arguments in api.calls:
        if function == "cuTensorMapEncodeTiled":
            texts = [_numbers(value) if isinstance(value, list) else str(int(value)) for value in arguments]
            found.append({"call": function, **dict(zip(names, texts, strict=True))})
    return found


def launched(interface: KernelInterface, api: FakeApi) -> dict[str, str]:
    config, pointers = api.launches[-1]
    row = {"call": "cuLaunchKernelEx", "grid": _numbers([config.gridDimX, config.gridDimY, config.gridDimZ])}
    row["block"] = _numbers([config.blockDimX, config.blockDimY, config.blockDimZ])
    row |= {"shared": str(config.sharedMemBytes), "stream": str(int(config.hStream))}
    for attribute in config.attrs:
        if attribute.id == api.CUlaunchAttributeID.CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION:
            size = attribute.value.clusterDim
            row["cluster"] = _numbers([size.x, size.y, size.z])
        else:
            row["programmatic"] = str(attribute.value.programmaticStreamSerializationAllowed)
    blocks = parameter_bytes(pointers, parameter_sizes(interface))
    return row | {f"parameter{number}": block.hex() for number, block in enumerate(blocks)}


@pytest.mark.parametrize("opened", _TAKEN, indirect=True)
def test_a_launch_is_that_of_python(opened: CBundle, api: FakeApi, cuda: FakeCuda) -> None:
    for kernel in opened.manifest.kernels:
        interface, arch = kernel.interface, kernel.forms[0].arch
        passed = values(interface, layouts(interface, KERNELS[opened.name]))
        api.calls.clear()
        assert python(interface, arch, passed, api) == ""
        cuda.reset(**_device(opened))
        assert opened.launch(interface, passed) == SUCCESS, opened.message
        assert cuda.calls("cuTensorMapEncodeTiled") == encoded(api)
        (call,) = cuda.calls("cuLaunchKernelEx")
        assert call == launched(interface, api)


def told(calls: Sequence[dict[str, str]], stand_in: int) -> list[dict[str, str]]:
    """Calls in which the memory that stands for empty tensors, which each side allocates for itself, has a name."""
    texts = {str(stand_in): "stand-in", stand_in.to_bytes(8, "little").hex(): "stand-in"}
    return [{name: texts.get(value, value) for name, value in call.items()} for call in calls]


def mutations(interface: KernelInterface, sizes: dict[str, int], draw: random.Random) -> Iterator[list[Any]]:
    """Calls that differ from a right one in a few places: sizes, strides, addresses."""
    dimensions = dimensions_of(interface)
    while True:
        changed = dict(sizes)
        if draw.random() < 0.5:
            name = draw.choice(dimensions)
            changed[name] = draw.choice([0, 1, 7, 8, 16, 24, changed[name] + 1, changed[name] + 8, 2 * changed[name], 3 * 128])
        arrays = layouts(interface, changed)
        for _ in range(draw.choice([0, 1, 1, 1, 2])):
            one = draw.choice(arrays)
            axis = draw.randrange(len(one.shape))
            strides, shape = list(one.stride()), list(one.shape)
            match draw.choice(["stride", "shape", "address", "near", "literal"]):
                case "stride":
                    strides[axis] = draw.choice(
                        [0, 1, 2, 3, -strides[axis], strides[axis] + 1, strides[axis] + 8, strides[axis] + 64, 2**41]
                    )
                case "shape":
                    shape[axis] = draw.choice([0, 1, 2, 8, shape[axis] + 1, 2 * shape[axis], 2**31, 2**20])
                case "address":
                    one._address += draw.choice([1, 2, 4, 8, 16, 32])
                case "near":
                    other = draw.choice(arrays)
                    one._address = other._address + draw.choice([0, 2, 16, 64, 128, 256, 1024, -16, -256])
                case "literal":
                    strides = [stride * 2 for stride in strides]
            one._strides, one.shape = tuple(strides), tuple(shape)
        yield values(interface, arrays)


@pytest.mark.parametrize("opened", _TAKEN, indirect=True)
def test_c_refuses_what_python_refuses_in_the_same_words(opened: CBundle, api: FakeApi, cuda: FakeCuda) -> None:
    draw = random.Random(opened.name)
    for kernel in opened.manifest.kernels:
        interface, arch = kernel.interface, kernel.forms[0].arch
        answers = set()
        for number, passed in enumerate(mutations(interface, KERNELS[opened.name], draw)):
            if number == 100:
                break
            api.calls.clear()
            api.launches.clear()
            cuda.reset(**_device(opened))
            expected = python(interface, arch, passed, api)
            status = opened.launch(interface, passed)
            assert (status, opened.message) == ((BAD_ARGUMENT, expected) if expected else (SUCCESS, "")), [
                (one.shape, one.stride(), one.data_ptr()) for one in passed if isinstance(one, DeviceArray)
            ]
            stand_in = next(iter(api.memory), _NOWHERE)
            api.memory.clear()
            assert told(cuda.calls("cuTensorMapEncodeTiled"), opened.stand_in) == told(encoded(api), stand_in)
            expected_launches = [launched(interface, api)] if api.launches else []
            assert told(cuda.calls("cuLaunchKernelEx"), opened.stand_in) == told(expected_launches, stand_in)
            answers.add(expected.partition("`: ")[2][:20])
        assert len(answers) > 6 and "" in answers, answers
