"""How much of a grid is resident on a device (CUDA programming guide, technical specifications per compute capability)."""

from __future__ import annotations

from math import prod

from ..ptx.types import LANES
from ..units import limits
from .image import Image
from .machine import Triple
from .memory.spaces import SHARED_BASE


def multiprocessors(image: Image) -> int:
    return limits.multiprocessors(image.module.target[0] if image.module.target else "")


def resident_clusters(image: Image, block: Triple, shape: Triple) -> int:
    """Clusters of `shape` CTAs that are resident at once on the whole device, ignoring registers. At least one."""
    threads = -(-prod(block) // LANES) * LANES
    shared = max(image.shared_end, SHARED_BASE)
    ctas = min(limits.RESIDENT_CTAS, limits.RESIDENT_THREADS // threads, limits.SHARED_BYTES // shared)
    return max(1, multiprocessors(image) * ctas // prod(shape))
