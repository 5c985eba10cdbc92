"""Bundles in C against a stand-in for libcuda: compiling them, calling them through ctypes, reading what they asked of the driver."""

import atexit
import ctypes
import os
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from shutil import which
from typing import Any
from unittest.mock import patch

import pytest

from pipec.bundle.build import Built, Request, build
from pipec.bundle.c_tables import scalars_of
from pipec.interface import (
    DimensionParameter,
    KernelInterface,
    ScalarParameter,
    TensorArgument,
    TensorMapParameter,
)
from pipec.isa.dtypes import DTYPES
from pipec.ptx.assemble import Assembled
from pipec.runtime.arguments.tensors import numpy_dtype
from pipec.source import Source

HERE = Path(__file__).parent
EXAMPLES = HERE.parents[1] / "examples"
STRICT = ("-Wall", "-Wextra", "-Werror", "-Wshadow")
C11, CPP17 = ("gcc", "-std=c11"), ("g++", "-x", "c++", "-std=c++17")

MESSAGE_BYTES = 768
_C_SCALARS = {
    "i8": ctypes.c_int8, "u8": ctypes.c_uint8, "i16": ctypes.c_int16, "u16": ctypes.c_uint16, "i32": ctypes.c_int32,
    "u32": ctypes.c_uint32, "i64": ctypes.c_int64, "u64": ctypes.c_uint64, "f32": ctypes.c_float, "f64": ctypes.c_double,
    "bool": ctypes.c_ubyte,
}  # fmt: skip


class Error(ctypes.Structure):
    _fields_ = (("status", ctypes.c_int), ("driver", ctypes.c_int), ("message", ctypes.c_char * MESSAGE_BYTES))


@cache
def headers() -> Path | None:
    """Of cuda.h: NVIDIA's package of them, or Triton's copy."""
    for package, inside in (("nvidia", "cu13/include"), ("triton", "backends/nvidia/include")):
        spec = find_spec(package)
        for folder in (spec.submodule_search_locations or ()) if spec else ():
            if (Path(folder) / inside / "cuda.h").is_file():
                return Path(folder) / inside
    return None


def missing() -> str | None:
    """What is not here that bundles are compiled with."""
    absent = [tool for tool in ("gcc", "g++") if which(tool) is None]
    return f"no {' and no '.join(absent)}" if absent else None if headers() else "no cuda.h (package nvidia-cuda-runtime)"


needs_compiler = pytest.mark.skipif(missing() is not None, reason=f"bundles cannot be compiled here: {missing()}")


