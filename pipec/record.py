"""Records, and mutable classes: like `@dataclass(slots=True)`, frozen or not, created in a twentieth of the time.

The compiler has more than two hundred such classes, a command line takes a third of a second, and a proof creates ten thousand values.
`dataclasses` compiles up to six methods for each class, and sets the fields of a frozen one by calls that bypass its `__setattr__`. Here
classes with the same number of fields share the compiled code of their methods, and only type checkers reject an assignment to a record;
they treat both decorators like `dataclass` (PEP 681).
"""

import sys
from collections.abc import Callable
from functools import cache
from operator import attrgetter
from types import CodeType, FunctionType
from typing import Any, TypeVar, dataclass_transform

Kind = TypeVar("Kind")


class _Made:
    """A default that is created separately for each object."""

    __slots__ = ("make",)

    def __init__(self, make: Callable[[], object]) -> None:
        self.make = make


def field(*, default_factory: Callable[[], Kind]) -> Kind:
    """A default that is created for each object, as in `dataclasses`."""
    made: Any = _Made(default_factory)
    return made  # type: ignore[no-any-return]  # type checkers see a value of the field's type


@dataclass_transform(frozen_default=True, field_specifiers=(field,))
def record(cls: Any = None, /, *, eq: bool = True, remember: bool = False, caches: bool = False) -> Any:
    """A class of values: annotated names are its fields, in order; an assigned value is a default.

    Values are equal if their classes and fields are equal; with `eq=False`, if they are the same object. `remember`: the hash is cached,
    for deep values that are looked up often. `caches`: adds a dictionary, as required by `functools.cached_property`.
    """
    if cls is None:
        return lambda decorated: record(decorated, eq=eq, remember=remember, caches=caches)
    hidden = (*(["_hash"] if remember else ()), *(["__dict__"] if caches else ()))
    body, names = _body(cls, "init hash" if remember else "init", hidden)
    body["_is_record"] = True
    if eq:
        values = _values_of(names)
        body |= {"__eq__": _equality(cls, values), "__hash__": _method(cls, "hash once", names) if remember else _hashing(values)}
    return type(cls.__name__, cls.__bases__, body)


@dataclass_transform(field_specifiers=(field,))
def mutable(cls: Any = None, /, *, eq: bool = True, caches: bool = False) -> Any:
    """A class of mutable objects. Two are equal if their classes and fields are equal, and they are not hashable; with `eq=False`, if
    they are the same object.

    `caches`: as for `record`.
    """
    if cls is None:
        return lambda decorated: mutable(decorated, eq=eq, caches=caches)
    body, names = _body(cls, "init", ("__dict__",) if caches else ())
    if eq:
        body |= {"__eq__": _equality(cls, _values_of(names)), "__hash__": None}
    return type(cls.__name__, cls.__bases__, body)


if sys.version_info >= (3, 14):
    from annotationlib import Format, get_annotations

    def _annotated(cls: Any) -> tuple[str, ...]:
        """The names annotated by the class itself; the annotations may not be importable (PEP 649)."""
        return tuple(get_annotations(cls, format=Format.FORWARDREF))

else:

    def _annotated(cls: Any) -> tuple[str, ...]:
        return tuple(vars(cls).get("__annotations__", ()))


def _body(cls: Any, init: str, hidden: tuple[str, ...] = ()) -> tuple[dict[str, Any], tuple[str, ...]]:
    """Recreates the class with slots (for its own fields and for `hidden`) and the common methods; returns the names of its fields,
    those of its base first."""
    if "__post_init__" in cls.__dict__:
        raise TypeError(f"{cls.__name__}: __post_init__ is for dataclasses")
    own = _annotated(cls)
    inherited: tuple[str, ...] = getattr(cls.__base__, "__match_args__", ())
    names = (*inherited, *own)
    defaults = tuple(cls.__dict__[name] for name in own if name in cls.__dict__)
    if inherited:
        defaults = (*(cls.__base__.__init__.__defaults__ or ()), *defaults)
    # Testing each argument for a default costs time, so only classes that need it do.
    init += " made" if any(isinstance(one, _Made) for one in defaults) else ""
    body = {name: value for name, value in cls.__dict__.items() if name not in own and name not in _OWN}
    body |= {"__slots__": (*own, *hidden), "__match_args__": names}
    body |= {"__repr__": _show, "__reduce__": _rebuild, "__init__": _method(cls, init, names, defaults)}
    return body, names


