"""Wrong versions of a file of certificates: one change to its JSON each, in the value of a field or in the structure."""

import copy
import json
import random
from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import cycle
from typing import Any

_DEEP = 11  # steps of a path by which fields are told apart: those inside of conditions are of a few kinds only
_BREAKING = 0.2  # of the changes: to what no file of certificates has there
Place = tuple[str | int, ...]
Kind = tuple[str, ...]  # a path without the places in lists: which field of the format it is


@dataclass(frozen=True)
class Forgery:
    """`path`: where in the file; `change`: what was done there."""

    path: Place
    change: str
    text: str


def forgeries(text: str, count: int, chosen: random.Random) -> Iterator[Forgery]:
    """So many different ones, each kind of field as often as any other."""
    data = json.loads(text)
    places: dict[Kind, list[Place]] = defaultdict(list)
    for path in _paths(data):
        places[kind_of(path)].append(path)
    numbers = sorted({at(data, path) for each in places.values() for path in each if type(at(data, path)) is int})
    words = sorted({at(data, path) for each in places.values() for path in each if isinstance(at(data, path), str)})
    seen: set[str] = {json.dumps(data)}
    for kind in cycle(sorted(places)):
        if len(seen) > count:
            return
        path = chosen.choice(places[kind])
        change, made = _forged(data, path, numbers, words, chosen)
        changed = json.dumps(made)
        if changed not in seen:
            seen.add(changed)
            yield Forgery(path, change, changed)


def kind_of(path: Place) -> Kind:
    return tuple(step if isinstance(step, str) else "[]" for step in path[:_DEEP])


def at(data: Any, path: Place) -> Any:
    for step in path:
        data = data[step]
    return data


def _paths(data: Any, path: Place = ()) -> Iterator[Place]:
    if path:
        yield path
    if isinstance(data, dict):
        for name, value in data.items():
            yield from _paths(value, (*path, name))
    elif isinstance(data, list):
        for number, value in enumerate(data):
            yield from _paths(value, (*path, number))


def _forged(data: Any, path: Place, numbers: list[int], words: list[str], chosen: random.Random) -> tuple[str, Any]:
    made = copy.deepcopy(data)
    holder, last = at(made, path[:-1]), path[-1]
    value = holder[last]
    changes: dict[str, Callable[[], object]] = {}

    def becomes(name: str, other: object) -> None:
        changes[name] = lambda: holder.__setitem__(last, other)

    if chosen.random() < _BREAKING or value is None or isinstance(value, dict):
        changes["left out"] = lambda: holder.__delitem__(last)
        becomes("nothing", None)
        becomes("a number", 3)
        becomes("a fraction", 0.5)
        becomes("a word", "3")
        becomes("a field more", {**value, "comment": "checked"} if isinstance(value, dict) else {"comment": "checked"})
    elif type(value) is int:
        becomes("one more", value + 1)
        becomes("one less", value - 1)
        becomes("the opposite", -value)
        becomes("another number of the file", chosen.choice(numbers))
    elif isinstance(value, str):
        becomes("another word of the file", chosen.choice(words))
        becomes("a longer word", value + "_")
    elif isinstance(value, list):
        becomes("empty", [])
        becomes("the other way round", value[::-1])
        becomes("one part twice", [*value, *value[:1]])
        becomes("its parts in another order", chosen.sample(value, len(value)))
    if isinstance(value, dict):
        becomes("fields exchanged", dict(zip(value, reversed(value.values()), strict=True)))
    if isinstance(holder, list):
        changes["left out"] = lambda: holder.__delitem__(last)
        changes["twice"] = lambda: holder.insert(int(last), copy.deepcopy(value))
        other = chosen.randrange(len(holder))
        changes["exchanged"] = lambda: holder.__setitem__(slice(None), _exchanged(holder, int(last), other))
    name = chosen.choice(sorted(changes))
    changes[name]()
    return name, made


def _exchanged(parts: list[Any], one: int, other: int) -> list[Any]:
    made = [*parts]
    made[one], made[other] = parts[other], parts[one]
    return made
