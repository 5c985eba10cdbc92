"""`pipec build`: a folder with machine code, C files and a manifest."""

import argparse
from pathlib import Path

from pipec.api.files import cannot_write, read_input, write_output
from pipec.bundle.build import Built, Chosen, Request, Sizes, build, build_chosen
from pipec.commands.of_library import kernel_of_library
from pipec.commands.options import LIBRARY
from pipec.diag.catalogue.commands.bundles import BadSizes
from pipec.diag.message import Failure
from pipec.tune.several import Several

_MOST_DIGITS = 10  # of a size
_LARGEST = 2**31 - 1


def build_bundle(options: argparse.Namespace) -> int:
    """Raises Failure. If a file cannot be written, the ones before it stay; without a manifest they are not a bundle."""
    request = Request(
        dict(options.constants),
        tuple(dict.fromkeys(options.targets)),
        options.kernel,
        {name: _sizes(name, value) for name, value in options.shapes},
        options.tiles,
        options.allow_undecided,
    )
    built = _of_library(options, request) if options.file.startswith(LIBRARY) else _of_file(options, request)
    folder = Path(options.output)
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise cannot_write(options.output, error) from None
    for file, data in built.files.items():  # the manifest last
        write_output(str(folder / file), data)
    for kernel in built.manifest.kernels:
        for form in kernel.forms:
            forms = [" ".join(f"{name}={value}" for name, value in variant.values) for variant in form.variants]
            told = f": {'; '.join(forms)}" if any(forms) else ""
            count = "1 form" if len(forms) == 1 else f"{len(forms)} forms, chosen at {len(form.choices)} sizes"
            options.printer.text(f"{kernel.name} for {form.arch}: {count}{told}")
            row = [dict(variant.values) for variant in form.variants]
            options.printer.row("form", kernel=kernel.name, arch=form.arch, variants=row, choices=len(form.choices))
    options.printer.text(f"{options.output}: {', '.join(file for file in built.files if not file.endswith(('.cubin', '.ptx')))}")
    options.printer.row("output", folder=options.output, files=list(built.files))
    return 0


def _of_file(options: argparse.Namespace, request: Request) -> Built:
    source = read_input(options.file)
    name = options.name or (Path(source.name).stem if options.file != "-" else "kernels")
    return build(source, name, request)


def _of_library(options: argparse.Namespace, request: Request) -> Built:
    kernels = [kernel_of_library(options, target) for target in request.targets or (None,)]
    chosen = []
    for kernel in kernels:
        assert kernel.tuned is not None and isinstance(kernel.tuned.choices, Several)
        chosen.append(Chosen(kernel.arch, kernel.tuned.interface, kernel.tuned.choices))
    return build_chosen(chosen, options.name or chosen[0].interface.name, options.file, request)


def _sizes(name: str, text: str) -> Sizes:
    """The sizes of `--shape M=16,64`, without duplicates."""
    words = text.split(",")
    if not all(word.isascii() and word.isdecimal() and len(word) <= _MOST_DIGITS and 0 < int(word) <= _LARGEST for word in words):
        raise Failure(BadSizes(name=name, value=text[:40]))
    return tuple(dict.fromkeys(map(int, words)))
