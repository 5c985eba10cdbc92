"""How a search ends that finds nothing."""

from pipec.verify.terms import Formula


class Undecided(Exception):
    """No certificate was found; says why. `hopeless`: another attempt will end alike. `asked`: the question after which it was so, `told`:
    how questions about sizes have come out before."""

    def __init__(self, why: str, *, hopeless: bool = False) -> None:
        super().__init__(why)
        self.hopeless = hopeless
        self.asked: Formula | None = None
        self.told: tuple[Formula, ...] = ()

    def alike(self, other: "Undecided") -> bool:
        """Whether the search came to its end at the same place."""
        return self.asked is not None and (self.asked, self.told) == (other.asked, other.told)
