"""Which tests of a large family `make test` leaves to `make whole`."""

import hashlib
import math
from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import TypeVar

import pytest

Value = TypeVar("Value")
TIMINGS = 0.3  # of the timings under which a program is run otherwise alike

_whole, _seed = True, "1"  # outside of pytest nothing is left out


def take(whole: bool, seed: str) -> None:
    """Said once, before the files of tests are imported."""
    global _whole, _seed
    _whole, _seed = whole, seed


def volume(few: int, many: int) -> int:
    """How much a test does that draws its cases inside: `few` in `make test`, `many` in `make whole`."""
    return many if _whole else few


def taken(family: str, value: object, share: float) -> bool:
    """Whether a value is among the share of its family that `make test` takes, where the others are not known."""
    drawn = int.from_bytes(hashlib.sha256(f"{_seed}/{family}/{value}".encode()).digest()[:4])
    return _whole or drawn < share * 2**32


def some(family: str, values: Sequence[Value], share: float) -> list[Value]:
    """Of values that many tests take, the share that all of them take in `make test`, in their order; at least one of any."""
    if _whole:
        return list(values)
    ranked = sorted(values, key=lambda value: hashlib.sha256(f"{_seed}/{family}/{value}".encode()).digest())
    return [value for value in values if value in ranked[: math.ceil(share * len(values))]]


def left_out(items: list[pytest.Item], seed: str) -> Iterator[pytest.Item]:
    """Of each family that is marked `sample(share, of="parameter")` all but that share, at least one of each value of the parameter;
    of other families a third of the timings of each test. What says how much `work` it is is left out before what is less."""
    families: dict[tuple[str, float, str], list[pytest.Item]] = defaultdict(list)
    works: dict[str, int] = {}
    for item in items:
        if not hasattr(item, "callspec"):
            continue
        name, mark = item.nodeid.partition("[")[0], item.get_closest_marker("sample")
        if mark is not None:
            kind = item.callspec.params[mark.kwargs["of"]] if mark.kwargs else None
            works[item.nodeid] = getattr(kind, "work", 0)
            families[name, mark.args[0], str(getattr(kind, "kind", kind))].append(item)
        elif "timing" in item.callspec.params:
            others = {parameter: id(value) for parameter, value in item.callspec.params.items() if parameter != "timing"}
            families[name, TIMINGS, str(others)].append(item)
    for (_, share, _), members in families.items():
        members.sort(key=lambda item: (works.get(item.nodeid, 0), hashlib.sha256(f"{seed}/{item.nodeid}".encode()).digest()))
        yield from members[math.ceil(share * len(members)) :]
