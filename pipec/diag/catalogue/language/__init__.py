"""Messages about the text: syntax, names, types, compile-time values, conditions, features that a target lacks."""

from typing import TYPE_CHECKING

from pipec.diag.deferred import modules_of

if not TYPE_CHECKING:
    __getattr__ = modules_of(__name__)
