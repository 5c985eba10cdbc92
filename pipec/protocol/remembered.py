"""Texts for which neither a proof nor a deadlock was found, in the user's cache: the search, which counts its steps, would end there again.

Only that is remembered. What is proved is proved and checked anew, so whatever stands in the cache, nothing is called proved for it.
"""

from functools import cache as once
from pathlib import Path

from pipec import cache
from pipec._version import VERSION
from pipec.budgets import BUDGETS
from pipec.checks.verdict import Verdict

_KIND = "open"
_MOST_BYTES = 10_000  # of a sentence


def undecided_before(ptx: str, kernel: str) -> Verdict | None:
    """What an earlier search told of the kernel of that text, if it found nothing."""
    content = cache.read(_KIND, _key(ptx, kernel))
    if content is None or len(content) > _MOST_BYTES:
        return None
    try:
        return Verdict("open", content.decode())
    except UnicodeDecodeError:
        return None


def remember_undecided(ptx: str, kernel: str, told: Verdict) -> None:
    cache.write(_KIND, _key(ptx, kernel), told.sentence.encode())


def _key(ptx: str, kernel: str) -> str:
    limits = ", ".join(f"{row.name}: {row.limit}" for row in BUDGETS.values())
    return cache.key_of("undecided", VERSION, _search(), limits, kernel, ptx)


@once
def _search() -> str:
    """The source text of the search and of what it asks: another one may find more."""
    package = Path(__file__).parents[1]
    files = (path for part in ("protocol", "verify") for path in sorted((package / part).rglob("*.py")))
    return cache.key_of(*(path.read_bytes() for path in files))
