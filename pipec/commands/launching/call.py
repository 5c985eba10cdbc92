"""How to call a kernel of another compiler, from the command line or a file."""

import argparse
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from pipec.api.files import read_array
from pipec.commands.launching.argument_text import Argument, ArgumentReader, BadText
from pipec.diag.catalogue.commands import run as messages
from pipec.diag.message import Failure


@dataclass(frozen=True)
class Call:
    """How to call a kernel; None: as its directives say. `allocations` are arrays that it accesses only indirectly through memory.
    `registers` of a thread, as the assembler allocates them; `stated`: what a launch file says."""

    kernel: str | None
    grid: tuple[int, ...] | None
    block: tuple[int, ...] | None
    cluster: tuple[int, ...] | None
    shared: int
    cooperative: bool
    programmatic: bool | None
    arguments: tuple[Argument, ...]
    arrays: Mapping[str, np.ndarray]
    allocations: tuple[np.ndarray, ...] = ()
    save: tuple[tuple[str, str], ...] = ()
    registers: int | None = None
    stated: frozenset[str] = frozenset()


def call_of(options: argparse.Namespace) -> Call:
    """The call given by command-line options. Raises Failure."""
    reader = ArgumentReader(options.seed, read_array)
    return Call(
        options.kernel,
        options.grid,
        options.block,
        options.cluster,
        options.shared,
        options.cooperative,
        options.programmatic or None,
        tuple(_argument(reader, text) for text in options.arguments),
        reader.arrays,
        save=tuple(options.save),
    )


def _argument(reader: ArgumentReader, text: str) -> Argument:
    try:
        return reader.argument(text)
    except BadText as error:
        raise Failure(messages.BadArgument(option="--arg", text=text, problem=str(error))) from None
