"""The failure of a search."""

from pipec.verify.terms import Formula


class Undecided(Exception):
    """No certificate was found; says why. `hopeless`: other attempts will fail likewise. `asked`: the question at which it failed,
    `told`: the earlier outcomes of tests of sizes."""

    def __init__(self, why: str, *, hopeless: bool = False) -> None:
        super().__init__(why)
        self.hopeless = hopeless
        self.asked: Formula | None = None
        self.told: tuple[Formula, ...] = ()

    def alike(self, other: "Undecided") -> bool:
        """Whether the search failed at the same place."""
        return self.asked is not None and (self.asked, self.told) == (other.asked, other.told)
