"""Messages about tiles: their sizes and types, and the limits of copies, multiplications, memory and registers."""

from typing import TYPE_CHECKING

from pipec.diag.deferred import modules_of

if not TYPE_CHECKING:
    __getattr__ = modules_of(__name__)
