"""Records behave like frozen, slotted dataclasses, mutable classes like slotted ones."""

import copy
import pickle
from functools import cached_property

import pytest

from pipec.record import field, fields_of, is_record, mutable, record, replace
from pipec.source import Source, Span


@record
class Point:
    """Two numbers."""

    x: int
    y: int = 0

    @property
    def total(self) -> int:
        return self.x + self.y


@record(eq=False)
class Place:
    name: str


@record(remember=True)
class Term:
    name: str
    parts: tuple["Term", ...] = ()


@record
class Nothing:
    pass


def test_fields_in_order_with_defaults() -> None:
    assert (Point(1).y, Point(1, 2).total, Point(y=3, x=1).x) == (0, 3, 1)
    assert fields_of(Point(1, 2)) == {"x": 1, "y": 2}
    assert repr(Point(1, 2)) == "Point(x=1, y=2)" and Point.__doc__ == "Two numbers."
    assert is_record(Point(1)) and not is_record(1) and not is_record(Point)
    match Point(1, 2):
        case Point(1, y):
            assert y == 2


@pytest.mark.parametrize(("arguments", "named"), [((), {}), ((1, 2, 3), {}), ((1,), {"x": 1}), ((1,), {"z": 1})])
def test_wrong_arguments(arguments: tuple, named: dict) -> None:
    with pytest.raises(TypeError, match=r"Point.__init__\(\)"):
        Point(*arguments, **named)


def test_nothing_is_added() -> None:
    """That a field is not assigned to is for type checkers to see."""
    point = Point(1)
    with pytest.raises(AttributeError):
        point.z = 2  # type: ignore[attr-defined]
    assert not hasattr(point, "__dict__")
    assert replace(point, y=5) == Point(1, 5) and point == Point(1)


def test_equality_and_hashes() -> None:
    assert Point(1, 2) == Point(1, 2) != Point(2, 1) and len({Point(1, 2), Point(1, 2)}) == 1
    assert Place("a") != Place("a") and len({Place("a"), Place("a")}) == 2
    assert Nothing() == Nothing() and Nothing() != Point(1) and repr(Nothing()) == "Nothing()"
    with pytest.raises(TypeError, match="unhashable"):
        hash(Point([]))  # type: ignore[arg-type]


def test_hashes_that_are_remembered() -> None:
    one, same, other = Term("a", (Term("b"),)), Term("a", (Term("b"),)), Term("a", (Term("c"),))
    assert hash(one) == hash(one) == hash(same) and one == same != other and len({one, same, other}) == 2
    assert fields_of(one) == {"name": "a", "parts": (Term("b"),)} and repr(Term("b")) == "Term(name='b', parts=())"
    assert pickle.loads(pickle.dumps(one)) == one


def test_copies_and_pickles() -> None:
    span = Span(Source("a", "b"), 1, 1, 1, 2)
    assert copy.copy(span) == span
    assert copy.deepcopy(Point(1, 2)) == Point(1, 2) == pickle.loads(pickle.dumps(Point(1, 2)))


@mutable
class Found:
    name: str
    places: list[int] = field(default_factory=list)
    last: int | None = None


def test_mutable_classes() -> None:
    one, other = Found("a"), Found("a")
    one.places.append(1)
    one.last = 1
    assert (other.places, other.last) == ([], None) and one != other == Found("a", [])
    assert replace(one, name="b") == Found("b", [1], 1) and not is_record(one)
    assert copy.deepcopy(one) == one == pickle.loads(pickle.dumps(one))
    with pytest.raises(AttributeError):
        one.other = 1  # type: ignore[attr-defined]
    with pytest.raises(TypeError, match="unhashable"):
        hash(one)


@mutable(caches=True)
class Reread(Found):
    again: int = 0

    @cached_property
    def total(self) -> int:
        return len(self.places) + self.again


def test_a_class_that_caches_and_has_the_fields_of_its_base() -> None:
    one = Reread("a", [1, 2], again=3)
    assert (one.total, one.last, fields_of(one)) == (5, None, {"name": "a", "places": [1, 2], "last": None, "again": 3})
    one.again = 4
    assert one.total == 5 and one == Reread("a", [1, 2], None, 4) != Found("a", [1, 2])
    assert Reread("b").places is not Reread("b").places
