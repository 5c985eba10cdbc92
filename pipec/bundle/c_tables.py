"""A bundle's tables in C, from which pipec_launch_impl.h launches. Each row restates the interface of a form."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from pipec.bundle.manifest import Form, Manifest, Variant, dimensions_of
from pipec.bundle.programs import Word, of_condition, of_expression
from pipec.interface import (
    MULTIPROCESSORS,
    DimensionParameter,
    KernelInterface,
    Parameter,
    PointerParameter,
    ScalarArgument,
    ScalarParameter,
    StrideParameter,
    TensorArgument,
    TensorMapParameter,
)
from pipec.isa.dtypes import DTYPES
from pipec.runtime.arguments import parameters, tensor_maps
from pipec.runtime.arguments.tensors import MAXIMUM_DIMENSION, MAXIMUM_STRIDE, numpy_dtype
from pipec.runtime.gpu import cuda, plans
from pipec.verify.condition_text import condition_words
from pipec.verify.conditions import GRID, names_in
from pipec.verify.data import formula_of

_IN_A_LINE = 24  # bytes of machine code per line
_CODE = "PIPEC_CODE"  # the declaration specifier of code arrays
_MOST_RANK = 5  # of tensor maps and of arrays (CUDA driver API, cuTensorMapEncodeTiled)


def tensors_of(interface: KernelInterface) -> list[TensorArgument]:
    return [argument for argument in interface.arguments if isinstance(argument, TensorArgument)]


def scalars_of(interface: KernelInterface) -> list[ScalarArgument]:
    return [argument for argument in interface.arguments if isinstance(argument, ScalarArgument)]


def integers_of(interface: KernelInterface) -> list[ScalarArgument]:
    """Scalars that may occur in expressions."""
    return [scalar for scalar in scalars_of(interface) if not DTYPES[scalar.dtype].is_float]


def names_of(interface: KernelInterface) -> list[str]:
    """Names that may occur in expressions: scalars, dimensions, and those that the C code adds."""
    given = [*(scalar.name for scalar in integers_of(interface)), *dimensions_of(interface)]
    return [*given, MULTIPROCESSORS, *GRID]


def limits(manifest: Manifest) -> Iterator[str]:
    """The constants that the C code shares with the Python runtime, and the sizes of its arrays."""
    interfaces = [variant.interface for kernel in manifest.kernels for form in kernel.forms for variant in form.variants]
    maps = (sum(isinstance(one, TensorMapParameter) for one in interface.parameters) for interface in interfaces)
    grid = ", ".join(f"INT64_C({most})" for most in parameters.MAXIMUM_GRID)
    values = {
        "VARIANTS": len(interfaces),
        "TARGETS": quoted(", ".join(dict.fromkeys(form.arch for kernel in manifest.kernels for form in kernel.forms))),
        "MOST_RANK": _MOST_RANK,
        "MOST_TENSORS": max(1, *(len(tensors_of(interface)) for interface in interfaces)),
        "MOST_MAPS": max(1, *maps),
        "MOST_PARAMETERS": max(1, *(len(interface.parameters) for interface in interfaces)),
        "MOST_NAMES": max(len(names_of(interface)) for interface in interfaces),
        "TENSOR_MAP_ALIGNMENT": tensor_maps.TENSOR_MAP_ALIGNMENT,
        "UNPACKING_ALIGNMENT": tensor_maps.UNPACKING_ALIGNMENT,
        "UNPACKED_ELEMENTS": tensor_maps.UNPACKED_ELEMENTS,
        "MAXIMUM_DIMENSION": f"INT64_C({MAXIMUM_DIMENSION})",
        "MAXIMUM_STRIDE": f"INT64_C({MAXIMUM_STRIDE})",
        "MAXIMUM_GRID": f"{{{grid}}}",
        "LARGEST_CLUSTER": cuda.LARGEST_CLUSTER,
        "PORTABLE_CLUSTER": cuda.PORTABLE_CLUSTER,
        "SHARED_GRANULE": plans.SHARED_GRANULE,
        "STAND_IN_BYTES": parameters.STAND_IN_BYTES,
        "ELEMENT_STEP": tensor_maps.ELEMENT_STEP,
        "INTERLEAVE": tensor_maps.INTERLEAVE,
        "PROMOTION": tensor_maps.PROMOTION,
        "FILL": tensor_maps.FILL,
    }
    return (f"#define PIPEC_{name} {value}" for name, value in values.items())


def quoted(text: str) -> str:
    """A string literal; characters that a compiler might interpret differently are escaped."""
    plain = (
        letter if " " <= letter <= "~" and letter not in '"\\?' else "".join(f"\\{byte:03o}" for byte in letter.encode())
        for letter in text
    )
    return f'"{"".join(plain)}"'


@dataclass
class Tables:
    """The definitions of one bundle, each before its first use."""

    codes: Mapping[str, bytes]
    lines: list[str] = field(default_factory=list)
    _count: int = 0
    _written: dict[str, str] = field(default_factory=dict)  # definition -> its name

    def _define(self, kind: str, stem: str, rows: Sequence[str]) -> str:
        """Defines an array, or reuses an earlier one with the same contents."""
        body = ",\n    ".join(rows)
        key = f"{kind} {body}"
        if key not in self._written:
            self._count += 1
            self._written[key] = name = f"pipec_{stem}_{self._count}"
            head = kind if kind == _CODE else f"static const {kind}"
            self.lines.append(f"{head} {name}[] = {{\n    {body},\n}};")
        return self._written[key]

    def kernels(self, manifest: Manifest) -> None:
        rows, first = [], 0
        for kernel in manifest.kernels:
            forms = []
            for form in kernel.forms:
                forms.append(self._form(form, first))
                first += len(form.variants)
            interface = kernel.interface
            names = self._define("char *const", "names", [quoted(name) for name in names_of(interface)])
            table = self._define("pipec_form_row", "forms", forms)
            counts = (
                len(tensors_of(interface)),
                len(scalars_of(interface)),
                len(integers_of(interface)),
                len(dimensions_of(interface)),
            )
            rows.append(f"{{{quoted(kernel.name)}, {', '.join(map(str, counts))}, {names}, {len(forms)}, {table}}}")
        self.lines.append("static const pipec_kernel_row pipec_kernels[] = {\n    " + ",\n    ".join(rows) + ",\n};")

    def _form(self, form: Form, first: int) -> str:
        variants = self._define("pipec_variant_row", "variants", [self._variant(variant) for variant in form.variants])
        choices = "NULL"
        if form.choices:
            rows = [", ".join(f"INT64_C({number})" for number in (*one.sizes, one.variant)) for one in form.choices]
            choices = self._define("int64_t", "choices", rows)
        number = form.arch.removeprefix("sm_").rstrip("af")
        capability = f"{number[:-1]}, {number[-1]}"
        return f"{{{quoted(form.arch)}, {capability}, {first}, {len(form.variants)}, {variants}, {len(form.choices)}, {choices}}}"

    def _variant(self, variant: Variant) -> str:
        interface = variant.interface
        names = {name: number for number, name in enumerate(names_of(interface))}
        maps = [parameter for parameter in interface.parameters if isinstance(parameter, TensorMapParameter)]
        map_table = self._define("pipec_map_row", "maps", [_map_row(parameter) for parameter in maps]) if maps else "NULL"
        tensors = self._define("pipec_tensor_row", "tensors", [self._tensor(interface, one) for one in tensors_of(interface)])
        rows = [_parameter_row(interface, parameter, maps) for parameter in interface.parameters]
        table = self._define("pipec_parameter_row", "parameters", rows) if rows else "NULL"
        grid = ", ".join(self._program(of_expression(extent, names)) for extent in interface.grid)
        cluster = ", ".join(map(str, interface.cluster))
        conditions = [self._condition(data, names) for data in interface.conditions]
        condition_table = self._define("pipec_condition_row", "conditions", conditions) if conditions else "NULL"
        return (
            f"{{{self._code(variant.cubin)}, {interface.threads}, {interface.shared_bytes}, {{{cluster}}}, "
            f"{int(interface.programmatic_launch)}, {tensors}, {map_table}, {len(rows)}, {table}, {{{grid}}}, "
            f"{len(conditions)}, {condition_table}}}"
        )

    def _code(self, name: str) -> str:
        code = self.codes[name]
        pieces = (code[start : start + _IN_A_LINE] for start in range(0, len(code), _IN_A_LINE))
        return self._define(_CODE, "code", [", ".join(f"0x{byte:02x}" for byte in piece) for piece in pieces])

    def _tensor(self, interface: KernelInterface, argument: TensorArgument) -> str:
        dtype = DTYPES[argument.dtype]
        names = dimensions_of(interface)
        extents = [size if isinstance(size, int) else -1 - names.index(size) for size in argument.shape]
        shape = self._define("int64_t", "shape", [f"INT64_C({extent})" for extent in extents]) if extents else "NULL"
        strides = {one.axis for one in interface.parameters if isinstance(one, StrideParameter) and one.tensor == argument.name}
        unpacked = any(
            isinstance(one, TensorMapParameter) and one.tensor == argument.name and one.dtype in tensor_maps.UNPACKING_MAPS
            for one in interface.parameters
        )
        item = numpy_dtype(dtype).itemsize
        numbers = (
            len(extents), item, dtype.bits if dtype.is_packed else 0, int(argument.written), int(argument.through_tensor_map),
            int(argument.through_pointer), int(unpacked), f"{sum(1 << axis for axis in strides)}u",
        )  # fmt: skip
        return f"{{{quoted(argument.name)}, {quoted(argument.dtype)}, {', '.join(map(str, numbers))}, {shape}}}"

    def _program(self, words: Iterable[Word]) -> str:
        listed = [f"PIPEC_{word}" if isinstance(word, str) else _constant(word) for word in words]
        return self._define("int64_t", "program", [", ".join(listed)])

    def _condition(self, data: object, names: Mapping[str, int]) -> str:
        condition = formula_of(data)
        used = [str(names[name]) for name in names_in(condition)]
        numbers = self._define("int", "used", [", ".join(used)]) if used else "NULL"
        program = self._program(of_condition(condition, names))
        return f"{{{program}, {quoted(condition_words(condition))}, {len(used)}, {numbers}}}"


def _constant(value: int) -> str:
    return "INT64_MIN" if value == -(2**63) else f"INT64_C({value})"  # the literal without its minus would not fit


def _map_row(parameter: TensorMapParameter) -> str:
    box = [*map(str, parameter.box[::-1]), *["0"] * (_MOST_RANK - len(parameter.box))]
    return (
        f"{{{tensor_maps.element_type(parameter.dtype)}, {tensor_maps.element_bits(parameter) or 0}, {len(parameter.box)}, "
        f"{{{', '.join(box)}}}, {tensor_maps.swizzle_mode(parameter.swizzle)}, {tensor_maps.least_row(parameter)}, "
        f"{tensor_maps.least_stride(parameter)}}}"
    )


def _parameter_row(interface: KernelInterface, parameter: Parameter, maps: Sequence[TensorMapParameter]) -> str:
    tensors = [one.name for one in tensors_of(interface)]
    match parameter:
        case TensorMapParameter(tensor=tensor):
            row = "TENSOR_MAP", tensors.index(tensor), maps.index(parameter)
        case PointerParameter(tensor=tensor):
            row = "POINTER", tensors.index(tensor), 0
        case StrideParameter(tensor=tensor, axis=axis):
            row = "STRIDE", tensors.index(tensor), axis
        case DimensionParameter(dimension=dimension):
            row = "DIMENSION", dimensions_of(interface).index(dimension), 0
        case ScalarParameter(scalar=scalar):
            row = "SCALAR", [one.name for one in scalars_of(interface)].index(scalar), 0
        case _:
            raise AssertionError("a bundle has no kernel with a watchdog")
    return f"{{PIPEC_{row[0]}, {row[1]}, {row[2]}}}"
