"""Small programs that keep an order, and what is left of each when one thing that keeps it is taken away.

They are of the kinds that producer/consumer kernels are made of: hand-overs by barriers of all sorts, copies in flight, rings of
stages, matrix units, tensor memory, other CTAs, other proxies, scopes, roles that wait for each
other, the life of barriers. A body runs in all threads of its launch.
"""

from . import barriers, clusters, copies, global_memory, matrix_units, partitions
from .program import Program

PROGRAMS: dict[str, Program] = {
    **barriers.PROGRAMS,
    **copies.PROGRAMS,
    **matrix_units.PROGRAMS,
    **global_memory.PROGRAMS,
    **clusters.PROGRAMS,
    **partitions.PROGRAMS,
}
