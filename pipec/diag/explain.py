"""What `pipec explain CODE` prints: the docstring of the message's class."""

from importlib import import_module
from inspect import cleandoc
from pkgutil import walk_packages
from string import Formatter

from pipec.diag import catalogue
from pipec.diag.message import Message


def load_catalogue() -> dict[str, type[Message]]:
    """Every message by its code. (A compilation imports only the modules whose checks it runs.)"""
    for module in walk_packages(catalogue.__path__, f"{catalogue.__name__}."):
        import_module(module.name)
    return Message.by_code


def explain(code: str) -> str | None:
    """The text for a code in any case (`e0303`), ending with a newline; None for a code that does not exist."""
    message = load_catalogue().get(code.upper())
    if message is None:
        return None
    return f"{message.code}: {plain_title(message)}\n\n{cleandoc(message.__doc__ or '')}\n"


def plain_title(message: type[Message]) -> str:
    """The subject of a message, or its title with `...` for what a report fills in."""
    if message.subject is not None:
        return message.subject
    return "".join(literal + ("..." if name is not None else "") for literal, name, _, _ in Formatter().parse(message.title))