# Attributes that every class has; the recreated class, which has slots, gets its own.
_OWN = {"__dict__", "__weakref__"}


def _assigning(names: list[str], end: str = "return") -> str:
    return f"(self, {', '.join(names)}):\n" + "".join(f" self.{one} = {one}\n" for one in names) + f" {end}"


def _making(names: list[str]) -> str:
    given = "".join(f" self.{one} = {one}.make() if {one}.__class__ is _Made else {one}\n" for one in names)
    return f"(self, {', '.join(names)}):\n{given} return"


# The methods, each with its name and its source for fields of the given names.
_TEXTS: dict[str, tuple[str, Callable[[list[str]], str]]] = {
    "init": ("__init__", _assigning),
    "init made": ("__init__", _making),
    "init hash": ("__init__", lambda names: _assigning(names, "self._hash = 0")),
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
    """The compiled method of a class with this many fields, named _field0 and so on."""
    name, text = _TEXTS[what]
    made: dict[str, Any] = {}
    exec(f"def {name}{text([f'_field{at}' for at in range(count)])}", made)  # noqa: S102
    code: CodeType = made[name].__code__
    return code


# `==` and hashes are not from templates: compiling those took longer than all others, and few values are compared.


def _values_of(names: tuple[str, ...]) -> Callable[[Any], Any]:
    return attrgetter(*names) if names else lambda value: ()


def _hashing(values: Callable[[Any], Any]) -> Callable[[Any], int]:
    def __hash__(self: Any) -> int:
        return hash(values(self))

    return __hash__


def _equality(cls: Any, values: Callable[[Any], Any]) -> Callable[[Any, object], bool]:
    def __eq__(self: Any, other: object) -> bool:
        if self is other:
            return True
        return values(self) == values(other) if type(self) is type(other) else NotImplemented

    __eq__.__qualname__ = f"{cls.__qualname__}.__eq__"
    return __eq__


def _method(cls: Any, what: str, names: tuple[str, ...], defaults: tuple[object, ...] = ()) -> FunctionType:
    """A method with the fields' names substituted for those of the template."""
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
    kind: Any = type(value)
    values, places = _layout(kind)
    copied = [*values(value)]
    for name, changed in changes.items():
        if name not in places:
            raise TypeError(f"{kind.__name__} has no fields {', '.join(sorted(changes.keys() - places.keys()))}")
        copied[places[name]] = changed
    made: Kind = kind(*copied)
    return made


@cache
def _layout(kind: Any) -> tuple[Callable[[Any], tuple[Any, ...]], dict[str, int]]:
    """What gives all fields of an object of a class, and the place of each among them."""
    names: tuple[str, ...] = kind.__match_args__
    values = attrgetter(*names) if len(names) > 1 else lambda value: tuple(getattr(value, name) for name in names)
    return values, {name: place for place, name in enumerate(names)}


def fields_of(value: Any) -> dict[str, Any]:
    """Field name -> value, in order."""
    return {name: getattr(value, name) for name in value.__match_args__}


def is_record(value: object) -> bool:
    return hasattr(type(value), "_is_record")


def _show(self: Any) -> str:
    return f"{type(self).__name__}({', '.join(f'{name}={value!r}' for name, value in fields_of(self).items())})"


def _rebuild(self: Any) -> tuple[type, tuple[object, ...]]:
    """For copying and pickling."""
    return type(self), tuple(fields_of(self).values())
