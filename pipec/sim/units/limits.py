"""How much of everything the hardware has (CUDA C++ programming guide, technical specifications per compute capability; PTX ISA 9.7.20).

The same for sm_90 and sm_100. The compiler has a table of its own (pipec.isa.targets), with which a test compares this one.
"""

WARPGROUP_WARPS = 4

# Of a CTA, and of a cluster (16 are not portable).
CTA_THREADS = 1024
CTA_SHARED_BYTES = 232_448
NAMED_BARRIERS = 16
CLUSTER_CTAS = 16

# Of a multiprocessor. The first bytes of the shared memory of each CTA are reserved for the system.
RESIDENT_THREADS = 2048
RESIDENT_CTAS = 32
SHARED_BYTES = 228 << 10
RESERVED_BYTES = 1024
REGISTERS = 64 << 10

# Of a thread: what setmaxnreg takes.
FEWEST_REGISTERS, MOST_REGISTERS, REGISTER_STEP = 24, 256, 8

# Multiprocessors of the largest product of a target: H200, B200.
_MULTIPROCESSORS = {"sm_90": 132, "sm_90a": 132}
_OTHER_MULTIPROCESSORS = 148


def multiprocessors(target: str) -> int:
    return _MULTIPROCESSORS.get(target, _OTHER_MULTIPROCESSORS)
