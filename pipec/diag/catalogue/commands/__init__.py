"""Messages of the commands and of what they start: running, assembling, verifying, predicting."""

from typing import TYPE_CHECKING

from pipec.diag.deferred import modules_of

if not TYPE_CHECKING:
    __getattr__ = modules_of(__name__)
