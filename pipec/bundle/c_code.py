"""The C side of a bundle: a header with a typed function for each kernel, its implementation, and a CMake file."""

import re
from collections.abc import Iterator, Mapping
from importlib.resources import files

from pipec.bundle.c_tables import Tables, integers_of, limits, scalars_of, tensors_of
from pipec.bundle.manifest import Kernel, Manifest
from pipec.interface import KernelInterface, ScalarArgument, TensorArgument
from pipec.isa.dtypes import DTYPES, DType
from pipec.runtime.arguments.tensors import numpy_dtype
from pipec.verify.condition_text import condition_words
from pipec.verify.data import formula_of

SHARED = ("pipec_launch.h", "pipec_launch_impl.h")  # the same in every bundle
# Words of C and C++, and the names that generated functions use.
_TAKEN_TEXT = """
    alignas alignof and and_eq asm auto bitand bitor bool break case catch char class compl concept const const_cast consteval constexpr
    constinit continue co_await co_return co_yield decltype default delete do double dynamic_cast else enum explicit export extern false
    float for friend goto if inline int long mutable namespace new noexcept not not_eq nullptr operator or or_eq private protected public
    register reinterpret_cast requires restrict return short signed sizeof static static_assert static_cast struct switch template this
    thread_local throw true try typedef typeid typename union unsigned using virtual void volatile wchar_t while xor xor_eq
    bundle stream error arrays integers scalars NULL linux unix main
"""
_TAKEN = frozenset(_TAKEN_TEXT.split())
# Scalars without a C type are passed as their bits.
_C_TYPES = {
    "bool": "unsigned char", "i8": "int8_t", "u8": "uint8_t", "i16": "int16_t", "u16": "uint16_t", "i32": "int32_t", "u32": "uint32_t",
    "i64": "int64_t", "u64": "uint64_t", "f32": "float", "f64": "double", "tf32": "float",
}  # fmt: skip


def identifier(text: str) -> str:
    """Converts any name to a C and C++ identifier."""
    plain = re.sub(r"\W", "_", text, flags=re.ASCII) or "_"
    plain = f"_{plain}" if plain[0].isdigit() else plain
    return f"{plain}_" if plain.rstrip("_") in _TAKEN else plain


def c_files(manifest: Manifest, codes: Mapping[str, bytes]) -> dict[str, str]:
    """Name -> text."""
    name = manifest.name
    shared = {one: (files("pipec.bundle") / "c" / one).read_text(encoding="utf-8") for one in SHARED}
    return {**shared, f"{name}.h": _header(manifest), f"{name}.c": _source(manifest, codes), f"{name}.cmake": _cmake(name)}


# --- header --------------------------------


def _header(manifest: Manifest) -> str:
    name = manifest.name
    guard = f"PIPEC_BUNDLE_{name.upper()}_H"
    types = {_array_type(one): _array_definition(one) for kernel in manifest.kernels for one in tensors_of(kernel.interface)}
    return "\n".join(
        [
            f"/* Kernels of {_comment(manifest.source)}, built by pipec {manifest.compiler}. Written by `pipec build`. */",
            "",
            f"#ifndef {guard}",
            f"#define {guard}",
            "",
            '#include "pipec_launch.h"',
            "",
            "#ifdef __cplusplus",
            'extern "C" {',
            "#endif",
            "",
            *(line for definition in types.values() for line in definition),
            "/* The bundle, loaded for one device. Launching is safe from several threads, opening and closing is for one. */",
            f"typedef struct {name}_bundle {name}_bundle;",
            "",
            "/* Loads the code for the device whose context is current; `error` may be NULL. */",
            f"pipec_status {name}_open({name}_bundle **opened, pipec_error *error);",
            "",
            "/* What was launched must have ended. NULL is nothing to close. */",
            f"void {name}_close({name}_bundle *bundle);",
            "",
            *(line for kernel in manifest.kernels for line in _declaration(manifest, kernel)),
            "#ifdef __cplusplus",
            "}",
            "#endif",
            "",
            "#endif",
            "",
        ]
    )


def _comment(text: str) -> str:
    return text.replace("*/", "* /").replace("\n", " ").encode("ascii", "replace").decode()


def _array_type(argument: TensorArgument) -> str:
    return f"pipec_{argument.dtype}_{len(argument.shape)}d"


def _array_definition(argument: TensorArgument) -> list[str]:
    """One type per element type and rank, so that the compiler distinguishes them."""
    name, rank, dtype = _array_type(argument), len(argument.shape), DTYPES[argument.dtype]
    guard, most = name.upper(), max(rank, 1)
    sizes = "".join(f", int64_t size{axis}" for axis in range(rank))
    lines = [
        f"#ifndef {guard}",
        f"#define {guard}",
        f"/* An array of {argument.dtype} in device memory, outermost dimension first, strides in elements{_stored(dtype)}. */",
        f"typedef struct {{\n    CUdeviceptr data;\n    int64_t shape[{most}];\n    int64_t strides[{most}];\n}} {name};",
        "",
        "/* One without gaps. */",
        f"static inline {name} {name}_of(CUdeviceptr data{sizes})",
        "{",
        f"    {name} made;",
        "    made.data = data;",
        *(f"    made.shape[{axis}] = size{axis};" for axis in range(rank)),
        *([] if rank else ["    made.shape[0] = 1;", "    made.strides[0] = 1;"]),
    ]
    for axis in range(rank - 1, -1, -1):
        product = "1" if axis == rank - 1 else f"made.strides[{axis + 1}] * (size{axis + 1} > 0 ? size{axis + 1} : 1)"
        lines.append(f"    made.strides[{axis}] = {product};")
    return [*lines, "    return made;", "}", "#endif", ""]


