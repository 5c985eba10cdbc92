"""The tables of pipec.syntax.machine, which Lark makes of the grammar once: later processes find them in the user's cache."""

import json
import pkgutil
from functools import cache

from pipec import cache as kept
from pipec.record import fields_of
from pipec.syntax.machine import Tables, scanner
from pipec.syntax.shape import Shape

_MACHINE = "machine"  # the kind of entry in the cache
_FORM = "1"  # of the tables; another one where what they hold changes


@cache
def tables() -> Tables:
    """From the user's cache, where they are kept as JSON."""
    grammar = pkgutil.get_data("pipec.grammar", "pipec.lark")
    assert grammar is not None
    key = kept.key_of(grammar, _FORM)
    loaded = _loaded(key)
    if loaded is None:
        from pipec.syntax.grammar import machine_tables

        loaded = machine_tables()
        plain = fields_of(loaded) | {"rules": [list(fields_of(rule).values()) for rule in loaded.rules]}
        kept.write(_MACHINE, key, json.dumps(plain, separators=(",", ":")).encode())
    return loaded


def _loaded(key: str) -> Tables | None:
    content = kept.read(_MACHINE, key)
    if content is None:
        return None
    try:
        plain = json.loads(content)
        plain["rules"] = tuple(Shape(*rule) for rule in plain["rules"])
        found = Tables(**plain)
        scanner(found)
    except Exception:  # noqa: BLE001 - the user's own file with other contents fails in many ways, and all mean: no tables
        return None
    return found
