"""How much of a grid is resident on a device (CUDA programming guide, technical specifications per compute capability)."""

from __future__ import annotations

from math import prod

from .image import Image
from .machine import Triple
from .memory.spaces import SHARED_BASE

# Streaming multiprocessors of the largest product of a target: H200, B200.
_MULTIPROCESSORS = {"sm_90": 132, "sm_90a": 132}
_OTHER_MULTIPROCESSORS = 148
_THREADS, _CTAS, _SHARED = 2048, 32, 228 << 10  # of one multiprocessor
_WARP = 32


def multiprocessors(image: Image) -> int:
    return _MULTIPROCESSORS.get(image.module.target[0] if image.module.target else "", _OTHER_MULTIPROCESSORS)


def resident_clusters(image: Image, block: Triple, shape: Triple) -> int:
    """Clusters of `shape` CTAs that are resident at once on the whole device, ignoring registers. At least one."""
    threads = -(-prod(block) // _WARP) * _WARP
    # The first bytes of every CTA's shared memory are reserved for the system.
    shared = max(image.shared_end, SHARED_BASE)
    ctas = min(_CTAS, _THREADS // threads, _SHARED // shared)
    return max(1, multiprocessors(image) * ctas // prod(shape))
