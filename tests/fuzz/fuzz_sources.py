"""Mutated sources, from the examples and from nothing: every text ends in a result or in diagnostics (`test_fuzz.py`)."""

import random

from test_fuzz import ODD, SOURCES, WORDS, ends_well, mutated

_KINDS = ("delete", "replace", "insert", "swap", "repeat")


def attempt(draw: random.Random) -> str | None:
    if draw.random() < 0.2:  # words in no order, of which the shortest text matters most
        text = "".join(
            draw.choice((draw.choice(WORDS), draw.choice(ODD), " ", "\n", ":", "\n    ")) for _ in range(draw.randrange(1, 12))
        )
    else:
        edits = [
            (draw.choice(_KINDS), draw.randrange(10**6), draw.randrange(10**6), draw.choice(WORDS + ODD))
            for _ in range(draw.randrange(1, 4))
        ]
        text = mutated(draw.choice(SOURCES), edits)
    try:
        state = ends_well(text, "limits")
    except Exception as wrong:  # noqa: BLE001 - whatever it is, the text that does it is the answer
        return f"{type(wrong).__name__}: {wrong}\n{text!r}"
    return None if state.failed or state.plans else f"neither plans nor diagnostics\n{text!r}"
