"""Machine code by its LLVM IR text: compiled once per process, and cached on disk.

Where llvmlite is not installed, as beside a bundle, nothing is compiled (`available`) and NumPy runs everything.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from contextlib import suppress

from pipec import cache
from pipec.llvm_lock import LLVM_LOCK

with suppress(ImportError):
    import llvmlite.binding as llvm

_KIND = "lanes"


def available() -> bool:
    """Whether LLVM is available."""
    return "llvm" in globals()


@functools.cache
def _machine() -> llvm.TargetMachine:
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    target = llvm.Target.from_default_triple()
    features = llvm.get_host_cpu_features().flatten()
    return target.create_target_machine(cpu=llvm.get_host_cpu_name(), features=features, opt=2, jit=True)


@functools.cache
def _engine() -> llvm.ExecutionEngine:
    return llvm.create_mcjit_compiler(llvm.parse_assembly(""), _machine())


@functools.cache
def converts_halves() -> bool:
    """Whether the processor converts f16 in hardware; elsewhere LLVM would call a library that may be missing."""
    return llvm.get_default_triple().startswith(("aarch64", "arm64")) or bool(llvm.get_host_cpu_features().get("f16c"))


@functools.cache
def _host() -> str:
    """What machine code depends on besides its IR."""
    version = ".".join(map(str, llvm.llvm_version_info))
    return "\n".join((version, llvm.get_default_triple(), llvm.get_host_cpu_name(), llvm.get_host_cpu_features().flatten()))


def _optimise(module: llvm.ModuleRef) -> None:
    options = llvm.create_pipeline_tuning_options(speed_level=2)
    builder = llvm.create_pass_builder(_machine(), options)
    builder.getModulePassManager().run(module, builder)


def named(write: Callable[[str], str], optimised: bool = False, source: str = "") -> str:
    """The name under which machine code finds the function whose IR `write` returns for a given name; `optimised`: run LLVM's passes
    first, which pays for loops and variables. `source`: a text that determines the IR, if it is available earlier."""
    with LLVM_LOCK:
        key = cache.key_of(_host(), (source or write("f")) + "; optimised" * optimised)
        name = f"lanes_{key}"
        content = cache.read(_KIND, key)
        if content is None:
            module = llvm.parse_assembly(write(name))
            if optimised:
                _optimise(module)
            content = _machine().emit_object(module)
            cache.write(_KIND, key, content)
        engine = _engine()
        engine.add_object_file(llvm.ObjectFileRef.from_data(content))
        engine.finalize_object()
        return name


def address_of(write: Callable[[str], str]) -> int:
    """The address of such a function."""
    return address_at(named(write))


def address_at(name: str) -> int:
    with LLVM_LOCK:
        return int(_engine().get_function_address(name))
