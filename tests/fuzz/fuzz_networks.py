"""Random networks with the certificate of one order: what the checker accepts goes right in every order (`verify.random_networks`)."""

import random

from verify.random_networks import accepted, drawn, goes_wrong

COUNT = 20_000


def attempt(draw: random.Random) -> str | None:
    made = drawn(draw)
    wrong = goes_wrong(made, 20_000) if accepted(made) else ""
    return f"accepted, but {wrong}: {made}" if wrong else None
