"""The contents of a bundle, as data and as JSON (`manifest.json`): for each kernel and target its variants, each with its interface
(pipec.interface) and code, and the sizes that each variant suits."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

from pipec.interface import KernelInterface, TensorArgument, from_json, to_json
from pipec.record import record

NAME = "manifest.json"
_FORMAT = "pipec bundle"
_VERSION = 1
# The origin of a choice: a recorded measurement, or the time model.
Origin = Literal["table", "model"]
MOST_BYTES = 64 << 20  # limit for files that are read


class BundleError(ValueError):
    """The folder is not a bundle, or a damaged one; the text states the problem."""


@record
class Variant:
    """One variant of a kernel. `values`: its tuned parameters, as text; `cubin` and `ptx` are file names in the bundle."""

    values: tuple[tuple[str, str], ...]
    interface: KernelInterface
    cubin: str
    ptx: str


@record
class Choice:
    """The variant for these sizes, which are in the order of the kernel's dimensions."""

    sizes: tuple[int, ...]
    variant: int
    origin: Origin


@record
class Form:
    """A kernel for one target."""

    arch: str
    variants: tuple[Variant, ...]
    choices: tuple[Choice, ...]


@record
class Kernel:
    """All forms have the same arguments, so that one function launches any of them."""

    name: str
    forms: tuple[Form, ...]

    @property
    def interface(self) -> KernelInterface:
        return self.forms[0].variants[0].interface


@record
class Manifest:
    """`files`: the SHA-256 of each, by name; `constants`: those set by `-D`."""

    name: str
    compiler: str
    source: str
    constants: tuple[tuple[str, str], ...]
    kernels: tuple[Kernel, ...]
    files: Mapping[str, str]


def dimensions_of(interface: KernelInterface) -> tuple[str, ...]:
    """The dimensions bound by a launch, in order of first mention."""
    tensors = (argument for argument in interface.arguments if isinstance(argument, TensorArgument))
    return tuple(dict.fromkeys(extent for tensor in tensors for extent in tensor.shape if isinstance(extent, str)))


def to_text(manifest: Manifest) -> str:
    row = {
        "format": _FORMAT,
        "version": _VERSION,
        "compiler": manifest.compiler,
        "name": manifest.name,
        "source": manifest.source,
        "constants": dict(manifest.constants),
        "kernels": [_kernel_row(kernel) for kernel in manifest.kernels],
        "files": {name: manifest.files[name] for name in sorted(manifest.files)},
    }
    return json.dumps(row, indent=1) + "\n"


def _kernel_row(kernel: Kernel) -> dict[str, Any]:
    return {
        "name": kernel.name,
        "dimensions": dimensions_of(kernel.interface),
        "targets": [
            {
                "arch": form.arch,
                "variants": [
                    {
                        "values": dict(variant.values),
                        "cubin": variant.cubin,
                        "ptx": variant.ptx,
                        "interface": json.loads(to_json(variant.interface)),
                    }
                    for variant in form.variants
                ],
                "choices": [{"sizes": one.sizes, "variant": one.variant, "origin": one.origin} for one in form.choices],
            }
            for form in kernel.forms
        ],
    }


def from_text(text: str) -> Manifest:
    """The inverse of `to_text`. Raises BundleError for any other text."""
    try:
        row = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise BundleError(f"{NAME} is no JSON: {error}") from None
    if not isinstance(row, dict) or row.get("format") != _FORMAT:
        raise BundleError(f"{NAME} does not describe a bundle of pipec")
    if row.get("version") != _VERSION:
        raise BundleError(
            f"{NAME} is of version {row.get('version')!r}; this pipec reads version {_VERSION}: build the bundle again"
        )
    try:
        made = _read(row)
        _check(made)
    except (AttributeError, AssertionError, LookupError, TypeError, ValueError, RecursionError) as error:
        raise BundleError(f"{NAME} is damaged: {type(error).__name__}: {error}") from None
    return made


def _read(row: Mapping[str, Any]) -> Manifest:
    return Manifest(
        row["name"],
        row["compiler"],
        row["source"],
        tuple(row["constants"].items()),
        tuple(Kernel(one["name"], tuple(map(_read_form, one["targets"]))) for one in row["kernels"]),
        dict(row["files"]),
    )


def _read_form(row: Mapping[str, Any]) -> Form:
    return Form(
        row["arch"],
        tuple(
            Variant(tuple(one["values"].items()), from_json(json.dumps(one["interface"])), one["cubin"], one["ptx"])
            for one in row["variants"]
        ),
        tuple(Choice(tuple(one["sizes"]), one["variant"], one["origin"]) for one in row["choices"]),
    )


def _check(manifest: Manifest) -> None:
    """Checks what readers rely on. Raises ValueError."""
    for name, digest in manifest.files.items():
        if Path(name).name != name or not isinstance(digest, str):
            raise ValueError(f"{name!r} is no name of a file in the bundle")
    for kernel in manifest.kernels:
        count = len(dimensions_of(kernel.interface))
        for form in kernel.forms:
            if not form.variants:
                raise ValueError(f"{kernel.name!r} has no code for {form.arch!r}")
            for variant in form.variants:
                if variant.interface.name != kernel.name or not {variant.cubin, variant.ptx} <= manifest.files.keys():
                    raise ValueError(f"a variant of {kernel.name!r} has no code")
            for choice in form.choices:
                if len(choice.sizes) != count or not 0 <= choice.variant < len(form.variants):
                    raise ValueError(f"a choice of {kernel.name!r} has no variant")
                if not all(isinstance(size, int) and 0 <= size < 2**31 for size in choice.sizes):
                    raise ValueError(f"a choice of {kernel.name!r} is not for sizes")
