"""Meanings of instructions, one module per family. Importing this package registers them all."""

from . import (  # noqa: F401
    arithmetic,
    async_copy,
    atomics,
    barriers,
    bits,
    bulk,
    calls,
    clc,
    compare,
    control,
    convert,
    data,
    floating,
    loadstore,
    matrix,
    mbarrier,
    packed,
    tcgen05,
    warp,
    wgmma,
)
