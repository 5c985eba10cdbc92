"""Which tests of a large family `make test` leaves to `make whole`."""

import hashlib
import math
from collections import defaultdict
from collections.abc import Iterator

import pytest


def left_out(items: list[pytest.Item], seed: str) -> Iterator[pytest.Item]:
    """Of each family that is marked `sample(share, of="parameter")` all but that share, at least one of each value of the parameter."""
    families: dict[tuple[str, float, str], list[pytest.Item]] = defaultdict(list)
    for item in items:
        mark = item.get_closest_marker("sample")
        if mark is not None and hasattr(item, "callspec"):
            kind = item.callspec.params[mark.kwargs["of"]] if mark.kwargs else None
            families[item.nodeid.partition("[")[0], mark.args[0], str(getattr(kind, "kind", kind))].append(item)
    for (_, share, _), members in families.items():
        members.sort(key=lambda item: hashlib.sha256(f"{seed}/{item.nodeid}".encode()).digest())
        yield from members[math.ceil(share * len(members)) :]
