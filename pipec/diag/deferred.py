"""Modules imported at first use: a compilation without errors needs no messages."""

from collections.abc import Callable
from importlib import import_module
from typing import Any


class _Deferred:
    """Stand-in for a module; not importlib's LazyLoader, whose modules a second thread may see half loaded before Python 3.12."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, attribute: str) -> Any:
        found = self.__dict__[attribute] = getattr(import_module(self._name), attribute)
        return found


def modules_of(package: str) -> Callable[[str], _Deferred]:
    """The `__getattr__` of a package (PEP 562): its result for `from package import module` while the module is not imported."""

    def module(name: str) -> _Deferred:
        if name.startswith("_"):
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        return _Deferred(f"{package}.{name}")

    return module
