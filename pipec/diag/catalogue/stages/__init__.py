"""Messages about stages: who obtains, signals and releases them, and whether the orders of the roles fit together."""

from typing import TYPE_CHECKING

from pipec.diag.deferred import modules_of

if not TYPE_CHECKING:
    __getattr__ = modules_of(__name__)
