"""Compiles many tiles at once, one process per core, without touching the GPU."""

import os
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from multiprocessing import get_context
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks.gemm.gemm_shapes import Tile

if TYPE_CHECKING:
    from pipec.runtime import Launcher

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"


@dataclass(frozen=True, slots=True)
class Built:
    """A tile's machine code, or what was wrong with it. `interfaces` are the JSON of pipec.interface, of the file's kernels in order."""

    tile: Tile
    interfaces: tuple[str, ...] = ()
    cubin: bytes = b""
    failed: str = ""


def build(tile: Tile, blocks: int) -> Built:
    """`blocks`: as many as the GPU has multiprocessors, for the kernels whose blocks stay."""
    import pipec
    from pipec.interface import to_json

    path = EXAMPLES / f"{tile.example}.pipe"
    persistent = {"BLOCKS": blocks} if "BLOCKS" in path.read_text(encoding="utf-8") else {}
    try:
        program = pipec.compile(path, constants={**persistent, **tile.constants})
        return Built(tile, tuple(to_json(kernel.interface) for kernel in program.values()), program.cubin())
    except pipec.CompileError as error:
        return Built(tile, failed="; ".join(diagnostic.title for diagnostic in error.diagnostics))


def build_all(tiles: Sequence[Tile], blocks: int) -> dict[str, Built]:
    """Tile name with its example -> what became of it."""
    # A child starts afresh: a fork of a process that has used CUDA could not.
    with ProcessPoolExecutor(os.cpu_count(), mp_context=get_context("spawn")) as pool:
        done = pool.map(build, tiles, [blocks] * len(tiles), chunksize=2)
        return {key(one.tile): one for one in done}


def launchers(built: Built) -> "tuple[Launcher, ...]":
    """One for each kernel of the file. Raises RuntimeError for what did not compile."""
    from pipec.interface import from_json
    from pipec.runtime import Image, Launcher

    if built.failed:
        raise RuntimeError(built.failed)
    image = Image(None, built.cubin, "sm_90a")
    return tuple(Launcher(from_json(interface), image) for interface in built.interfaces)


def key(tile: Tile) -> str:
    return f"{tile.example} {sorted(tile.constants.items())}"
