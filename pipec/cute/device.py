"""A CUDA runtime for the host code that CuTe DSL compiles, whose device is the simulator.

That code calls the runtime by symbols with an underscore in front (`_cudaLaunchKernelEx`), which the engine looks up in what is
registered with it before it looks into libraries. Its device code is at hand as PTX.
"""

import ctypes
import os
import re
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from functools import cache, partial
from math import prod
from pathlib import Path
from typing import Any

from pipec.cute import ffi
from pipec.cute.ffi import OnDevice
from pipec.cute.maps import decoded
from pipec.host import cuda_bindings
from pipec.host.cuda_bindings import attribute_of
from pipec.host.distinct import DistinctFindings
from pipec.host.stream import Stream
from pipec.host.tensors import Bytes, memory_of
from pipec.isa.targets import Target
from pipec.sim import (
    Argument,
    ArrayArgument,
    Options,
    RawArgument,
    ScalarArgument,
    SimulationError,
    TensorMap,
    TensorMapArgument,
    launch,
)
from pipec.sim.machine.image import parameter_layout
from pipec.sim.ptx.parse import parse

_POINTER = ctypes.c_void_p
_TYPES: dict[str, Any] = {"!llvm.ptr": _POINTER, "i32": ctypes.c_int32, "i64": ctypes.c_int64}
_DECLARED = re.compile(r"llvm\.func @(_cu\w+|cuda_dialect_\w*library_once)\(([^)]*)\)")
_FAILED, _UNSUPPORTED = 719, 801  # cudaErrorLaunchFailure, cudaErrorNotSupported
_COOPERATIVE, _CLUSTER, _PROGRAMMATIC = 2, 4, 6  # cudaLaunchAttributeID
_MAP_BYTES, _MAP_ALIGNMENT = 128, 64

_MOST_LIBRARIES = 64  # of device code in one compiled function
_LOADS = ctypes.CFUNCTYPE(ctypes.c_int32, _POINTER)
_LOADS_TO_DEVICE = ctypes.CFUNCTYPE(ctypes.c_int32, _POINTER, ctypes.c_int32)

Service = Callable[..., int]

# Compiled functions call these, also after `uninstall`.
_called: list[object] = []


@cache
def _folder() -> tempfile.TemporaryDirectory[str]:
    """Where CuTe DSL writes PTX: one for the process, as it reads this setting when it is imported."""
    return tempfile.TemporaryDirectory(prefix="pipec-cute-")


class _Config(ctypes.Structure):
    """cudaLaunchConfig_t."""

    _fields_ = (
        ("grid", ctypes.c_uint32 * 3),
        ("block", ctypes.c_uint32 * 3),
        ("dynamic_smem", ctypes.c_size_t),
        ("stream", _POINTER),
        ("attributes", _POINTER),
        ("count", ctypes.c_uint32),
    )


class _Attribute(ctypes.Structure):
    """cudaLaunchAttribute, of whose values only leading numbers are used."""

    _fields_ = (("kind", ctypes.c_int32), ("value", ctypes.c_uint32 * 17))


class _Event:
    """A point in time, of which there is none in the simulator."""

    def __init__(self, *_: Any, **__: Any) -> None:
        pass

    def record(self, *_: Any) -> None:
        pass

    wait = synchronize = record

    def query(self) -> bool:
        return True

    def elapsed_time(self, end: Any) -> float:
        return 1.0


