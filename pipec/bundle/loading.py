"""A bundle in Python: its kernels are called like compiled ones, without the compiler.

The form is chosen by the device and the sizes of the arguments; everything else is done by the runtime (pipec.runtime.launcher).
"""

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Any

from pipec.bundle.choice import nearest
from pipec.bundle.manifest import MOST_BYTES, NAME, BundleError, Form, Kernel, Manifest, Variant, dimensions_of, from_text
from pipec.interface import KernelInterface, TensorArgument
from pipec.runtime.arguments.views import NotAnArray, is_torch, view_of
from pipec.runtime.errors import ArgumentError, DeviceError

if TYPE_CHECKING:
    from pipec.runtime.gpu.cuda_driver import Device
    from pipec.runtime.launcher import Launcher, LaunchOptions
    from pipec.runtime.result import LaunchResult

_MOST_SHAPES = 4096  # size of the memo, which is cleared when full


def load(folder: str | Path) -> "Bundle":
    """Loads a bundle written by `pipec build`. Raises BundleError."""
    path = Path(folder)
    return Bundle(path, from_text(_file(path, NAME).decode(errors="replace")))


def _file(folder: Path, name: str) -> bytes:
    try:
        with (folder / name).open("rb") as file:
            data = file.read(MOST_BYTES + 1)
    except (OSError, ValueError) as error:
        raise BundleError(f"{name} cannot be read: {getattr(error, 'strerror', None) or error}") from None
    if len(data) > MOST_BYTES:
        raise BundleError(f"{name} is larger than {MOST_BYTES >> 20} MiB")
    return data


class Bundle(Mapping[str, "BundledKernel"]):
    """The kernels of a bundle by name: `bundle["gemm"](a, b, d)`."""

    def __init__(self, folder: Path, manifest: Manifest) -> None:
        self.manifest = manifest
        self._kernels = {kernel.name: BundledKernel(folder, manifest, kernel) for kernel in manifest.kernels}

    def __getitem__(self, name: str) -> "BundledKernel":
        if name not in self._kernels:
            raise KeyError(f"no kernel is called {name!r}; there is {', '.join(self._kernels)}")
        return self._kernels[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._kernels)

    def __len__(self) -> int:
        return len(self._kernels)


