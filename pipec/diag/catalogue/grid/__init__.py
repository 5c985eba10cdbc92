"""Messages about what lies beyond one CTA: clusters, the grid, its order of tiles, global memory."""

from typing import TYPE_CHECKING

from pipec.diag.deferred import modules_of

if not TYPE_CHECKING:
    __getattr__ = modules_of(__name__)