def _stored(dtype: DType) -> str:
    return f"; elements of {dtype.bits} bits are packed into bytes, and the last size counts bytes" if dtype.is_packed else ""


def _declaration(manifest: Manifest, kernel: Kernel) -> Iterator[str]:
    interface = kernel.interface
    listed = []
    for argument in interface.arguments:
        sizes = f"[{', '.join(map(str, argument.shape))}]" if isinstance(argument, TensorArgument) else ""
        listed.append(f"{argument.name}: {argument.dtype}{sizes}")
    written = ", ".join(one.name for one in tensors_of(interface) if one.written)
    needs = [condition_words(formula_of(data)) for data in interface.conditions]
    yield f"/* {_comment(kernel.name)}({_comment(', '.join(listed))}); it writes {_comment(written) or 'nothing'}."
    if needs:
        yield f"   It needs {_comment('; '.join(needs))}."
    for form in kernel.forms:
        yield f"   For {form.arch}: {len(form.variants)} form{'' if len(form.variants) == 1 else 's'}."
    yield "   `error` may be NULL. */"
    yield f"{_prototype(manifest, interface)};"
    yield ""


def _prototype(manifest: Manifest, interface: KernelInterface) -> str:
    parameters = [f"{manifest.name}_bundle *bundle"]
    for argument in interface.arguments:
        kind = _array_type(argument) if isinstance(argument, TensorArgument) else _scalar_type(argument)
        parameters.append(f"{kind} {identifier(argument.name)}")
    return f"pipec_status {_function(manifest, interface)}({', '.join([*parameters, 'CUstream stream', 'pipec_error *error'])})"


def _function(manifest: Manifest, interface: KernelInterface) -> str:
    return (
        f"{manifest.name}_launch" if interface.name == manifest.name else f"{manifest.name}_{identifier(interface.name)}_launch"
    )


def _scalar_type(argument: ScalarArgument) -> str:
    return _C_TYPES.get(argument.dtype) or f"uint{8 * numpy_dtype(DTYPES[argument.dtype]).itemsize}_t"


# --- source --------------------------------


def _source(manifest: Manifest, codes: Mapping[str, bytes]) -> str:
    name = manifest.name
    tables = Tables(codes)
    tables.kernels(manifest)
    return "\n".join(
        [
            f"/* Written by `pipec build` from {_comment(manifest.source)}. Compiles as C11 and as C++17. */",
            "",
            f'#include "{name}.h"',
            "",
            f"#define PIPEC_BUNDLE {name}_bundle",
            *limits(manifest),
            "",
            '#include "pipec_launch_impl.h"',
            "",
            "\n\n".join(tables.lines),
            "",
            f"pipec_status {name}_open({name}_bundle **opened, pipec_error *error)",
            "{",
            f"    return pipec_open(opened, pipec_kernels, {len(manifest.kernels)}, error);",
            "}",
            "",
            f"void {name}_close({name}_bundle *bundle)",
            "{",
            "    pipec_close(bundle);",
            "}",
            *(line for number, kernel in enumerate(manifest.kernels) for line in _definition(manifest, kernel, number)),
            "",
        ]
    )


def _definition(manifest: Manifest, kernel: Kernel, number: int) -> list[str]:
    interface = kernel.interface
    tensors, scalars = tensors_of(interface), scalars_of(interface)
    lines = ["", _prototype(manifest, interface), "{"]
    for kind, what, count in (
        ("array", "arrays", len(tensors)),
        ("scalar", "integers", len(integers_of(interface))),
        ("scalar", "scalars", len(scalars)),
    ):
        lines.append(f"    pipec_{kind} {what}[{max(1, count)}];")
    if not scalars:
        lines += ["    scalars[0].data = NULL;", "    scalars[0].value = 0;"]
    for at, argument in enumerate(tensors):
        value = identifier(argument.name)
        lines.append(f"    arrays[{at}].data = {value}.data;")
        lines += [f"    arrays[{at}].{part} = {value}.{part};" for part in ("shape", "strides")]
    place = 0
    for at, scalar in enumerate(scalars):
        value, dtype = identifier(scalar.name), DTYPES[scalar.dtype]
        if dtype.family == "bool":
            lines.append(f"    {value} = {value} != 0;")
        lines += [f"    scalars[{at}].data = &{value};", f"    scalars[{at}].value = {_whole(value, dtype)};"]
        if not dtype.is_float:
            lines.append(f"    integers[{place}] = scalars[{at}];")
            place += 1
    if not place:
        lines.append("    integers[0] = scalars[0];")
    lines.append(f"    return pipec_launch(bundle, &pipec_kernels[{number}], arrays, integers, scalars, stream, error);")
    return [*lines, "}"]


def _whole(value: str, dtype: DType) -> str:
    """The value of a scalar in launch expressions: a signed 64-bit integer, saturated at a number that no launch allows."""
    if dtype.is_float:
        return "0"
    return f"{value} > (uint64_t)INT64_MAX ? INT64_MAX : (int64_t){value}" if dtype.name == "u64" else f"(int64_t){value}"


# --- CMake --------------------------------


def _cmake(name: str) -> str:
    return f"""# include(.../{name}.cmake), then target_link_libraries(program PRIVATE {name}). Written by `pipec build`.

if(NOT TARGET CUDA::cuda_driver)
  find_package(CUDAToolkit 12.8 REQUIRED)
endif()
add_library({name} STATIC "${{CMAKE_CURRENT_LIST_DIR}}/{name}.c")
set_target_properties({name} PROPERTIES C_STANDARD 11 POSITION_INDEPENDENT_CODE ON)
target_include_directories({name} PUBLIC "${{CMAKE_CURRENT_LIST_DIR}}")
target_link_libraries({name} PUBLIC CUDA::cuda_driver)
"""