def _extent(map_: TensorMap) -> int:
    """The bytes from its first element to the end of its last one."""
    rows = sum((size - 1) * stride for size, stride in zip(map_.dims[1:], map_.strides, strict=True))
    return rows + -(-map_.dims[0] * map_.element.bits // 8)


def _store(address: int | None, value: int, type_: Any = ctypes.c_int32) -> int:
    type_.from_address(address).value = value
    return 0


class SimulatedDevice:
    """What compiled functions are launched on while it is installed."""

    def __init__(self, target: Target, options: Options) -> None:
        self.target, self.options = target, options
        self.findings, self._stream = DistinctFindings(), Stream()
        self._memory: dict[int, tuple[Any, Bytes]] = {}
        self._addressed: Callable[[], list[Bytes]] = list  # the memory of tensors whose addresses the program has asked for
        self._undo = ExitStack()
        self._failure: Exception | None = None
        self._folder = Path(_folder().name)

    def install(self) -> None:
        """Raises ImportError."""
        try:
            self._install()
        except BaseException:
            self._undo.close()
            raise

    def _install(self) -> None:
        # Results of this compilation must not be taken for those of a process with a GPU, nor the other way round.
        settings = {
            "ARCH": self.target.name,
            "KEEP": "ptx",
            "LINEINFO": "1",
            "DUMP_DIR": str(self._folder),
            "DISABLE_FILE_CACHING": "1",
        }
        for dialect in ("CUTE_DSL", "CUTE_EXPERIMENTAL_DSL"):
            self._set_environment(**{f"{dialect}_{name}": value for name, value in settings.items()})
        # quack keeps its compiled functions in files, with machine code in the place of PTX.
        self._set_environment(QUACK_CACHE_ENABLED="0")
        from cutlass.base_dsl.compiler import Compiler
        from cutlass.base_dsl.jit_executor import JitExecutor
        from cutlass.cute import runtime
        from cutlass.cutlass_dsl.cuda_jit_executor import CudaDialectJitCompiledFunction
        from cutlass.utils.hardware_info import HardwareInfo

        make, run, convert = Compiler.jit, JitExecutor.run_compiled_program, runtime._Tensor.__init__

        def jit(compiler: Any, module: Any, *given: Any, **named: Any) -> Any:
            engine = make(compiler, module, *given, **named)
            self._serve(engine, str(module))
            return engine

        def run_compiled_program(executor: Any, arguments: Any) -> Any:
            with self._calls():
                return run(executor, arguments)

        def made_of(tensor: Any, source: Any, *given: Any, **named: Any) -> None:
            self.keep(source)
            convert(tensor, OnDevice(source) if hasattr(source, "__dlpack__") else source, *given, **named)

        self._set(Compiler, "jit", jit)
        self._set(JitExecutor, "run_compiled_program", run_compiled_program)
        self._set(runtime._Tensor, "__init__", made_of)
        self._set(CudaDialectJitCompiledFunction, "num_devices", 1)
        self._set(HardwareInfo, "__init__", lambda *_: None)
        self._set(HardwareInfo, "get_device_multiprocessor_count", lambda _: self.target.multiprocessors)
        self._set(
            HardwareInfo, "get_max_active_clusters", lambda _, cluster_size, *__: self.target.multiprocessors // cluster_size
        )
        with suppress(ImportError):  # without TVM FFI there are no functions that take arguments by it
            for owner, name, value in ffi.changes(self.keep, self._calls):
                self._set(owner, name, value)
        for module, name, value in cuda_bindings.changes(self.target):
            self._set(module, name, value)
        with suppress(ImportError):  # without torch nothing asks it for a GPU
            from pipec.host.torch_cuda import as_cuda

            self._addressed = self._undo.enter_context(as_cuda(self.target, _Event)).memory

    @contextmanager
    def _calls(self) -> Iterator[None]:
        """Around a call of a compiled function: what stopped one of its launches is raised where Python called it."""
        try:
            yield
        finally:
            failure, self._failure = self._failure, None
            if failure is not None:
                raise failure

    def uninstall(self) -> None:
        self._undo.close()
        self._memory.clear()

    def _set(self, owner: Any, name: str, value: object) -> None:
        before = owner.__dict__[name]
        self._undo.callback(lambda: setattr(owner, name, before))
        setattr(owner, name, value)

    def _set_environment(self, **values: str) -> None:
        for name, value in values.items():
            before = os.environ.get(name)
            undo = partial(os.environ.pop, name, None) if before is None else partial(os.environ.__setitem__, name, before)
            self._undo.callback(undo)
            os.environ[name] = value

    def keep(self, tensor: Any) -> None:
        """The simulator may access the memory of this tensor, which is kept alive."""
        memory = memory_of(tensor)
        self._memory[memory.ctypes.data] = (tensor, memory)

    # ---- the runtime

    def _serve(self, engine: Any, module: str) -> None:
        """Registers the runtime with an engine, whose device code was written just now."""
        texts = [file.read_text(errors="replace").rstrip("\0\n") + "\n" for file in sorted(self._folder.rglob("*.ptx"))]
        for file in self._folder.rglob("*.ptx"):
            file.unlink()
        names: dict[int, str] = {}
        libraries = (_POINTER * _MOST_LIBRARIES)()

        def load_once(loaded: int, load: int, to_device: int, *_: Any) -> int:
            """`loaded` is zero before the first call of a function that takes its arguments by TVM FFI."""
            status = 0
            if not ctypes.c_uint64.from_address(loaded).value:
                status = _LOADS(load)(libraries) or _LOADS_TO_DEVICE(to_device)(libraries, 0)
            return status or _store(loaded, 1, ctypes.c_uint64)

        def get_kernel(out: int, library: int, name: int) -> int:
            number = len(names) + 1
            names[number] = ctypes.string_at(name).decode()
            return _store(out, number, ctypes.c_uint64)

        def launch_kernel(config: int, kernel: int, arguments: int) -> int:
            try:
                self._launch(texts, names[kernel], _Config.from_address(config), arguments)
            except Exception as error:  # noqa: BLE001  # raised again where Python called the compiled function
                if isinstance(error, SimulationError):
                    error.details.setdefault("kernel", names[kernel])
                self._failure = error
                return _FAILED
            return 0

        services: dict[str, Service] = {
            "cuda_dialect_init_library_once": load_once,
            "cuda_dialect_unload_library_once": lambda *_: 0,
            "_cudaLibraryGetKernel": get_kernel,
            "_cudaLaunchKernelEx": launch_kernel,
            "_cudaLibraryLoadData": lambda out, *_: _store(out, 1, ctypes.c_uint64),
            "_cudaGetDevice": lambda out: _store(out, 0),
            "_cudaGetDeviceCount": lambda out: _store(out, 1),
            "_cudaSetDevice": lambda *_: 0,
            "_cudaDeviceGetAttribute": lambda out, attribute, _: _store(out, attribute_of(self.target, attribute)),
            "_cuKernelGetAttribute": lambda out, *_: _store(out, 0),
            "_cudaOccupancyMaxActiveBlocksPerMultiprocessor": lambda out, *_: _store(out, 1),
            "_cudaFuncSetAttribute": lambda *_: 0,
            "_cudaKernelSetAttributeForDevice": lambda *_: 0,
        }
        for name, types in _DECLARED.findall(module):
            service = services.get(name, lambda *_: _UNSUPPORTED)
            signature = ctypes.CFUNCTYPE(ctypes.c_int32, *(_TYPES[one.strip()] for one in types.split(",") if one.strip()))
            callback = signature(service)
            _called.append(callback)
            engine.raw_register_runtime(name, ctypes.cast(callback, _POINTER))

    def _launch(self, texts: Sequence[str], kernel: str, config: _Config, addresses: int) -> None:
        ptx = next((text for text in texts if re.search(rf"\.entry\s+{re.escape(kernel)}\b", text)), None)
        if ptx is None:
            raise SimulationError("argument", f"there is no PTX of kernel `{kernel}`")
        function = parse(ptx).functions[kernel]
        sizes = [size for _, size in parameter_layout(function)]
        pointers = (_POINTER * len(sizes)).from_address(addresses) if sizes else ()
        arguments = [self._argument(ctypes.string_at(at, size)) for at, size in zip(pointers, sizes, strict=True)]
        cluster, cooperative, programmatic = None, False, False
        for number in range(config.count):
            attribute = _Attribute.from_address(config.attributes + number * ctypes.sizeof(_Attribute))
            if attribute.kind == _CLUSTER and prod(attribute.value[1:4]) > 1:
                cluster = tuple(attribute.value[1:4])
            cooperative |= attribute.kind == _COOPERATIVE and bool(attribute.value[1])
            programmatic |= attribute.kind == _PROGRAMMATIC and bool(attribute.value[1])
        result = launch(
            ptx,
            kernel,
            grid=tuple(config.grid),
            block=tuple(config.block),
            cluster=cluster,
            cooperative=cooperative,
            programmatic=self._stream.begins(programmatic),
            dynamic_smem=config.dynamic_smem,
            arguments=arguments,
            allocations=self._reach(),
            options=self.options,
        )
        for line in result.printed:
            print(line, end="" if line.endswith("\n") else "\n", flush=True)
        self.findings.add(result.findings)
        self._stream.ends(result.touched)

    def _argument(self, data: bytes) -> Argument:
        """A parameter, in which tensor maps of the hardware's format are replaced by the simulator's own. Addresses stay those of the
        host, at which the simulator has that memory too. A map may begin outside of all tensors: with a base as far below one as the
        coordinates are above zero, sequences of several lengths end where the map does. Another tensor may be there by chance."""
        maps: dict[int, ScalarArgument | ArrayArgument | TensorMapArgument] = {}
        for at in range(0, len(data) - _MAP_BYTES + 1, _MAP_ALIGNMENT):
            found = decoded(data[at : at + _MAP_BYTES])
            if found is not None:
                memory = self._at(found.address)
                inside = memory is not None and _extent(found) <= memory.nbytes
                maps[at] = TensorMapArgument(found, memory) if memory is not None and inside else ScalarArgument(found.encode())
        return RawArgument(data, maps)

    def _reach(self) -> list[Bytes]:
        return [*(memory for _, memory in self._memory.values()), *self._addressed()]

    def _at(self, address: int) -> Bytes | None:
        for memory in self._reach():
            first = memory.ctypes.data
            if first <= address < first + memory.nbytes:
                return memory[address - first :]
        return None
