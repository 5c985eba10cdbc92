"""Records: what `@dataclass(frozen=True, slots=True)` gives, made in a twentieth of the time.

The compiler has more than two hundred classes of values, a command line is over in a third of a second, and a proof makes ten thousand
values. `dataclasses` compiles six methods for each class, and fills the fields of a frozen one by calls that go round the refusal to
assign. Here classes with as many fields share the compiled text of their methods, and assigning is refused by type checkers alone,
which see dataclasses (PEP 681).
"""

from collections.abc import Callable
from functools import cache
from types import CodeType, FunctionType
from typing import Any, TypeVar, dataclass_transform

Kind = TypeVar("Kind")


@dataclass_transform(frozen_default=True)
def record(cls: Any = None, /, *, eq: bool = True, remember: bool = False) -> Any:
    """A class of values: annotated names are its fields, in order; an assigned value is a default.

    Values are equal when they are of one class and their fields are equal; with `eq=False`, when they are the same object. `remember`:
    the hash is computed once, for what is deep and looked up often.
    """
    if cls is None:
        return lambda decorated: record(decorated, eq=eq, remember=remember)
    names = tuple(vars(cls).get("__annotations__", ()))
    defaults = tuple(cls.__dict__[name] for name in names if name in cls.__dict__)
    body = {name: value for name, value in cls.__dict__.items() if name not in names and name not in _OWN}
    body |= {"__slots__": (*names, "_hash") if remember else names, "__match_args__": names, "_is_record": True}
    body |= {
        "__repr__": _show,
        "__reduce__": _rebuild,
        "__init__": _method(cls, "init hash" if remember else "init", names, defaults),
    }
    if eq:
        body |= {"__eq__": _method(cls, "eq", names), "__hash__": _method(cls, "hash once" if remember else "hash", names)}
    return type(cls.__name__, cls.__bases__, body)


# What a class has without asking; the finished class, which has slots, gets its own.
_OWN = {"__dict__", "__weakref__"}
# The methods of a class with fields that the placeholders stand for: each, and what all of them become in one line.
_TEXTS: dict[str, tuple[str, Callable[[list[str]], str]]] = {
    "init": (
        "__init__",
        lambda names: f"(self, {', '.join(names)}):\n" + "".join(f" self.{one} = {one}\n" for one in names) + " return",
    ),
    "init hash": (
        "__init__",
        lambda names: f"(self, {', '.join(names)}):\n" + "".join(f" self.{one} = {one}\n" for one in names) + " self._hash = 0",
    ),
    "eq": (
        "__eq__",
        lambda names: (
            "(self, other):\n if self is other: return True\n if type(self) is not type(other): return NotImplemented\n return "
            + (" and ".join(f"self.{one} == other.{one}" for one in names) or "True")
        ),
    ),
    "hash": ("__hash__", lambda names: f"(self):\n return hash(({''.join(f'self.{one}, ' for one in names)}))"),
    "hash once": (
        "__hash__",
        lambda names: (
            "(self):\n if not self._hash:\n  self._hash = "
            f"hash((type(self), {''.join(f'self.{one}, ' for one in names)})) or 1\n return self._hash"
        ),
    ),
}


@cache
def _template(what: str, count: int) -> CodeType:
    """The compiled method of a class with so many fields, called _field0 and so on."""
    name, text = _TEXTS[what]
    made: dict[str, Any] = {}
    exec(f"def {name}{text([f'_field{at}' for at in range(count)])}", made)  # noqa: S102
    code: CodeType = made[name].__code__
    return code


def _method(cls: Any, what: str, names: tuple[str, ...], defaults: tuple[object, ...] = ()) -> FunctionType:
    """A method with the fields' names in the place of those of the template."""
    code = _template(what, len(names))
    into = {f"_field{at}": name for at, name in enumerate(names)}
    qualified = f"{cls.__qualname__}.{code.co_name}"
    code = code.replace(
        co_varnames=tuple(into.get(one, one) for one in code.co_varnames),
        co_names=tuple(into.get(one, one) for one in code.co_names),
        co_qualname=qualified,
    )
    made = FunctionType(code, globals(), code.co_name, defaults or None)
    made.__qualname__ = qualified
    return made


def replace(value: Kind, /, **changes: object) -> Kind:
    """A copy with some fields changed."""
    return type(value)(**fields_of(value) | changes)


def fields_of(value: Any) -> dict[str, Any]:
    """Field name -> value, in order."""
    return {name: getattr(value, name) for name in value.__match_args__}


def is_record(value: object) -> bool:
    return hasattr(type(value), "_is_record")


def _show(self: Any) -> str:
    return f"{type(self).__name__}({', '.join(f'{name}={value!r}' for name, value in fields_of(self).items())})"


def _rebuild(self: Any) -> tuple[type, tuple[object, ...]]:
    """For copies and pickles."""
    return type(self), tuple(fields_of(self).values())