def compiled(command: Sequence[str], *arguments: object) -> str:
    """What the compiler says of it; AssertionError when that is anything."""
    words = [*command, *STRICT, "-isystem", str(headers()), *map(str, arguments)]
    done = subprocess.run(words, capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode == 0 and done.stderr == "", done.stderr
    return done.stdout


def write(built: Built, folder: Path) -> Path:
    folder.mkdir(exist_ok=True)
    for name, data in built.files.items():
        (folder / name).write_bytes(data)
    return folder


def request(**changes: Any) -> Request:
    fields: dict[str, Any] = {"constants": {}, "targets": (), "kernel": None, "shapes": {}, "tiles": 4, "allow_undecided": True}
    return Request(**fields | changes)


def unassembled(ptx: str, arch: str, *_: Any, **__: Any) -> Assembled:
    """In place of the assembler, where nobody runs the code."""
    return Assembled(b"\x7fELF" + arch.encode(), "none", (), ())


# What is tuned otherwise: each of these bundles has one variant.
_PINNED = {"gemm_sm90_cluster": {"CX": "2", "CY": "1", "BM": "128", "BN": "256"}}


@cache
def example(name: str, targets: tuple[str, ...] = (), **constants: str) -> Built:
    """The bundle of an example, with code that cannot run."""
    path = EXAMPLES / f"{name}.pipe"
    constants |= _PINNED.get(name, {})
    with patch("pipec.bundle.build.assemble", unassembled):
        return build(Source(path.name, path.read_text(encoding="utf-8")), name, request(constants=constants, targets=targets))


class FakeCuda:
    """The stand-in, loaded; one for the process, as its name is that of the library."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / "libcuda.so"
        compiled(C11, "-shared", "-fPIC", HERE / "fake_cuda.c", "-o", self.path)
        self.library = ctypes.CDLL(str(self.path), os.RTLD_GLOBAL)
        self.library.fake_log.restype = ctypes.c_char_p

    def reset(self, **device: int) -> None:
        self.library.fake_reset()
        usual = {"major": 9, "minor": 0, "multiprocessors": 132, "shared_bytes": 232_448, "threads": 1024, "clusters": 4}
        for name, value in (usual | {"device": 0, "stream_device": 0, "capturing": 0} | device).items():
            if name != "unknown":
                ctypes.c_int.in_dll(self.library, f"fake_{name}").value = value
        ctypes.c_ulonglong.in_dll(self.library, "fake_unknown").value = device.get("unknown", 1)

    def allocated(self) -> int:
        """The address that cuMemAlloc gave last."""
        return int(ctypes.c_ulonglong.in_dll(self.library, "fake_allocated").value)

    def fail(self, function: str, status: int = 2) -> None:
        self.library.fake_fail(function.encode(), status)

    def calls(self, function: str = "") -> list[dict[str, str]]:
        """Each call of a function (or all, under "call"): its arguments by name."""
        found = []
        for line in self.library.fake_log().decode().splitlines():
            name, *words = line.split(" ")
            if function in ("", name):
                found.append({"call": name, **dict(word.split("=", 1) for word in words)})
        return found


@cache
def stand_in() -> FakeCuda:
    """The one of this process: a second library of that name would be asked instead of the first, or not at all."""
    folder = tempfile.TemporaryDirectory(prefix="pipec-libcuda-")
    atexit.register(folder.cleanup)
    return FakeCuda(Path(folder.name))


class CBundle:
    """The C side of a bundle as Python calls it; undefined behaviour ends the process."""

    def __init__(self, built: Built, folder: Path, cuda: FakeCuda) -> None:
        self.name, self.manifest, self.cuda = built.manifest.name, built.manifest, cuda
        write(built, folder)
        library = folder / f"lib{self.name}.so"
        compiled(
            (*C11, "-O1", "-fsanitize=undefined", "-fsanitize-undefined-trap-on-error"),
            "-shared",
            "-fPIC",
            folder / f"{self.name}.c",
            cuda.path,
            "-o",
            library,
        )
        self.library = ctypes.CDLL(str(library))
        self.handle = ctypes.c_void_p()
        self.error = Error()
        self.stand_in = 0  # its memory for tensors without elements

    @property
    def message(self) -> str:
        return self.error.message.decode()

    def open(self) -> int:
        return int(getattr(self.library, f"{self.name}_open")(ctypes.byref(self.handle), ctypes.byref(self.error)))

    def close(self) -> None:
        getattr(self.library, f"{self.name}_close")(self.handle)
        self.handle = ctypes.c_void_p()

    def launch(self, interface: KernelInterface, values: Sequence[Any], stream: int = 0, parameters: Sequence[int] = ()) -> int:
        """`values`: tensors with `shape`, `stride()` in elements and `data_ptr()`, and numbers."""
        sizes = list(parameters) or parameter_sizes(interface)
        self.cuda.library.fake_parameters(len(sizes), (ctypes.c_int * len(sizes))(*sizes))
        passed: list[Any] = [self.handle]
        for argument, value in zip(interface.arguments, values, strict=True):
            if isinstance(argument, TensorArgument):
                passed.append(_array(len(argument.shape), value))
            else:
                passed.append(_C_SCALARS[argument.dtype](value))
        function = self.name if interface.name == self.name else f"{self.name}_{interface.name}"
        passed += [ctypes.c_void_p(stream), ctypes.byref(self.error)]
        return int(getattr(self.library, f"{function}_launch")(*passed))


def _array(rank: int, value: Any) -> ctypes.Structure:
    numbers = ctypes.c_int64 * max(1, rank)
    kind = type(
        f"Array{rank}", (ctypes.Structure,), {"_fields_": [("data", ctypes.c_uint64), ("shape", numbers), ("strides", numbers)]}
    )
    made: ctypes.Structure = kind(value.data_ptr(), numbers(*value.shape), numbers(*value.stride()))
    return made


def parameter_sizes(interface: KernelInterface) -> list[int]:
    """Bytes of each parameter that are compared: of a tensor map those that the stand-ins make of its address."""
    scalars = {scalar.name: numpy_dtype(DTYPES[scalar.dtype]).itemsize for scalar in scalars_of(interface)}
    sizes = []
    for parameter in interface.parameters:
        match parameter:
            case DimensionParameter():
                sizes.append(4)
            case ScalarParameter(scalar=scalar):
                sizes.append(scalars[scalar])
            case _:
                sizes.append(8)
    return sizes


def maps_in(interface: KernelInterface) -> int:
    return sum(isinstance(parameter, TensorMapParameter) for parameter in interface.parameters)


class DeviceArray:
    """A torch tensor to the runtime, of any layout: nothing looks at its memory."""

    __module__ = "torch"
    is_cuda = False  # so that no current stream is asked for
    layout = "torch.strided"
    requires_grad = False

    def __init__(self, dtype: str, itemsize: int, address: int, shape: Sequence[int], strides: Sequence[int]) -> None:
        self.dtype, self._itemsize, self._address = f"torch.{dtype}", itemsize, address
        self.shape, self._strides = tuple(shape), tuple(strides)

    class device:
        type, index = "cuda", 0

    def stride(self) -> tuple[int, ...]:
        return self._strides

    def data_ptr(self) -> int:
        return self._address

    def element_size(self) -> int:
        return self._itemsize

    def get_device(self) -> int:
        return 0

    def is_conj(self) -> bool:
        return False

    is_neg = is_conj


def layouts(interface: KernelInterface, sizes: Mapping[str, int], start: int = 1 << 30) -> list[DeviceArray]:
    """An array for each tensor, without gaps but for what tensor maps ask of rows."""
    made = []
    for argument in interface.arguments:
        if not isinstance(argument, TensorArgument):
            continue
        dtype = DTYPES[argument.dtype]
        shape = [size if isinstance(size, int) else sizes[size] for size in argument.shape]
        if dtype.is_packed:
            shape[-1] = shape[-1] * dtype.bits // 8
        item = numpy_dtype(dtype).itemsize
        strides, step = [], 1
        for size in reversed(shape):
            strides.insert(0, step)
            step *= max(size, 1)
            if argument.through_tensor_map:
                step = -(-step * item // 32) * 32 // item
        made.append(DeviceArray(str(dtype.numpy), item, start, shape, strides))
        start += (step * item + 4095) // 1024 * 1024
    return made
