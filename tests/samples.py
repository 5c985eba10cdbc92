"""Which tests of a large family `make test` leaves to `make whole`.

Each commit takes others, and everybody who has it checked out the same ones: what is drawn follows from its name.
"""

import hashlib
import math
import subprocess
from collections import defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TypeVar

import pytest

Value = TypeVar("Value")
LEFT_OUT = pytest.StashKey[bool]()  # of a case that runs as far as it is cheap (tests/lower/conftest.py)
TIMINGS = 0.3  # of the timings under which a program is run otherwise alike
# Of the cases of each family without a mark: nearly all are kernels or texts that pipec judges, several of which come through each rule.
FOLDERS = {"protocol": 0.25, "verify": 0.34, "checks": 0.34, "predict": 0.5}

_whole, _seed = True, "1"  # outside of pytest nothing is left out


def seed_of_commit() -> str:
    """The name of the commit that is checked out; "1" where there is none, as in an unpacked archive."""
    command = ["git", "-C", str(Path(__file__).parent), "rev-parse", "--short=10", "HEAD"]
    try:
        asked = subprocess.run(command, capture_output=True, text=True, check=False)
    except OSError:
        return "1"
    return asked.stdout.strip() or "1"


def number_of(seed: str) -> int:
    """A seed for those who take numbers."""
    return int.from_bytes(hashlib.sha256(seed.encode()).digest()[:8])


def take(whole: bool, seed: str) -> None:
    """Said once, before the files of tests are imported."""
    global _whole, _seed
    _whole, _seed = whole, seed


def volume(few: int, many: int) -> int:
    """How much a test does that draws its cases inside: `few` in `make test`, `many` in `make whole`."""
    return many if _whole else few


def numbers(family: str, few: int, many: int) -> list[int]:
    """Which of the cases 0 to `many` - 1 a test takes that draws them by their number: `few` of them in `make test`."""
    return some(family, range(many), few / many)


def taken(family: str, value: object, share: float) -> bool:
    """Whether a value is among the share of its family that `make test` takes, where the others are not known."""
    return _whole or int.from_bytes(_drawn(family, value)[:4]) < share * 2**32


def some(family: str, values: Sequence[Value], share: float) -> list[Value]:
    """Of values that many tests take, the share that all of them take in `make test`, in their order; at least one of any."""
    if _whole:
        return list(values)
    first = sorted(values, key=lambda value: _drawn(family, value))[: math.ceil(share * len(values))]
    return [value for value in values if value in first]


def _drawn(family: str, value: object) -> bytes:
    name = value.stem if isinstance(value, Path) else value  # alike wherever the checkout is
    return hashlib.sha256(f"{_seed}/{family}/{name}".encode(errors="surrogatepass")).digest()


def left_out(items: list[pytest.Item], seed: str) -> Iterator[pytest.Item]:
    """Of each family that is marked `sample(share, of="parameter")` all but that share, at least one of each value of the parameter;
    of other families a third of the timings of each test, or the share of its folder. What says how much `work` it is is left out before
    what is less. Of those marked `combinations(share)` what has no value of any parameter that others have not, too."""
    families: dict[tuple[str, float, str], list[pytest.Item]] = defaultdict(list)
    combined: dict[tuple[str, float], list[pytest.Item]] = defaultdict(list)
    works: dict[str, int] = {}
    for item in items:
        if not hasattr(item, "callspec"):
            continue
        name, mark = item.nodeid.partition("[")[0], item.get_closest_marker("sample")
        combinations = item.get_closest_marker("combinations")
        if combinations is not None and mark is None:
            combined[name, combinations.args[0]].append(item)
        elif mark is not None:
            kind = item.callspec.params[mark.kwargs["of"]] if mark.kwargs else None
            works[item.nodeid] = getattr(kind, "work", 0)
            families[name, mark.args[0], str(getattr(kind, "kind", kind))].append(item)
        elif "timing" in item.callspec.params:
            others = {parameter: id(value) for parameter, value in item.callspec.params.items() if parameter != "timing"}
            families[name, TIMINGS, str(others)].append(item)
        elif (folder := _folder(item.nodeid)) in FOLDERS:
            families[name, FOLDERS[folder], ""].append(item)
    for (_, share, _), members in families.items():
        members.sort(key=lambda item: (works.get(item.nodeid, 0), hashlib.sha256(f"{seed}/{item.nodeid}".encode()).digest()))
        yield from members[math.ceil(share * len(members)) :]
    for (_, share), members in combined.items():
        yield from _repeating(members, math.ceil(share * len(members)), seed)


def _folder(name: str) -> str:
    """That of the file of a test, below tests/."""
    return name.partition("::")[0].rpartition("/")[0].rpartition("/")[2]


def compiles(item: pytest.Item) -> bool:
    """Whether a case that is left out is compiled all the same: a kernel of its own, and not another timing of one."""
    return item.path.parent.name == "lower" and any(item.get_closest_marker(mark) for mark in ("sample", "combinations"))


def _repeating(members: list[pytest.Item], count: int, seed: str) -> list[pytest.Item]:
    """All but `count` members, or more where it takes more to have every value of every parameter once."""
    members = sorted(members, key=lambda item: hashlib.sha256(f"{seed}/{item.nodeid}".encode()).digest())
    seen: set[tuple[str, str]] = set()
    others = []
    for item in members:
        values = {(name, repr(value)) for name, value in item.callspec.params.items()}  # type: ignore[attr-defined]
        if values <= seen:
            others.append(item)
        seen |= values
    needed = len(members) - len(others)
    return others[max(0, count - needed) :]
