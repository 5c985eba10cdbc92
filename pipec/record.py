"""Records: what `@dataclass(frozen=True, slots=True)` gives, made in a tenth of the time.

The compiler has more than a hundred node classes and a command line is over in half a second. `dataclasses` compiles six methods for
each class; here a class gets an `__init__` of its own and shares all else. Type checkers see dataclasses (PEP 681).
"""

from operator import attrgetter
from typing import Any, NoReturn, TypeVar, dataclass_transform

Kind = TypeVar("Kind")


@dataclass_transform(frozen_default=True)
def record(cls: Any = None, /, *, eq: bool = True) -> Any:
    """A class of immutable values: annotated names are its fields, in order; an assigned value is a default.

    Values are equal when they are of one class and their fields are equal; with `eq=False`, when they are the same object.
    """
    if cls is None:
        return lambda decorated: record(decorated, eq=eq)
    names = tuple(vars(cls).get("__annotations__", ()))
    defaults = {name: cls.__dict__[name] for name in names if name in cls.__dict__}
    body = {name: value for name, value in cls.__dict__.items() if name not in defaults and name not in _OWN}
    body |= _SHARED | (_BY_VALUE if eq else {})
    body |= {"__slots__": names, "__match_args__": names, "_key": attrgetter(*names) if names else type}
    made: Any = type(cls.__name__, cls.__bases__, body)
    made.__init__ = _initialiser(made, names, defaults)
    made.__init__.__qualname__ = f"{cls.__qualname__}.__init__"
    return made


# What a class has without asking; the finished class, which has slots, gets its own.
_OWN = {"__dict__", "__weakref__"}


def _initialiser(made: Any, names: tuple[str, ...], defaults: dict[str, object]) -> Any:
    """`def __init__(self, a, b=...)`, which fills the slots past the refusal to assign."""
    environment = {f"set_{name}": getattr(made, name).__set__ for name in names}
    environment |= {f"default_{name}": value for name, value in defaults.items()}
    parameters = [f"{name}=default_{name}" if name in defaults else name for name in names]
    lines = [f" set_{name}(self, {name})" for name in names] or [" pass"]
    exec(f"def __init__(self, {', '.join(parameters)}):\n" + "\n".join(lines), environment)  # noqa: S102
    return environment["__init__"]


def replace(value: Kind, /, **changes: object) -> Kind:
    """A copy with some fields changed."""
    return type(value)(**fields_of(value) | changes)


def fields_of(value: Any) -> dict[str, Any]:
    """Field name -> value, in order."""
    return {name: getattr(value, name) for name in value.__match_args__}


def is_record(value: object) -> bool:
    return hasattr(type(value), "_key")


def _refuse(self: Any, name: str, value: object = None) -> NoReturn:
    raise AttributeError(f"{type(self).__name__} is immutable: `{name}` cannot be changed")


def _show(self: Any) -> str:
    return f"{type(self).__name__}({', '.join(f'{name}={value!r}' for name, value in fields_of(self).items())})"


def _equal(self: Any, other: Any) -> bool:
    return self._key(self) == other._key(other) if type(self) is type(other) else NotImplemented


def _hash(self: Any) -> int:
    return hash(self._key(self))


def _rebuild(self: Any) -> tuple[type, tuple[object, ...]]:
    """For copies and pickles."""
    return type(self), tuple(fields_of(self).values())


_SHARED = {"__setattr__": _refuse, "__delattr__": _refuse, "__repr__": _show, "__reduce__": _rebuild}
_BY_VALUE = {"__eq__": _equal, "__hash__": _hash}
