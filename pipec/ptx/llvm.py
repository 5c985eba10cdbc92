"""The LLVM functions that compile IR to assembly, called in llvmlite's library.

llvmlite's Python bindings declare ten times as many, and importing them takes a seventh of a command line's run time. Its version is
pinned, since the PTX depends on its LLVM; tests/ptx/test_emit.py compares with the result of the bindings.

Callers hold `pipec.llvm_lock.LLVM_LOCK`. Each text is compiled in an LLVM context of its own.
"""

import ctypes
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any

_ADDRESS, _TEXT, _NUMBER = ctypes.c_void_p, ctypes.c_char_p, ctypes.c_int
_LEFT = ctypes.POINTER(_ADDRESS)  # where a function stores the address of a string that the caller must free

# Return and argument types. The library's names have the prefix `LLVMPY_`.
_FUNCTIONS: dict[str, tuple[Any, tuple[Any, ...]]] = {
    "InitializeAllTargetInfos": (None, ()),
    "InitializeAllTargets": (None, ()),
    "InitializeAllTargetMCs": (None, ()),
    "InitializeAllAsmPrinters": (None, ()),
    "SetCommandLine": (None, (_TEXT, _TEXT)),
    "GetTargetFromTriple": (_ADDRESS, (_TEXT, _LEFT)),
    "CreateTargetMachine": (_ADDRESS, (_ADDRESS, _TEXT, _TEXT, _TEXT, _NUMBER, _TEXT, _TEXT, _NUMBER, _NUMBER, _TEXT)),
    "CreateTargetMachineData": (_ADDRESS, (_ADDRESS,)),
    "CopyStringRepOfTargetData": (None, (_ADDRESS, _LEFT)),
    "DisposeTargetData": (None, (_ADDRESS,)),
    "ContextCreate": (_ADDRESS, ()),
    "ContextDispose": (None, (_ADDRESS,)),
    "ParseAssembly": (_ADDRESS, (_ADDRESS, _TEXT, _LEFT)),
    "SetDataLayout": (None, (_ADDRESS, _TEXT)),
    "VerifyModule": (ctypes.c_bool, (_ADDRESS, _LEFT)),
    "DisposeModule": (None, (_ADDRESS,)),
    "CreatePipelineTuningOptions": (_ADDRESS, ()),
    "DisposePipelineTuningOptions": (None, (_ADDRESS,)),
    "CreatePassBuilder": (_ADDRESS, (_ADDRESS, _ADDRESS)),
    "DisposePassBuilder": (None, (_ADDRESS,)),
    "CreateNewModulePassManager": (_ADDRESS, ()),
    "module_AddSimplifyCFGPass": (None, (_ADDRESS,)),
    "module_AddLoopRotatePass": (None, (_ADDRESS,)),
    "RunNewModulePassManager": (None, (_ADDRESS, _ADDRESS, _ADDRESS)),
    "DisposeNewModulePassManger": (None, (_ADDRESS,)),
    "TargetMachineEmitToMemory": (_ADDRESS, (_ADDRESS, _ADDRESS, _NUMBER, _LEFT)),
    "GetBufferStart": (_ADDRESS, (_ADDRESS,)),
    "GetBufferSize": (ctypes.c_size_t, (_ADDRESS,)),
    "DisposeMemoryBuffer": (None, (_ADDRESS,)),
    "DisposeString": (None, (_ADDRESS,)),
}


class LLVMError(RuntimeError):
    """IR that does not parse or verify: an internal error."""


@cache
def _library() -> Any:
    """The functions of the table by name; the targets are initialised."""
    import llvmlite
    from llvmlite.utils import get_library_name

    library: Any = ctypes.CDLL(str(Path(llvmlite.__file__).parent / "binding" / get_library_name()))
    for name, (gives, takes) in _FUNCTIONS.items():
        function = library[f"LLVMPY_{name}"]
        function.restype, function.argtypes = gives, takes
        setattr(library, name, function)
    library.InitializeAllTargetInfos()
    library.InitializeAllTargets()
    library.InitializeAllTargetMCs()
    library.InitializeAllAsmPrinters()
    return library


def set_option(option: str) -> None:
    """As on the command line of LLVM's tools; process-wide."""
    _library().SetCommandLine(b"", option.encode())


@contextmanager
def _owned(address: int, dispose: Callable[[int], None]) -> Iterator[int]:
    try:
        yield address
    finally:
        dispose(address)


class Machine:
    """Generates assembly for a processor of the target `triple`; `level` is the optimisation level."""

    def __init__(self, triple: str, processor: str, features: str, level: int) -> None:
        self._library = _library()
        why = _ADDRESS()
        target = self._library.GetTargetFromTriple(triple.encode(), why)
        if not target:
            raise LLVMError(self._text(why))
        named = triple.encode(), processor.encode(), features.encode()
        self._machine = self._library.CreateTargetMachine(target, *named, level, b"default", b"jitdefault", 0, 0, b"")
        with _owned(self._library.CreateTargetMachineData(self._machine), self._library.DisposeTargetData) as data:
            layout = _ADDRESS()
            self._library.CopyStringRepOfTargetData(data, layout)
            self._layout = self._text(layout).encode()

    def assembly(self, ir: str) -> str:
        """As LLVM prints it."""
        library = self._library
        with _owned(library.ContextCreate(), library.ContextDispose) as context, self._parsed(ir, context) as module:
            library.SetDataLayout(module, self._layout)
            why = _ADDRESS()
            if library.VerifyModule(module, why):
                raise LLVMError(self._text(why))
            self._text(why)
            self._run_passes(module)
            return self._emitted(module)

    @contextmanager
    def _parsed(self, ir: str, context: int) -> Iterator[int]:
        why = _ADDRESS()
        module = self._library.ParseAssembly(context, ir.encode(), why)
        if not module:
            raise LLVMError(self._text(why))
        with _owned(module, self._library.DisposeModule):
            yield module

    def _run_passes(self, module: int) -> None:
        """A short pipeline: there is no memory to promote to registers (pipec.lower.emit.variables), and instruction combining takes a
        tenth of the time without shortening loops. None of these passes unrolls loops or converts switches to tables."""
        library = self._library
        with (
            _owned(library.CreatePipelineTuningOptions(), library.DisposePipelineTuningOptions) as tuning,
            _owned(library.CreatePassBuilder(self._machine, tuning), library.DisposePassBuilder) as builder,
            _owned(library.CreateNewModulePassManager(), library.DisposeNewModulePassManger) as manager,
        ):
            library.module_AddSimplifyCFGPass(manager)
            library.module_AddLoopRotatePass(manager)
            library.RunNewModulePassManager(manager, module, builder)

    def _emitted(self, module: int) -> str:
        why = _ADDRESS()
        buffer = self._library.TargetMachineEmitToMemory(self._machine, module, 0, why)
        if not buffer:
            raise LLVMError(self._text(why))
        with _owned(buffer, self._library.DisposeMemoryBuffer):
            return ctypes.string_at(self._library.GetBufferStart(buffer), self._library.GetBufferSize(buffer)).decode()

    def _text(self, left: ctypes.c_void_p) -> str:
        """The text that a function left there, if any; frees it."""
        if not left.value:
            return ""
        text = ctypes.string_at(left.value).decode()
        self._library.DisposeString(left)
        return text