class BundledKernel:
    """One kernel, callable with its arrays and scalars in order or by name, from any thread."""

    def __init__(self, folder: Path, manifest: Manifest, kernel: Kernel) -> None:
        self._folder, self._manifest, self._kernel = folder, manifest, kernel
        self._names = tuple(argument.name for argument in kernel.interface.arguments)
        self._launchers: dict[tuple[str, int], Launcher] = {}
        self._by_call: dict[tuple[object, ...], Launcher] = {}
        self._lock = Lock()

    @property
    def interface(self) -> KernelInterface:
        """That of the first form; all have the same arguments."""
        return self._kernel.interface

    def __call__(
        self,
        /,
        *arguments: Any,
        device: str = "auto",
        stream: Any = None,
        options: "LaunchOptions | None" = None,
        **by_name: Any,
    ) -> "LaunchResult":
        """As `pipec.CompiledKernel`, except for `debug`. Raises the runtime's errors, and BundleError if the code is damaged."""
        given: Any = self._in_order(arguments, by_name) if by_name else arguments
        return self.launcher(given, device)(given, device=device, stream=stream, options=options)

    def variant(self, *arguments: Any, device: str = "auto") -> Variant:
        """The variant that a call with these arguments uses: its interface, the values of its tuned parameters."""
        form, number = self._chosen(device, self._shapes(arguments), _place(arguments))
        return form.variants[number]

    def launcher(self, arguments: tuple[Any, ...], device: str = "auto") -> "Launcher":
        """The launcher of the variant for these arguments on their device."""
        key = device, self._shapes(arguments), _place(arguments)
        found = self._by_call.get(key)
        if found is None:
            found = self._launcher(*self._chosen(*key))
            if len(self._by_call) >= _MOST_SHAPES:
                self._by_call.clear()
            self._by_call[key] = found
        return found

    def _chosen(self, device: str, shapes: tuple[tuple[int, ...], ...], place: str) -> tuple[Form, int]:
        """The form for the device, and the number of the variant for the sizes."""
        form = self._form(device, place)
        return form, nearest(form.choices, self._sizes(form.variants[0].interface, shapes))

    def _in_order(self, arguments: tuple[Any, ...], by_name: Mapping[str, Any]) -> tuple[Any, ...]:
        given = dict(zip(self._names, arguments, strict=False))
        for name in by_name:
            if name in given or name not in self._names:
                problem = "it was passed in order and by name" if name in given else "there is no such parameter"
                raise ArgumentError(self._kernel.name, name, f"{problem}; the kernel takes {', '.join(self._names)}")
        given |= by_name
        # If one is missing, the launcher reports which.
        return tuple(given[name] for name in self._names if name in given) if len(arguments) <= len(self._names) else arguments

    def _shapes(self, arguments: tuple[Any, ...]) -> tuple[tuple[int, ...], ...]:
        """The shapes of the tensors; empty for an argument without one, which the launcher rejects."""
        declared = self._kernel.interface.arguments
        try:
            return tuple(
                tuple(map(int, value.shape))
                for argument, value in zip(declared, arguments, strict=True)
                if isinstance(argument, TensorArgument)
            )
        except (AttributeError, TypeError, ValueError):
            return ()

    def _sizes(self, interface: KernelInterface, shapes: tuple[tuple[int, ...], ...]) -> tuple[int, ...]:
        """The sizes of the dimensions, from the first mention of each; 0 if unknown."""
        from pipec.runtime.arguments.tensors import element_shape, tensors

        found: dict[str, int] = {}
        for argument, shape in zip(tensors(interface), shapes, strict=False):
            for name, size in zip(argument.shape, element_shape(argument, shape), strict=False):
                if isinstance(name, str):
                    found.setdefault(name, size)
        return tuple(found.get(name, 0) for name in dimensions_of(interface))

    def _form(self, device: str, place: str) -> Form:
        """For the device of the arguments, the requested one, or the first that a form fits; else the first form, for the simulator."""
        from pipec.runtime.gpu import cuda_driver

        forms = self._kernel.forms
        if device == "sim":
            return forms[0]
        asked = place if place.startswith("cuda:") else device
        try:
            if asked.startswith("cuda:") and asked[5:].isdecimal() and len(asked) < 9:
                candidates: Sequence[Device] = (cuda_driver.device(int(asked[5:])),)
            else:
                candidates = cuda_driver.devices()
        except DeviceError:
            return forms[0]  # the launcher reports if a device is required
        return next((form for one in candidates for form in forms if one.runs(form.arch)), forms[0])

    def _launcher(self, form: Form, number: int) -> "Launcher":
        from pipec.runtime.image import Image
        from pipec.runtime.launcher import Launcher

        with self._lock:
            if (form.arch, number) not in self._launchers:
                variant = form.variants[number]
                image = Image(self._code(variant.ptx).decode(errors="replace"), self._code(variant.cubin), form.arch)
                self._launchers[form.arch, number] = Launcher(variant.interface, image)
            return self._launchers[form.arch, number]

    def _code(self, name: str) -> bytes:
        data = _file(self._folder, name)
        if hashlib.sha256(data).hexdigest() != self._manifest.files[name]:
            raise BundleError(f"{name} is not what was built: its SHA-256 is another one than {NAME} says")
        return data


def _place(arguments: tuple[Any, ...]) -> str:
    """The device of the arrays: "cuda:N", or "cpu", also for arguments that the launcher rejects."""
    for argument in arguments:
        if is_torch(type(argument)):
            index = argument.get_device()
            return f"cuda:{index}" if index >= 0 else "cpu"
        if hasattr(argument, "__cuda_array_interface__") or (hasattr(argument, "__dlpack__") and not hasattr(argument, "ctypes")):
            try:
                return view_of(argument).device
            except NotAnArray:
                return "cpu"
    return "cpu"
